//! A value that knows whether it may have changed.

use std::ops::{Deref, DerefMut};

/// A value with a number that is another one after every change, for what is worked out from it and kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tracked<T> {
    value: T,
    revision: u64,
}

impl<T> Tracked<T> {
    /// The value is as it was when it had this number, if it has it still.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

impl<T> From<T> for Tracked<T> {
    fn from(value: T) -> Self {
        Tracked { value, revision: 0 }
    }
}

impl<T> Deref for Tracked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Whoever may change it, does.
impl<T> DerefMut for Tracked<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.revision += 1;
        &mut self.value
    }
}
