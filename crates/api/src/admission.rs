//! What happens to an object on its way into the cluster: defaults, and refusals.
//!
//! This is what an API server does that bears on scheduling, and what the quota webhooks add to it. It
//! is pure: everything it needs to know of other objects it asks of a [`View`]. Each kind has a list of
//! defaults, which change the object, and of checks, which say what is wrong with it; a rule is a
//! function in a file of its own, and a line in [`RULES`]. The simulator and `lint` apply all of them ([`admit`]); on a
//! real API server the webhooks apply what that does not do itself ([`mutate`], [`validate`]).
//!
//! Refused is what an API server would refuse and what would make a scheduling rule mean something else
//! than its author thinks. Fields that have no bearing on scheduling (an image that is not given, say)
//! are let in with a warning.

mod budget;
mod classes;
mod elastic;
mod limit_range;
mod metadata;
mod pod;
mod pod_group;
mod pod_overhead;
pub(crate) mod pod_priority;
mod pod_resources;
mod pod_update;
pub(crate) mod queue;
mod resource_quota;
mod scheduling_group;
mod storage;
mod tree_pod;
mod tree_profile;
mod tree_quota;
mod volcano_job;
mod workload;

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::cursor::{Cursor, Notes};
use crate::device::check as device;
use crate::elastic::{self as elastic_api, Held, Sums};
use crate::field::{at, of};
use crate::gpu_memory::WHOLE_GPU_GB;
use crate::kinds::{self, Kind};
use crate::object::{ObjectKey, key_of};
use crate::pod::known_specs::KnownSpecs;
use crate::pod_group as pod_group_api;
use crate::problem::Problem;
use crate::quota_kinds::QUOTA_KINDS;
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
    /// Whether a composite quota governs only namespaces that agree.
    fn needs_consent(&self) -> bool {
        false
    }
    /// What a whole NVIDIA GPU counts in gigabytes of GPU memory.
    fn whole_gpu_gb(&self) -> u32 {
        WHOLE_GPU_GB
    }
    /// What all nodes hold together. A view that is asked for many quotas adds it up once.
    fn held(&self) -> Arc<Held> {
        Arc::new(Held::by(&self.list("", "Node", None), self.whole_gpu_gb()))
    }
    /// Specs of pods with which nothing was wrong, where somebody remembers them.
    fn checked_specs(&self) -> Option<&CheckedSpecs> {
        None
    }
    /// What the elastic quotas of a group guarantee together. A view that is asked for many quotas keeps the sum.
    fn guaranteed(&self, group: &str) -> Sums {
        let mut sums = Sums::default();
        for kind in [elastic_api::PLAIN, elastic_api::COMPOSITE] {
            self.list(group, kind, None).into_iter().for_each(|quota| sums.add_min(quota));
        }
        sums
    }
}

/// Specs of pods with which nothing was found to be wrong: those of many pods are alike.
#[derive(Debug, Default)]
pub struct CheckedSpecs(Mutex<KnownSpecs<()>>);

// A copy begins empty: it saves time and decides nothing.
impl Clone for CheckedSpecs {
    fn clone(&self) -> Self {
        CheckedSpecs::default()
    }
}

impl CheckedSpecs {
    fn specs(&self) -> MutexGuard<'_, KnownSpecs<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub(crate) fn new(message: impl Into<String>) -> Self {
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

    /// Whether something was said.
    fn has_warnings(&self) -> bool {
        !self.warnings.borrow().is_empty()
    }
}

