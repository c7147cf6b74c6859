//! The one way out: data on stdout, progress and notes on stderr.
//!
//! Colour only ever repeats what the words say, and is left out where `NO_COLOR` is set or nobody is looking. Text from
//! objects is escaped here, so that no command can forget to. A reader who has seen enough (`| head`) is no error and
//! changes no exit code: what is left is written to nobody.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::OnceLock;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::arguments::{Colour, Format, LooksArguments};
use crate::crash;
use crate::escape::{MARKERS, escaped};
use crate::exit::Exit;
use crate::pager::{self, Sink};
use crate::standing::Units;
use crate::table::Table;
use quotient_replay::tell::grouped;

/// The most items of one list that a table shows; `-o wide` shows all.
pub const LINES_MAX: usize = 20;

/// The lowest screen that answers are fitted to.
const ROWS_MIN: usize = 16;

/// The narrowest terminal that tables are fitted to.
const COLUMNS_MIN: usize = 60;

/// What a piece of text is, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Good,
    Bad,
    Weak,
    Strong,
}

impl Tone {
    /// What begins text of this tone within the program, and the code that does on a terminal.
    const ALL: [(Tone, char, &'static str); 4] = [
        (Tone::Good, '\u{fdd0}', "\x1b[32m"),
        (Tone::Bad, '\u{fdd1}', "\x1b[31m"),
        (Tone::Weak, '\u{fdd2}', "\x1b[2m"),
        (Tone::Strong, '\u{fdd3}', "\x1b[1m"),
    ];

    fn marker(self) -> char {
        Tone::ALL.into_iter().find(|(tone, ..)| *tone == self).map_or(END, |(_, marker, _)| marker)
    }
}

/// What ends text of a tone.
const END: char = '\u{fdd4}';

/// How everything is to look, as it was asked for on the command line.
static LOOKS: OnceLock<LooksArguments> = OnceLock::new();

/// Says how everything is to look. What is said later is not heard.
pub fn set_looks(looks: LooksArguments) {
    LOOKS.get_or_init(|| looks);
}

fn looks() -> LooksArguments {
    LOOKS.get().copied().unwrap_or_default()
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Writes answers in the format that was asked for.
pub struct Printer {
    format: Format,
    out: BufWriter<Sink>,
    coloured: bool,
    /// How wide the terminal is, where one is looked at.
    columns: Option<usize>,
    /// How many lines the screen has, where an answer is to stay on it.
    rows: Option<usize>,
    progress: Progress,
}

impl Printer {
    /// One whose answers may be long: on a terminal they go through a pager.
    pub fn paged(format: Format) -> Self {
        let is_wanted = io::stdout().is_terminal() && !is_dumb() && !looks().no_pager;
        let is_for_people = matches!(format, Format::Table | Format::Wide);
        let pager = pager::command(|name| std::env::var(name).ok()).filter(|_| is_wanted && is_for_people);
        Printer { out: BufWriter::new(Sink::new(pager)), ..Printer::new(format) }
    }

    /// One that shows one screen after another: on a terminal an answer stays within its lines.
    pub fn full_screen(format: Format) -> Self {
        let size = terminal_size::terminal_size_of(io::stdout()).filter(|_| !is_dumb());
        Printer { rows: size.map(|(_, height)| usize::from(height.0).max(ROWS_MIN)), ..Printer::new(format) }
    }

    pub fn new(format: Format) -> Self {
        let LooksArguments { color, quiet, .. } = looks();
        let is_terminal = io::stdout().is_terminal();
        let coloured = match color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => {
                let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) || is_dumb();
                !plain && is_terminal
            }
        };
        let is_watched = io::stderr().is_terminal() && std::env::var_os("CI").is_none() && !is_dumb() && !quiet;
        let columns = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
        // A command whose output is cut off must not wrap it, and COLUMNS says so in scripts and tests.
        let given = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        Printer {
            format,
            out: BufWriter::new(Sink::new(None)),
            coloured,
            columns: columns.or(given).map(|columns: usize| columns.max(COLUMNS_MIN)),
            rows: None,
            progress: Progress { shown: false, wanted: is_watched },
        }
    }

    /// The format that was asked for.
    pub fn format(&self) -> Format {
        self.format
    }

    /// How wide the terminal is, where one is looked at.
    pub fn columns(&self) -> Option<usize> {
        self.columns
    }

    /// How many lines the screen has, where an answer is to stay on it.
    pub fn rows(&self) -> Option<usize> {
        self.rows.filter(|_| !self.is_wide())
    }

    /// Whether people read this, and not a program.
    pub fn is_for_people(&self) -> bool {
        matches!(self.format, Format::Table | Format::Wide)
    }

    /// Whether everything is to be told, and not only what matters most.
    pub fn is_wide(&self) -> bool {
        self.format == Format::Wide
    }

    /// How amounts are written: rounded for reading, exact where everything is told.
    pub fn units(&self) -> Units {
        if self.is_wide() { Units::Exact } else { Units::Rounded }
    }

    /// Whether nobody reads the output any more.
    pub fn is_closed(&self) -> bool {
        self.out.get_ref().is_closed()
    }

    /// Writes a value for programs, as JSON or YAML.
    pub fn document(&mut self, value: &impl Serialize) -> Result<()> {
        self.progress.clear();
        match self.format {
            Format::Yaml => {
                let text = serde_saphyr::to_string(value).context("cannot write the answer as YAML")?;
                self.out.write_all(text.as_bytes())?;
                if !text.ends_with('\n') {
                    self.out.write_all(b"\n")?;
                }
            }
            _ => {
                serde_json::to_writer_pretty(&mut self.out, value)?;
                self.out.write_all(b"\n")?;
            }
        }
        self.out.flush()?;
        Ok(())
    }

