//! Why a pod is evicted: one value that everything renders.

use std::fmt::{Display, Formatter};

use crate::decision::Rule;
use crate::fact::{Name, PodKey};
use crate::quantity::canonical;
use crate::reason::QuotaPath;

/// Why a pod is evicted, with exact numbers. Its `Display` is the sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EvictionReason {
    /// What gave the right to it.
    pub rule: Rule,
    pub cause: EvictionCause,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EvictionCause {
    /// A claimant gets what the pod held.
    Preempted(Preemption),
    /// Its quota used more than it is entitled to for too long.
    Overused(Overuse),
}

/// What a claimant gets, and what its quotas and the victim's use before and after.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Preemption {
    pub claimant: PodKey,
    pub claimant_priority: i32,
    /// The node that the claimant will run on.
    pub node: Name,
    pub victim_priority: i32,
    /// The victim's whole gang goes.
    pub whole_gang: bool,
    /// The claimant's quotas, without those that say nothing.
    pub claimant_quotas: Vec<QuotaUse>,
    /// The victim's.
    pub victim_quotas: Vec<QuotaUse>,
    /// Where the search for the cheapest pods was cut short: how many would have to go at least.
    pub pods_at_least: Option<u32>,
}

/// What a quota uses of what the claimant requests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuotaUse {
    pub quota: QuotaPath,
    pub amounts: Vec<AmountUse>,
}

/// How much of a resource a quota uses and is entitled to, before and after: once all have come and gone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AmountUse {
    pub resource: Name,
    pub used_before: i128,
    pub used_after: i128,
    pub entitled_before: i128,
    pub entitled_after: i128,
}

/// A quota that used too much for too long.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Overuse {
    pub quota: QuotaPath,
    pub resource: Name,
    pub used: i128,
    pub entitlement: i128,
    /// How long that is accepted.
    pub accepted_ms: u64,
}

impl EvictionReason {
    /// The quotas that it is about, each with those above it.
    pub fn quotas(&self) -> Vec<&QuotaPath> {
        match &self.cause {
            EvictionCause::Preempted(preemption) => {
                let uses = preemption.claimant_quotas.iter().chain(&preemption.victim_quotas);
                uses.map(|quota_use| &quota_use.quota).collect()
            }
            EvictionCause::Overused(overuse) => vec![&overuse.quota],
        }
    }
}

/// The sentence for people of one namespace, who are told of no pod of another.
pub struct ToldTo<'a> {
    pub reason: &'a EvictionReason,
    pub namespace: &'a Name,
}

impl Display for ToldTo<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match &self.reason.cause {
            EvictionCause::Preempted(preemption) if preemption.claimant.namespace != *self.namespace => {
                preemption.say(self.reason.rule, &OF_ANOTHER, f)
            }
            _ => self.reason.fmt(f),
        }
    }
}

/// A pod that is not named.
pub const OF_ANOTHER: &str = "a pod of another namespace";

impl Display for EvictionReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match &self.cause {
            EvictionCause::Preempted(preemption) => preemption.say(self.rule, &preemption.claimant, f),
            EvictionCause::Overused(Overuse { quota, resource, used, entitlement, accepted_ms }) => {
                let [used, entitlement] = [*used, *entitlement].map(|amount| canonical(resource, amount));
                write!(f, "evicted because {quota} held {used} {resource} for longer than {} s, ", accepted_ms / 1000)?;
                write!(f, "more than its runtime of {entitlement}")
            }
        }
    }
}

impl Preemption {
    fn say(&self, rule: Rule, claimant: &dyn Display, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Preemption { claimant_priority, node, victim_priority, .. } = self;
        let group = if self.whole_gang { "with the rest of its group " } else { "" };
        write!(f, "evicted {group}to make room on {node} for {claimant}")?;
        let claimant_quotas = Uses(&self.claimant_quotas);
        match rule {
            Rule::Priority => {
                write!(f, " of priority {claimant_priority}; this pod has priority {victim_priority}")?;
            }
            Rule::OwnQuota => {
                write!(f, " of priority {claimant_priority} under the same quota ({claimant_quotas}); ")?;
                write!(f, "this pod has priority {victim_priority}")?;
            }
            reclaim => {
                let (within, above) = reclaim.bounds();
                write!(f, ", which stays within {within} ({claimant_quotas}), ")?;
                write!(f, "from a quota above {above} ({})", Uses(&self.victim_quotas))?;
            }
        }
        if let Some(count) = self.pods_at_least {
            write!(f, "; the search for the cheapest pods was cut short: at least {count} would have to go")?;
        }
        Ok(())
    }
}

/// What quotas use, in words.
struct Uses<'a>(&'a [QuotaUse]);

impl Display for Uses<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        for (i, QuotaUse { quota, amounts }) in self.0.iter().enumerate() {
            write!(f, "{}{quota}: ", if i == 0 { "" } else { "; " })?;
            for (i, AmountUse { resource, used_before, used_after, entitled_before, entitled_after }) in
                amounts.iter().enumerate()
            {
                let amounts = [*used_before, *used_after, *entitled_before, *entitled_after];
                let [before, after, entitled, then] = amounts.map(|amount| canonical(resource, amount));
                let comma = if i == 0 { "" } else { ", " };
                write!(f, "{comma}{resource} from {before} to {after}, entitled to {entitled}")?;
                if entitled_before != entitled_after {
                    write!(f, " and then to {then}")?;
                }
            }
        }
        Ok(())
    }
}
