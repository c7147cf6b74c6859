//! The definitions of our kinds, as an API server gets them.

use std::path::Path;

use quotient_api::crd::definitions;
use quotient_api::kinds;

#[test]
fn the_definitions() {
    for definition in definitions() {
        let name = definition["metadata"]["name"].as_str().expect("a name").to_string();
        insta::assert_json_snapshot!(name, definition);
    }
}

#[test]
fn every_definition_is_of_a_known_kind_and_no_kind_has_two() {
    let mut names: Vec<String> = Vec::new();
    for definition in definitions() {
        let spec = &definition["spec"];
        let text = |pointer: &str| spec.pointer(pointer).and_then(|value| value.as_str()).unwrap_or_default();
        let kind = kinds::find(text("/group"), text("/names/kind")).expect("a known kind");
        assert_eq!((text("/names/plural"), text("/scope") == "Namespaced"), (kind.plural, kind.namespaced));
        let versions: Vec<&str> =
            spec["versions"].as_array().into_iter().flatten().filter_map(|version| version["name"].as_str()).collect();
        assert_eq!(versions, kind.versions);
        names.push(definition["metadata"]["name"].to_string());
    }
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    // Each has its snapshot, and none that has one is missing.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let files =
        std::fs::read_dir(folder).expect("there are snapshots").map(|entry| entry.expect("an entry").file_name());
    let kept = files.filter(|file| file.to_string_lossy().starts_with("it__crd__")).count();
    assert_eq!(names.len(), kept);
}
