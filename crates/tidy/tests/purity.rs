//! The engine must answer the same to the same facts, for ever. This test reads the engine's own sources and fails
//! where they mention a clock, the environment, a file, the network, a thread, randomness, async, serde, a float, or a
//! map whose order is not defined. It also fails where a policy is named outside `policy`.
//!
//! It works on tokens, not on text: comments and string literals do not count, and neither does formatting.
//! The tests at the end plant violations, so that the check is known to fail when it should.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The one file that may name the standard or Fx hash maps: it wraps them so that they cannot be iterated.
const LOOKUP_FILE: &str = "lookup.rs";

/// Modules of `std` and `core` that reach outside, or that make an answer depend on when and where it is given.
const STD_MODULES: &[&str] = &["time", "env", "fs", "net", "thread", "process", "io", "os", "path"];

/// Names that have no place in the engine, wherever they come from.
const NAMES: &[&str] = &[
    "SystemTime",
    "Instant",
    "UNIX_EPOCH",
    "RandomState",
    "DefaultHasher",
    "rand",
    "getrandom",
    "fastrand",
    "tokio",
    "futures",
    "async",
    "await",
    "serde",
    "serde_json",
    "kube",
    "k8s_openapi",
];

/// Macros that read, write or keep something outside the engine's values.
const MACROS: &[&str] = &[
    "env",
    "option_env",
    "include_str",
    "include_bytes",
    "println",
    "eprintln",
    "print",
    "eprint",
    "dbg",
    "thread_local",
];

/// Maps and sets without a defined order, and ways to get at them.
const UNORDERED: &[&str] =
    &["HashMap", "HashSet", "FxHashMap", "FxHashSet", "rustc_hash", "hash_map", "hash_set", "hashbrown"];

/// What the wrapper must not offer: anything that walks through the map or hands out the map itself.
const WALKS: &[&str] = &[
    "iter",
    "iter_mut",
    "keys",
    "values",
    "values_mut",
    "into_iter",
    "into_keys",
    "into_values",
    "IntoIterator",
    "drain",
    "retain",
    "extract_if",
    "Deref",
    "DerefMut",
    "AsRef",
];

#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    text: String,
    line: usize,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Float,
    Number,
    Sign,
}

/// Splits Rust source into words, numbers and signs. Comments, strings and characters are left out.
fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let mut out = Vec::new();
    let (mut at, mut line) = (0, 1);
    let peek = |i: usize| chars.get(i).copied().unwrap_or('\0');
    while at < chars.len() {
        let start = at;
        let c = chars[at];
        if c == '/' && peek(at + 1) == '/' {
            while at < chars.len() && chars[at] != '\n' {
                at += 1;
            }
        } else if c == '/' && peek(at + 1) == '*' {
            let mut depth = 0;
            loop {
                if peek(at) == '/' && peek(at + 1) == '*' {
                    depth += 1;
                    at += 2;
                } else if peek(at) == '*' && peek(at + 1) == '/' {
                    depth -= 1;
                    at += 2;
                } else {
                    at += 1;
                }
                if depth == 0 || at >= chars.len() {
                    break;
                }
            }
        } else if let Some(end) = raw_string(&chars, at) {
            at = end;
        } else if c == '"' || (matches!(c, 'b' | 'c') && peek(at + 1) == '"') {
            at += if c == '"' { 1 } else { 2 };
            while at < chars.len() && chars[at] != '"' {
                at += if chars[at] == '\\' { 2 } else { 1 };
            }
            at += 1;
        } else if c == '\'' && (peek(at + 1) == '\\' || peek(at + 2) == '\'') {
            at += if peek(at + 1) == '\\' { 3 } else { 2 };
            while at < chars.len() && chars[at] != '\'' {
                at += 1;
            }
            at += 1;
        } else if c.is_alphabetic() || c == '_' {
            while peek(at).is_alphanumeric() || peek(at) == '_' {
                at += 1;
            }
            out.push(Token { text: chars[start..at].iter().collect(), line, kind: Kind::Word });
        } else if c.is_ascii_digit() {
            while peek(at).is_alphanumeric() || peek(at) == '_' {
                at += 1;
            }
            let mut kind = Kind::Number;
            let field = out.last().is_some_and(|t: &Token| t.text == ".");
            if !field && peek(at) == '.' && peek(at + 1) != '.' && !peek(at + 1).is_alphabetic() && peek(at + 1) != '_'
            {
                kind = Kind::Float;
                at += 1;
                while peek(at).is_alphanumeric() || peek(at) == '_' {
                    at += 1;
                }
            }
            let text: String = chars[start..at].iter().collect();
            let exponent = !text.starts_with("0x") && text.contains(['e', 'E']) && !text.contains("size");
            if text.ends_with("f32") || text.ends_with("f64") || exponent {
                kind = Kind::Float;
            }
            out.push(Token { text, line, kind });
        } else {
            at += 1;
            if !c.is_whitespace() {
                out.push(Token { text: c.to_string(), line, kind: Kind::Sign });
            }
        }
        line += chars[start..at.min(chars.len())].iter().filter(|c| **c == '\n').count();
    }
    out
}

