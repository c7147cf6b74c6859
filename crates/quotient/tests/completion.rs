//! The completion scripts, in the shells that are installed here; the test says which are not. Without a cluster there
//! are no names of pods, and everything else is there.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quotient");

/// What is typed, and what it is completed to.
const TYPED: [(&str, &str); 4] = [
    ("quotient pl", "plan"),
    ("quotient explain jo", "job/"),
    ("quotient explain ev", "eviction"),
    ("quotient explain --kubec", "--kubeconfig"),
];

/// A folder of a shell's own with the program under its names, and with the script of the shell.
fn folder(shell: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("completion-{shell}"));
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    for name in ["quotient", "kubectl-quotient"] {
        symlink(PROGRAM, folder.join(name)).expect("a link can be made");
    }
    let script = Command::new(PROGRAM).args(["completion", shell]).output().expect("it runs");
    std::fs::write(folder.join("_quotient"), script.stdout).expect("a file can be written");
    folder
}

/// Runs a program with the folder first on its path, and without a cluster. `None`: it is not installed.
fn said(folder: &Path, program: &str, arguments: &[&str]) -> Option<String> {
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).env("PATH", path);
    command.env("HOME", folder).env("KUBECONFIG", folder.join("none"));
    match command.output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("{program} is not installed: its completion is not tried");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

#[test]
fn bash_completes() {
    const ASK: &str = r#"source ./_quotient; COMP_LINE="$1"; COMP_POINT=${#1}; read -ra COMP_WORDS <<< "$1"
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
        _quotient_live quotient "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"; echo "${COMPREPLY[*]}""#;
    let folder = folder("bash");
    for (typed, wanted) in TYPED {
        let Some(said) = said(&folder, "bash", &["--norc", "-c", ASK, "bash", typed]) else { return };
        assert_eq!(said.trim(), wanted, "{typed}");
    }
}

#[test]
fn fish_completes() {
    let folder = folder("fish");
    for (typed, wanted) in TYPED {
        let ask = format!("source ./_quotient; complete -C '{typed}'");
        let Some(said) = said(&folder, "fish", &["-N", "-c", &ask]) else { return };
        let first: Vec<&str> = said.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(first, [wanted], "{typed}");
    }
}

/// A terminal of zsh's own: the script is on its fpath, as packages install it, and the line is typed with a tab.
#[test]
fn zsh_completes() {
    const ASK: &str = r#"zmodload zsh/zpty; zpty z zsh -f -i
        zpty -w z "PS1='ready> '; fpath=($PWD \$fpath); autoload -Uz compinit; compinit -u -D; print loa''ded"
        until [[ "$line" == *loaded* ]]; do zpty -r z line || exit 1; done
        zpty -n -w z "$1"$'\t'; for i in {1..40}; do
            sleep 0.1; while zpty -rt z line 2>/dev/null; do print -rn -- "$line"; done; done"#;
    let folder = folder("zsh");
    for (typed, wanted) in TYPED {
        let Some(said) = said(&folder, "zsh", &["-f", "-c", ASK, "zsh", typed]) else { return };
        let (before, _) = typed.rsplit_once(' ').expect("several words");
        assert!(said.contains(&format!("{before} {wanted}")), "{typed}: {said:?}");
    }
}

/// kubectl asks `kubectl_complete-quotient` for what follows `kubectl quotient`.
#[test]
fn kubectl_completes() {
    let folder = folder("elvish");
    let plugin = folder.join("kubectl_complete-quotient");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubectl_complete-quotient");
    std::fs::copy(shipped, &plugin).expect("a file can be copied");
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o755)).expect("it can be made executable");
    for (typed, wanted) in TYPED {
        let words: Vec<&str> = ["__complete"].into_iter().chain(typed.split(' ')).collect();
        let Some(said) = said(&folder, "kubectl", &words) else { return };
        let first = said.lines().next().and_then(|line| line.split('\t').next()).unwrap_or_default();
        assert_eq!(first, wanted, "{typed}: {said}");
    }
}
