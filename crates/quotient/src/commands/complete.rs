//! `quotient complete`: what may follow the words that are typed so far, names of the live cluster included.
//!
//! The answer is what kubectl asks of plugins (`kubectl_complete-quotient`): a candidate a line, with a description
//! after a tab, and at last a directive. The scripts of `quotient completion` ask in the same way. Where the cluster
//! does not answer at once there are no names, and nothing is said: people are typing.

use anyhow::Result;
use clap::{ArgAction, Command};

use crate::arguments::{ClusterArguments, Format, command_line};
use crate::commands::explain::OWNERS;
use crate::exit::Exit;
use crate::live;
use crate::printer::Printer;

/// The shell may propose files.
const FILES: u8 = 0;
/// It may not.
const NO_FILES: u8 = 4;

/// What may follow, with what each means.
#[derive(Debug, Default, PartialEq, Eq)]
struct Candidates {
    list: Vec<(String, String)>,
    directive: u8,
}

/// Prints what may follow; the last word is the one that is being typed.
pub fn run(words: &[String]) -> Result<Exit> {
    let mut printer = Printer::new(Format::Table);
    let names = |cluster: ClusterArguments, resource: &str| live::names(&cluster.which(None), resource);
    let Candidates { list, directive } = candidates(words, &names);
    for (candidate, description) in list {
        let after = if description.is_empty() { String::new() } else { format!("\t{description}") };
        printer.raw_line(format_args!("{candidate}{after}"))?;
    }
    printer.raw_line(format_args!(":{directive}"))?;
    printer.finish()?;
    Ok(Exit::Fine)
}

/// Names of objects of a resource (`pods`), as `namespace/name`.
type Names<'a> = dyn Fn(ClusterArguments, &str) -> Vec<String> + 'a;

fn candidates(words: &[String], names: &Names<'_>) -> Candidates {
    let root = command_line("quotient");
    let Some((typed, before)) = words.split_last() else { return Candidates::default() };
    let Some((name, rest)) = before.split_first() else {
        let commands = root.get_subcommands().filter(|command| !command.is_hide_set());
        let about = |command: &Command| command.get_about().map(ToString::to_string).unwrap_or_default();
        let list = commands.map(|command| (command.get_name().to_owned(), about(command)));
        return starting(list, typed, NO_FILES);
    };
    let Some(command) = root.get_subcommands().find(|command| command.get_name() == name) else {
        return Candidates::default();
    };
    if rest.last().is_some_and(|last| takes_value(&root, command, last)) {
        return Candidates { list: Vec::new(), directive: FILES };
    }
    if typed.starts_with('-') {
        let flags = command.get_arguments().chain(root.get_arguments()).filter(|argument| !argument.is_hide_set());
        let list = flags.filter_map(|argument| {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            Some((format!("--{}", argument.get_long()?), help.lines().next().unwrap_or_default().to_owned()))
        });
        return starting(list, typed, NO_FILES);
    }
    match name.as_str() {
        "explain" => objects(&root, command, rest, typed, names),
        _ => Candidates { list: Vec::new(), directive: FILES },
    }
}

/// Pods, and what makes pods once its kind is typed.
fn objects(root: &Command, command: &Command, rest: &[String], typed: &str, names: &Names<'_>) -> Candidates {
    let cluster =
        ClusterArguments { kubeconfig: value(rest, "--kubeconfig").map(Into::into), context: value(rest, "--context") };
    let plain: Vec<&String> = plain_words(root, command, rest);
    let kind = typed.split_once('/').map(|(kind, _)| kind);
    let owner = OWNERS.iter().find(|owner| kind.is_some_and(|kind| owner.to_lowercase() == kind));
    if let Some(owner) = owner.filter(|_| plain.is_empty()) {
        let word = owner.to_lowercase();
        let found = names(cluster, &format!("{word}s"));
        return starting(found.into_iter().map(|name| (format!("{word}/{name}"), String::new())), typed, NO_FILES);
    }
    let is_eviction = matches!(plain[..], [word] if word == "eviction");
    if !plain.is_empty() && !is_eviction {
        return Candidates { list: Vec::new(), directive: NO_FILES };
    }
    let pods = names(cluster, "pods").into_iter().map(|name| (name, String::new()));
    let kinds = OWNERS.iter().map(|owner| (format!("{}/", owner.to_lowercase()), format!("all pods of a {owner}")));
    let word = [("eviction".to_owned(), "why a pod was evicted".to_owned())];
    let others: Vec<(String, String)> = if is_eviction { Vec::new() } else { word.into_iter().chain(kinds).collect() };
    starting(pods.chain(others), typed, NO_FILES)
}

fn starting(list: impl Iterator<Item = (String, String)>, typed: &str, directive: u8) -> Candidates {
    Candidates { list: list.filter(|(candidate, _)| candidate.starts_with(typed)).collect(), directive }
}

/// Whether a word is a flag that wants a value after it.
fn takes_value(root: &Command, command: &Command, word: &str) -> bool {
    if !word.starts_with('-') || word.contains('=') {
        return false;
    }
    let mut all = command.get_arguments().chain(root.get_arguments());
    all.any(|argument| {
        let is_it = argument.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long))
            || argument.get_short().is_some_and(|short| word == format!("-{short}"));
        is_it && matches!(argument.get_action(), ArgAction::Set | ArgAction::Append)
    })
}

/// The words that are neither flags nor their values.
fn plain_words<'a>(root: &Command, command: &Command, words: &'a [String]) -> Vec<&'a String> {
    let is_value = |at: usize| at > 0 && takes_value(root, command, &words[at - 1]);
    let plain = words.iter().enumerate().filter(|(at, word)| !word.starts_with('-') && !is_value(*at));
    plain.map(|(_, word)| word).collect()
}

/// The value that a flag has among the words.
fn value(words: &[String], flag: &str) -> Option<String> {
    let joined = words.iter().find_map(|word| word.strip_prefix(flag)?.strip_prefix('=').map(str::to_owned));
    joined.or_else(|| words.iter().position(|word| word == flag).and_then(|at| words.get(at + 1).cloned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(words: &[&str]) -> (Vec<String>, u8) {
        let names = |cluster: ClusterArguments, resource: &str| match (cluster.context.as_deref(), resource) {
            (Some("other"), _) => Vec::new(),
            (_, "pods") => vec!["a/p-0".to_owned(), "b/p-1".to_owned()],
            (_, "jobs") => vec!["a/train".to_owned()],
            _ => Vec::new(),
        };
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let Candidates { list, directive } = candidates(&words, &names);
        (list.into_iter().map(|(candidate, _)| candidate).collect(), directive)
    }

    #[test]
    fn commands_flags_and_live_names_are_proposed() {
        let of = |words: &[&str]| after(words).0;
        assert_eq!(of(&["pl"]), ["plan"]);
        assert_eq!(of(&["explain", "--kubec"]), ["--kubeconfig"]);
        assert_eq!(of(&["explain", "a/"]), ["a/p-0"]);
        assert_eq!(of(&["explain", "job/"]), ["job/a/train"]);
        assert_eq!(of(&["explain", "ev"]), ["eviction"]);
        assert_eq!(of(&["explain", "eviction", "b"]), ["b/p-1"]);
        assert_eq!(of(&["explain", "--context", "other", "a/"]), [""; 0]);
        assert_eq!(of(&["explain", "a/p-0", ""]), [""; 0]);
        assert_eq!(after(&["explain", "a/p-0", "-f", ""]), (Vec::new(), FILES));
        assert_eq!(after(&["simulate", ""]), (Vec::new(), FILES));
    }
}
