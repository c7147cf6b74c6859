//! An OCI image layout: blobs by their digests, a manifest for each architecture, an index over them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::tar::{Entry, archive};
use crate::{roots, sha256};

/// The user that the program runs as.
const USER: u32 = 65532;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// What the image is made from.
#[derive(Debug, Clone)]
pub struct Image {
    pub version: String,
    pub commit: String,
    /// When the commit was made, in seconds since the epoch.
    pub time_s: u64,
    /// The binaries by their architecture, as Go calls it: `amd64`, `arm64`.
    pub binaries: BTreeMap<String, Vec<u8>>,
}

/// Files by their paths.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The bytes of a blob, and how others speak of it.
fn blob(files: &mut Files, kind: &str, bytes: Vec<u8>) -> Value {
    let (digest, size) = (sha256(&bytes), bytes.len());
    files.insert(format!("blobs/sha256/{digest}"), bytes);
    json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": size})
}

fn layer(binary: &[u8], time_s: u64) -> Vec<u8> {
    let passwd = format!("root:x:0:0:root:/:/sbin/nologin\nquotient:x:{USER}:{USER}:quotient:/:/sbin/nologin\n");
    let group = format!("root:x:0:\nquotient:x:{USER}:\n");
    let roots = roots::bundle();
    let file = |path, bytes, executable| Entry::File { path, bytes, executable };
    archive(
        &[
            Entry::Folder { path: "etc/" },
            file("etc/group", group.as_bytes(), false),
            file("etc/passwd", passwd.as_bytes(), false),
            Entry::Folder { path: "etc/ssl/" },
            Entry::Folder { path: "etc/ssl/certs/" },
            file("etc/ssl/certs/ca-certificates.crt", roots.as_bytes(), false),
            file("quotient", binary, true),
        ],
        time_s,
    )
}

