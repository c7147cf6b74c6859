//! Certificates of our own: an authority that the API server is told to trust, and what it signs.
//!
//! Pure but for the keys, which are random. Time is an argument.
//!
//! ```text
//!   authority 1  |-------------- two thirds --------------|-------- in the bundle --------|
//!   authority 2                                           |-------------- two thirds --------------|---…
//!   signs             1      1      1      1      1     1   2      2      2
//! ```
//!
//! An authority is followed by another when two thirds of its time are over. Until the rest is over both are trusted,
//! so that it does not matter who serves with a certificate of which.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;

/// Certificates are valid from this long before they were made, as clocks of machines differ.
const BACKDATED_S: i64 = 3600;

/// A certificate that cannot be made, or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    #[error("a certificate cannot be made: {0}")]
    Make(String),
    #[error("{0}: expected a certificate and its key, as PEM")]
    Use(String),
}

impl From<rcgen::Error> for CertificateError {
    fn from(error: rcgen::Error) -> Self {
        CertificateError::Make(error.to_string())
    }
}

/// How long certificates last, and how often it is looked after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    pub authority: Duration,
    /// What is served with; it is kept in memory alone.
    pub serving: Duration,
    /// How often it is looked whether something is to be done.
    pub look_every: Duration,
    /// How long the API server takes, at most, to trust what it was told to.
    pub trusted_after: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        const DAY: u64 = 24 * 3600;
        Lifetimes {
            authority: Duration::from_secs(365 * DAY),
            serving: Duration::from_secs(30 * DAY),
            look_every: Duration::from_secs(10),
            trusted_after: Duration::from_secs(60),
        }
    }
}

/// When something lasts, in seconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    pub from_s: i64,
    pub until_s: i64,
}

impl Term {
    fn starting(now_s: i64, lifetime: Duration) -> Self {
        let lifetime_s = i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX);
        Term { from_s: now_s, until_s: now_s.saturating_add(lifetime_s) }
    }

    /// Whether two thirds are over, or it has not begun: then the clock was set back by much.
    pub fn is_due(&self, now_s: i64) -> bool {
        let third = (self.until_s - self.from_s) / 3;
        now_s >= self.until_s - third || now_s < self.from_s - BACKDATED_S
    }

    pub fn is_over(&self, now_s: i64) -> bool {
        now_s >= self.until_s
    }
}

/// Who signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// What it calls itself; no other does.
    pub name: String,
    pub certificate: String,
    pub key: String,
    pub term: Term,
}

impl Authority {
    pub fn make(now_s: i64, lifetime: Duration) -> Result<Self, CertificateError> {
        let key = KeyPair::generate()?;
        let print: String = key.public_key_raw().iter().rev().take(6).map(|byte| format!("{byte:02x}")).collect();
        let name = format!("quotient webhooks {print}");
        let term = Term::starting(now_s, lifetime);
        let mut params = Self::params(&name);
        limit(&mut params, term);
        let certificate = params.self_signed(&key)?.pem();
        Ok(Authority { name, certificate, key: key.serialize_pem(), term })
    }

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
        params
    }

    /// A certificate to serve with under these names and addresses, which does not outlive the authority.
    pub fn sign(&self, names: &[String], now_s: i64, lifetime: Duration) -> Result<Serving, CertificateError> {
        let issuer = Issuer::new(Self::params(&self.name), KeyPair::from_pem(&self.key)?);
        let mut term = Term::starting(now_s, lifetime);
        term.until_s = term.until_s.min(self.term.until_s);
        let mut params = CertificateParams::new(names)?;
        limit(&mut params, term);
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "quotient webhooks");
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?.pem();
        let certified = certified(certificate.as_bytes(), key.serialize_pem().as_bytes())?;
        Ok(Serving { certified, term, signed_by: self.certificate.clone() })
    }
}

fn limit(params: &mut CertificateParams, term: Term) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    // Later than this certificates cannot say.
    const LATEST_S: i64 = 253_402_300_799;
    let at = |s: i64| epoch + Duration::from_secs(s.clamp(0, LATEST_S).unsigned_abs());
    params.not_before = at(term.from_s - BACKDATED_S);
    params.not_after = at(term.until_s);
}

/// What is served with.
#[derive(Debug, Clone)]
pub struct Serving {
    pub certified: Arc<CertifiedKey>,
    pub term: Term,
    /// The certificate of who signed it.
    pub signed_by: String,
}

/// A chain of certificates and the key of its first.
pub fn certified(chain: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, CertificateError> {
    let wrong = |error: &dyn std::fmt::Display| CertificateError::Use(error.to_string());
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(chain).collect::<Result<_, _>>().map_err(|error| wrong(&error))?;
    if chain.is_empty() {
        return Err(wrong(&"no certificate is there"));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| wrong(&error))?;
    let certified = CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| wrong(&error))?;
    Ok(Arc::new(certified))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: i64 = 1_767_225_600;
    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_term_is_due_when_two_thirds_are_over() {
        let term = Term::starting(NOW_S, 3 * HOUR);
        assert!(!term.is_due(NOW_S) && !term.is_due(NOW_S + 7199) && !term.is_due(NOW_S - BACKDATED_S));
        assert!(term.is_due(NOW_S + 7200) && term.is_due(NOW_S - BACKDATED_S - 1));
        assert!(!term.is_over(NOW_S + 10_799) && term.is_over(NOW_S + 10_800));
    }

    #[test]
    fn an_authority_signs_after_it_was_written_down_and_read() {
        let authority = Authority::make(NOW_S, 10 * HOUR).expect("it is made");
        let read = Authority { ..authority.clone() };
        let names = ["quotient.quotient-system.svc".to_string(), "127.0.0.1".to_string()];
        let serving = read.sign(&names, NOW_S, HOUR).expect("it signs");
        assert_eq!(serving.term.until_s, NOW_S + 3600);
        assert_eq!(serving.signed_by, authority.certificate);
        let late = read.sign(&names, NOW_S + 9 * 3600 + 1800, HOUR).expect("it signs");
        assert_eq!(late.term.until_s, authority.term.until_s, "it does not outlive who signed it");
        assert_ne!(Authority::make(NOW_S, HOUR).expect("it is made").name, authority.name);
    }

    #[test]
    fn what_is_no_certificate_or_not_of_the_key_is_refused() {
        let (one, other) = (Authority::make(NOW_S, HOUR), Authority::make(NOW_S, HOUR));
        let (one, other) = (one.expect("it is made"), other.expect("it is made"));
        assert!(certified(one.certificate.as_bytes(), one.key.as_bytes()).is_ok());
        for (chain, key) in [("", &*one.key), (&*one.certificate, ""), (&*one.certificate, &*other.key), ("x", "y")] {
            let error = certified(chain.as_bytes(), key.as_bytes()).expect_err("it is refused").to_string();
            assert!(error.ends_with("expected a certificate and its key, as PEM") && !error.contains('\n'), "{error}");
        }
    }
}
