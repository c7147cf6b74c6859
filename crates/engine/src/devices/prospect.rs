//! What a search for devices knows beforehand, and what it remembers of choices that led nowhere.

use crate::device::{Alternative, Verdict};
use crate::devices::site::{Site, consumption};
use crate::fact::Name;

/// What is known of an alternative before any device is taken.
pub(crate) struct Prospect {
    /// By candidate: it could be had if nothing else were taken, or cannot be judged.
    pub able: Vec<bool>,
    /// By candidate: how many are able from there on. One that cannot be judged counts as enough: the search must come
    /// by it.
    pub remaining: Vec<u64>,
    pub has_errors: bool,
    /// By candidate: it could give what is requested of its capacities, whoever uses it now.
    pub could_ever: Vec<bool>,
}

impl Prospect {
    pub fn new(site: &Site<'_>, verdicts: &[&Verdict], alternative: &Alternative) -> Self {
        let mut able = vec![false; site.candidates.len()];
        let mut remaining = vec![0; site.candidates.len() + 1];
        let mut has_errors = false;
        let mut could_ever = vec![false; site.candidates.len()];
        for (i, candidate) in site.candidates.iter().enumerate().rev() {
            let tolerated = |taint| alternative.tolerations.iter().any(|toleration| toleration.tolerates(taint));
            let driver = &site.pools[candidate.pool].fact.key.driver;
            could_ever[i] = consumption(alternative, candidate.device, driver).is_some();
            let count = match verdicts[i] {
                _ if candidate.busy && !alternative.admin => 0,
                Verdict::No => 0,
                Verdict::Error(_) => u64::MAX / 2,
                Verdict::Yes if !candidate.device.taints.iter().all(tolerated) => 0,
                Verdict::Yes => u64::from(could_ever[i]),
            };
            has_errors |= count > 1;
            able[i] = count > 0;
            remaining[i] = u64::min(remaining[i + 1] + count, u64::MAX / 2);
        }
        Prospect { able, remaining, has_errors, could_ever }
    }
}

/// What the requests from one on find: which it is, and of the devices taken so far what bears on them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub claim: usize,
    pub request: usize,
    pub taken: Vec<Mark>,
}

/// A device that was taken, as far as it bears on what comes: its kind or itself, what is consumed of it, the
/// constraints
/// of the current claim that it is under, and what it costs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub device: Result<u32, usize>,
    pub consumed: Vec<i128>,
    pub constraints: Vec<usize>,
    pub here: bool,
    pub admin: bool,
    pub class: Name,
}
