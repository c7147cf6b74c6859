//! The documentation is a book that mdBook builds, and every link in it leads somewhere.

use crate::files;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use files::{below, root};

/// The book in a folder of its own, built by mdBook, which is built first where it is not there.
fn build() -> PathBuf {
    let tool = Command::new(root().join("packaging/mdbook.sh")).stderr(Stdio::inherit()).output().expect("it runs");
    assert!(tool.status.success(), "packaging/mdbook.sh failed");
    let program = String::from_utf8(tool.stdout).expect("a path is text");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("book");
    let _ = fs::remove_dir_all(&folder);
    let output = Command::new(program.trim()).arg("build").arg("-d").arg(&folder).current_dir(root()).output();
    let output = output.expect("mdBook runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !said.contains("WARN") && !said.contains("ERROR"), "mdbook build: {said}");
    folder
}

/// The values of an attribute in a page.
fn values<'a>(text: &'a str, attribute: &str) -> impl Iterator<Item = &'a str> {
    let parts: Vec<&str> = text.split(&format!(" {attribute}=\"")).skip(1).collect();
    parts.into_iter().filter_map(|rest| rest.split('"').next())
}

/// A path without `.` and `..`, so that it can be looked up among pages.
fn plain(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(found.pop()),
            std::path::Component::CurDir => {}
            other => found.push(other),
        }
    }
    found
}

#[test]
fn the_book_builds_and_its_links_lead_somewhere() {
    let folder = build();
    let mut files = below(&folder, "html");
    // One page with all others in it, whose links are those of the others; and one that is shown at any address.
    files.retain(|path| !path.ends_with("print.html") && !path.ends_with("404.html"));
    let texts: BTreeMap<PathBuf, String> =
        files.iter().map(|path| (plain(path), fs::read_to_string(path).expect("a page is text"))).collect();
    let ids: BTreeMap<&PathBuf, BTreeSet<&str>> =
        texts.iter().map(|(path, text)| (path, values(text, "id").collect())).collect();
    let (mut seen, mut wrong) = (0, BTreeSet::new());
    for (page, text) in &texts {
        for link in values(text, "href").chain(values(text, "src")) {
            let (path, part) = link.split_once('#').unwrap_or((link, ""));
            if path.contains(':') {
                continue;
            }
            seen += 1;
            let beside = page.parent().expect("a page is in a folder");
            let target = if path.is_empty() { page.clone() } else { plain(&beside.join(path)) };
            let leads = match ids.get(&target) {
                Some(ids) => part.is_empty() || ids.contains(part),
                None => target.exists(),
            };
            if !leads {
                wrong.insert(format!("{}: {link}", page.strip_prefix(plain(&folder)).unwrap_or(page).display()));
            }
        }
    }
    assert!(texts.len() > 40 && seen > 500, "only {} pages and {seen} links were found", texts.len());
    assert!(wrong.is_empty(), "these lead nowhere:\n{}", wrong.into_iter().collect::<Vec<_>>().join("\n"));
}