    /// Writes values as documents of one YAML stream.
    pub fn documents(&mut self, values: &[impl Serialize]) -> Result<()> {
        for value in values {
            self.line("---")?;
            self.document(value)?;
        }
        Ok(())
    }

    /// Writes a line for people.
    pub fn line(&mut self, line: impl Display) -> Result<()> {
        self.progress.clear();
        let text = self.shown(&line.to_string());
        writeln!(self.out, "{text}")?;
        Ok(())
    }

    /// Writes a line for a shell, in which tabs stay as they are; it has no other control characters.
    pub fn raw_line(&mut self, line: impl Display) -> Result<()> {
        let text: Vec<String> = line.to_string().split('\t').map(|part| escaped(part).into_owned()).collect();
        writeln!(self.out, "{}", text.join("\t"))?;
        Ok(())
    }

    /// A line as it is shown: escaped, and with the colours that are shown.
    fn shown(&self, line: &str) -> String {
        let mut shown = String::with_capacity(line.len());
        let mut rest = line;
        while let Some(at) = rest.find(|c| MARKERS.contains(&c)).filter(|_| self.coloured) {
            shown.push_str(&escaped(&rest[..at]));
            let marker = rest[at..].chars().next().unwrap_or(END);
            let code =
                Tone::ALL.into_iter().find(|(_, begins, _)| *begins == marker).map_or("\x1b[0m", |(.., code)| code);
            shown.push_str(code);
            rest = &rest[at + marker.len_utf8()..];
        }
        shown.push_str(&escaped(rest));
        shown
    }

    /// Writes a table, each line after `indent`, no wider than the terminal where that can be.
    pub fn table(&mut self, indent: &str, table: &Table) -> Result<()> {
        let room = self.columns.filter(|_| !self.is_wide()).map(|columns| columns.saturating_sub(indent.len()));
        for line in table.lines(room, |tone, text| self.paint(tone, text)) {
            self.line(format_args!("{indent}{line}"))?;
        }
        Ok(())
    }

    /// How many of `count` things are shown where a table shows at most `most`; the wide format shows all.
    pub fn shown_of(&self, count: usize, most: usize) -> usize {
        if self.is_wide() { count } else { count.min(most) }
    }

    /// Says how many were left out, where some were.
    pub fn left_out(&mut self, count: usize, shown: usize) -> Result<()> {
        if count <= shown {
            return Ok(());
        }
        self.line(format_args!("  … and {} more (-o wide shows all)", grouped((count - shown) as u64)))
    }

    /// Writes each item's lines, at most [`LINES_MAX`] items in a table, and how many were left out.
    pub fn list<T>(&mut self, items: &[T], lines: impl Fn(&Printer, &T) -> Vec<String>) -> Result<()> {
        let shown = self.shown_of(items.len(), LINES_MAX);
        for item in items.iter().take(shown) {
            for line in lines(self, item) {
                self.line(format_args!("  {line}"))?;
            }
        }
        self.left_out(items.len(), shown)
    }

    /// The text with its colour, where colour is shown.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.coloured {
            return text.to_owned();
        }
        format!("{}{}{END}", tone.marker(), escaped(text))
    }

    /// Says something that is not part of the answer, on stderr, unless nothing but the answer is wanted, or it would
    /// push the answer off its screen.
    pub fn note(&mut self, text: impl Display) {
        if !looks().quiet && self.rows.is_none() {
            self.say(text);
        }
    }

    /// Says something only to those who want to know more, on stderr.
    pub fn detail(&mut self, text: impl Display) {
        if looks().verbose {
            self.say(text);
        }
    }

    fn say(&mut self, text: impl Display) {
        self.progress.clear();
        // A reader of stderr that is gone must not turn an answer into a crash.
        drop(writeln!(io::stderr(), "{}", escaped(&text.to_string())));
    }

    /// Says what is wrong with the input, a line each, on stderr.
    pub fn refuse(&mut self, problems: &[impl Display]) -> Exit {
        for problem in problems {
            self.say(format_args!("error: {problem}"));
        }
        Exit::BadInput
    }

    /// Says that the program itself went wrong.
    pub fn bug(&mut self, what: &impl Display) -> Exit {
        self.say(crash::message(what));
        Exit::Bug
    }

    /// Shows how far a long command is, on a terminal only; the next line replaces it.
    pub fn progress(&mut self, text: impl Display) {
        self.progress.show(text);
    }

    /// Begins the screen anew, on a terminal; a line between two answers elsewhere.
    pub fn next_screen(&mut self) -> Result<()> {
        self.progress.clear();
        match io::stdout().is_terminal() && !is_dumb() {
            true => self.out.write_all(b"\x1b[H\x1b[2J")?,
            false => self.out.write_all(b"\n")?,
        }
        Ok(())
    }

    /// Makes sure that everything is out, and read where a pager shows it.
    pub fn finish(&mut self) -> Result<()> {
        self.progress.clear();
        self.out.flush()?;
        self.out.get_mut().close();
        Ok(())
    }
}

/// A line on the terminal that is overwritten in place.
struct Progress {
    shown: bool,
    wanted: bool,
}

impl Progress {
    fn show(&mut self, text: impl Display) {
        if self.wanted {
            drop(write!(io::stderr(), "\r\x1b[2K{}", escaped(&text.to_string())));
            self.shown = true;
        }
    }

    fn clear(&mut self) {
        if self.shown {
            drop(write!(io::stderr(), "\r\x1b[2K"));
            self.shown = false;
        }
    }
}
