//! `quotient install`: prints the objects that a cluster needs to run the program.

use std::fs;

use anyhow::{Context, Result};
use quotient_api::Configuration;
use quotient_cluster::install::{InstallSettings, objects};
use quotient_cluster::system::System;
use serde_json::json;

use crate::arguments::{Format, InstallArguments, ManifestFormat, SystemChoice};
use crate::exit::Exit;
use crate::printer::Printer;

/// Prints the objects.
pub fn run(arguments: InstallArguments) -> Result<Exit> {
    let InstallArguments { namespace, image, replicas, systems, no_crds, config, .. } = arguments;
    let InstallArguments { webhook_url, separate_webhooks, network_policy, tenant_policy, output, .. } = arguments;
    let mut printer = Printer::new(match output {
        ManifestFormat::Yaml => Format::Yaml,
        ManifestFormat::Json => Format::Json,
    });
    let mut scheduler_names = Configuration::default().scheduler_names;
    let configuration = match &config {
        None => None,
        Some(path) => {
            // One that cannot be read would only be found out in the cluster.
            match Configuration::read_path(path) {
                Ok(read) => scheduler_names = read.scheduler_names,
                Err(problems) => return Ok(printer.refuse(&problems)),
            }
            Some(fs::read_to_string(path).with_context(|| path.display().to_string())?)
        }
    };
    let systems = systems.into_iter().map(System::from).collect();
    let tenant_policy = tenant_policy.then_some(scheduler_names);
    let all = objects(&InstallSettings {
        namespace,
        image,
        replicas,
        systems,
        definitions: !no_crds,
        configuration,
        webhook_url,
        separate_webhooks,
        network_policy,
        tenant_policy,
    });
    match output {
        ManifestFormat::Yaml => printer.documents(&all)?,
        ManifestFormat::Json => printer.document(&json!({"apiVersion": "v1", "kind": "List", "items": all}))?,
    }
    Ok(Exit::Fine)
}

impl From<SystemChoice> for System {
    fn from(choice: SystemChoice) -> Self {
        match choice {
            SystemChoice::Elastic => System::Elastic,
            SystemChoice::Tree => System::Tree,
            SystemChoice::Queues => System::Queues,
            SystemChoice::Jobs => System::Jobs,
        }
    }
}

/// Reads the name of a namespace.
pub fn namespace(text: &str) -> Result<String, String> {
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = (1..=63).contains(&text.len()) && text.chars().all(is_fine);
    match is_name && !text.starts_with('-') && !text.ends_with('-') {
        true => Ok(text.to_string()),
        false => Err("expected at most 63 lower-case letters, digits and '-'".to_string()),
    }
}

/// Reads a URL that an API server can ask.
pub fn webhook_url(text: &str) -> Result<String, String> {
    let wrong = || "expected https://HOST:PORT".to_string();
    let rest = text.strip_prefix("https://").ok_or_else(wrong)?.trim_end_matches('/');
    match rest.is_empty() || rest.contains(['?', '#', '@', ' ']) {
        true => Err(wrong()),
        false => Ok(text.to_string()),
    }
}
