//! Keeps the certificate that the webhooks serve with: one of our own, signed by an authority that the API server is
//! told to trust, or one that somebody puts into a folder.
//!
//! The authority is written by whoever comes first, with or without the lease: the webhooks answer on every replica,
//! and the API server lets one of several writers succeed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::Value;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::authority::{Authority, CertificateError, Lifetimes, Serving, Term, certified};
use super::authority_secret::Authorities;
use super::configuration::{self, Target};
use super::validity::validity;
use crate::call::{Call, CallError, Content};
use crate::lease::Fence;
use crate::lines::Lines;

/// Where the certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// We make it; the authority is in this Secret.
    SelfMade { namespace: String, secret: String },
    /// `tls.crt` and `tls.key` of a folder; where there is a `ca.crt`, the API server is told to trust it.
    Mounted(PathBuf),
}

impl Source {
    /// Whether what is in the folder can be served with.
    pub fn check(&self) -> Result<(), KeepError> {
        match self {
            Source::SelfMade { .. } => Ok(()),
            Source::Mounted(folder) => Mounted::read(folder)?.certified(folder).map(drop),
        }
    }
}

/// The certificate that is served with now.
#[derive(Debug, Clone, Default)]
pub struct Holder(Arc<RwLock<Option<Held>>>);

/// A certificate, and when API servers trust it.
#[derive(Debug, Clone)]
struct Held {
    certified: Arc<CertifiedKey>,
    trusted: Term,
}

impl Holder {
    fn set(&self, certified: Arc<CertifiedKey>, trusted: Term) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Held { certified, trusted });
    }

    fn get(&self) -> Option<Held> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether there is one that API servers trust at this time: neither over, nor of an authority that they may not
    /// know yet.
    pub fn is_good_at(&self, now_s: i64) -> bool {
        self.get().is_some_and(|Held { trusted, .. }| trusted.from_s <= now_s && !trusted.is_over(now_s))
    }
}

impl ResolvesServerCert for Holder {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.get().map(|held| held.certified)
    }
}

/// Why there is no new certificate.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    #[error("{}: {error}: expected a folder with tls.crt and tls.key", file.display())]
    File { file: PathBuf, error: std::io::Error },
    #[error("{}: {error}", folder.display())]
    Mounted { folder: PathBuf, error: CertificateError },
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("Secret/{namespace}/{secret}: {error}")]
    Secret { namespace: String, secret: String, error: CallError },
    #[error("{kind}/{name}: {error}", name = configuration::NAME)]
    Configuration { kind: &'static str, error: CallError },
}

impl KeepError {
    /// Whether another wrote at the same time: what it wrote is there to be read.
    fn is_race(&self) -> bool {
        let (KeepError::Secret { error, .. } | KeepError::Configuration { error, .. }) = self else { return false };
        matches!(error, CallError::Conflict(_))
    }
}

/// How soon to look at what another wrote who was faster.
const AFTER_A_RACE: Duration = Duration::from_millis(200);

/// Looks after the certificate, again and again.
pub struct Keeper {
    lines: Lines,
    target: Target,
    source: Source,
    lifetimes: Lifetimes,
    /// Seconds since the Unix epoch.
    clock: fn() -> i64,
    holder: Holder,
    serving: Option<Serving>,
    /// The authority that was in use when we last looked.
    known: Option<Authorities>,
    /// Since when the API server is told to trust that authority.
    trusted_since: Option<(String, Instant)>,
    /// The folder, where the certificate comes from one.
    mounted: Option<FolderCertificate>,
    /// The configurations that were not there when we last looked.
    absent: Vec<&'static str>,
}

#[derive(Debug, PartialEq, Eq)]
struct Mounted {
    chain: Vec<u8>,
    key: Vec<u8>,
    authority: Option<String>,
}

impl Mounted {
    fn read(folder: &Path) -> Result<Self, KeepError> {
        let read = |name: &str| {
            let file = folder.join(name);
            fs::read(&file).map_err(|error| KeepError::File { file, error })
        };
        let authority = read("ca.crt").ok().and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(Mounted { chain: read("tls.crt")?, key: read("tls.key")?, authority })
    }

    fn certified(&self, folder: &Path) -> Result<Arc<CertifiedKey>, KeepError> {
        let wrong = |error| KeepError::Mounted { folder: folder.to_path_buf(), error };
        certified(&self.chain, &self.key).map_err(wrong)
    }
}

/// A certificate in a folder, as it was when it was last looked at.
#[derive(Debug)]
pub struct FolderCertificate {
    folder: PathBuf,
    holder: Holder,
    found: Option<Mounted>,
}

