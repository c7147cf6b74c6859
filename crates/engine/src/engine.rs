//! The engine: what it is told, what it decides.

mod beyond;
mod cycle;
mod devices;
mod evict;
mod gang_admission;
mod gang_cards;
mod gang_places;
mod gang_terms;
mod gang_turn;
mod membership;
mod news;
mod observe;
mod outcome;
mod overuse;
mod owed;
mod patience;
mod recall;
mod report;
mod turns;
mod wake;

use std::collections::{BTreeMap, BTreeSet};

use crate::devices::bills::DeviceCharge;
use crate::engine::wake::Change;
use crate::fact::{Amount, GroupKey, Name, PodKey, QuotaKey, Tick};
use crate::gangs::GangId;
use crate::ledger::pool::PoolId;
use crate::lookup::LookupMap;
use crate::pods::{Place, PodId};
use crate::policy::{PolicyKind, QuotaId, Quotas};
use crate::queue::{Queue, group_key};
use crate::reservations::Reservation;
use crate::score::node_cap::CapWeights;
use crate::shape::ShapeId;
use crate::sign::Sign;
use crate::world::World;

/// What can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// After this long a waiting pod that cannot run may hold a node for itself.
    pub reserve_after_ms: u64,
    /// So long a waiting pod that only lacks room waits for a node to come, before others are evicted for it.
    pub evict_after_ms: u64,
    /// How pods that are subject to caps are placed among capped nodes.
    pub caps: CapSettings,
    pub tree: TreeSettings,
    pub cards: CardSettings,
    /// Queues and quotas of trees that do not say which namespaces may use them may be used by none.
    pub listed_users_only: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            reserve_after_ms: 5 * 60 * 1000,
            evict_after_ms: 0,
            caps: CapSettings::default(),
            tree: TreeSettings::default(),
            cards: CardSettings::default(),
            listed_users_only: false,
        }
    }
}

/// How quota trees work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeSettings {
    /// After this long above its runtime a quota gives back.
    pub revoke_after_ms: u64,
    /// Mins that add up to more than there is shrink in proportion.
    pub scale_min: bool,
    /// The quota of pods that have no other, and that of the system's own pods. They stand beside the default tree:
    /// what their pods use is taken off before the rest is shared.
    pub default_quota: Name,
    pub system_quota: Name,
}

impl Default for TreeSettings {
    fn default() -> Self {
        let (default_quota, system_quota) = (Name::default(), Name::default());
        TreeSettings { revoke_after_ms: 2 * 60 * 1000, scale_min: true, default_quota, system_quota }
    }
}

/// How cards are shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardSettings {
    /// Pods with cards are not held to their queue's cpu and memory.
    pub unlimited_cpu_memory: bool,
    /// What the order of preference among cards weighs when a node is chosen.
    pub node_order_weight: i64,
}

impl Default for CardSettings {
    fn default() -> Self {
        CardSettings { unlimited_cpu_memory: false, node_order_weight: 1 }
    }
}

/// A node as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    pub name: Name,
    pub allocatable: Vec<(Name, Amount)>,
    /// What pods on the node hold, by name; nothing that is 0. `pods` included, and cards that are devices.
    pub used: Vec<(Name, i128)>,
    /// What pods that are subject to a cap may hold here, and hold.
    pub cap: Vec<(Name, i128)>,
    pub cap_used: Vec<(Name, i128)>,
    /// The cards it has, by name.
    pub cards: Vec<(Name, i128)>,
}

/// A group as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupReport {
    pub key: GroupKey,
    /// It was let into its queue.
    pub admitted: bool,
    /// Pods that are there and have not ended.
    pub members: u32,
    /// Of these, those on nodes.
    pub placed: u32,
    /// Of these, those that run.
    pub running: u32,
    /// How many must be able to run.
    pub min_member: u32,
    /// Why it is not let in, or why its minimum cannot run.
    pub reason: Option<std::sync::Arc<crate::reason::Reason>>,
}

/// How pods without GPUs are placed among GPU nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapSettings {
    /// What the score weighs; 0 switches it off. More than 1,000,000 counts as that, less than 0 as 0.
    pub weight: i64,
    /// What each capped resource weighs in the score, in the same bounds. One that is not named weighs 1.
    pub resource_weights: Vec<(Name, i64)>,
    /// Nodes without GPUs come first.
    pub prefer_cpu_nodes: bool,
}

impl Default for CapSettings {
    fn default() -> Self {
        CapSettings { weight: 10, resource_weights: Vec::new(), prefer_cpu_nodes: true }
    }
}