/// When something was made, as the specification wants it.
fn timestamp(time_s: u64) -> String {
    // The civil date of a day, by the usual arithmetic on eras of 400 years that begin in March.
    let (days, second) = (time_s / 86_400 + 719_468, time_s % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

impl Image {
    fn annotations(&self) -> Value {
        json!({
            "org.opencontainers.image.title": "quotient",
            "org.opencontainers.image.version": self.version,
            "org.opencontainers.image.revision": self.commit,
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.created": timestamp(self.time_s),
        })
    }

    fn config(&self, architecture: &str, diff_id: &str) -> Value {
        json!({
            "created": timestamp(self.time_s),
            "architecture": architecture,
            "os": "linux",
            "config": {
                "User": format!("{USER}:{USER}"),
                "Entrypoint": ["/quotient"],
                "Env": ["PATH=/", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
                "WorkingDir": "/",
                "Labels": self.annotations(),
            },
            "rootfs": {"type": "layers", "diff_ids": [diff_id]},
            "history": [{"created": timestamp(self.time_s), "created_by": "quotient-image"}],
        })
    }

    /// The manifest of one architecture, with its blobs.
    fn manifest(&self, files: &mut Files, architecture: &str, binary: &[u8]) -> Value {
        let layer = blob(files, LAYER, layer(binary, self.time_s));
        let diff_id = layer["digest"].as_str().unwrap_or_default().to_string();
        let config = blob(files, CONFIG, self.config(architecture, &diff_id).to_string().into_bytes());
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
            "annotations": self.annotations(),
        });
        let mut descriptor = blob(files, MANIFEST, manifest.to_string().into_bytes());
        descriptor["platform"] = json!({"architecture": architecture, "os": "linux"});
        descriptor
    }

    /// The whole layout, and the digest of the image.
    pub fn layout(&self) -> (Files, String) {
        let mut files = Files::new();
        let manifests: Vec<Value> = self
            .binaries
            .iter()
            .map(|(architecture, binary)| self.manifest(&mut files, architecture, binary))
            .collect();
        let mut image = match &manifests[..] {
            [one] => one.clone(),
            _ => {
                let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests,
                    "annotations": self.annotations()});
                blob(&mut files, INDEX, index.to_string().into_bytes())
            }
        };
        image["annotations"] = json!({"org.opencontainers.image.ref.name": self.version});
        let digest = image["digest"].as_str().unwrap_or_default().to_string();
        let top = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [image]});
        files.insert("index.json".into(), top.to_string().into_bytes());
        files.insert("oci-layout".into(), json!({"imageLayoutVersion": "1.0.0"}).to_string().into_bytes());
        (files, digest)
    }

    /// The image of one architecture as a single file that both `docker load` and readers of OCI archives take.
    pub fn docker_archive(&self, architecture: &str) -> Option<Vec<u8>> {
        let binary = self.binaries.get(architecture)?.clone();
        let single = Image { binaries: BTreeMap::from([(architecture.to_string(), binary)]), ..self.clone() };
        let (mut files, digest) = single.layout();
        let path = |digest: &str| format!("blobs/sha256/{}", digest.trim_start_matches("sha256:"));
        let manifest: Value = serde_json::from_slice(&files[&path(&digest)]).ok()?;
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let listed = json!([{
            "Config": path(text("/config/digest")),
            "RepoTags": [format!("quotient:{}", self.version)],
            "Layers": [path(text("/layers/0/digest"))],
        }]);
        files.insert("manifest.json".into(), listed.to_string().into_bytes());
        let folders = [Entry::Folder { path: "blobs/" }, Entry::Folder { path: "blobs/sha256/" }];
        let entries = files.iter().map(|(path, bytes)| Entry::File { path, bytes, executable: false });
        Some(archive(&folders.into_iter().chain(entries).collect::<Vec<_>>(), self.time_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(binaries: &[(&str, &[u8])]) -> Image {
        let binaries = binaries.iter().map(|(name, bytes)| ((*name).to_string(), bytes.to_vec())).collect();
        Image { version: "1.2.3".into(), commit: "c0ffee".into(), time_s: 1_767_225_600, binaries }
    }

    fn json_at(files: &Files, descriptor: &Value) -> Value {
        let digest = descriptor["digest"].as_str().expect("it has a digest").replace("sha256:", "blobs/sha256/");
        let bytes = &files[&digest];
        assert_eq!(descriptor["size"], bytes.len(), "{digest}");
        serde_json::from_slice(bytes).expect("it is JSON")
    }

    #[test]
    fn times_are_written_as_dates() {
        for (time_s, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
        ] {
            assert_eq!(timestamp(time_s), expected);
        }
    }

    #[test]
    fn the_same_input_gives_the_same_bytes_and_another_gives_others() {
        let both: [(&str, &[u8]); 2] = [("amd64", b"one"), ("arm64", b"two")];
        let (first, second) = (image(&both).layout(), image(&both).layout());
        assert_eq!(first, second);
        assert_eq!(image(&both).docker_archive("amd64"), image(&both).docker_archive("amd64"));
        let other = image(&[("amd64", b"one"), ("arm64", b"three")]).layout();
        assert_ne!(first.1, other.1);
    }

    #[test]
    fn every_blob_is_reached_and_is_what_its_name_says() {
        let (files, digest) = image(&[("amd64", b"one"), ("arm64", b"two")]).layout();
        for (path, bytes) in files.iter().filter(|(path, _)| path.starts_with("blobs/")) {
            assert_eq!(path.trim_start_matches("blobs/sha256/"), sha256(bytes));
        }
        let top: Value = serde_json::from_slice(&files["index.json"]).expect("it is JSON");
        assert_eq!(top["manifests"][0]["digest"], digest);
        let index = json_at(&files, &top["manifests"][0]);
        let mut blobs = 1;
        for (descriptor, architecture) in index["manifests"].as_array().expect("a list").iter().zip(["amd64", "arm64"])
        {
            assert_eq!(descriptor["platform"]["architecture"], architecture);
            let manifest = json_at(&files, descriptor);
            let config = json_at(&files, &manifest["config"]);
            assert_eq!(config["config"]["User"], "65532:65532");
            assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
            blobs += 3;
        }
        assert_eq!(files.keys().filter(|path| path.starts_with("blobs/")).count(), blobs);
        assert_eq!(image(&[("amd64", b"one")]).layout().0.len(), 5, "one architecture needs no index of its own");
        assert!(image(&[]).docker_archive("amd64").is_none());
    }
}
