//! A long text of many documents, read in parts.
//!
//! A line of `---` ends a document wherever it stands, so that parts which begin with such lines can be read one by
//! one. A text with a mistake is left to be read as a whole, as is one of which the parts depend on each other.

use std::sync::{Mutex, PoisonError};

use super::{ALIASED_VALUES_MAX, Locate, Parsed, parse_whole};
use crate::parallel;
use crate::thin::Kept;

/// The shortest text that is worth more than one thread.
const BYTES_MIN: usize = 1 << 17;

/// How much is read at a time, at least.
const PART_BYTES: usize = 1 << 16;

/// The documents of a long text in which nothing is wrong.
pub(super) fn parse(text: &str, locate: Locate) -> Option<Vec<Parsed>> {
    if text.len() < BYTES_MIN { None } else { parse_parts(text, locate, PART_BYTES) }
}

fn parse_parts(text: &str, locate: Locate, part_bytes: usize) -> Option<Vec<Parsed>> {
    let parts = split(text, part_bytes)?;
    together(parallel::of_parts(&parts, |(before, part)| read(*before, part, locate, Kept::Comparable)))
}

/// A text in pieces, each of which is dropped when it was read: values take several times as much memory as their text,
/// and the most of it is needed when the last of them is read.
pub(crate) struct Pieces(Vec<(usize, Mutex<String>)>);

impl Pieces {
    /// The pieces of a long text.
    pub fn of(text: &str) -> Option<Self> {
        if text.len() < BYTES_MIN {
            return None;
        }
        let parts = split(text, PART_BYTES)?;
        Some(Pieces(parts.into_iter().map(|(before, part)| (before, Mutex::new(part.to_string()))).collect()))
    }

    /// The documents of the text, if nothing is wrong in it.
    pub fn read(self, kept: Kept) -> Option<Vec<Parsed>> {
        let take = |part: &Mutex<String>| std::mem::take(&mut *part.lock().unwrap_or_else(PoisonError::into_inner));
        together(parallel::of_parts(&self.0, |(before, part)| read(*before, &take(part), Locate::Items, kept)))
    }
}

/// The documents of a part with so many lines before it, and how many values aliases stand for in it.
fn read(before: usize, part: &str, locate: Locate, kept: Kept) -> (Vec<Parsed>, usize) {
    let mut aliased = 0;
    let mut documents = parse_whole(part, locate, kept, &mut aliased);
    for document in documents.iter_mut().flatten() {
        document.line += before;
        document.lines.values_mut().for_each(|line| *line += before);
    }
    (documents, aliased)
}

/// The documents of all parts, if nothing is wrong in any.
fn together(read: Vec<(Vec<Parsed>, usize)>) -> Option<Vec<Parsed>> {
    let aliased: usize = read.iter().map(|(_, aliased)| aliased).sum();
    let documents: Vec<Parsed> = read.into_iter().flat_map(|(documents, _)| documents).collect();
    (aliased <= ALIASED_VALUES_MAX && documents.iter().all(Result::is_ok)).then_some(documents)
}

/// The parts, each with how many lines come before it, of a text that can be read in parts.
fn split(text: &str, part_bytes: usize) -> Option<Vec<(usize, &str)>> {
    // A directive stands before the line that its document begins with. Lines are counted by one kind of line end.
    if text.starts_with('%') || text.contains("\n%") || text.contains('\r') {
        return None;
    }
    let bytes = text.as_bytes();
    let (mut parts, mut begun, mut before) = (Vec::new(), 0, 0);
    let mut from = text.ceil_char_boundary(part_bytes);
    while let Some(found) = text[from..].find("\n---") {
        let at = from + found + 1;
        from = at;
        if bytes.get(at + 3).is_none_or(u8::is_ascii_whitespace) {
            let part = &text[begun..at];
            parts.push((before, part));
            before += part.bytes().filter(|byte| *byte == b'\n').count();
            begun = at;
            from = text.ceil_char_boundary(at + part_bytes);
        }
    }
    parts.push((before, &text[begun..]));
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts come to what the whole is, or to nothing.
    #[test]
    fn parts_come_to_the_whole() {
        let cases = [
            ("a: 1\n---\nb: [x,\n  y]\n---\n---\nc: |\n  ---\n  text\n--- {d: 1}\n", true),
            ("---\na: 1\n...\n---\nb: 2\n...\n# end\n--- # begins\nitems:\n- é: 1\n- f: 2\n", true),
            ("a: &x 1\nb: *x\n---\nc: &x 2\nd: *x\n", true),
            ("a: 1\n---\nb: 'x\n---\nc: 3\n", false),
            ("a: 1\n---\nb: 1\nb: 2\n---\nc: 3\n", false),
            ("a: &x 1\n---\nb: *x\n", false),
            ("%YAML 1.2\n---\na: 1\n", false),
            ("a: 1\r\n---\r\nb: 2\r\n", false),
            ("a: ---\n---b: 1\n", true),
        ];
        for (text, is_read) in cases {
            for locate in [Locate::Items, Locate::All] {
                for part_bytes in [1, 7, 1000] {
                    let read = parse_parts(text, locate, part_bytes);
                    assert_eq!(read.is_some(), is_read, "{text:?} in parts of {part_bytes}");
                    let whole = parse_whole(text, locate, Kept::Comparable, &mut 0);
                    assert!(read.is_none_or(|read| read == whole), "{text:?} in parts of {part_bytes}: {whole:#?}");
                }
            }
        }
    }

    #[test]
    fn aliases_are_counted_over_all_parts() {
        let list = format!("a: &a [{}]\n", "1, ".repeat(999));
        let document = format!("{list}b: [{}]\n---\n", "*a, ".repeat(60));
        assert!(parse_parts(&document, Locate::Items, 1).is_some());
        assert!(parse_parts(&document.repeat(2), Locate::Items, 1).is_none());
    }
}
