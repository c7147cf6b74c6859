//! Stand-in until the engine's quantities are merged.

/// A quantity.
pub(crate) struct Quantity(f64);

impl Quantity {
    pub fn parse(text: &str) -> Result<Quantity, String> {
        let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = text.split_at(at);
        let scale = match unit {
            "" => 1.0,
            "m" => 0.001,
            "k" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            "Ki" => 1024.0,
            "Mi" => 1024.0 * 1024.0,
            "Gi" => 1024.0 * 1024.0 * 1024.0,
            "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
            _ => return Err(format!("{unit:?} is not a unit")),
        };
        number.parse::<f64>().map(|n| Quantity(n * scale)).map_err(|_| "is not a quantity".to_string())
    }

    pub fn amount(&self, resource: &str) -> Result<i64, String> {
        let value = if resource == "cpu" { self.0 * 1000.0 } else { self.0 };
        if value.abs() > 9e18 { Err("is too large".to_string()) } else { Ok(value.ceil() as i64) }
    }
}
