//! Policies of the API server that close ways round a quota which a scheduler cannot close: what pods of tenants may
//! say when they are made, what may change once they run, and what our own account may change.
//!
//! They hold in namespaces with the label [`TENANT`], which tenants with ordinary rights cannot take off. The API
//! server evaluates them itself: they hold while the program is down.

use quotient_api::elastic::GROUPS;
use quotient_api::elastic::consent::{AGREED, VERBS};
use quotient_api::ties;
use quotient_api::tree::keys;
use quotient_api::volcano::{BATCH, SCHEDULING};
use quotient_host::controllers::MARK;
use serde_json::{Value, json};

use super::{NAME, metadata};
use crate::system::System;

const REGISTRATION: &str = "admissionregistration.k8s.io/v1";

/// The label of namespaces whose pods are held to the policy.
pub const TENANT: &str = "quotient.dev/tenant";

/// Finalizers that Kubernetes itself sets on pods, and takes off.
const FINALIZERS: &str = "['batch.kubernetes.io/job-tracking', 'foregroundDeletion', 'orphan']";

/// Labels of pods that other schedulers read as ties to a quota or queue, beside those that we read.
const MORE_LABELS: [&str; 2] = [keys::TREE_ID, "volcano.sh/queue-name"];

/// Annotations of this kind, and our record of what the pod was bound as.
const MORE_ANNOTATIONS: [&str; 2] = ["volcano.sh/queue-name", ties::BOUND_AS];

/// Why a class is refused.
const OWN_CLASSES: &str = "spec.priorityClassName: classes that begin with system- are for the cluster itself";

/// Why a record is refused.
const RECORD: &str = "metadata.annotations: quotient.dev/bound-as is for the scheduler to write; leave it out";

/// Why a running pod is not tied to something else.
const KEPT: &str =
    "a running pod keeps its quota, queue, group, card and whether it may be evicted; make a new pod instead";

/// The policies with their bindings. `scheduler_names` are ours, `namespace` is where we are installed.
pub fn objects(namespace: &str, scheduler_names: &[String], systems: &[System]) -> Vec<Value> {
    let of_tenants = json!({"matchLabels": {TENANT: "true"}});
    let mut all = policy("quotient-tenants", tenants(scheduler_names), of_tenants.clone());
    all.extend(policy("quotient-tenant-subresources", subresources(), of_tenants.clone()));
    all.extend(policy("quotient-tenant-templates", templates(), of_tenants.clone()));
    if systems.contains(&System::Elastic) {
        all.extend(policy("quotient-composite-quotas", composites(), json!({})));
    }
    if systems.contains(&System::Queues) {
        all.extend(policy("quotient-tenant-queues", queues(), of_tenants));
    }
    if systems.contains(&System::Tree) {
        all.extend(policy("quotient-own-account", own_account(namespace), json!({})));
    }
    all
}

fn policy(name: &str, spec: Value, namespaces: Value) -> Vec<Value> {
    vec![
        json!({"apiVersion": REGISTRATION, "kind": "ValidatingAdmissionPolicy", "metadata": metadata(name, None),
            "spec": spec}),
        json!({"apiVersion": REGISTRATION, "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata(name, None), "spec": {"policyName": name, "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": namespaces}}}),
    ]
}

/// Whom the policies for tenants leave alone.
fn conditions() -> Value {
    json!([{"name": "not-an-administrator-or-node", "expression":
        "!request.userInfo.groups.exists(g, g in ['system:masters', 'system:nodes'])"}])
}

/// A group or a job that was admitted keeps its queue: its pods are charged there. Its class is the priority of its
/// pods, so that what holds for theirs holds for it.
fn queues() -> Value {
    let rule = |group: &str, version: &str, resource: &str| {
        json!({"apiGroups": [group], "apiVersions": [version], "operations": ["CREATE", "UPDATE"],
            "resources": [resource], "scope": "Namespaced"})
    };
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [
            rule(SCHEDULING, "v1beta1", "podgroups"), rule(BATCH, "v1alpha1", "jobs"),
        ]},
        "matchConditions": conditions(),
        "validations": [
            validation(
                "request.operation != 'UPDATE' || object.?spec.?queue == oldObject.?spec.?queue || \
                 oldObject.?status.?phase.orValue('') in ['', 'Pending'] && \
                 oldObject.?status.?state.?phase.orValue('') in ['', 'Pending']"
                    .to_string(),
                "spec.queue: a group or job that was admitted keeps its queue; make a new one instead",
            ),
            validation(
                "!object.?spec.?priorityClassName.orValue('').startsWith('system-')".to_string(),
                OWN_CLASSES,
            ),
        ],
    })
}

