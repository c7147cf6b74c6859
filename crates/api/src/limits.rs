//! Limits of what objects and callers may bring, each with a name: others decide what is in an object.

pub use quotient_engine::limits::{IDLE_TURNS_MAX, MOVES_MAX, POD_NAMES_MAX};

use quotient_engine::fact::PodSpec;

use crate::cursor::Cursor;

/// Resources that one pod requests, in all its containers.
pub const POD_RESOURCES_MAX: usize = 100;

/// Terms of affinity and anti-affinity between pods, and topology spread constraints, of one pod. For each the pods of
/// every domain are counted.
pub const POD_TERMS_MAX: usize = 200;

/// Terms of node affinity of one pod. Each is looked at for every node.
pub const POD_NODE_TERMS_MAX: usize = 500;

/// Tolerations of one pod. Each is compared with the taints of every node.
pub const POD_TOLERATIONS_MAX: usize = 1000;

/// Kinds of card that one pod accepts.
pub const POD_CARDS_MAX: usize = 64;

/// Tasks of one Job of several tasks.
pub const JOB_TASKS_MAX: usize = 1000;

/// Pods of one Job of several tasks, all tasks together.
pub const JOB_PODS_MAX: u64 = 100_000;

/// Bytes of host names that the plugin `svc` of such a Job writes into one pod: the names of all its pods, for each
/// container.
pub const JOB_HOSTS_BYTES_MAX: usize = 1 << 20;

/// Pods of one Job that are asked for at once: the next when these are there.
pub const JOB_BATCH_MAX: usize = 1000;

/// Bytes, cost and depth of one CEL expression, as the API server has them.
pub const CEL_BYTES_MAX: usize = 10 * 1024;
pub const CEL_COST_MAX: u64 = 1_000_000;
pub const CEL_DEPTH_MAX: usize = 250;

/// The largest question to a webhook. An object has 3 MiB at most on its way in, and a question has two.
pub const REVIEW_BYTES_MAX: usize = 8 << 20;

/// The bytes of all questions that webhooks read or answer at once, in KiB. What is parsed takes some times as much,
/// which is well within the memory of the container, whoever asks.
pub const REVIEWS_KIB_MAX: usize = 64 << 10;

/// Namespaces that a user is asked about for one composite quota: two requests each, which must be answered before the
/// API server gives up on the webhook. Beyond them the annotation of the namespace is needed.
pub const CONSENTS_MAX: usize = 100;

/// A limit, as a row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    pub name: &'static str,
    pub most: u64,
    /// What is counted.
    pub of: &'static str,
    /// What happens beyond it.
    pub beyond: &'static str,
}

const HELD: &str = "the pod is pending with `InvalidRequest`";

/// All of them.
pub const LIMITS: [Limit; 17] = [
    limit("POD_RESOURCES_MAX", POD_RESOURCES_MAX as u64, "resources that one pod requests", HELD),
    limit("POD_TERMS_MAX", POD_TERMS_MAX as u64, "terms of pod affinity and topology spread of one pod", HELD),
    limit("POD_NODE_TERMS_MAX", POD_NODE_TERMS_MAX as u64, "terms of node affinity of one pod", HELD),
    limit("POD_TOLERATIONS_MAX", POD_TOLERATIONS_MAX as u64, "tolerations of one pod", HELD),
    limit("POD_CARDS_MAX", POD_CARDS_MAX as u64, "kinds of card that one pod accepts", HELD),
    limit(
        "POD_NAMES_MAX",
        POD_NAMES_MAX as u64,
        "resources, and topology keys, that all pods name together and no node, quota or device does",
        "the pod that names the next is pending with `InvalidRequest`; a name counts until the last pod with it is gone",
    ),
    limit(
        "JOB_TASKS_MAX",
        JOB_TASKS_MAX as u64,
        "tasks of one Volcano Job",
        "rejected; of one that is stored, no pods are made, and its state and a condition say `InvalidRequest`",
    ),
    limit("JOB_PODS_MAX", JOB_PODS_MAX, "pods of one Volcano Job", "the same"),
    limit(
        "JOB_HOSTS_BYTES_MAX",
        JOB_HOSTS_BYTES_MAX as u64,
        "bytes of host names that the plugin `svc` writes into one pod",
        "the same",
    ),
    limit("JOB_BATCH_MAX", JOB_BATCH_MAX as u64, "pods of one Volcano Job asked for at once", "the rest follows"),
    limit(
        "CEL_BYTES_MAX",
        CEL_BYTES_MAX as u64,
        "bytes of one CEL expression",
        "an error of the expression: the pods that need it are pending with `InvalidRequest`",
    ),
    limit("CEL_COST_MAX", CEL_COST_MAX, "steps that one CEL expression may cost", "the same"),
    limit("CEL_DEPTH_MAX", CEL_DEPTH_MAX as u64, "levels of one CEL expression", "the same"),
    limit("REVIEW_BYTES_MAX", REVIEW_BYTES_MAX as u64, "bytes of one question to a webhook", "400: it is not answered"),
    limit(
        "REVIEWS_KIB_MAX",
        REVIEWS_KIB_MAX as u64,
        "KiB of all questions that webhooks answer at once",
        "the question waits, and is answered 503 after 10 s",
    ),
    limit(
        "CONSENTS_MAX",
        CONSENTS_MAX as u64,
        "namespaces of one composite quota that the rights of its maker are looked up for",
        "the namespace must agree by its annotation",
    ),
    limit(
        "MOVES_MAX",
        MOVES_MAX as u64,
        "reservations that one pod or gang takes or gives up in a cycle while nothing is bound or evicted",
        "it is set aside until the next cycle, and reported: a defect of Quotient",
    ),
];

const fn limit(name: &'static str, most: u64, of: &'static str, beyond: &'static str) -> Limit {
    Limit { name, most, of, beyond }
}

/// Notes what of a pod's spec is beyond a limit, and leaves it out: the pod is held for it.
pub(crate) fn hold(at: &Cursor<'_, '_>, spec: &mut PodSpec) {
    let is_bound = at.field("nodeName").non_empty_str().is_some();
    let is_beyond = |field: &str, what: &str, count: usize, most: usize| {
        if count > most {
            at.field(field).note(format!("{count} {what}: expected at most {most}"));
        }
        count > most
    };
    // A pod on a node is charged for all that it holds.
    if is_beyond("containers", "resources", spec.requests.iter().count(), POD_RESOURCES_MAX) && !is_bound {
        (spec.requests, spec.derived, spec.extended) = Default::default();
    }
    let near = spec.affinity.len() + spec.anti_affinity.len();
    let preferred = spec.preferred_affinity.len() + spec.preferred_anti_affinity.len();
    let terms = near + preferred + spec.spread.len();
    if is_beyond("affinity", "terms of pod affinity and topology spread", terms, POD_TERMS_MAX) {
        (spec.affinity, spec.anti_affinity, spec.spread) = Default::default();
        (spec.preferred_affinity, spec.preferred_anti_affinity) = Default::default();
    }
    let node_terms = spec.required_nodes.as_ref().map_or(0, Vec::len) + spec.preferred_nodes.len();
    if is_beyond("affinity", "terms of node affinity", node_terms, POD_NODE_TERMS_MAX) {
        (spec.required_nodes, spec.preferred_nodes) = Default::default();
    }
    if is_beyond("tolerations", "tolerations", spec.tolerations.len(), POD_TOLERATIONS_MAX) {
        spec.tolerations.clear();
    }
}
