//! The documentation is true: what a page shows is what the program prints, commands and flags exist, files that are
//! named are there, and the reference names every command, kind, key, reason code and metric.
//!
//! `make docs` writes what is made from the program; read the difference.

use crate::files;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use quotient_api::volcano::metrics::{CARD_ALLOCATED, CARD_CAPACITY, CARD_DESERVED, CARD_REQUEST};
use quotient_api::{Configuration, crd, limits::LIMITS};
use quotient_engine::Code;
use serde_json::{Value, json};

use files::{below, root};

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All pages, by their path from the project's folder.
fn pages() -> Vec<String> {
    let mut found = vec![root().join("README.md"), root().join("charts/quotient/README.md")];
    found.extend(below(&root().join("docs"), "md"));
    let shown = |path: &PathBuf| path.strip_prefix(root()).expect("it is below").display().to_string();
    let mut names: Vec<String> = found.iter().map(shown).collect();
    names.sort();
    names
}

/// Whether what is made from the program is to be written.
fn writes() -> bool {
    std::env::var_os("QUOTIENT_WRITE").is_some()
}

/// Compares a page with what it should be, or writes it.
fn hold_to(path: &str, expected: &str) {
    if writes() {
        fs::write(root().join(path), expected).expect("it can be written");
    }
    assert!(read(path) == expected, "{path} is not what the program says: run `make docs`");
}

fn quotient(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quotient"));
    command.args(arguments).current_dir(root()).stdin(Stdio::null()).env("NO_COLOR", "1").env("COLUMNS", "120");
    command.output().expect("the program runs")
}

fn printed(arguments: &[&str]) -> String {
    String::from_utf8_lossy(&quotient(arguments).stdout).trim_end().to_string()
}

/// What a page shows after `$ quotient …` in a block of its own is what that prints.
#[test]
fn pages_show_what_the_program_prints() {
    const BEGIN: &str = "```\n$ quotient ";
    let mut shown = 0;
    for page in pages() {
        let text = read(&page);
        let mut parts = text.split(BEGIN);
        let mut expected = parts.next().expect("a split has a first part").to_string();
        for part in parts {
            let (block, after) = part.split_once("```").expect("a block ends");
            let arguments = block.lines().next().expect("a block has a line");
            let output = printed(&arguments.split(' ').collect::<Vec<_>>());
            let _ = write!(expected, "{BEGIN}{arguments}\n{output}\n```{after}");
            shown += 1;
        }
        hold_to(&page, &expected);
    }
    assert!(shown >= 10, "only {shown} commands were found");
}

/// Lines of code blocks that call the program, with the page.
fn commands() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for page in pages() {
        let text = read(&page);
        for block in text.split("```").skip(1).step_by(2) {
            for line in block.lines() {
                let line = line.trim().trim_start_matches("$ ");
                if let Some(rest) = line.strip_prefix("quotient ") {
                    found.push((page.clone(), rest.to_string()));
                }
                if let Some((_, rest)) = line.split_once("| quotient ") {
                    found.push((page.clone(), rest.to_string()));
                }
            }
        }
    }
    found
}

/// The words of a command up to a comment, a pipe or an alternative.
fn words(command: &str) -> Vec<&str> {
    let command = command.split(" #").next().unwrap_or(command);
    let command = command.split("   ").next().unwrap_or(command);
    command.split_whitespace().take_while(|word| !["|", "&", ">", "&&"].contains(word)).collect()
}

/// Commands that need no cluster.
const OFFLINE: [&str; 8] = ["simulate", "explain", "tree", "top", "plan", "test", "lint", "migrate"];

