//! The webhooks: the API server asks about an object on its way in, and we say what to change and whether it may come.
//!
//! They answer on every replica, with the lease or without, from what the watches saw. [`review`], [`configuration`],
//! [`authority`] and [`authority_secret`] do no I/O; [`certificates`] keeps what is served with, and
//! [`mod@serve`] answers.

pub mod authority;
pub mod authority_secret;
pub mod certificates;
pub mod configuration;
pub mod review;
pub mod serve;
mod snapshot;
mod validity;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::connect::Clients;
use crate::metrics::Metrics;
use authority::Lifetimes;
use certificates::{Keeper, Source};
use configuration::Target;
use quotient_host::objects::SharedObjects;
use serve::{ServeError, serve};

/// How the webhooks are served.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    pub address: SocketAddr,
    /// Where the API server finds them.
    pub target: Target,
    pub certificate: Source,
    /// Authorities of the clients that may ask; `None`: everyone who reaches the port may.
    pub client_authority: Option<PathBuf>,
    pub lifetimes: Lifetimes,
    /// Seconds since the Unix epoch.
    pub clock: fn() -> i64,
}

impl WebhookSettings {
    /// Webhooks with certificates that last as long as they should.
    pub fn new(address: SocketAddr, target: Target, certificate: Source) -> Self {
        let clock = || crate::clock::wall_us().div_euclid(1_000_000);
        let (client_authority, lifetimes) = (None, Lifetimes::default());
        WebhookSettings { address, target, certificate, client_authority, lifetimes, clock }
    }

    /// How long questions are still answered when everything else has stopped: a Service takes a while to send them
    /// elsewhere.
    pub fn lingers(&self) -> Duration {
        match self.target {
            Target::Service { .. } => Duration::from_secs(5),
            Target::Url(_) => Duration::ZERO,
        }
    }
}

/// How often it is looked whether the webhooks can answer: until they can, and after.
const READY_EVERY: Duration = Duration::from_millis(100);
const STILL_READY_EVERY: Duration = Duration::from_secs(1);

/// Listens, and returns what answers for ever.
pub async fn webhooks(
    clients: &Clients,
    settings: WebhookSettings,
    objects: SharedObjects,
    metrics: Metrics,
) -> Result<(SocketAddr, impl Future<Output = ()> + Send + use<>), ServeError> {
    let WebhookSettings { address, target, certificate, client_authority, lifetimes, clock } = settings;
    let keeper = Keeper::new(clients.keep.clone(), target, certificate, lifetimes, clock);
    let holder = keeper.holder();
    metrics.set_answers(false);
    let (client, shared) = (clients.webhook.clone(), objects.clone());
    let (address, answer) = serve(address, holder.clone(), client_authority, client, shared, metrics.clone()).await?;
    let work = async move {
        let wait = async {
            let mut answered = false;
            loop {
                let answers = holder.is_good_at(clock()) && objects.read().is_complete();
                metrics.set_answers(answers);
                match (answers, answered) {
                    (true, false) => tracing::info!(%address, "webhooks answer"),
                    (false, true) => tracing::warn!(%address, "webhooks do not answer: the certificate is not valid"),
                    _ => {}
                }
                answered = answers;
                tokio::time::sleep(if answers { STILL_READY_EVERY } else { READY_EVERY }).await;
            }
        };
        tokio::select! {
            () = keeper.run() => {}
            () = answer => {}
            () = wait => {}
        }
    };
    Ok((address, work))
}
