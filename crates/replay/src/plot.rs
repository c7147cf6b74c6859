//! Line plots as SVG, drawn once and without a script. A table beside each says the same in numbers.

use std::fmt::Write as _;

use crate::page::escape;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 48.0;
const BOTTOM: f64 = 24.0;
const TOP: f64 = 8.0;

/// Lines are told apart by dashes as well as by colour.
const DASHES: [&str; 6] = ["", "6 3", "2 3", "10 3 2 3", "1 2", "12 4"];

/// Lines over time.
#[derive(Debug, Clone)]
pub struct Plot<'a> {
    pub title: &'a str,
    /// What the vertical axis counts.
    pub unit: &'a str,
    /// Seconds between two points.
    pub step_seconds: f64,
    pub lines: Vec<(String, Vec<Option<f64>>)>,
}

impl Plot<'_> {
    /// The plot with its legend, and the same numbers as a table of at most twelve rows.
    pub fn html(&self) -> String {
        let mut out = String::new();
        let count = self.lines.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
        let top = self.lines.iter().flat_map(|(_, values)| values.iter().flatten()).copied().fold(0.0, f64::max);
        let top = nice(top);
        let _ = write!(
            out,
            "<figure><figcaption>{} <span class=\"weak\">({})</span></figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}, as a plot; the table below has the numbers\">",
            escape(self.title),
            escape(self.unit),
            escape(self.title)
        );
        for tick in 0..=4 {
            let value = top * f64::from(tick) / 4.0;
            let y = y_of(value, top);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                number(value)
            );
        }
        for tick in 0..=4 {
            let x = LEFT + (WIDTH - LEFT) * f64::from(tick) / 4.0;
            let seconds = self.step_seconds * count as f64 * f64::from(tick) / 4.0;
            let anchor = ["start", "middle", "middle", "middle", "end"][tick as usize];
            let _ = write!(
                out,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                HEIGHT - 6.0,
                crate::tell::duration((seconds * 1000.0) as u64)
            );
        }
        for (index, (_, values)) in self.lines.iter().enumerate() {
            let _ = write!(
                out,
                "<path class=\"line c{}\" stroke-dasharray=\"{}\" d=\"{}\"/>",
                index % 6,
                DASHES[index % 6],
                path(values, count, top)
            );
        }
        out.push_str("</svg><ul class=\"legend\">");
        for (index, (name, _)) in self.lines.iter().enumerate() {
            let _ = write!(
                out,
                "<li><svg viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"line c{}\" stroke-dasharray=\"{}\" d=\"M0 4H24\"/></svg>{}</li>",
                index % 6,
                DASHES[index % 6],
                escape(name)
            );
        }
        out.push_str("</ul>");
        self.table(&mut out, count);
        out.push_str("</figure>");
        out
    }

    fn table(&self, out: &mut String, count: usize) {
        out.push_str("<details><summary>The numbers</summary><table><thead><tr><th scope=\"col\">From</th>");
        for (name, _) in &self.lines {
            let _ = write!(out, "<th scope=\"col\" class=\"number\">{}</th>", escape(name));
        }
        out.push_str("</tr></thead><tbody>");
        let stride = count.div_ceil(12).max(1);
        for start in (0..count).step_by(stride) {
            let from = crate::tell::duration((self.step_seconds * start as f64 * 1000.0) as u64);
            let _ = write!(out, "<tr><th scope=\"row\">{from}</th>");
            for (_, values) in &self.lines {
                let part = &values[start.min(values.len())..(start + stride).min(values.len())];
                let known: Vec<f64> = part.iter().flatten().copied().collect();
                let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
                let _ = write!(out, "<td class=\"number\">{}</td>", mean.map_or("-".into(), number));
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></details>");
    }
}

fn y_of(value: f64, top: f64) -> f64 {
    HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top
}

/// A line through the points; it is broken where there is none.
fn path(values: &[Option<f64>], count: usize, top: f64) -> String {
    let mut path = String::new();
    let mut drawn = false;
    for (index, value) in values.iter().enumerate() {
        let Some(value) = value else {
            drawn = false;
            continue;
        };
        let x = LEFT + (WIDTH - LEFT) * index as f64 / (count.max(2) - 1) as f64;
        let _ = write!(path, "{}{x:.1} {:.1}", if drawn { "L" } else { "M" }, y_of(*value, top));
        drawn = true;
    }
    path
}

/// The next of some round numbers times a power of ten; a quarter of each is round as well.
fn nice(top: f64) -> f64 {
    if top <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(top.log10().floor());
    [1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|step| *step >= top * 0.999)
        .unwrap_or(top)
}

fn number(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => crate::tell::grouped(value.round() as u64),
        value if value == value.round() => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_where_nothing_is_known() {
        assert_eq!(path(&[Some(0.0), None, Some(1.0)], 3, 1.0), "M48.0 176.0M720.0 8.0");
        assert_eq!(nice(7.0), 8.0);
        assert_eq!((nice(2.3), nice(0.0), nice(100.0)), (2.4, 1.0, 100.0));
    }

    #[test]
    fn names_are_escaped() {
        let plot = Plot { title: "<b>", unit: "u", step_seconds: 1.0, lines: vec![("a&b".into(), vec![Some(1.0)])] };
        let html = plot.html();
        assert!(html.contains("&lt;b&gt;") && html.contains("a&amp;b") && !html.contains("<b>"), "{html}");
    }
}
