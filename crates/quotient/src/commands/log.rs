//! The log of `run`: where it goes, how it is written, and what is logged, which may change while it runs.

use std::io::IsTerminal;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use quotient_api::Configuration;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::Subscriber;
use tracing_subscriber::util::SubscriberInitExt;

use crate::arguments::LogFormat;

/// What is logged where neither the configuration nor the environment says.
const DEFAULT: &str = "info,kube_client=off";

type Change = dyn Fn(EnvFilter) -> Result<()> + Send + Sync;

/// The log, once it is set up.
#[derive(Clone)]
pub struct Log {
    change: Arc<Change>,
}

impl Log {
    /// Sets the log up, on stderr.
    pub fn to_stderr(format: LogFormat) -> Result<Self> {
        let log = Subscriber::builder().with_env_filter(environment()).with_writer(std::io::stderr).with_target(false);
        let set_up = |error| anyhow!("the log cannot be set up: {error}");
        let change: Arc<Change> = match format {
            LogFormat::Json => {
                let log = log.json().flatten_event(true).with_filter_reloading();
                let handle = log.reload_handle();
                log.finish().try_init().map_err(set_up)?;
                Arc::new(move |filter| Ok(handle.reload(filter)?))
            }
            LogFormat::Text => {
                let plain = std::env::var_os("NO_COLOR").is_some() || !std::io::stderr().is_terminal();
                let log = log.with_ansi(!plain).with_filter_reloading();
                let handle = log.reload_handle();
                log.finish().try_init().map_err(set_up)?;
                Arc::new(move |filter| Ok(handle.reload(filter)?))
            }
        };
        Ok(Log { change })
    }

    /// Logs what the configuration says from now on.
    pub fn set(&self, configuration: &Configuration) -> Result<()> {
        let filter = match &configuration.log {
            None => environment(),
            Some(text) => {
                let wrong =
                    "expected a level such as info or debug, or levels by module such as info,kube_client=debug";
                EnvFilter::builder().parse(text).with_context(|| format!("log: {text:?}: {wrong}"))?
            }
        };
        (self.change)(filter)
    }
}

fn environment() -> EnvFilter {
    EnvFilter::try_from_env("QUOTIENT_LOG").unwrap_or_else(|_| EnvFilter::new(DEFAULT))
}