#[test]
fn commands_in_pages_exist_and_run() {
    let (mut seen, mut ran) = (0, BTreeSet::new());
    for (page, line) in commands() {
        let words = words(&line);
        // What a program printed may begin with its name too.
        let is_verb = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase());
        let Some(verb) = words.first().filter(is_verb) else { continue };
        let help = quotient(&[verb, "--help"]);
        assert!(help.status.success(), "{page}: `quotient {line}`: there is no command {verb}");
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        seen += 1;
        for word in words.iter().flat_map(|word| word.split(['[', ']', '|'])) {
            let flag = word.split('=').next().unwrap_or(word);
            if flag.starts_with("--") && !flag.contains('…') {
                assert!(help.contains(flag), "{page}: `quotient {line}`: there is no flag {flag}");
            }
            let is_ours = ["examples/", "scenarios/", "charts/"].iter().any(|folder| word.starts_with(folder));
            assert!(!is_ours || root().join(word).exists(), "{page}: `quotient {line}`: there is no {word}");
        }
        // What names only files that are here is run; a page that shows it promises that it works.
        let names_ours = words.iter().any(|word| word.starts_with("examples/") || word.starts_with("scenarios/"));
        let is_whole = !words.iter().any(|word| word.contains(['…', '[', 'F']) && word.to_uppercase() == **word);
        let takes_others = words.iter().any(|word| word.ends_with(".yaml") && !word.contains('/'));
        if OFFLINE.contains(verb) && names_ours && is_whole && !takes_others && ran.insert(words.join(" ")) {
            let output = quotient(&words);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(matches!(output.status.code(), Some(0 | 1)), "{page}: `quotient {line}`: {said}");
        }
    }
    assert!(seen > 60 && ran.len() > 10, "only {seen} commands were found, and {} run", ran.len());
}

#[test]
fn every_command_is_in_the_reference() {
    let help = printed(&["--help"]);
    let (_, list) = help.split_once("Commands:\n").expect("the help lists commands");
    let verbs: Vec<&str> = list
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect();
    assert!(verbs.len() > 10, "{verbs:?}");
    let mut page = "# Commands\n\nMade from `quotient help`. The same binary, named `kubectl-quotient`, is the kubectl plugin `kubectl quotient`. Data goes to stdout, notes and progress to stderr.\n\n".to_string();
    page.push_str("| exit code | meaning |\n|---|---|\n| 0 | fine |\n| 1 | the answer is no |\n| 2 | a mistake in the input |\n| 70 | a bug |\n");
    for verb in verbs {
        let _ = write!(page, "\n## {verb}\n\n```text\n{}\n```\n", printed(&[verb, "--help"]));
    }
    hold_to("docs/reference/commands.md", &page);
}

/// Rows of a table of fields, for a schema and all that is below it.
fn fields(schema: &Value, place: &str, into: &mut String) {
    for (key, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{place}{key}");
        if ["apiVersion", "kind", "metadata"].contains(&path.as_str()) {
            continue;
        }
        let text = field["description"].as_str().unwrap_or_default();
        let kind = field["type"].as_str().unwrap_or("any");
        if !text.is_empty() {
            let _ = writeln!(into, "| `{path}` | {kind} | {} |", text.replace('|', "\\|"));
        }
        fields(field, &format!("{path}."), into);
        if field["items"].is_object() {
            fields(&field["items"], &format!("{path}[]."), into);
        }
    }
}

#[test]
fn every_kind_is_in_the_reference() {
    let mut page = "# Kinds\n\nMade from the CustomResourceDefinitions that `quotient install` prints. Labels and annotations are on the pages of each system: [quota trees](../quota-trees.md), [queues](../queues-and-cards.md), [elastic quotas](../concepts/elastic-quotas.md).\n".to_string();
    for definition in crd::definitions() {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let version = &definition["spec"]["versions"][0];
        let schema = &version["schema"]["openAPIV3Schema"];
        let mut rows = String::new();
        fields(schema, "", &mut rows);
        let _ = write!(
            page,
            "\n## {} ({}/{})\n\n{}\n\n| field | type | |\n|---|---|---|\n{rows}",
            text("/spec/names/kind"),
            text("/spec/group"),
            version["name"].as_str().unwrap_or_default(),
            schema["description"].as_str().unwrap_or_default(),
        );
    }
    hold_to("docs/reference/kinds.md", &page);
}

