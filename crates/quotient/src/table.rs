//! Columns of text that line up. Widths are counted in characters; the last column is never padded.

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
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows yet.
    pub fn new<T: Into<String>>(columns: impl IntoIterator<Item = (T, Align)>) -> Self {
        let columns = columns.into_iter().map(|(title, align)| (title.into(), align)).collect();
        Table { columns, rows: Vec::new() }
    }

    /// Adds a row; it has a cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// The lines of the table, heading first.
    pub fn lines(&self) -> Vec<String> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let heading: Vec<String> = self.columns.iter().map(|(title, _)| title.clone()).collect();
        let width = |column: usize| {
            self.rows.iter().chain([&heading]).map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        [&heading].into_iter().chain(&self.rows).map(|row| self.line(row, &widths)).collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[i] - cell.chars().count());
            match self.columns[i].1 {
                Align::Right => line.extend([pad.as_str(), cell]),
                Align::Left => line.extend([cell, pad.as_str()]),
            }
            line.push_str("  ");
        }
        line.truncate(line.trim_end().len());
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
        table.row(vec!["a".into(), "1".into(), String::new()]);
        table.row(vec!["größer".into(), "12,000".into(), "full".into()]);
        assert_eq!(table.lines(), ["NAME      PODS  WHY", "a            1", "größer  12,000  full"]);
        assert!(Table::new([("NAME", Align::Left)]).lines().is_empty());
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
