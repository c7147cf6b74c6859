//! A clock that tests set: a library that the program is started with adds seconds to the time of day.

use std::path::{Path, PathBuf};
use std::process::Command;

pub struct SetClock {
    library: PathBuf,
    offset: PathBuf,
}

impl SetClock {
    /// Compiles the library into the folder; the clock goes right at first.
    pub fn new(folder: &Path) -> Self {
        let (library, offset) = (folder.join("clock.so"), folder.join("offset"));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/clock.c");
        let compiled = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status();
        assert!(compiled.expect("there is a C compiler").success());
        let clock = SetClock { library, offset };
        clock.set(0);
        clock
    }

    /// Sets the clock of all who wear it so many seconds forward, or back.
    pub fn set(&self, seconds: i64) {
        std::fs::write(&self.offset, seconds.to_string()).expect("the folder can be written");
    }

    /// A program that is started so has this clock.
    pub fn wear(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("QUOTIENT_TEST_CLOCK", &self.offset);
    }
}
