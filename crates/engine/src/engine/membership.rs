//! Which quotas a pod answers to, and what becomes of that when quotas come, change and go.

use crate::engine::Engine;
use crate::fact::{Name, QuotaFact, QuotaKey};
use crate::gangs::GangId;
use crate::pods::{PodId, QuotaOf};
use crate::policy::{Membership, QuotaId, Reassigned, Ties};
use crate::reason::Code;
use crate::sign::Sign;
use crate::world::{World, charge_of};

/// The quotas that a pod answers to, and how it is compared by them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodMembership {
    quotas: Vec<QuotaId>,
    quota: QuotaOf,
    membership_error: Option<(Code, Name)>,
}

impl World {
    /// The quotas that a pod answers to as things stand.
    pub fn pod_membership(&self, id: PodId) -> PodMembership {
        let pod = self.pods.get(id);
        let of_group = pod.gang.and_then(|gang| self.gangs.get(gang).fact.as_ref()?.queue.as_ref());
        let queue = of_group.or(pod.queue.as_ref());
        let labels = self.relations.labels_of(&pod.namespace);
        let ties = Ties { namespace: &pod.namespace, labels, quota: pod.tree_quota.as_ref(), queue };
        let Membership { quotas, error } = self.quotas.membership(ties);
        let (plain, binding): (Vec<QuotaId>, _) = quotas.iter().partition(|id| self.quotas.is_plain(**id));
        PodMembership { quota: QuotaOf::new(&binding, plain.first().copied()), quotas, membership_error: error }
    }

    /// The quota that admits a group. The error is why there is none, though there should be.
    pub fn admitting_quota(&self, id: GangId) -> Result<Option<QuotaId>, (Code, String)> {
        let gang = self.gangs.get(id);
        let named = gang.fact.as_ref().and_then(|fact| fact.queue.as_ref());
        let namespace = &gang.key.namespace;
        self.quotas.admitting_quota(namespace, self.relations.labels_of(namespace), named)
    }

    /// Notes that a pod belongs to the group it names, or to none.
    pub fn join_gang(&mut self, id: PodId) {
        let pod = self.pods.get(id);
        let named = pod.group_name.as_ref().map(|name| name.of(&pod.namespace));
        let gang = named.map(|key| self.gangs.number(&key));
        self.leave_gang(id);
        let task = self.pods.get(id).task.clone();
        self.pods.get_mut(id).role = task;
        if let Some(number) = gang {
            let group = self.gangs.get_mut(number);
            group.named_by.insert(id);
            let (bundle, part) = (group.bundle, group.key.to_string());
            if bundle.is_some() {
                self.pods.get_mut(id).role = Some(part.into());
            }
            let counts_in = bundle.unwrap_or(number);
            self.gangs.get_mut(counts_in).members.insert(id);
            self.pods.get_mut(id).gang = Some(counts_in);
            self.count_in_gang(id, Sign::Add);
            self.note_terms(id, number);
        }
        self.pods.get_mut(id).priority = self.priority_of(id);
    }

    /// The priority that a pod has beside pods outside its group.
    pub fn priority_of(&self, id: PodId) -> i32 {
        let pod = self.pods.get(id);
        let of_group = pod.gang.and_then(|gang| self.gangs.get(gang).fact.as_ref()?.members_priority);
        of_group.unwrap_or(pod.own_priority)
    }

    /// Counts a pod in its gang (or no longer), if it is one that counts as running.
    pub fn count_in_gang(&mut self, id: PodId, sign: Sign) {
        let pod = self.pods.get(id);
        self.gangs.count(pod, &charge_of(&self.shapes, pod), sign);
    }

    /// Takes a pod out of its gang.
    pub fn leave_gang(&mut self, id: PodId) {
        let Some(gang) = self.pods.get(id).gang else { return };
        self.count_in_gang(id, Sign::Take);
        self.pods.get_mut(id).gang = None;
        self.gangs.get_mut(gang).members.remove(&id);
        let parts = self.gangs.get(gang).parts.clone();
        let parts: Vec<GangId> = parts.iter().filter_map(|part| self.gangs.find(part)).collect();
        for named in parts.into_iter().chain([gang]) {
            if self.gangs.get_mut(named).named_by.remove(&id) {
                self.note_terms(id, named);
            }
            self.gangs.note_changed(named);
        }
    }

