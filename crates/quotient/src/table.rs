//! Columns of text that line up. Widths are counted in characters; the last column is never padded.

use crate::printer::Tone;

/// On which side a column's text begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// A table with a heading. Empty tables print nothing.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<Cell>>,
}

/// What stands in a column of a row, and its colour where colour is shown.
#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    tone: Option<Tone>,
}

impl Cell {
    /// Text that is more than plain.
    pub fn toned(tone: Tone, text: impl Into<String>) -> Self {
        Cell { text: text.into(), tone: Some(tone) }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell { text: text.into(), tone: None }
    }
}

impl Table {
    /// A table without rows yet.
    pub fn new<T: Into<String>>(columns: impl IntoIterator<Item = (T, Align)>) -> Self {
        let columns = columns.into_iter().map(|(title, align)| (title.into(), align)).collect();
        Table { columns, rows: Vec::new() }
    }

    /// Adds a row; it has a cell for each column.
    pub fn row(&mut self, cells: Vec<impl Into<Cell>>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The lines of the table, heading first, each cell as `paint` shows it.
    pub fn lines(&self, paint: impl Fn(Tone, &str) -> String) -> Vec<String> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let heading: Vec<Cell> = self.columns.iter().map(|(title, _)| Cell::from(title.as_str())).collect();
        let width =
            |column: usize| self.rows.iter().chain([&heading]).map(|row| row[column].width()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let heading = paint(Tone::Weak, &self.line(&heading, &widths, |_, text| text.to_owned()));
        let rows = self.rows.iter().map(|row| self.line(row, &widths, &paint));
        [heading].into_iter().chain(rows).collect()
    }

    fn line(&self, row: &[Cell], widths: &[usize], paint: impl Fn(Tone, &str) -> String) -> String {
        let mut line = String::new();
        let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or(0);
        for (i, cell) in row.iter().enumerate().take(last + 1) {
            let pad = " ".repeat(widths[i] - cell.width());
            let text = cell.tone.map_or_else(|| cell.text.clone(), |tone| paint(tone, &cell.text));
            match self.columns[i].1 {
                Align::Right => line.extend([pad.as_str(), &text]),
                Align::Left if i == last => line.push_str(&text),
                Align::Left => line.extend([text.as_str(), &pad]),
            }
            if i < last {
                line.push_str("  ");
            }
        }
        line
    }
}

/// A number with its thousands apart: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// How full something is, in `width` characters: `####....`. Full only when nothing is left, empty only when nothing
/// is used.
pub fn bar(used: u128, total: u128, width: usize) -> String {
    let wide = width as u128;
    let filled = match (used, total) {
        (0, _) => 0,
        (_, 0) => wide,
        (used, total) if used >= total => wide,
        (used, total) => (used * wide / total).clamp(1, wide.saturating_sub(1).max(1)),
    };
    let filled = usize::try_from(filled).unwrap_or(width);
    format!("{}{}", "#".repeat(filled), ".".repeat(width - filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new([("NAME", Align::Left), ("PODS", Align::Right), ("WHY", Align::Left)]);
        table.row(vec!["a", "1", ""]);
        table.row(vec![Cell::from("größer"), Cell::toned(Tone::Good, "12,000"), Cell::from("full")]);
        assert_eq!(
            table.lines(|_, text| text.to_owned()),
            ["NAME      PODS  WHY", "a            1", "größer  12,000  full"]
        );
        let marked = table.lines(|tone, text| format!("<{tone:?} {text}>"));
        assert_eq!(marked, ["<Weak NAME      PODS  WHY>", "a            1", "größer  <Good 12,000>  full"]);
        assert!(Table::new([("NAME", Align::Left)]).lines(|_, text| text.to_owned()).is_empty());
    }

    #[test]
    fn thousands_are_set_apart() {
        for (number, shown) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), shown);
        }
    }

    #[test]
    fn bars_tell_some_from_none_and_nearly_from_full() {
        for (used, total, shown) in [
            (0, 100, "....."),
            (1, 100, "#...."),
            (50, 100, "##..."),
            (99, 100, "####."),
            (100, 100, "#####"),
            (7, 0, "#####"),
        ] {
            assert_eq!(bar(used, total, 5), shown, "{used} of {total}");
        }
    }
}