/// The end of the raw string that starts at `at`, if one does.
fn raw_string(chars: &[char], at: usize) -> Option<usize> {
    let mut i = at;
    if matches!(chars.get(i), Some('b' | 'c')) {
        i += 1;
    }
    if chars.get(i) != Some(&'r') {
        return None;
    }
    i += 1;
    let hashes = chars[i..].iter().take_while(|c| **c == '#').count();
    i += hashes;
    if chars.get(i) != Some(&'"') {
        return None;
    }
    i += 1;
    while i < chars.len() {
        if chars[i] == '"' && chars[i + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes {
            return Some(i + 1 + hashes);
        }
        i += 1;
    }
    Some(chars.len())
}

/// The names that follow `std::` at `at`: one, or all of a group.
fn heads(tokens: &[Token], at: usize) -> Vec<&Token> {
    let text = |i: usize| tokens.get(i).map_or("", |t| t.text.as_str());
    if !(matches!(text(at), "std" | "core") && text(at + 1) == ":" && text(at + 2) == ":") {
        return Vec::new();
    }
    if text(at + 3) != "{" {
        return tokens.get(at + 3).into_iter().collect();
    }
    let mut found = Vec::new();
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(at + 3) {
        match text(i) {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ if depth == 1 && matches!(text(i - 1), "{" | ",") => found.push(token),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    found
}

/// The tokens without modules that are only there for tests: those may compare with whatever they like.
fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    let mut kept = Vec::new();
    let mut rest = tokens.as_slice();
    let mark = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    while let Some((first, after)) = rest.split_first() {
        let opens = mark.len() + 1;
        let marked = rest.iter().map(|t| t.text.as_str()).take(mark.len()).eq(mark);
        if !marked || rest.get(opens).is_none_or(|t| t.text != "{") {
            kept.push(first.clone());
            rest = after;
            continue;
        }
        let mut depth = 0;
        let closes = rest[opens..].iter().position(|token| {
            depth += i32::from(token.text == "{") - i32::from(token.text == "}");
            depth == 0
        });
        rest = closes.map_or(&[], |closes| &rest[opens + closes + 1..]);
    }
    kept
}

/// Everything in `source` that the engine must not have, one line each. `file` is relative to the crate's `src`.
fn violations(file: &str, source: &str) -> Vec<String> {
    let tokens = without_tests(tokens(source));
    let mut found = Vec::new();
    let mut report = |token: &Token, why: &str| {
        found.push(format!("src/{file}:{}: `{}` {why}", token.line, token.text));
    };
    for (i, token) in tokens.iter().enumerate() {
        let text = token.text.as_str();
        for head in heads(&tokens, i) {
            if STD_MODULES.contains(&head.text.as_str()) {
                report(head, "of the standard library reaches outside; facts and `now` are told to the engine");
            }
        }
        if NAMES.contains(&text) {
            report(token, "has no place in the engine: it must answer by its facts alone");
        }
        if MACROS.contains(&text) && tokens.get(i + 1).is_some_and(|t| t.text == "!") {
            report(token, "reaches outside the engine's values");
        }
        if token.kind == Kind::Float || matches!(text, "f32" | "f64") {
            report(token, "is a float; amounts and points are exact integers");
        }
        if file == LOOKUP_FILE {
            if WALKS.contains(&text) {
                report(token, "would let callers walk through an unordered map");
            }
        } else if UNORDERED.contains(&text) {
            report(token, "has no defined order; use BTreeMap, or LookupMap where nothing walks through it");
        }
    }
    found
}

fn source_files(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("the engine's sources are there") {
        let path = entry.expect("a directory entry can be read").path();
        if path.is_dir() {
            source_files(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
    into.sort();
}

#[test]
fn the_engine_is_pure() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src");
    let mut files = Vec::new();
    source_files(&src, &mut files);
    assert!(files.len() >= 5, "only {} source files found under {}", files.len(), src.display());
    let found: Vec<String> = files
        .iter()
        .flat_map(|path| {
            let name = path.strip_prefix(&src).expect("it was found under src").to_string_lossy().replace('\\', "/");
            violations(&name, &fs::read_to_string(path).expect("a source file can be read"))
        })
        .collect();
    assert!(found.is_empty(), "the engine is not pure:\n{}", found.join("\n"));
}

/// A policy: a variant of `enum Policy`.
#[derive(Debug)]
struct Policy {
    variant: String,
    /// The type that it holds.
    held: String,
    /// The function that looks into it, where there is one.
    accessor: Option<String>,
}

fn policies(source: &str) -> Vec<Policy> {
    let tokens = tokens(source);
    let text = |i: usize| tokens.get(i).map_or("", |t| t.text.as_str());
    let at = (0..tokens.len()).find(|i| text(*i) == "enum" && text(i + 1) == "Policy").expect("policy.rs has the enum");
    let body = (at + 3..tokens.len()).take_while(|i| text(*i) != "}");
    let variants = body.filter(|i| text(i + 1) == "(" && text(i + 3) == ")");
    let is_function = |name: &String| (1..tokens.len()).any(|i| text(i - 1) == "fn" && text(i) == name);
    let policy = |i: usize| Policy {
        variant: text(i).to_owned(),
        held: text(i + 2).to_owned(),
        accessor: Some(text(i).to_lowercase()).filter(is_function),
    };
    variants.map(policy).collect()
}

/// Where a file outside `policy` names a policy or looks into one. `fact.rs` hands on what the engine is told of them.
fn policies_named(file: &str, source: &str, policies: &[Policy]) -> Vec<String> {
    // A file `tests.rs` is a module that is only there for tests.
    if file == "policy.rs" || file.starts_with("policy/") || file.ends_with("/tests.rs") {
        return Vec::new();
    }
    let tokens = without_tests(tokens(source));
    let text = |i: usize| tokens.get(i).map_or("", |t| t.text.as_str());
    let follows = |i: usize, path: &str| i >= 3 && text(i - 1) == ":" && text(i - 2) == ":" && text(i - 3) == path;
    let mut found = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        let word = token.text.as_str();
        let is_policy = policies.iter().any(|Policy { variant, held, accessor }| {
            let is_call = i > 0 && text(i - 1) == "." && text(i + 1) == "(";
            let is_fact = word == format!("{variant}Fact") && file != "fact.rs";
            // The queue of pending pods has the name of a policy, and is none.
            (word == held || word == variant) && word != "Queue"
                || is_fact
                || follows(i, "QuotaFact")
                || word == variant.to_lowercase() && follows(i, "policy")
                || is_call && accessor.as_ref().is_some_and(|accessor| word == accessor)
        });
        if is_policy || word == "Policy" {
            found.push(format!("src/{file}:{}: `{word}` is a policy's own; ask `Quotas` instead", token.line));
        }
    }
    found
}

#[test]
fn no_policy_is_named_outside_policy() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src");
    let policies = policies(&fs::read_to_string(src.join("policy.rs")).expect("policy.rs can be read"));
    assert!(policies.len() >= 4, "{policies:?}");
    let mut files = Vec::new();
    source_files(&src, &mut files);
    let found: Vec<String> = files
        .iter()
        .flat_map(|path| {
            let name = path.strip_prefix(&src).expect("it was found under src").to_string_lossy().replace('\\', "/");
            policies_named(&name, &fs::read_to_string(path).expect("a source file can be read"), &policies)
        })
        .collect();
    assert!(found.is_empty(), "policies are named outside of `policy`:\n{}", found.join("\n"));

    let planted = [
        "fn f(tree: &Tree) {}",
        "if let Policy::Queue(queue) = &quota.policy {}",
        "quota.tree().is_some()",
        "use crate::policy::elastic;",
        "Fact::Quota(QuotaFact::Queue(fact)) => {}",
        "fn f(fact: TreeFact) {}",
    ];
    for source in planted {
        assert!(!policies_named("a.rs", source, &policies).is_empty(), "{source}");
        assert!(policies_named("policy/a.rs", source, &policies).is_empty(), "{source}");
    }
    let innocent = [
        "use crate::queue::Queue;",
        "settings.tree.revoke_after_ms",
        "// Tree\nlet queue = 1;",
        "let is_fair = pool.fair();",
    ];
    for source in innocent {
        assert_eq!(policies_named("a.rs", source, &policies), Vec::<String>::new(), "{source}");
    }
}

/// What the crate that decides what to write must not name either: it has the same time and the same answers as
/// whoever runs it gives. It may await an answer, but brings nothing that waits.
const HOST_NAMES: &[&str] = &[
    "SystemTime",
    "Instant",
    "RandomState",
    "rand",
    "getrandom",
    "fastrand",
    "tokio",
    "futures",
    "kube",
    "k8s_openapi",
];
const HOST_MODULES: &[&str] = &["env", "fs", "net", "thread", "process", "io", "os", "path"];

fn host_violations(name: &str, source: &str) -> Vec<String> {
    let tokens = tokens(source);
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind == Kind::Word) {
        let before: Vec<&str> = tokens[at.saturating_sub(3)..at].iter().map(|token| token.text.as_str()).collect();
        let is_module = before == ["std", ":", ":"] && HOST_MODULES.contains(&token.text.as_str());
        let is_unordered = UNORDERED.contains(&token.text.as_str());
        if is_module || is_unordered || HOST_NAMES.contains(&token.text.as_str()) {
            found.push(format!("{name}:{}: {}", token.line, token.text));
        }
    }
    found
}

#[test]
fn what_decides_what_to_write_reads_no_clock_and_no_network() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/src");
    let mut files = Vec::new();
    source_files(&src, &mut files);
    assert!(files.len() >= 10, "only {} source files found under {}", files.len(), src.display());
    let read = |path: &PathBuf| fs::read_to_string(path).expect("a source file can be read");
    let found: Vec<String> =
        files.iter().flat_map(|path| host_violations(&path.display().to_string(), &read(path))).collect();
    assert!(found.is_empty(), "quotient-host is not pure:\n{}", found.join("\n"));
    for planted in
        ["let now = Instant::now();", "use std::fs::File;", "tokio::spawn(f);", "let m: HashMap<u8, u8> = x;"]
    {
        assert_eq!(host_violations("a.rs", planted).len(), 1, "{planted}");
    }
    assert_eq!(host_violations("a.rs", "use std::time::Duration; // Instant"), Vec::<String>::new());
}

