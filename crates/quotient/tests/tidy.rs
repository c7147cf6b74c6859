//! The project's style, as far as a program can check it: names of files, width of lines, what a module starts with,
//! notes left for later, links that lead nowhere. The tests at the end show that each check can fail.

use std::fs;
use std::path::{Path, PathBuf};

/// A file is a thing someone would look for by its name; nobody looks for one of these.
const NAMELESS: &[&str] = &["util", "utils", "common", "helper", "helpers", "types", "manager", "misc"];

const COLUMNS_MAX: usize = 120;

/// Folders that are not ours to read: built, fetched, or kept by git.
const SKIPPED: &[&str] = &["target", ".git", "node_modules", "corpus", "artifacts"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(dir: &Path, extension: &str, into: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(dir).expect("the folder is there").map(|e| e.expect("an entry can be read").path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !SKIPPED.contains(&&*name) {
            files(&path, extension, into);
        } else if path.extension().is_some_and(|e| e == extension) {
            into.push(path);
        }
    }
}

fn all(extension: &str) -> Vec<(String, String)> {
    let (root, mut found) = (root(), Vec::new());
    files(&root, extension, &mut found);
    assert!(!found.is_empty(), "no .{extension} files under {}", root.display());
    found
        .iter()
        .map(|path| {
            let name = path.strip_prefix(&root).expect("it was found under the root").to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
        })
        .collect()
}

/// How wide each line is without what stands between quotation marks: a message or a table of a test is left whole, so
/// that it can be searched for. Strings may go over several lines.
fn widths_without_text(source: &str) -> Vec<usize> {
    let source = source.replace(r#"'\"'"#, "' '").replace("'\"'", "' '");
    let mut widths = Vec::new();
    // How the string we are in ends, if we are in one.
    let mut ends: Option<String> = None;
    for line in source.lines() {
        let (mut width, mut rest) = (0, line);
        while let Some(c) = rest.chars().next() {
            let mut taken = c.len_utf8();
            match &ends {
                Some(end) if rest.starts_with(end.as_str()) => {
                    taken = end.len();
                    ends = None;
                }
                Some(end) if c == '\\' && end == "\"" => taken += rest[1..].chars().next().map_or(0, char::len_utf8),
                Some(_) => {}
                None if rest.starts_with("//") => {
                    width += rest.chars().count();
                    break;
                }
                None => {
                    width += 1;
                    let hashes = rest.strip_prefix('r').map_or(0, |r| r.chars().take_while(|c| *c == '#').count());
                    let raw = format!("r{}\"", "#".repeat(hashes));
                    if rest.starts_with(&raw) {
                        taken = raw.len();
                        ends = Some(format!("\"{}", "#".repeat(hashes)));
                    } else if c == '"' {
                        ends = Some("\"".to_owned());
                    }
                }
            }
            rest = &rest[taken..];
        }
        widths.push(width);
    }
    widths
}

/// What is wrong with a Rust source file, one line each.
fn untidy(name: &str, source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
    if NAMELESS.contains(&&*stem) || name.split('/').any(|folder| NAMELESS.contains(&folder)) {
        found.push(format!("{name}: its name does not say what it holds"));
    }
    if !source.trim_start().starts_with("//!") {
        found.push(format!("{name}:1: a module starts with `//!` and what it is for"));
    }
    let notes = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let widths = widths_without_text(source);
    for (i, line) in source.lines().enumerate() {
        let columns = line.chars().count();
        if widths[i] > COLUMNS_MAX {
            found.push(format!("{name}:{}: {columns} columns, at most {COLUMNS_MAX}", i + 1));
        }
        if let Some(note) = notes.iter().find(|note| line.contains(**note)) {
            found.push(format!("{name}:{}: {note}: do it or write an issue", i + 1));
        }
        if line.ends_with([' ', '\t']) {
            found.push(format!("{name}:{}: ends with a blank", i + 1));
        }
    }
    found
}

/// Relative links of a Markdown file that lead nowhere.
fn dead_links(name: &str, text: &str, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ']).next())
        .map(|target| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:"))
        .filter(|target| !exists(&folder.join(target)))
        .map(|target| format!("{name}: the link to {target} leads nowhere"))
        .collect()
}

#[test]
fn sources_are_tidy() {
    let found: Vec<String> = all("rs").iter().flat_map(|(name, source)| untidy(name, source)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn links_in_documents_lead_somewhere() {
    let root = root();
    let found: Vec<String> =
        all("md").iter().flat_map(|(name, text)| dead_links(name, text, |path| root.join(path).exists())).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn untidiness_is_found() {
    let fine = "//! What it is for.\n\nfn f() {}\n";
    assert_eq!(untidy("crates/a/src/quota.rs", fine), Vec::<String>::new());
    assert_eq!(untidy("crates/a/src/utils.rs", fine).len(), 1);
    assert_eq!(untidy("crates/a/src/helpers/quota.rs", fine).len(), 1);
    assert_eq!(untidy("a.rs", "fn f() {}\n").len(), 1);
    assert_eq!(untidy("a.rs", &format!("//! A.\n// {}\n", "x".repeat(120))).len(), 1);
    let message = "x".repeat(120);
    assert_eq!(untidy("a.rs", &format!("//! A.\nlet m = \"{message}\";\n")), Vec::<String>::new());
    assert_eq!(untidy("a.rs", &format!("//! A.\nlet m = \"\n{message}x\\\"\n\";\n")), Vec::<String>::new());
    assert_eq!(untidy("a.rs", &format!("//! A.\nlet m = r#\"\"{message}x\n\"#;\n")), Vec::<String>::new());
    assert_eq!(untidy("a.rs", &format!("//! A.\nlet m = '\"'; let {message} = 1;\n")).len(), 1);
    assert_eq!(untidy("a.rs", &format!("//! A.\nlet {message} = \"\";\n")).len(), 1);
    assert_eq!(untidy("a.rs", concat!("//! A.\n// TO", "DO: later\n")).len(), 1);
    assert_eq!(untidy("a.rs", "//! A.\nfn f() {} \n").len(), 1);
    let links = "[a](there.md) [b](gone.md#part) [c](https://example.com/x) [d](#here)";
    assert_eq!(dead_links("docs/a.md", links, |path| path == Path::new("docs/there.md")).len(), 1);
}
