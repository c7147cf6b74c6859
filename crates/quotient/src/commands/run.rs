//! `quotient run`: the scheduler of a live cluster.

use std::net::SocketAddr;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use quotient_api::Configuration;
use quotient_cluster::bulk::{Bulk, BulkHandle};
use quotient_cluster::connect::connect_beside;
use quotient_cluster::onlook::{Onlooker, Onlookers};
use quotient_cluster::patience::Patience;
use quotient_cluster::permission::{first_missing, may_serve};
use quotient_cluster::serve::{Page, ServeSettings, serve, serve_probes};
use quotient_cluster::system::System;
use quotient_cluster::webhook::certificates::Source;
use quotient_cluster::webhook::configuration::Target;
use quotient_cluster::webhook::{WebhookSettings, webhooks};
use quotient_cluster::{Clients, LeaseSettings, LiveSettings, Metrics};
use quotient_host::SharedObjects;
use tokio::signal::unix::{SignalKind, signal};

use super::configuration_file::ConfigurationFile;
use super::log::Log;
use crate::arguments::{Format, MetricsAccess, Part, RunArguments};
use crate::comparison::Comparison;
use crate::exit::Exit;
use crate::live_dashboard::{Pages, Watcher};
use crate::live_recording::LiveRecording;
use crate::printer::Printer;

/// Runs until it is told to stop.
pub fn run(arguments: RunArguments) -> Result<Exit> {
    let configuration = match arguments.config.as_deref().map(Configuration::read_path).transpose() {
        Ok(configuration) => configuration.unwrap_or_default(),
        Err(problems) => return Ok(Printer::new(Format::Table).refuse(&problems)),
    };
    let log = Log::to_stderr(arguments.log)?;
    log.set(&configuration)?;
    for idle in &configuration.idle {
        tracing::warn!("{idle}");
    }
    // Decisions are made on this thread, requests by the thousand on another, and long questions are answered on more.
    // What is left is to be prompt: leases, webhooks, probes.
    let bulk = Bulk::begin().context("the runtime cannot be started")?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().context("the runtime cannot be started")?;
    runtime.block_on(serve_cluster(arguments, configuration, log, bulk.handle()))
}

async fn serve_cluster(
    arguments: RunArguments,
    mut configuration: Configuration,
    log: Log,
    bulk: BulkHandle,
) -> Result<Exit> {
    let metrics = Metrics::default();
    let webhook_settings = webhook_settings(&arguments)?;
    let systems: Vec<System> = arguments.systems.iter().copied().map(System::from).collect();
    let (clients, may_run_jobs) = reach(&arguments, &systems, bulk).await?;
    if configuration.runs_volcano_jobs && !may_run_jobs {
        tracing::info!("the controller of Volcano Jobs is off: this account may not create pods (`--systems …,jobs`)");
    }
    let comparison = arguments.compare.then(|| {
        let names = configuration.scheduler_names.clone();
        Comparison::new(names, arguments.compare_every, metrics.clone(), quotient_cluster::clock::wall_us())
    });
    let onlookers = onlookers(&arguments, may_run_jobs, comparison.clone())?;
    serve_metrics(&arguments, &clients, &metrics, comparison.clone()).await?;
    let RunArguments { config, only, shadow, lease, lease_duration, .. } = arguments;
    let (namespace, name) = place("--lease", &lease)?;
    let lease = LeaseSettings { namespace, name, identity: identity(), duration: lease_duration };
    let runs = |part: Part| only.is_empty() || only.contains(&part);
    let objects = SharedObjects::default();
    let lingers = webhook_settings.as_ref().map(WebhookSettings::lingers);
    if let Some(webhook_settings) = webhook_settings {
        let (_, answer) = webhooks(&clients, webhook_settings, objects.clone(), metrics.clone()).await?;
        tokio::spawn(answer);
    }
    // Who only answers has nothing to write, and takes the lease from nobody.
    let writes = runs(Part::Scheduler) || runs(Part::Controllers);
    let shadow = shadow || !writes;
    let mut settings = LiveSettings {
        lease: Some(lease),
        shadow,
        scheduler: runs(Part::Scheduler),
        controllers: runs(Part::Controllers),
        objects,
        configuration: configuration.clone(),
        systems,
    };
    tracing::info!(
        url = clients.url,
        kubernetes = clients.version,
        schedulerNames = ?settings.configuration.scheduler_names,
        shadow,
        "starts"
    );
    let mut watched = ConfigurationFile::new(config, log, metrics.clone());
    let mut terminate = signal(SignalKind::terminate()).context("signals cannot be received")?;
    loop {
        // Creating pods everywhere is much, and most clusters have no such jobs: without the right they are left alone.
        let runs_volcano_jobs = configuration.runs_volcano_jobs && may_run_jobs;
        settings.configuration = Configuration { runs_volcano_jobs, ..configuration.clone() };
        let (mut next, before) = (None, configuration.clone());
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
                changed = watched.changed(&before) => next = Some(changed),
            }
        };
        quotient_cluster::run_before(onlookers.clone(), clients.clone(), settings.clone(), metrics.clone(), stop).await;
        match next {
            // What the engine knows follows from the configuration: it is rebuilt from the cluster.
            Some(changed) => configuration = changed,
            None => break,
        }
    }
    if let Some(comparison) = comparison {
        comparison.log();
    }
    tracing::info!("stops");
    if let Some(lingers) = lingers {
        tokio::time::sleep(lingers).await;
    }
    Ok(Exit::Fine)
}

