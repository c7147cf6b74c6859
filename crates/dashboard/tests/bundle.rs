//! The committed bundle was built from the committed sources: `web/dist/sources.txt` holds the fingerprint of what it
//! was
//! built from. After a change of `web/`: `npm --prefix web ci && npm --prefix web run build`.

use std::fs;
use std::path::{Path, PathBuf};

/// What the bundle is made from; `web/vite.config.ts` has the same list.
const SOURCES: [&str; 8] = [
    "index.html",
    "package.json",
    "package-lock.json",
    "public",
    "src",
    "svelte.config.js",
    "tsconfig.json",
    "vite.config.ts",
];

fn web() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web")
}

fn files(path: &Path, into: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("the folder can be read") {
            files(&entry.expect("an entry can be read").path(), into);
        }
    } else {
        into.push(path.to_path_buf());
    }
}

/// FNV-1a over names and contents, in order of names.
fn fingerprint(root: &Path) -> String {
    let mut paths = Vec::new();
    SOURCES.iter().for_each(|source| files(&root.join(source), &mut paths));
    let name = |path: &Path| path.strip_prefix(root).expect("it is below the root").to_string_lossy().into_owned();
    let mut names: Vec<String> = paths.iter().map(|path| name(path)).collect();
    names.sort();
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for name in names {
        let content = fs::read(root.join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        for byte in name.bytes().chain([0]).chain(content).chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}

#[test]
fn the_bundle_was_built_from_the_sources() {
    let built = fs::read_to_string(web().join("dist/sources.txt")).expect("the bundle is committed");
    assert_eq!(
        built.trim(),
        fingerprint(&web()),
        "web/dist is older than web/src: run `npm --prefix web ci && npm --prefix web run build`"
    );
}

#[test]
fn pages_name_no_outside_resource_and_hold_no_inline_script() {
    let html = fs::read_to_string(web().join("dist/index.html")).expect("the bundle is committed");
    assert!(!html.contains("http://") && !html.contains("https://"), "{html}");
    for script in html.split("<script").skip(1) {
        let (tag, rest) = script.split_once('>').expect("the tag ends");
        assert!(tag.contains("src=") && rest.starts_with("</script>"), "an inline script: {script}");
    }
    assert!(!html.contains("<style") && !html.contains("style="), "{html}");
}
