//! Gangs of Koordinator: `PodGroup` of `scheduling.sigs.k8s.io`, named by a label of pods, and gangs that pods declare
//! themselves, by annotations or by labels of an earlier time. Gangs may start together with others.

use quotient_engine::fact::{Counting, GroupFact, GroupKey, GroupTerms, RequestProblem};

use super::{Source, label, with_min_member};
use crate::cursor::Cursor;
use crate::intern::Interner;
use crate::pod_group::unreadable;
use crate::volcano::annotation;
use crate::volcano::group::annotation_problem;

/// The API group of these groups.
pub const GROUP: &str = "scheduling.sigs.k8s.io";

/// The `PodGroup` of a pod.
const POD_GROUP_LABEL: &str = "pod-group.scheduling.sigs.k8s.io";
/// The gang of a pod and its minimum, as labels of an earlier time have them.
const OLD_NAME: &str = "pod-group.scheduling.sigs.k8s.io/name";
const OLD_MIN: &str = "pod-group.scheduling.sigs.k8s.io/min-available";
/// The gang of a pod and its minimum, by annotation.
const GANG_NAME: &str = "gang.scheduling.koordinator.sh/name";
const GANG_MIN: &str = "gang.scheduling.koordinator.sh/min-available";
/// Which pods count towards the minimum. Both names are in use.
const MATCH_POLICIES: [&str; 2] =
    ["gang.scheduling.koordinator.sh/match-policy", "pod-group.scheduling.sigs.k8s.io/match-policy"];
/// The gangs that start together, as a JSON list of `namespace/gang`.
const GROUPS: &str = "gang.scheduling.koordinator.sh/groups";
/// What becomes of the others where one member has no place.
pub(super) const MODE: &str = "gang.scheduling.koordinator.sh/mode";

/// The most gangs that start together. What they need is worked out anew whenever one of them changes.
const PARTNERS_MAX: usize = 64;

pub(super) const SOURCE: Source = Source {
    name: "Koordinator",
    api_group: GROUP,
    labels: &[POD_GROUP_LABEL, OLD_NAME, OLD_MIN],
    annotations: &[GANG_NAME, GANG_MIN, MATCH_POLICIES[0], MATCH_POLICIES[1], GROUPS],
    name_of: |pod| {
        let by_label = label(pod, POD_GROUP_LABEL).or_else(|| label(pod, OLD_NAME));
        by_label.or_else(|| annotation(pod, GANG_NAME))
    },
    terms: Some(terms),
    group: Some(|root, notes, key, interner| {
        let fact = with_min_member(root, key, interner);
        let metadata = root.field("metadata");
        let annotations = metadata.field("annotations");
        let own = format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), key.name);
        let (partners, problem) = partners(&annotations, &own, interner);
        GroupFact { counting: counting(&annotations), partners, problem: unreadable(notes).or(problem), ..fact }
    }),
};

/// What a pod says of its gang: all but those that name a `PodGroup`, which they wait for.
fn terms(metadata: &Cursor<'_, '_>, own: &str, interner: &mut Interner) -> Option<GroupTerms> {
    let (labels, annotations) = (metadata.field("labels"), metadata.field("annotations"));
    if labels.field(POD_GROUP_LABEL).non_empty_str().is_some() {
        return None;
    }
    let (name, at) = match labels.field(OLD_MIN).non_empty_str() {
        Some(_) => (OLD_MIN, labels.field(OLD_MIN)),
        None => (GANG_MIN, annotations.field(GANG_MIN)),
    };
    let min_member =
        at.non_empty_str().and_then(|text| text.parse::<i32>().ok()).and_then(|min| u32::try_from(min).ok());
    let (partners, unreadable) = partners(&annotations, own, interner);
    let part = if name == OLD_MIN { "labels" } else { "annotations" };
    let mut problem = unreadable;
    if min_member.is_none() {
        let message = "expected how many pods must be able to run, as a whole number in quotes";
        let found = annotation_problem(name, &at, message);
        problem = Some(RequestProblem { field: format!("metadata.{part}[{name:?}]").into(), ..found });
    }
    Some(GroupTerms {
        min_member: min_member.unwrap_or(0),
        counting: counting(&annotations),
        partners,
        field: format!("metadata.{part}[{name:?}]").into(),
        problem,
    })
}

/// Which pods count towards the minimum. What is not known is the default, as it is there.
fn counting(annotations: &Cursor<'_, '_>) -> Counting {
    let given = MATCH_POLICIES.iter().map(|name| annotations.field(name)).find(|at| at.non_empty_str().is_some());
    match given.as_ref().and_then(|at| at.non_empty_str()) {
        Some("only-waiting") => Counting::WaitingOnly,
        Some("waiting-and-running") => Counting::RunningToo,
        None | Some("once-satisfied") => Counting::Once,
        Some(_) => {
            let expected = "expected once-satisfied, waiting-and-running or only-waiting; the first of them counts";
            given.into_iter().for_each(|at| at.note(expected));
            Counting::Once
        }
    }
}

/// The gangs that start with this one, itself among them, in order; none where it starts by itself.
fn partners(
    annotations: &Cursor<'_, '_>,
    own: &str,
    interner: &mut Interner,
) -> (Vec<GroupKey>, Option<RequestProblem>) {
    let at = annotations.field(GROUPS);
    let Some(text) = at.non_empty_str() else { return (Vec::new(), None) };
    let names: Option<Vec<String>> = serde_json::from_str(text).ok();
    let is_name = |name: &String| {
        name.split_once('/')
            .is_some_and(|(namespace, gang)| !namespace.is_empty() && !gang.is_empty() && !gang.contains('/'))
    };
    let Some(mut names) = names.filter(|names| names.len() <= PARTNERS_MAX && names.iter().all(is_name)) else {
        let message = format!("expected a JSON list of at most {PARTNERS_MAX} gangs, each as \"namespace/gang\"");
        at.note(message.as_str());
        return (Vec::new(), Some(annotation_problem(GROUPS, &at, &message)));
    };
    names.push(own.to_string());
    names.sort();
    names.dedup();
    if names.len() < 2 {
        return (Vec::new(), None);
    }
    let key = |name: &String| {
        let (namespace, gang) = name.split_once('/').expect("each name was checked");
        GroupKey { api_group: interner.name(GROUP), namespace: interner.name(namespace), name: interner.name(gang) }
    };
    (names.iter().map(key).collect(), None)
}
