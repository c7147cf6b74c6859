//! Printing a number in canonical form: whole, with the largest suffix that loses nothing.

use std::fmt;

use super::Format;

/// `mantissa × 10^exponent`, ready to be printed. The exponent is a multiple of three, from -9 to 0.
pub(super) struct Printed {
    pub mantissa: i128,
    pub exponent: i32,
    pub format: Format,
}

impl Printed {
    /// The magnitude in whole units, where it is whole and large enough for a binary suffix.
    fn binary_magnitude(&self) -> Option<u128> {
        let unit = 10u128.pow(self.exponent.unsigned_abs());
        let magnitude = self.mantissa.unsigned_abs();
        (magnitude.is_multiple_of(unit) && magnitude / unit >= 1024).then_some(magnitude / unit)
    }
}

impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.mantissa < 0 { "-" } else { "" };
        if self.mantissa == 0 {
            return f.write_str("0");
        }
        if self.format == Format::BinarySI
            && let Some(magnitude) = self.binary_magnitude()
        {
            const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
            let (number, steps) = strip(magnitude, 1024, SUFFIXES.len() - 1);
            return write!(f, "{sign}{number}{}", SUFFIXES[steps]);
        }

        const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        let first = ((self.exponent + 9) / 3) as usize;
        let magnitude = self.mantissa.unsigned_abs();
        if self.format == Format::DecimalExponent {
            let (number, steps) = strip(magnitude, 1000, usize::MAX);
            match self.exponent + 3 * steps as i32 {
                0 => write!(f, "{sign}{number}"),
                exponent => write!(f, "{sign}{number}e{exponent}"),
            }
        } else {
            let (number, steps) = strip(magnitude, 1000, SUFFIXES.len() - 1 - first);
            write!(f, "{sign}{number}{}", SUFFIXES[first + steps])
        }
    }
}

/// Divides by `factor` as often as it goes without a rest, at most `steps_max` times. The number is
/// not 0, so that it ends.
fn strip(mut number: u128, factor: u128, steps_max: usize) -> (u128, usize) {
    let mut steps = 0;
    while steps < steps_max && number.is_multiple_of(factor) {
        number /= factor;
        steps += 1;
    }
    (number, steps)
}
