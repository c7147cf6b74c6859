//! Taking in what was seen of pods.

use std::sync::Arc;

use crate::departure::Departure;
use crate::engine::Engine;
use crate::engine::wake::Change;
use crate::fact::{Name, Phase, PodFact, PodKey, PodSpec, Tick};
use crate::pods::{Place, Pod, PodId, QuotaOf};
use crate::relations::Effects;
use crate::reservations::{Reservation, ReservationIfBindFails, ReservationKind};
use crate::sign::Sign;

/// What is new of a pod.
struct PodNews {
    /// Where it fits, and who minds it.
    kind: bool,
    /// When it is tried.
    turn: bool,
    /// What it answers to.
    membership: bool,
    /// Whether it leaves, and for whom.
    departure: bool,
    nomination: bool,
}

impl Engine {
    pub(super) fn observe_pod(&mut self, now: Tick, mut fact: PodFact) {
        let key = fact.key();
        self.bound_names(&mut fact);
        self.world.relations.mention_namespace(&key.namespace);
        match self.world.pods.find(&key) {
            Some(id) if self.world.pods.get(id).uid != fact.uid => {
                self.pod_gone(&key);
                self.new_pod(now, fact);
            }
            Some(_) if fact.phase.is_over() => self.pod_gone(&key),
            Some(id) => self.known_pod(id, fact),
            None => self.new_pod(now, fact),
        }
    }

    fn new_pod(&mut self, now: Tick, fact: PodFact) {
        if fact.phase.is_over() {
            return;
        }
        let (spec, unready) = self.world.with_needs(&fact.spec, (&fact.namespace, &fact.uid), &fact.device_claims);
        let shape = self.world.shape(&spec, &fact.namespace, &fact.labels, fact.owner.as_ref());
        let node = fact.node.clone();
        let nominated = fact.nominated.clone();
        let id = self.world.pods.insert(Pod {
            namespace: fact.namespace,
            name: fact.name,
            uid: fact.uid,
            created: fact.created,
            labels: fact.labels,
            shape,
            priority: fact.priority,
            own_priority: fact.priority,
            never_preempts: fact.never_preempts,
            gates: fact.gates,
            ours: fact.ours,
            owner: fact.owner,
            problem: fact.problem,
            device_claims: fact.device_claims,
            plugin: Vec::new(),
            unready,
            place: Place::Waiting,
            stamp: 0,
            departure: Departure::seen(fact.leaving_since, fact.victim_of),
            reservation: None,
            awaits_victims: false,
            granted: Vec::new(),
            reservation_if_bind_fails: None,
            nominated,
            quotas: Vec::new(),
            quota: QuotaOf::None,
            membership_error: None,
            tree_quota: fact.tree_quota,
            queue: fact.queue,
            group_name: fact.group,
            role: fact.task.clone(),
            task: fact.task,
            group_terms: fact.group_terms,
            misfit: None,
            eviction_class: fact.eviction_class,
            cards: Vec::new(),
            counted: false,
            requested_devices: Vec::new(),
            gang: None,
            running: fact.phase == Phase::Running,
            marks: fact.marks,
            first_seen: now,
            group: None,
            reason: None,
        });
        self.list_asker(id, Sign::Add);
        self.world.takings.pod_comes(self.world.pods.get(id));
        self.world.join_gang(id);
        let membership = self.world.pod_membership(id);
        self.world.set_membership(id, membership);
        self.note_leaving_for(id, Sign::Add);
        if !self.world.pods.get(id).marks.is_empty() {
            self.remark.insert(id); // Nobody may have taken the mark off when its quota went.
        }
        match node {
            Some(name) => {
                self.place(id, &name);
                self.note(Change::PodPlaced);
            }
            None => {
                self.adopt_nomination(id);
                if self.world.pods.get(id).reservation.is_some() {
                    self.note(Change::Nomination); // It takes room that others count on.
                }
                self.enqueue(id);
            }
        }
        self.world.settle_request(id);
    }

    /// Puts a pod onto the node that its object names.
    fn place(&mut self, id: PodId, name: &Name) {
        let node = self.world.nodes.number(name);
        let mut effects = Effects::default();
        self.world.pods.get_mut(id).reason = None;
        self.world.enter(id, Place::Placed(node), &mut effects);
        self.world.note_started(id);
        self.settle_devices(id);
        self.wake(effects);
    }

