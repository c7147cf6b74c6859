//! Where a queue stands among the others, as it comes, changes and goes.

use crate::fact::Name;
use crate::ledger::links::{above_unless_circle, chain};
use crate::policy::queue::{QueuePolicy, ROOT_QUEUE};
use crate::policy::{Policy, QueueFact, QuotaId, Quotas, Reassigned};
use crate::resources::ResourceNames;
use crate::sign::Sign;

impl Quotas {
    /// Takes in a queue.
    pub(in crate::policy) fn observe_queue(
        &mut self,
        fact: QueueFact,
        names: &mut ResourceNames,
    ) -> Option<Reassigned> {
        let key = fact.key.clone();
        if self.find(&key).is_some_and(|id| self.queue(id).fact == fact) {
            return None;
        }
        let pool = self.pool_of(&key.group, &Name::default());
        let is_new = self.find(&key).is_none();
        let was_plain = self.find(&key).is_none_or(|id| self.queue(id).is_plain());
        // Who may use a queue is also said for those below it.
        let says_same = |old: &QueueFact| (&old.users, &old.parent) == (&fact.users, &fact.parent);
        let same_users = self.find(&key).is_some_and(|id| says_same(&self.queue(id).fact));
        let new = QueuePolicy::new(fact, names);
        // A queue that begins to say something, or no longer does, is another thing to its pods.
        let all = is_new || was_plain != new.is_plain() || !same_users;
        for (resource, _) in new.cards.iter().flatten() {
            self.shared.queues.note_card(*resource);
        }
        let mut near = Vec::new();
        let id = if is_new {
            let id = self.find_or_insert(key.clone(), pool, Policy::Queue(new));
            self.shared.queues.links.list(key.name.clone(), id);
            id
        } else {
            let id = self.find(&key).expect("it was just found");
            near = chain(id, |id| self.named_above(id));
            self.detach_queue(id);
            let old = self.queue_mut(id);
            let QueuePolicy { guaranteed_below, lent_below, children, .. } = std::mem::take(old);
            self.get_mut(id).policy = Policy::Queue(QueuePolicy { guaranteed_below, lent_below, children, ..new });
            id
        };
        self.attach_queue(id);
        // Those below it may have waited for it, and it may have closed a circle, or opened one.
        near.extend(chain(id, |id| self.named_above(id)));
        near.extend(self.shared.queues.links.naming(&key.name));
        self.link_queues_anew(near);
        self.moved.shares.insert(id);
        Some(Reassigned { all, groups: all, ..Reassigned::default() })
    }

    /// The queue that one names as the one above it, if it exists.
    fn named_above(&self, id: QuotaId) -> Option<QuotaId> {
        self.shared.queues.links.find(&self.named_parent(id)?)
    }

    /// Puts those of these queues below the right one that are not.
    fn link_queues_anew(&mut self, mut queues: Vec<QuotaId>) {
        queues.sort_unstable();
        queues.dedup();
        for id in queues {
            if self.get(id).parent != above_unless_circle(id, |id| self.named_above(id)) {
                self.detach_queue(id);
                self.attach_queue(id);
            }
        }
    }

    /// The name of the queue above, which is the root where none is named.
    fn named_parent(&self, id: QuotaId) -> Option<Name> {
        let queue = self.queue(id);
        let is_root = *queue.fact.key.name == *ROOT_QUEUE;
        (!is_root).then(|| queue.fact.parent.clone().unwrap_or_else(|| Name::from(ROOT_QUEUE)))
    }

    fn attach_queue(&mut self, id: QuotaId) {
        if let Some(name) = self.named_parent(id) {
            self.shared.queues.links.name_parent(name, id);
            self.set_parent(id, above_unless_circle(id, |id| self.named_above(id)));
            self.count_child(id, Sign::Add);
        }
        self.count_lent(id, Sign::Add);
    }

    fn detach_queue(&mut self, id: QuotaId) {
        self.count_lent(id, Sign::Take);
        let Some(name) = self.named_parent(id) else { return };
        self.shared.queues.links.unname_parent(&name, id);
        self.count_child(id, Sign::Take);
        self.set_parent(id, None);
    }

    /// Counts a queue with its parent (or no longer).
    fn count_child(&mut self, id: QuotaId, sign: Sign) {
        let guarantee = self.queue(id).guarantee.clone();
        let Some(parent) = self.get(id).parent else {
            self.shared.queues.guaranteed_top.charge(&guarantee, sign);
            return;
        };
        let parent = self.queue_mut(parent);
        parent.guaranteed_below.charge(&guarantee, sign);
        parent.children = if sign.is_add() { parent.children + 1 } else { parent.children - 1 };
    }

    /// Takes a queue out, before it is forgotten.
    pub(in crate::policy) fn unlist_queue(&mut self, id: QuotaId) {
        self.detach_queue(id);
        let name = self.get(id).key.name.clone();
        self.release_queue(id);
        let mut near = chain(id, |id| self.named_above(id));
        near.extend(self.shared.queues.links.naming(&name));
        near.retain(|queue| *queue != id);
        self.link_queues_anew(near);
    }

    /// From now on no pod answers to a queue that is about to be forgotten.
    pub(in crate::policy) fn release_queue(&mut self, id: QuotaId) -> Reassigned {
        let name = self.get(id).key.name.clone();
        self.shared.queues.links.unlist(&name, id);
        Reassigned { all: true, groups: true, ..Reassigned::default() }
    }
}
