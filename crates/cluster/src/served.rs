//! Which version of a kind the API server serves, where we read several.
//!
//! The first of ours that discovery lists is used, to read and to write. What was found is the same for all clients of
//! this process, which have one API server; it is looked up again whenever a kind is listed.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use http::Request;
use kube::Client;
use quotient_api::Kind;
use serde_json::Value;

use crate::call::{CALL_TIMEOUT, CallError, call_error};

static FOUND: RwLock<BTreeMap<(&str, &str), &str>> = RwLock::new(BTreeMap::new());

/// The version that a kind is read and written in.
pub fn version_of(kind: &Kind) -> &'static str {
    let found = FOUND.read().unwrap_or_else(PoisonError::into_inner);
    found.get(&(kind.group, kind.plural)).copied().unwrap_or(kind.versions[0])
}

/// Looks up in which version a kind is served now, where we read several: [`version_of`] gives it from then on.
pub async fn find_version(client: &Client, kind: &'static Kind) {
    if kind.versions.len() > 1 {
        look(client, kind).await;
    }
}

/// What discovery says of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// It is served, in this version.
    As(&'static str),
    /// It is served in none of our versions.
    Not,
    /// The server did not say.
    Unknown,
}

/// Asks in which of our versions a kind is served, and keeps the answer for those who write.
pub async fn look(client: &Client, kind: &'static Kind) -> Served {
    // The core group is always there.
    if kind.group.is_empty() {
        return Served::As(kind.versions[0]);
    }
    let mut is_unknown = false;
    for version in kind.versions.iter().copied() {
        let path = format!("/apis/{}/{version}", kind.group);
        match lists(kind, &get(client, &path).await) {
            Some(true) => {
                let mut found = FOUND.write().unwrap_or_else(PoisonError::into_inner);
                found.insert((kind.group, kind.plural), version);
                return Served::As(version);
            }
            Some(false) => {}
            None => is_unknown = true,
        }
    }
    if is_unknown { Served::Unknown } else { Served::Not }
}

async fn get(client: &Client, path: &str) -> Result<Value, CallError> {
    let request = Request::get(path).header(http::header::ACCEPT, "application/json").body(Vec::new());
    let request = request.expect("a path of the table of kinds");
    let answer = tokio::time::timeout(CALL_TIMEOUT, client.request(request)).await;
    answer.map_err(|_| CallError::Unavailable(format!("{path}: no answer in time")))?.map_err(call_error)
}

/// Whether what discovery says of a version of a group has a kind; `None`: it does not say.
fn lists(kind: &Kind, answer: &Result<Value, CallError>) -> Option<bool> {
    match answer {
        Ok(group) => Some(group["resources"].as_array()?.iter().any(|resource| resource["name"] == kind.plural)),
        Err(CallError::NotFound(_)) => Some(false),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_discovery_says_that_a_kind_is_absent() {
        let kind = quotient_api::kinds::find("nos.nebuly.com", "ElasticQuota").expect("it is known");
        let group = |name: &str| Ok(json!({"resources": [{"name": name}, {"name": format!("{name}/status")}]}));
        assert_eq!(lists(kind, &group("elasticquotas")), Some(true));
        assert_eq!(lists(kind, &group("others")), Some(false));
        assert_eq!(lists(kind, &Err(CallError::NotFound(String::new()))), Some(false));
        let refused = |code| Err(CallError::Refused { code, message: String::new() });
        for answer in [refused(401), refused(403), Err(CallError::Unavailable(String::new())), Ok(json!({}))] {
            assert_eq!(lists(kind, &answer), None, "{answer:?}");
        }
    }
}