#[test]
fn planted_violations_are_found() {
    let planted = [
        ("use std::time::Duration;", 1),
        ("use std::{sync::Arc, time, collections::{BTreeMap}};", 1),
        ("fn f() -> u64 { std :: time :: Instant::now().elapsed().as_secs() }", 2),
        ("let home = std::env::var(\"HOME\");", 1),
        ("let home = env!(\"HOME\");", 1),
        ("use core::net::IpAddr;", 1),
        ("async fn f() {}", 1),
        ("#[derive(serde::Serialize)] struct S;", 1),
        ("let x: f64 = y;", 1),
        ("let x = 1.5;", 1),
        ("let x = 1e3;", 1),
        ("let x = 2f32;", 1),
        ("let x = 1.;", 1),
        ("use std::collections::HashMap;", 1),
        ("use std::collections::{BTreeMap, HashSet};", 1),
        ("type M = rustc_hash::FxHashMap<u32, u32>;", 2),
        ("std::thread::spawn(|| ());", 1),
        ("/* fine */ let r = rand::random();", 1),
        ("println!(\"{x}\");", 1),
        ("#[cfg(test)] mod tests { fn f(x: f64) {} } fn g(x: f64) {}", 1),
        ("#[cfg(test)] mod tests; fn g(x: f64) {}", 1),
    ];
    for (source, count) in planted {
        assert_eq!(violations("a.rs", source).len(), count, "{source}: {:?}", violations("a.rs", source));
    }
    assert_eq!(violations(LOOKUP_FILE, "pub fn iter(&self) {}").len(), 1);
    assert_eq!(violations(LOOKUP_FILE, "impl Deref for LookupMap {}").len(), 1);
}

