//! What is requested goes up a tree, what may be held comes down.

use std::collections::BTreeMap;

use crate::fact::{Amount, Name};
use crate::ledger::amount_of;
use crate::ledger::pool::PoolId;
use crate::ledger::sums::Sums;
use crate::policy::tree::sharing::{Sharer, share_out};
use crate::policy::tree::{Node, Tree};
use crate::policy::{Charge, Counted, QuotaId, Quotas};
use crate::resources::ResourceId;
use crate::sign::Sign;

impl Quotas {
    /// Adds to what the quotas above ask for.
    pub(super) fn count_below(&mut self, id: QuotaId, changes: Vec<(ResourceId, i128)>) {
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

    pub(super) fn mark_dirty(&mut self, node: &Node, resources: impl Iterator<Item = ResourceId>) {
        let mut resources = resources.peekable();
        if resources.peek().is_some() {
            self.shared.trees.dirty.entry(node.clone()).or_default().extend(resources);
        }
    }

    /// What the default tree has to share has changed.
    pub(in crate::policy) fn tree_total_changed(&mut self, resources: impl Iterator<Item = ResourceId>) {
        if !self.shared.trees.is_empty() {
            self.mark_dirty(&Node::Top(Name::default()), resources);
        }
    }

    /// Whether what a pod of these quotas has is not a tree's to share.
    pub fn takes_from_trees(&self, quotas: &[QuotaId]) -> bool {
        !self.shared.trees.is_empty() && self.tree_among(quotas).is_none_or(|tree| tree.is_beside)
    }

    /// The quota of a tree among these, if there is one.
    fn tree_among(&self, quotas: &[QuotaId]) -> Option<&Tree> {
        quotas.iter().find_map(|quota| self.get(*quota).policy.tree())
    }

    /// Counts what pods use, leave or reserve that answer to no quota of a tree, or to one beside it (or no longer).
    pub(in crate::policy) fn count_outside_trees(
        &mut self,
        quotas: &[QuotaId],
        what: Counted,
        charge: &Charge,
        sign: Sign,
    ) {
        let quota = self.tree_among(quotas);
        let (is_outside, is_beside) = (quota.is_none(), quota.is_some_and(|tree| tree.is_beside));
        if is_outside {
            what.of(&mut self.shared.trees.outside).charge(charge, sign);
        }
        if is_outside || is_beside {
            self.tree_total_changed(charge.iter().map(|(resource, _)| *resource));
        }
    }

    /// Counts a pod that answers to quotas of several pools, those of trees among them (or no longer).
    pub(in crate::policy) fn count_shared(&mut self, quotas: &[QuotaId], sign: Sign) {
        if quotas.len() < 2 {
            return;
        }
        for quota in
            quotas.iter().filter(|quota| self.get(**quota).policy.tree().is_some()).copied().collect::<Vec<_>>()
        {
            for other in quotas.iter().filter(|other| **other != quota) {
                let key = (quota, self.get(*other).pool);
                let count = self.shared.trees.shared.entry(key).or_default();
                *count = if sign.is_add() { *count + 1 } else { *count - 1 };
                if *count == 0 {
                    self.shared.trees.shared.remove(&key);
                }
            }
        }
    }

    /// Counts what a pod that answers to a quota requests (or no longer).
    pub(in crate::policy) fn count_own_request(&mut self, id: QuotaId, charge: &Charge, sign: Sign) {
        self.tree_mut(id).asked_own.charge(charge, sign);
        self.request_changed(id, charge.iter().map(|(resource, _)| *resource));
    }

    /// What the quotas at the top of a tree share.
    fn tree_total(&self, tree: &Name, resource: ResourceId) -> i128 {
        if !tree.is_empty() {
            return 0; // A tree has what its root has, and this one has lost its root.
        }
        let mut total = self.total.get(resource);
        // What is held outside now, and what will be when all have come and gone. Of all together the larger counts:
        // what leaves one quota may come to another.
        let outside = &self.shared.trees.outside;
        let (mut now, mut later) = (outside.used.get(resource), outside.to_be_used(resource));
        for id in &self.shared.trees.apart {
            let tree = self.tree(*id);
            if tree.is_beside {
                let ledger = &self.get(*id).ledger;
                now += ledger.used.get(resource);
                later += ledger.to_be_used(resource);
            } else if tree.fact.root.as_ref().is_some_and(|root| !root.ignores_default_tree) {
                total -= amount_of(&tree.total, resource).unwrap_or(0);
            }
        }
        total -= now.max(later);
        total.max(0)
    }

    /// Shares out anew what changed, from the top down, for all.
    pub(in crate::policy) fn refresh_runtimes(&mut self) {
        let mut levels: Vec<Vec<(Node, ResourceId)>> = Vec::new();
        for (node, resources) in std::mem::take(&mut self.shared.trees.dirty) {
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
    pub(in crate::policy) fn refresh_runtimes_of(&mut self, quotas: &[QuotaId]) {
        for quota in quotas {
            if self.get(*quota).policy.tree().is_none() {
                continue;
            }
            let mut path: Vec<QuotaId> = self.path(*quota).collect();
            path.reverse();
            let top = self.node_of(path[0]);
            for node in std::iter::once(top).chain(path.into_iter().map(Node::Quota)) {
                for resource in self.shared.trees.dirty.remove(&node).unwrap_or_default() {
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
        let Some(children) = self.shared.trees.children.get(node) else { return parents };
        let sharer = |id: &QuotaId| {
            let tree = self.tree(*id);
            let max = amount_of(&tree.max, resource)?;
            let (min, weight) = (tree.min(resource), tree.weight(resource, max));
            Some((*id, Sharer { min, request: tree.limited.get(resource), weight, lends: tree.fact.lends }))
        };
        let (ids, sharers): (Vec<QuotaId>, Vec<Sharer>) = children.values().filter_map(sharer).unzip();
        let runtimes = share_out(total, &sharers, self.shared.trees.scale_min);
        for (id, runtime) in ids.into_iter().zip(runtimes) {
            let before = self.tree(id).runtime.get(resource);
            if before == runtime {
                continue;
            }
            self.tree_mut(id).runtime.add(resource, runtime - before);
            let quota = self.get(id);
            let is_parent = self.shared.trees.children.get(&Node::Quota(id)).is_some();
            let is_short = quota.ledger.to_be_used(resource) > runtime;
            let has_reserved = quota.ledger.reserved.get(resource) > 0;
            let pool = quota.pool;
            let shared = self.shared.trees.shared.range((id, PoolId(0))..=(id, PoolId(u32::MAX)));
            let moved = &mut self.moved;
            moved.shares.insert(id);
            moved.limits = true;
            if runtime > before {
                moved.gates.push(id);
            } else if is_short {
                // Room that is on its way to its pods may be more than they may hold by now.
                moved.gates.extend(has_reserved.then_some(id));
                // Its pods may answer to quotas of other pools, and be protected from claimants there no longer.
                moved.drawn_on.insert(pool);
                moved.drawn_on.extend(shared.map(|((_, pool), _)| *pool));
            }
            if is_parent {
                parents.push(id);
            }
        }
        parents
    }

    /// What is asked for in trees equals a recount from below: of each quota what it asks of its parent, of each parent
    /// what those below it ask for. The error is the first that does not.
    pub(in crate::policy) fn check_requests(&self) -> Result<(), String> {
        let mut below: BTreeMap<QuotaId, Sums> = BTreeMap::new();
        for (id, quota) in self.iter() {
            let Some(tree) = quota.policy.tree() else { continue };
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
            let Some(tree) = quota.policy.tree() else { continue };
            let counted = below.remove(&id).unwrap_or_default();
            if !counted.nonzero().eq(tree.asked_below.nonzero()) {
                let kept = &tree.asked_below;
                return Err(format!("{}: {kept:?} is asked for below it, but a recount gives {counted:?}", quota.key));
            }
        }
        Ok(())
    }
}
