//! How deep an expression is nested, found before it is parsed: parser, evaluation and even forgetting it take a piece
//! of the stack for each level.
//!
//! The text is read once, token by token, and what is found is never less than the depth of the tree that the parser
//! makes: a chain of selections, calls and operators is as deep as it is long, what stands in brackets is deeper than
//! the chain that it stands in.

/// What is between two brackets, as far as it was read.
#[derive(Debug, Default)]
struct Level {
    /// Operators that join clauses: `&&`, `||`, `?` and `:`.
    joints: usize,
    /// Links of the clause that is being read, and the deepest that stands in brackets there.
    chain: usize,
    inner: usize,
    deepest: usize,
}

impl Level {
    fn end_clause(&mut self) {
        self.deepest = self.deepest.max(self.chain + self.inner);
        (self.chain, self.inner) = (0, 0);
    }

    fn depth(mut self) -> usize {
        self.end_clause();
        self.joints + self.deepest
    }
}

/// The depth of an expression, or more.
pub(super) fn depth(source: &str) -> usize {
    let bytes = source.as_bytes();
    let mut levels = vec![Level::default()];
    let mut at = 0;
    while at < bytes.len() {
        let (rest, is_inside) = (&bytes[at..], levels.len() > 1);
        let level = levels.last_mut().expect("the first level is never closed");
        let mut read = 1;
        match rest {
            [b'/', b'/', ..] => read = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
            [b'&', b'&', ..] | [b'|', b'|', ..] => {
                level.joints += 1;
                level.end_clause();
                read = 2;
            }
            [b'?' | b':', ..] => {
                level.joints += 1;
                level.end_clause();
            }
            [b',', ..] => level.end_clause(),
            [b'(' | b'[' | b'{', ..] => {
                level.chain += 1;
                levels.push(Level::default());
            }
            [b')' | b']' | b'}', ..] if is_inside => {
                let closed = levels.pop().map_or(0, Level::depth);
                let around = levels.last_mut().expect("it is not the first");
                around.inner = around.inner.max(closed);
            }
            [b'\'' | b'"', ..] => read = text_length(rest, false),
            [byte, ..] if is_word(*byte) => {
                let word = rest.iter().take_while(|byte| is_word(**byte)).count();
                let is_text = matches!(rest.get(word), Some(b'\'' | b'"'));
                let is_raw = is_text && rest[..word].iter().any(|byte| matches!(byte, b'r' | b'R'));
                level.chain += usize::from(&rest[..word] == b"in");
                read = word + if is_text { text_length(&rest[word..], is_raw) } else { 0 };
            }
            [byte, ..] => level.chain += usize::from(b".!-+*/%<>=".contains(byte)),
            [] => {}
        }
        at += read;
    }
    // What was left open is no expression: the parser goes down there all the same.
    levels.into_iter().map(Level::depth).sum()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The bytes of the text that begins here, quotes included.
fn text_length(rest: &[u8], is_raw: bool) -> usize {
    let quote = rest[0];
    let quotes = if rest.len() >= 3 && rest[..3].iter().all(|byte| *byte == quote) { 3 } else { 1 };
    let mut at = quotes;
    while at < rest.len() {
        if rest[at] == b'\\' && !is_raw {
            at += 2;
        } else if rest[at..].len() >= quotes && rest[at..at + quotes].iter().all(|byte| *byte == quote) {
            return at + quotes;
        } else {
            at += 1;
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::super::compile;
    use super::*;
    use crate::limits::CEL_DEPTH_MAX as DEPTH_MAX;

    #[test]
    fn an_expression_is_as_deep_as_its_longest_chain_and_what_stands_in_brackets_there() {
        let cases = [
            ("true", 0),
            ("a.b.c", 2),
            ("a.b == 1 && c.d == 2", 4),
            ("[a.b, c.d.e, f]", 3),
            ("'a.b.c.d.e'", 0),
            (r"r'\'.b.c", 2),
            (r"'\'.b.c'", 0),
            ("'''a.'b'.c'''.d", 1),
            ("a // .b.c.d '\n.e", 1),
            ("f(g(h(1)))", 3),
            ("!!!true", 3),
        ];
        for (source, expected) in cases {
            assert_eq!(depth(source), expected, "{source}");
        }
    }

    #[test]
    fn an_expression_is_compiled_up_to_the_bound_and_refused_beyond() {
        let nested = |count: usize| format!("{}true{}", "(".repeat(count), ")".repeat(count));
        let chain = |count: usize| format!("device{} == 1", ".a".repeat(count));
        let refused = |source: String| compile(&source).err().is_some_and(|error| error.contains("nested"));
        assert!(!refused(nested(DEPTH_MAX)) && refused(nested(DEPTH_MAX + 1)) && refused(nested(5_000)));
        assert!(!refused(chain(DEPTH_MAX - 2)) && refused(chain(DEPTH_MAX + 1)) && refused(chain(4_000)));
        assert!(refused(format!("{}true", "!".repeat(5_000))), "what is repeated before a value");
        let long = vec!["device.driver == 'a'"; 100].join(" || ");
        assert!(!refused(long), "many clauses are not deep");
    }
}
