//! The SBOM: what the binary is built from, in CycloneDX, from what cargo says.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// The bill of materials of `package`. `metadata` is what `cargo metadata --format-version 1 --locked` prints, `lock`
/// is the lock file.
pub fn cyclonedx(metadata: &Value, lock: &str, package: &str) -> Result<Value, String> {
    let packages: BTreeMap<&str, &Value> =
        list(metadata, "/packages").map(|found| (text(found, "id"), found)).collect();
    let root = packages.values().find(|found| text(found, "name") == package).ok_or(format!("no package {package}"))?;
    let nodes: BTreeMap<&str, &Value> = list(metadata, "/resolve/nodes").map(|node| (text(node, "id"), node)).collect();
    let mut reached = BTreeSet::new();
    let mut open = vec![text(root, "id")];
    while let Some(id) = open.pop() {
        if reached.insert(id) {
            open.extend(nodes.get(id).into_iter().flat_map(|node| normal_dependencies(node)));
        }
    }
    let checksums = checksums(lock);
    let mut components: Vec<Value> =
        reached.iter().filter(|id| **id != text(root, "id")).map(|id| component(packages[id], &checksums)).collect();
    components.sort_by_key(|component| component["bom-ref"].as_str().unwrap_or_default().to_string());
    let dependencies: Vec<Value> = reached
        .iter()
        .map(|id| {
            let mut on: Vec<String> = normal_dependencies(nodes[id]).map(|id| reference(packages[id])).collect();
            on.sort();
            json!({"ref": reference(packages[id]), "dependsOn": on})
        })
        .collect();
    Ok(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": reference(root), "name": package,
            "version": text(root, "version"), "licenses": [{"expression": text(root, "license")}]}},
        "components": components,
        "dependencies": dependencies,
    }))
}

fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// What is linked into it, and not only used by build scripts or tests.
fn normal_dependencies(node: &Value) -> impl Iterator<Item = &str> {
    list(node, "/deps")
        .filter(|dependency| list(dependency, "/dep_kinds").any(|kind| kind["kind"].is_null()))
        .map(|dependency| text(dependency, "pkg"))
}

fn reference(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(package, "name"), text(package, "version"))
}

fn component(package: &Value, checksums: &BTreeMap<(String, String), String>) -> Value {
    let (name, version) = (text(package, "name"), text(package, "version"));
    let mut component = json!({
        "type": "library", "bom-ref": reference(package), "name": name, "version": version, "purl": reference(package),
    });
    let license = text(package, "license");
    if !license.is_empty() {
        // Old crates write `/` for OR.
        component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    }
    if let Some(checksum) = checksums.get(&(name.to_string(), version.to_string())) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    component
}

/// The checksums of the lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    lock.split("[[package]]")
        .filter_map(|part| {
            let field = |key: &str| {
                let line = part.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_prefix('='));
                line.map(|value| value.trim().trim_matches('"').to_string())
            };
            Some(((field("name")?, field("version")?), field("checksum")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_in_is_listed_and_nothing_else() {
        let package = |name: &str| json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0"});
        let on = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [package("app"), package("used"), package("below"), package("tests"), package("builds")],
            "resolve": {"nodes": [
                {"id": "app", "deps": [on("used", Value::Null), on("tests", json!("dev")), on("builds", json!("build"))]},
                {"id": "used", "deps": [on("below", Value::Null)]},
                {"id": "below", "deps": []}, {"id": "tests", "deps": []}, {"id": "builds", "deps": []},
            ]},
        });
        let lock = "[[package]]\nname = \"used\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";
        let bill = cyclonedx(&metadata, lock, "app").expect("it is made");
        let names: Vec<&str> = list(&bill, "/components").map(|component| text(component, "name")).collect();
        assert_eq!(names, ["below", "used"]);
        assert_eq!(bill["components"][1]["hashes"][0]["content"], "abc");
        assert_eq!(bill["components"][1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert!(cyclonedx(&metadata, lock, "other").is_err());
    }
}
