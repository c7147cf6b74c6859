//! One question of the API server, and the answer: what to change about an object, or whether it may come in.
//!
//! Pure: what is asked is a value, and so is the answer. The rules are those of [`quotient_api::admission`].

use k8s_openapi::ByteString;
use quotient_api::elastic::consent;
use quotient_api::{Operation, Rejection, Request, View, mutate, validate};
use serde_json::{Value, json};

use crate::review::Person;

/// The version of questions that is understood.
const API_VERSION: &str = "admission.k8s.io/v1";

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// Fill in what the object leaves out.
    Mutate,
    /// Say whether it may come in, or go.
    Validate,
}

impl Endpoint {
    /// The endpoint at that path.
    pub fn at(path: &str) -> Option<Self> {
        match path {
            "/mutate" => Some(Endpoint::Mutate),
            "/validate" => Some(Endpoint::Validate),
            _ => None,
        }
    }

    /// Where it is.
    pub fn path(self) -> &'static str {
        match self {
            Endpoint::Mutate => "/mutate",
            Endpoint::Validate => "/validate",
        }
    }
}

/// What came is no question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoReview {
    #[error("expected an AdmissionReview as JSON: {0}")]
    NoJson(String),
    #[error("apiVersion {0} and kind {1}: expected {API_VERSION} and AdmissionReview")]
    Other(String, String),
    #[error("{0}: missing: an AdmissionReview needs it")]
    Missing(&'static str),
}

/// A question that was read: what is left to do needs the objects.
#[derive(Debug)]
pub struct Question {
    endpoint: Endpoint,
    response: Value,
    user: Person,
    /// What is asked about; `None`: nothing that is ours to guard.
    asked: Option<(Operation, Value, Option<Value>)>,
}

/// Reads a question. It may be large, and takes no look at any object.
pub fn question(endpoint: Endpoint, body: &[u8]) -> Result<Question, NoReview> {
    let mut review: Value = serde_json::from_slice(body).map_err(|error| NoReview::NoJson(error.to_string()))?;
    if review["apiVersion"] != API_VERSION || review["kind"] != "AdmissionReview" {
        return Err(NoReview::Other(review["apiVersion"].to_string(), review["kind"].to_string()));
    }
    let request = &mut review["request"];
    let uid = request["uid"].as_str().ok_or(NoReview::Missing("request.uid"))?.to_string();
    let response = json!({"uid": uid, "allowed": true});
    let user = Person::read(&request["userInfo"]);
    let operation = match request["operation"].as_str().ok_or(NoReview::Missing("request.operation"))? {
        "CREATE" => Operation::Create,
        "UPDATE" => Operation::Update,
        "DELETE" => Operation::Delete,
        // Nothing else is ours to guard.
        _ => return Ok(Question { endpoint, response, user, asked: None }),
    };
    let (mut object, mut old) = (request["object"].take(), request["oldObject"].take());
    if operation == Operation::Delete {
        object = old.clone();
    }
    if !object.is_object() {
        return Err(NoReview::Missing("request.object"));
    }
    complete(&mut object, request);
    let old = old.is_object().then(|| {
        complete(&mut old, request);
        old
    });
    Ok(Question { endpoint, response, user, asked: Some((operation, object, old)) })
}

impl Question {
    /// What the API server is to be asked before this can be answered: whether the user has rights on the quotas of
    /// these namespaces of a group, and so agrees for them to a composite.
    pub fn consents(&self, view: &dyn View) -> Option<(&Person, String, Vec<String>)> {
        let (_, object, old) = self.asked.as_ref().filter(|_| self.endpoint == Endpoint::Mutate)?;
        let namespaces = consent::unagreed(object, old.as_ref(), view);
        let group = object["apiVersion"].as_str()?.split_once('/')?.0.to_string();
        (!namespaces.is_empty()).then_some((&self.user, group, namespaces))
    }
}

/// Answers a question. `granted` are the namespaces for which the user agrees to a composite.
pub fn answer(question: Question, granted: &[String], view: &dyn View) -> Value {
    let Question { endpoint, mut response, asked, .. } = question;
    let Some((operation, object, old)) = asked else { return reply(response) };
    let before = (endpoint == Endpoint::Mutate).then(|| object.clone());
    let asked = Request { operation, object, old: old.as_ref() };
    let outcome = match before {
        Some(before) => mutate(asked, view).map(|mut after| {
            if !granted.is_empty() {
                consent::record(&mut after, old.as_ref(), granted);
            }
            let patch = json_patch::diff(&before, &after);
            if !patch.0.is_empty() {
                response["patchType"] = json!("JSONPatch");
                response["patch"] = json!(ByteString(json!(patch).to_string().into_bytes()));
            }
        }),
        None => validate(asked, view).map(|warnings| {
            if !warnings.is_empty() {
                response["warnings"] = json!(warnings);
            }
        }),
    };
    if let Err(rejection) = outcome {
        refuse(&mut response, operation, &rejection);
    }
    reply(response)
}

