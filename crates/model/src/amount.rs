//! Amounts of resources in exact integers: cpu in millicores, everything else in base units.

use std::collections::BTreeMap;

use serde_json::Value;

/// Amounts by resource. What is not there is not named, which is not the same as 0.
pub type Amounts = BTreeMap<String, i128>;

const SUFFIXES: &[(&str, i128)] = &[
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
];

/// A quantity in thousandths. `None` if it has a form that the model does not need.
fn thousandths(text: &str) -> Option<i128> {
    if let Some(digits) = text.strip_suffix('m') {
        return digits.parse().ok();
    }
    let (digits, factor) =
        SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor))).unwrap_or((text, 1));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = format!("{fraction:0<3}");
    if fraction.len() > 3 {
        return None;
    }
    let whole: i128 = whole.parse().ok()?;
    let fraction: i128 = fraction.parse().ok()?;
    Some((whole * 1000 + fraction) * factor)
}

/// An amount of a resource.
pub fn amount(resource: &str, value: &Value) -> Option<i128> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let thousandths = thousandths(&text)?;
    Some(if resource == "cpu" { thousandths } else { thousandths / 1000 })
}

/// All amounts of a mapping.
pub fn amounts(value: &Value) -> Amounts {
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(resource, value)| Some((resource.clone(), amount(resource, value)?))).collect()
}

/// Adds amounts to others.
pub fn add(sum: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        *sum.entry(resource.clone()).or_default() += amount;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quantities_are_read_exactly() {
        let read = |resource: &str, text: &str| amount(resource, &json!(text));
        assert_eq!(read("cpu", "1500m"), Some(1500));
        assert_eq!(read("cpu", "2.5"), Some(2500));
        assert_eq!(read("memory", "1Gi"), Some(1 << 30));
        assert_eq!(read("memory", "1.5Ki"), Some(1536));
        assert_eq!(amount("nvidia.com/gpu", &json!(4)), Some(4));
        assert_eq!(read("cpu", "much"), None);
    }
}
