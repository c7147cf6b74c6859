//! What happens to an object on its way into the cluster: defaults, and refusals.
//!
//! This is what an API server does that bears on scheduling, and what the quota webhooks add to it. It
//! is pure: everything it needs to know of other objects it asks of a [`View`]. Each kind has a list of
//! defaults, which change the object, and of checks, which say what is wrong with it; a rule is a
//! function in a file of its own, and a line in [`RULES`].
//!
//! Refused is what an API server would refuse and what would make a scheduling rule mean something else
//! than its author thinks. Fields that have no bearing on scheduling (an image that is not given, say)
//! are let in with a warning.

mod budget;
mod classes;
mod elastic;
mod metadata;
mod pod;
mod pod_group;
mod pod_overhead;
mod pod_priority;
mod pod_resources;
mod pod_update;
mod queue;
mod storage;
mod tree_pod;
mod tree_profile;
mod tree_quota;
mod volcano_job;
mod workload;

use std::cell::RefCell;

use serde_json::Value;

use crate::cursor::{Cursor, Notes};
use crate::gpu_memory::WHOLE_GPU_GB;
use crate::object::{ObjectKey, key_of};
use crate::problem::Problem;
use crate::tree;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// One object on its way in, or out.
#[derive(Debug, Clone, PartialEq)]
pub struct Request<'a> {
    pub operation: Operation,
    /// The object as it shall be; with `Delete`, as it is.
    pub object: Value,
    /// The object as it is, where it exists.
    pub old: Option<&'a Value>,
}

/// The other objects of the cluster.
pub trait View {
    /// The object of that key.
    fn get(&self, key: &ObjectKey) -> Option<&Value>;
    /// All objects of a kind, of one namespace or of all, in an order that does not change.
    fn list(&self, group: &str, kind: &str, namespace: Option<&str>) -> Vec<&Value>;
    /// What a whole NVIDIA GPU counts in gigabytes of GPU memory.
    fn whole_gpu_gb(&self) -> u32 {
        WHOLE_GPU_GB
    }
}

/// The object as it enters the cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Admitted {
    pub object: Value,
    /// What the object's owner should know though it was let in.
    pub warnings: Vec<String>,
}

/// Why an object does not enter the cluster: every field that is wrong, on one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Rejection {
    pub message: String,
    /// The same, one for each field.
    pub problems: Vec<Problem>,
}

impl Rejection {
    fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Rejection { problems: vec![Problem::new(message.clone())], message }
    }
}

/// What a rule may know besides the object.
pub(crate) struct Context<'a> {
    pub operation: Operation,
    pub key: &'a ObjectKey,
    pub old: Option<&'a Value>,
    pub view: &'a dyn View,
    warnings: RefCell<Vec<String>>,
}

impl Context<'_> {
    /// Says something to the object's owner without refusing it.
    fn warn(&self, message: String) {
        self.warnings.borrow_mut().push(message);
    }
}