/// Who writes that a namespace agreed to a composite quota has rights on the quotas there, as the webhook asks too.
fn composites() -> Value {
    let of = |object: &str| format!("{object}.metadata.?annotations[?'{AGREED}'].orValue('').split(',')");
    let before = format!("(request.operation == 'UPDATE' ? {} : [])", of("oldObject"));
    let check = |verb: &str| {
        format!(
            "authorizer.group(request.resource.group).resource('elasticquotas').namespace(n.trim()).check('{verb}')\
             .allowed()"
        )
    };
    let checks = VERBS.map(check).join(" && ");
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{"apiGroups": &GROUPS[1..], "apiVersions": ["v1alpha1"],
            "operations": ["CREATE", "UPDATE"], "resources": ["compositeelasticquotas"], "scope": "Namespaced"}]},
        "matchConditions": conditions(),
        "validations": [validation(
            format!("{}.all(n, n.trim() == '' || n in {before} || ({checks}))", of("object")),
            &format!("{AGREED}: expected namespaces whose ElasticQuotas the user may create and delete"),
        )],
    })
}

fn rule(operations: &[&str], resources: &[&str], scope: &str) -> Value {
    json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": resources, "scope": scope})
}

fn validation(expression: String, message: &str) -> Value {
    json!({"expression": expression, "message": message, "reason": "Forbidden"})
}

/// What pods of tenants may say. Controllers make pods from templates that tenants write, so they are not exempt; only
/// administrators are, and nodes, which show their static pods.
fn tenants(scheduler_names: &[String]) -> Value {
    let names: Vec<String> = scheduler_names.iter().map(|name| format!("{name:?}")).collect();
    let created = "request.operation != 'CREATE'";
    let shown = scheduler_names.join(" or ");
    let unchanged =
        |map: &str, key: &&str| format!("object.metadata.?{map}[?'{key}'] == oldObject.metadata.?{map}[?'{key}']");
    let labels = ties::LABELS.iter().chain(&MORE_LABELS).map(|key| unchanged("labels", key));
    let annotations = ties::ANNOTATIONS.iter().chain(&MORE_ANNOTATIONS).map(|key| unchanged("annotations", key));
    let fixed = labels.chain(annotations).collect::<Vec<String>>().join(" && ");
    // Sidecars are among the init containers; and a pod may ask for what its containers share.
    let shrinks = [
        shrinks("containers"),
        shrinks("initContainers"),
        "object.spec.?resources.?requests.orValue({}).all(r, quantity(object.spec.resources.requests[r]).compareTo(\
         quantity(oldObject.spec.?resources.?requests[?r].orValue('0'))) <= 0)"
            .to_string(),
    ];
    let record = |of: &str| format!("{of}.metadata.?annotations[?'{}']", ties::BOUND_AS);
    let (record, recorded) = (record("object"), record("oldObject"));
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [
            rule(&["CREATE", "UPDATE"], &["pods"], "Namespaced"),
            rule(&["UPDATE"], &["pods/resize"], "Namespaced"),
        ]},
        "matchConditions": conditions(),
        "validations": [
            validation(
                format!(
                    "object.metadata.?finalizers.orValue([]).all(f, f in {FINALIZERS} || \
                     request.operation == 'UPDATE' && f in oldObject.metadata.?finalizers.orValue([]))"
                ),
                "metadata.finalizers: a pod that is evicted must be able to go; leave them out",
            ),
            validation(
                format!("{created} || !object.spec.?priorityClassName.orValue('').startsWith('system-')"),
                OWN_CLASSES,
            ),
            validation(
                format!("{created} || object.spec.?nodeName.orValue('') == ''"),
                "spec.nodeName: pods of this namespace are placed by the scheduler, under quotas; leave it out",
            ),
            validation(
                format!("{created} || object.spec.schedulerName in [{}]", names.join(", ")),
                &format!("spec.schedulerName: pods of this namespace are scheduled under quotas; expected {shown}"),
            ),
            validation(
                format!(
                    "request.operation != 'UPDATE' || request.?subResource.orValue('') != '' || \
                     oldObject.spec.?nodeName.orValue('') == '' || ({fixed})"
                ),
                KEPT,
            ),
            validation(
                format!(
                    "request.?subResource.orValue('') != '' || !{record}.hasValue() || request.operation == 'UPDATE' && \
                     (oldObject.spec.?nodeName.orValue('') != '' || {record} == {recorded})"
                ),
                RECORD,
            ),
            validation(
                format!("request.?subResource.orValue('') != 'resize' || {}", shrinks.join(" && ")),
                "requests of a running pod may only shrink here; make a new pod, which its quota admits",
            ),
        ],
    })
}

/// Whether the containers of a list ask for no more than they did.
fn shrinks(list: &str) -> String {
    let old = format!(
        "oldObject.spec.?{list}.orValue([]).filter(o, o.name == c.name)[0].?resources.?requests[?r].orValue('0')"
    );
    format!(
        "object.spec.?{list}.orValue([]).all(c, c.?resources.?requests.orValue({{}}).all(r, \
         quantity(c.resources.requests[r]).compareTo(quantity({old})) <= 0))"
    )
}

/// Whether the user may do something with a part of every pod of the cluster, as schedulers, controllers and
/// administrators may: what a tenant was given in its own namespace is not that.
fn may_everywhere(part: &str, verb: &str) -> String {
    format!("authorizer.group('').resource('pods').subresource('{part}').check('{verb}').allowed()")
}

