//! What part of its nodes a tree shares out, exactly.

use std::str::FromStr;

/// A part of a whole, above 0 and at most all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    /// In quintillionths.
    parts: u64,
}

/// Digits behind the point that can be told apart.
const DIGITS_MAX: usize = 18;
/// Parts in the whole.
const WHOLE: u64 = 10u64.pow(DIGITS_MAX as u32);

impl Ratio {
    /// All of it.
    pub const ALL: Ratio = Ratio { parts: WHOLE };

    /// So much of an amount that is not negative, rounded down.
    pub fn of(self, amount: i128) -> i128 {
        let (whole, parts) = (i128::from(WHOLE), i128::from(self.parts));
        // By parts, so that the product stays far below 128 bits whatever the amount.
        amount / whole * parts + amount % whole * parts / whole
    }
}

/// The text is no ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("counts as 1: expected a decimal above 0 and at most 1, such as 0.9")]
pub struct NoRatio;

impl FromStr for Ratio {
    type Err = NoRatio;

    fn from_str(text: &str) -> Result<Self, NoRatio> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let is_number = (whole.bytes().chain(fraction.bytes())).all(|b| b.is_ascii_digit());
        if !is_number || (whole.is_empty() && fraction.is_empty()) {
            return Err(NoRatio);
        }
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let parts = match (whole, fraction) {
            ("1", "") => WHOLE,
            ("", fraction) if fraction.len() <= DIGITS_MAX => {
                format!("{fraction:0<DIGITS_MAX$}").parse().map_err(|_| NoRatio)?
            }
            _ => return Err(NoRatio),
        };
        if parts == 0 { Err(NoRatio) } else { Ok(Ratio { parts }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios() {
        let of = |text: &str, amount: i128| text.parse::<Ratio>().map(|ratio| ratio.of(amount));
        for (text, amount, expected) in [
            ("1", 7, 7),
            ("1.000", 7, 7),
            ("01", 7, 7),
            ("0.9", 307_200, 276_480),
            ("0.9", 2_105_033_814_016, 1_894_530_432_614),
            (".5", 3, 1),
            ("0.900000000000000000000", 10, 9),
            ("0.000000000000000001", 1_000_000_000_000_000_000, 1),
            ("0.999999999999999999", i128::from(i64::MAX), 9_223_372_036_854_775_797),
            ("0.5", i128::MAX, i128::MAX / 2),
            ("0.9", 0, 0),
        ] {
            assert_eq!(of(text, amount), Ok(expected), "{text} of {amount}");
        }
        for text in ["", ".", "0", "0.0", "1.5", "2", "-0.5", "+0.5", "0,9", "90%", "9e-1", "NaN", "1.2.3", " 0.9"] {
            assert_eq!(of(text, 1), Err(NoRatio), "{text}");
        }
        assert_eq!(of("0.0000000000000000001", 1), Err(NoRatio), "more digits than can be told apart");
    }
}