#[test]
fn every_reason_code_has_a_cause_and_a_cure() {
    let page = read("docs/reference/reasons.md");
    let places: Vec<usize> = Code::ALL
        .iter()
        .map(|code| {
            let title = format!("\n## {}\n", code.name());
            let at = page.find(&title).unwrap_or_else(|| panic!("reasons.md has no section {}", code.name()));
            let section = page[at + title.len()..].split("\n## ").next().unwrap_or_default();
            assert!(section.contains("**Cause**: ") && section.contains("**Cure**: "), "{}", code.name());
            at
        })
        .collect();
    assert!(places.is_sorted(), "the sections stand in the order in which codes count");
    let known: BTreeSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    for title in page.split("\n## ").skip(1).filter_map(|section| section.lines().next()) {
        assert!(known.contains(title), "reasons.md: there is no code {title}");
    }
}

#[test]
fn every_key_of_the_configuration_is_in_the_reference() {
    let problems = Configuration::from_value(&json!({"?": 1})).expect_err("it is no key");
    let said = problems[0].to_string();
    let keys: Vec<&str> = said.split("expected one of ").nth(1).expect("it lists the keys").split(", ").collect();
    let page = read("docs/reference/configuration.md");
    for key in &keys {
        let found = page.contains(&format!("\n| `{key}` |")) || page.contains(&format!("\n| `{key}."));
        assert!(found, "configuration.md has no row for {key}");
    }
    for row in page.split("\n| `").skip(1).filter_map(|row| row.split('`').next()) {
        let key = row.split('.').next().unwrap_or(row);
        let is_variable = row.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        assert!(is_variable || keys.contains(&key), "configuration.md: there is no key {row}");
    }
}

/// The names of all metrics, without the ending that says what a counter or an information is. They are taken from the
/// source: what has no value yet is not served, so that no process shows all of them.
fn metrics() -> BTreeSet<String> {
    const UNITS: [&str; 3] = ["cpu_cores", "bytes", "count"];
    let code = |path: &str| read(path).split("#[cfg(test)]").next().unwrap_or_default().to_string();
    let source = code("crates/cluster/src/metrics.rs") + &code("crates/cluster/src/quota_figures.rs");
    let cards = [CARD_ALLOCATED, CARD_CAPACITY, CARD_DESERVED, CARD_REQUEST];
    let mut names: BTreeSet<String> = cards.into_iter().map(str::to_string).collect();
    for call in source.split(" registry.register").skip(1) {
        let (ending, rest) = match call.strip_prefix("_with_unit") {
            Some(rest) => ("_seconds", rest),
            None => ("", call),
        };
        let literal =
            rest.trim_start_matches(['(', ' ', '\n']).strip_prefix('"').and_then(|text| text.split('"').next());
        names.extend(literal.map(|name| format!("quotient_{name}{ending}")));
    }
    for literal in source.split("\"quotient_").skip(1).filter_map(|rest| rest.split('"').next()) {
        match literal.split_once("{unit}") {
            Some((name, "")) => names.extend(UNITS.map(|unit| format!("quotient_{name}{unit}"))),
            _ => drop(names.insert(format!("quotient_{literal}"))),
        }
    }
    names
}

/// A name without what says that it is a counter, a bucket or an information.
fn base(name: &str) -> String {
    let endings = ["_bucket", "_total", "_info"];
    endings.into_iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name).to_string()
}

/// The metrics that a text speaks of.
fn named(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c: char| !is_part(c)).filter(|word| !word.ends_with('_'));
    words.filter(|word| word.starts_with("quotient_") || word.starts_with("volcano_queue_")).map(base).collect()
}

#[test]
fn every_metric_is_documented_and_every_metric_that_is_used_exists() {
    let known = metrics();
    assert!(known.len() > 25, "{known:?}");
    let page = read("docs/reference/metrics.md");
    let cells = page.split("\n| ").skip(1).filter_map(|row| row.split(" | ").next());
    let documented: BTreeSet<String> = cells.flat_map(named).collect();
    assert_eq!(documented, known, "docs/reference/metrics.md");
    for file in ["charts/quotient/files/alerts.yaml", "charts/quotient/files/grafana-dashboard.json"] {
        let unknown: Vec<String> = named(&read(file)).difference(&known).cloned().collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?} do not exist");
    }
}

