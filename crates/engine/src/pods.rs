//! The pods, by number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::decision::Capacity;
use crate::departure::Departure;
use crate::device::PodClaim;
use crate::fact::{Amount, Created, EvictionClass, GroupName, GroupTerms, Labels, Name, PodKey, RequestProblem, Tick};
use crate::gangs::GangId;
use crate::lookup::LookupMap;
use crate::nodes::NodeId;
use crate::policy::QuotaId;
use crate::queue::GroupId;
use crate::reason::{Code, Reason};
use crate::reservations::{Reservation, ReservationIfBindFails, ReservationKind};
use crate::resources::ResourceId;
use crate::shape::ShapeId;
use crate::sign::Sign;

/// A pod's number. Numbers are reused after a pod has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PodId(pub u32);

/// What a ceiling allowed: of which quota, which resource, and how much.
pub(crate) type Granted = (QuotaId, ResourceId, i128);

/// Where a pod is.
///
/// ```text
///            bind decided            node seen
///  Waiting ───────────────▶ Assumed ───────────▶ Placed
///     ▲                        │                    │
///     └──── bind failed ───────┘                    ▼
///                                             ended or gone
/// ```
/// A pod that is first seen with a node is placed at once. Assumed and placed pods count on their node;
/// only placed ones are evicted, since an assumed one may yet turn out not to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Waiting,
    Assumed(NodeId),
    Placed(NodeId),
}

#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub namespace: Name,
    pub name: Name,
    pub uid: Name,
    pub created: Created,
    pub labels: Labels,
    pub shape: ShapeId,
    /// Its group's, where that has one, or else its own.
    pub priority: i32,
    pub own_priority: i32,
    pub never_preempts: bool,
    pub gates: Vec<Name>,
    pub ours: bool,
    pub owner: Option<Name>,
    pub problem: Option<RequestProblem>,
    /// Its claims on devices, in order.
    pub device_claims: Vec<PodClaim>,
    /// What a device plugin of its node serves it of extended resources that devices serve elsewhere.
    pub plugin: Vec<(ResourceId, Amount)>,
    /// Why a claim of its cannot be served yet, if so.
    pub unready: Option<Name>,
    pub place: Place,
    /// Tells one placement of a number from the next.
    pub stamp: u64,
    /// Whether it is on its way out, and for whom.
    pub departure: Departure,
    /// The room that is kept for it.
    pub reservation: Option<Reservation>,
    /// Pods that leave for it were still there at its last turn.
    pub awaits_victims: bool,
    /// What ceilings that move with others' requests allowed when pods went for it.
    pub granted: Vec<Granted>,
    /// The room that will be kept for it again if its bind fails.
    pub reservation_if_bind_fails: Option<ReservationIfBindFails>,
    /// The node that its status says is kept for it.
    pub nominated: Option<Name>,
    /// The quotas it answers to, by key.
    pub quotas: Vec<QuotaId>,
    /// The same, without those that say nothing.
    pub quota: QuotaOf,
    /// Why it has no place under a quota: what it names is not there, or takes no pods.
    pub membership_error: Option<(Code, Name)>,
    /// The quota of a tree that it names, the queue, the group, and its task in it.
    pub tree_quota: Option<Name>,
    pub queue: Option<Name>,
    pub group_name: Option<GroupName>,
    pub task: Option<Name>,
    /// What it says itself of its group.
    pub group_terms: Option<Arc<GroupTerms>>,
    /// What it counts as in its gang: its task, or its group where several start together.
    pub role: Option<Name>,
    /// What keeps it out of its group, if so.
    pub misfit: Option<RequestProblem>,
    /// Whether it may be evicted.
    pub eviction_class: EvictionClass,
    /// The cards that it is charged for, where it is or has a claim.
    pub cards: Vec<(ResourceId, Amount)>,
    /// What it asks for is counted.
    pub counted: bool,
    /// What it asks for of devices, as far as it is counted.
    pub requested_devices: Vec<(ResourceId, Amount)>,
    /// The gang that it belongs to.
    pub gang: Option<GangId>,
    /// Whether it runs, as its phase says.
    pub running: bool,
    /// How it was marked, by API group.
    pub marks: Vec<(Name, Capacity)>,
    pub first_seen: Tick,
    pub group: Option<GroupId>,
    /// What was last said of why it waits.
    pub reason: Option<Arc<Reason>>,
}

