//! Where the programs are: built by `testenv/build.sh`, which knows when there is nothing to build. An older Kubernetes
//! is taken where `TESTENV_KUBERNETES` names one, such as 1.34.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::TestenvError;

/// The older Kubernetes that is asked for, if one is: `1.34`.
pub fn older() -> Option<String> {
    std::env::var("TESTENV_KUBERNETES").ok().filter(|version| !version.is_empty())
}

/// The folder with the programs; builds them where they are missing, which takes some minutes and says so on stderr.
pub fn folder() -> Result<PathBuf, TestenvError> {
    let (older, testenv) = (older(), Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testenv"));
    let script = testenv.join(if older.is_some() { "older/build.sh" } else { "build.sh" });
    let output = Command::new(&script)
        .args(older)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| TestenvError::Build(format!("{}: {error}", script.display())))?;
    if !output.status.success() {
        return Err(TestenvError::Build(format!("{} failed ({}); see above", script.display(), output.status)));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}
