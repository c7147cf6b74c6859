//! Kubernetes quantities (`100m`, `1.5Gi`, `1e3`), exactly.
//!
//! A quantity is read as Kubernetes reads it, kept as a whole number of billionths (the finest step
//! Kubernetes knows) and printed in Kubernetes' canonical form. All arithmetic is on integers.
//! Reading takes no memory of its own, since it is done for each container of each pod. What a
//! resource's *amount* is (millicores of `cpu`, base units of all else) is decided here too, so that
//! there is one place where notation and ledger meet.
//!
//! Kubernetes silently caps, wraps or zeroes what does not fit; here that is an error with a message.
//! `tests/quantity.rs` compares thousands of values with what Kubernetes itself answers, and lists
//! every class in which the two differ on purpose.

mod print;
mod read;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::fact::{Amount, CPU, MEMORY};
use print::Printed;
pub use read::QuantityError;

/// The power of ten of the finest step: a quantity counts billionths.
const NANO: i32 = -9;
/// Billionths in a thousandth.
const NANOS_PER_MILLI: i128 = 1_000_000;
/// Billionths in a whole.
const NANOS_PER_UNIT: i128 = 1_000_000_000;

/// The family of suffixes a quantity is printed with. Reading keeps the one it was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `n`, `u`, `m`, none, `k`, `M`, `G`, `T`, `P`, `E`: powers of 1000.
    DecimalSI,
    /// `Ki`, `Mi`, `Gi`, `Ti`, `Pi`, `Ei`: powers of 1024. Values that are not whole or lie within
    /// ±1024 are printed as [`Format::DecimalSI`], as Kubernetes does: 1000 bytes are `1k`.
    BinarySI,
    /// `e3`, `e-6`: powers of 1000, spelt out.
    DecimalExponent,
}

impl Format {
    /// The format in which amounts of `resource` are shown: binary for memory and storage, decimal
    /// for all else.
    pub fn of(resource: &str) -> Self {
        match resource {
            MEMORY | "ephemeral-storage" | "storage" => Format::BinarySI,
            _ if resource.starts_with("hugepages-") => Format::BinarySI,
            _ => Format::DecimalSI,
        }
    }
}

/// An exact number with the format it is printed in.
///
/// Quantities compare by value alone: `1Gi`, `1024Mi` and `1073741824` are equal.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// So many billionths.
    pub fn from_nanos(nanos: i128, format: Format) -> Self {
        Quantity { nanos, format }
    }

    /// The value in billionths.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// The format it is printed in.
    pub fn format(self) -> Format {
        self.format
    }

    /// The same value, to be printed in another format.
    pub fn with_format(self, format: Format) -> Self {
        Quantity { format, ..self }
    }

    /// Whether it is 0.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is below 0.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The value in whole units. A fraction counts as a whole one, away from zero: who asks for a
    /// little gets some.
    pub fn value(self) -> Result<i64, AmountError> {
        self.count_of(NANOS_PER_UNIT).ok_or(AmountError { quantity: self, unit: "" })
    }

    /// The value in thousandths, a fraction counting as a whole one, away from zero.
    pub fn milli_value(self) -> Result<i64, AmountError> {
        self.count_of(NANOS_PER_MILLI).ok_or(AmountError { quantity: self, unit: "m" })
    }

    /// The value as ledgers count `resource`: millicores for `cpu`, whole units for all else.
    pub fn amount(self, resource: &str) -> Result<Amount, AmountError> {
        if resource == CPU { self.milli_value() } else { self.value() }
    }

    /// The value as ledgers count a sum of `resource`, which may be beyond the 64 bits of one amount.
    pub fn sum(self, resource: &str) -> i128 {
        self.wide_count_of(if resource == CPU { NANOS_PER_MILLI } else { NANOS_PER_UNIT })
    }

    /// Whether it is exactly this amount of `resource`. Nothing is rounded: `1500m` is no amount of
    /// memory.
    pub fn is_amount(self, resource: &str, amount: i128) -> bool {
        let unit = if resource == CPU { NANOS_PER_MILLI } else { NANOS_PER_UNIT };
        amount.checked_mul(unit) == Some(self.nanos)
    }

    /// How many of `unit` billionths it takes to hold the value; `None` beyond 64 bits.
    fn count_of(self, unit: i128) -> Option<i64> {
        i64::try_from(self.wide_count_of(unit)).ok()
    }

    fn wide_count_of(self, unit: i128) -> i128 {
        self.nanos / unit + (self.nanos % unit).signum()
    }
}

/// An amount of `resource`, as ledgers count it, in canonical form: `cpu` from millicores (`1500m`,
/// `2`), memory and storage in binary (`1Gi`), all else in decimal (`12`, `1k`).
pub fn canonical(resource: &str, amount: i128) -> String {
    let exponent = if resource == CPU { -3 } else { 0 };
    Printed { mantissa: amount, exponent, format: Format::of(resource) }.to_string()
}

impl fmt::Display for Quantity {
    /// The canonical form: the largest suffix that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printed { mantissa: self.nanos, exponent: NANO, format: self.format }.fmt(f)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

/// A quantity that does not fit the 64 bits of an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmountError {
    quantity: Quantity,
    /// The suffix of what was counted.
    unit: &'static str,
}

impl fmt::Display for AmountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AmountError { quantity, unit } = self;
        write!(f, "{quantity}: out of range; expected between {}{unit} and {}{unit}", i64::MIN, i64::MAX)
    }
}

impl std::error::Error for AmountError {}