/// A quota as it stands. Amounts are by resource name; nothing that is 0, except in `min` and `max`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotaReport {
    pub key: QuotaKey,
    pub policy: PolicyKind,
    pub parent: Option<QuotaKey>,
    pub tree: Option<Name>,
    pub min: Vec<(Name, i128)>,
    pub max: Vec<(Name, i128)>,
    /// Held by pods on nodes, and by pods decided onto one.
    pub used: Vec<(Name, i128)>,
    /// Held by pods that run, as the status of some kinds says.
    pub used_running: Vec<(Name, i128)>,
    pub entitlement: Vec<(Name, i128)>,
    /// What its pods ask for, those that wait too (trees and queues); of a tree's quota within its max, and at least
    /// its min if it does not lend.
    pub requested: Vec<(Name, i128)>,
    /// What the quotas below it ask for, or its pods if it is a leaf (trees).
    pub child_requested: Vec<(Name, i128)>,
    /// What pods that are never evicted hold and ask for (trees).
    pub non_preemptible_used: Vec<(Name, i128)>,
    pub non_preemptible_requested: Vec<(Name, i128)>,
    pub runtime: Vec<(Name, i128)>,
    /// Held beyond min.
    pub borrowed: Vec<(Name, i128)>,
    /// Of min, what others hold.
    pub lent: Vec<(Name, i128)>,
    /// Of what it holds, what others that are entitled to it may reclaim.
    pub reclaimable: Vec<(Name, i128)>,
}

/// What makes claimants alike in whom they may evict: shape, priority, whether they may be evicted, quotas, group, and
/// what they are charged for devices.
type LikeClaimants = (ShapeId, i32, bool, Vec<QuotaId>, Option<GangId>, Option<DeviceCharge>);

/// The decision core.
#[derive(Debug, Clone, Default)]
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) world: World,
    pub(crate) queue: Queue,
    /// Pods that leave for a claimant, by claimant.
    leaving_for: BTreeMap<PodKey, BTreeSet<PodId>>,
    /// Waiting pods that hold a reservation.
    claimants: BTreeSet<PodId>,
    /// Waiting pods whose statuses name a node that is not there, by node: others expect it.
    expected_nodes: BTreeMap<Name, BTreeSet<PodId>>,
    /// Pods that came to hold room in this cycle, with how much happened in it before.
    reserved_now: BTreeMap<PodId, u64>,
    /// How many pods were bound and evicted in this cycle, and how many reservations left others less.
    acts: u64,
    /// How often in this cycle pods were given more of what quotas held beyond what they keep.
    lent_in_cycle: u32,
    /// Pods whose plan came to nothing in this cycle although nothing happened since.
    misled: BTreeSet<PodId>,
    /// The turns of this cycle, as far as they bound it.
    turns: turns::Turns,
    /// Waiting pods that cannot be placed for what they are (gates, an unreadable request) and were not told so yet.
    unsaid: BTreeSet<PodId>,
    /// When waiting pods will have waited long enough to hold a node.
    patience: BTreeSet<(Tick, PodId)>,
    /// With how many changes, and for how many pods that waited long enough, no node was found that could be held.
    patience_in_vain: Option<(u64, usize)>,
    /// Counts all changes; what was found hopeless is hopeless until then. Beside it: whose guarantee is in the way.
    changes: u64,
    hopeless: LookupMap<LikeClaimants, (u64, Option<QuotaId>)>,
    /// Pods whose reservations others may take over as soon as the evictions for them are seen, with the others.
    contested: BTreeMap<PodId, PodId>,
    /// A claimant waits for a victim that was only decided to be where it is.
    awaits_assumed: bool,
    /// An eviction did not happen: what was reserved in the expectation of it may have no basis any more.
    recheck_reservations: bool,
    /// A pod rests because pods that leave make room for it.
    counts_on_leaving: bool,
    keys_epoch: u64,
    /// Pods that may have to lose a mark: they answer to other quotas than before.
    remark: BTreeSet<PodId>,
    /// Pools in which somebody holds what others may claim, since those who rest were last looked at.
    moved_pools: BTreeSet<PoolId>,
    /// Since when the statuses of quotas say that they hold more than they may, and the quotas of which that was taken
    /// in: a scheduler that starts anew goes on where the last one was.
    told_overuse: BTreeMap<QuotaKey, Tick>,
    overuse_known: BTreeSet<QuotaKey>,
    /// Since when quotas of trees hold more than their runtime.
    overused_since: BTreeMap<QuotaId, Tick>,
    /// Quotas of trees of which that may have changed.
    recheck_overuse: BTreeSet<QuotaId>,
    /// Something changed that may let a group into its queue.
    admission_due: bool,
    /// For gangs what `hopeless` is for pods.
    hopeless_gangs: BTreeMap<GangId, u64>,
    /// Who lacks room and would be refused by its quotas if there were room, and the pods of which that is new.
    beyond: beyond::Beyond,
    retold: BTreeSet<PodId>,
    /// Now, as the last cycle was told.
    now: Tick,
    /// When waiting pods will have waited long enough for nodes to evict others.
    evictions_due: BTreeSet<(Tick, PodId)>,
    /// The gangs were looked at that an earlier scheduler left with some of their pods bound.
    has_begun: bool,
}

