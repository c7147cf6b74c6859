//! What we do with the API server, all of it, and whether we may.
//!
//! There is one table, from which `quotient install` prints roles, and by which it is asked at the start whether we may
//! do what nothing works without: so it is said in one line, and not by a pod that is never bound. A test compares the
//! table with the log of all requests of a whole run.

use std::sync::LazyLock;

use http::{Method, Request};
use kube::Client;
use quotient_api::{elastic, is_quota, told_kinds, tree, volcano};
use serde_json::{Value, json};

use crate::call::{CallError, call_error};
use crate::patience::Patience;
use crate::system::System;
use crate::webhook::configuration;

/// Where something may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Everywhere,
    /// In the namespace that we run in.
    Own,
}

/// What is done with a resource, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permission {
    pub group: &'static str,
    /// The resource's plural, with a part of it (`pods/binding`) or without.
    pub resource: &'static str,
    pub verbs: &'static [&'static str],
    /// The objects' names, where they are known.
    pub names: &'static [&'static str],
    pub place: Place,
    /// The system that it is for; `None`: it is needed always.
    pub system: Option<System>,
    /// Nothing works without it.
    pub is_vital: bool,
    pub why: &'static str,
}

/// The Secret that has the authority of the webhooks' certificates.
pub const AUTHORITY_SECRET: &str = "quotient-webhook-authority";

/// The Lease of the one who writes.
pub const LEASE: &str = "quotient";

const READ: &[&str] = &["list", "watch"];

const fn row(
    group: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
    why: &'static str,
) -> Permission {
    Permission { group, resource, verbs, names: &[], place: Place::Everywhere, system: None, is_vital: false, why }
}

const fn vital(row: Permission) -> Permission {
    Permission { is_vital: true, ..row }
}

const fn own(names: &'static [&'static str], row: Permission) -> Permission {
    Permission { place: Place::Own, names, ..row }
}

const fn named(names: &'static [&'static str], row: Permission) -> Permission {
    Permission { names, ..row }
}

const fn of(system: System, row: Permission) -> Permission {
    Permission { system: Some(system), ..row }
}

const REGISTRATION: &str = "admissionregistration.k8s.io";

/// Everything that we do: the rows below, and the reading of quotas that they do not name.
pub static PERMISSIONS: LazyLock<Vec<Permission>> = LazyLock::new(|| {
    let mut all = ROWS.to_vec();
    for kind in told_kinds().filter(|kind| is_quota(kind.group, kind.kind)) {
        if !ROWS.iter().any(|row| (row.group, row.resource) == (kind.group, kind.plural)) {
            all.push(Permission { system: System::of(kind), ..row(kind.group, kind.plural, READ, "quotas") });
        }
    }
    all
});

