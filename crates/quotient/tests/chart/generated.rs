//! Files of the chart that are made from the code and from the schema of its values. `make chart` writes them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use quotient_api::{crd, kinds};
use quotient_cluster::install::tenants::{objects, records};
use quotient_cluster::permission::{PERMISSIONS, Place};
use quotient_cluster::system::{SYSTEMS, System};
use quotient_cluster::webhook::configuration::{Target, configurations};
use serde_json::{Map, Value, json};

use super::chart;

const NOTE: &str = "# Made from the code by `make chart`. Do not edit.\n";

/// The name by which values choose a system.
fn name(system: System) -> String {
    system.name().to_string()
}

fn yaml(value: &Value) -> String {
    serde_saphyr::to_string(value).expect("it can be written")
}

fn crds(into: &mut BTreeMap<PathBuf, String>) {
    for definition in crd::definitions() {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_string();
        let kind = kinds::find(&text("/spec/group"), &text("/spec/names/kind")).expect("the kind is known");
        let system = System::of(kind).expect("the kind belongs to a system");
        let file = format!("files/crds/{}/{}.yaml", name(system), text("/metadata/name"));
        into.insert(file.into(), format!("{NOTE}{}", yaml(&definition)));
    }
}

fn permissions() -> String {
    let rows: Vec<Value> = PERMISSIONS
        .iter()
        .map(|row| {
            let place = match row.place {
                Place::Everywhere => "everywhere",
                Place::Own => "own",
            };
            json!({"group": row.group, "resource": row.resource, "names": row.names, "verbs": row.verbs,
                "place": place, "system": row.system.map(name).unwrap_or_default(), "why": row.why})
        })
        .collect();
    format!("{NOTE}{}", yaml(&json!({"permissions": rows})))
}

/// Each webhook with the system that it is for; the namespace is filled in by the template.
fn webhooks() -> String {
    let target = Target::Service { namespace: "@namespace@".to_string(), name: "quotient".to_string() };
    let mut all = Map::new();
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        let of = |systems: &[System]| -> Vec<Value> {
            let made = configurations(&target, "@namespace@", systems);
            let found = made.into_iter().find(|made| made["kind"] == kind);
            found.and_then(|made| made["webhooks"].as_array().cloned()).unwrap_or_default()
        };
        // In the order in which they are together, each under the one system that brings it.
        let rows = of(&SYSTEMS).into_iter().map(|webhook| {
            let brings: Vec<System> = SYSTEMS.into_iter().filter(|system| of(&[*system]).contains(&webhook)).collect();
            assert_eq!(brings.len(), 1, "{}: {brings:?}", webhook["name"]);
            json!({"system": name(brings[0]), "webhook": webhook})
        });
        all.insert(kind.to_string(), rows.collect());
    }
    format!("{NOTE}{}", yaml(&Value::Object(all)))
}

/// The policies for tenants, each with the system that brings it; names of the scheduler and of the namespace are
/// filled in by the template. JSON, in which a quote within a text is written in one way only.
fn tenants() -> String {
    let of = |systems: &[System]| objects("@namespace@", &["@scheduler@".to_string()], systems);
    let rows = of(&SYSTEMS).into_iter().map(|object| {
        let brings = SYSTEMS.into_iter().filter(|system| of(&[*system]).contains(&object));
        let brings: Vec<String> = brings.map(name).collect();
        let system = if brings.len() == SYSTEMS.len() { "" } else { &*brings.join(",") };
        json!({"system": system, "object": object})
    });
    let text = json!({"note": NOTE.trim_matches(['#', '\n', ' ']), "objects": rows.collect::<Vec<_>>()});
    serde_json::to_string_pretty(&text).expect("it can be written") + "\n"
}

/// The policy that is installed always.
fn records_file() -> String {
    let text = json!({"note": NOTE.trim_matches(['#', '\n', ' ']), "objects": records()});
    serde_json::to_string_pretty(&text).expect("it can be written") + "\n"
}

fn schema() -> Value {
    let path = chart().join("values.schema.json");
    serde_json::from_str(&fs::read_to_string(&path).expect("the schema is there")).expect("it is JSON")
}

/// The properties of an object of the schema, without those that only exist for parent charts.
fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten().filter(|(key, _)| *key != "global")
}

fn described(key: &str, schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_else(|| panic!("{key}: no description"));
    assert!(!text.ends_with('.'), "{key}: the description ends with a full stop");
    text.to_string()
}

fn values(schema: &Value, indent: usize, into: &mut String) {
    let pad = " ".repeat(indent);
    for (key, value) in properties(schema) {
        let text = described(key, value);
        if value.get("properties").is_some() {
            let _ = writeln!(into, "\n{pad}# {text}\n{pad}{key}:");
            values(value, indent + 2, into);
        } else {
            let default = value.get("default").unwrap_or_else(|| panic!("{key}: no default"));
            let _ = writeln!(into, "{pad}# {text}\n{pad}{key}: {default}");
        }
    }
}

fn table(schema: &Value, before: &str, into: &mut String) {
    for (key, value) in properties(schema) {
        let path = format!("{before}{key}");
        if value.get("properties").is_some() {
            table(value, &format!("{path}."), into);
        } else {
            let _ = writeln!(into, "| `{path}` | `{}` | {} |", value["default"], described(&path, value));
        }
    }
}

/// The page with the table of values as the schema has it.
fn readme() -> String {
    const BEGIN: &str = "<!-- values: made from values.schema.json by `make chart` -->\n";
    const END: &str = "<!-- end of values -->";
    let text = fs::read_to_string(chart().join("README.md")).expect("the page is there");
    let (before, rest) = text.split_once(BEGIN).expect("the page says where the table begins");
    let (_, after) = rest.split_once(END).expect("the page says where the table ends");
    let mut rows = String::new();
    table(&schema(), "", &mut rows);
    format!("{before}{BEGIN}\n| value | default | |\n|---|---|---|\n{rows}\n{END}{after}")
}

fn all() -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    crds(&mut files);
    files.insert("files/permissions.yaml".into(), permissions());
    files.insert("files/webhooks.yaml".into(), webhooks());
    files.insert("files/tenants.json".into(), tenants());
    files.insert("files/records.json".into(), records_file());
    let mut text = "# Made from values.schema.json by `make chart`: change the defaults there.\n".to_string();
    values(&schema(), 0, &mut text);
    files.insert("values.yaml".into(), text);
    files.insert("README.md".into(), readme());
    files
}

#[test]
fn what_is_made_from_the_code_is_current() {
    let (files, writes) = (all(), std::env::var_os("QUOTIENT_WRITE").is_some());
    for (path, expected) in &files {
        let file = chart().join(path);
        if writes {
            fs::create_dir_all(file.parent().expect("it is in a folder")).expect("a folder can be made");
            fs::write(&file, expected).expect("it can be written");
        }
        let found = fs::read_to_string(&file).unwrap_or_default();
        assert!(found == *expected, "charts/quotient/{} is not what the code says: run `make chart`", path.display());
    }
    let folder = chart().join("files/crds");
    let kept: usize = fs::read_dir(&folder)
        .expect("the folder is there")
        .map(|system| fs::read_dir(system.expect("an entry").path()).expect("a folder").count())
        .sum();
    assert_eq!(
        kept,
        files.keys().filter(|path| path.starts_with("files/crds")).count(),
        "files of kinds that are gone"
    );
}
