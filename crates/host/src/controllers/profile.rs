//! Profiles of quota trees: the root of each tree follows the nodes that its profile selects.

use std::collections::BTreeSet;

use quotient_api::tree::roots::{Plan, plan};
use quotient_api::tree::{is_profile, is_tree};
use quotient_api::{ObjectKey, Operation, Problem, Request, View, admit, conditions, key_of};
use serde_json::{Map, Value, json};

use super::{Moment, Wanted, uid_of};
use crate::asked::Asked;
use crate::objects::Objects;
use crate::write::{Amendment, Slot, Write};

/// The roots that were asked for, and whether anything changed that they follow.
#[derive(Debug, Clone)]
pub struct Profiles {
    asked: Asked,
    is_due: bool,
    /// A root that nobody asks for is kept because of a pod, or one was refused: time may help.
    looks_again: bool,
    /// Objects of which something wrong was said.
    told: BTreeSet<ObjectKey>,
}

impl Default for Profiles {
    fn default() -> Self {
        Profiles { asked: Asked::default(), is_due: true, looks_again: false, told: BTreeSet::new() }
    }
}

impl Profiles {
    pub fn asked(&mut self) -> &mut Asked {
        self.looks_again = true;
        &mut self.asked
    }

    /// An object was seen that may have changed.
    pub fn seen(&mut self, key: &ObjectKey) {
        let is_root_or_more = is_profile(key) || is_tree(key);
        if is_root_or_more {
            self.asked.seen(key);
        }
        self.is_due |= is_root_or_more || (key.group, key.kind) == ("", "Node");
    }

    /// What was refused is asked for again at once.
    pub fn retry(&mut self) {
        self.asked.retry();
    }

    /// Roots that are not as they should be, roots that nobody asks for, and what is wrong.
    pub fn keep(&mut self, objects: &Objects, now: &Moment, wanted: &mut Wanted) {
        if !std::mem::take(&mut self.is_due) && !std::mem::take(&mut self.looks_again) {
            return;
        }
        let Plan { profiles, obsolete, kept } = plan(objects);
        let mut problems: Vec<(ObjectKey, Vec<Problem>)> =
            kept.into_iter().map(|(key, problem)| (key, vec![problem])).collect();
        self.looks_again = !problems.is_empty();
        for profile in profiles {
            let refused = profile.write.as_ref().and_then(|root| self.ask_for_root(objects, root, now, wanted).err());
            self.looks_again |= refused.is_some();
            if let Some(object) = objects.get(&profile.profile) {
                let mut told = object.clone();
                if !told["status"].is_object() {
                    told["status"] = Value::Object(Map::new());
                }
                told["status"]["treeId"] = json!(profile.tree);
                told["status"]["nodes"] = json!(profile.nodes);
                conditions::set(&mut told, &[profile.condition(refused.as_deref())], &now.text);
                self.amend(&profile.profile, object, &told, now, wanted);
            }
            let mut found = profile.problems;
            found.extend(refused.map(|message| Problem::new(message).of_object(&profile.profile)));
            problems.push((profile.profile, found));
        }
        for root in obsolete {
            let uid = objects.get(&root).map(uid_of);
            wanted.writes.extend(self.asked.ask(Write::Delete { object: root, uid }, now.tick));
        }
        // What was wrong and is not any more is no longer a problem.
        let mut told = std::mem::take(&mut self.told);
        for (key, found) in &problems {
            told.remove(key);
            if !found.is_empty() {
                self.told.insert(key.clone());
            }
        }
        wanted.problems.extend(problems);
        wanted.problems.extend(told.into_iter().map(|key| (key, Vec::new())));
    }

    /// Asks for a root as it should be; the error is why it is refused.
    fn ask_for_root(
        &mut self,
        objects: &Objects,
        root: &Value,
        now: &Moment,
        wanted: &mut Wanted,
    ) -> Result<(), String> {
        let key = key_of(root).map_err(|problem| problem.to_string())?;
        let old = objects.get(&key);
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        // The same rules as the webhook's, which may not be there.
        let admitted = admit(Request { operation, object: root.clone(), old }, objects);
        let root = admitted.map_err(|rejection| format!("{key} was refused: {rejection}"))?.object;
        let slot = match old {
            Some(old) => {
                self.amend(&key, old, &root, now, wanted);
                Slot::Amend(key.clone())
            }
            None => {
                let make = Write::Make { key: key.clone(), object: root };
                wanted.writes.extend(self.asked.ask(make, now.tick));
                Slot::Make(key.clone())
            }
        };
        match self.asked.refusal(&slot) {
            Some(message) => Err(format!("{key} was refused: {message}")),
            None => Ok(()),
        }
    }

    fn amend(&mut self, key: &ObjectKey, old: &Value, new: &Value, now: &Moment, wanted: &mut Wanted) {
        let write = Amendment::between(key, old, new).map(Write::Amend);
        wanted.writes.extend(write.and_then(|write| self.asked.ask(write, now.tick)));
    }
}