static ROWS: &[Permission] = &[
    vital(row("", "pods", READ, "who waits, and who holds what")),
    vital(row("", "nodes", READ, "what there is to hold")),
    vital(row("", "namespaces", READ, "queues and quotas of namespaces, and selectors of pod affinity")),
    row("", "services", READ, "pods of one Service are spread"),
    row("", "persistentvolumes", READ, "where volumes can be used"),
    row("", "persistentvolumeclaims", READ, "which volumes pods want"),
    row("", "replicationcontrollers", READ, "pods of one controller are spread"),
    row("apps", "deployments", READ, "whether what made a pod says how many must start together"),
    row("batch", "jobs", READ, "whether what made a pod says how many must start together"),
    row("apps", "replicasets", READ, "pods of one controller are spread"),
    row("apps", "statefulsets", READ, "pods of one controller are spread"),
    row("policy", "poddisruptionbudgets", READ, "who should be left alone"),
    row("scheduling.k8s.io", "priorityclasses", READ, "how important groups of pods are"),
    row("scheduling.k8s.io", "podgroups", READ, "who starts together, as Kubernetes itself has it"),
    row("scheduling.k8s.io", "podgroups/status", &["patch"], "says whether a group was scheduled"),
    row("storage.k8s.io", "storageclasses", READ, "how volumes come about"),
    row("storage.k8s.io", "csinodes", READ, "how many volumes a node takes"),
    row("resource.k8s.io", "resourceslices", READ, "which devices there are"),
    row("resource.k8s.io", "deviceclasses", READ, "which devices a class stands for"),
    row("resource.k8s.io", "resourceclaims", READ, "which devices pods ask for, and have"),
    row("resource.k8s.io", "resourceclaimtemplates", READ, "which devices pods will ask for"),
    row("resource.k8s.io", "devicetaintrules", READ, "which devices are to be left alone"),
    vital(row("", "pods/binding", &["create"], "binds a pod to a node")),
    vital(row("", "pods/status", &["patch"], "says why a pod waits, which node is kept for it, and why it goes")),
    vital(row("", "pods", &["delete"], "makes room for a claimant")),
    row("", "pods/eviction", &["create"], "evicts for over-use, which a disruption budget may refuse"),
    row("", "pods", &["get"], "sees whether a bind that was not answered happened"),
    row("", "pods", &["patch"], "labels pods with their standing in their quota"),
    row("", "persistentvolumes", &["get", "patch"], "binds a volume to a claim"),
    row("", "persistentvolumeclaims", &["get", "patch"], "says on which node a volume is to be made"),
    row("resource.k8s.io", "resourceclaims", &["get", "patch"], "protects claims that get devices"),
    row("resource.k8s.io", "resourceclaims/status", &["patch"], "gives devices to claims, and reserves them for pods"),
    row(
        "resource.k8s.io",
        "resourceclaims/binding",
        &["patch", "update"],
        "the API server asks for this right as well",
    ),
    row("resource.k8s.io", "resourceclaims", &["create", "delete"], "claims for extended resources"),
    row("", "events", &["create", "patch"], "tells people; an event that comes again is counted"),
    of(System::Tree, row("", "namespaces", &["patch"], "marks namespaces whose pods the webhooks are asked about")),
    own(&[], row("coordination.k8s.io", "leases", &["create"], "takes the lease; one that is made has no name yet")),
    own(&[LEASE], row("coordination.k8s.io", "leases", &["get", "update"], "keeps the lease")),
    own(&[], row("", "secrets", &["create"], "keeps the webhooks' authority; one that is made has no name yet")),
    own(&[AUTHORITY_SECRET], row("", "secrets", &["get", "update"], "keeps the webhooks' authority")),
    row("authentication.k8s.io", "tokenreviews", &["create"], "the dashboard asks who signs in"),
    row(
        "authorization.k8s.io",
        "subjectaccessreviews",
        &["create"],
        "asks what a viewer of the dashboard may see, and whether the maker of a composite quota agrees for a namespace",
    ),
    named(
        &[configuration::NAME],
        row(REGISTRATION, "mutatingwebhookconfigurations", &["get", "patch"], "says which certificates to trust"),
    ),
    named(
        &[configuration::NAME],
        row(REGISTRATION, "validatingwebhookconfigurations", &["get", "patch"], "says which certificates to trust"),
    ),
    of(System::Elastic, row(elastic::GROUPS[0], "elasticquotas", READ, "quotas")),
    of(System::Elastic, row(elastic::GROUPS[0], "elasticquotas/status", &["patch"], "says what is used")),
    of(System::Elastic, row(elastic::GROUPS[0], "podgroups", READ, "who starts together")),
    of(System::Elastic, row(elastic::GROUPS[0], "podgroups/status", &["patch"], "says how groups stand")),
    of(System::Elastic, row(elastic::GROUPS[1], "elasticquotas", READ, "quotas")),
    of(System::Elastic, row(elastic::GROUPS[1], "elasticquotas/status", &["patch"], "says what is used")),
    of(System::Elastic, row(elastic::GROUPS[1], "elasticquotas", &["delete"], "a composite quota takes its place")),
    of(System::Elastic, row(elastic::GROUPS[1], "compositeelasticquotas", READ, "quotas")),
    of(System::Elastic, row(elastic::GROUPS[1], "compositeelasticquotas/status", &["patch"], "says what is used")),
    of(System::Elastic, row(elastic::GROUPS[2], "elasticquotas", READ, "quotas")),
    of(System::Elastic, row(elastic::GROUPS[2], "elasticquotas/status", &["patch"], "says what is used")),
    of(System::Elastic, row(elastic::GROUPS[2], "elasticquotas", &["delete"], "a composite quota takes its place")),
    of(System::Elastic, row(elastic::GROUPS[2], "compositeelasticquotas", READ, "quotas")),
    of(System::Elastic, row(elastic::GROUPS[2], "compositeelasticquotas/status", &["patch"], "says what is used")),
    of(System::Tree, row(tree::GROUP, "elasticquotas", READ, "quotas")),
    of(System::Tree, row(tree::GROUP, "elasticquotas/status", &["patch"], "says what is used")),
    of(
        System::Tree,
        row(tree::GROUP, "elasticquotas", &["patch"], "says how a quota stands; roots follow their nodes"),
    ),
    of(System::Tree, row(tree::GROUP, "elasticquotas", &["create", "delete"], "the roots that profiles ask for")),
    of(System::Tree, row(tree::GROUP, "podgroups", READ, "who starts together")),
    of(System::Tree, row(tree::GROUP, "podgroups/status", &["patch"], "says how groups stand")),
    of(System::Tree, row(tree::PROFILE_GROUP, "elasticquotaprofiles", READ, "which trees there are")),
    of(System::Tree, row(tree::PROFILE_GROUP, "elasticquotaprofiles/status", &["patch"], "says how its tree stands")),
    of(System::Queues, row(volcano::BATCH, "jobs", READ, "jobs of several tasks")),
    of(System::Jobs, row(volcano::BATCH, "jobs/status", &["patch"], "says how far a job is")),
    of(System::Jobs, row(volcano::BATCH, "jobs", &["delete"], "deletes jobs that are done for as long as they say")),
    of(System::Jobs, row("", "pods", &["create"], "makes the pods of jobs")),
    of(System::Jobs, row("", "services", &["create"], "lets the pods of a job find each other")),
    of(System::Jobs, row("", "configmaps", &["create", "get", "patch"], "lets the pods of a job find each other")),
    of(System::Jobs, row("", "secrets", &["create"], "lets the pods of a job sign in to each other")),
    of(System::Jobs, row("", "persistentvolumeclaims", &["create"], "makes the volumes of jobs")),
    of(System::Queues, row(volcano::command::BUS, "commands", READ, "what is to be done about jobs and queues")),
    of(System::Queues, row(volcano::command::BUS, "commands", &["delete"], "deletes commands that were carried out")),
    of(System::Queues, row(volcano::SCHEDULING, "queues", READ, "queues")),
    of(System::Queues, row(volcano::SCHEDULING, "queues", &["create"], "makes the queues that exist always")),
    of(System::Queues, row(volcano::SCHEDULING, "queues/status", &["patch"], "says what is allocated")),
    of(System::Queues, row(volcano::SCHEDULING, "podgroups", READ, "who starts together")),
    of(System::Queues, row(volcano::SCHEDULING, "podgroups/status", &["patch"], "lets groups in; says how they stand")),
    of(System::Queues, row(volcano::SCHEDULING, "podgroups", &["patch"], "the same where the status is no part")),
    of(System::Queues, row(volcano::SCHEDULING, "podgroups", &["create", "delete"], "the groups of jobs and gangs")),
];