/// Fills in what the object leaves out.
pub(crate) type DefaultRule = fn(&mut Value, &Context<'_>) -> Result<(), Rejection>;

/// Notes what is wrong with the object.
pub(crate) type CheckRule = fn(&Cursor<'_, '_>, &Context<'_>);

/// What is done to an object by one of those that it passes on its way in.
pub(crate) struct Part {
    pub on_create: &'static [DefaultRule],
    pub on_update: &'static [DefaultRule],
    pub checks: &'static [CheckRule],
    pub on_delete: &'static [CheckRule],
}

pub(crate) const NOTHING: Part = Part { on_create: &[], on_update: &[], checks: &[], on_delete: &[] };

/// What happens to objects of one kind.
pub(crate) struct Rules {
    pub group: &'static str,
    pub kind: &'static str,
    /// What an API server does by itself.
    pub server: Part,
    /// What our webhooks add to it.
    pub webhook: Part,
}

/// Rules for a kind that an API server checks.
const fn served(group: &'static str, kind: &'static str, checks: &'static [CheckRule]) -> Rules {
    Rules { group, kind, server: Part { checks, ..NOTHING }, webhook: NOTHING }
}

/// Rules for a kind that our webhooks check.
const fn guarded(group: &'static str, kind: &'static str, checks: &'static [CheckRule]) -> Rules {
    Rules { group, kind, server: NOTHING, webhook: Part { checks, ..NOTHING } }
}

/// Rules for the composite quotas of a group.
const fn composite(group: &'static str) -> Rules {
    let webhook = Part {
        on_create: &[elastic::keep_agreed],
        on_update: &[elastic::keep_agreed],
        checks: &[elastic::check_composite],
        on_delete: &[],
    };
    Rules { group, kind: "CompositeElasticQuota", server: NOTHING, webhook }
}

/// The rules by kind. Kinds that are not listed have only the rules of all objects, which are an API server's.
static RULES: &[Rules] = &[
    Rules {
        group: "",
        kind: "Pod",
        server: Part {
            on_create: &[
                pod_resources::set_requests,
                limit_range::set_defaults,
                pod_priority::set_priority,
                pod_overhead::set_overhead,
                pod::add_tolerations,
            ],
            on_update: &[pod_update::keep_what_was_set, pod_resources::set_requests],
            checks: &[pod::check, pod_update::check, limit_range::check],
            on_delete: &[],
        },
        webhook: Part {
            on_create: &[tree_pod::keep_on_tree, tree_pod::drop_record],
            on_update: &[tree_pod::keep_affinity, tree_pod::keep_record],
            checks: &[tree_pod::check],
            on_delete: &[],
        },
    },
    Rules {
        group: "",
        kind: "Namespace",
        server: Part { on_create: &[metadata::label_with_name], on_update: &[metadata::label_with_name], ..NOTHING },
        webhook: NOTHING,
    },
    Rules {
        group: "",
        kind: "PersistentVolumeClaim",
        server: Part {
            on_create: &[storage::set_default_class],
            on_update: &[storage::keep_what_was_set],
            checks: &[storage::check_claim],
            on_delete: &[],
        },
        webhook: NOTHING,
    },
    served("", "PersistentVolume", &[storage::check_volume]),
    served("", "ReplicationController", &[workload::check]),
    served("apps", "Deployment", &[workload::check, workload::check_selector]),
    served("apps", "ReplicaSet", &[workload::check, workload::check_selector]),
    served("apps", "StatefulSet", &[workload::check, workload::check_selector]),
    served("apps", "DaemonSet", &[workload::check, workload::check_selector]),
    served("batch", "Job", &[workload::check, workload::check_job]),
    served("policy", "PodDisruptionBudget", &[budget::check]),
    served("", "LimitRange", &[limit_range::check_object]),
    served("", "ResourceQuota", &[resource_quota::check_object]),
    served("scheduling.k8s.io", "PriorityClass", &[classes::check_priority]),
    Rules {
        group: pod_group_api::SCHEDULING,
        kind: pod_group_api::POD_GROUP,
        server: Part {
            on_create: &[scheduling_group::fill_in],
            on_update: &[scheduling_group::fill_in],
            checks: &[scheduling_group::check],
            on_delete: &[],
        },
        webhook: NOTHING,
    },
    served(pod_group_api::SCHEDULING, pod_group_api::WORKLOAD, &[scheduling_group::check_workload]),
    served("node.k8s.io", "RuntimeClass", &[classes::check_runtime]),
    served("storage.k8s.io", "StorageClass", &[storage::check_class]),
    served("resource.k8s.io", "ResourceSlice", &[device::check_slice]),
    served("resource.k8s.io", "DeviceClass", &[device::check_class]),
    Rules {
        group: "resource.k8s.io",
        kind: "ResourceClaim",
        server: Part {
            on_create: &[device::fill_in_claim, device::add_status],
            on_update: &[device::fill_in_claim],
            checks: &[device::check_claim],
            on_delete: &[],
        },
        webhook: NOTHING,
    },
    Rules {
        group: "resource.k8s.io",
        kind: "ResourceClaimTemplate",
        server: Part {
            on_create: &[device::fill_in_template],
            on_update: &[device::fill_in_template],
            checks: &[device::check_template],
            on_delete: &[],
        },
        webhook: NOTHING,
    },
    guarded("scheduling.x-k8s.io", "ElasticQuota", &[elastic::check_plain]),
    guarded("nos.nebuly.com", "ElasticQuota", &[elastic::check_plain]),
    guarded("n8s.nebuly.ai", "ElasticQuota", &[elastic::check_plain]),
    composite("nos.nebuly.com"),
    composite("n8s.nebuly.ai"),
    Rules {
        group: tree::GROUP,
        kind: tree::QUOTA,
        server: NOTHING,
        webhook: Part {
            on_create: &[tree_quota::fill_in],
            on_update: &[tree_quota::fill_in],
            checks: &[tree_quota::check],
            on_delete: &[tree_quota::check_delete],
        },
    },
    guarded(tree::PROFILE_GROUP, tree::PROFILE, &[tree_profile::check]),
];

/// The rules of the kinds that go with quotas.
static GROUP_RULES: &[Rules] = &[
    Rules {
        group: "scheduling.volcano.sh",
        kind: "PodGroup",
        server: NOTHING,
        webhook: Part { on_create: &[pod_group::set_queue], checks: &[pod_group::check], ..NOTHING },
    },
    Rules {
        group: "batch.volcano.sh",
        kind: "Job",
        server: NOTHING,
        webhook: Part {
            on_create: &[volcano_job::set_defaults],
            on_update: &[volcano_job::set_defaults],
            checks: &[volcano_job::check],
            on_delete: &[],
        },
    },
];

impl Part {
    fn defaults(&self, operation: Operation) -> &'static [DefaultRule] {
        match operation {
            Operation::Create => self.on_create,
            Operation::Update => self.on_update,
            Operation::Delete => &[],
        }
    }

    fn checks(&self, operation: Operation) -> &'static [CheckRule] {
        match operation {
            Operation::Delete => self.on_delete,
            Operation::Create | Operation::Update => self.checks,
        }
    }
}

