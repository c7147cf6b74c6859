//! All quotas of trees together: which of them count, and what is wrong between them.
//!
//! Admission refuses what is wrong here; where it was bypassed, the engine is told a reading that does not depend on
//! the order in which objects were seen. Of two quotas of one name the one in the earlier namespace counts, and of two
//! that list one namespace the one of the earlier name has it. Quotas that are above themselves count as right below
//! the root. A parent that does not exist or is none is told as it is. All of this is reported.

use std::collections::{BTreeMap, BTreeSet};

use quotient_engine::Fact;
use quotient_engine::fact::{Name, TreeFact};
use serde_json::Value;

use super::{ROOT, keys};
use crate::elastic::pools::Outcome;
use crate::object::ObjectKey;
use crate::problem::Problem;

/// The quotas by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Forest {
    /// Those of one name, the one that counts first.
    members: BTreeMap<Name, BTreeMap<ObjectKey, Member>>,
    /// The quotas that name a quota as the one above them.
    children: BTreeMap<Name, BTreeSet<Name>>,
    /// The quotas that list a namespace, the one that has it first.
    claims: BTreeMap<Name, BTreeSet<Name>>,
    /// What the engine knows.
    told: BTreeMap<Name, TreeFact>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    declared: TreeFact,
    /// What could not be read in the object.
    problems: Vec<Problem>,
}

impl Forest {
    /// Takes in a quota as it was seen, with what could not be read in it.
    pub fn seen(&mut self, key: &ObjectKey, declared: TreeFact, problems: Vec<Problem>) -> Outcome {
        self.change(key, Some(Member { declared, problems }))
    }

    /// Takes out a quota that is gone.
    pub fn gone(&mut self, key: &ObjectKey) -> Outcome {
        self.change(key, None)
    }

    /// The quota of that name that counts.
    fn first(&self, name: &str) -> Option<(&ObjectKey, &Member)> {
        self.members.get(name)?.first_key_value()
    }

    fn change(&mut self, key: &ObjectKey, new: Option<Member>) -> Outcome {
        let name = &key.name;
        let known = self.members.get(name).and_then(|same_name| same_name.get(key));
        if let Some(known) = known.filter(|known| new.as_ref() == Some(*known)) {
            let problems = BTreeMap::from([(key.clone(), self.problems(key, known))]);
            return Outcome { facts: Vec::new(), problems };
        }
        let mut near = self.around(name);
        let mut touched = self.listed_by(name);
        self.index(name, false);
        let same_name = self.members.entry(name.clone()).or_default();
        match new {
            Some(member) => drop(same_name.insert(key.clone(), member)),
            None => drop(same_name.remove(key)),
        }
        if same_name.is_empty() {
            self.members.remove(name);
        }
        self.index(name, true);
        near.extend(self.around(name));
        touched.extend(self.listed_by(name));

        let claimants = touched.iter().filter_map(|namespace| self.claims.get(namespace)).flatten().cloned();
        near.extend(claimants);
        let mut outcome = Outcome::default();
        let (mut losing, mut others) = (Vec::new(), Vec::new());
        for name in &near {
            self.tell(name, &mut losing, &mut others);
            for (key, member) in self.members.get(name).into_iter().flatten() {
                outcome.problems.insert(key.clone(), self.problems(key, member));
            }
        }
        // Nobody is told a namespace before whoever had it is told without it.
        outcome.facts = losing;
        outcome.facts.append(&mut others);
        outcome
    }

    /// The quotas whose problems may change with those of that name: the name itself, those below it, and those above.
    fn around(&self, name: &Name) -> BTreeSet<Name> {
        let mut near: BTreeSet<Name> = BTreeSet::from([name.clone()]);
        near.extend(self.children.get(name).into_iter().flatten().cloned());
        near.extend(self.above(name));
        near
    }

    /// The quotas above a quota, itself left out unless it is above itself. Those that exist.
    fn above(&self, name: &Name) -> Vec<Name> {
        let mut above: Vec<Name> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut at = name.clone();
        while let Some(parent) = self.first(&at).and_then(|(_, member)| member.declared.parent.clone()) {
            if !seen.insert(parent.clone()) {
                break;
            }
            above.push(parent.clone());
            at = parent;
        }
        above
    }