impl FolderCertificate {
    pub fn new(folder: PathBuf, holder: Holder) -> Self {
        FolderCertificate { folder, holder, found: None }
    }

    /// Takes what is in the folder if it is new, and says whom to trust.
    pub fn look(&mut self) -> Result<Option<String>, KeepError> {
        let found = Mounted::read(&self.folder)?;
        let trusted = found.authority.clone();
        if self.found.as_ref() != Some(&found) {
            let certified = found.certified(&self.folder)?;
            // One whose time cannot be read is served: whoever asks reads it.
            let always = Term { from_s: i64::MIN, until_s: i64::MAX };
            let term = certified.cert.first().and_then(|leaf| validity(leaf)).unwrap_or(always);
            self.holder.set(certified, term);
            tracing::info!(folder = %self.folder.display(), "serves with the certificate of the folder");
            self.found = Some(found);
        }
        Ok(trusted)
    }
}

impl Keeper {
    pub fn new(lines: Lines, target: Target, source: Source, lifetimes: Lifetimes, clock: fn() -> i64) -> Self {
        Keeper {
            lines,
            target,
            source,
            lifetimes,
            clock,
            holder: Holder::default(),
            serving: None,
            known: None,
            trusted_since: None,
            mounted: None,
            absent: Vec::new(),
        }
    }

    /// What is served with, now and later.
    pub fn holder(&self) -> Holder {
        self.holder.clone()
    }

    /// Goes on for ever.
    pub async fn run(mut self) {
        let mut said = None;
        loop {
            let error = self.look().await.err();
            if error.as_ref().is_some_and(KeepError::is_race) {
                tokio::time::sleep(AFTER_A_RACE).await;
                continue;
            }
            let error = error.map(|error| error.to_string());
            if let Some(error) = error.as_ref().filter(|error| said.as_ref() != Some(*error)) {
                tracing::warn!("the certificate of the webhooks: {error}");
            }
            said = error;
            tokio::time::sleep(self.lifetimes.look_every).await;
        }
    }

    /// Does what is to be done now.
    pub async fn look(&mut self) -> Result<(), KeepError> {
        match self.source.clone() {
            Source::SelfMade { namespace, secret } => self.look_at_secret(&namespace, &secret).await,
            Source::Mounted(folder) => {
                let holder = self.holder.clone();
                let trusted = self.mounted.get_or_insert_with(|| FolderCertificate::new(folder, holder)).look()?;
                match trusted {
                    Some(authority) => self.tell(&[&authority]).await.map(drop),
                    None => Ok(()),
                }
            }
        }
    }

    async fn look_at_secret(&mut self, namespace: &str, secret: &str) -> Result<(), KeepError> {
        let now_s = (self.clock)();
        let wrong = |error| KeepError::Secret { namespace: namespace.into(), secret: secret.into(), error };
        let path = format!("/api/v1/namespaces/{namespace}/secrets");
        let place = format!("{path}/{secret}");
        let found = match self.send(Call::at(Method::GET, place.clone(), Content::Json, Value::Null)).await {
            Ok(found) => Some(found),
            Err(CallError::NotFound(_)) => None,
            Err(error) => return Err(wrong(error)),
        };
        let read = found.as_ref().map(Authorities::read);
        if let Some(Err(error)) = &read {
            tracing::warn!("Secret/{namespace}/{secret}: {error}: it is written anew");
        }
        let authorities = match read {
            Some(Ok(authorities)) if !authorities.current.term.is_due(now_s) => authorities,
            read => {
                // What others may still serve with is trusted for a while.
                let before = read.and_then(Result::ok).or_else(|| self.known.clone());
                let made = Authority::make(now_s, self.lifetimes.authority)?;
                let next = Authorities::followed_by(before.as_ref(), made);
                let version = found.as_ref().and_then(|found| found.pointer("/metadata/resourceVersion")?.as_str());
                let body = next.secret(namespace, secret, version);
                let (method, path) = if found.is_some() { (Method::PUT, place) } else { (Method::POST, path) };
                self.send(Call::at(method, path, Content::Json, body)).await.map_err(wrong)?;
                tracing::info!(namespace, secret, "made a new authority for the webhooks' certificates");
                next
            }
        };
        let told = self.tell(&authorities.trusted(now_s)).await;
        let current = &authorities.current;
        match told {
            Ok(()) if self.trusted_since.as_ref().is_none_or(|(trusted, _)| *trusted != current.certificate) => {
                self.trusted_since = Some((current.certificate.clone(), Instant::now()));
            }
            Ok(()) => {}
            Err(_) => self.trusted_since = None,
        }
        let trusted_for = self.trusted_since.as_ref().map(|(_, since)| since.elapsed());
        if is_new_needed(self.serving.as_ref(), current, trusted_for, now_s, &self.lifetimes) {
            let serving = current.sign(&self.target.names(), now_s, self.lifetimes.serving)?;
            self.holder.set(serving.certified.clone(), self.trusted_term(&authorities, &serving, now_s));
            tracing::info!(authority = current.name, "serves webhooks with a new certificate");
            self.serving = Some(serving);
        }
        self.known = Some(authorities);
        told
    }