/// The rules of all kinds.
fn all_rules() -> impl Iterator<Item = &'static Rules> {
    RULES.iter().chain(QUOTA_KINDS.iter().map(|kind| &kind.rules)).chain(GROUP_RULES)
}

fn rules_of(key: &ObjectKey) -> Option<&'static Rules> {
    all_rules().find(|rules| rules.group == key.group && rules.kind == key.kind)
}

/// What our webhooks do with a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guarded {
    pub kind: &'static Kind,
    /// They fill in what objects leave out.
    pub fills_in: bool,
    /// They say whether an object may go.
    pub guards_delete: bool,
}

/// The kinds that our webhooks have something to say about. All of them are checked.
pub fn guarded_kinds() -> impl Iterator<Item = Guarded> {
    all_rules().filter_map(|rules| {
        let Part { on_create, on_update, checks, on_delete } = &rules.webhook;
        let kind = kinds::find(rules.group, rules.kind).filter(|_| !checks.is_empty())?;
        let fills_in = !on_create.is_empty() || !on_update.is_empty();
        Some(Guarded { kind, fills_in, guards_delete: !on_delete.is_empty() })
    })
}

/// Applies defaults and checks, in that order: an API server's, then our webhooks'. The object comes back as it is to
/// be stored.
pub fn admit(request: Request<'_>, view: &dyn View) -> Result<Admitted, Rejection> {
    let Request { operation, mut object, old } = request;
    let warnings = admit_in_place(operation, &mut object, old, view)?;
    Ok(Admitted { object, warnings })
}

