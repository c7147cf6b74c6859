//! Gangs as others write them: the group that a pod names, in whose words, and what there is to read of it.
//!
//! *Another source* is a row in [`SOURCES`]: how a pod names its group, what a pod says of it where groups have no
//! object ([`GroupTerms`]), and how its `PodGroup` is read where they have. Translation, what is kept of pods, what a
//! bound pod keeps, statuses and `lint` follow the table; a kind of its own is a row in `kinds.rs` too. The engine
//! knows groups by API group, namespace and name, and no source.

mod coscheduling;
mod koordinator;
pub mod status;
pub mod traps;

use std::sync::Arc;

use quotient_engine::fact::{GroupFact, GroupName, GroupTerms, Name};
use serde_json::Value;

use crate::cursor::{Cursor, Notes};
use crate::field::of;
use crate::intern::Interner;
use crate::object::ObjectKey;
use crate::{pod_group, volcano};

/// The kind of groups, whoever they are of.
pub const POD_GROUP: &str = "PodGroup";

/// Somebody's way to say which pods start together.
pub struct Source {
    /// Who writes gangs so.
    pub name: &'static str,
    /// The API group of the groups.
    pub api_group: &'static str,
    /// Labels and annotations of a pod that speak of its group: they are what ties it.
    pub labels: &'static [&'static str],
    pub annotations: &'static [&'static str],
    /// The group that a pod names.
    name_of: fn(&Value) -> Option<&str>,
    /// What the pod says itself of its group, by its metadata; where no pod does, groups have objects.
    terms: Option<TermsOf>,
    /// What the object of a group says, where it is not read elsewhere.
    group: Option<GroupOf>,
}

type TermsOf = for<'v> fn(&Cursor<'v, '_>, &str, &mut Interner) -> Option<GroupTerms>;
type GroupOf = for<'v> fn(&Cursor<'v, '_>, &Notes, &ObjectKey, &mut Interner) -> GroupFact;

/// All sources. A pod that names groups in the words of several is of the group of the first.
pub static SOURCES: &[Source] = &[
    Source {
        name: "Kubernetes",
        api_group: pod_group::SCHEDULING,
        labels: &[],
        annotations: &[],
        name_of: pod_group::name_of,
        terms: None,
        group: Some(pod_group::group),
    },
    Source {
        name: "Volcano",
        api_group: volcano::SCHEDULING,
        labels: &[],
        annotations: &volcano::GROUP_NAMES,
        name_of: |pod| volcano::GROUP_NAMES.iter().find_map(|name| volcano::annotation(pod, name)),
        terms: None,
        group: None,
    },
    koordinator::SOURCE,
    coscheduling::SOURCE,
];

/// The source whose groups are of that API group.
pub fn source_of(api_group: &str) -> Option<&'static Source> {
    SOURCES.iter().find(|source| source.api_group == api_group)
}

/// Whether the key is of a group, whoever it is of.
pub fn is_group(key: &ObjectKey) -> bool {
    key.kind == POD_GROUP && source_of(key.group).is_some()
}

/// All groups that a pod names, with their sources. The first counts.
pub fn named_by(pod: &Value) -> impl Iterator<Item = (&'static Source, &str)> {
    SOURCES.iter().filter_map(move |source| Some((source, (source.name_of)(pod)?)))
}

/// The group that a pod says it is in.
pub fn of_pod(key: &ObjectKey, pod: &Value) -> Option<ObjectKey> {
    let (source, name) = named_by(pod).next()?;
    let namespace = key.namespace.clone();
    Some(ObjectKey { group: source.api_group, kind: POD_GROUP, namespace, name: name.into() })
}

/// The group that a pod names by a label or an annotation of its own, and not in the words of Kubernetes or Volcano,
/// which are read with the rest of what they say; with what the pod says of that group.
pub(crate) fn by_label(
    tied: &Cursor<'_, '_>,
    namespace: &str,
    interner: &mut Interner,
) -> Option<(GroupName, Option<Arc<GroupTerms>>)> {
    let object = tied.value()?;
    let others =
        SOURCES.iter().filter(|source| !matches!(source.api_group, pod_group::SCHEDULING | volcano::SCHEDULING));
    let (source, name) = others.filter_map(|source| Some((source, (source.name_of)(object)?))).next()?;
    let terms = source.terms.and_then(|terms| terms(&tied.field("metadata"), &format!("{namespace}/{name}"), interner));
    let group = GroupName { api_group: interner.name(source.api_group), name: interner.name(name) };
    Some((group, terms.map(Arc::new)))
}

/// What there is to tell about a group's object, where no other part of the reading does.
pub(crate) fn group(
    root: &Cursor<'_, '_>,
    notes: &Notes,
    key: &ObjectKey,
    interner: &mut Interner,
) -> Option<GroupFact> {
    let read = source_of(key.group).filter(|_| key.kind == POD_GROUP)?.group?;
    Some(read(root, notes, key, interner))
}

/// What all groups with `minMember` have in common.
fn with_min_member(root: &Cursor<'_, '_>, key: &ObjectKey, interner: &mut Interner) -> GroupFact {
    let metadata = root.field("metadata");
    let created = metadata.field("creationTimestamp");
    let created =
        created.str().and_then(|text| crate::time::parse_timestamp(text).map_err(|message| created.note(message)).ok());
    GroupFact {
        api_group: interner.name(key.group),
        namespace: interner.name(key.namespace.as_deref().unwrap_or_default()),
        name: interner.name(&key.name),
        created: quotient_engine::fact::Created(created.unwrap_or_default()),
        min_member: root.field("spec").field("minMember").int().unwrap_or(0),
        // It stands in no queue of its own: its pods are held to their quotas, and the minimum as one pod of that size.
        admitted: true,
        has_started: matches!(root.field("status").field("phase").str(), Some("Running" | "Finished")),
        ..GroupFact::default()
    }
}

/// A label of an object that is there and not empty.
fn label<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    let labels = of(of(object, "metadata")?, "labels")?;
    of(labels, name)?.as_str().filter(|text| !text.is_empty())
}

/// The labels of pods that speak of their groups.
pub(crate) fn labels() -> impl Iterator<Item = &'static str> {
    SOURCES.iter().flat_map(|source| source.labels).copied()
}

/// The annotations of pods that speak of their groups.
pub(crate) fn annotations() -> impl Iterator<Item = &'static str> {
    SOURCES.iter().flat_map(|source| source.annotations).copied()
}

/// The name that the engine has for a group's API group and name, as an object's key.
pub(crate) fn static_group(api_group: &Name) -> Option<&'static str> {
    source_of(api_group).map(|source| source.api_group)
}
