//! Columns of text that line up. Widths are counted in characters; the last column is never padded.

use std::collections::BTreeSet;

use crate::escape::escaped;
use crate::printer::Tone;

/// The narrowest that a column of names becomes.
const TEXT_WIDTH_MIN: usize = 14;

/// On which side a column's text begins, and whether it may be shortened where there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Names: shortened in their middle, as long as different names stay different.
    Left,
    /// Amounts, never shortened.
    Right,
    /// Text with amounts in it, never shortened.
    Whole,
    /// Pictures of amounts that stand beside them: left out where there is no room.
    Picture,
}

/// A table with a heading. Empty tables print nothing.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<Cell>>,
    /// How many columns at the left say what a row is about.
    keys: usize,
}

/// Columns that are printed side by side, each with its width.
type Block = Vec<(usize, usize)>;

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
        Table { columns, rows: Vec::new(), keys: 1 }
    }

    /// Says how many columns at the left name what a row is about: they are repeated where a table is cut into several.
    pub fn keyed_by(mut self, keys: usize) -> Self {
        self.keys = keys;
        self
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
    /// pictures are left out, then columns that hold nothing but zeros; then names are shortened; then the rest follows
    /// below, beside the same names. Amounts are never shortened.
    pub fn lines(&self, room: Option<usize>, paint: impl Fn(Tone, &str) -> String) -> Vec<String> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let heading: Vec<Cell> = self.columns.iter().map(|(title, _)| Cell::from(title.as_str())).collect();
        let mut lines = Vec::new();
        for (i, block) in self.blocks(&heading, room).into_iter().enumerate() {
            lines.extend((i > 0).then(String::new));
            lines.push(paint(Tone::Weak, &self.line(&heading, &block, |_, text| text.to_owned())));
            lines.extend(self.rows.iter().map(|row| self.line(row, &block, &paint)));
        }
        lines
    }

    /// Which columns stand side by side, and how wide.
    fn blocks(&self, heading: &[Cell], room: Option<usize>) -> Vec<Block> {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| &row[column]).chain([&heading[column]]);
            cells.map(Cell::width).max().unwrap_or(0)
        };
        let mut block: Block = (0..self.columns.len()).map(|column| (column, width(column))).collect();
        let Some(room) = room else { return vec![block] };
        if total(&block) > room {
            block.retain(|(column, _)| self.columns[*column].1 != Align::Picture);
        }
        for column in (self.keys..self.columns.len()).rev() {
            if total(&block) > room && self.says_nothing(column) {
                block.retain(|(other, _)| *other != column);
            }
        }
        self.shorten(&mut block, room);
        self.cut(block, room)
    }

    /// A column of numbers without any but 0.
    fn says_nothing(&self, column: usize) -> bool {
        self.columns[column].1 == Align::Right
            && self.rows.iter().all(|row| matches!(row[column].text.as_str(), "" | "0" | "-"))
    }

    /// Narrows columns of names until all fits, or different names would look alike.
    fn shorten(&self, block: &mut Block, room: usize) {
        let mut fixed = vec![false; self.columns.len()];
        while total(block) > room {
            let names = block.iter_mut().filter(|(column, width)| {
                self.columns[*column].1 == Align::Left && *width > TEXT_WIDTH_MIN && !fixed[*column]
            });
            let Some((column, width)) = names.max_by_key(|(_, width)| *width) else { return };
            if self.stay_different(*column, *width - 1) {
                *width -= 1;
            } else {
                fixed[*column] = true;
            }
        }
    }

    fn stay_different(&self, column: usize, width: usize) -> bool {
        let whole: BTreeSet<&str> = self.rows.iter().map(|row| row[column].text.as_str()).collect();
        let cut: BTreeSet<String> = self.rows.iter().map(|row| row[column].shortened(width).text).collect();
        whole.len() == cut.len()
    }

    /// Cuts a block that is too wide into several, each with the columns that say what a row is about.
    fn cut(&self, block: Block, room: usize) -> Vec<Block> {
        let (keys, others): (Block, Block) = block.into_iter().partition(|(column, _)| *column < self.keys);
        let mut blocks = vec![keys.clone()];
        for (column, width) in others {
            let last = blocks.last_mut().expect("there is a first block");
            if last.len() > keys.len() && total(last) + 2 + width > room {
                blocks.push(keys.clone());
            }
            blocks.last_mut().expect("there is a first block").push((column, width));
        }
        blocks
    }

    fn line(&self, row: &[Cell], block: &Block, paint: impl Fn(Tone, &str) -> String) -> String {
        let mut line = String::new();
        let last = block.iter().rposition(|(column, _)| !row[*column].text.is_empty()).unwrap_or(0);
        for (i, (column, width)) in block.iter().enumerate().take(last + 1) {
            let cell = &row[*column].shortened(*width);
            let pad = " ".repeat(width.saturating_sub(cell.width()));
            let text = cell.tone.map_or_else(|| cell.text.clone(), |tone| paint(tone, &cell.text));
            match self.columns[*column].1 {
                Align::Right => line.extend([pad.as_str(), &text]),
                _ if i == last => line.push_str(&text),
                _ => line.extend([text.as_str(), &pad]),
            }
            if i < last {
                line.push_str("  ");
            }
        }
        line
    }
}

