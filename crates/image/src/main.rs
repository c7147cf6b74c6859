//! Writes an image: `quotient-image --out DIR --binary amd64=PATH …`. `make image` calls it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use quotient_image::bill_of_materials::cyclonedx;
use quotient_image::layout::Image;
use quotient_image::provenance::{Build, statement};
use quotient_image::sha256;

/// Writes the program's image as an OCI layout, with an SBOM and a provenance statement beside it.
#[derive(Debug, Parser)]
struct Arguments {
    /// The folder that everything is written to
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// A static binary and its architecture, such as amd64=target/…/quotient
    #[arg(long = "binary", required = true, value_name = "ARCHITECTURE=FILE")]
    binaries: Vec<String>,
    /// The version: the tag of the image
    #[arg(long)]
    version: String,
    /// The commit that the binaries were built from
    #[arg(long)]
    commit: String,
    /// When the commit was made, in seconds since the epoch
    #[arg(long, value_name = "SECONDS")]
    time: u64,
    /// What `cargo metadata --format-version 1 --locked` prints
    #[arg(long, value_name = "FILE")]
    metadata: PathBuf,
    /// The lock file
    #[arg(long, value_name = "FILE", default_value = "Cargo.lock")]
    lock: PathBuf,
    /// What `rustc --version` prints
    #[arg(long)]
    compiler: String,
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().ok_or_else(|| anyhow!("{}: expected a file in a folder", path.display()))?;
    fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    fs::write(path, bytes).with_context(|| format!("{}: cannot be written", path.display()))
}

fn main() -> Result<()> {
    let Arguments { out, binaries, version, commit, time, metadata, lock, compiler } = Arguments::parse();
    let mut image = Image { version: version.clone(), commit: commit.clone(), time_s: time, binaries: BTreeMap::new() };
    let mut subjects = BTreeMap::new();
    for binary in &binaries {
        let (architecture, path) =
            binary.split_once('=').ok_or_else(|| anyhow!("--binary {binary:?}: expected ARCHITECTURE=FILE"))?;
        let bytes = read(Path::new(path))?;
        subjects.insert(format!("quotient-linux-{architecture}"), sha256(&bytes));
        image.binaries.insert(architecture.to_string(), bytes);
    }
    let (files, digest) = image.layout();
    let layout = out.join("quotient.oci");
    if layout.exists() {
        fs::remove_dir_all(&layout).with_context(|| format!("{}: cannot be replaced", layout.display()))?;
    }
    for (path, bytes) in &files {
        write(&layout.join(path), bytes)?;
    }
    subjects.insert("quotient.oci".into(), digest.trim_start_matches("sha256:").to_string());
    for architecture in image.binaries.keys() {
        let archive = image.docker_archive(architecture).context("the architecture was just put in")?;
        let name = format!("quotient-{version}-linux-{architecture}.docker.tar");
        subjects.insert(name.clone(), sha256(&archive));
        write(&out.join(name), &archive)?;
    }
    let lock_bytes = read(&lock)?;
    let metadata = serde_json::from_slice(&read(&metadata)?).context("the metadata is no JSON")?;
    let bill = cyclonedx(&metadata, &String::from_utf8_lossy(&lock_bytes), "quotient").map_err(anyhow::Error::msg)?;
    write(&out.join("quotient.cdx.json"), format!("{bill:#}\n").as_bytes())?;
    let targets = image.binaries.keys().map(|architecture| format!("linux/{architecture}")).collect();
    let build = Build { version, commit, lock_sha256: sha256(&lock_bytes), compiler, targets };
    let provenance = statement(&build, &subjects);
    write(&out.join("quotient.intoto.json"), format!("{provenance:#}\n").as_bytes())?;
    println!("{digest}");
    Ok(())
}
