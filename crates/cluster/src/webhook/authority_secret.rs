//! The Secret in which all processes find the authority that they sign with.
//!
//! It is made by whoever comes first and replaced by whoever sees first that its time is over; the API server lets one
//! of several succeed, and the others read what that one wrote.

use k8s_openapi::ByteString;
use quotient_api::time;
use serde_json::{Value, json};

use super::authority::{Authority, Term};

const CERTIFICATE: &str = "ca.crt";
const KEY: &str = "ca.key";
const PREVIOUS: &str = "previous-ca.crt";
const NAME: &str = "quotient.dev/ca-name";
const FROM: &str = "quotient.dev/ca-valid-from";
const UNTIL: &str = "quotient.dev/ca-valid-until";
const PREVIOUS_UNTIL: &str = "quotient.dev/previous-ca-valid-until";

/// The authority that signs, and the one before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorities {
    pub current: Authority,
    pub previous: Option<Previous>,
}

/// An authority that signs no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Previous {
    pub certificate: String,
    pub until_s: i64,
}

impl Authorities {
    /// The first authority, or the next after these.
    pub fn followed_by(before: Option<&Authorities>, current: Authority) -> Self {
        let previous = before.map(|before| {
            let Authority { certificate, term, .. } = before.current.clone();
            Previous { certificate, until_s: term.until_s }
        });
        Authorities { current, previous }
    }

    /// The certificates of those who are to be trusted, the one who signs first.
    pub fn trusted(&self, now_s: i64) -> Vec<&str> {
        let previous = self.previous.as_ref().filter(|previous| now_s < previous.until_s);
        [&*self.current.certificate].into_iter().chain(previous.map(|previous| &*previous.certificate)).collect()
    }

    /// The Secret that says so. `version` is that of the Secret which it replaces.
    pub fn secret(&self, namespace: &str, name: &str, version: Option<&str>) -> Value {
        let Authorities { current, previous } = self;
        let mut annotations = json!({
            NAME: current.name,
            FROM: written(current.term.from_s),
            UNTIL: written(current.term.until_s),
        });
        let mut data = json!({CERTIFICATE: bytes(&current.certificate), KEY: bytes(&current.key)});
        if let Some(Previous { certificate, until_s }) = previous {
            annotations[PREVIOUS_UNTIL] = json!(written(*until_s));
            data[PREVIOUS] = json!(bytes(certificate));
        }
        let mut metadata = json!({"name": name, "namespace": namespace, "annotations": annotations});
        if let Some(version) = version {
            metadata["resourceVersion"] = json!(version);
        }
        json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": data})
    }

    /// What a Secret says; the first thing that cannot be read is the error.
    pub fn read(secret: &Value) -> Result<Self, String> {
        let annotation = |key: &str| {
            let annotations = secret.pointer("/metadata/annotations");
            let text = annotations.and_then(|annotations| annotations.get(key)).and_then(Value::as_str);
            text.ok_or_else(|| format!("metadata.annotations: {key} is missing"))
        };
        let instant = |key: &str| {
            let text = annotation(key)?;
            let us = time::parse_timestamp(text).map_err(|error| format!("metadata.annotations: {key}: {error}"))?;
            Ok::<i64, String>(us.div_euclid(1_000_000))
        };
        let text = |key: &str| {
            let value = secret.get("data").and_then(|data| data.get(key)).filter(|value| value.is_string());
            let value = value.ok_or_else(|| format!("data: {key} is missing"))?;
            let bytes: ByteString = serde_json::from_value(value.clone()).map_err(|e| format!("data: {key}: {e}"))?;
            String::from_utf8(bytes.0).map_err(|_| format!("data: {key} is no text"))
        };
        let current = Authority {
            name: annotation(NAME)?.to_string(),
            certificate: text(CERTIFICATE)?,
            key: text(KEY)?,
            term: Term { from_s: instant(FROM)?, until_s: instant(UNTIL)? },
        };
        // Without the one before it a change is less gentle, and nothing is lost.
        let previous = text(PREVIOUS).and_then(|certificate| {
            let until_s = instant(PREVIOUS_UNTIL)?;
            Ok(Previous { certificate, until_s })
        });
        let previous = previous.ok();
        Ok(Authorities { current, previous })
    }
}

fn written(s: i64) -> String {
    time::format_timestamp(s.saturating_mul(1_000_000))
}

fn bytes(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const NOW_S: i64 = 1_767_225_600;

    fn authority() -> Authority {
        Authority::make(NOW_S, Duration::from_secs(3600)).expect("it is made")
    }

    #[test]
    fn what_is_written_is_read() {
        let first = Authorities::followed_by(None, authority());
        let second = Authorities::followed_by(Some(&first), authority());
        for authorities in [&first, &second] {
            let secret = authorities.secret("n", "s", Some("7"));
            assert_eq!(secret["metadata"]["resourceVersion"], "7");
            assert_eq!(Authorities::read(&secret).as_ref(), Ok(authorities));
        }
        assert_eq!(second.trusted(NOW_S), [&*second.current.certificate, &*first.current.certificate]);
        assert_eq!(second.trusted(NOW_S + 3600), [&*second.current.certificate], "its time is over");
        let third = Authorities::followed_by(Some(&second), authority());
        assert_eq!(third.trusted(NOW_S).len(), 2, "one before is kept, and not all that ever were");
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let good = Authorities::followed_by(None, authority()).secret("n", "s", None);
        let without = |pointer: &str, field: &str| {
            let mut secret = good.clone();
            let part = secret.pointer_mut(pointer).and_then(Value::as_object_mut).expect("it is there");
            part.remove(field).expect("it is there");
            Authorities::read(&secret).expect_err(field)
        };
        assert_eq!(without("/data", KEY), "data: ca.key is missing");
        assert_eq!(without("/metadata/annotations", UNTIL), format!("metadata.annotations: {UNTIL} is missing"));
        assert!(Authorities::read(&Value::Null).is_err());
        let mut secret = good.clone();
        secret["metadata"]["annotations"][FROM] = json!("yesterday");
        assert!(Authorities::read(&secret).expect_err("no time").contains(FROM));
    }
}
