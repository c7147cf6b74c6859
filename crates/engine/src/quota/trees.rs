//! Quota trees: what a parent may hold, the quotas below it share, by what they ask for.
//!
//! *Ceiling*: the runtime quota, at every level. *Entitlement*: the same; at once as far as min goes, and beyond it
//! after a while. What is asked for goes up, each quota's held to its max; what may be held comes down. Both are kept:
//! a change touches the quotas above it, and of those below only the ones that may hold more or less than before.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::fact::{Amount, Name, QuotaKey, TreeFact};
use crate::lookup::LookupMap;
use crate::pods::Pod;
use crate::quota::amounts::Sums;
use crate::quota::elastic::PoolId;
use crate::quota::runtime::{Sharer, share_out};
use crate::quota::share::Share;
use crate::quota::{
    Ledger, LedgerId, Policy, QuotaId, Quotas, Refusal, Shortage, above_unless_circle, amount_of, chain, compile,
};
use crate::reason::{Code, Numbers};
use crate::resources::{ResourceId, ResourceNames};

/// The quota of pods that have no other.
pub(crate) const DEFAULT_QUOTA: &str = "koordinator-default-quota";
/// The quota of the system's own pods.
pub(crate) const SYSTEM_QUOTA: &str = "koordinator-system-quota";

/// What a quota of a tree says, and what follows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    pub fact: TreeFact,
    pub min: Vec<(ResourceId, Amount)>,
    pub max: Vec<(ResourceId, Amount)>,
    weight: Vec<(ResourceId, Amount)>,
    total: Vec<(ResourceId, Amount)>,
    /// What the pods that answer to it directly ask for.
    pub asked_own: Sums,
    /// What the quotas below it ask for, each within its max.
    asked_below: Sums,
    /// What it asks of its parent, as it is counted there.
    limited: Sums,
    runtime: Sums,
}

impl Tree {
    fn new(fact: TreeFact, names: &mut ResourceNames) -> Self {
        Tree {
            min: compile(&fact.min, names),
            max: compile(&fact.max, names),
            weight: compile(&fact.weight, names),
            total: compile(&fact.total, names),
            fact,
            ..Tree::default()
        }
    }

    /// Whether it stands beside the tree: what the system and pods without a quota use is taken off before the rest is
    /// shared.
    fn is_beside(&self) -> bool {
        matches!(&*self.fact.key.name, DEFAULT_QUOTA | SYSTEM_QUOTA)
    }

    /// The resources that it limits.
    fn limited(&self) -> &[(ResourceId, Amount)] {
        if self.fact.is_root { &self.total } else { &self.max }
    }

