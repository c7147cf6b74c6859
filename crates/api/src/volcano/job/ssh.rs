//! Plugin `ssh`: the pods of a job can sign in to each other.
//!
//! A Secret `<job>-ssh` holds a key pair for all pods of the job, in the files that OpenSSH reads by default, and a
//! configuration with the names of the pods. The key pair is made where the Secret is: nothing here is random.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::belongings::{Belonging, Made};
use super::declared::Declared;
use super::svc::{hosts, job_name, push};

/// The plugin's name.
pub(super) const PLUGIN: &str = "ssh";

/// Where OpenSSH looks for the keys of root.
const ROOT_FOLDER: &str = "/root/.ssh";

/// Where they are for others, with the argument `no-root`.
const OTHERS_FOLDER: &str = "/etc/volcano/.ssh";

/// The folder within the volume.
const FOLDER: &str = ".ssh";

/// The names of the keys in the Secret and of their files. They are those that Volcano's users know; OpenSSH goes by
/// what a file holds, not by what it is called.
pub const PRIVATE_KEY: &str = "id_rsa";
pub const PUBLIC_KEY: &str = "id_rsa.pub";
const AUTHORIZED_KEYS: &str = "authorized_keys";
const CONFIG: &str = "config";

/// Arguments by which a job brings its own keys.
const GIVEN_KEYS: [&str; 2] = ["ssh-private-key", "ssh-public-key"];

fn secret_name(job: &Value) -> String {
    format!("{}-{PLUGIN}", job_name(job))
}

/// The Secret, with the keys that the job brings, or for keys to be put in.
pub(super) fn secret(job: &Value, declared: &Declared<'_>, arguments: Arguments<'_>) -> Belonging {
    let mut config = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n".to_string();
    for (host, subdomain) in declared.tasks.iter().flat_map(|task| hosts(job, task)) {
        let _ = write!(config, "Host {host}\n  HostName {host}.{subdomain}\n");
    }
    let mut secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": secret_name(job), "namespace": job["metadata"]["namespace"]},
        "stringData": {CONFIG: config},
    });
    let given = GIVEN_KEYS.map(|name| arguments.text(name).filter(|key| !key.is_empty()));
    let object = match given {
        [Some(private), Some(public)] => {
            secret["stringData"][PRIVATE_KEY] = json!(private);
            secret["stringData"][PUBLIC_KEY] = json!(public);
            Made::Once(secret)
        }
        _ => Made::WithKeys(secret),
    };
    Belonging { record: (format!("plugin-{PLUGIN}"), PLUGIN.to_string()), object }
}

/// Gives the containers of a pod the keys.
pub(super) fn add(spec: &mut Value, job: &Value, arguments: Arguments<'_>) {
    let is_for_others = arguments.switch("no-root") == Some(true);
    let given = arguments.text("ssh-key-file-path").filter(|path| !path.is_empty());
    let folder = given.unwrap_or(if is_for_others { OTHERS_FOLDER } else { ROOT_FOLDER });
    let files = [(PRIVATE_KEY, PRIVATE_KEY), (PUBLIC_KEY, PUBLIC_KEY), (PUBLIC_KEY, AUTHORIZED_KEYS), (CONFIG, CONFIG)];
    let items: Vec<Value> =
        files.iter().map(|(key, file)| json!({"key": key, "path": format!("{FOLDER}/{file}")})).collect();
    // Who is not root could not read the files otherwise.
    let mode = if folder == ROOT_FOLDER { 0o600 } else { 0o755 };
    let name = secret_name(job);
    let secret = json!({"secretName": name, "items": items, "defaultMode": mode});
    push(spec, "volumes", json!({"name": name, "secret": secret}));
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            push(container, "volumeMounts", json!({"name": name, "mountPath": folder, "subPath": FOLDER}));
        }
    }
}
