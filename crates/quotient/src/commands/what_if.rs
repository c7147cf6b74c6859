//! `quotient what-if`: tries a change on a copy of a live cluster. The dashboard starts it for each change.

use std::io::{Read as _, Write as _};

use anyhow::{Context, Result};
use kube::Client;
use quotient_api::Configuration;
use quotient_cluster::call::kind_path;
use quotient_cluster::connect::reader;
use quotient_dashboard::what_if::{Answer, CHANGE_BYTES_MAX, documents, what_if};
use quotient_host::objects::watched_kinds;
use quotient_sim::{Input, Setup, Simulation};
use serde_json::Value;

use crate::arguments::WhatIfArguments;
use crate::exit::Exit;
use crate::live::{self, Listed, Seen};
use crate::live_dashboard::bounds::{TRIAL_BYTES_MAX, TRIAL_CPU_S_MAX, confine};
use crate::snapshot;

/// Prints the answer, or why there is none, as JSON.
pub fn run(arguments: WhatIfArguments) -> Result<Exit> {
    confine(TRIAL_BYTES_MAX, Some(TRIAL_CPU_S_MAX)).context("the bounds of this process cannot be set")?;
    let mut change = String::new();
    let input = std::io::stdin().lock().take(CHANGE_BYTES_MAX as u64 + 1).read_to_string(&mut change);
    input.context("the change cannot be read")?;
    let answer = try_out(&arguments, &change);
    let text = serde_json::to_string(&answer).context("the answer cannot be written")?;
    std::io::stdout().write_all(text.as_bytes()).context("the answer cannot be written")?;
    Ok(Exit::Fine)
}

fn try_out(arguments: &WhatIfArguments, change: &str) -> Result<Answer, String> {
    // What cannot be tried is said before a cluster is read for it.
    documents(change)?;
    let WhatIfArguments { kubeconfig, config, without_jobs } = arguments;
    let mut configuration = match config.as_deref().map(Configuration::read_path).transpose() {
        Ok(configuration) => configuration.unwrap_or_default(),
        Err(problems) => return Err(problems.first().map_or_else(String::new, ToString::to_string)),
    };
    configuration.runs_volcano_jobs &= !without_jobs;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let objects = runtime.map_err(|error| error.to_string())?.block_on(async {
        let (client, ..) = reader(kubeconfig.as_deref(), None).await.map_err(|error| error.to_string())?;
        objects(&client).await
    })?;
    let scheduler_names = Some(configuration.scheduler_names.clone());
    let setup = Setup { configuration, scheduler_names };
    let read = snapshot::read_objects("cluster", snapshot::of(Seen { objects, ..Seen::default() }, false));
    let input = Input { file: "cluster".to_owned(), read };
    let copy = Simulation::of(setup, vec![input], &mut |_| {}).map_err(|stuck| stuck.to_string())?;
    what_if(copy.cluster(), change)
}

/// Everything that the scheduler watches, as it is now.
async fn objects(client: &Client) -> Result<Vec<Value>, String> {
    let mut objects = Vec::new();
    for kind in watched_kinds() {
        let listed = live::list(client, &kind_path(kind, None)).await;
        match listed.map_err(|error| format!("the cluster cannot be read: {error:#}"))? {
            Listed::Items(items) => objects.extend(items.into_iter().map(|item| live::named(item, kind))),
            Listed::NotServed | Listed::Forbidden => {}
        }
    }
    Ok(objects)
}
