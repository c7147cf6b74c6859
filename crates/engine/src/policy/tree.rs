//! Quota trees: what a parent may hold, the quotas below it share, by what they request.
//!
//! *Ceiling*: the runtime quota, at every level. *Entitlement*: the same; at once as far as min goes, and beyond it
//! after a while. What is requested goes up, each quota's held to its max; what may be held comes down (`requests.rs`).
//! Both are kept: a change touches the quotas above it, and of those below only the ones that may hold more or less
//! than before.

mod links;
mod requests;
mod sharing;

use std::collections::{BTreeMap, BTreeSet};

use crate::decision::Rule;
use crate::engine::TreeSettings;
use crate::fact::{Amount, Name, QuotaKey};
use crate::ledger::links::Links;
use crate::ledger::pool::PoolId;
use crate::ledger::share::Share;
use crate::ledger::sums::Sums;
use crate::ledger::{Ledger, amount_of, compile};
use crate::lookup::LookupMap;
use crate::policy::{
    Ask, At, Ceiling, Charge, Draw, DrawDepth, LedgerId, PolicyKind, QuotaId, Quotas, Rules, Standing, Strength, Ties,
    TreeFact, Users,
};
use crate::reason::Code;
use crate::resources::{ResourceId, ResourceNames};

/// What a quota of a tree says, and what follows.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    fact: TreeFact,
    /// Whether it stands beside the tree: what the system and pods without a quota use is taken off before the rest is
    /// shared.
    is_beside: bool,
    min: Vec<(ResourceId, Amount)>,
    max: Vec<(ResourceId, Amount)>,
    weight: Vec<(ResourceId, Amount)>,
    total: Vec<(ResourceId, Amount)>,
    /// What the pods that answer to it directly ask for.
    asked_own: Sums,
    /// What the quotas below it ask for, each within its max.
    asked_below: Sums,
    /// What it asks of its parent, as it is counted there.
    limited: Sums,
    runtime: Sums,
}

impl Tree {
    fn new(fact: TreeFact, is_beside: bool, names: &mut ResourceNames) -> Self {
        Tree {
            is_beside,
            min: compile(&fact.min, names),
            max: compile(&fact.max, names),
            weight: compile(&fact.weight, names),
            total: fact.root.as_ref().map_or_else(Vec::new, |root| compile(&root.total, names)),
            fact,
            ..Tree::default()
        }
    }

    fn is_root(&self) -> bool {
        self.fact.root.is_some()
    }

    /// The resources that it limits.
    fn limited(&self) -> &[(ResourceId, Amount)] {
        if self.is_root() { &self.total } else { &self.max }
    }

    /// What may be held of a resource now; `None` where it is not limited.
    pub fn runtime(&self, resource: ResourceId) -> Option<i128> {
        let named = amount_of(self.limited(), resource)?;
        Some(if self.is_root() || self.is_beside { named } else { self.runtime.get(resource) })
    }

    /// What may be held now, of all that is limited.
    pub fn runtimes(&self) -> impl Iterator<Item = (ResourceId, i128)> + '_ {
        self.limited().iter().filter_map(|(resource, _)| Some((*resource, self.runtime(*resource)?)))
    }

    pub fn min(&self, resource: ResourceId) -> i128 {
        amount_of(&self.min, resource).unwrap_or(0)
    }

    /// What is asked for below it, and by its own pods.
    pub fn child_request(&self, resource: ResourceId) -> i128 {
        self.asked_below.get(resource) + self.asked_own.get(resource)
    }

    /// What it asks for: at least its min, if it does not lend.
    pub fn request(&self, resource: ResourceId) -> i128 {
        let asked = self.child_request(resource);
        if self.fact.lends { asked } else { asked.max(self.min(resource)) }
    }

    /// By what it shares; its max unless some weight is given.
    fn weight(&self, resource: ResourceId, max: i128) -> i128 {
        let given = self.weight.iter().any(|(_, weight)| *weight > 0);
        if given { amount_of(&self.weight, resource).unwrap_or(0) } else { max }
    }
}