#[test]
fn innocent_code_is_left_alone() {
    let innocent = [
        "// std::time is not used, and neither is a HashMap\nlet x = 1;",
        "/* f64 /* nested */ Instant */ let x = 1;",
        "/// Iterates no `HashMap`.\nfn f() {}",
        "let s = \"std::time f64 HashMap \\\" rand\"; let t = r#\"\"f64\"\"#;",
        "let c = '\"'; let d = '\\''; let e = 'f'; fn f<'a>(x: &'a str) {}",
        "for i in 0..10 { t.0.1 += 0xe0 + 1_000u64 + 1usize; }",
        "mod print; use print::Printed;",
        "fn f() {} #[cfg(test)] mod tests { mod deep { fn g(x: f64) {} } use std::time; } fn h() {}",
        "let time = now; let thread = 1; self.time.env()",
        "use std::collections::BTreeMap; use std::sync::Arc; let y = x.0; 1.max(2);",
    ];
    for source in innocent {
        assert_eq!(violations("a.rs", source), Vec::<String>::new(), "{source}");
    }
    assert_eq!(violations(LOOKUP_FILE, "use rustc_hash::FxHashMap;"), Vec::<String>::new());
}

/// The names of all crates that `package` is built from, itself left out, as cargo resolves them for this machine.
fn built_from(package: &str) -> Vec<String> {
    let output = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args(["tree", "--locked", "--edges", "normal,build", "--prefix", "none", "--no-dedupe", "--format", "{p}"])
        .args(["--package", package])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo tree failed: {}", String::from_utf8_lossy(&output.stderr));
    let mut names: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != package)
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn the_engine_is_built_from_nothing_but_a_hash() {
    assert_eq!(built_from("quotient-engine"), ["rustc-hash"]);
}

#[test]
fn what_reads_manifests_and_simulates_needs_no_cluster() {
    let barred = ["kube", "kube-client", "kube-runtime", "k8s-openapi", "tokio", "hyper", "reqwest", "async-std"];
    for package in ["quotient-api", "quotient-host", "quotient-sim"] {
        let found: Vec<String> = built_from(package).into_iter().filter(|name| barred.contains(&&**name)).collect();
        assert!(found.is_empty(), "{package} is built from {found:?}, which belong to the live adapter");
    }
}

#[test]
fn dependencies_point_one_way() {
    let ours = |package: &str| -> Vec<String> {
        built_from(package).into_iter().filter(|name| name.starts_with("quotient")).collect()
    };
    assert_eq!(ours("quotient-api"), ["quotient-engine"]);
    assert_eq!(ours("quotient-host"), ["quotient-api", "quotient-engine"]);
    assert_eq!(ours("quotient-sim"), ["quotient-api", "quotient-engine", "quotient-host"]);
}