    /// What may be held of a resource now; `None` where it is not limited.
    pub fn runtime(&self, resource: ResourceId) -> Option<i128> {
        let named = amount_of(self.limited(), resource)?;
        Some(if self.fact.is_root || self.is_beside() { named } else { self.runtime.get(resource) })
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

    /// The largest of used / runtime.
    pub fn share(&self, ledger: &Ledger) -> Share {
        let shares = self.runtimes().map(|(resource, runtime)| Share::of(ledger.used.get(resource), runtime));
        shares.max().unwrap_or(Share::EVEN)
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
pub(crate) struct Trees {
    by_name: BTreeMap<Name, QuotaId>,
    children: LookupMap<Node, BTreeMap<Name, QuotaId>>,
    /// The quotas that name a parent, by its name.
    naming: BTreeMap<Name, BTreeSet<QuotaId>>,
    /// The quotas that list a namespace, by key.
    by_namespace: BTreeMap<Name, BTreeMap<QuotaKey, QuotaId>>,
    /// Used by pods that answer to no quota of a tree.
    outside: Sums,
    /// The roots of trees, and the quotas beside the default tree: what these have is not the default tree's.
    apart: BTreeSet<QuotaId>,
    /// What is to be shared anew.
    dirty: BTreeMap<Node, BTreeSet<ResourceId>>,
    /// What came of sharing anew since this was last asked.
    pub moved: Moved,
    pub scale_min: bool,
}

/// Quotas that may hold something else than before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moved {
    /// Those that pods answer to, which are served better or worse now.
    pub shares: Vec<QuotaId>,
    /// Those that may hold more, with those below them.
    pub risen: Vec<QuotaId>,
    /// The pools in which somebody may hold less than it does, so that others may claim it.
    pub drawn_on: BTreeSet<PoolId>,
}

/// Whose quota is to be looked up again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reassigned {
    pub namespaces: BTreeSet<Name>,
    /// Pods that name these quotas.
    pub named: BTreeSet<Name>,
    /// All pods: anyone may be without a quota of its own.
    pub all: bool,
}

impl Trees {
    /// Whether there is a quota of a tree.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

impl Quotas {
    /// The quota of a tree that pods of a namespace answer to, or those that name one. The error is why a pod that
    /// names one has none.
    pub fn tree_quota_of(&self, namespace: &Name, named: Option<&Name>) -> Result<Option<QuotaId>, String> {
        let trees = &self.trees;
        if let Some(name) = named {
            return match trees.by_name.get(name) {
                Some(id) if self.tree(*id).fact.is_parent => {
                    Err(format!("the quota {name} that the pod names is a parent, and takes no pods"))
                }
                Some(id) => Ok(Some(*id)),
                None if matches!(&**name, DEFAULT_QUOTA | SYSTEM_QUOTA) => Ok(None),
                None => Err(format!("the quota {name} that the pod names does not exist")),
            };
        }
        let own = trees.by_name.get(namespace).filter(|id| self.get(**id).key.namespace == *namespace);
        let listed = || trees.by_namespace.get(namespace).and_then(|by_key| by_key.values().next());
        let default = || trees.by_name.get(DEFAULT_QUOTA);
        let takes_pods = |id: &&QuotaId| !self.tree(**id).fact.is_parent;
        Ok(own.filter(takes_pods).or_else(listed).filter(takes_pods).or_else(default).copied())
    }

    fn tree(&self, id: QuotaId) -> &Tree {
        self.get(id).tree().expect("a quota that is listed with the trees is one of theirs")
    }

    pub(super) fn tree_mut(&mut self, id: QuotaId) -> &mut Tree {
        match &mut self.get_mut(id).policy {
            Policy::Tree(tree) => tree,
            _ => unreachable!("a quota that is listed with the trees is one of theirs"),
        }
    }

    /// Takes in a quota of a tree.
    pub fn observe_tree(&mut self, fact: TreeFact, names: &mut ResourceNames) -> Reassigned {
        let key = fact.key.clone();
        if let Some(id) = self.find(&key)
            && self.tree(id).fact == fact
        {
            return Reassigned::default();
        }
        let pool = self.pool_of(&key.group, &fact.tree);
        let is_new = self.find(&key).is_none();
        let new = Tree::new(fact, names);
        let mut reassigned = Reassigned::default();
        let touch = |reassigned: &mut Reassigned, fact: &TreeFact| {
            reassigned.namespaces.extend(fact.namespaces.iter().cloned());
        };
        let id = if is_new {
            touch(&mut reassigned, &new.fact);
            reassigned.namespaces.insert(key.namespace.clone());
            reassigned.named.insert(key.name.clone());
            let policy =
                Policy::Tree(Tree { fact: TreeFact { key: key.clone(), ..TreeFact::default() }, ..new.clone() });
            self.find_or_insert(key.clone(), pool, policy)
        } else {
            let id = self.find(&key).expect("it was just found");
            let old = &self.tree(id).fact;
            if old.namespaces != new.fact.namespaces {
                touch(&mut reassigned, old);
                touch(&mut reassigned, &new.fact);
            }
            if old.is_parent != new.fact.is_parent {
                touch(&mut reassigned, &new.fact);
                reassigned.namespaces.insert(key.namespace.clone());
                reassigned.named.insert(key.name.clone());
            }
            self.detach(id);
            id
        };
        self.trees.by_name.entry(key.name.clone()).or_insert(id);
        let (old_pool, old_min) = (self.get(id).pool, self.tree(id).min.clone());
        if !is_new {
            self.pools[old_pool.0 as usize].count_named(&old_min, false);
        }
        self.pools[pool.0 as usize].count_named(&new.min, true);
        let mut near = self.chain_in_tree(id);
        let old = self.tree_mut(id);
        let (asked_below, asked_own) = (std::mem::take(&mut old.asked_below), std::mem::take(&mut old.asked_own));
        let quota = self.get_mut(id);
        quota.pool = pool;
        quota.policy = Policy::Tree(Tree { asked_below, asked_own, ..new });
        self.attach(id);
        // Those below it may have waited for it, and it may have closed a circle, or opened one.
        near.extend(self.chain_in_tree(id));
        near.extend(self.trees.naming.get(&key.name).into_iter().flatten());
        self.link_anew(near);
        reassigned.all = is_new && key.name.as_ref() == DEFAULT_QUOTA;
        self.changed.insert(id);
        reassigned
    }

