//! Text from objects, made safe to print: what a name holds must not clear a screen or forge a line.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with control characters escaped, and characters that change the direction of what follows.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            // The only way in which this cannot be written is that there is no memory.
            c if is_unsafe(c) => drop(write!(safe, "\\u{{{:x}}}", u32::from(c))),
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

fn is_unsafe(c: char) -> bool {
    let changes_direction = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks_line = matches!(c, '\u{2028}' | '\u{2029}');
    c.is_control() || changes_direction || breaks_line || is_marker(c)
}

/// Characters that stand for nothing in any text, and for the beginning and end of a colour within the program.
pub const MARKERS: std::ops::RangeInclusive<char> = '\u{fdd0}'..='\u{fdd4}';

fn is_marker(c: char) -> bool {
    MARKERS.contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(escaped("größer → fine"), "größer → fine");
        assert_eq!(escaped("a\n\u{1b}[2Jb"), "a\\n\\u{1b}[2Jb");
        assert_eq!(escaped("\u{9b}31m\u{202e}x\u{fdd0}"), "\\u{9b}31m\\u{202e}x\\u{fdd0}");
    }
}
