//! Profiles of quota trees: the root of each tree follows the nodes that its profile selects.

use std::collections::BTreeMap;

use quotient_api::tree::roots::{Plan, Wanted, plan};
use quotient_api::tree::{is_profile, is_tree};
use quotient_api::{ObjectKey, Problem, conditions, time};
use serde_json::{Value, json};

use super::Controllers;
use crate::field;
use crate::server::{Refusal, Server, is_over, is_pod};
use crate::store::Change;

/// Whether the roots may have to change with an object: nodes and profiles, the roots themselves, and whatever stands
/// in the way of a root that nobody asks for.
pub(super) fn is_concerned(
    change: &Change,
    object: Option<&Value>,
    problems: &BTreeMap<ObjectKey, Vec<Problem>>,
) -> bool {
    let key = change.key();
    let is_gone = matches!(change, Change::Gone(..));
    let some_root_is_kept = || problems.keys().any(is_tree);
    match (key.group, key.kind) {
        ("", "Node") => true,
        _ if is_profile(key) => true,
        _ if is_tree(key) => {
            let is_root = object.is_some_and(|quota| quota.pointer(ROOT_LABEL).is_some());
            is_root || is_gone || some_root_is_kept()
        }
        _ if is_pod(key) => (is_gone || object.is_some_and(is_over)) && some_root_is_kept(),
        _ => false,
    }
}

/// The label that marks the root of a tree.
const ROOT_LABEL: &str = "/metadata/labels/quota.scheduling.koordinator.sh~1is-root";

/// Writes the roots that are not as they should be, deletes those that nobody asks for, and says what is wrong.
pub(super) fn reconcile(controllers: &mut Controllers, server: &mut Server) {
    let Plan { profiles, obsolete, kept } = plan(server.store());
    let mut problems: BTreeMap<ObjectKey, Vec<Problem>> = kept.into_iter().map(|(key, p)| (key, vec![p])).collect();
    for wanted in profiles {
        let refused = wanted.write.clone().and_then(|root| match server.apply_for_controller(root) {
            Ok(_) => None,
            Err(Refusal::Rejected(rejected)) => Some(format!("{} was refused: {}", rejected.object, rejected.message)),
            Err(other) => Some(other.to_string()),
        });
        write_status(server, &wanted, refused.as_deref());
        let Wanted { profile, problems: mut found, .. } = wanted;
        found.extend(refused.map(|message| Problem::new(message).of_object(&profile)));
        problems.insert(profile, found);
    }
    for root in obsolete {
        server.remove(&root);
    }
    let known: Vec<ObjectKey> =
        controllers.problems.keys().filter(|key| is_profile(key) || is_tree(key)).cloned().collect();
    for key in known {
        problems.entry(key).or_default();
    }
    for (key, found) in problems {
        controllers.note_problems(&key, found);
    }
}

fn write_status(server: &mut Server, wanted: &Wanted, refused: Option<&str>) {
    let now = time::format_timestamp(server.clock.now_us());
    server.amend(&wanted.profile, |profile| {
        field::put(profile, &["status", "treeId"], json!(wanted.tree));
        field::put(profile, &["status", "nodes"], json!(wanted.nodes));
        conditions::set(profile, &[wanted.condition(refused)], &now);
    });
}