    /// Takes a quota of a tree out of it, before it is forgotten.
    pub(super) fn unlist_tree(&mut self, id: QuotaId) {
        self.detach(id);
        let (name, pool, min) = (self.get(id).key.name.clone(), self.get(id).pool, self.tree(id).min.clone());
        if self.trees.by_name.get(&name) == Some(&id) {
            self.trees.by_name.remove(&name);
        }
        self.pools[pool.0 as usize].count_named(&min, false);
        let mut near = self.chain_in_tree(id);
        near.extend(self.trees.naming.get(&name).into_iter().flatten());
        near.retain(|quota| *quota != id);
        self.link_anew(near);
        self.trees.children.remove(&Node::Quota(id));
        self.trees.dirty.remove(&Node::Quota(id));
    }

    /// Pods of a quota that is about to be forgotten answer to others: which ones are to be looked at.
    pub fn release_tree(&mut self, id: QuotaId) -> Reassigned {
        let (key, fact) = (self.get(id).key.clone(), self.tree(id).fact.clone());
        if self.trees.by_name.get(&key.name) == Some(&id) {
            self.trees.by_name.remove(&key.name);
        }
        self.list_namespaces(id, false);
        let namespaces: BTreeSet<Name> = fact.namespaces.into_iter().chain([key.namespace]).collect();
        let all = key.name.as_ref() == DEFAULT_QUOTA;
        Reassigned { namespaces, named: BTreeSet::from([key.name]), all }
    }

    fn list_namespaces(&mut self, id: QuotaId, add: bool) {
        let (key, namespaces) = (self.get(id).key.clone(), self.tree(id).fact.namespaces.clone());
        for namespace in namespaces {
            let quotas = self.trees.by_namespace.entry(namespace.clone()).or_default();
            if add {
                quotas.insert(key.clone(), id);
            } else {
                quotas.remove(&key);
            }
            if quotas.is_empty() {
                self.trees.by_namespace.remove(&namespace);
            }
        }
    }

    /// The quota that one names as the one above it, if it exists. The root of a tree has none above it, nor have those
    /// beside the default tree.
    fn named_parent_in_tree(&self, id: QuotaId) -> Option<QuotaId> {
        let name = self.tree(id).fact.parent.as_ref().filter(|_| self.is_sharer(id))?;
        self.trees.by_name.get(name).copied()
    }

    /// A quota and those above it by what they name, each once.
    fn chain_in_tree(&self, id: QuotaId) -> Vec<QuotaId> {
        chain(id, |id| self.named_parent_in_tree(id))
    }

    fn parent_in_tree(&self, id: QuotaId) -> Option<QuotaId> {
        above_unless_circle(id, |id| self.named_parent_in_tree(id))
    }

