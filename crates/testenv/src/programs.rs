//! Where the programs are: built by `testenv/build.sh`, which knows when there is nothing to build.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::TestenvError;

/// The folder with the programs; builds them where they are missing, which takes some minutes and says so on stderr.
pub fn folder() -> Result<PathBuf, TestenvError> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testenv/build.sh");
    let output = Command::new(&script)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| TestenvError::Build(format!("{}: {error}", script.display())))?;
    if !output.status.success() {
        return Err(TestenvError::Build(format!("{} failed ({}); see above", script.display(), output.status)));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}
