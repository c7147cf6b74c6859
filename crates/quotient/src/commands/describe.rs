//! What the program says about itself: its version, completions for shells, manual pages.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap_complete::Shell;
use quotient_cluster::metrics::{COMMIT, VERSION};
use serde_json::json;

use crate::arguments::{OutputArguments, command_line};
use crate::exit::Exit;
use crate::printer::Printer;

/// Prints the version, and the commit that it was built from.
pub fn version(arguments: OutputArguments) -> Result<Exit> {
    let mut printer = Printer::new(arguments.output);
    if printer.is_for_people() {
        printer.line(format_args!("quotient {VERSION}, commit {COMMIT}"))?;
    } else {
        printer.document(&json!({"version": VERSION, "commit": COMMIT}))?;
    }
    printer.finish()?;
    Ok(Exit::Fine)
}

/// Prints a completion script.
pub fn completion(shell: Shell) -> Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command_line("quotient"), "quotient", &mut text);
    let text = String::from_utf8_lossy(&text);
    // What registers the script comes at its end; for zsh that is ours to do.
    let script = match shell {
        Shell::Zsh => text.split("\nif [ \"$funcstack[1]\"").next().unwrap_or(&text),
        _ => &text,
    };
    let mut printer = Printer::new(crate::arguments::Format::Table);
    for line in script.lines().chain(live_names(shell).lines()) {
        printer.raw_line(line)?;
    }
    printer.finish()?;
    Ok(Exit::Fine)
}

/// What asks the program itself for the names of live objects, where a shell's script can.
fn live_names(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => {
            r#"
_quotient_live() {
    local word="${COMP_WORDS[COMP_CWORD]}"
    if [[ "${COMP_WORDS[1]}" == explain && "$word" != -* ]]; then
        local IFS=$'\n'
        COMPREPLY=($(quotient complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | grep -v '^:' | cut -f 1))
        # After a kind, the name follows at once.
        [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == */ ]] && compopt -o nospace 2>/dev/null
        [[ ${#COMPREPLY[@]} -gt 0 ]] && return 0
    fi
    _quotient "$@"
}
complete -F _quotient_live -o bashdefault -o default quotient
"#
        }
        // The words are quoted one by one: the one that is typed may be empty, and must not be lost.
        Shell::Zsh => {
            r#"
_quotient_live() {
    if [[ "$words[2]" == explain && "$words[CURRENT]" != -* ]]; then
        local -a found kinds
        found=(${(f)"$(quotient complete -- "${(@)words[2,CURRENT]}" 2>/dev/null | grep -v '^:' | cut -f 1)"})
        # After a kind, the name follows at once.
        kinds=(${(M)found:#*/}) found=(${found:#*/})
        local done=1
        (( $#kinds )) && compadd -S '' -- $kinds && done=0
        (( $#found )) && compadd -- $found && done=0
        (( done )) || return 0
    fi
    _quotient "$@"
}
compdef _quotient_live quotient
# A script on the fpath is loaded by the first completion, and answers it.
if [ "$funcstack[1]" = "_quotient" ]; then
    _quotient_live "$@"
fi
"#
        }
        Shell::Fish => {
            r#"
complete -c quotient -n "__fish_seen_subcommand_from explain" -f -a "(quotient complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null | string match -v ':*')"
"#
        }
        _ => "",
    }
}

/// Writes a manual page for the program and one for each command.
pub fn manual(folder: &Path) -> Result<Exit> {
    fs::create_dir_all(folder).with_context(|| format!("{}: a folder cannot be made", folder.display()))?;
    clap_mangen::generate_to(command_line("quotient"), folder)
        .with_context(|| format!("{}: manual pages cannot be written", folder.display()))?;
    Ok(Exit::Fine)
}
