//! Which quotas a pod answers to, and what becomes of that when quotas come, change and go.

use crate::engine::Engine;
use crate::fact::{Name, QueueFact, QuotaKey};
use crate::gangs::GangId;
use crate::pods::{PodId, QuotaOf};
use crate::quota::queues::DEFAULT_QUEUE;
use crate::quota::trees::Reassigned;
use crate::quota::{Policy, QuotaId};
use crate::reason::Code;
use crate::world::{World, charge_of};

/// What rules a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ruling {
    quotas: Vec<QuotaId>,
    quota: QuotaOf,
    unruled: Option<(Code, Name)>,
}

impl World {
    /// What rules a pod as things stand.
    pub fn ruling(&self, id: PodId) -> Ruling {
        let pod = self.pods.get(id);
        let mut quotas = self.quotas.of_namespace(&pod.namespace).to_vec();
        let mut unruled = None;
        match self.quotas.tree_quota_of(&pod.namespace, pod.tree_quota.as_ref()) {
            Ok(quota) => quotas.extend(quota),
            Err(why) => unruled = Some((Code::QuotaNotFound, Name::from(why))),
        }
        if let Some(name) = self.queue_of(id) {
            match self.quotas.queues.find(&name) {
                Some(queue) => quotas.push(queue),
                None => {
                    let why = format!("the queue {name} does not exist");
                    unruled = Some((Code::QueueNotFound, Name::from(why)));
                }
            }
        }
        quotas.sort_by(|a, b| self.quotas.get(*a).key.cmp(&self.quotas.get(*b).key));
        let binding: Vec<QuotaId> = quotas.iter().copied().filter(|id| !self.quotas.get(*id).is_plain()).collect();
        Ruling { quota: QuotaOf::new(&binding), quotas, unruled }
    }

    /// The queue of a pod: its group's, its own, its namespace's, or the default where there are queues.
    fn queue_of(&self, id: PodId) -> Option<Name> {
        let pod = self.pods.get(id);
        let of_group = pod.gang.and_then(|gang| self.gangs.get(gang).fact.as_ref()?.queue.clone());
        of_group.or_else(|| pod.queue.clone()).or_else(|| self.default_queue(&pod.namespace))
    }

    /// The queue of those in a namespace that name none.
    fn default_queue(&self, namespace: &Name) -> Option<Name> {
        let default = || self.quotas.queues.find(DEFAULT_QUEUE).map(|_| Name::from(DEFAULT_QUEUE));
        self.queue_of_namespace.get(namespace).cloned().or_else(default)
    }

    /// The queue of a group.
    pub fn queue_name_of_gang(&self, id: GangId) -> Option<Name> {
        let gang = self.gangs.get(id);
        let named = gang.fact.as_ref().and_then(|fact| fact.queue.clone());
        named.or_else(|| self.default_queue(&gang.namespace))
    }

    /// Notes that a pod belongs to the group it names, or to none.
    pub fn join_gang(&mut self, id: PodId) {
        let pod = self.pods.get(id);
        let named = pod.group_name.clone().map(|name| (pod.namespace.clone(), name));
        let gang = named.map(|(namespace, name)| self.gangs.number(&namespace, &name));
        self.leave_gang(id);
        if let Some(gang) = gang {
            self.gangs.get_mut(gang).members.insert(id);
        }
        self.pods.get_mut(id).gang = gang;
        self.count_in_gang(id, true);
    }

    /// Counts a pod in its gang (or no longer), if it is one that counts as running.
    pub fn count_in_gang(&mut self, id: PodId, add: bool) {
        let pod = self.pods.get(id);
        self.gangs.count(pod, &charge_of(&self.shapes, pod), add);
    }

    /// Takes a pod out of its gang.
    pub fn leave_gang(&mut self, id: PodId) {
        self.count_in_gang(id, false);
        if let Some(gang) = self.pods.get_mut(id).gang.take() {
            self.gangs.get_mut(gang).members.remove(&id);
        }
    }

