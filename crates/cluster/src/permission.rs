//! Whether we may do what we have to: asked once, at the start, so that it is said in one line and not by a pod that
//! is never bound.

use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use crate::call::CallError;

/// What nothing works without: verb, group, resource, part.
const NEEDED: &[(&str, &str, &str, &str)] = &[
    ("list", "", "pods", ""),
    ("watch", "", "pods", ""),
    ("list", "", "nodes", ""),
    ("watch", "", "nodes", ""),
    ("list", "", "namespaces", ""),
    ("create", "", "pods", "binding"),
    ("patch", "", "pods", "status"),
    ("delete", "", "pods", ""),
];

/// The first thing that we need and may not do, as a sentence.
pub async fn first_missing(client: &Client) -> Result<Option<String>, CallError> {
    for (verb, group, resource, part) in NEEDED {
        let attributes = json!({"verb": verb, "group": group, "resource": resource, "subresource": part});
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        });
        let request = Request::builder()
            .method(Method::POST)
            .uri("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(review.to_string().into_bytes())
            .expect("the request has no part that comes from outside");
        let answer: Value = client.request(request).await?;
        if answer["status"]["allowed"] != true {
            let slash = if part.is_empty() { "" } else { "/" };
            return Ok(Some(format!("the user may not {verb} {resource}{slash}{part}, which is needed")));
        }
    }
    Ok(None)
}