    /// When API servers trust a certificate that is served from now on. One who starts just after another authority
    /// was made can only sign with that one: API servers may not know it before they had time to.
    fn trusted_term(&self, authorities: &Authorities, serving: &Serving, now_s: i64) -> Term {
        let is_just_made = self.serving.is_none() && authorities.previous.is_some();
        let wait_s = i64::try_from(self.lifetimes.trusted_after.as_secs()).unwrap_or(i64::MAX);
        let from_s = if is_just_made { authorities.current.term.from_s.saturating_add(wait_s) } else { now_s };
        Term { from_s, until_s: serving.term.until_s }
    }

    /// Tells the API server to trust these, where it does not.
    async fn tell(&mut self, certificates: &[&str]) -> Result<(), KeepError> {
        for (kind, plural, _) in configuration::KINDS {
            let wrong = |error| KeepError::Configuration { kind, error };
            let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}/{}", configuration::NAME);
            let found = match self.send(Call::at(Method::GET, path.clone(), Content::Json, Value::Null)).await {
                Ok(found) => found,
                Err(CallError::NotFound(_)) => {
                    if !self.absent.contains(&kind) {
                        tracing::warn!("there is no {kind} {}: see `quotient install`", configuration::NAME);
                        self.absent.push(kind);
                    }
                    continue;
                }
                Err(error) => return Err(wrong(error)),
            };
            self.absent.retain(|absent| *absent != kind);
            if !configuration::trusts(&found, certificates) {
                let patch = configuration::trust(&found, certificates);
                self.send(Call::at(Method::PATCH, path, Content::StrategicPatch, patch)).await.map_err(wrong)?;
                tracing::info!(kind, "told the API server which certificates to trust");
            }
        }
        Ok(())
    }

    /// Not fenced: every replica answers, and of several who write one succeeds.
    async fn send(&self, call: Call) -> Result<Value, CallError> {
        call.send(&self.lines, &Fence::open()).await
    }
}

/// Whether it is time for another certificate: there is none, its time is coming to an end, or there is another
/// authority that the API server trusts by now.
fn is_new_needed(
    serving: Option<&Serving>,
    current: &Authority,
    trusted_for: Option<Duration>,
    now_s: i64,
    lifetimes: &Lifetimes,
) -> bool {
    let Some(serving) = serving else { return true };
    let is_trusted = trusted_for.is_some_and(|trusted_for| trusted_for >= lifetimes.trusted_after);
    match serving.signed_by == current.certificate {
        true => serving.term.is_due(now_s),
        // What nobody trusts any more is no better than what is not trusted yet.
        false => is_trusted || serving.term.is_over(now_s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: i64 = 1_767_225_600;

    #[test]
    fn a_new_certificate_is_taken_when_it_is_time_and_trusted() {
        let lifetimes = Lifetimes::default();
        let names = ["a".to_string()];
        let made = |now_s| Authority::make(now_s, lifetimes.authority).expect("it is made");
        let (first, second) = (made(NOW_S), made(NOW_S));
        let serving = first.sign(&names, NOW_S, lifetimes.serving).expect("it signs");
        let day = 24 * 3600;
        let needed = |current: &Authority, trusted_s: Option<u64>, now_s: i64| {
            is_new_needed(Some(&serving), current, trusted_s.map(Duration::from_secs), now_s, &lifetimes)
        };
        assert!(is_new_needed(None, &first, None, NOW_S, &lifetimes), "there is none");
        assert!(!needed(&first, Some(1 << 20), NOW_S + 19 * day));
        assert!(needed(&first, None, NOW_S + 20 * day), "two thirds of its time are over");
        assert!(!needed(&second, None, NOW_S + 20 * day), "nobody was told to trust it");
        assert!(!needed(&second, Some(59), NOW_S), "the API server may not know yet");
        assert!(needed(&second, Some(60), NOW_S));
        assert!(needed(&second, None, NOW_S + 30 * day), "nobody trusts the old one either");
    }
}
