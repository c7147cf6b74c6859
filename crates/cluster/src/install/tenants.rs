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

/// The policies with their bindings. `scheduler_names` are ours, `namespace` is where we are installed.
pub fn objects(namespace: &str, scheduler_names: &[String], systems: &[System]) -> Vec<Value> {
    let of_tenants = json!({"matchLabels": {TENANT: "true"}});
    let mut all = policy("quotient-tenants", tenants(scheduler_names), of_tenants.clone());
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
    let old = "oldObject.spec.containers.filter(o, o.name == c.name)[0].?resources.?requests[?r].orValue('0')";
    let shrinks = format!(
        "object.spec.containers.all(c, c.?resources.?requests.orValue({{}}).all(r, \
         quantity(c.resources.requests[r]).compareTo(quantity({old})) <= 0))"
    );
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
                "a running pod keeps its quota, queue, group, card and whether it may be evicted; make a new pod instead",
            ),
            validation(
                format!("request.?subResource.orValue('') != 'resize' || {shrinks}"),
                "requests of a running pod may only shrink here; make a new pod, which its quota admits",
            ),
        ],
    })
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
