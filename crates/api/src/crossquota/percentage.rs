//! Percentages, exactly.

use std::str::FromStr;

use quotient_engine::fact::Amount;
use serde_json::Value;

use crate::cursor::Cursor;

/// A part of a whole, above 0 and at most 100 percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Percentage {
    /// In billionths of a percent.
    billionths: u64,
}

/// Billionths in one percent.
const PERCENT: u64 = 1_000_000_000;
/// Digits behind the point that count.
const DIGITS_MAX: usize = 9;

impl Percentage {
    /// So much of an amount, rounded down.
    pub fn of(self, whole: Amount) -> Amount {
        let part = i128::from(whole) * i128::from(self.billionths) / i128::from(100 * PERCENT);
        Amount::try_from(part).expect("at most the whole, which is an amount")
    }
}

/// The text is no percentage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a percentage above 0 and at most 100, such as 50 or 12.5")]
pub(super) struct NoPercentage;

impl FromStr for Percentage {
    type Err = NoPercentage;

    fn from_str(text: &str) -> Result<Self, NoPercentage> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let is_number = (whole.bytes().chain(fraction.bytes())).all(|b| b.is_ascii_digit());
        if !is_number
            || (whole.is_empty() && fraction.is_empty())
            || whole.len() > DIGITS_MAX
            || fraction.len() > DIGITS_MAX
        {
            return Err(NoPercentage);
        }
        let digits = format!("{whole}{fraction:0<DIGITS_MAX$}");
        let billionths: u64 = digits.parse().map_err(|_| NoPercentage)?;
        if billionths == 0 || billionths > 100 * PERCENT { Err(NoPercentage) } else { Ok(Percentage { billionths }) }
    }
}

/// The percentage that stands at `at`, in quotes or not.
pub(super) fn read(at: &Cursor<'_, '_>) -> Option<Percentage> {
    let percentage = match at.value()? {
        Value::String(text) => text.trim().parse(),
        Value::Number(number) => number.to_string().parse(),
        _ => Err(NoPercentage),
    };
    percentage.map_err(|error| at.note(error.to_string())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages() {
        let of = |text: &str, whole: Amount| text.parse::<Percentage>().map(|percentage| percentage.of(whole));
        for (text, whole, expected) in [
            ("100", 7, 7),
            ("50", 64_000, 32_000),
            ("50", 7, 3),
            ("12.5", 8_000, 1_000),
            (".5", 1_000, 5),
            ("50.", 4, 2),
            ("33.333333333", 3_000_000_000, 999_999_999),
            ("0.000000001", 100_000_000_000, 1),
            ("100", i64::MAX, i64::MAX),
        ] {
            assert_eq!(of(text, whole), Ok(expected), "{text} of {whole}");
        }
        for text in ["", ".", "0", "0.0", "100.1", "101", "150", "-1", "+5", "50%", "1e1", "a", "0.0000000001", "1.2.3"]
        {
            assert_eq!(of(text, 1), Err(NoPercentage), "{text}");
        }
    }
}