/// Serves metrics, probes and what is asked for beside them, where an address is given.
async fn serve_metrics(
    arguments: &RunArguments,
    clients: &Clients,
    metrics: &Metrics,
    comparison: Option<Arc<Comparison>>,
) -> Result<()> {
    let RunArguments { metrics: address, metrics_access, metrics_certificate, profiling, probes, .. } = arguments;
    if let Some(address) = *probes {
        let (address, answer) = serve_probes(address, metrics.clone()).await?;
        tracing::info!(%address, "serves /livez and /readyz");
        tokio::spawn(answer);
    }
    let Some(address) = *address else { return Ok(()) };
    let settings = ServeSettings {
        address,
        certificate: metrics_certificate.clone(),
        authorizer: (*metrics_access == MetricsAccess::Authorized).then(|| clients.webhook.clone()),
        comparison: comparison.map(|comparison| Arc::new(move || comparison.json()) as Page),
        profiling: *profiling,
    };
    let (address, answer) = serve(settings, metrics.clone()).await?;
    tracing::info!(%address, "serves /metrics, /livez and /readyz");
    tokio::spawn(answer);
    Ok(())
}

/// The API server, where we have the rights without which nothing works, and whether we may run Volcano Jobs.
async fn reach(arguments: &RunArguments, systems: &[System], bulk: BulkHandle) -> Result<(Clients, bool)> {
    let patience = Patience::of(arguments.wait_for_server);
    let connect = async || connect_beside(arguments.kubeconfig.as_deref(), bulk.clone()).await;
    let clients = patience.bear(connect).await?;
    if let Some(refused) = first_missing(&clients.status, patience).await? {
        bail!("{}: {refused}; grant it, or see `kubectl auth can-i --list`", clients.url);
    }
    let may_run_jobs = systems.contains(&System::Jobs) && may_serve(&clients.status, System::Jobs, patience).await?;
    Ok((clients, may_run_jobs))
}

/// What observes the scheduler: the dashboard, a recording and a comparison.
fn onlookers(
    arguments: &RunArguments,
    may_run_jobs: bool,
    comparison: Option<Arc<Comparison>>,
) -> Result<Option<Arc<dyn Onlooker>>> {
    let mut all: Vec<Arc<dyn Onlooker>> = Vec::new();
    if let Some(address) = arguments.dashboard {
        all.push(Watcher::new(Pages::begin(dashboard_arguments(arguments, address, may_run_jobs))));
    }
    if let Some(path) = &arguments.record {
        all.push(LiveRecording::begin(path, arguments.config.as_deref())?);
    }
    all.extend(comparison.map(|comparison| comparison as Arc<dyn Onlooker>));
    Ok((!all.is_empty()).then(|| Arc::new(Onlookers(all)) as Arc<dyn Onlooker>))
}

/// What the process of the dashboard is told on its command line.
fn dashboard_arguments(arguments: &RunArguments, address: SocketAddr, may_run_jobs: bool) -> Vec<String> {
    let RunArguments { kubeconfig, config, dashboard_apply, log, .. } = arguments;
    let log = log.to_possible_value().map(|value| format!("--log={}", value.get_name()));
    let mut all = vec![address.to_string()];
    all.extend(log);
    for (flag, file) in [("kubeconfig", kubeconfig), ("config", config)] {
        all.extend(file.as_ref().map(|file| format!("--{flag}={}", file.display())));
    }
    all.extend(dashboard_apply.then(|| "--apply".to_string()));
    all.extend((!may_run_jobs).then(|| "--without-jobs".to_string()));
    all
}

/// How the webhooks are served, if they are.
fn webhook_settings(arguments: &RunArguments) -> Result<Option<WebhookSettings>> {
    let RunArguments { only, shadow, webhook, webhook_service, webhook_url, webhook_secret, .. } = arguments;
    let is_asked_for = only.contains(&Part::Webhooks);
    let address = match webhook {
        None if is_asked_for => bail!("--only webhooks: expected --webhook ADDRESS:PORT with it"),
        Some(_) if *shadow => {
            bail!("--webhook: nothing is answered with --shadow, which writes nothing; leave one out")
        }
        Some(address) if only.is_empty() || is_asked_for => *address,
        _ => return Ok(None),
    };
    let (namespace, name) = place("--webhook-service", webhook_service)?;
    let target = match webhook_url {
        Some(url) => Target::Url(url.clone()),
        None => Target::Service { namespace, name },
    };
    let (namespace, secret) = place("--webhook-secret", webhook_secret)?;
    let source = match &arguments.webhook_certificate {
        Some(folder) => {
            let source = Source::Mounted(folder.clone());
            // What is wrong now is said now; later it is said in the log.
            source.check().with_context(|| "--webhook-certificate")?;
            source
        }
        None => Source::SelfMade { namespace, secret },
    };
    let client_authority = arguments.webhook_client_ca.clone();
    Ok(Some(WebhookSettings { client_authority, ..WebhookSettings::new(address, target, source) }))
}

/// The two parts of NAMESPACE/NAME.
fn place(flag: &str, text: &str) -> Result<(String, String)> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_string(), name.to_string()))
        }
        _ => bail!("{flag} {text:?}: expected NAMESPACE/NAME"),
    }
}

/// Who we are: the machine, the process and its beginning.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let begun = quotient_cluster::clock::wall_us();
    format!("{}_{}_{begun}", host.trim(), process::id())
}

/// Reads a duration such as `15s`.
pub fn lease_duration(text: &str) -> Result<Duration, String> {
    let duration = quotient_api::time::parse_duration(text)?;
    // It is written in whole seconds, and a renewal must have time to fail once.
    match (Duration::from_secs(2)..=Duration::from_secs(3600)).contains(&duration) {
        true => Ok(duration),
        false => Err("expected a duration from 2s to 1h".to_string()),
    }
}
