//! How the program ends, so that scripts can tell a "no" from a typing mistake and both from a bug.

use std::process::ExitCode;

/// What the exit code says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Fine,
    /// The answer is no: an expectation failed, a goal was missed.
    No,
    /// The input has a mistake; what it is was said on stderr.
    BadInput,
    /// The program is wrong, not the input.
    Bug,
}

impl Exit {
    /// The number the shell sees. 2 is also what the argument parser ends with; 70 is `EX_SOFTWARE`.
    pub fn code(self) -> u8 {
        match self {
            Exit::Fine => 0,
            Exit::No => 1,
            Exit::BadInput => 2,
            Exit::Bug => 70,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