    fn known_pod(&mut self, id: PodId, mut fact: PodFact) {
        self.keep_ties(id, &mut fact);
        let unready = self.read_needs(id, &mut fact);
        let news = self.news_of(id, &fact, unready.as_ref());
        if news.turn {
            self.world.takings.begin_anew();
        }
        let pod = self.world.pods.get(id);
        let (was_waiting, was_running) = (pod.place == Place::Waiting, pod.running);
        if pod.marks != fact.marks {
            self.world.pods.get_mut(id).marks = fact.marks.clone();
            self.remark.insert(id);
        }
        let is_running = fact.phase == Phase::Running;
        if was_running != is_running {
            self.world.change_running(id, is_running);
        }
        if news.kind || news.turn || news.membership {
            // While it was not queued, services and namespaces may have changed without regard to it.
            let has_new_shape = news.kind || was_waiting;
            self.change_pod(id, |engine| engine.take_in_spec(id, &fact, unready, has_new_shape));
        }
        if news.departure {
            self.take_in_departure(id, &fact, was_waiting);
        }
        self.take_in_node(id, fact.node.as_ref());
        if news.nomination {
            self.take_in_nomination(id, fact.nominated);
        }
        self.world.settle_request(id);
    }

    /// What a pod answers to is fixed once it is on a node: who edits it then moves no charge, and makes it no harder
    /// to evict.
    fn keep_ties(&self, id: PodId, fact: &mut PodFact) {
        let pod = self.world.pods.get(id);
        if !matches!(pod.place, Place::Placed(_)) {
            return;
        }
        fact.tree_quota.clone_from(&pod.tree_quota);
        fact.queue.clone_from(&pod.queue);
        fact.group.clone_from(&pod.group_name);
        fact.task.clone_from(&pod.task);
        fact.group_terms.clone_from(&pod.group_terms);
        fact.eviction_class = pod.eviction_class;
        let cards = &self.world.shapes.get(pod.shape).spec().cards;
        if fact.spec.cards != *cards {
            fact.spec = Arc::new(PodSpec { cards: cards.clone(), ..(*fact.spec).clone() });
        }
    }

    /// Whether a pod is known to be on a node, or was bound to one.
    pub fn is_placed(&self, pod: &PodKey, uid: &str) -> bool {
        let known = self.world.pods.find(pod).map(|id| self.world.pods.get(id));
        known.is_some_and(|pod| &*pod.uid == uid && pod.place != Place::Waiting)
    }

    /// Whether a pod on a node counts as one that answers to what this fact says it does.
    pub fn answers_as(&self, fact: &PodFact) -> bool {
        let Some(id) = self.world.pods.find(&fact.key()) else { return false };
        let pod = self.world.pods.get(id);
        matches!(pod.place, Place::Placed(_))
            && pod.uid == fact.uid
            && pod.tree_quota == fact.tree_quota
            && pod.queue == fact.queue
            && pod.group_name == fact.group
            && pod.task == fact.task
            && pod.eviction_class == fact.eviction_class
            && self.world.shapes.get(pod.shape).spec().cards == fact.spec.cards
    }

    /// What a fact says of a pod that is not known of it.
    fn news_of(&self, id: PodId, fact: &PodFact, unready: Option<&Name>) -> PodNews {
        let pod = self.world.pods.get(id);
        let old_spec = self.world.shapes.get(pod.shape).spec();
        PodNews {
            kind: (!Arc::ptr_eq(old_spec, &fact.spec) && *old_spec != fact.spec)
                || pod.labels != fact.labels
                || pod.owner != fact.owner,
            turn: pod.own_priority != fact.priority
                || pod.never_preempts != fact.never_preempts
                || pod.gates != fact.gates
                || pod.ours != fact.ours
                || pod.problem != fact.problem
                || pod.device_claims != fact.device_claims
                || pod.unready.as_ref() != unready,
            membership: pod.tree_quota != fact.tree_quota
                || pod.queue != fact.queue
                || pod.group_name != fact.group
                || pod.task != fact.task
                || pod.group_terms != fact.group_terms
                || pod.eviction_class != fact.eviction_class,
            departure: !pod.departure.is_known(fact.leaving_since, fact.victim_of.as_ref()),
            nomination: pod.nominated != fact.nominated,
        }
    }