    /// Puts those of these quotas below the right parent that are not.
    fn link_anew(&mut self, mut quotas: Vec<QuotaId>) {
        quotas.sort_unstable();
        quotas.dedup();
        for id in quotas {
            if self.get(id).parent != self.parent_in_tree(id) {
                self.detach(id);
                self.attach(id);
            }
        }
    }

    fn node_of(&self, id: QuotaId) -> Node {
        match self.get(id).parent {
            Some(parent) => Node::Quota(parent),
            None => Node::Top(self.tree(id).fact.tree.clone()),
        }
    }

    /// Whether a quota shares with others what is above it.
    fn is_sharer(&self, id: QuotaId) -> bool {
        let tree = self.tree(id);
        !tree.fact.is_root && !tree.is_beside()
    }

    /// Takes a quota off its parent.
    fn detach(&mut self, id: QuotaId) {
        self.list_namespaces(id, false);
        let node = self.node_of(id);
        let resources: Vec<ResourceId> = self.tree(id).max.iter().map(|(resource, _)| *resource).collect();
        let total: Vec<ResourceId> = self.tree(id).total.iter().map(|(resource, _)| *resource).collect();
        self.mark_dirty(&node, resources.iter().copied());
        self.mark_dirty(&Node::Quota(id), resources.iter().chain(&total).copied());
        let name = self.get(id).key.name.clone();
        if let Some(children) = self.trees.children.get_mut(&node)
            && children.get(&name) == Some(&id)
        {
            children.remove(&name);
        }
        if let Some(parent) = self.tree(id).fact.parent.clone()
            && let Some(naming) = self.trees.naming.get_mut(&parent)
        {
            naming.remove(&id);
            if naming.is_empty() {
                self.trees.naming.remove(&parent);
            }
        }
        let limited = std::mem::take(&mut self.tree_mut(id).limited);
        self.count_below(id, limited.nonzero().map(|(resource, amount)| (resource, -amount)).collect());
        self.set_parent(id, None);
        self.trees.apart.remove(&id);
        self.total_changed(total.into_iter().chain(resources));
    }

    /// Puts a quota below the parent that it names, and lets it ask for what it does.
    fn attach(&mut self, id: QuotaId) {
        self.list_namespaces(id, true);
        if let Some(name) = self.tree(id).fact.parent.clone() {
            self.trees.naming.entry(name).or_default().insert(id);
        }
        let parent = self.parent_in_tree(id);
        self.set_parent(id, parent);
        let (key, node) = (self.get(id).key.clone(), self.node_of(id));
        if self.is_sharer(id) {
            self.trees.children.or_insert_with(node.clone(), BTreeMap::new).insert(key.name.clone(), id);
        } else {
            self.trees.apart.insert(id);
        }
        let resources: Vec<ResourceId> = self.tree(id).max.iter().map(|(resource, _)| *resource).collect();
        let total: Vec<ResourceId> = self.tree(id).total.iter().map(|(resource, _)| *resource).collect();
        self.mark_dirty(&node, resources.iter().copied());
        self.mark_dirty(&Node::Quota(id), resources.iter().chain(&total).copied());
        self.request_changed(id, resources.iter().copied());
        self.total_changed(total.into_iter().chain(resources));
    }

    /// Adds to what the quotas above ask for.
    fn count_below(&mut self, id: QuotaId, changes: Vec<(ResourceId, i128)>) {
        let Some(parent) = self.get(id).parent else { return };
        for (resource, change) in &changes {
            self.tree_mut(parent).asked_below.add(*resource, *change);
        }
        self.request_changed(parent, changes.into_iter().map(|(resource, _)| resource));
    }

