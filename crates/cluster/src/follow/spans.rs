//! Where the parts of a JSON text begin and end, found without reading them.
//!
//! A list or an event of a watch is one text with the objects of many owners in it. What is in one of them (nested
//! without end, half of a character) must not spoil the others: each is read by itself, and these are their bounds.
//! Nothing here calls itself, however deep a text is.

/// A key of a map, as it is written, and its value.
pub type Field<'t> = (&'t str, &'t str);

/// The fields of a text that is one map.
pub fn fields(text: &str) -> Option<Vec<Field<'_>>> {
    let mut scan = Scan { text, at: 0 };
    let mut found = Vec::new();
    let mut more = scan.begins(b'{', b'}')?;
    while more {
        let key = scan.value().filter(|key| key.starts_with('"'))?;
        scan.takes(b':').then_some(())?;
        let value = scan.value()?;
        found.push((key.get(1..key.len() - 1)?, value));
        more = scan.goes_on(b'}')?;
    }
    scan.is_at_end().then_some(found)
}

/// The items of a text that is one list.
pub fn items(text: &str) -> Option<Vec<&str>> {
    let mut scan = Scan { text, at: 0 };
    let mut found = Vec::new();
    let mut more = scan.begins(b'[', b']')?;
    while more {
        found.push(scan.value()?);
        more = scan.goes_on(b']')?;
    }
    scan.is_at_end().then_some(found)
}

/// The value of a key. Where it is there twice the last one counts, as in all that reads JSON here.
pub fn find<'t>(fields: &[Field<'t>], key: &str) -> Option<&'t str> {
    fields.iter().rev().find(|(name, _)| *name == key).map(|(_, value)| *value)
}

struct Scan<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Scan<'t> {
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        self.at += rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len());
        self.text.as_bytes().get(self.at).copied()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let takes = self.peek() == Some(byte);
        self.at += usize::from(takes);
        takes
    }

    /// Passes the beginning of a map or list; whether there is anything in it.
    fn begins(&mut self, open: u8, close: u8) -> Option<bool> {
        self.takes(open).then_some(())?;
        Some(!self.takes(close))
    }

    /// Passes what stands behind an item; whether another follows.
    fn goes_on(&mut self, close: u8) -> Option<bool> {
        if self.takes(b',') {
            return Some(true);
        }
        self.takes(close).then_some(false)
    }

    fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Passes a value of any kind.
    fn value(&mut self) -> Option<&'t str> {
        let first = self.peek()?;
        let begun = self.at;
        match first {
            b'"' => self.string()?,
            b'{' | b'[' => self.nested()?,
            b',' | b':' | b'}' | b']' => return None,
            _ => {
                let rest = &self.text.as_bytes()[begun..];
                let ends = |byte: &u8| byte.is_ascii_whitespace() || b",:]}[{\"".contains(byte);
                self.at += rest.iter().position(ends).unwrap_or(rest.len());
            }
        }
        self.text.get(begun..self.at)
    }

    fn nested(&mut self) -> Option<()> {
        let bytes = self.text.as_bytes();
        let mut depth = 0_usize;
        loop {
            match *bytes.get(self.at)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }

    fn string(&mut self) -> Option<()> {
        let bytes = self.text.as_bytes();
        self.at += 1;
        loop {
            match *bytes.get(self.at)? {
                b'\\' => self.at += 2,
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                _ => self.at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_whatever_is_in_them() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let text =
            format!(r#" {{ "a" : "x\"}}]\\" , "b":[1 , {{"c":"]"}},"\ud800"],"deep":{deep},"n":1e999,"a":null}} "#);
        let found = fields(&text).expect("it is a map");
        let keys: Vec<&str> = found.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, ["a", "b", "deep", "n", "a"]);
        assert_eq!((find(&found, "n"), find(&found, "a"), find(&found, "z")), (Some("1e999"), Some("null"), None));
        assert_eq!(items(find(&found, "b").expect("it is there")), Some(vec!["1", r#"{"c":"]"}"#, r#""\ud800""#]));
        assert_eq!(find(&found, "deep"), Some(deep.as_str()));
        assert_eq!((fields("{}"), items(" [ ] ")), (Some(Vec::new()), Some(Vec::new())));
    }

    #[test]
    fn what_is_no_map_or_list_has_no_parts() {
        for text in ["", "{", "}", "{]", "[1", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{} x", "{\"a\":\"\\"] {
            assert_eq!(fields(text), None, "{text}");
        }
        for text in ["", "[", "]", "[1,]", "[,1]", "[1 2]", "[\"", "[{]", "<html>"] {
            assert_eq!(items(text), None, "{text}");
        }
    }
}