/// Whose children share something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Node {
    /// The top of a tree without a root quota of its own, by id.
    Top(Name),
    Quota(QuotaId),
}

/// All trees.
#[derive(Debug, Clone, Default)]
pub(super) struct Trees {
    links: Links,
    children: LookupMap<Node, BTreeMap<Name, QuotaId>>,
    /// The quotas that list a namespace, by key.
    by_namespace: BTreeMap<Name, BTreeMap<QuotaKey, QuotaId>>,
    /// What pods have that answer to no quota of a tree.
    outside: Ledger,
    /// The roots of trees, and the quotas beside the default tree: what these have is not the default tree's.
    apart: BTreeSet<QuotaId>,
    /// How many pods that hold or reserve something in a quota of a tree answer to quotas of another pool, too.
    shared: BTreeMap<(QuotaId, PoolId), u32>,
    /// What is to be shared anew.
    dirty: BTreeMap<Node, BTreeSet<ResourceId>>,
    scale_min: bool,
    default_quota: Name,
    system_quota: Name,
}

impl Trees {
    pub fn configure(&mut self, settings: &TreeSettings) {
        let TreeSettings { revoke_after_ms: _, scale_min, default_quota, system_quota } = settings.clone();
        (self.scale_min, self.default_quota, self.system_quota) = (scale_min, default_quota, system_quota);
    }

    /// Whether a name is one of the quotas beside the default tree, which need not exist.
    fn is_beside(&self, name: &Name) -> bool {
        *name == self.default_quota || *name == self.system_quota
    }

    /// Whether there is no quota of a tree.
    fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Whether what quotas may hold is not worked out for all of them.
    pub fn is_stale(&self) -> bool {
        !self.dirty.is_empty()
    }
}

impl<'a> Rules<'a> for At<'a, Tree> {
    fn kind(&self) -> PolicyKind {
        PolicyKind::Tree
    }

    fn min(&self) -> &'a Charge {
        &self.policy.min
    }

    fn users(&self) -> &'a Users {
        &self.policy.fact.users
    }

    fn max(&self) -> Vec<(ResourceId, Amount)> {
        self.policy.max.clone()
    }

    fn ceilings(&self, ask: &Ask<'_>, direct: bool, each: &mut impl FnMut(Ceiling)) {
        let quota = self.id;
        for (resource, amount) in ask.charge {
            let (resource, requested) = (*resource, i128::from(*amount));
            if let Some(limit) = self.policy.runtime(resource) {
                let (ledger, code) = (LedgerId::Quota(quota), Code::RuntimeExceeded);
                each(Ceiling { quota, ledger, resource, requested, limit, code });
            }
        }
        if !direct || !ask.non_preemptible {
            return;
        }
        for (resource, amount) in ask.charge {
            let (resource, requested) = (*resource, i128::from(*amount));
            if let Some(limit) = amount_of(&self.policy.min, resource) {
                let (ledger, code) = (LedgerId::NonPreemptible(quota), Code::NonPreemptibleMinExceeded);
                each(Ceiling { quota, ledger, resource, requested, limit, code });
            }
        }
    }

    fn standing(&self, charge: &Charge) -> Standing {
        let (tree, pool, ledger) = (self.policy, self.pool(), &self.quota.ledger);
        let limited = charge.iter().filter(|(resource, _)| tree.runtime(*resource).is_some());
        let compared: Vec<ResourceId> = limited.map(|(resource, _)| *resource).collect();
        // Of a resource without a min nothing is guaranteed, least of all if others of the tree have one.
        let is_guaranteed = |(r, amount): &(ResourceId, Amount)| {
            let counts = tree.runtime(*r).is_some() || pool.governs(*r);
            !counts || ledger.to_be_used(*r) + i128::from(*amount) <= tree.min(*r)
        };
        let is_entitled = !compared.is_empty() && charge.iter().all(is_guaranteed);
        let (rule, depth, strength) = (Rule::TreeReclaim, DrawDepth::Min, Strength::Guarantee);
        let draw = is_entitled.then_some(Draw { rule, depth, strength });
        Standing { draw, compared }
    }

    fn keeps(&self, resource: ResourceId, _depth: DrawDepth) -> Option<i128> {
        self.policy.runtime(resource)
    }

    fn entitlement(&self, resource: ResourceId) -> Option<i128> {
        self.policy.runtime(resource)
    }

    fn within(&self) -> Vec<(ResourceId, i128)> {
        self.policy.runtimes().collect()
    }

    fn own(&self) -> Vec<(ResourceId, i128)> {
        self.policy.runtimes().map(|(resource, _)| (resource, self.policy.min(resource))).collect()
    }

    /// The largest of used / runtime.
    fn share(&self) -> Share {
        let ledger = &self.quota.ledger;
        Share::largest(self.policy.runtimes().map(|(resource, runtime)| (ledger.used.get(resource), runtime)))
    }

    /// There is something left of its min.
    fn may_reclaim(&self) -> bool {
        let ledger = &self.quota.ledger;
        self.policy.min.iter().any(|(resource, min)| i128::from(*min) > ledger.to_be_used(*resource))
    }

    fn ends_overuse(&self) -> bool {
        !self.policy.fact.is_parent
    }

    fn is_shared_out(&self) -> bool {
        true
    }

    fn runtime(&self) -> Vec<(ResourceId, i128)> {
        self.policy.runtimes().collect()
    }

    fn requested(&self, resource: ResourceId) -> i128 {
        self.policy.request(resource)
    }

    fn requested_below(&self, resource: ResourceId) -> i128 {
        self.policy.child_request(resource)
    }
}