    /// What a quota's pods, or the quotas below it, ask for has changed.
    pub(super) fn request_changed(&mut self, id: QuotaId, resources: impl Iterator<Item = ResourceId>) {
        if !self.is_sharer(id) {
            return;
        }
        let tree = self.tree(id);
        let mut changes = Vec::new();
        for resource in resources {
            let Some(max) = amount_of(&tree.max, resource) else { continue };
            let limited = tree.request(resource).min(max);
            let change = limited - tree.limited.get(resource);
            if change != 0 {
                changes.push((resource, change));
            }
        }
        for (resource, change) in &changes {
            self.tree_mut(id).limited.add(*resource, *change);
        }
        let node = self.node_of(id);
        self.mark_dirty(&node, changes.iter().map(|(resource, _)| *resource));
        if !changes.is_empty() {
            self.count_below(id, changes);
        }
    }

    fn mark_dirty(&mut self, node: &Node, resources: impl Iterator<Item = ResourceId>) {
        let mut resources = resources.peekable();
        if resources.peek().is_some() {
            self.trees.dirty.entry(node.clone()).or_default().extend(resources);
        }
    }

    /// What the default tree has to share has changed.
    pub(super) fn total_changed(&mut self, resources: impl Iterator<Item = ResourceId>) {
        if !self.trees.is_empty() {
            self.mark_dirty(&Node::Top(Name::default()), resources);
        }
    }

    /// Counts what pods use that answer to no quota of a tree, or to one beside it (or no longer).
    pub(super) fn count_outside_trees(&mut self, pod: &Pod, charge: &[(ResourceId, Amount)], add: bool) {
        let quota = pod.quotas.iter().find_map(|quota| self.get(*quota).tree());
        let (is_outside, is_beside) = (quota.is_none(), quota.is_some_and(Tree::is_beside));
        if is_outside {
            self.trees.outside.charge(charge, add);
        }
        if is_outside || is_beside {
            self.total_changed(charge.iter().map(|(resource, _)| *resource));
        }
    }

    /// What the quotas at the top of a tree share.
    fn tree_total(&self, tree: &Name, resource: ResourceId) -> i128 {
        if !tree.is_empty() {
            return 0; // A tree has what its root has, and this one has lost its root.
        }
        let mut total = self.total.get(resource) - self.trees.outside.get(resource);
        for id in &self.trees.apart {
            let quota = self.get(*id);
            let tree = self.tree(*id);
            if tree.is_beside() {
                total -= quota.ledger.used.get(resource);
            } else if tree.fact.is_root && !tree.fact.ignores_default_tree {
                total -= amount_of(&tree.total, resource).unwrap_or(0);
            }
        }
        total.max(0)
    }

    /// Whether what quotas may hold is not worked out for all of them.
    pub fn is_stale(&self) -> bool {
        !self.trees.dirty.is_empty()
    }

    /// These, with what all may hold worked out.
    pub fn fresh(&self) -> Cow<'_, Quotas> {
        if !self.is_stale() {
            return Cow::Borrowed(self);
        }
        let mut fresh = self.clone();
        fresh.refresh_runtimes();
        Cow::Owned(fresh)
    }

    /// Shares out anew what changed, from the top down, for all.
    pub fn refresh_runtimes(&mut self) {
        let mut levels: Vec<Vec<(Node, ResourceId)>> = Vec::new();
        for (node, resources) in std::mem::take(&mut self.trees.dirty) {
            let depth = match &node {
                Node::Top(_) => 0,
                Node::Quota(id) => self.path(*id).count(),
            };
            levels.resize_with(levels.len().max(depth + 1), Vec::new);
            levels[depth].extend(resources.into_iter().map(|resource| (node.clone(), resource)));
        }
        let mut depth = 0;
        while depth < levels.len() {
            let mut due = std::mem::take(&mut levels[depth]);
            due.sort_unstable();
            due.dedup();
            depth += 1;
            for (node, resource) in due {
                let moved = self.share_anew(&node, resource);
                if moved.is_empty() {
                    continue;
                }
                levels.resize_with(levels.len().max(depth + 1), Vec::new);
                levels[depth].extend(moved.into_iter().map(|id| (Node::Quota(id), resource)));
            }
        }
    }

