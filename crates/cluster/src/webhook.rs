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

use std::net::SocketAddr;
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
    pub lifetimes: Lifetimes,
    /// Seconds since the Unix epoch.
    pub clock: fn() -> i64,
}

impl WebhookSettings {
    /// Webhooks with certificates that last as long as they should.
    pub fn new(address: SocketAddr, target: Target, certificate: Source) -> Self {
        let clock = || crate::clock::wall_us().div_euclid(1_000_000);
        WebhookSettings { address, target, certificate, lifetimes: Lifetimes::default(), clock }
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

/// How often it is looked whether the webhooks can answer, until they can.
const READY_EVERY: Duration = Duration::from_millis(100);

/// Listens, and returns what answers for ever.
pub async fn webhooks(
    clients: &Clients,
    settings: WebhookSettings,
    objects: SharedObjects,
    metrics: Metrics,
) -> Result<(SocketAddr, impl Future<Output = ()> + Send + use<>), ServeError> {
    let WebhookSettings { address, target, certificate, lifetimes, clock } = settings;
    let keeper = Keeper::new(clients.webhook.clone(), target, certificate, lifetimes, clock);
    let holder = keeper.holder();
    metrics.set_answers(false);
    let (address, answer) = serve(address, holder.clone(), objects.clone(), metrics.clone()).await?;
    let work = async move {
        let wait = async {
            while !holder.has_one() || !objects.read().is_complete() {
                tokio::time::sleep(READY_EVERY).await;
            }
            metrics.set_answers(true);
            tracing::info!(%address, "webhooks answer");
            std::future::pending().await
        };
        tokio::select! {
            () = keeper.run() => {}
            () = answer => {}
            () = wait => {}
        }
    };
    Ok((address, work))
}
