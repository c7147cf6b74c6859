//! Who somebody is, by their token, and what they may do: the API server's own answers.

use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use crate::call::{CallError, call_error};

/// Whoever a token belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    /// What an authenticator adds; authorizers may ask for it.
    pub extra: Value,
}

impl Person {
    /// As the API server writes whose token it is, or whose request.
    pub fn read(user: &Value) -> Self {
        let text = |field: &str| user[field].as_str().unwrap_or_default().to_string();
        let groups = user["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_string);
        Person { name: text("username"), uid: text("uid"), groups: groups.collect(), extra: user["extra"].clone() }
    }
}

/// What somebody may want to do with a resource. Empty: any name, all namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Act<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// Whose token it is; `None` where the API server does not know it.
pub async fn person(client: &Client, token: &str) -> Result<Option<Person>, CallError> {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
    });
    let answer = ask(client, "/apis/authentication.k8s.io/v1/tokenreviews", &review).await?;
    let status = &answer["status"];
    if status["authenticated"] != true {
        return Ok(None);
    }
    Ok(Some(Person::read(&status["user"])))
}

/// Whether a person may read a path that is no resource, such as `/metrics`.
pub async fn may_read(client: &Client, person: &Person, path: &str) -> Result<bool, CallError> {
    let what = json!({"nonResourceAttributes": {"path": path, "verb": "get"}});
    is_allowed(client, person, what).await
}

/// Whether a person may do it.
pub async fn may(client: &Client, person: &Person, act: Act<'_>) -> Result<bool, CallError> {
    let Act { verb, group, resource, namespace, name } = act;
    let attributes = json!({"verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name});
    is_allowed(client, person, json!({"resourceAttributes": attributes})).await
}

async fn is_allowed(client: &Client, person: &Person, mut spec: Value) -> Result<bool, CallError> {
    (spec["user"], spec["uid"], spec["groups"]) = (json!(person.name), json!(person.uid), json!(person.groups));
    if person.extra.is_object() {
        spec["extra"] = person.extra.clone();
    }
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
    let answer = ask(client, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await?;
    Ok(answer["status"]["allowed"] == true)
}

async fn ask(client: &Client, path: &str, review: &Value) -> Result<Value, CallError> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(review.to_string().into_bytes())
        .expect("the request has no part that comes from outside");
    client.request(request).await.map_err(call_error)
}