impl Pod {
    pub fn key(&self) -> PodKey {
        PodKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// The node it counts on.
    pub fn node(&self) -> Option<NodeId> {
        match self.place {
            Place::Assumed(node) | Place::Placed(node) => Some(node),
            Place::Waiting => None,
        }
    }

    /// Whether it is on its way out: its deletion was seen, or its eviction decided.
    pub fn is_leaving(&self) -> bool {
        self.departure.is_under_way()
    }

    /// Whether pods went for it, and are gone.
    pub fn has_victims(&self) -> bool {
        !self.awaits_victims
            && self.reservation.is_some_and(|reservation| reservation.kind == ReservationKind::Preemption)
    }

    /// Whether it says that it must not be evicted.
    pub fn is_never_evicted(&self) -> bool {
        self.eviction_class != EvictionClass::Preemptible
    }

    /// Whether it also counts against its quota's min.
    pub fn is_non_preemptible(&self) -> bool {
        self.eviction_class == EvictionClass::NonPreemptible
    }

    /// Whether it is one that could be placed.
    pub fn is_candidate(&self) -> bool {
        self.place == Place::Waiting
            && self.ours
            && !self.is_leaving()
            && self.gates.is_empty()
            && self.problem.is_none()
            && self.misfit.is_none()
            && self.unready.is_none()
    }
}

/// A pod on a node, with what a search for victims looks at first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resident {
    pub id: PodId,
    pub priority: i32,
    pub created: Created,
    pub leaving: bool,
    pub shape: ShapeId,
    pub quota: QuotaOf,
}

/// The quota of a pod, for a first look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuotaOf {
    None,
    /// A queue that says nothing.
    Plain(QuotaId),
    One(QuotaId),
    /// Beside another, a queue that says nothing.
    OneAndPlain(QuotaId, QuotaId),
    Several,
}

impl QuotaOf {
    /// `plain`: a queue that says nothing, beside the others.
    pub fn new(quotas: &[QuotaId], plain: Option<QuotaId>) -> Self {
        match (quotas, plain) {
            ([], None) => QuotaOf::None,
            ([], Some(plain)) => QuotaOf::Plain(plain),
            ([one], None) => QuotaOf::One(*one),
            ([one], Some(plain)) => QuotaOf::OneAndPlain(*one, plain),
            _ => QuotaOf::Several,
        }
    }
}

/// Pods of adjacent numbers. To share many at a time makes forks cheap, to share few makes changes in them cheap.
type Few = [Option<Pod>; FEW];
const FEW: usize = 16;

/// The pods of a namespace.
#[derive(Debug, Clone, Default)]
struct OfNamespace {
    by_name: LookupMap<Name, PodId>,
    all: BTreeSet<PodId>,
}

/// All pods.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pods {
    /// Shared with forks: a fork copies a few pods when it changes one of them.
    list: Vec<Arc<Few>>,
    /// How many numbers were given so far.
    numbers: usize,
    vacant: Vec<PodId>,
    /// By namespace. A fork copies those of the namespaces that it changes.
    ids: LookupMap<Name, Arc<OfNamespace>>,
    /// By node number: the pods that count there, in no order that means anything.
    on_node: Vec<Vec<Resident>>,
    /// The pods that name a quota of a tree, by its name.
    by_tree_quota: BTreeMap<Name, BTreeSet<PodId>>,
    stamps: u64,
    /// How many pods on nodes have a priority.
    priorities: BTreeMap<i32, u32>,
    /// The pods on nodes that are leaving.
    leaving: BTreeSet<PodId>,
}

impl Pods {
    pub fn get(&self, id: PodId) -> &Pod {
        self.slot(id).as_ref().expect("a pod's number is used only while it is listed")
    }

    #[inline]
    pub fn get_mut(&mut self, id: PodId) -> &mut Pod {
        self.slot_mut(id).as_mut().expect("a pod's number is used only while it is listed")
    }

    #[inline]
    fn slot(&self, id: PodId) -> &Option<Pod> {
        let at = id.0 as usize;
        &self.list[at / FEW][at % FEW]
    }

    #[inline]
    fn slot_mut(&mut self, id: PodId) -> &mut Option<Pod> {
        let at = id.0 as usize;
        &mut Arc::make_mut(&mut self.list[at / FEW])[at % FEW]
    }

    /// Whether there is a pod of that number.
    pub fn is_listed(&self, id: PodId) -> bool {
        let at = id.0 as usize;
        self.list.get(at / FEW).is_some_and(|few| few[at % FEW].is_some())
    }

    pub fn find(&self, key: &PodKey) -> Option<PodId> {
        self.ids.get(&key.namespace)?.by_name.get(&key.name).copied()
    }

    pub fn insert(&mut self, pod: Pod) -> PodId {
        let PodKey { namespace, name } = pod.key();
        let id = self.vacant.pop().unwrap_or_else(|| {
            if self.numbers == self.list.len() * FEW {
                // Written where it stays: it is too large to be copied there.
                let few: Arc<[Option<Pod>]> = std::iter::repeat_with(|| None).take(FEW).collect();
                self.list.push(Arc::try_from(few).expect("so many were made"));
            }
            self.numbers += 1;
            PodId(self.numbers as u32 - 1)
        });
        *self.slot_mut(id) = Some(pod);
        let pods = Arc::make_mut(self.ids.or_insert_with(namespace, Arc::default));
        pods.all.insert(id);
        pods.by_name.insert(name, id);
        self.list_tree_quota(id, Sign::Add);
        id
    }