/// Fills in what the object leaves out.
type DefaultRule = fn(&mut Value, &Context<'_>) -> Result<(), Rejection>;

/// Notes what is wrong with the object.
type CheckRule = fn(&Cursor<'_, '_>, &Context<'_>);

/// What happens to objects of one kind.
struct Rules {
    group: &'static str,
    kind: &'static str,
    on_create: &'static [DefaultRule],
    on_update: &'static [DefaultRule],
    checks: &'static [CheckRule],
    on_delete: &'static [CheckRule],
}

/// Rules for a kind that is only checked.
const fn checked(group: &'static str, kind: &'static str, checks: &'static [CheckRule]) -> Rules {
    Rules { group, kind, on_create: &[], on_update: &[], checks, on_delete: &[] }
}

/// The rules by kind. Kinds that are not listed have only the rules of all objects.
static RULES: &[Rules] = &[
    Rules {
        group: "",
        kind: "Pod",
        on_create: &[
            pod_resources::set_requests,
            pod_priority::set_priority,
            pod_overhead::set_overhead,
            pod::add_tolerations,
            tree_pod::keep_on_tree,
        ],
        on_update: &[pod_update::keep_what_was_set, pod_resources::set_requests, tree_pod::keep_affinity],
        checks: &[pod::check, pod_update::check, tree_pod::check],
        on_delete: &[],
    },
    Rules {
        group: "",
        kind: "Namespace",
        on_create: &[metadata::label_with_name],
        on_update: &[metadata::label_with_name],
        checks: &[],
        on_delete: &[],
    },
    Rules {
        group: "",
        kind: "PersistentVolumeClaim",
        on_create: &[storage::set_default_class],
        on_update: &[storage::keep_what_was_set],
        checks: &[storage::check_claim],
        on_delete: &[],
    },
    checked("", "PersistentVolume", &[storage::check_volume]),
    checked("", "ReplicationController", &[workload::check]),
    checked("apps", "Deployment", &[workload::check, workload::check_selector]),
    checked("apps", "ReplicaSet", &[workload::check, workload::check_selector]),
    checked("apps", "StatefulSet", &[workload::check, workload::check_selector]),
    checked("apps", "DaemonSet", &[workload::check, workload::check_selector]),
    checked("batch", "Job", &[workload::check, workload::check_job]),
    checked("policy", "PodDisruptionBudget", &[budget::check]),
    checked("scheduling.k8s.io", "PriorityClass", &[classes::check_priority]),
    checked("node.k8s.io", "RuntimeClass", &[classes::check_runtime]),
    checked("storage.k8s.io", "StorageClass", &[storage::check_class]),
    checked("scheduling.x-k8s.io", "ElasticQuota", &[elastic::check_plain]),
    checked("nos.nebuly.com", "ElasticQuota", &[elastic::check_plain]),
    checked("n8s.nebuly.ai", "ElasticQuota", &[elastic::check_plain]),
    checked("nos.nebuly.com", "CompositeElasticQuota", &[elastic::check_composite]),
    checked("n8s.nebuly.ai", "CompositeElasticQuota", &[elastic::check_composite]),
    Rules {
        group: tree::GROUP,
        kind: tree::QUOTA,
        on_create: &[tree_quota::fill_in],
        on_update: &[tree_quota::fill_in],
        checks: &[tree_quota::check],
        on_delete: &[tree_quota::check_delete],
    },
    checked(tree::PROFILE_GROUP, tree::PROFILE, &[tree_profile::check]),
    Rules {
        group: "scheduling.volcano.sh",
        kind: "Queue",
        on_create: &[],
        on_update: &[],
        checks: &[queue::check],
        on_delete: &[queue::check_delete],
    },
    checked("scheduling.volcano.sh", "PodGroup", &[pod_group::check]),
    Rules {
        group: "batch.volcano.sh",
        kind: "Job",
        on_create: &[volcano_job::set_defaults],
        on_update: &[volcano_job::set_defaults],
        checks: &[volcano_job::check],
        on_delete: &[],
    },
];

/// Applies defaults and checks, in that order. The object comes back as it is to be stored.
pub fn admit(request: Request<'_>, view: &dyn View) -> Result<Admitted, Rejection> {
    let Request { operation, mut object, old } = request;
    let key = key_of(&object).map_err(|problem| Rejection::new(problem.to_string()))?;
    let context = Context { operation, key: &key, old, view, warnings: RefCell::default() };
    let rules = RULES.iter().find(|rules| rules.group == key.group && rules.kind == key.kind);

    let defaults = match (operation, rules) {
        (Operation::Create, Some(rules)) => rules.on_create,
        (Operation::Update, Some(rules)) => rules.on_update,
        _ => &[],
    };
    if operation != Operation::Delete {
        metadata::set_namespace(&mut object, &key);
    }
    for rule in defaults {
        rule(&mut object, &context)?;
    }

    let notes = Notes::default();
    let root = Cursor::root(&object, &notes);
    let checks = match (operation, rules) {
        (Operation::Delete, Some(rules)) => rules.on_delete,
        (_, Some(rules)) => rules.checks,
        (_, None) => &[],
    };
    if operation != Operation::Delete {
        metadata::check(&root);
    }
    checks.iter().for_each(|check| check(&root, &context));

    if !notes.is_empty() {
        let problems: Vec<Problem> = notes.into_vec().into_iter().map(Problem::from).collect();
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        return Err(Rejection { message: lines.join("; "), problems });
    }
    Ok(Admitted { object, warnings: context.warnings.into_inner() })
}

/// The map under `name` in `value`, made where there is none. `None` where something else stands there.
pub(crate) fn object_in<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut serde_json::Map<String, Value>> {
    let entry = value.as_object_mut()?.entry(name).or_insert(Value::Null);
    if entry.is_null() {
        *entry = Value::Object(serde_json::Map::new());
    }
    entry.as_object_mut()
}

/// Whether a field is there and not `null`.
fn is_given(value: &Value, name: &str) -> bool {
    value.get(name).is_some_and(|field| !field.is_null())
}