impl Engine {
    pub fn new(settings: Settings) -> Self {
        let mut world = World::default();
        world.cap_weights = CapWeights::new(&settings.caps, &mut world.names);
        world.card_weight = settings.cards.node_order_weight.clamp(0, 1_000_000);
        world.quotas = Quotas::new(&settings).into();
        Engine { settings, world, ..Engine::default() }
    }

    /// A copy that goes its own way: what-if, plan and explain run the real thing. Pods, and what is kept of the nodes
    /// for them, are shared until one of the two changes them.
    pub fn fork(&self) -> Engine {
        self.clone()
    }

    /// Whether reasons leave out which node comes closest to having room, which takes longer to find than to decide.
    pub fn be_brief(&mut self, brief: bool) {
        self.world.brief = brief;
    }

    pub(super) fn count_reservation(&mut self, id: PodId, sign: Sign) {
        self.world.count_reservation(id, sign);
    }

    pub(super) fn take_reservation(&mut self, id: PodId, reservation: Reservation) {
        self.take_reservation_before_devices(id, reservation);
        self.world.keep_devices(id, reservation.node, None);
    }

    /// The same where devices are chosen later: pods that have them are about to be evicted.
    pub(super) fn take_reservation_before_devices(&mut self, id: PodId, reservation: Reservation) {
        self.world.pods.get_mut(id).reservation = Some(reservation);
        self.world.count_reserved(id, Sign::Add);
        self.claimants.insert(id);
    }

    /// Gives up a waiting pod's reservation, if it has one.
    pub(super) fn drop_reservation(&mut self, id: PodId) {
        if self.claimants.remove(&id) {
            self.contested.remove(&id);
            self.count_reservation(id, Sign::Take);
            self.world.forget_kept_devices(id);
            let pod = self.world.pods.get_mut(id);
            pod.reservation = None;
            pod.granted.clear();
            self.note(Change::ReservationDropped);
        }
    }

    /// Lists a waiting pod for its turn, or to be told why it has none.
    pub(super) fn enqueue(&mut self, id: PodId) {
        let pod = self.world.pods.get(id);
        if pod.place != Place::Waiting || !pod.ours || pod.is_leaving() {
            // It waits no longer, so there is no reason why it does.
            self.world.pods.get_mut(id).reason = None;
            return;
        }
        if !pod.is_candidate() {
            self.unsaid.insert(id);
            return;
        }
        let key = group_key(id, pod, &self.world.relations.seen_keys);
        let (created, name) = (pod.created, pod.name.clone());
        self.patience.insert((self.patient_until(pod.first_seen), id));
        if self.settings.evict_after_ms > 0 {
            self.evictions_due.insert((self.evicts_from(pod.first_seen), id));
        }
        let share = self.world.quotas.share(&pod.quotas);
        let gang = pod.gang;
        let group = self.queue.insert(id, key, created, &name, share);
        self.world.pods.get_mut(id).group = Some(group);
        if let Some(gang) = gang {
            // It may be the one that the others of its gang wait for.
            self.hopeless_gangs.remove(&gang);
            self.queue.wake(group);
        }
    }

    pub(super) fn dequeue(&mut self, id: PodId) {
        self.unsaid.remove(&id);
        let pod = self.world.pods.get_mut(id);
        if let Some(group) = pod.group.take() {
            let (created, name, first_seen) = (pod.created, pod.name.clone(), pod.first_seen);
            self.queue.remove(id, group, created, &name);
            self.patience.remove(&(self.patient_until(first_seen), id));
            self.evictions_due.remove(&(self.evicts_from(first_seen), id));
        }
    }

    /// Keeps the list of who leaves for whom.
    pub(super) fn note_leaving_for(&mut self, id: PodId, sign: Sign) {
        let pod = self.world.pods.get(id);
        for claimant in pod.departure.claimants() {
            if sign.is_add() {
                self.leaving_for.entry(claimant.clone()).or_default().insert(id);
            } else if let Some(pods) = self.leaving_for.get_mut(claimant) {
                pods.remove(&id);
                if pods.is_empty() {
                    self.leaving_for.remove(claimant);
                }
            }
        }
    }
}