    pub fn set_ruling(&mut self, id: PodId, ruling: Ruling) {
        let pod = self.pods.get_mut(id);
        let Ruling { quotas, quota, unruled } = ruling;
        (pod.quotas, pod.quota, pod.unruled) = (quotas, quota, unruled);
    }

    /// Why a pod has no place under a quota, if so.
    pub fn unruled(&self, id: PodId) -> Option<(Code, String)> {
        let pod = self.pods.get(id);
        if let Some((code, why)) = &pod.unruled {
            return Some((*code, why.to_string()));
        }
        let queue = pod.quotas.iter().find(|quota| self.quotas.get(**quota).queue().is_some())?;
        self.quotas.closed_queue(*queue)
    }
}

impl Engine {
    /// Lets pods answer to the quotas that govern them now.
    pub(super) fn reassign_pods(&mut self, pods: Vec<PodId>) {
        for id in pods {
            let ruling = self.world.ruling(id);
            let pod = self.world.pods.get(id);
            if (&ruling.quotas, ruling.quota, &ruling.unruled) != (&pod.quotas, pod.quota, &pod.unruled) {
                self.change_pod(id, |engine| engine.world.set_ruling(id, ruling));
                self.remark.insert(id);
            }
        }
    }

    pub(super) fn reassign_namespaces<'a>(&mut self, namespaces: impl Iterator<Item = &'a Name>) {
        let pods = namespaces.flat_map(|namespace| self.world.pods.of_namespace(namespace)).collect();
        self.reassign_pods(pods);
    }

    pub(super) fn reassign(&mut self, reassigned: &Reassigned) {
        if reassigned.all {
            return self.reassign_all();
        }
        self.reassign_namespaces(reassigned.namespaces.iter());
        let named = reassigned.named.iter().flat_map(|name| self.world.pods.naming_tree_quota(name)).collect();
        self.reassign_pods(named);
    }

    pub(super) fn reassign_all(&mut self) {
        let pods = self.world.pods.iter().map(|(id, _)| id).collect();
        self.reassign_pods(pods);
    }

    pub(super) fn observe_queue(&mut self, fact: QueueFact) {
        let key = fact.key.clone();
        let is_plain =
            |engine: &Engine| engine.world.quotas.find(&key).is_none_or(|id| engine.world.quotas.get(id).is_plain());
        let was_plain = is_plain(self);
        let is_new = self.world.quotas.observe_queue(fact, &mut self.world.names);
        // A queue that begins to say something, or no longer does, is another thing to its pods.
        if is_new || was_plain != is_plain(self) {
            self.reassign_all();
            self.recount_gangs();
        }
    }

    /// Gangs may be in other queues than before.
    fn recount_gangs(&mut self) {
        let gangs: Vec<GangId> = self.world.gangs.iter().map(|(id, _)| id).collect();
        self.world.gangs.changed.extend(gangs);
    }

    pub(super) fn set_queue_of_namespace(&mut self, namespace: Name, queue: Option<Name>) {
        match queue {
            Some(queue) => drop(self.world.queue_of_namespace.insert(namespace.clone(), queue)),
            None => drop(self.world.queue_of_namespace.remove(&namespace)),
        }
        self.reassign_namespaces(std::iter::once(&namespace));
    }

    /// A quota is gone: its pods answer to others, and then nothing is charged to it any more.
    pub(super) fn quota_gone(&mut self, key: &QuotaKey) -> bool {
        let Some(id) = self.world.quotas.find(key) else { return false };
        match self.world.quotas.get(id).policy {
            Policy::Elastic(_) => {
                let moved = self.world.quotas.release_namespaces(id);
                self.reassign_namespaces(moved.iter());
            }
            Policy::Tree(_) => {
                let reassigned = self.world.quotas.release_tree(id);
                self.reassign(&reassigned);
                self.overused_since.remove(&id);
                self.recheck_overuse.remove(&id);
            }
            Policy::Queue(_) => {
                self.world.quotas.release_queue(id);
                self.reassign_all();
                self.recount_gangs();
                self.settle_gangs();
            }
        }
        self.world.quotas.forget(id);
        true
    }
}
