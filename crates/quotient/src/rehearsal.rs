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

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use quotient_cluster::connect;
use quotient_sim::{Partings, Progress, Scenario, ScenarioResult, run_on};
use tokio::runtime::Runtime;

pub use exceptions::Exceptions;
use live::Live;
use server::Server;

/// A cluster to run scenarios on, one after another.
#[derive(Debug)]
pub struct Theatre {
    runtime: Runtime,
    server: Server,
}

impl Theatre {
    /// Connects, and makes sure that nothing is there that would be lost.
    pub fn open(kubeconfig: &Path) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let server = Server::new(runtime.block_on(connect(Some(kubeconfig)))?);
        if let Some(objection) = runtime.block_on(guard::objection(&server)).map_err(|trouble| anyhow!("{trouble}"))? {
            bail!("{}: {objection}", server.clients.url);
        }
        runtime.block_on(clean::clean(&server)).map_err(|trouble| anyhow!("{trouble}"))?;
        Ok(Theatre { runtime, server })
    }

    /// Runs a scenario, and leaves the cluster empty.
    pub fn run(&self, scenario: &Scenario, progress: &mut dyn FnMut(Progress<'_>)) -> ScenarioResult {
        let partings = Partings::of(scenario);
        let mut live = Live::start(self.runtime.handle(), &self.server, scenario);
        let mut result = run_on(&mut live, scenario, &partings, progress);
        drop(live);
        if let Err(trouble) = self.runtime.block_on(clean::clean(&self.server)) {
            result.error.get_or_insert_with(|| trouble.to_string());
        }
        result
    }

    /// Takes out all that was made.
    pub fn close(self) -> Result<()> {
        self.runtime.block_on(clean::clean_up(&self.server)).map_err(|trouble| anyhow!("{trouble}"))
    }
}