    fn list_tree_quota(&mut self, id: PodId, sign: Sign) {
        let Some(name) = self.get(id).tree_quota.clone() else { return };
        let pods = self.by_tree_quota.entry(name.clone()).or_default();
        if sign.is_add() {
            pods.insert(id);
        } else {
            pods.remove(&id);
        }
        if pods.is_empty() {
            self.by_tree_quota.remove(&name);
        }
    }

    /// Takes in which quota of a tree a pod names.
    pub fn set_tree_quota(&mut self, id: PodId, name: Option<Name>) {
        self.list_tree_quota(id, Sign::Take);
        self.get_mut(id).tree_quota = name;
        self.list_tree_quota(id, Sign::Add);
    }

    /// The pods that name a quota of a tree.
    pub fn naming_tree_quota(&self, name: &Name) -> Vec<PodId> {
        self.by_tree_quota.get(name).into_iter().flatten().copied().collect()
    }

    /// The pods of a namespace.
    pub fn of_namespace(&self, namespace: &Name) -> Vec<PodId> {
        self.ids.get(namespace).map_or_else(Vec::new, |pods| pods.all.iter().copied().collect())
    }

    pub fn remove(&mut self, id: PodId) -> Pod {
        self.list_tree_quota(id, Sign::Take);
        let pod = self.slot_mut(id).take().expect("a pod is removed once");
        if let Some(pods) = self.ids.get_mut(&pod.namespace) {
            let pods = Arc::make_mut(pods);
            pods.by_name.remove(&pod.name);
            pods.all.remove(&id);
            if pods.all.is_empty() {
                self.ids.remove(&pod.namespace);
            }
        }
        self.vacant.push(id);
        pod
    }

    /// Puts the pod's number on a node's list and gives the placement a stamp of its own.
    pub fn enter(&mut self, id: PodId, place: Place) {
        self.stamps += 1;
        let stamp = self.stamps;
        let pod = self.get_mut(id);
        pod.place = place;
        pod.stamp = stamp;
        let node = pod.node().expect("a pod enters a node");
        let Pod { priority, created, shape, .. } = *pod;
        let (leaving, quota) = (pod.is_leaving(), pod.quota);
        let resident = Resident { id, priority, created, leaving, shape, quota };
        if self.on_node.len() <= node.at() {
            self.on_node.resize(node.at() + 1, Vec::new());
        }
        self.on_node[node.at()].push(resident);
        *self.priorities.entry(priority).or_default() += 1;
        if resident.leaving {
            self.leaving.insert(id);
        }
    }

    /// Takes over into its node's list whether a pod is on its way out.
    pub fn note_leaving(&mut self, id: PodId) {
        let pod = self.get(id);
        let (node, leaving) = (pod.node(), pod.is_leaving());
        let residents = node.and_then(|node| self.on_node.get_mut(node.at())).into_iter().flatten();
        residents.filter(|resident| resident.id == id).for_each(|resident| resident.leaving = leaving);
        if leaving && node.is_some() {
            self.leaving.insert(id)
        } else {
            self.leaving.remove(&id)
        };
    }

    /// Takes the pod's number off its node's list.
    pub fn leave(&mut self, id: PodId, place: Place) {
        let pod = self.get_mut(id);
        let node = pod.node().expect("a pod leaves a node it is on");
        pod.place = place;
        self.leaving.remove(&id);
        let residents = &mut self.on_node[node.at()];
        let at = residents.iter().position(|resident| resident.id == id).expect("a pod is listed on its node");
        let priority = residents.swap_remove(at).priority;
        let pods = self.priorities.entry(priority).or_default();
        *pods -= 1;
        if *pods == 0 {
            self.priorities.remove(&priority);
        }
    }

    /// The pods that count on a node.
    pub fn on_node(&self, node: NodeId) -> &[Resident] {
        self.on_node.get(node.at()).map_or(&[], Vec::as_slice)
    }

    /// Whether this placement of this number is still so.
    pub fn is_placed(&self, id: PodId, stamp: u64) -> bool {
        self.slot(id).as_ref().is_some_and(|pod| pod.stamp == stamp && pod.node().is_some())
    }

    /// All pods that count on a node.
    pub fn placed(&self) -> impl Iterator<Item = (PodId, &Pod)> {
        self.iter().filter(|(_, pod)| pod.node().is_some())
    }

    /// The pod was seen where it was decided to be.
    pub fn confirm(&mut self, id: PodId) {
        let pod = self.get_mut(id);
        if let Place::Assumed(node) = pod.place {
            pod.place = Place::Placed(node);
        }
    }

    /// The lowest priority of a pod on a node.
    pub fn least_priority(&self) -> Option<i32> {
        self.priorities.first_key_value().map(|(priority, _)| *priority)
    }

    /// The pods on nodes that are leaving.
    pub fn leaving(&self) -> impl Iterator<Item = PodId> + '_ {
        self.leaving.iter().copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (PodId, &Pod)> {
        let all = self.list.iter().flat_map(|few| few.iter()).enumerate();
        all.filter_map(|(i, pod)| pod.as_ref().map(|pod| (PodId(i as u32), pod)))
    }
}
