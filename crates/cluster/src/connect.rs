//! Finding the API server, and whether it is one that we can work with.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::bulk::BulkHandle;
use crate::lines::Lines;

/// The oldest API server that is supported: the first in which rules of CustomResourceDefinitions are stable.
const OLDEST: (u32, u32) = (1, 29);

/// A watch without a word for this long is dead: the server sends bookmarks every minute.
const WATCH_SILENCE_MAX: Duration = Duration::from_secs(180);

/// A client for each use. They share nothing, so that a flood of one cannot delay another.
#[derive(Clone)]
pub struct Clients {
    pub watch: Client,
    /// Binds, evictions and nominations.
    pub place: Lines,
    /// Conditions, labels, events, quota status.
    pub tell: Lines,
    pub lease: Lines,
    /// What is asked for once.
    pub status: Client,
    /// What the webhooks serve with.
    pub webhook: Client,
    /// What they keep: certificates, and who trusts them.
    pub keep: Lines,
    /// Where answers to writes and what watches tell are taken in.
    pub bulk: BulkHandle,
    /// The API server's address.
    pub url: String,
    /// The API server's version, as it says itself.
    pub version: String,
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients").field("url", &self.url).field("version", &self.version).finish_non_exhaustive()
    }
}

/// Why there is no connection, in one line with what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("{}: {error}: expected a kubeconfig", path.display())]
    Kubeconfig { path: PathBuf, error: String },
    #[error("no cluster: {}; use --kubeconfig ({error})", looked_for())]
    NoCluster { error: String },
    #[error("--context {context:?}: the kubeconfig has no such context: expected {}", one_of(known))]
    NoContext { context: String, known: Vec<String> },
    #[error("{url}: no API server answers there: {error}")]
    Unreachable { url: String, error: String },
    #[error("{url}: the API server does not know us: {error}; check the user of the kubeconfig")]
    Unauthorized { url: String, error: String },
    #[error("{url}: Kubernetes {version} is too old: expected {}.{} or newer", OLDEST.0, OLDEST.1)]
    TooOld { url: String, version: String },
}

/// Where a cluster was looked for when none was named.
fn looked_for() -> String {
    match std::env::var_os("KUBECONFIG") {
        Some(path) => format!("KUBECONFIG is {} and leads to none, and this is no pod", path.display()),
        None => "KUBECONFIG is not set, there is no ~/.kube/config, and this is no pod".to_owned(),
    }
}

fn one_of(names: &[String]) -> String {
    if names.is_empty() { "none: it has no contexts".to_owned() } else { names.join(" or ") }
}

/// Whether a kubeconfig has the context that is asked for.
fn check_context(read: &Kubeconfig, context: Option<&str>) -> Result<(), ConnectError> {
    let known = || read.contexts.iter().map(|known| known.name.clone());
    match context {
        Some(context) if known().all(|name| name != context) => {
            Err(ConnectError::NoContext { context: context.to_owned(), known: known().collect() })
        }
        _ => Ok(()),
    }
}

/// The cluster that the kubeconfig and its context name, or that is found as kubectl finds it, or that we run in.
async fn find(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config, ConnectError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    match kubeconfig {
        Some(path) => {
            let wrong = |error: KubeconfigError| {
                let error = match &error {
                    // It names the path once more.
                    KubeconfigError::ReadConfig(error, _) => format!("cannot be read: {error}"),
                    other => with_sources(other),
                };
                ConnectError::Kubeconfig { path: path.to_path_buf(), error }
            };
            let read = Kubeconfig::read_from(path).map_err(wrong)?;
            check_context(&read, context)?;
            Config::from_custom_kubeconfig(read, &options).await.map_err(wrong)
        }
        None if context.is_some() => {
            let nowhere = |error: KubeconfigError| ConnectError::NoCluster { error: with_sources(&error) };
            let read = Kubeconfig::read().map_err(nowhere)?;
            check_context(&read, context)?;
            Config::from_custom_kubeconfig(read, &options).await.map_err(nowhere)
        }
        None => Config::infer().await.map_err(|error| ConnectError::NoCluster { error: with_sources(&error) }),
    }
}

/// A client to read with, the address of the API server and its version.
pub async fn reader(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<(Client, String, String), ConnectError> {
    let mut config = find(kubeconfig, context).await?;
    let url = config.cluster_url.to_string();
    let unreachable =
        |error: &dyn std::error::Error| ConnectError::Unreachable { url: url.clone(), error: with_sources(error) };
    config.connect_timeout = Some(Duration::from_secs(5));
    let client = Client::try_from(config).map_err(|error| unreachable(&error))?;
    let version = match client.apiserver_version().await {
        Ok(version) => version.git_version,
        Err(kube::Error::Api(answer)) if answer.code == 401 => {
            return Err(ConnectError::Unauthorized { url, error: answer.message.clone() });
        }
        // Whoever may read pods need not be allowed to ask for the version.
        Err(kube::Error::Api(answer)) if answer.code == 403 => "unknown".to_owned(),
        Err(error) => return Err(unreachable(&error)),
    };
    Ok((client, url, version))
}

/// A client for the same cluster that has the rights of a token's owner and no others.
pub async fn with_token(kubeconfig: Option<&Path>, token: &str) -> Result<Client, ConnectError> {
    let mut config = find(kubeconfig, None).await?;
    let url = config.cluster_url.to_string();
    config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    Client::try_from(config).map_err(|error| ConnectError::Unreachable { url, error: with_sources(&error) })
}

/// Connects to the cluster that the kubeconfig names, or that is found as kubectl finds it, or that we run in.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Clients, ConnectError> {
    connect_beside(kubeconfig, BulkHandle::current()).await
}

/// The same with a thread of its own for what comes by the thousand.
pub async fn connect_beside(kubeconfig: Option<&Path>, bulk: BulkHandle) -> Result<Clients, ConnectError> {
    let config = find(kubeconfig, None).await?;
    let url = config.cluster_url.to_string();
    let unreachable =
        |error: &dyn std::error::Error| ConnectError::Unreachable { url: url.clone(), error: with_sources(error) };
    let client = |watches: bool| {
        let mut config = config.clone();
        // We retry by ourselves, where we know what is worth it.
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(5));
        config.read_timeout = watches.then_some(WATCH_SILENCE_MAX);
        Client::try_from(config).map_err(|error| unreachable(&error))
    };
    let lines = async || Lines::new(&config).await.map_err(|error| unreachable(&*error));
    let status = client(false)?;
    let version = match status.apiserver_version().await {
        Ok(version) => version,
        Err(kube::Error::Api(answer)) if matches!(answer.code, 401 | 403) => {
            return Err(ConnectError::Unauthorized { url, error: answer.message.clone() });
        }
        Err(error) => return Err(unreachable(&error)),
    };
    let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
    if (number(&version.major), number(&version.minor)) < OLDEST {
        return Err(ConnectError::TooOld { url, version: version.git_version });
    }
    let version = version.git_version;
    // What a client does besides is done where it was made.
    let watch = {
        let _bulk = bulk.handle.enter();
        client(true)?
    };
    Ok(Clients {
        watch,
        place: lines().await?,
        tell: lines().await?,
        lease: lines().await?,
        status,
        webhook: client(false)?,
        keep: lines().await?,
        bulk,
        url,
        version,
    })
}

/// An error with what caused it, on one line.
pub(crate) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
