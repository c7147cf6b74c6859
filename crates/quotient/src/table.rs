//! Columns of text that line up. Widths are counted in characters; the last column is never padded.

use crate::escape::escaped;
use crate::printer::Tone;

/// The narrowest that a column of texts becomes.
const TEXT_WIDTH_MIN: usize = 14;

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
        Cell { text: escaped(&text.into()).into_owned(), tone: Some(tone) }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }

    /// The cell in at most `width` characters: what is left out is left out of its middle.
    fn shortened(&self, width: usize) -> Cell {
        let count = self.width();
        if count <= width || width < 3 {
            return self.clone();
        }
        let (head, tail) = ((width - 1).div_ceil(2), (width - 1) / 2);
        let start: String = self.text.chars().take(head).collect();
        let end: String = self.text.chars().skip(count - tail).collect();
        Cell { text: format!("{start}…{end}"), tone: self.tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell { text: escaped(&text.into()).into_owned(), tone: None }
    }
}

impl Table {
    /// A table without rows yet.
    pub fn new<T: Into<String>>(columns: impl IntoIterator<Item = (T, Align)>) -> Self {
        let columns = columns.into_iter().map(|(title, align)| (escaped(&title.into()).into_owned(), align)).collect();
        Table { columns, rows: Vec::new() }
    }

    /// Adds a row; it has a cell for each column.
    pub fn row(&mut self, cells: Vec<impl Into<Cell>>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// How wide the table is.
    pub fn width(&self) -> usize {
        let title = |column: usize| self.columns[column].0.chars().count();
        let cell = |column: usize| self.rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
        let widths = (0..self.columns.len()).map(|column| title(column).max(cell(column)));
        widths.sum::<usize>() + 2 * self.columns.len().saturating_sub(1)
    }

    /// The lines of the table, heading first, each cell as `paint` shows it. Where the table is wider than `room`,
    /// texts are shortened in their middle, the longest first; numbers never are.
    pub fn lines(&self, room: Option<usize>, paint: impl Fn(Tone, &str) -> String) -> Vec<String> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let heading: Vec<Cell> = self.columns.iter().map(|(title, _)| Cell::from(title.as_str())).collect();
        let width =
            |column: usize| self.rows.iter().chain([&heading]).map(|row| row[column].width()).max().unwrap_or(0);
        let mut widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        if let Some(room) = room {
            self.fit(&mut widths, room);
        }
        let heading = paint(Tone::Weak, &self.line(&heading, &widths, |_, text| text.to_owned()));
        let rows = self.rows.iter().map(|row| self.line(row, &widths, &paint));
        [heading].into_iter().chain(rows).collect()
    }

    /// Narrows the columns of texts until the table fits, or all of them are as narrow as can be read.
    fn fit(&self, widths: &mut [usize], room: usize) {
        let gaps = 2 * widths.len().saturating_sub(1);
        loop {
            let total = widths.iter().sum::<usize>() + gaps;
            let texts = (0..widths.len()).filter(|i| self.columns[*i].1 == Align::Left && widths[*i] > TEXT_WIDTH_MIN);
            let Some(widest) = texts.max_by_key(|i| widths[*i]).filter(|_| total > room) else { return };
            widths[widest] -= (total - room).min(widths[widest] - TEXT_WIDTH_MIN).min(widths[widest] / 4 + 1);
        }
    }

    fn line(&self, row: &[Cell], widths: &[usize], paint: impl Fn(Tone, &str) -> String) -> String {
        let mut line = String::new();
        let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or(0);
        for (i, cell) in row.iter().enumerate().take(last + 1) {
            let cell = &cell.shortened(widths[i]);
            let pad = " ".repeat(widths[i].saturating_sub(cell.width()));
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
            table.lines(None, |_, text| text.to_owned()),
            ["NAME      PODS  WHY", "a            1", "größer  12,000  full"]
        );
        let marked = table.lines(None, |tone, text| format!("<{tone:?} {text}>"));
        assert_eq!(marked, ["<Weak NAME      PODS  WHY>", "a            1", "größer  <Good 12,000>  full"]);
        assert!(Table::new([("NAME", Align::Left)]).lines(None, |_, text| text.to_owned()).is_empty());
    }

    #[test]
    fn a_table_fits_the_room_it_has() {
        let mut table = Table::new([("NAME", Align::Left), ("USED", Align::Right), ("WHY", Align::Left)]);
        table.row(vec!["a-very-long-name-of-a-node.example.com", "1234567890", "short"]);
        let lines = table.lines(Some(40), |_, text| text.to_owned());
        assert_eq!(lines[1], "a-very-lon…xample.com  1234567890  short");
        assert!(lines.iter().all(|line| line.chars().count() <= 40), "{lines:?}");
        let narrow = table.lines(Some(5), |_, text| text.to_owned());
        assert!(narrow[1].contains("1234567890"), "numbers are never cut: {narrow:?}");
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