    /// Notes that a pod that says something of its group joins it or leaves it.
    fn note_terms(&mut self, id: PodId, group: GangId) {
        if self.pods.get(id).group_terms.is_some() {
            self.gangs.note_unsettled(group);
        }
        self.gangs.note_unsettled_partner(group);
    }

    /// Notes that a pod was bound before: the minimum of its group ran.
    pub fn note_started(&mut self, id: PodId) {
        if let Some(gang) = self.pods.get(id).gang {
            self.gangs.get_mut(gang).has_started = true;
        }
    }

    pub fn set_membership(&mut self, id: PodId, membership: PodMembership) {
        let pod = self.pods.get_mut(id);
        let PodMembership { quotas, quota, membership_error } = membership;
        (pod.quotas, pod.quota, pod.membership_error) = (quotas, quota, membership_error);
    }

    /// Why a pod has no place under a quota, if so.
    pub fn membership_error(&self, id: PodId) -> Option<(Code, String)> {
        let pod = self.pods.get(id);
        if let Some((code, why)) = &pod.membership_error {
            return Some((*code, why.to_string()));
        }
        pod.quotas.iter().find_map(|quota| self.quotas.closed(*quota))
    }
}

impl Engine {
    /// All levels that bear on a pod and whose ceilings move.
    pub(super) fn moving_levels(&self, pod: PodId) -> Vec<QuotaId> {
        self.world.quotas.moving_levels(&self.world.pods.get(pod).quotas)
    }

    /// Lets pods answer to the quotas that govern them now.
    pub(super) fn reassign_pods(&mut self, pods: Vec<PodId>) {
        for id in pods {
            let membership = self.world.pod_membership(id);
            let pod = self.world.pods.get(id);
            if (&membership.quotas, membership.quota, &membership.membership_error)
                != (&pod.quotas, pod.quota, &pod.membership_error)
            {
                self.change_pod(id, |engine| engine.world.set_membership(id, membership));
                self.remark.insert(id);
            }
        }
    }

    /// Gives pods the priority that they have as things stand.
    pub(super) fn prioritize_pods(&mut self, pods: &[PodId]) {
        for id in pods {
            let priority = self.world.priority_of(*id);
            if priority != self.world.pods.get(*id).priority {
                self.world.takings.begin_anew();
                self.change_pod(*id, |engine| engine.world.pods.get_mut(*id).priority = priority);
            }
        }
    }

    pub(super) fn reassign_namespaces<'a>(&mut self, namespaces: impl Iterator<Item = &'a Name>) {
        let pods = namespaces.flat_map(|namespace| self.world.pods.of_namespace(namespace)).collect();
        self.reassign_pods(pods);
    }

    /// Lets pods and groups answer to the quotas that govern them now.
    pub(super) fn reassign(&mut self, reassigned: &Reassigned) {
        let Reassigned { namespaces, named, all, groups } = reassigned;
        if *all {
            let pods = self.world.pods.iter().map(|(id, _)| id).collect();
            self.reassign_pods(pods);
        } else {
            self.reassign_namespaces(namespaces.iter());
            let named = named.iter().flat_map(|name| self.world.pods.naming_tree_quota(name)).collect();
            self.reassign_pods(named);
        }
        if *groups {
            self.world.gangs.note_all_changed();
        }
    }

    /// Takes in a quota. Returns whether the fact says something new.
    pub(super) fn observe_quota(&mut self, fact: QuotaFact) -> bool {
        let reassigned = self.world.quotas.observe(fact, &mut self.world.names);
        if let Some(reassigned) = &reassigned {
            self.reassign(reassigned);
        }
        reassigned.is_some()
    }

    /// Takes in the queue of a namespace. Returns whether it is another one than before.
    pub(super) fn set_queue_of_namespace(&mut self, namespace: Name, queue: Option<Name>) -> bool {
        let changed = self.world.quotas.set_queue_of_namespace(namespace.clone(), queue);
        if changed {
            self.reassign_namespaces(std::iter::once(&namespace));
        }
        changed
    }

    /// A quota is gone: its pods answer to others, and then nothing is charged to it any more.
    pub(super) fn quota_gone(&mut self, key: &QuotaKey) -> bool {
        let Some(id) = self.world.quotas.find(key) else { return false };
        let reassigned = self.world.quotas.release(id);
        self.reassign(&reassigned);
        if reassigned.groups {
            self.settle_gangs();
        }
        self.overused_since.remove(&id);
        self.recheck_overuse.remove(&id);
        self.world.quotas.forget(id);
        true
    }
}
