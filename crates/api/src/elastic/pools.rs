//! Who governs a namespace, where admission was bypassed and several quotas of one API group claim it.
//!
//! The engine is told of one quota for a namespace in each group, so that nothing is charged twice: a composite comes
//! before a plain quota, whose place it takes, and of two of a kind the older one counts. A quota that loses a
//! namespace is told without it; one that has none left is not told at all, and its min is nobody's. What the engine
//! is told depends on the objects alone and not on the order in which they were seen.

use std::collections::{BTreeMap, BTreeSet};

use quotient_engine::Fact;
use quotient_engine::fact::{ElasticFact, Name, QuotaKey};
use serde_json::Value;

use super::consent::{ALLOWED_COMPOSITES, Consents};
use super::{COMPOSITE, Declared, is_fair};
use crate::object::ObjectKey;
use crate::problem::Problem;

/// The pools, by API group.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pools {
    pools: BTreeMap<&'static str, Pool>,
    consents: Consents,
}

/// What follows from a change of one quota.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub facts: Vec<Fact>,
    /// All that is wrong now with the quotas that the change touched.
    pub problems: BTreeMap<ObjectKey, Vec<Problem>>,
}

#[derive(Debug, Clone, Default)]
struct Pool {
    members: BTreeMap<ObjectKey, Member>,
    /// Who wants to govern each namespace; the first does.
    claims: BTreeMap<Name, BTreeSet<Claim>>,
}

#[derive(Debug, Clone)]
struct Member {
    declared: Declared,
    /// What could not be read in the object.
    problems: Vec<Problem>,
    /// What the engine knows of it.
    told: Option<ElasticFact>,
}

/// A quota's wish to govern a namespace. The order is that of precedence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    is_plain: bool,
    created: i64,
    key: ObjectKey,
}

impl Pools {
    /// Pools in which a composite governs only namespaces that agree, or all that it lists.
    pub fn new(needs_consent: bool) -> Self {
        Pools { pools: BTreeMap::new(), consents: Consents::new(needs_consent) }
    }

    /// Takes in a quota as it was seen, with what could not be read in it.
    pub fn seen(&mut self, key: &ObjectKey, declared: Declared, problems: Vec<Problem>) -> Outcome {
        self.pools.entry(key.group).or_default().change(key, Some((declared, problems)), &self.consents)
    }

    /// Takes out a quota that is gone.
    pub fn gone(&mut self, key: &ObjectKey) -> Outcome {
        self.pools.get_mut(key.group).map(|pool| pool.change(key, None, &self.consents)).unwrap_or_default()
    }

    /// Takes in which composites a namespace agrees to; `None`: it does not say, or is gone.
    pub fn agrees(&mut self, namespace: &Name, listed: Option<&str>) -> Outcome {
        let mut outcome = Outcome::default();
        if !self.consents.set(namespace, listed) {
            return outcome;
        }
        for pool in self.pools.values_mut() {
            let lists = |member: &Member| member.declared.namespaces.contains(namespace);
            let listing = pool.members.iter().filter(|(key, member)| key.kind == COMPOSITE && lists(member));
            let listing: Vec<_> =
                listing.map(|(key, it)| (key.clone(), (it.declared.clone(), it.problems.clone()))).collect();
            for (key, seen) in listing {
                let Outcome { facts, problems } = pool.change(&key, Some(seen), &self.consents);
                outcome.facts.extend(facts);
                outcome.problems.extend(problems);
            }
        }
        outcome
    }
}

impl Pool {
    fn change(&mut self, key: &ObjectKey, new: Option<(Declared, Vec<Problem>)>, consents: &Consents) -> Outcome {
        let mut touched: BTreeSet<Name> = BTreeSet::new();
        let old = self.members.remove(key);
        if let Some(Member { declared, .. }) = &old {
            touched.extend(declared.namespaces.iter().cloned());
            self.withdraw(key, declared);
        }
        let told = old.and_then(|member| member.told);
        let mut outcome = Outcome::default();
        match new {
            Some((declared, problems)) => {
                touched.extend(declared.namespaces.iter().cloned());
                for namespace in declared.namespaces.iter().filter(|name| consents.allow(key, &declared.agreed, name)) {
                    self.claims.entry(namespace.clone()).or_default().insert(claim(key, &declared));
                }
                self.members.insert(key.clone(), Member { declared, problems, told });
            }
            None => outcome.facts.extend(told.map(|fact| Fact::QuotaGone(fact.key))),
        }
        let claimants = touched.iter().filter_map(|namespace| self.claims.get(namespace)).flatten();
        let mut affected: BTreeSet<ObjectKey> = claimants.map(|claim| claim.key.clone()).collect();
        affected.extend(self.members.contains_key(key).then(|| key.clone()));
        let mut gaining = Vec::new();
        for key in affected {
            self.tell(&key, consents, &mut outcome, &mut gaining);
        }
        // Nobody is told a namespace before whoever had it is told without it.
        outcome.facts.append(&mut gaining);
        outcome
    }

