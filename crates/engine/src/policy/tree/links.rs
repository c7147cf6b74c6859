//! Where a quota stands in its tree, as it comes, changes and goes.

use std::collections::{BTreeMap, BTreeSet};

use crate::fact::Name;
use crate::ledger::links::{above_unless_circle, chain};
use crate::policy::tree::{Node, Tree};
use crate::policy::{Policy, QuotaId, Quotas, Reassigned, TreeFact, Users};
use crate::resources::{ResourceId, ResourceNames};
use crate::sign::Sign;

impl Quotas {
    /// Takes in a quota of a tree.
    pub(in crate::policy) fn observe_tree(&mut self, fact: TreeFact, names: &mut ResourceNames) -> Option<Reassigned> {
        let key = fact.key.clone();
        if let Some(id) = self.find(&key)
            && self.tree(id).fact == fact
        {
            return None;
        }
        let pool = self.pool_of(&key.group, &fact.tree);
        let is_new = self.find(&key).is_none();
        let is_beside = self.shared.trees.is_beside(&fact.key.name);
        let new = Tree::new(fact, is_beside, names);
        // Who may use a quota is also said for those below it.
        let says_other = |old: &TreeFact| (&old.users, &old.parent) != (&new.fact.users, &new.fact.parent);
        let users_moved = match self.find(&key) {
            Some(id) => says_other(&self.tree(id).fact),
            None => new.fact.users != Users::Unsaid,
        };
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
        self.shared.trees.links.list(key.name.clone(), id);
        let (old_pool, old_min) = (self.get(id).pool, self.tree(id).min.clone());
        if !is_new {
            self.pools[old_pool.0 as usize].count_named(&old_min, Sign::Take);
        }
        self.pools[pool.0 as usize].count_named(&new.min, Sign::Add);
        let mut near = self.chain_in_tree(id);
        let old = self.tree_mut(id);
        let (asked_below, asked_own) = (std::mem::take(&mut old.asked_below), std::mem::take(&mut old.asked_own));
        let quota = self.get_mut(id);
        quota.pool = pool;
        quota.policy = Policy::Tree(Tree { asked_below, asked_own, ..new });
        self.attach(id);
        // Those below it may have waited for it, and it may have closed a circle, or opened one.
        near.extend(self.chain_in_tree(id));
        near.extend(self.shared.trees.links.naming(&key.name));
        self.link_anew(near);
        reassigned.all = users_moved || is_new && key.name == self.shared.trees.default_quota;
        self.moved.shares.insert(id);
        Some(reassigned)
    }

    /// Takes a quota of a tree out of it, before it is forgotten.
    pub(in crate::policy) fn unlist_tree(&mut self, id: QuotaId) {
        self.detach(id);
        let (name, pool, min) = (self.get(id).key.name.clone(), self.get(id).pool, self.tree(id).min.clone());
        self.shared.trees.links.unlist(&name, id);
        self.pools[pool.0 as usize].count_named(&min, Sign::Take);
        let mut near = self.chain_in_tree(id);
        near.extend(self.shared.trees.links.naming(&name));
        near.retain(|quota| *quota != id);
        self.link_anew(near);
        self.shared.trees.children.remove(&Node::Quota(id));
        self.shared.trees.dirty.remove(&Node::Quota(id));
    }

    /// Pods of a quota that is about to be forgotten answer to others: which ones are to be looked at.
    pub(in crate::policy) fn release_tree(&mut self, id: QuotaId) -> Reassigned {
        let (key, fact) = (self.get(id).key.clone(), self.tree(id).fact.clone());
        self.shared.trees.links.unlist(&key.name, id);
        self.list_namespaces(id, Sign::Take);
        let namespaces: BTreeSet<Name> = fact.namespaces.into_iter().chain([key.namespace]).collect();
        let all = key.name == self.shared.trees.default_quota || fact.users != Users::Unsaid;
        Reassigned { namespaces, named: BTreeSet::from([key.name]), all, groups: false }
    }

    fn list_namespaces(&mut self, id: QuotaId, sign: Sign) {
        let (key, namespaces) = (self.get(id).key.clone(), self.tree(id).fact.namespaces.clone());
        for namespace in namespaces {
            let quotas = self.shared.trees.by_namespace.entry(namespace.clone()).or_default();
            if sign.is_add() {
                quotas.insert(key.clone(), id);
            } else {
                quotas.remove(&key);
            }
            if quotas.is_empty() {
                self.shared.trees.by_namespace.remove(&namespace);
            }
        }
    }

    /// The quota that one names as the one above it, if it exists. The root of a tree has none above it, nor have those
    /// beside the default tree.
    fn named_parent_in_tree(&self, id: QuotaId) -> Option<QuotaId> {
        let name = self.tree(id).fact.parent.as_ref().filter(|_| self.is_sharer(id))?;
        self.shared.trees.links.find(name)
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

    pub(super) fn node_of(&self, id: QuotaId) -> Node {
        match self.get(id).parent {
            Some(parent) => Node::Quota(parent),
            None => Node::Top(self.tree(id).fact.tree.clone()),
        }
    }

    /// Whether a quota shares with others what is above it.
    pub(super) fn is_sharer(&self, id: QuotaId) -> bool {
        let tree = self.tree(id);
        !tree.is_root() && !tree.is_beside
    }

    /// Takes a quota off its parent.
    fn detach(&mut self, id: QuotaId) {
        self.list_namespaces(id, Sign::Take);
        let node = self.node_of(id);
        let resources: Vec<ResourceId> = self.tree(id).max.iter().map(|(resource, _)| *resource).collect();
        let total: Vec<ResourceId> = self.tree(id).total.iter().map(|(resource, _)| *resource).collect();
        self.mark_dirty(&node, resources.iter().copied());
        self.mark_dirty(&Node::Quota(id), resources.iter().chain(&total).copied());
        let name = self.get(id).key.name.clone();
        if let Some(children) = self.shared.trees.children.get_mut(&node)
            && children.get(&name) == Some(&id)
        {
            children.remove(&name);
        }
        if let Some(parent) = self.tree(id).fact.parent.clone() {
            self.shared.trees.links.unname_parent(&parent, id);
        }
        let limited = std::mem::take(&mut self.tree_mut(id).limited);
        self.count_below(id, limited.nonzero().map(|(resource, amount)| (resource, -amount)).collect());
        self.set_parent(id, None);
        self.shared.trees.apart.remove(&id);
        self.tree_total_changed(total.into_iter().chain(resources));
    }

    /// Puts a quota below the parent that it names, and lets it ask for what it does.
    fn attach(&mut self, id: QuotaId) {
        self.list_namespaces(id, Sign::Add);
        if let Some(name) = self.tree(id).fact.parent.clone() {
            self.shared.trees.links.name_parent(name, id);
        }
        let parent = self.parent_in_tree(id);
        self.set_parent(id, parent);
        let (key, node) = (self.get(id).key.clone(), self.node_of(id));
        if self.is_sharer(id) {
            self.shared.trees.children.or_insert_with(node.clone(), BTreeMap::new).insert(key.name.clone(), id);
        } else {
            self.shared.trees.apart.insert(id);
        }
        let resources: Vec<ResourceId> = self.tree(id).max.iter().map(|(resource, _)| *resource).collect();
        let total: Vec<ResourceId> = self.tree(id).total.iter().map(|(resource, _)| *resource).collect();
        self.mark_dirty(&node, resources.iter().copied());
        self.mark_dirty(&Node::Quota(id), resources.iter().chain(&total).copied());
        self.request_changed(id, resources.iter().copied());
        self.tree_total_changed(total.into_iter().chain(resources));
    }
}
