//! Whether something is counted from now on, or no longer.

/// Whether an amount is added to a sum or taken off it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    Add,
    Take,
}

impl Sign {
    /// Adds where something is so now, and takes off where it is not any more.
    pub fn adding_if(is_so: bool) -> Self {
        if is_so { Sign::Add } else { Sign::Take }
    }

    pub fn is_add(self) -> bool {
        self == Sign::Add
    }

    /// The amount to add to a sum.
    pub fn of<T: std::ops::Neg<Output = T>>(self, amount: T) -> T {
        match self {
            Sign::Add => amount,
            Sign::Take => -amount,
        }
    }
}
