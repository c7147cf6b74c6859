//! Reading a quantity: an optional sign, digits with an optional point, a suffix.

use std::fmt;
use std::str::FromStr;

use super::{Format, NANO, NANOS_PER_UNIT, Quantity};

/// Why a text is not a quantity. Its message names the text and what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuantityError {
    /// There is nothing to read, or no digit where one is needed.
    NotANumber { value: Box<str> },
    /// What follows the number is neither a suffix nor an exponent.
    UnknownUnit { value: Box<str>, unit: Box<str> },
    /// Its size is beyond what any quantity holds (about 1.7 × 10^29).
    TooLarge { value: Box<str> },
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(value: &str) -> Result<Self, QuantityError> {
        let (negative, unsigned) = match value.as_bytes().first() {
            None => return Err(QuantityError::NotANumber { value: value.into() }),
            Some(b'-') => (true, &value[1..]),
            Some(b'+') => (false, &value[1..]),
            Some(_) => (false, value),
        };
        let (whole, rest) = split_digits(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        let scale = Scale::read(suffix).ok_or_else(|| match (whole, fraction) {
            ("", "") => QuantityError::NotANumber { value: value.into() },
            _ => QuantityError::UnknownUnit { value: value.into(), unit: suffix.into() },
        })?;

        if whole.is_empty() && fraction.is_empty() && scale.needs_a_number() {
            return Err(QuantityError::NotANumber { value: value.into() });
        }

        let magnitude = match scale {
            Scale::Si(exponent) | Scale::Exponent(exponent) => decimal_nanos(whole, fraction, exponent),
            Scale::Binary(bits) => binary_nanos(whole, fraction, bits),
        };
        let nanos = magnitude
            .and_then(|nanos| i128::try_from(nanos).ok())
            .ok_or_else(|| QuantityError::TooLarge { value: value.into() })?;
        let format = match scale {
            Scale::Si(_) => Format::DecimalSI,
            Scale::Exponent(_) => Format::DecimalExponent,
            // Less than one cannot be shown in binary, and Kubernetes forgets at once that it was.
            Scale::Binary(_) if 0 < nanos && nanos < NANOS_PER_UNIT => Format::DecimalSI,
            Scale::Binary(_) => Format::BinarySI,
        };
        Ok(Quantity { nanos: if negative { -nanos } else { nanos }, format })
    }
}

/// What a suffix multiplies with.
#[derive(Clone, Copy)]
enum Scale {
    /// A power of ten, by a letter.
    Si(i64),
    /// A power of ten, in digits.
    Exponent(i64),
    /// A power of two.
    Binary(u32),
}

impl Scale {
    fn read(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "n" => Scale::Si(-9),
            "u" => Scale::Si(-6),
            "m" => Scale::Si(-3),
            "" => Scale::Si(0),
            "k" => Scale::Si(3),
            "M" => Scale::Si(6),
            "G" => Scale::Si(9),
            "T" => Scale::Si(12),
            "P" => Scale::Si(15),
            "E" => Scale::Si(18),
            "Ki" => Scale::Binary(10),
            "Mi" => Scale::Binary(20),
            "Gi" => Scale::Binary(30),
            "Ti" => Scale::Binary(40),
            "Pi" => Scale::Binary(50),
            "Ei" => Scale::Binary(60),
            _ => Scale::Exponent(suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
        })
    }

    /// Kubernetes takes a missing number for 0 (`-`, `.`, `Gi`), but not before all suffixes.
    fn needs_a_number(self) -> bool {
        match self {
            Scale::Si(exponent) | Scale::Exponent(exponent) => exponent < i64::from(NANO),
            Scale::Binary(bits) => bits >= 50,
        }
    }
}

/// The digits at the start of `text`, and what follows them.
fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// `whole.fraction × 10^exponent` in billionths, rounded up; `None` if it does not fit.
///
/// Multiplying by a power of ten moves the point, so that this is a matter of where it comes to stand.
fn decimal_nanos(whole: &str, fraction: &str, exponent: i64) -> Option<u128> {
    let point = exponent.saturating_sub(i64::from(NANO)).saturating_add(whole.len() as i64);
    let before = usize::try_from(point).unwrap_or(0);
    let mut digits = whole.bytes().chain(fraction.bytes());
    let nanos = read_digits(digits.by_ref().take(before))?;
    let missing = before.saturating_sub(whole.len() + fraction.len());
    let nanos = match nanos {
        0 => 0,
        _ => nanos.checked_mul(10u128.checked_pow(u32::try_from(missing).ok()?)?)?,
    };
    nanos.checked_add(u128::from(digits.any(|digit| digit != b'0')))
}

/// `whole.fraction × 2^bits` in billionths, rounded up; `None` if it does not fit.
fn binary_nanos(whole: &str, fraction: &str, bits: u32) -> Option<u128> {
    let unit = NANOS_PER_UNIT.unsigned_abs() << bits;
    // The fraction of a unit is multiplied out as on paper, from the last digit on, carrying along:
    // exact for any number of digits. The carry stays below `unit`, which is below 2^90.
    let (part, inexact) = fraction.bytes().rev().fold((0, false), |(carry, inexact), digit| {
        let product = u128::from(digit - b'0') * unit + carry;
        (product / 10, inexact || !product.is_multiple_of(10))
    });
    read_digits(whole.bytes())?.checked_mul(unit)?.checked_add(part + u128::from(inexact))
}

/// The number that these digits spell, 0 for none.
fn read_digits(mut digits: impl Iterator<Item = u8>) -> Option<u128> {
    digits.try_fold(0u128, |number, digit| number.checked_mul(10)?.checked_add(u128::from(digit - b'0')))
}

/// A text as messages show it: on one line, and not without end.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CHARS_MAX: usize = 64;
        match self.0.char_indices().nth(CHARS_MAX) {
            None => write!(f, "{}", self.0.escape_debug()),
            Some((end, _)) => write!(f, "{}…", self.0[..end].escape_debug()),
        }
    }
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const EXPECTED: &str = "expected a number with an optional suffix \
            (n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent)";
        match self {
            QuantityError::NotANumber { value } => write!(f, "\"{}\" is not a number; {EXPECTED}", Shown(value)),
            QuantityError::UnknownUnit { value, unit } => {
                write!(f, "{}: \"{}\" is not a unit of quantities; {EXPECTED}", Shown(value), Shown(unit))
            }
            QuantityError::TooLarge { value } => {
                write!(f, "{}: too large; expected no more than 1.7e29", Shown(value))
            }
        }
    }
}

impl std::error::Error for QuantityError {}
