//! Whether a cluster is ready for the program, and the program well in it: questions to the API server, each with a
//! finding in one line. Nothing is changed: what is written is a dry run.

mod asking;
mod clock;
mod kinds;
mod program;
mod rights;
mod schedulers;
mod versions;
mod webhooks;

use anyhow::Result;
use quotient_api::Configuration;
use quotient_cluster::Clients;
use serde::Serialize;

pub use asking::Asking;
pub use schedulers::scheduler_name_flags;

/// How it stands with one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    /// It works, and someone should look at it.
    Warning,
    /// It does not work.
    Failed,
}

/// What was found out about one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub section: &'static str,
    pub verdict: Verdict,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The findings of one section.
#[derive(Debug)]
pub struct Section {
    name: &'static str,
    findings: Vec<Finding>,
}

impl Section {
    fn new(name: &'static str) -> Self {
        Section { name, findings: Vec::new() }
    }

    fn push(&mut self, verdict: Verdict, message: impl Into<String>, hint: Option<&str>) {
        let hint = hint.map(str::to_string);
        self.findings.push(Finding { section: self.name, verdict, message: message.into(), hint });
    }

    fn ok(&mut self, message: impl Into<String>) {
        self.push(Verdict::Ok, message, None);
    }

    fn warn(&mut self, message: impl Into<String>, hint: &str) {
        self.push(Verdict::Warning, message, Some(hint));
    }

    fn fail(&mut self, message: impl Into<String>, hint: &str) {
        self.push(Verdict::Failed, message, Some(hint));
    }
}

/// Asks everything. `configuration`: the one that the program runs with, if it is at hand.
pub async fn check(clients: &Clients, namespace: &str, configuration: Option<Configuration>) -> Result<Vec<Finding>> {
    let asking = Asking::new(clients.status.clone());
    let mut server = Section::new("server");
    server.ok(format!("Kubernetes {} answers at {}", clients.version, clients.url));
    versions::lacks(&clients.version).into_iter().for_each(|line| server.ok(line));
    clock::check(&asking, &mut server).await?;
    let (kinds, systems) = kinds::check(&asking).await?;
    let rights = rights::check(&asking, namespace, &systems).await?;
    let (program, runs_with) = program::check(&asking, namespace).await?;
    let webhooks = webhooks::check(&asking, namespace, &systems).await?;
    let configuration = configuration.or(runs_with).unwrap_or_default();
    let schedulers = schedulers::check(&asking, namespace, &configuration).await?;
    let sections = [server, kinds, rights, program, webhooks, schedulers];
    Ok(sections.into_iter().flat_map(|section| section.findings).collect())
}
