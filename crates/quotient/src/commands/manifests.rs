//! Manifests that are named on the command line: files, folders, standard input.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use quotient_api::{Problem, read};
use quotient_sim::Input;

/// What stands for standard input.
const STDIN: &str = "-";

/// Reads everything that is to be applied, one input for each file. A file that cannot be opened is a mistake of
/// whoever typed its name.
pub fn inputs(paths: &[PathBuf]) -> Result<Vec<Input>, Vec<Problem>> {
    let mut inputs = Vec::new();
    let mut problems = Vec::new();
    for path in paths {
        match read_inputs(path) {
            Ok(read) => inputs.extend(read),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(inputs) } else { Err(problems) }
}

fn read_inputs(path: &Path) -> Result<Vec<Input>, Problem> {
    if path == Path::new(STDIN) {
        let mut text = String::new();
        let unreadable = |error| Problem::new(format!("cannot be read: {error}")).in_file("standard input");
        std::io::stdin().read_to_string(&mut text).map_err(unreadable)?;
        return Ok(vec![Input { file: STDIN.to_owned(), read: read::read("standard input", &text) }]);
    }
    read::files_of(path)?
        .iter()
        .map(|file| {
            let name = file.display().to_string();
            let text = read::read_text(file)?;
            Ok(Input { read: read::read(&name, &text), file: name })
        })
        .collect()
}