/// What is said of a pod by parts of it is for nodes, schedulers and controllers to say: its phase and what it has
/// decide what it is charged, and where it is decides by whom.
fn subresources() -> Value {
    let is_status = "request.?subResource.orValue('') == 'status'";
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [
            rule(&["UPDATE"], &["pods/status"], "Namespaced"),
            rule(&["CREATE"], &["pods/binding", "bindings"], "Namespaced"),
        ]},
        "matchConditions": conditions(),
        "validations": [
            validation(
                format!(
                    "!({is_status}) || {} || {}", may_everywhere("status", "patch"), may_everywhere("status", "update")
                ),
                "status: the status of a pod of this namespace is for nodes and controllers to write",
            ),
            validation(
                format!("{is_status} || {}", may_everywhere("binding", "create")),
                "pods of this namespace are placed by the scheduler, under quotas",
            ),
        ],
    })
}

/// Templates of pods leave out what a pod was bound as: it is said where it can be mended, and not of each pod.
fn templates() -> Value {
    let rule = |group: &str, version: &str, resources: &[&str]| {
        json!({"apiGroups": [group], "apiVersions": [version], "operations": ["CREATE", "UPDATE"],
            "resources": resources, "scope": "Namespaced"})
    };
    let has =
        |of: &str, template: &str| format!("{of}.?{template}.?metadata.?annotations[?'{}'].hasValue()", ties::BOUND_AS);
    let has_any = |of: &str| {
        let paths = ["spec.?template", "spec.?jobTemplate.?spec.?template", "template"];
        let one = paths.map(|path| has(of, path)).join(" || ");
        format!("{one} || {of}.?spec.?tasks.orValue([]).exists(t, {})", has("t", "template"))
    };
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [
            rule("", "v1", &["replicationcontrollers", "podtemplates"]),
            rule("apps", "v1", &["deployments", "replicasets", "statefulsets", "daemonsets"]),
            rule("batch", "v1", &["jobs", "cronjobs"]),
            rule(BATCH, "v1alpha1", &["jobs"]),
        ]},
        "matchConditions": conditions(),
        "validations": [validation(
            format!("!({}) || request.operation == 'UPDATE' && ({})", has_any("object"), has_any("oldObject")),
            RECORD,
        )],
    })
}

/// What a pod was bound as is written by a Binding, in every namespace and at any time: also while no scheduler runs,
/// which would notice. A pod without a record was bound without ties, and is given none while it runs.
pub fn records() -> Vec<Value> {
    let record = |of: &str| format!("{of}.metadata.?annotations[?'{}']", ties::BOUND_AS);
    let (new, old) = (record("object"), record("oldObject"));
    let changed =
        |map: &str, key: &&str| format!("object.metadata.?{map}[?'{key}'] != oldObject.metadata.?{map}[?'{key}']");
    let labels = ties::LABELS.iter().map(|key| changed("labels", key));
    let changed = labels.chain(ties::ANNOTATIONS.iter().map(|key| changed("annotations", key)));
    let changed = changed.collect::<Vec<String>>().join(" || ");
    let was_on_node = "oldObject.?spec.?nodeName.orValue('') != ''";
    let concerns = format!(
        "request.operation == 'CREATE' ? {new}.hasValue() && (request.resource.resource == 'bindings' || \
         request.?subResource.orValue('') == 'binding' || object.?spec.?nodeName.orValue('') != '') : \
         {new} != {old} && ({was_on_node} || {new}.hasValue()) || \
         {was_on_node} && !{old}.hasValue() && ({changed})"
    );
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [
            rule(&["CREATE", "UPDATE"], &["pods"], "Namespaced"),
            rule(&["CREATE"], &["pods/binding", "bindings"], "Namespaced"),
        ]},
        "matchConditions": [
            {"name": "not-a-node", "expression": "!('system:nodes' in request.userInfo.groups)"},
            {"name": "says-what-a-pod-was-bound-as", "expression": concerns},
        ],
        "validations": [validation(may_everywhere("binding", "create"), KEPT)],
    });
    policy("quotient-records", spec, json!({}))
}

/// Of namespaces, our own account changes one label and nothing else: it could change pod security otherwise.
fn own_account(namespace: &str) -> Value {
    let account = format!("system:serviceaccount:{namespace}:{NAME}");
    let same = |from: &str, to: &str| {
        format!(
            "{from}.metadata.?labels.orValue({{}}).all(k, k == '{MARK}' || \
             {to}.metadata.?labels[?k] == {from}.metadata.?labels[?k])"
        )
    };
    let labels = format!("{} && {}", same("object", "oldObject"), same("oldObject", "object"));
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule(&["UPDATE"], &["namespaces"], "Cluster")]},
        "matchConditions": [{"name": "own-account", "expression": format!("request.userInfo.username == '{account}'")}],
        "validations": [validation(
            format!(
                "object.?spec == oldObject.?spec && object.metadata.?annotations == oldObject.metadata.?annotations && \
                 {labels}"
            ),
            &format!("the scheduler's account changes the label {MARK} of a namespace and nothing else"),
        )],
    })
}
