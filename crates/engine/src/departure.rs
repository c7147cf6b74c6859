//! A pod's way out: its eviction is decided, its deletion is seen, or both.

use crate::fact::{Created, Name, PodKey};

/// Whether a pod is on its way out, since when, and for whom.
///
/// ```text
///        eviction decided              deletion seen
/// stays ─────────────────▶ decided ───────────────────▶ decided and seen ──▶ gone
///   ▲ │                      │
///   │ │   eviction failed    │
///   │ └──────────────────────┘      deletion seen
///   └──────────────────────────────────────────────────▶ seen ────────────▶ gone
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Departure {
    /// The claimant that it was decided for, by name and uid, since another pod may come by that name.
    decided_for: Option<(PodKey, Name)>,
    /// Since when its deletion is seen.
    seen_since: Option<Created>,
    /// The claimant that its condition names. Written before it is deleted, and read by a scheduler that starts anew.
    condition_names: Option<PodKey>,
}

impl Departure {
    /// What the object of a pod says.
    pub fn seen(since: Option<Created>, condition_names: Option<PodKey>) -> Self {
        Departure { decided_for: None, seen_since: since, condition_names }
    }

    /// Whether the object says nothing new.
    pub fn is_known(&self, since: Option<Created>, condition_names: Option<&PodKey>) -> bool {
        self.seen_since == since && self.condition_names.as_ref() == condition_names
    }

    /// Takes in what the object says now.
    pub fn see(&mut self, since: Option<Created>, condition_names: Option<PodKey>) {
        (self.seen_since, self.condition_names) = (since, condition_names);
    }

    pub fn decide(&mut self, claimant: (PodKey, Name)) {
        self.decided_for = Some(claimant);
    }

    /// The eviction did not happen.
    pub fn undecide(&mut self) {
        self.decided_for = None;
    }

    pub fn is_decided(&self) -> bool {
        self.decided_for.is_some()
    }

    /// Whether the pod is on its way out.
    pub fn is_under_way(&self) -> bool {
        self.is_decided() || self.seen_since.is_some()
    }

    pub fn since(&self) -> Option<Created> {
        self.seen_since
    }

    /// The names of those that it leaves for: as it was decided, and as its condition says once it leaves.
    pub fn claimants(&self) -> impl Iterator<Item = &PodKey> {
        let decided = self.decided_for.as_ref().map(|(key, _)| key);
        decided.into_iter().chain(self.condition_names.as_ref().filter(|_| self.seen_since.is_some()))
    }

    /// Whether it was under way before, and goes on as it was decided: for the same pods.
    pub fn is_as_decided(&self, before: &Departure) -> bool {
        let Some((claimant, _)) = &before.decided_for else { return false };
        self.decided_for == before.decided_for && self.claimants().all(|named| named == claimant)
    }

    /// Whether it was decided for the pod of this uid, and is not seen under way yet.
    pub fn is_unseen_for(&self, uid: &Name) -> bool {
        self.seen_since.is_none() && self.decided_for.as_ref().is_some_and(|(_, of)| of == uid)
    }

    /// Whether it leaves for this pod, and not for one that had its name before. What a condition says has no uid.
    pub fn is_for(&self, key: &PodKey, uid: &Name) -> bool {
        let is_decided = self.decided_for.as_ref().is_some_and(|(_, of)| of == uid);
        is_decided || self.seen_since.is_some() && self.condition_names.as_ref() == Some(key)
    }
}
