//! The project's style, as far as a program can check it: names of files, width of lines, what a module starts with,
//! notes left for later, links that lead nowhere. The tests at the end show that each check can fail.

use std::fs;
use std::path::{Path, PathBuf};

/// A file is a thing someone would look for by its name; nobody looks for one of these.
const NAMELESS: &[&str] = &["util", "utils", "common", "helper", "helpers", "types", "manager", "misc"];

const COLUMNS_MAX: usize = 120;

/// What is longer is hard to read: look for the idea that it hides.
const FUNCTION_LINES_MAX: usize = 80;
const FILE_LINES_MAX: usize = 500;

/// Functions that are longer, with the reason.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[
    ("crates/engine/src/engine/observe.rs", "observe", "one line for each kind of fact"),
    ("crates/api/tests/admission.rs", "what_is_refused", "a table of cases"),
    ("crates/api/tests/admission.rs", "what_may_change_about_a_pod", "a table of cases"),
    ("crates/api/tests/requests.rs", "requests_as_kubernetes_counts_them", "a table of cases"),
    ("crates/engine/tests/naive/tables.rs", "volumes", "a table of cases"),
    ("crates/host/src/controllers/job.rs", "look", "what becomes of a job, in the order in which it is decided"),
    ("crates/quotient/src/bench/case.rs", "measure", "a list of measurements"),
    ("crates/quotient/src/bench/goal.rs", "goals", "a table of goals"),
    ("crates/quotient/tests/install.rs", "quota_trees", "one story on a real cluster, step by step"),
];

/// Files that are longer, with the reason.
const LONG_FILES: &[(&str, &str)] = &[
    (
        "crates/cluster/src/live.rs",
        "one session of the live program: its loop, and what it does about each thing it hears",
    ),
    ("crates/api/tests/admission.rs", "tables of cases"),
    ("crates/api/tests/volcano.rs", "tables of cases"),
    ("crates/engine/tests/elastic.rs", "a naive model and its generator, to be read side by side"),
    ("crates/engine/tests/generate/mod.rs", "one generator for each fact"),
    ("crates/engine/tests/naive/tables.rs", "tables of cases"),
    ("crates/tidy/tests/purity.rs", "a small tokenizer and the checks on it"),
    ("crates/engine/tests/queues.rs", "a naive model and its generator, to be read side by side"),
    ("crates/engine/tests/tree.rs", "a naive model and its generator, to be read side by side"),
    ("crates/quotient/src/arguments.rs", "the arguments of every command, in the order of the help"),
    ("crates/quotient/src/bench/case.rs", "a list of benchmarks"),
    ("crates/quotient/src/rehearsal/live.rs", "all that a scenario asks of a cluster, once for a real one"),
    ("crates/quotient/tests/cli.rs", "one test for each command"),
    ("crates/quotient/tests/install.rs", "stories on a real cluster"),
    ("crates/engine/src/queue.rs", "the scheduling queue: its classes, its lines, and what wakes them"),
    ("crates/engine/src/preempt/mod.rs", "the search as a claimant sees it, from its nodes to its plan"),
];

/// Folders that are not ours to read: built, fetched, or kept by git.
const SKIPPED: &[&str] = &["target", ".git", "node_modules", "test-results", "corpus", "artifacts"];

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

/// The functions of a source file that `rustfmt` laid out, with how many lines each has.
fn functions(source: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let Some((before, after)) = code.split_once("fn ") else { continue };
        let is_function = before.split_whitespace().all(|word| {
            word.starts_with("pub") || word.ends_with(')') || matches!(word, "const" | "async" | "unsafe" | "in")
        });
        let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if !is_function || name.is_empty() || line.ends_with(['}', ';']) {
            continue;
        }
        let closes = format!("{}}}", &line[..line.len() - code.len()]);
        let length = lines[i..].iter().position(|line| **line == closes).map_or(0, |end| end + 1);
        found.push((name, length));
    }
    found
}

