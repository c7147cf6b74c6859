//! How well a quota is served: what it holds as a share of what it is entitled to, compared exactly.

use std::cmp::Ordering;

/// A share. Nothing used of no entitlement is just what it should be; something used of no entitlement is more than any
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// How important the quota is; the more important is served first, whatever it has.
    priority: i32,
    used: i128,
    entitled: i128,
}

impl Share {
    /// What pods without a quota have, and quotas that are entitled to nothing and use nothing.
    pub const EVEN: Share = Share { priority: 0, used: 1, entitled: 1 };

    fn of(used: i128, entitled: i128) -> Share {
        match (used, entitled) {
            (..=0, ..=0) => Share::EVEN,
            (_, ..=0) => Share { priority: 0, used: 1, entitled: 0 },
            (used, entitled) => Share { priority: 0, used: used.max(0), entitled },
        }
    }

    /// The largest over resources, each with what is used and what a quota is entitled to. One that it neither uses nor
    /// is entitled to says nothing: a quota that names it is served no better than one that does not.
    pub fn largest(resources: impl Iterator<Item = (i128, i128)>) -> Share {
        let speaking = resources.filter(|(used, entitled)| *used > 0 || *entitled > 0);
        speaking.map(|(used, entitled)| Share::of(used, entitled)).max().unwrap_or(Share::EVEN)
    }

    pub fn priority(self) -> i32 {
        self.priority
    }

    pub fn with_priority(self, priority: i32) -> Share {
        Share { priority, ..self }
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> Ordering {
        other.priority.cmp(&self.priority).then_with(|| self.compare(other))
    }
}

impl Share {
    fn compare(&self, other: &Self) -> Ordering {
        compare((self.used, self.entitled), (other.used, other.entitled))
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares two fractions of numbers that are not negative. Products could pass 128 bits, so the whole parts are
/// compared first, and where they agree the rests, upside down.
fn compare(a: (i128, i128), b: (i128, i128)) -> Ordering {
    match (a.1 == 0, b.1 == 0) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    (a.0 / a.1).cmp(&(b.0 / b.1)).then_with(|| match (a.0 % a.1, b.0 % b.1) {
        (0, 0) => Ordering::Equal,
        (0, _) => Ordering::Less,
        (_, 0) => Ordering::Greater,
        (x, y) => compare((b.1, y), (a.1, x)),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn compares_as_cross_products_do(
            (a, c) in (0i128..1 << 60, 0i128..1 << 60),
            (b, d) in (1i128..1 << 60, 1i128..1 << 60),
        ) {
            prop_assert_eq!(Share::of(a, b).cmp(&Share::of(c, d)), (a * d).cmp(&(c * b)));
        }
    }

    #[test]
    fn a_resource_that_a_quota_neither_uses_nor_is_entitled_to_says_nothing() {
        assert_eq!(Share::largest([(1, 4), (0, 0)].into_iter()), Share::of(1, 4));
        assert_eq!(Share::largest([(1, 4), (1, 0)].into_iter()), Share::of(1, 0));
        assert_eq!(Share::largest([(0, 0)].into_iter()), Share::EVEN);
    }

    #[test]
    fn no_entitlement() {
        let nothing = Share::of(0, 0);
        assert!(Share::of(1, 2) < nothing && nothing < Share::of(3, 2) && Share::of(i128::MAX, 1) < Share::of(1, 0));
    }
}
