//! Checks of pull requests: the script behind `action.yml` runs the program, keeps its exit code, and writes the plan
//! once into the job's summary and into the comment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::files::root;

/// A folder with a `gh` that keeps what it was called with; there is no server to write a comment to.
fn folder(name: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("action-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder can be made");
    let gh = folder.join("gh");
    fs::write(&gh, "#!/bin/sh\necho \"$@\" > \"$KEPT/arguments\"\ncat > \"$KEPT/comment\"\n").expect("gh is written");
    fs::set_permissions(&gh, fs::Permissions::from_mode(0o755)).expect("gh can be run");
    folder
}

fn run(folder: &Path, command: &str, files: &str, on: &str) -> Output {
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    Command::new(root().join("packaging/action.sh"))
        .current_dir(root())
        .env("PATH", path)
        .env("QUOTIENT", env!("CARGO_BIN_EXE_quotient"))
        .envs([("COMMAND", command), ("FILES", files), ("ON", on), ("PULL_REQUEST", "7")])
        .env("KEPT", folder)
        .env("GITHUB_STEP_SUMMARY", folder.join("summary"))
        .stdin(Stdio::null())
        .output()
        .expect("the script runs")
}

#[test]
fn plan_is_written_as_comment_and_summary() {
    let folder = folder("plan");
    let output = run(&folder, "plan", "examples/two-teams/change/quotas.yaml", "examples/two-teams");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let kept = |name: &str| fs::read_to_string(folder.join(name)).expect("it was written");
    assert_eq!(kept("arguments").trim(), "pr comment 7 --edit-last --create-if-none --body-file -");
    assert!(kept("comment").starts_with("### `quotient plan`"), "{}", kept("comment"));
    let log = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!log.trim().is_empty() && kept("comment").contains(log.trim()), "{log}");
    assert_eq!(kept("comment"), kept("summary"));
}

#[test]
fn exit_code_is_the_commands_when_there_are_findings_or_mistakes() {
    let folder = folder("codes");
    let tested = run(&folder, "test", "scenarios/elastic", "");
    assert_eq!(tested.status.code(), Some(0), "{}", String::from_utf8_lossy(&tested.stdout));
    let missing = run(&folder, "lint", "examples/there-is-no-such-folder", "");
    assert_eq!(missing.status.code(), Some(2), "{}", String::from_utf8_lossy(&missing.stdout));
    let unknown = run(&folder, "apply", "examples", "");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("expected lint, test, simulate or plan"));
    assert!(!folder.join("comment").exists(), "only plan is a comment");
}