    fn withdraw(&mut self, key: &ObjectKey, declared: &Declared) {
        for namespace in &declared.namespaces {
            if let Some(claims) = self.claims.get_mut(namespace) {
                claims.remove(&claim(key, declared));
                if claims.is_empty() {
                    self.claims.remove(namespace);
                }
            }
        }
    }

    /// Tells how a quota counts now, if that changed, and what is wrong with it.
    fn tell(&mut self, key: &ObjectKey, consents: &Consents, outcome: &mut Outcome, gaining: &mut Vec<Fact>) {
        let governing = |namespace: &Name| self.claims.get(namespace).and_then(BTreeSet::first);
        let Some(Member { declared, problems, .. }) = self.members.get(key) else { return };
        let mut problems = problems.clone();
        let mut governed = Vec::new();
        for namespace in &declared.namespaces {
            match governing(namespace) {
                _ if !consents.allow(key, &declared.agreed, namespace) => problems.push(not_agreed(key, namespace)),
                Some(claim) if claim.key != *key => problems.push(lost(key, namespace, claim)),
                _ => governed.push(namespace.clone()),
            }
        }
        if governed.is_empty() && !declared.namespaces.is_empty() && key.kind == COMPOSITE {
            problems.push(Problem::new("no namespace is left to govern: this quota does not count").of_object(key));
        }
        let fact = (!governed.is_empty()).then(|| ElasticFact {
            key: quota_key(key),
            namespaces: governed,
            min: declared.min.clone(),
            max: declared.max.clone(),
            fair: is_fair(key.group).unwrap_or(false),
        });
        outcome.problems.insert(key.clone(), problems);
        let Some(member) = self.members.get_mut(key) else { return };
        if member.told == fact {
            return;
        }
        let mut before = member.told.clone();
        if let Some(told) = &before {
            let stays = |namespace: &Name| fact.as_ref().is_some_and(|now| now.namespaces.contains(namespace));
            let kept: Vec<Name> = told.namespaces.iter().filter(|namespace| stays(namespace)).cloned().collect();
            if kept.len() < told.namespaces.len() {
                let kept = fact
                    .as_ref()
                    .filter(|_| !kept.is_empty())
                    .map(|now| ElasticFact { namespaces: kept, ..now.clone() });
                outcome.facts.push(kept.clone().map_or_else(|| Fact::QuotaGone(quota_key(key)), Fact::from));
                before = kept;
            }
        }
        gaining.extend(fact.clone().filter(|now| before.as_ref() != Some(now)).map(Fact::from));
        member.told = fact;
    }
}

fn claim(key: &ObjectKey, declared: &Declared) -> Claim {
    Claim { is_plain: key.kind != COMPOSITE, created: declared.created, key: key.clone() }
}

pub(crate) fn quota_key(key: &ObjectKey) -> QuotaKey {
    QuotaKey {
        kind: key.kind.into(),
        group: key.group.into(),
        namespace: key.namespace.clone().unwrap_or_default(),
        name: key.name.clone(),
    }
}

/// What is wrong with a composite that lists a namespace which did not agree.
fn not_agreed(key: &ObjectKey, namespace: &Name) -> Problem {
    let message = format!("has not agreed: it does not count here without {ALLOWED_COMPOSITES} on the namespace");
    Problem::new(message).of_object(key).at_field("spec.namespaces").with_value(&Value::from(&**namespace))
}

/// What is wrong with a quota that lost a namespace to another.
fn lost(key: &ObjectKey, namespace: &Name, to: &Claim) -> Problem {
    let winner = &to.key;
    let (field, message) = match (key.kind, to.is_plain) {
        (COMPOSITE, _) => {
            ("spec.namespaces", format!("is governed by the older {winner}: it does not count here as well"))
        }
        (_, true) => ("metadata.namespace", format!("is governed by the older {winner}: this quota does not count")),
        (_, false) => ("metadata.namespace", format!("is governed by {winner}, which takes the place of this quota")),
    };
    Problem::new(message).of_object(key).at_field(field).with_value(&Value::from(&**namespace))
}