    /// Takes in what a pod is; it counts nowhere at the moment.
    fn take_in_spec(&mut self, id: PodId, fact: &PodFact, unready: Option<Name>, has_new_shape: bool) {
        if has_new_shape {
            let shape = self.world.shape(&fact.spec, &fact.namespace, &fact.labels, fact.owner.as_ref());
            self.set_shape(id, shape);
        }
        if self.world.pods.get(id).device_claims != fact.device_claims {
            self.list_asker(id, Sign::Take);
            self.world.pods.get_mut(id).device_claims = fact.device_claims.clone();
            self.list_asker(id, Sign::Add);
        }
        let pod = self.world.pods.get_mut(id);
        pod.labels = fact.labels.clone();
        pod.owner = fact.owner.clone();
        pod.own_priority = fact.priority;
        pod.never_preempts = fact.never_preempts;
        pod.gates = fact.gates.clone();
        pod.ours = fact.ours;
        pod.problem = fact.problem.clone();
        pod.unready = unready;
        pod.queue = fact.queue.clone();
        pod.group_name = fact.group.clone();
        pod.task = fact.task.clone();
        pod.group_terms = fact.group_terms.clone();
        pod.eviction_class = fact.eviction_class;
        self.world.pods.set_tree_quota(id, fact.tree_quota.clone());
        self.world.join_gang(id);
        let membership = self.world.pod_membership(id);
        self.world.set_membership(id, membership);
    }

    /// Takes in that a pod leaves, or stays after all, and for whom.
    fn take_in_departure(&mut self, id: PodId, fact: &PodFact, was_waiting: bool) {
        let before = self.world.pods.get(id).departure.clone();
        self.note_leaving_for(id, Sign::Take);
        if was_waiting {
            self.dequeue(id);
        }
        let mut effects = Effects::default();
        let (since, victim_of) = (fact.leaving_since, fact.victim_of.clone());
        self.world.change_leaving(id, &mut effects, |pod| pod.departure.see(since, victim_of));
        if fact.leaving_since.is_some() {
            self.world.budgets.eviction_settled(id);
        }
        self.wake(effects);
        self.note_leaving_for(id, Sign::Add);
        if was_waiting {
            if self.world.pods.get(id).is_leaving() {
                self.drop_reservation(id);
            }
            self.enqueue(id);
        }
        let departure = &self.world.pods.get(id).departure;
        if !departure.is_as_decided(&before) {
            self.note(Change::PodTerminating);
        } else if departure.since() != before.since() {
            self.note(Change::EvictionSeen);
            // Whom it leaves for is told since when.
            for claimant in before.claimants() {
                let claimant = self.world.pods.find(claimant).map(|claimant| self.world.pods.get(claimant));
                if let Some(group) = claimant.and_then(|claimant| claimant.group) {
                    self.queue.wake(group);
                }
            }
        }
    }

    /// Takes in which node a pod's object names.
    fn take_in_node(&mut self, id: PodId, name: Option<&Name>) {
        let pod = self.world.pods.get(id);
        match (pod.place, name) {
            (Place::Waiting, Some(name)) => {
                self.dequeue(id);
                self.drop_reservation(id);
                self.place(id, name);
                self.note(Change::PodPlaced);
            }
            (Place::Assumed(node), Some(name)) if self.world.nodes.get(node).name == *name => {
                self.world.pods.confirm(id);
                if self.world.pods.get(id).reservation_if_bind_fails.is_some() {
                    self.world.pods.get_mut(id).reservation_if_bind_fails = None;
                }
                // It can be evicted from now on.
                if std::mem::take(&mut self.awaits_assumed) {
                    self.note(Change::VictimAppeared);
                }
            }
            (Place::Assumed(node) | Place::Placed(node), Some(name)) if self.world.nodes.get(node).name != *name => {
                let mut effects = Effects::default();
                self.world.leave(id, Place::Waiting, &mut effects);
                self.world.pods.get_mut(id).reservation_if_bind_fails = None;
                self.wake(effects);
                self.place(id, name);
                self.note(Change::PodPlaced);
            }
            _ => {}
        }
    }