/// What is too long in a source file, and exceptions that are none any more.
fn too_long(name: &str, source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lines = source.lines().count();
    match (lines > FILE_LINES_MAX, LONG_FILES.iter().any(|(file, _)| *file == name)) {
        (true, false) => found.push(format!("{name}: {lines} lines, at most {FILE_LINES_MAX}")),
        (false, true) => found.push(format!("{name}: {lines} lines, and need not be listed as a long file")),
        _ => {}
    }
    let functions = functions(source);
    for (function, lines) in &functions {
        let is_listed = LONG_FUNCTIONS.iter().any(|(file, listed, _)| *file == name && listed == function);
        if *lines > FUNCTION_LINES_MAX && !is_listed {
            found.push(format!("{name}: {function} has {lines} lines, at most {FUNCTION_LINES_MAX}"));
        }
    }
    for (_, listed, _) in LONG_FUNCTIONS.iter().filter(|(file, ..)| *file == name) {
        if !functions.iter().any(|(function, lines)| function == listed && *lines > FUNCTION_LINES_MAX) {
            found.push(format!("{name}: {listed} need not be listed as a long function"));
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
fn functions_and_files_are_short() {
    let sources = all("rs");
    let mut found: Vec<String> = sources.iter().flat_map(|(name, source)| too_long(name, source)).collect();
    let listed = LONG_FILES.iter().map(|(file, _)| file).chain(LONG_FUNCTIONS.iter().map(|(file, ..)| file));
    let is_gone = |file: &&&str| !sources.iter().any(|(name, _)| name == **file);
    found.extend(listed.filter(is_gone).map(|file| format!("{file} is listed as long, and is not there")));
    assert!(found.is_empty(), "{}", found.join("\n"));

    let long = format!("//! A.\n{}", "// x\n".repeat(FILE_LINES_MAX));
    assert_eq!(too_long("a.rs", &long).len(), 1);
    let body = "        f();\n".repeat(FUNCTION_LINES_MAX - 1);
    let long = format!("impl A {{\n    pub(super) async fn long(&self) {{\n{body}    }}\n}}\n");
    assert_eq!(functions(&long), [("long".to_owned(), FUNCTION_LINES_MAX + 1)]);
    assert_eq!(too_long("a.rs", &long).len(), 1);
    assert_eq!(too_long("a.rs", "fn short() {\n    let f = fn_of();\n}\n"), Vec::<String>::new());
    assert_eq!(functions("trait A {\n    fn declared(&self);\n    fn short() {}\n}\n"), []);
}

/// Files beside a `tests/main.rs` that it does not declare: their tests would never run.
fn undeclared_tests(sources: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for (main, text) in sources.iter().filter(|(name, _)| name.ends_with("/tests/main.rs")) {
        let folder = main.trim_end_matches("main.rs");
        for (name, _) in sources.iter().filter(|(name, _)| name != main) {
            let Some(inside) = name.strip_prefix(folder) else { continue };
            let module = inside.trim_end_matches(".rs").trim_end_matches("/mod");
            if !module.contains('/') && !text.contains(&format!("mod {module};\n")) {
                found.push(format!("{name}: {main} does not declare it, so that its tests never run"));
            }
        }
    }
    found
}

#[test]
fn test_files_are_all_declared() {
    let sources = all("rs");
    let found = undeclared_tests(&sources);
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(sources.iter().filter(|(name, _)| name.ends_with("/tests/main.rs")).count() > 5);

    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let planted = [
        file("crates/a/tests/main.rs", "mod one;\nmod two;\n"),
        file("crates/a/tests/one.rs", ""),
        file("crates/a/tests/two/mod.rs", ""),
        file("crates/a/tests/two/inner.rs", ""),
        file("crates/a/tests/three.rs", ""),
        file("crates/a/tests/four/mod.rs", ""),
    ];
    assert_eq!(undeclared_tests(&planted).len(), 2);
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