    fn is_above_itself(&self, name: &Name) -> bool {
        self.above(name).contains(name)
    }

    fn listed_by(&self, name: &Name) -> BTreeSet<Name> {
        self.first(name).into_iter().flat_map(|(_, member)| member.declared.namespaces.iter().cloned()).collect()
    }

    /// Adds the quota of that name that counts to what is kept at hand, or takes it out.
    fn index(&mut self, name: &Name, add: bool) {
        let Some((_, member)) = self.members.get(name).and_then(BTreeMap::first_key_value) else { return };
        if let Some(parent) = &member.declared.parent {
            note(&mut self.children, parent, name, add);
        }
        for namespace in &member.declared.namespaces {
            note(&mut self.claims, namespace, name, add);
        }
    }

    /// Tells how the quota of a name counts now, if that changed.
    fn tell(&mut self, name: &Name, losing: &mut Vec<Fact>, others: &mut Vec<Fact>) {
        let has = |namespace: &Name| self.claims.get(namespace).and_then(BTreeSet::first) == Some(name);
        let now = self.first(name).filter(|_| **name != *ROOT).map(|(_, member)| {
            let mut fact = member.declared.clone();
            fact.namespaces.retain(has);
            if self.is_above_itself(name) {
                fact.parent = None;
            }
            fact
        });
        let before = self.told.get(name);
        if before == now.as_ref() {
            return;
        }
        if let Some(before) = before.filter(|before| now.as_ref().is_none_or(|now| now.key != before.key)) {
            losing.push(Fact::QuotaGone(before.key.clone()));
        }
        match now {
            Some(now) => {
                let loses = before.is_some_and(|before| before.namespaces.iter().any(|n| !now.namespaces.contains(n)));
                if loses { &mut *losing } else { others }.push(Fact::from(now.clone()));
                self.told.insert(name.clone(), now);
            }
            None => drop(self.told.remove(name)),
        }
    }

    /// All that is wrong with a quota now.
    fn problems(&self, key: &ObjectKey, member: &Member) -> Vec<Problem> {
        let mut problems = member.problems.clone();
        let mut say = |field: &str, value: &Name, message: String| {
            problems.push(Problem::new(message).of_object(key).at_field(field).with_value(&Value::from(&**value)));
        };
        let fact = &member.declared;
        if let Some((first, _)) = self.first(&key.name).filter(|(first, _)| *first != key) {
            let message = format!("is the name of {first}, which counts: expected a name of its own");
            say("metadata.name", &key.name, message);
            return problems;
        }
        let label = |key: &str| format!("metadata.labels[{key:?}]");
        if let Some(parent) = &fact.parent {
            let field = label(keys::PARENT);
            match self.first(parent) {
                None => say(&field, parent, "no quota of that name exists: expected the quota above this one".into()),
                Some(_) if self.is_above_itself(&key.name) => {
                    say(
                        &field,
                        parent,
                        "is below this quota, which counts as right below the root: expected a quota that is not below it".into(),
                    );
                }
                Some((above, above_member)) if !above_member.declared.is_parent => {
                    let message = format!("{above} is no parent: expected a quota with the label {}", keys::IS_PARENT);
                    say(&field, parent, message);
                }
                Some((above, above_member)) if above_member.declared.tree != fact.tree => {
                    let message = format!("is not the tree of {above}, which is {:?}", &*above_member.declared.tree);
                    say(&label(keys::TREE_ID), &fact.tree, message);
                }
                Some(_) => {}
            }
        }
        for namespace in &fact.namespaces {
            let Some(other) = self.claims.get(namespace).and_then(BTreeSet::first) else { continue };
            if let Some((other, _)) = self.first(other).filter(|(other, _)| *other != key) {
                let message = format!("is listed by {other}, which has it: expected each namespace in one quota");
                say(&format!("metadata.annotations[{:?}]", keys::NAMESPACES), namespace, message);
            }
        }
        problems
    }
}

fn note(index: &mut BTreeMap<Name, BTreeSet<Name>>, under: &Name, name: &Name, add: bool) {
    let names = index.entry(under.clone()).or_default();
    if add {
        names.insert(name.clone());
    } else {
        names.remove(name);
    }
    if names.is_empty() {
        index.remove(under);
    }
}
