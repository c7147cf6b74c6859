//! Standard output, or a pager where long answers are read on a terminal.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

/// What pages where nothing else is named.
const PAGER: &str = "less";

/// How `less` behaves where nobody says otherwise: it ends at once where all fits, shows colours, and leaves the text
/// on the screen.
const LESS: &str = "FRX";

/// The command that pages: `QUOTIENT_PAGER`, `PAGER`, or `less`. `None` where one of them is empty or `cat`.
pub fn command(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let named = variable("QUOTIENT_PAGER").or_else(|| variable("PAGER"));
    let command = named.unwrap_or_else(|| PAGER.to_owned());
    Some(command.trim().to_owned()).filter(|command| !command.is_empty() && command != "cat")
}

/// Where data goes. A pager is started with the first byte: an answer that is an error alone needs none.
#[derive(Debug)]
pub struct Sink {
    wanted: Option<String>,
    pager: Option<Child>,
    is_closed: bool,
}

impl Sink {
    pub fn new(pager: Option<String>) -> Self {
        Sink { wanted: pager, pager: None, is_closed: false }
    }

    /// Whether nobody reads any more.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn start(&mut self) {
        let Some(command) = self.wanted.take() else { return };
        let mut pager = Command::new("sh");
        pager.arg("-c").arg(command).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            pager.env("LESS", LESS);
        }
        // Without a pager the answer is shown all the same.
        self.pager = pager.spawn().ok();
    }

    /// A reader who has seen enough is no error.
    fn heard<T>(&mut self, outcome: io::Result<T>, instead: T) -> io::Result<T> {
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(instead)
            }
            other => other,
        }
    }

    /// Lets the reader finish, where a pager is open.
    pub fn close(&mut self) {
        if let Some(mut pager) = self.pager.take() {
            drop(pager.stdin.take());
            drop(pager.wait());
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_closed {
            return Ok(bytes.len());
        }
        self.start();
        let outcome = match self.pager.as_mut().and_then(|pager| pager.stdin.as_mut()) {
            Some(input) => input.write(bytes),
            None => io::stdout().write(bytes),
        };
        self.heard(outcome, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let outcome = match self.pager.as_mut().and_then(|pager| pager.stdin.as_mut()) {
            Some(input) => input.flush(),
            None => io::stdout().flush(),
        };
        self.heard(outcome, ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pager_is_the_one_that_is_named() {
        let of = |own: Option<&str>, general: Option<&str>| {
            command(|name| if name == "PAGER" { general.map(str::to_owned) } else { own.map(str::to_owned) })
        };
        assert_eq!(of(None, None).as_deref(), Some("less"));
        assert_eq!(of(None, Some("more")).as_deref(), Some("more"));
        assert_eq!(of(Some("most"), Some("more")).as_deref(), Some("most"));
        assert_eq!(of(Some(""), Some("more")), None);
        assert_eq!(of(None, Some("cat")), None);
    }
}
