//! Postings: which placed pods a relation speaks of, found without a look at every pod.

use crate::fact::Name;
use crate::pods::{Pod, PodId, Pods};
use crate::relations::{RelationId, Relations, anchor};
use crate::select::selects;
use crate::sign::Sign;

/// Pods found by a label, or by namespace alone. Entries of pods that have gone are passed over and swept out
/// when they are the greater part.
#[derive(Debug, Clone, Default)]
pub(super) struct Posting {
    entries: Vec<(PodId, u64)>,
    live: usize,
}

impl Relations {
    /// The placed pods that a relation speaks of.
    pub fn placed<'a>(&'a self, id: RelationId, pods: &'a Pods) -> impl Iterator<Item = &'a Pod> + 'a {
        self.placed_ids(id, pods).into_iter().map(|pod| pods.get(pod))
    }

    /// The placed pods that a relation speaks of, each once, in no order that means anything.
    pub fn placed_ids(&self, id: RelationId, pods: &Pods) -> Vec<PodId> {
        let relation = self.relation(id);
        let Some(part) = relation.parts.first() else { return Vec::new() };
        let mut namespaces: Vec<&Name> = part.namespaces.iter().collect();
        if let Some(selector) = &part.namespace_selector {
            let selected = self.namespaces.iter().filter(|(_, labels)| selects(selector, labels)).map(|(n, _)| n);
            namespaces.extend(selected);
        }
        namespaces.sort_unstable();
        namespaces.dedup();
        let mut found = Vec::new();
        for namespace in namespaces {
            let mut take = |posting: Option<&Posting>| {
                for (pod, stamp) in posting.into_iter().flat_map(|posting| &posting.entries) {
                    if pods.is_placed(*pod, *stamp) {
                        let facts = pods.get(*pod);
                        if self.matches(id, &facts.namespace, &facts.labels) {
                            found.push(*pod);
                        }
                    }
                }
            };
            match anchor(&relation.parts) {
                Some(requirement) => {
                    for value in &requirement.values {
                        let key = (namespace.clone(), requirement.key.clone(), value.clone());
                        take(self.postings.get(&key));
                    }
                }
                None => take(self.namespace_postings.get(namespace)),
            }
        }
        // A pod is posted anew when its node comes back, or comes after it; and a requirement may name a value twice.
        found.sort_unstable();
        found.dedup();
        found
    }

    pub(super) fn post_key(&mut self, key: &Name, pods: &Pods) {
        if self.posted_keys.contains(key) {
            return;
        }
        self.posted_keys.push(key.clone());
        for (id, pod) in pods.placed() {
            if let Some(value) = pod.labels.get(key) {
                let entry = (pod.namespace.clone(), key.clone(), value.clone());
                let posting = self.postings.or_insert_with(entry, Posting::default);
                posting.entries.push((id, pod.stamp));
                posting.live += 1;
            }
        }
    }

    pub(super) fn post(&mut self, id: PodId, sign: Sign, pods: &Pods) {
        let pod = pods.get(id);
        let entry = (id, pod.stamp);
        let Relations { postings, namespace_postings, posted_keys, .. } = self;
        let change = |posting: &mut Posting| {
            if sign.is_add() {
                posting.entries.push(entry);
                posting.live += 1;
            } else {
                posting.live -= 1;
                if posting.entries.len() > 2 * posting.live + 16 {
                    posting.entries.retain(|e| *e != entry && pods.is_placed(e.0, e.1));
                }
            }
        };
        change(namespace_postings.or_insert_with(pod.namespace.clone(), Posting::default));
        for key in posted_keys.iter() {
            if let Some(value) = pod.labels.get(key) {
                change(postings.or_insert_with((pod.namespace.clone(), key.clone(), value.clone()), Posting::default));
            }
        }
    }
}
