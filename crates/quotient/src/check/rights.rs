//! Whether the program's account may do what the table of permissions says.

use anyhow::Result;
use futures::stream::{self, StreamExt, TryStreamExt};
use quotient_cluster::install::NAME;
use quotient_cluster::permission::{PERMISSIONS, Permission, Place};
use quotient_cluster::system::System;
use serde_json::{Value, json};

use super::asking::Answer;
use super::{Asking, Section};

/// How many questions are under way at once.
const AT_ONCE: usize = 16;

/// The most missing rights that are listed.
const LISTED_MAX: usize = 10;

/// Whose rights are asked about.
#[derive(Debug, Clone, Copy)]
enum Subject<'a> {
    /// The account in this namespace.
    Account(&'a str),
    /// The user who asks.
    Own,
}

pub async fn check(asking: &Asking, namespace: &str, systems: &[System]) -> Result<Section> {
    let mut section = Section::new("rights");
    let account = asking.get(&format!("/api/v1/namespaces/{namespace}/serviceaccounts/{NAME}")).await?;
    let subject = match account {
        Answer::Object(_) => Subject::Account(namespace),
        _ => Subject::Own,
    };
    let questions = PERMISSIONS
        .iter()
        .filter(|row| row.system.is_none_or(|system| systems.contains(&system)))
        .flat_map(|row| row.verbs.iter().map(move |verb| (row, *verb)));
    let answers: Vec<(String, Option<bool>)> = stream::iter(questions)
        .map(|(row, verb)| async move { ask(asking, subject, namespace, row, verb).await })
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    let whose = match subject {
        Subject::Account(namespace) => format!("the account {namespace}/{NAME}"),
        Subject::Own => format!("this user (there is no account {namespace}/{NAME})"),
    };
    if answers.iter().any(|(_, allowed)| allowed.is_none()) {
        section.warn(
            format!("whether {whose} has its rights cannot be asked"),
            "run `quotient check` as a user who may create subjectaccessreviews",
        );
        return Ok(section);
    }
    let missing: Vec<&String> =
        answers.iter().filter(|(_, allowed)| *allowed == Some(false)).map(|(what, _)| what).collect();
    if missing.is_empty() {
        section.ok(format!("{whose} has all {} rights", answers.len()));
    }
    for what in missing.iter().take(LISTED_MAX) {
        section.fail(format!("{whose} may not {what}"), "apply the roles that `quotient install` prints");
    }
    if missing.len() > LISTED_MAX {
        let more = missing.len() - LISTED_MAX;
        section.fail(format!("{whose} lacks {more} more rights"), "apply the roles that `quotient install` prints");
    }
    Ok(section)
}

/// Asks for one right: what it is, and whether it is there.
async fn ask(
    asking: &Asking,
    subject: Subject<'_>,
    namespace: &str,
    row: &Permission,
    verb: &str,
) -> Result<(String, Option<bool>)> {
    let (plural, part) = row.resource.split_once('/').unwrap_or((row.resource, ""));
    let mut attributes = json!({"verb": verb, "group": row.group, "resource": plural, "subresource": part});
    let mut what = format!("{verb} {}", row.resource);
    if !row.group.is_empty() {
        what = format!("{what}.{}", row.group);
    }
    if row.place == Place::Own {
        attributes["namespace"] = json!(namespace);
        what = format!("{what} in {namespace}");
    }
    if let [name, ..] = row.names {
        attributes["name"] = json!(name);
    }
    let (kind, plural, mut spec) = match subject {
        Subject::Own => ("SelfSubjectAccessReview", "selfsubjectaccessreviews", json!({})),
        Subject::Account(namespace) => (
            "SubjectAccessReview",
            "subjectaccessreviews",
            json!({
                "user": format!("system:serviceaccount:{namespace}:{NAME}"),
                "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated"],
            }),
        ),
    };
    spec["resourceAttributes"] = attributes;
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
    let answer = asking.post(&format!("/apis/authorization.k8s.io/v1/{plural}"), &review).await?;
    let allowed = match answer {
        Answer::Object(body) => body.pointer("/status/allowed").and_then(Value::as_bool),
        _ => None,
    };
    Ok((what, allowed))
}