    /// Shares out anew what bears on these quotas, and leaves the others for later.
    pub fn refresh_runtimes_of(&mut self, quotas: &[QuotaId]) {
        for quota in quotas {
            if self.get(*quota).tree().is_none() {
                continue;
            }
            let mut path: Vec<QuotaId> = self.path(*quota).collect();
            path.reverse();
            let top = self.node_of(path[0]);
            for node in std::iter::once(top).chain(path.into_iter().map(Node::Quota)) {
                for resource in self.trees.dirty.remove(&node).unwrap_or_default() {
                    for moved in self.share_anew(&node, resource) {
                        self.mark_dirty(&Node::Quota(moved), std::iter::once(resource));
                    }
                }
            }
        }
    }

    /// Shares out what one has of a resource among those below it. Returns whose share moved, of those that have others
    /// below them.
    fn share_anew(&mut self, node: &Node, resource: ResourceId) -> Vec<QuotaId> {
        let total = match node {
            Node::Top(tree) => self.tree_total(tree, resource),
            Node::Quota(id) => self.tree(*id).runtime(resource).unwrap_or(0),
        };
        let mut parents = Vec::new();
        let Some(children) = self.trees.children.get(node) else { return parents };
        let sharer = |id: &QuotaId| {
            let tree = self.tree(*id);
            let max = amount_of(&tree.max, resource)?;
            let (min, weight) = (tree.min(resource), tree.weight(resource, max));
            Some((*id, Sharer { min, request: tree.limited.get(resource), weight, lends: tree.fact.lends }))
        };
        let (ids, sharers): (Vec<QuotaId>, Vec<Sharer>) = children.values().filter_map(sharer).unzip();
        let runtimes = share_out(total, &sharers, self.trees.scale_min);
        for (id, runtime) in ids.into_iter().zip(runtimes) {
            let before = self.tree(id).runtime.get(resource);
            if before == runtime {
                continue;
            }
            self.tree_mut(id).runtime.add(resource, runtime - before);
            let quota = self.get(id);
            let is_parent = self.trees.children.get(&Node::Quota(id)).is_some();
            let is_short = quota.ledger.stays(resource) > runtime && !quota.pods.is_empty();
            let pool = quota.pool;
            let moved = &mut self.trees.moved;
            moved.shares.push(id);
            if runtime > before {
                moved.risen.push(id);
            } else if is_short {
                moved.drawn_on.insert(pool);
            }
            if is_parent {
                parents.push(id);
            }
        }
        parents
    }

    /// Whether pods of a quota may claim what others hold beyond their due: there is something left of its min.
    pub fn may_reclaim(&self, id: QuotaId) -> bool {
        let quota = self.get(id);
        quota.tree().is_none_or(|tree| tree.min.iter().any(|(r, min)| i128::from(*min) > quota.ledger.taken(*r)))
    }

    /// The levels of a tree at which something must be given up, or become more, before a pod that was refused there can
    /// run. One level does where nobody below it could give anything up: nothing else helps as long as it has no more.
    pub fn gates(&self, refusals: &[Refusal]) -> Vec<QuotaId> {
        let of_tree = || refusals.iter().filter(|refusal| refusal.code == Code::RuntimeExceeded);
        let holds_nothing = |refusal: &&Refusal| self.get(refusal.quota).ledger.stays(refusal.resource) <= 0;
        match of_tree().find(holds_nothing) {
            Some(refusal) => vec![refusal.quota],
            None => of_tree().map(|refusal| refusal.quota).collect(),
        }
    }

    /// Whether a pod that was refused so cannot be helped by anybody's going: nobody holds anything where it was.
    pub fn is_beyond_help(&self, refusals: &[Refusal]) -> bool {
        let mut of_tree = refusals.iter().filter(|refusal| refusal.code == Code::RuntimeExceeded);
        of_tree.any(|refusal| self.get(refusal.quota).ledger.taken(refusal.resource) <= 0)
    }