/// The first thing that nothing works without and that we may not do, as a sentence.
pub async fn first_missing(client: &Client, patience: Patience) -> Result<Option<String>, CallError> {
    for permission in PERMISSIONS.iter().filter(|permission| permission.is_vital) {
        if let Some(verb) = missing(client, permission, patience).await? {
            return Ok(Some(format!("the user may not {verb} {}, which is needed", permission.resource)));
        }
    }
    Ok(None)
}

/// Whether we may do everything that a system alone needs.
pub async fn may_serve(client: &Client, system: System, patience: Patience) -> Result<bool, CallError> {
    for permission in PERMISSIONS.iter().filter(|permission| permission.system == Some(system)) {
        if missing(client, permission, patience).await?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The first verb of a permission that we do not have.
async fn missing(
    client: &Client,
    permission: &Permission,
    patience: Patience,
) -> Result<Option<&'static str>, CallError> {
    let Permission { group, resource, verbs, .. } = permission;
    let (plural, part) = resource.split_once('/').unwrap_or((resource, ""));
    for verb in *verbs {
        let attributes = json!({"verb": verb, "group": group, "resource": plural, "subresource": part});
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        });
        let ask = async || {
            let request = Request::builder()
                .method(Method::POST)
                .uri("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(review.to_string().into_bytes())
                .expect("the request has no part that comes from outside");
            client.request::<Value>(request).await.map_err(call_error)
        };
        let answer = patience.bear(ask).await?;
        if answer["status"]["allowed"] != true {
            return Ok(Some(verb));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quotient_host::objects::watched_kinds;

    #[test]
    fn every_kind_that_is_watched_may_be_read_where_its_system_is_installed() {
        for kind in watched_kinds() {
            let is_for = |permission: &&Permission| {
                permission.verbs == READ && (permission.group, permission.resource) == (kind.group, kind.plural)
            };
            let systems: Vec<Option<System>> = PERMISSIONS.iter().filter(is_for).map(|found| found.system).collect();
            assert_eq!(systems, [System::of(kind)], "{}/{}", kind.group, kind.plural);
        }
        assert_eq!(PERMISSIONS.iter().filter(|row| row.verbs == READ).count(), watched_kinds().count());
    }
}