/// How wide columns are side by side.
fn total(block: &Block) -> usize {
    block.iter().map(|(_, width)| width).sum::<usize>() + 2 * block.len().saturating_sub(1)
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

    fn plain(table: &Table, room: usize) -> Vec<String> {
        table.lines(Some(room), |_, text| text.to_owned())
    }

    #[test]
    fn names_are_shortened_when_there_is_no_room() {
        let mut table = Table::new([("NAME", Align::Left), ("USED", Align::Right), ("WHY", Align::Whole)]);
        table.row(vec!["a-very-long-name-of-a-node.example.com", "1234567890", "short"]);
        assert_eq!(plain(&table, 40)[1], "a-very-lon…xample.com  1234567890  short");
        let narrow = plain(&table, 5);
        assert!(narrow.iter().any(|line| line.contains("1234567890")), "numbers are never cut: {narrow:?}");
        assert!(narrow.iter().any(|line| line.ends_with("short")), "nothing is lost: {narrow:?}");
    }

    #[test]
    fn names_stay_different_when_they_are_shortened() {
        let mut table = Table::new([("CARD", Align::Left), ("USED", Align::Right)]);
        table.row(vec!["NVIDIA-A100-80GB-PCIe-with-a-long-name", "1"]);
        table.row(vec!["NVIDIA-A100-80GB-SXM4-with-a-long-name", "2"]);
        let lines = plain(&table, 30);
        assert_ne!(lines[1].split("  ").next(), lines[2].split("  ").next(), "{lines:?}");
    }

    #[test]
    fn columns_go_before_characters_when_there_is_no_room() {
        let mut table = Table::new([
            ("NODE", Align::Left),
            ("", Align::Picture),
            ("CPU", Align::Whole),
            ("LENT", Align::Right),
            ("MEMORY", Align::Whole),
        ]);
        table.row(vec!["gpu-1", "[##........]", "12 of 32", "0", "96Gi of 256Gi"]);
        table.row(vec!["gpu-2", "[..........]", "0 of 32", "-", "0 of 256Gi"]);
        assert!(plain(&table, 80)[1].contains("[##"));
        assert_eq!(
            plain(&table, 40),
            [
                "NODE   CPU       LENT  MEMORY",
                "gpu-1  12 of 32     0  96Gi of 256Gi",
                "gpu-2  0 of 32      -  0 of 256Gi"
            ]
        );
        assert_eq!(
            plain(&table, 30),
            ["NODE   CPU       MEMORY", "gpu-1  12 of 32  96Gi of 256Gi", "gpu-2  0 of 32   0 of 256Gi"]
        );
        assert_eq!(
            plain(&table, 25),
            [
                "NODE   CPU",
                "gpu-1  12 of 32",
                "gpu-2  0 of 32",
                "",
                "NODE   MEMORY",
                "gpu-1  96Gi of 256Gi",
                "gpu-2  0 of 256Gi"
            ]
        );
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