/// The same, with the object as it is to be stored in its place, and what its owner should know though it was let in.
/// Of one that is refused, some defaults may be filled in.
pub fn admit_in_place(
    operation: Operation,
    object: &mut Value,
    old: Option<&Value>,
    view: &dyn View,
) -> Result<Vec<String>, Rejection> {
    let key = key_of(object).map_err(|problem| Rejection::new(problem.to_string()))?;
    let context = Context { operation, key: &key, old, view, warnings: RefCell::default() };
    let rules = rules_of(&key);
    let parts = || rules.into_iter().flat_map(|rules| [&rules.server, &rules.webhook]);
    if operation != Operation::Delete {
        metadata::set_namespace(object, &key);
    }
    for rule in parts().flat_map(|part| part.defaults(operation)) {
        rule(object, &context)?;
    }
    let notes = Notes::default();
    let root = Cursor::root(object, &notes);
    if operation != Operation::Delete {
        metadata::check(&root);
    }
    parts().flat_map(|part| part.checks(operation)).for_each(|check| check(&root, &context));
    refuse_if_noted(notes)?;
    // As on an API server, a quota is asked last: an object that is refused anyway does not count.
    resource_quota::check(object, &context)?;
    Ok(context.warnings.into_inner())
}

/// Fills in what our webhooks fill in. The object has passed an API server's own defaults.
pub fn mutate(request: Request<'_>, view: &dyn View) -> Result<Value, Rejection> {
    let Request { operation, mut object, old } = request;
    let key = key_of(&object).map_err(|problem| Rejection::new(problem.to_string()))?;
    let context = Context { operation, key: &key, old, view, warnings: RefCell::default() };
    for rule in rules_of(&key).map_or(&[][..], |rules| rules.webhook.defaults(operation)) {
        rule(&mut object, &context)?;
    }
    Ok(object)
}

/// Checks what our webhooks check; says what the object's owner should know though it is let in.
pub fn validate(request: Request<'_>, view: &dyn View) -> Result<Vec<String>, Rejection> {
    let Request { operation, object, old } = request;
    let key = key_of(&object).map_err(|problem| Rejection::new(problem.to_string()))?;
    let context = Context { operation, key: &key, old, view, warnings: RefCell::default() };
    let notes = Notes::default();
    let root = Cursor::root(&object, &notes);
    let checks = rules_of(&key).map_or(&[][..], |rules| rules.webhook.checks(operation));
    checks.iter().for_each(|check| check(&root, &context));
    refuse_if_noted(notes)?;
    Ok(context.warnings.into_inner())
}

fn refuse_if_noted(notes: Notes) -> Result<(), Rejection> {
    if notes.is_empty() {
        return Ok(());
    }
    let problems: Vec<Problem> = notes.into_vec().into_iter().map(Problem::from).collect();
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Err(Rejection { message: lines.join("; "), problems })
}

/// The map under `name` in `value`, made where there is none. `None` where something else stands there.
pub(crate) fn object_in<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut serde_json::Map<String, Value>> {
    let entry = value.as_object_mut()?.entry(name).or_insert(Value::Null);
    if entry.is_null() {
        *entry = Value::Object(serde_json::Map::new());
    }
    entry.as_object_mut()
}

/// Whether an API server has made the object already: what it was let in with then is not decided anew.
fn exists_elsewhere(object: &Value) -> bool {
    at(object, "/metadata/uid").and_then(Value::as_str).is_some_and(|uid| !uid.is_empty())
}

/// Whether a field is there and not `null`.
fn is_given(value: &Value, name: &str) -> bool {
    of(value, name).is_some_and(|field| !field.is_null())
}