fn reply(response: Value) -> Value {
    json!({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})
}

/// An object that is wrong cannot be processed; one that must not go is not ours to delete.
fn refuse(response: &mut Value, operation: Operation, rejection: &Rejection) {
    let (code, reason) = match operation {
        Operation::Delete => (403, "Forbidden"),
        Operation::Create | Operation::Update => (422, "Invalid"),
    };
    response["allowed"] = json!(false);
    response["status"] = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": rejection.message,
    });
}

/// Writes into an object what the API server knows of it and did not write yet: its kind, its namespace, and a name
/// where one will be made up. It is the same before and after, and so is no part of a patch.
fn complete(object: &mut Value, request: &Value) {
    let Some(fields) = object.as_object_mut() else { return };
    let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    if !fields.contains_key("kind") {
        fields.insert("kind".to_string(), json!(text("/kind/kind")));
    }
    if !fields.contains_key("apiVersion") {
        let version = text("/kind/version").unwrap_or_default();
        let version = text("/kind/group").map_or(version.to_string(), |group| format!("{group}/{version}"));
        fields.insert("apiVersion".to_string(), json!(version));
    }
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else { return };
    let is_open = |metadata: &serde_json::Map<String, Value>, field: &str| {
        metadata.get(field).is_none_or(|v| v.is_null() || v == "")
    };
    if is_open(metadata, "namespace")
        && let Some(namespace) = text("/namespace")
    {
        metadata.insert("namespace".to_string(), json!(namespace));
    }
    if is_open(metadata, "name") {
        let begins = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default();
        let name = text("/name").map_or_else(|| format!("{begins}00000"), str::to_string);
        metadata.insert("name".to_string(), json!(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quotient_api::ObjectKey;

    /// A tree on nodes of a pool, with one quota below its root.
    struct Tree(Vec<Value>);

    impl Tree {
        fn new() -> Self {
            let name = |key: &str| format!("quota.scheduling.koordinator.sh/{key}");
            let quota = |quota: &str, labels: Value| {
                json!({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
                    "metadata": {"name": quota, "namespace": "a", "labels": labels},
                    "spec": {"min": {"cpu": "4"}, "max": {"cpu": "8"}}})
            };
            Tree(vec![
                quota(
                    "root",
                    json!({name("is-root"): "true", name("is-parent"): "true", name("tree-id"): "t",
                    name("profile"): "p"}),
                ),
                quota("a", json!({name("parent"): "root", name("tree-id"): "t"})),
                json!({"apiVersion": "quota.koordinator.sh/v1alpha1", "kind": "ElasticQuotaProfile",
                    "metadata": {"name": "p", "namespace": "a"},
                    "spec": {"quotaName": "root", "nodeSelector": {"matchLabels": {"pool": "x"}}}}),
            ])
        }
    }

    impl View for Tree {
        fn get(&self, key: &ObjectKey) -> Option<&Value> {
            self.0.iter().find(|object| quotient_api::key_of(object).ok().as_ref() == Some(key))
        }

        fn list(&self, group: &str, kind: &str, namespace: Option<&str>) -> Vec<&Value> {
            let is_asked = |object: &&Value| {
                quotient_api::key_of(object).is_ok_and(|key| {
                    key.group == group
                        && key.kind == kind
                        && namespace.is_none_or(|n| key.namespace.as_deref() == Some(n))
                })
            };
            self.0.iter().filter(is_asked).collect()
        }
    }

    fn ask(endpoint: Endpoint, request: Value) -> Value {
        let review = json!({"apiVersion": API_VERSION, "kind": "AdmissionReview", "request": request});
        let question = question(endpoint, review.to_string().as_bytes()).expect("it is a question");
        let answer = answer(question, &[], &Tree::new());
        assert_eq!((&answer["apiVersion"], &answer["response"]["uid"]), (&json!(API_VERSION), &json!("u")));
        answer["response"].clone()
    }

    fn patched(response: &Value, mut object: Value) -> Value {
        assert_eq!(response["allowed"], true, "{response}");
        let Ok(ByteString(bytes)) = serde_json::from_value(response["patch"].clone()) else { return object };
        assert_eq!(response["patchType"], "JSONPatch");
        let patch: json_patch::Patch = serde_json::from_slice(&bytes).expect("it is a patch");
        json_patch::patch(&mut object, &patch).expect("it applies");
        object
    }

    /// A pod as a ReplicaSet makes it: without kind, name and namespace.
    fn pod() -> Value {
        json!({"metadata": {"generateName": "web-"}, "spec": {"containers": [{"name": "c"}]}})
    }

    fn pod_request(operation: &str, object: Value, old: Value) -> Value {
        json!({"uid": "u", "operation": operation, "namespace": "a", "name": "",
            "kind": {"group": "", "version": "v1", "kind": "Pod"}, "object": object, "oldObject": old, "dryRun": true})
    }

    #[test]
    fn a_pod_of_a_tree_is_held_to_its_nodes_and_nothing_else_changes() {
        let response = ask(Endpoint::Mutate, pod_request("CREATE", pod(), Value::Null));
        let term = json!({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["x"]}]});
        let mut expected = pod();
        expected["spec"]["affinity"]["nodeAffinity"] =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}});
        assert_eq!(patched(&response, pod()), expected);
        // A manifest that is applied again leaves the affinity out; it stays.
        let response = ask(Endpoint::Mutate, pod_request("UPDATE", pod(), expected.clone()));
        assert_eq!(patched(&response, pod()), expected);
        let response = ask(Endpoint::Mutate, pod_request("UPDATE", expected.clone(), expected.clone()));
        assert_eq!(response, json!({"uid": "u", "allowed": true}));
    }

    fn quota_request(operation: &str, object: Value, old: Value) -> Value {
        json!({"uid": "u", "operation": operation, "namespace": "a", "name": "b", "object": object, "oldObject": old,
            "kind": {"group": "scheduling.sigs.k8s.io", "version": "v1alpha1", "kind": "ElasticQuota"}})
    }

    fn quota(name: &str, min: &str) -> Value {
        json!({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": name, "namespace": "a", "labels": {"quota.scheduling.koordinator.sh/parent": "root"}},
            "spec": {"min": {"cpu": min}, "max": {"cpu": "8"}}})
    }

    #[test]
    fn what_is_wrong_is_refused_with_a_code_and_one_line() {
        let response = ask(Endpoint::Mutate, quota_request("CREATE", quota("b", "1"), Value::Null));
        let complete = patched(&response, quota("b", "1"));
        assert_eq!(complete["metadata"]["labels"]["quota.scheduling.koordinator.sh/tree-id"], "t");
        let response = ask(Endpoint::Validate, quota_request("CREATE", complete, Value::Null));
        assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(422)));
        let message = response["status"]["message"].as_str().expect("it says why");
        assert!(message.starts_with("spec.min.cpu: ") && !message.contains('\n'), "{message}");
        let root = Tree::new().0.remove(0);
        let response = ask(Endpoint::Validate, quota_request("DELETE", Value::Null, root.clone()));
        assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(403)), "{response}");
        let response = ask(Endpoint::Mutate, quota_request("DELETE", Value::Null, root));
        assert_eq!(response["allowed"], true);
    }

    #[test]
    fn what_the_owner_should_know_is_a_warning() {
        let mut pod = pod();
        pod["metadata"]["labels"] = json!({"quota.scheduling.koordinator.sh/name": "nobody"});
        let response = ask(Endpoint::Validate, pod_request("CREATE", pod, Value::Null));
        assert_eq!(response["allowed"], true);
        assert!(response["warnings"][0].as_str().is_some_and(|text| text.contains("nobody")), "{response}");
    }

    #[test]
    fn what_is_no_question_is_said_in_one_line() {
        let request = json!({"uid": "u", "operation": "CREATE", "object": null});
        let cases = [
            ("{", "expected an AdmissionReview as JSON: "),
            ("[]", "apiVersion null and kind null: "),
            (r#"{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}"#, "apiVersion \"admission"),
            (r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}"#, "request.uid: missing"),
            (
                r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u"}}"#,
                "request.operation: missing",
            ),
            (
                &json!({"apiVersion": API_VERSION, "kind": "AdmissionReview", "request": request}).to_string(),
                "request.object: missing",
            ),
        ];
        for (body, expected) in cases {
            let error = question(Endpoint::Validate, body.as_bytes()).expect_err(body).to_string();
            assert!(error.starts_with(expected) && !error.contains('\n'), "{body}: {error}");
        }
        // What cannot be named is refused, and what is none of our business is let in.
        let response = ask(Endpoint::Validate, quota_request("CREATE", json!({"metadata": 3}), Value::Null));
        assert_eq!(response["allowed"], false);
        let response = ask(Endpoint::Validate, quota_request("CONNECT", json!({}), Value::Null));
        assert_eq!(response["allowed"], true);
    }
}