#[test]
fn every_alert_has_a_runbook() {
    let (rules, _) = quotient_api::read::parse("alerts.yaml", &read("charts/quotient/files/alerts.yaml"));
    let rules = rules[0].1["groups"][0]["rules"].as_array().cloned().expect("a list of rules");
    let page = read("docs/operations/alerts.md");
    let mut titles: BTreeSet<&str> = page.split("\n## ").skip(1).filter_map(|part| part.lines().next()).collect();
    for rule in &rules {
        let name = rule["alert"].as_str().expect("a rule has a name");
        assert!(titles.remove(name), "alerts.md has no section {name}");
        let place = format!("docs/operations/alerts.md#{}", name.to_lowercase());
        assert_eq!(rule["annotations"]["runbook"], place, "{name}");
    }
    assert!(titles.is_empty(), "alerts.md: there are no alerts {titles:?}");
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let kept = heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
        .collect::<String>();
    kept.replace(' ', "-")
}

#[test]
fn anchors_in_links_lead_to_headings() {
    let mut wrong = Vec::new();
    for page in pages() {
        let text = read(&page);
        let folder = Path::new(&page).parent().expect("a page is in a folder").to_path_buf();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next()) {
            let Some((path, part)) = target.split_once('#') else { continue };
            if path.contains("://") || !(path.is_empty() || path.ends_with(".md")) {
                continue;
            }
            let other = if path.is_empty() { text.clone() } else { read(&folder.join(path).to_string_lossy()) };
            let headings = other
                .lines()
                .filter(|line| line.starts_with('#'))
                .map(|line| anchor(line.trim_start_matches(['#', ' '])));
            if !headings.collect::<Vec<_>>().contains(&part.to_string()) {
                wrong.push(format!("{page}: {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "these lead nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn the_book_has_every_page_once() {
    let summary = read("docs/SUMMARY.md");
    let mut listed: Vec<String> = summary
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .map(|path| format!("docs/{path}"))
        .collect();
    listed.sort();
    let mut there: Vec<String> = pages().into_iter().filter(|page| page.starts_with("docs/")).collect();
    there.retain(|page| page != "docs/SUMMARY.md");
    assert_eq!(listed, there, "docs/SUMMARY.md");
}

/// A number with commas between thousands.
fn shown(number: u64) -> String {
    let digits = number.to_string();
    let parts: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    parts.iter().map(|part| String::from_utf8_lossy(part)).collect::<Vec<_>>().join(",")
}

#[test]
fn the_page_of_limits_is_the_table() {
    let mut page = "# Limits\n\nMade from the table in `crates/api/src/limits.rs`. Whoever makes an object decides what is in it: nothing that an object \
        brings ends the process, or takes memory and time without a bound. `crates/api/tests/limits.rs` and `crates/engine/tests/names.rs` try the \
        numbers and one more.\n\n| limit | at most | of | beyond it |\n|---|---|---|---|\n"
        .to_string();
    for limit in LIMITS {
        let _ = writeln!(page, "| `{}` | {} | {} | {} |", limit.name, shown(limit.most), limit.of, limit.beyond);
    }
    hold_to("docs/reference/limits.md", &page);
}

#[test]
fn every_limit_is_in_the_table_once() {
    let text = read("crates/api/src/limits.rs") + &read("crates/engine/src/limits.rs");
    let constants = text.lines().filter_map(|line| line.strip_prefix("pub const ")?.split(':').next());
    // How long a cycle goes on without anything done is no limit of objects.
    for name in constants.filter(|name| !["LIMITS", "IDLE_TURNS_MAX"].contains(name)) {
        assert_eq!(LIMITS.iter().filter(|limit| limit.name == name).count(), 1, "{name}");
    }
}
