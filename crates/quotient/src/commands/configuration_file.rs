//! The configuration file of a `run` that goes on: read again when it changes, rejected where it cannot be used.

use std::path::PathBuf;
use std::time::Duration;

use quotient_api::Configuration;
use quotient_cluster::Metrics;

use super::log::Log;

/// How often the file is read. A ConfigMap takes up to a minute to reach its pods anyway.
const EVERY: Duration = Duration::from_secs(2);

/// The file, and what of it was last read.
pub struct ConfigurationFile {
    path: Option<PathBuf>,
    read: Option<Vec<u8>>,
    log: Log,
    metrics: Metrics,
}

impl ConfigurationFile {
    /// `path`: the file that the configuration in use was read from; without one nothing ever changes.
    pub fn new(path: Option<PathBuf>, log: Log, metrics: Metrics) -> Self {
        let read = path.as_ref().and_then(|path| std::fs::read(path).ok());
        ConfigurationFile { path, read, log, metrics }
    }

    /// The next configuration that decides otherwise than `used`. What is logged is changed on the way; one that cannot
    /// be used is reported once, and the last one stays.
    pub async fn changed(&mut self, used: &Configuration) -> Configuration {
        loop {
            tokio::time::sleep(EVERY).await;
            let Some(path) = &self.path else { continue };
            // A file that is gone is most likely being replaced.
            let Ok(bytes) = std::fs::read(path) else { continue };
            if self.read.as_ref() == Some(&bytes) {
                continue;
            }
            self.read = Some(bytes);
            let found = match Configuration::read_path(path) {
                Ok(found) => found,
                Err(problems) => {
                    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                    self.reject(&problems.join("; "));
                    continue;
                }
            };
            if let Err(error) = self.log.set(&found) {
                self.reject(&format!("{error:#}"));
                continue;
            }
            self.metrics.set_configuration_valid(true);
            if !found.decides_like(used) {
                tracing::info!("the configuration changed: rebuilds its state from the cluster");
                return found;
            }
            tracing::info!(log = found.log, "the configuration changed: nothing but what is logged");
        }
    }

    fn reject(&self, why: &str) {
        self.metrics.set_configuration_valid(false);
        tracing::error!("the configuration changed and is rejected, the last valid one stays in use: {why}");
    }
}
