//! Scenarios on a real API server.
//!
//! The scheduler runs in this process as `quotient run` runs it, against the API server that a kubeconfig names. Nodes
//! are played by kwok, pods of Deployments and the like are made by Kubernetes' own controllers. Two things are not as
//! in earnest: the scheduler's time stands still and passes by `wait` only, and it decides nothing while a step is
//! being applied, so that it decides on what the step says and not on half of it.

mod calm;
mod clean;
mod exceptions;
mod fit;
mod guard;
mod live;
mod provision;
mod server;
mod webhooks;

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use quotient_api::Configuration;
use quotient_cluster::connect;
use quotient_host::objects::SharedObjects;
use quotient_sim::{Partings, Progress, Scenario, ScenarioResult, Trouble, run_on};
use tokio::runtime::Runtime;

pub use exceptions::Exceptions;
use live::Live;
pub use live::Patience;
use server::Server;

/// A cluster to run scenarios on, one after another.
#[derive(Debug)]
pub struct Theatre {
    runtime: Runtime,
    server: Server,
    /// What the webhooks answer from: the objects as the scheduler sees them.
    objects: SharedObjects,
}

impl Theatre {
    /// Connects, and makes sure that nothing is there that would be lost.
    pub fn open(kubeconfig: &Path) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let server = Server::new(runtime.block_on(connect(Some(kubeconfig)))?);
        let objects = SharedObjects::default();
        let theatre = Theatre { runtime, server, objects };
        if let Some(objection) = theatre.runtime.block_on(theatre.prepare()).map_err(|trouble| anyhow!("{trouble}"))? {
            bail!("{}: {objection}", theatre.server.clients.url);
        }
        theatre.await_webhooks().map_err(|trouble| anyhow!("{trouble}"))?;
        Ok(theatre)
    }

    /// Empties the cluster and serves the webhooks; says why that cannot be, if it cannot.
    async fn prepare(&self) -> Result<Option<String>, Trouble> {
        if let Some(objection) = guard::objection(&self.server).await? {
            return Ok(Some(objection));
        }
        if let Some(other) = webhooks::remove(&self.server).await? {
            return Ok(Some(format!("{other} is there: scenarios are not run where quotient is installed")));
        }
        clean::clean(&self.server).await?;
        webhooks::serve(&self.server, self.objects.clone()).await?;
        Ok(None)
    }

    /// The webhooks answer when a scheduler has seen everything, and the API server asks them a little later.
    fn await_webhooks(&self) -> Result<(), Trouble> {
        let nothing = Scenario {
            name: String::new(),
            file: String::new(),
            source: None,
            configuration: Configuration::default(),
            steps: Vec::new(),
        };
        let mut live = Live::start(self.runtime.handle(), &self.server, &self.objects, &nothing, Patience::Usual);
        live.begin()?;
        self.runtime.block_on(webhooks::await_questions(&self.server))
    }

    /// Runs a scenario, and leaves the cluster empty.
    pub fn run(
        &self,
        scenario: &Scenario,
        patience: Patience,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> ScenarioResult {
        let partings = Partings::of(scenario);
        let mut live = Live::start(self.runtime.handle(), &self.server, &self.objects, scenario, patience);
        let begun = live.forget_events();
        let mut result = run_on(&mut live, scenario, &partings, progress);
        let kinds = live.kinds();
        drop(live);
        let cleaned = self.runtime.block_on(clean::clean_after(&self.server, kinds));
        if let Err(trouble) = begun.and(cleaned) {
            result.error.get_or_insert_with(|| trouble.to_string());
        }
        result
    }

    /// Takes out all that was made.
    pub fn close(self) -> Result<()> {
        let all = async {
            webhooks::remove(&self.server).await?;
            clean::clean_up(&self.server).await
        };
        self.runtime.block_on(all).map_err(|trouble| anyhow!("{trouble}"))
    }
}
