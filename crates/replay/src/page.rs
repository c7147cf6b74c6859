//! Reports as one HTML file: styles and plots are inside, and there is no script.

use std::fmt::Write as _;

use crate::figures::Figures;
use crate::plot::Plot;
use crate::tell::{Sheet, sheets};

/// How many lines a plot shows; more cannot be told apart.
const LINES_MAX: usize = 6;

const STYLE: &str = include_str!("page.css");

/// A whole page with this title and body.
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>\
         <style>{STYLE}</style></head><body><main><h1>{title}</h1>{body}</main></body></html>\n"
    )
}

/// The report of a replay: one configuration, or two side by side.
pub fn replay_page(all: &[Figures]) -> String {
    let Some(first) = all.first() else { return page("Replay", "<p>Nothing was replayed.</p>") };
    let mut body = String::new();
    let days = crate::tell::duration((first.span_seconds * 1000.0) as u64);
    let _ = write!(body, "<p class=\"weak\">{} · {} pods over {days}</p>", escape(&first.trace), first.pods.submitted);
    for note in &first.notes {
        let _ = write!(body, "<p class=\"note\">Note: {}</p>", escape(note));
    }
    for sheet in sheets(all) {
        body.push_str(&section(&sheet));
    }
    body.push_str("<h2>Over time</h2><div class=\"plots\">");
    body.push_str(&compared(all, "Pending pods", "pods", |figures| some(&figures.series.waiting)));
    for figures in all {
        let named = |title: &str| match all.len() {
            1 => title.to_string(),
            _ => format!("{title}: {}", figures.configuration),
        };
        let series = &figures.series;
        for (title, lines) in [("Cards in use", &series.cards), ("Cards in use by team", &series.teams)] {
            let title = named(title);
            let lines = largest(lines).into_iter().map(|(name, values)| (name.clone(), some(values))).collect();
            let (unit, step_seconds) = ("cards", series.width_seconds);
            body.push_str(&Plot { title: &title, unit, step_seconds, lines }.html());
        }
    }
    let unit = "part of the free cards that frequent requests cannot use";
    body.push_str(&compared(all, "Fragmentation", unit, |figures| some(&figures.series.fragmentation)));
    if all.iter().any(|figures| figures.fairness.is_some()) {
        let unit = "Jain's index, 1 is fair";
        body.push_str(&compared(all, "Fairness", unit, |figures| figures.series.fairness.clone()));
    }
    body.push_str("</div>");
    page("Replay", &body)
}

fn some(values: &[f64]) -> Vec<Option<f64>> {
    values.iter().copied().map(Some).collect()
}

/// One plot with a line for each configuration.
fn compared(all: &[Figures], title: &str, unit: &str, values: impl Fn(&Figures) -> Vec<Option<f64>>) -> String {
    let lines = all.iter().map(|figures| (figures.configuration.clone(), values(figures))).collect();
    let step_seconds = all.first().map_or(1.0, |figures| figures.series.width_seconds);
    Plot { title, unit, step_seconds, lines }.html()
}

/// The lines with most under them, by name.
fn largest(lines: &[(String, Vec<f64>)]) -> Vec<&(String, Vec<f64>)> {
    let mut lines: Vec<&(String, Vec<f64>)> = lines.iter().collect();
    lines.sort_by(|a, b| b.1.iter().sum::<f64>().total_cmp(&a.1.iter().sum()));
    lines.truncate(LINES_MAX);
    lines.sort_by(|a, b| a.0.cmp(&b.0));
    lines
}

/// A table under its title; nothing where it has no rows.
pub fn section(sheet: &Sheet) -> String {
    let Sheet { title, columns, left, rows } = sheet;
    if rows.is_empty() {
        return String::new();
    }
    let class = |column: usize| if column < *left { "" } else { " class=\"number\"" };
    let mut out = format!("<h2>{}</h2><div class=\"scroll\"><table><thead><tr>", escape(title));
    for (i, column) in columns.iter().enumerate() {
        let _ = write!(out, "<th scope=\"col\"{}>{}</th>", class(i), escape(column));
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let tag = if i == 0 { "th scope=\"row\"" } else { "td" };
            let _ = write!(out, "<{tag}{}>{}</{}>", class(i), escape(cell), if i == 0 { "th" } else { "td" });
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    out
}

/// Text as HTML shows it.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
