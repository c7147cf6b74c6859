//! The part of an address after the question mark.

use std::collections::BTreeMap;

/// Its fields, decoded. Of a field that is given twice the last counts.
#[derive(Debug, Default)]
pub struct Query(BTreeMap<String, String>);

impl Query {
    /// Reads `a=b&c=d`. What is not encoded as it should be is taken as it is.
    pub fn of(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Query(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(a, b)| (decoded(a), decoded(b)))
                .collect(),
        )
    }

    /// A field, or nothing.
    pub fn text(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_default()
    }

    /// A field that is a whole number, not below 0.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.0.get(name)?.parse::<i64>().ok().filter(|number| *number >= 0)
    }
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        match (bytes[at], hex.and_then(|pair| u8::from_str_radix(pair, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded() {
        let query = Query::of("a=b%2Fc+d&n=7&bad=%zz&x&n=8");
        assert_eq!(query.text("a"), "b/c d");
        assert_eq!((query.number("n"), query.number("a"), query.text("bad")), (Some(8), None, "%zz".to_string()));
    }
}