    pub(super) fn refused_by_tree(
        &self,
        id: QuotaId,
        charge: &[(ResourceId, Amount)],
        fixed: bool,
        names: &ResourceNames,
    ) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        let mut refuse = |code, quota, resource, used, requested, limit| {
            if used + requested > limit {
                let numbers = Numbers { resource: names.name(resource).clone(), used, requested, limit };
                refusals.push(Refusal { code, quota, resource, numbers });
            }
        };
        for level in self.path(id) {
            let (tree, ledger) = (self.tree(level), &self.get(level).ledger);
            for (resource, amount) in charge {
                if let Some(runtime) = tree.runtime(*resource) {
                    let (used, asked) = (ledger.taken(*resource), i128::from(*amount));
                    refuse(Code::RuntimeExceeded, level, *resource, used, asked, runtime);
                }
            }
        }
        if fixed {
            let (tree, ledger) = (self.tree(id), &self.get(id).ledger);
            for (resource, amount) in charge {
                if let Some(min) = amount_of(&tree.min, *resource) {
                    let (used, asked) = (ledger.fixed.get(*resource), i128::from(*amount));
                    refuse(Code::NonPreemptibleMinExceeded, id, *resource, used, asked, min);
                }
            }
        }
        refusals
    }

    pub(super) fn short_in_tree(&self, id: QuotaId, charge: &[(ResourceId, Amount)], fixed: bool) -> Vec<Shortage> {
        let mut shortages = Vec::new();
        for level in self.path(id) {
            let (tree, ledger) = (self.tree(level), &self.get(level).ledger);
            for (resource, amount) in charge {
                let Some(runtime) = tree.runtime(*resource) else { continue };
                let over = ledger.to_be_used(*resource) + i128::from(*amount) - runtime;
                if over > 0 {
                    shortages.push(Shortage { ledger: LedgerId::Quota(level), resource: *resource, amount: over });
                }
            }
        }
        if fixed && self.refused_for_min(id, charge) {
            shortages.push(Shortage { ledger: LedgerId::Fixed, resource: charge[0].0, amount: 1 });
        }
        shortages
    }

    /// Whether a pod that is never evicted would pass its quota's min.
    fn refused_for_min(&self, id: QuotaId, charge: &[(ResourceId, Amount)]) -> bool {
        let (tree, ledger) = (self.tree(id), &self.get(id).ledger);
        charge.iter().any(|(resource, amount)| {
            let min = amount_of(&tree.min, *resource);
            min.is_some_and(|min| ledger.fixed.get(*resource) + i128::from(*amount) > min)
        })
    }

    /// What is asked for in trees equals a recount from below: of each quota what it asks of its parent, of each parent
    /// what those below it ask for. The error is the first that does not.
    pub fn check_requests(&self) -> Result<(), String> {
        let mut below: BTreeMap<QuotaId, Sums> = BTreeMap::new();
        for (id, quota) in self.iter() {
            let Some(tree) = quota.tree() else { continue };
            let asked =
                |(resource, max): &(ResourceId, Amount)| (*resource, tree.request(*resource).min(i128::from(*max)));
            let mut limited = Sums::default();
            if self.is_sharer(id) {
                tree.max.iter().map(asked).for_each(|(resource, amount)| limited.add(resource, amount));
            }
            if !limited.nonzero().eq(tree.limited.nonzero()) {
                return Err(format!("{}: asks for {:?}, but a recount gives {limited:?}", quota.key, tree.limited));
            }
            if let Some(parent) = quota.parent {
                let below = below.entry(parent).or_default();
                limited.nonzero().for_each(|(resource, amount)| below.add(resource, amount));
            }
        }
        for (id, quota) in self.iter() {
            let Some(tree) = quota.tree() else { continue };
            let counted = below.remove(&id).unwrap_or_default();
            if !counted.nonzero().eq(tree.asked_below.nonzero()) {
                let kept = &tree.asked_below;
                return Err(format!("{}: {kept:?} is asked for below it, but a recount gives {counted:?}", quota.key));
            }
        }
        Ok(())
    }
}
