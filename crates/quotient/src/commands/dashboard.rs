//! `quotient dashboard`: the process that serves the pages of a live cluster. `quotient run` starts it.

use std::io::BufReader;
use std::sync::Arc;

use anyhow::{Context, Result};
use quotient_cluster::connect;
use quotient_dashboard::Hub;
use quotient_dashboard::server::Server;

use super::log::Log;
use crate::arguments::DashboardArguments;
use crate::exit::Exit;
use crate::live_dashboard::bounds::{PAGES_BYTES_MAX, confine};
use crate::live_dashboard::{FRAME_MS, LiveSource, TokenGate, listen};

/// Serves until whoever gives the views is gone.
pub fn run(arguments: DashboardArguments) -> Result<Exit> {
    confine(PAGES_BYTES_MAX, None).context("the bounds of this process cannot be set")?;
    let DashboardArguments { address, apply, cluster, log } = arguments;
    let _log = Log::to_stderr(log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.context("the runtime cannot be started")?;
    let hub = Hub::new(FRAME_MS);
    let told = hub.clone();
    runtime.block_on(async move {
        let clients = connect(cluster.kubeconfig.as_deref()).await?;
        let source = LiveSource::new(clients.url.clone(), hub.clone(), clients.webhook.clone(), apply, cluster);
        let gate = TokenGate::new(clients.webhook.clone());
        let (address, answer) = Server::new(hub, Arc::new(source), Arc::new(gate)).serve(address).await?;
        tracing::info!(%address, "serves the dashboard");
        tokio::spawn(answer);
        anyhow::Ok(())
    })?;
    listen(BufReader::new(std::io::stdin().lock()), &told).context("a view cannot be read")?;
    Ok(Exit::Fine)
}
