//! What happened, in order and in bounded memory: the stories of pods, and what a page that was away has missed.

use std::collections::{BTreeMap, VecDeque};

use crate::shared::Name;
use serde::{Deserialize, Serialize};

use crate::view::{Phase, PodRow, View};
use crate::viewer::Viewer;

/// Entries that are kept. An entry is some 300 bytes, so that this is at most about 6 MB.
const ENTRIES_MAX: usize = 20_000;

/// What happened to a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "camelCase")]
pub enum What {
    Submitted,
    Waits { code: &'static str, message: String },
    Bound { node: String },
    Evicted { by: Option<String>, rule: String, message: String },
    Ended { phase: &'static str },
    Gone,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub seq: u64,
    pub at_ms: i64,
    pub namespace: Name,
    pub name: Name,
    #[serde(flatten)]
    pub what: What,
}

/// An eviction that was decided, as its source tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eviction {
    pub at_ms: i64,
    pub namespace: Name,
    pub name: Name,
    /// `namespace/name` of the pod that gets what this one held.
    pub claimant: Option<String>,
    pub rule: String,
    pub message: String,
}

/// The last entries.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    entries: VecDeque<Entry>,
    last: u64,
}

impl Journal {
    /// The number of the newest entry.
    pub fn last(&self) -> u64 {
        self.last
    }

    fn push(&mut self, at_ms: i64, pod: (&Name, &Name), what: What) {
        self.last += 1;
        if self.entries.len() == ENTRIES_MAX {
            self.entries.pop_front();
        }
        let (namespace, name) = (pod.0.clone(), pod.1.clone());
        self.entries.push_back(Entry { seq: self.last, at_ms, namespace, name, what });
    }

    /// Notes what is different between two views, and the evictions between them.
    pub fn note(&mut self, before: &View, after: &View, evictions: &[Eviction]) {
        let at_ms = after.at_ms;
        let known: BTreeMap<(&Name, &Name), &PodRow> =
            before.pods.iter().map(|pod| ((&pod.namespace, &pod.name), pod)).collect();
        let mut evicted: BTreeMap<(&Name, &Name), &Eviction> = BTreeMap::new();
        for eviction in evictions {
            evicted.insert((&eviction.namespace, &eviction.name), eviction);
        }
        for (pod, Eviction { at_ms, claimant, rule, message, .. }) in &evicted {
            let what = What::Evicted { by: claimant.clone(), rule: rule.clone(), message: message.clone() };
            self.push(*at_ms, *pod, what);
        }
        let mut there = std::collections::BTreeSet::new();
        for pod in &after.pods {
            let key = (&pod.namespace, &pod.name);
            there.insert(key);
            let was = known.get(&key).copied().filter(|was| was.uid == pod.uid);
            self.note_pod(at_ms, was, pod);
        }
        for (key, was) in known {
            let ended = matches!(was.phase, Phase::Succeeded | Phase::Failed);
            if !there.contains(&key) && !ended && !evicted.contains_key(&key) {
                let what = match was.phase {
                    Phase::Running => What::Ended { phase: "Succeeded" },
                    _ => What::Gone,
                };
                self.push(at_ms, key, what);
            }
        }
    }

    fn note_pod(&mut self, at_ms: i64, was: Option<&PodRow>, pod: &PodRow) {
        let key = (&pod.namespace, &pod.name);
        if was.is_none() {
            self.push(pod.created_ms.max(0).min(at_ms), key, What::Submitted);
        }
        let phase = was.map(|was| was.phase);
        match pod.phase {
            Phase::Pending => {
                let code = |row: &PodRow| row.why.as_ref().map(|why| why.code);
                if let Some(why) = &pod.why
                    && was.and_then(code) != Some(why.code)
                {
                    self.push(at_ms, key, What::Waits { code: why.code, message: why.message.clone() });
                }
            }
            Phase::Running if phase != Some(Phase::Running) => {
                let node = pod.node.as_deref().unwrap_or_default().to_string();
                self.push(pod.started_ms.unwrap_or(at_ms).min(at_ms), key, What::Bound { node });
            }
            Phase::Succeeded | Phase::Failed if phase != Some(pod.phase) => {
                let phase = if pod.phase == Phase::Failed { "Failed" } else { "Succeeded" };
                self.push(at_ms, key, What::Ended { phase });
            }
            _ => {}
        }
    }

    /// Entries after this one that the viewer may see, at most `max` of the newest; `None` where some are forgotten.
    pub fn since(&self, seq: u64, viewer: &Viewer, max: usize) -> Option<Vec<Entry>> {
        let oldest = self.entries.front().map_or(self.last + 1, |entry| entry.seq);
        if seq > self.last || seq + 1 < oldest {
            return None;
        }
        let after = self.entries.iter().rev().take_while(|entry| entry.seq > seq);
        let mut seen: Vec<Entry> = after.filter_map(|entry| shown(entry, viewer)).take(max).collect();
        seen.reverse();
        Some(seen)
    }

    /// A pod's entries, oldest first.
    pub fn of_pod(&self, namespace: &str, name: &str, viewer: &Viewer) -> Vec<Entry> {
        let of = self.entries.iter().filter(|entry| &*entry.namespace == namespace && &*entry.name == name);
        of.filter_map(|entry| shown(entry, viewer)).collect()
    }

    /// The newest evictions that the viewer may see, newest first.
    pub fn evictions(&self, viewer: &Viewer, max: usize) -> Vec<Entry> {
        let evicted = self.entries.iter().rev().filter(|entry| matches!(entry.what, What::Evicted { .. }));
        evicted.filter_map(|entry| shown(entry, viewer)).take(max).collect()
    }

    /// How many evictions the viewer may see since then.
    pub fn evictions_since(&self, viewer: &Viewer, at_ms: i64) -> usize {
        let recent = self.entries.iter().rev().filter(|entry| entry.at_ms >= at_ms);
        recent.filter(|e| matches!(e.what, What::Evicted { .. }) && viewer.sees_namespace(&e.namespace)).count()
    }

    /// How many pods of these started since then, for an estimate of how fast others will.
    pub fn starts_since(&self, at_ms: i64, of: impl Fn(&Name, &Name) -> bool) -> usize {
        let recent = self.entries.iter().rev().take_while(|entry| entry.at_ms >= at_ms);
        recent.filter(|e| matches!(e.what, What::Bound { .. }) && of(&e.namespace, &e.name)).count()
    }

    /// Forgets what happened after that moment: somebody went back in time.
    pub fn forget_after(&mut self, at_ms: i64) {
        self.entries.retain(|entry| entry.at_ms <= at_ms);
    }
}

/// The entry as the viewer may see it; evictions and reasons of theirs name nobody else.
fn shown(entry: &Entry, viewer: &Viewer) -> Option<Entry> {
    if !viewer.sees_namespace(&entry.namespace) {
        return None;
    }
    let mut entry = entry.clone();
    if *viewer != Viewer::All {
        match &mut entry.what {
            What::Waits { code, message } => *message = crate::viewer::plain_words(code).to_string(),
            What::Evicted { by, message, .. } => {
                *by = by.as_deref().map(|by| viewer.pod_name(by));
                *message = "a quota that is entitled to it claimed what the pod held".to_string();
            }
            What::Bound { node } if !viewer.sees_nodes() => *node = "a node".to_string(),
            _ => {}
        }
    }
    Some(entry)
}