    /// Takes in the node that a pod's status says is kept for it.
    fn take_in_nomination(&mut self, id: PodId, nominated: Option<Name>) {
        self.expect_no_node(id);
        self.world.pods.get_mut(id).nominated = nominated.clone();
        match self.world.pods.get(id).place {
            Place::Waiting => {
                self.dequeue(id);
                self.adopt_nomination(id);
                self.enqueue(id);
                self.note(Change::Nomination);
            }
            Place::Assumed(_) => {
                let pod = self.world.pods.get_mut(id);
                if pod.reservation_if_bind_fails.as_ref().map(|reservation| &reservation.node) != nominated.as_ref() {
                    let kind = ReservationKind::Room;
                    pod.reservation_if_bind_fails = nominated.map(|node| ReservationIfBindFails { node, kind });
                }
            }
            Place::Placed(_) => {}
        }
    }

    /// Holds the room that the pod's status says is kept for it, and no other. Of a node that is not there yet it is
    /// held when it comes: what makes nodes may say beforehand which pod it makes one for.
    fn adopt_nomination(&mut self, id: PodId) {
        let pod = self.world.pods.get(id);
        let held = pod.reservation.map(|reservation| &self.world.nodes.get(reservation.node).name);
        if held.is_some() && held == pod.nominated.as_ref() {
            return; // It is our own reservation that was written, and we know better what it is for.
        }
        self.drop_reservation(id);
        let pod = self.world.pods.get(id);
        if !pod.ours || pod.is_leaving() {
            return;
        }
        let Some(name) = pod.nominated.clone() else { return };
        match self.world.nodes.find_present(&name) {
            Some(node) => self.take_reservation(id, Reservation { node, kind: ReservationKind::Room }),
            None => drop(self.expected_nodes.entry(name).or_default().insert(id)),
        }
    }

    /// A pod waits no longer for a node that is not there.
    fn expect_no_node(&mut self, id: PodId) {
        let Some(name) = &self.world.pods.get(id).nominated else { return };
        if let Some(pods) = self.expected_nodes.get_mut(name) {
            pods.remove(&id);
            if pods.is_empty() {
                self.expected_nodes.remove(name);
            }
        }
    }

    /// A node has come: room on it is held for the pods whose statuses name it.
    pub(super) fn expected_node_came(&mut self, name: &Name) {
        for id in self.expected_nodes.remove(name).unwrap_or_default() {
            let pod = self.world.pods.get(id);
            // One that holds another has a reservation of ours, which its status does not name yet.
            if pod.place == Place::Waiting && pod.reservation.is_none() {
                self.dequeue(id);
                self.adopt_nomination(id);
                self.enqueue(id);
                self.note(Change::Nomination);
            }
        }
    }

    pub(super) fn pod_gone(&mut self, key: &PodKey) {
        let Some(id) = self.world.pods.find(key) else { return };
        match self.world.pods.get(id).departure.is_decided() {
            true => self.world.takings.victim_gone(self.world.pods.get(id)),
            false => self.world.note_goes(id),
        }
        self.expect_no_node(id);
        self.world.withdraw_request(id);
        self.note_leaving_for(id, Sign::Take);
        self.remark.remove(&id);
        self.world.budgets.eviction_settled(id);
        match self.world.pods.get(id).place {
            Place::Waiting => {
                self.dequeue(id);
                self.drop_reservation(id);
            }
            place => {
                if matches!(place, Place::Assumed(_)) {
                    self.undecide_claims(id);
                }
                let mut effects = Effects::default();
                self.world.leave(id, Place::Waiting, &mut effects);
                self.settle_devices(id);
                self.wake(effects);
                self.note(Change::PodLeft);
            }
        }
        self.list_asker(id, Sign::Take);
        self.world.leave_gang(id);
        self.contested.retain(|holder, other| *holder != id && *other != id);
        let pod = self.world.pods.remove(id);
        self.release_shape(pod.shape);
    }
}
