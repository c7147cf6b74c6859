//! The one way out: data on stdout, progress and notes on stderr.
//!
//! Colour only ever repeats what the words say, and is left out where `NO_COLOR` is set or nobody is looking.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::arguments::Format;
use crate::crash;
use crate::exit::Exit;
use crate::table::{Table, grouped};

/// The most items of one list that a table shows; `-o wide` shows all.
pub const LINES_MAX: usize = 20;

/// What a piece of text is, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Good,
    Bad,
    Weak,
    Strong,
}

/// Writes answers in the format that was asked for.
pub struct Printer {
    format: Format,
    out: BufWriter<io::Stdout>,
    coloured: bool,
    progress: Progress,
}

impl Printer {
    pub fn new(format: Format) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Printer {
            format,
            out: BufWriter::new(io::stdout()),
            coloured: !plain && io::stdout().is_terminal(),
            progress: Progress { shown: false, wanted: io::stderr().is_terminal() && std::env::var_os("CI").is_none() },
        }
    }

    /// The format that was asked for.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether people read this, and not a program.
    pub fn is_for_people(&self) -> bool {
        matches!(self.format, Format::Table | Format::Wide)
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
        writeln!(self.out, "{line}")?;
        Ok(())
    }

    /// Writes a table, each line after `indent`.
    pub fn table(&mut self, indent: &str, table: &Table) -> Result<()> {
        for line in table.lines(|tone, text| self.paint(tone, text)) {
            self.line(format_args!("{indent}{line}"))?;
        }
        Ok(())
    }

    /// How many of `count` things are shown where a table shows at most `most`; the wide format shows all.
    pub fn shown_of(&self, count: usize, most: usize) -> usize {
        if self.format == Format::Wide { count } else { count.min(most) }
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
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Weak => "2",
            Tone::Strong => "1",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Says something that is not part of the answer, on stderr.
    pub fn note(&mut self, text: impl Display) {
        self.progress.clear();
        eprintln!("{text}");
    }

    /// Says what is wrong with the input, a line each, on stderr.
    pub fn refuse(&mut self, problems: &[impl Display]) -> Exit {
        for problem in problems {
            self.note(format_args!("error: {problem}"));
        }
        Exit::BadInput
    }

    /// Says that the program itself went wrong.
    pub fn bug(&mut self, what: &impl Display) -> Exit {
        self.note(crash::message(what));
        Exit::Bug
    }

    /// Shows how far a long command is, on a terminal only; the next line replaces it.
    pub fn progress(&mut self, text: impl Display) {
        self.progress.show(text);
    }

    /// Makes sure that everything is out. A reader who has seen enough (`| head`) is no error.
    pub fn finish(&mut self) -> Result<()> {
        self.progress.clear();
        self.out.flush()?;
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
            eprint!("\r\x1b[2K{text}");
            self.shown = true;
        }
    }

    fn clear(&mut self) {
        if self.shown {
            eprint!("\r\x1b[2K");
            self.shown = false;
        }
    }
}

/// Whether the error is only that nobody reads our output any more.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let kind = cause
            .downcast_ref::<io::Error>()
            .map(io::Error::kind)
            .or_else(|| cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind));
        kind == Some(io::ErrorKind::BrokenPipe)
    })
}