impl Quotas {
    /// The quota of a tree that pods of a namespace answer to, or those that name one. The error is why a pod that
    /// names one has none.
    pub(super) fn tree_quota_of(&self, ties: &Ties<'_>) -> Result<Option<QuotaId>, (Code, String)> {
        let (trees, namespace) = (&self.shared.trees, ties.namespace);
        if let Some(name) = ties.quota {
            // A quota may always be used by its own namespace, and by those that it lists as its own.
            let is_own = |id: QuotaId| {
                self.get(id).key.namespace == *namespace || self.tree(id).fact.namespaces.contains(namespace)
            };
            return match trees.links.find(name) {
                Some(id) if self.tree(id).fact.is_parent => {
                    let why = format!("quota {name}, named by the pod, is a parent; pods run in leaf quotas only");
                    Err((Code::QuotaNotFound, why))
                }
                Some(id) if is_own(id) || self.may_use(id, namespace, ties.labels) => Ok(Some(id)),
                Some(_) => Err((Code::QuotaNotAllowed, format!("namespace {namespace} may not use quota {name}"))),
                None if trees.is_beside(name) => Ok(None),
                None => Err((Code::QuotaNotFound, format!("quota {name}, named by the pod, does not exist"))),
            };
        }
        let own = trees.links.find(namespace).filter(|id| self.get(*id).key.namespace == *namespace);
        let listed = || trees.by_namespace.get(namespace).and_then(|by_key| by_key.values().next().copied());
        let default = || trees.links.find(&trees.default_quota);
        let takes_pods = |id: &QuotaId| !self.tree(*id).fact.is_parent;
        Ok(own.filter(takes_pods).or_else(listed).filter(takes_pods).or_else(default))
    }

    fn tree(&self, id: QuotaId) -> &Tree {
        self.get(id).policy.tree().expect("a quota that is listed with the trees is one of theirs")
    }

    fn tree_mut(&mut self, id: QuotaId) -> &mut Tree {
        self.get_mut(id).policy.tree_mut().expect("a quota that is listed with the trees is one of theirs")
    }
}
