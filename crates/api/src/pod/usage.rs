//! What a pod asks for and may use at most, in sums by resource.

use std::collections::BTreeMap;

use super::requests::{limits, requests};
use crate::cursor::Cursor;
use crate::intern::Interner;

/// Amounts as ledgers count them.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    pub requests: BTreeMap<String, i128>,
    pub limits: BTreeMap<String, i128>,
}

/// The sums of a pod's `spec`.
pub(crate) fn of(spec: &Cursor<'_, '_>) -> Usage {
    let (asked, _) = requests(spec, None, &mut Interner::default());
    let asked = asked.iter().map(|(resource, amount)| (resource.to_string(), i128::from(*amount)));
    let limits = limits(spec).into_iter().map(|(resource, amount)| (resource.to_owned(), amount));
    Usage { requests: asked.collect(), limits: limits.collect() }
}

/// The resource whose unit is that of an amount with this name, as quotas have it: `requests.cpu`, `limits.memory`.
pub(crate) fn unit(resource: &str) -> &str {
    let resource = resource.rsplit_once('/').map_or(resource, |(_, name)| name);
    resource.strip_prefix("requests.").or_else(|| resource.strip_prefix("limits.")).unwrap_or(resource)
}
