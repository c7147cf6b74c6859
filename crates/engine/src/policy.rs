//! Policies: what each quota system answers, and the only place that tells them apart.
//!
//! A policy is a file (or a folder) below this module. It implements [`Rules`], which are the questions that the engine
//! asks of a quota: its *ceilings* (how much may it hold now?), its *entitlement* (how much may it reclaim now?), and
//! what follows from the two. All answers are values. Refusals, shortages, room for groups, reports and marks are folds
//! over these values, written once for all policies (`folds.rs`, `report.rs`, `marks.rs`).
//!
//! Nothing outside this module names a policy or looks into one; `tests/purity.rs` fails the build otherwise.

mod elastic;
mod facts;
mod fair;
mod folds;
mod marks;
mod membership;
mod queue;
mod quotas;
mod report;
mod tree;

use std::collections::BTreeSet;

pub use crate::policy::facts::{ElasticFact, QueueFact, TreeFact, Users};

pub(crate) use crate::policy::folds::{Refusal, Shortage};
pub(crate) use crate::policy::membership::{Membership, Ties};
pub(crate) use crate::policy::quotas::{Quota, QuotaId, Quotas, Seniority, seniority};

use crate::decision::Rule;
use crate::engine::{QuotaReport, Settings};
use crate::fact::{Amount, Labels, Name, QuotaKey, Tick};
use crate::ledger::pool::{Pool, PoolId};
use crate::ledger::share::Share;
use crate::policy::elastic::Elastic;
use crate::policy::fair::Fair;
use crate::policy::queue::{QueuePolicy, Queues};
use crate::policy::report::{Lending, Reporter};
use crate::policy::tree::{Tree, Trees};
use crate::reason::Code;
use crate::resources::{ResourceId, ResourceNames};

/// The policies, for those who report on quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum PolicyKind {
    #[default]
    Elastic,
    ElasticFair,
    Tree,
    Queue,
}

impl PolicyKind {
    /// What it is called in reports.
    pub fn name(self) -> &'static str {
        match self {
            PolicyKind::Elastic => "elastic",
            PolicyKind::ElasticFair => "elastic-fair",
            PolicyKind::Tree => "tree",
            PolicyKind::Queue => "queue",
        }
    }
}

impl std::fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What a quota says, by the system it comes from.
#[derive(Debug, Clone)]
enum Policy {
    Elastic(Elastic),
    Fair(Fair),
    Tree(Tree),
    Queue(QueuePolicy),
}

impl Policy {
    /// What a quota brings into its pool, where the pool adds up what its quotas hold.
    fn pooled(&self) -> Option<&Charge> {
        self.elastic().map(|elastic| &*elastic.min)
    }

    /// What an elastic quota says, fair or not.
    fn elastic(&self) -> Option<&Elastic> {
        match self {
            Policy::Elastic(elastic) | Policy::Fair(Fair(elastic)) => Some(elastic),
            Policy::Tree(_) | Policy::Queue(_) => None,
        }
    }

    fn elastic_mut(&mut self) -> Option<&mut Elastic> {
        match self {
            Policy::Elastic(elastic) | Policy::Fair(Fair(elastic)) => Some(elastic),
            Policy::Tree(_) | Policy::Queue(_) => None,
        }
    }

    fn tree(&self) -> Option<&Tree> {
        match self {
            Policy::Tree(tree) => Some(tree),
            _ => None,
        }
    }

    fn tree_mut(&mut self) -> Option<&mut Tree> {
        match self {
            Policy::Tree(tree) => Some(tree),
            _ => None,
        }
    }

    fn queue(&self) -> Option<&QueuePolicy> {
        match self {
            Policy::Queue(queue) => Some(queue),
            _ => None,
        }
    }

    fn queue_mut(&mut self) -> Option<&mut QueuePolicy> {
        match self {
            Policy::Queue(queue) => Some(queue),
            _ => None,
        }
    }
}

/// A quota of some policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuotaFact {
    Elastic(ElasticFact),
    Tree(TreeFact),
    Queue(QueueFact),
}

impl QuotaFact {
    /// Takes out what the quota's status says of over-use: that is no part of what the quota is.
    pub(crate) fn take_overuse(&mut self) -> Option<Tick> {
        match self {
            QuotaFact::Tree(fact) => fact.overused_since.take(),
            QuotaFact::Elastic(_) | QuotaFact::Queue(_) => None,
        }
    }

    pub fn key(&self) -> &QuotaKey {
        match self {
            QuotaFact::Elastic(fact) => &fact.key,
            QuotaFact::Tree(fact) => &fact.key,
            QuotaFact::Queue(fact) => &fact.key,
        }
    }
}

impl From<ElasticFact> for QuotaFact {
    fn from(fact: ElasticFact) -> Self {
        QuotaFact::Elastic(fact)
    }
}

impl From<TreeFact> for QuotaFact {
    fn from(fact: TreeFact) -> Self {
        QuotaFact::Tree(fact)
    }
}

impl From<QueueFact> for QuotaFact {
    fn from(fact: QueueFact) -> Self {
        QuotaFact::Queue(fact)
    }
}

/// What policies keep beside their quotas.
#[derive(Debug, Clone, Default)]
struct Shared {
    namespaces: elastic::Namespaces,
    trees: Trees,
    queues: Queues,
}

/// Asks the policy of a quota: `ask!(quotas, id, at => at.share())`.
macro_rules! ask {
    ($quotas:expr, $id:expr, $at:ident => $answer:expr) => {{
        let (quotas, id): (&Quotas, QuotaId) = ($quotas, $id);
        let quota = quotas.get(id);
        match &quota.policy {
            Policy::Elastic(policy) => {
                let $at = At { quotas, id, quota, policy };
                $answer
            }
            Policy::Fair(policy) => {
                let $at = At { quotas, id, quota, policy };
                $answer
            }
            Policy::Tree(policy) => {
                let $at = At { quotas, id, quota, policy };
                $answer
            }
            Policy::Queue(policy) => {
                let $at = At { quotas, id, quota, policy };
                $answer
            }
        }
    }};
}

/// Amounts by resource: what a pod is charged, or what a quota is said to have.
pub(crate) type Charge = [(ResourceId, Amount)];

/// What a pod, or a group, asks of its quotas.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub charge: &'a Charge,
    /// It is never evicted.
    pub non_preemptible: bool,
    /// Pods went for it: what others' victims still hold and what those claim are not both counted against it.
    pub has_victims: bool,
}

/// Whose holdings are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LedgerId {
    /// A quota's, with those below it.
    Quota(QuotaId),
    /// A pool's.
    Pool(PoolId),
    /// Of a quota, what pods that are never evicted hold: no eviction frees any of it.
    NonPreemptible(QuotaId),
}

/// The most that may be held of a resource in one ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ceiling {
    /// The quota, at whatever level, that has it.
    pub quota: QuotaId,
    pub ledger: LedgerId,
    pub resource: ResourceId,
    /// What the pod asks for.
    pub requested: i128,
    pub limit: i128,
    /// What a pod beyond it is refused with.
    pub code: Code,
}

/// How far a quota may be drawn on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DrawDepth {
    /// Down to what it is entitled to without regard to what others leave unused.
    Min,
    /// Down to its fair share of what others leave unused, which is more.
    FairShare,
}

/// A right to take from others of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Draw {
    pub rule: Rule,
    pub depth: DrawDepth,
}

/// How a claimant stands in one of its quotas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    /// `None`: it may only borrow what is free.
    pub draw: Option<Draw>,
    /// What is compared between the claimant and those it takes from.
    pub compared: Vec<ResourceId>,
}

/// Amounts by resource that are worked out when they are asked for.
pub(crate) type Amounts<'a> = &'a dyn Fn(ResourceId) -> i128;

/// One pod that is taken from a quota for a claimant.
#[derive(Clone, Copy)]
pub(crate) struct Taking<'a> {
    /// The claimant's quota, and what it will be charged.
    pub claimant: QuotaId,
    pub charge: &'a Charge,
    pub compared: &'a [ResourceId],
    /// What is gone from the victim's quota before this pod.
    pub gone_before: Amounts<'a>,
}

/// What came of changes since this was last asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moved {
    /// Quotas that are served better or worse than before.
    pub shares: BTreeSet<QuotaId>,
    /// Whether some ceiling or entitlement moved.
    pub limits: bool,
    /// Quotas that may hold more, with those below them.
    pub risen: Vec<QuotaId>,
    /// Pools in which somebody holds what others may claim.
    pub drawn_on: BTreeSet<PoolId>,
}

/// Which pods, and groups, may answer to other quotas than before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reassigned {
    pub namespaces: BTreeSet<Name>,
    /// Pods that name these quotas.
    pub named: BTreeSet<Name>,
    /// All pods.
    pub all: bool,
    /// All groups.
    pub groups: bool,
}

/// A quota whose policy is asked.
struct At<'a, P> {
    quotas: &'a Quotas,
    id: QuotaId,
    quota: &'a Quota,
    policy: &'a P,
}

impl<'a, P> At<'a, P> {
    fn pool(&self) -> &'a Pool {
        self.quotas.pool(self.quota.pool)
    }

    /// What the quota holds and would hold with this charge stays within `bound`, for everything the pool governs.
    fn stays_within(&self, charge: &Charge, bound: impl Fn(ResourceId) -> i128) -> bool {
        let mut governed = charge.iter().filter(|(resource, _)| self.pool().governs(*resource));
        governed.all(|(r, amount)| self.quota.ledger.to_be_used(*r) + i128::from(*amount) <= bound(*r))
    }
}

/// What a policy answers about one quota, which is one level of a path. What has a default here, most policies need not
/// say.
trait Rules<'a> {
    fn kind(&self) -> PolicyKind;

    /// What its object guarantees, and limits, for reports.
    fn min(&self) -> &'a Charge;
    fn max(&self) -> Vec<(ResourceId, Amount)>;

    /// Every ceiling of this level for what is asked. `direct`: the pod answers to this quota, and not to one below it.
    fn ceilings(&self, ask: &Ask<'_>, direct: bool, each: &mut impl FnMut(Ceiling));

    /// How a pod with this charge stands here.
    fn standing(&self, charge: &Charge) -> Standing;

    /// What the quota keeps of a resource, however far it is drawn on; `None` where it is not drawn on for it.
    fn keeps(&self, resource: ResourceId, depth: DrawDepth) -> Option<i128>;

    /// What it is entitled to; `None` where it does not speak of the resource.
    fn entitlement(&self, resource: ResourceId) -> Option<i128>;

    /// Up to what its pods are within it: the oldest are, as far as this goes.
    fn within(&self) -> Vec<(ResourceId, i128)>;

    /// What is its own: what it holds beyond is borrowed, what it leaves of it is lent.
    fn own(&self) -> Vec<(ResourceId, i128)>;

    /// How well it is served.
    fn share(&self) -> Share;

    /// Whether it says what it is entitled to: only then is it served well or badly.
    fn has_entitlement(&self) -> bool {
        true
    }

    /// What it must never be left with less of.
    fn guarantees(&self) -> &'a Charge {
        &[]
    }

    /// Whether one more pod may be taken from it.
    fn permits(&self, _taking: &Taking<'_>) -> bool {
        true
    }

    /// Whether, after so much is gone from all quotas below it, one more pod may be taken from one of them.
    fn permits_below(&self, _compared: &[ResourceId], _gone: Amounts<'_>) -> bool {
        true
    }

    /// Whether it says nothing, and counts as no quota.
    fn is_plain(&self) -> bool {
        false
    }

    /// Whether it marks its pods as within it or over it.
    fn marks_pods(&self) -> bool {
        false
    }

    /// Why it starts nothing, if so.
    fn closed(&self) -> Option<(Code, String)> {
        None
    }

    /// The namespaces that may use it, where it says so.
    fn users(&self) -> &'a Users {
        &Users::Everyone
    }

    /// Whether its pods may claim what others hold beyond what they are entitled to.
    fn may_reclaim(&self) -> bool {
        true
    }

    /// Whether what it holds beyond `within` is evicted after a while, for nobody in particular.
    fn ends_overuse(&self) -> bool {
        false
    }

    /// Whether its ceilings move with what other quotas ask for. Pods wait for such a ceiling to rise; and what one of
    /// its pods is given does not change what the others of the pool may claim.
    fn is_shared_out(&self) -> bool {
        false
    }

    /// Whether what its pods request is counted while they are pending.
    fn counts_requests(&self) -> bool {
        true
    }

    /// What it may hold now, where that is worked out from what all quotas ask for.
    fn runtime(&self) -> Vec<(ResourceId, i128)> {
        Vec::new()
    }

    /// What its pods request as far as it counts, and what is requested below it, for reports.
    fn requested(&self, _resource: ResourceId) -> i128 {
        0
    }

    fn requested_below(&self, _resource: ResourceId) -> i128 {
        0
    }
}

/// The questions that the engine asks, passed on to the quota's policy.
impl Quotas {
    pub fn new(settings: &Settings) -> Self {
        let mut quotas = Quotas::default();
        quotas.shared.trees.configure(&settings.tree);
        quotas.shared.queues.configure(&settings.cards);
        quotas.listed_only = settings.listed_users_only;
        quotas
    }

    /// Every ceiling, of every level of every quota, for what is asked.
    pub fn ceilings(&self, quotas: &[QuotaId], ask: &Ask<'_>, mut each: impl FnMut(Ceiling)) {
        for id in quotas {
            let mut level = Some(*id);
            while let Some(at) = level {
                self.ceilings_of_level(at, ask, at == *id, &mut each);
                level = self.get(at).parent;
            }
        }
    }

    fn ceilings_of_level(&self, id: QuotaId, ask: &Ask<'_>, direct: bool, each: &mut impl FnMut(Ceiling)) {
        ask!(self, id, at => at.ceilings(ask, direct, each));
    }

    pub fn kind(&self, id: QuotaId) -> PolicyKind {
        ask!(self, id, at => at.kind())
    }

    /// How a pod with this charge stands in a quota.
    pub fn standing(&self, id: QuotaId, charge: &Charge) -> Standing {
        ask!(self, id, at => at.standing(charge))
    }

    /// What a quota keeps of a resource, however far it is drawn on; `None` where it is not drawn on for it.
    pub fn keeps(&self, id: QuotaId, resource: ResourceId, depth: DrawDepth) -> Option<i128> {
        ask!(self, id, at => at.keeps(resource, depth))
    }

    /// What a quota is entitled to of a resource; `None` where it does not speak of it.
    pub fn entitlement(&self, id: QuotaId, resource: ResourceId) -> Option<i128> {
        ask!(self, id, at => at.entitlement(resource))
    }

    /// Up to what the pods of a quota are within it: the oldest are, as far as this goes.
    pub fn within(&self, id: QuotaId) -> Vec<(ResourceId, i128)> {
        ask!(self, id, at => at.within())
    }

    /// What is a quota's own: what it holds beyond is borrowed, what it leaves of it is lent.
    fn own(&self, id: QuotaId) -> Vec<(ResourceId, i128)> {
        ask!(self, id, at => at.own())
    }

    /// A quota as people see it.
    pub fn report(&self, id: QuotaId, lending: &Lending, names: &ResourceNames) -> QuotaReport {
        ask!(self, id, at => Reporter::new(&at, names).report(lending))
    }

    /// What a quota must never be left with less of.
    pub fn guarantees(&self, id: QuotaId) -> &Charge {
        ask!(self, id, at => at.guarantees())
    }

    /// Whether one more pod may be taken from a quota.
    pub fn permits(&self, from: QuotaId, taking: &Taking<'_>) -> bool {
        ask!(self, from, at => at.permits(taking))
    }

    /// Whether, after so much is gone from all quotas below this one, one more pod may be taken from one of them.
    pub fn permits_below(&self, id: QuotaId, compared: &[ResourceId], gone: Amounts<'_>) -> bool {
        ask!(self, id, at => at.permits_below(compared, gone))
    }

    /// Whether a quota says nothing: it gives no right and no protection.
    pub fn is_plain(&self, id: QuotaId) -> bool {
        ask!(self, id, at => at.is_plain())
    }

    /// Whether a quota marks its pods as within it or over it.
    pub fn marks_pods(&self, id: QuotaId) -> bool {
        ask!(self, id, at => at.marks_pods())
    }

    /// Why a quota starts nothing, if so.
    pub fn closed(&self, id: QuotaId) -> Option<(Code, String)> {
        ask!(self, id, at => at.closed())
    }

    /// Whether pods of a namespace may answer to a quota: the nearest level that says who may decides.
    pub fn may_use(&self, id: QuotaId, namespace: &Name, labels: &Labels) -> bool {
        let said = self.path(id).find_map(|level| ask!(self, level, at => at.users().include(namespace, labels)));
        said.unwrap_or(!self.listed_only || self.is_plain(id))
    }

    /// Whether pods of a quota may claim what others hold beyond what they are entitled to.
    pub fn may_reclaim(&self, id: QuotaId) -> bool {
        ask!(self, id, at => at.may_reclaim())
    }

    /// Whether what a quota holds beyond `within` is evicted after a while.
    pub fn ends_overuse(&self, id: QuotaId) -> bool {
        ask!(self, id, at => at.ends_overuse())
    }

    /// Whether a quota's ceilings move with what other quotas ask for.
    pub fn is_shared_out(&self, id: QuotaId) -> bool {
        ask!(self, id, at => at.is_shared_out())
    }

    /// Whether what a quota's pods request is counted while they are pending.
    pub fn counts_requests(&self, id: QuotaId) -> bool {
        ask!(self, id, at => at.counts_requests())
    }

    /// Whether a quota's pool adds up what it holds.
    pub fn is_pooled(&self, id: QuotaId) -> bool {
        self.get(id).policy.pooled().is_some()
    }

    /// How well a pod's quotas are served; the best served counts. One that is entitled to nothing hides no other.
    pub fn share(&self, quotas: &[QuotaId]) -> Share {
        let (mut most, mut priority) = (None, 0);
        for id in quotas {
            let (share, counts) = ask!(self, *id, at => (at.share(), at.has_entitlement()));
            // A pod has one queue at most, and nothing else has a priority.
            priority = if share.priority() == 0 { priority } else { share.priority() };
            most = if counts { most.max(Some(share.with_priority(0))) } else { most };
        }
        most.unwrap_or(Share::EVEN).with_priority(priority)
    }
}

/// What happens to quotas, passed on to the policies that it concerns.
impl Quotas {
    /// Takes in a quota. `None`: the fact says nothing new.
    pub fn observe(&mut self, fact: QuotaFact, names: &mut ResourceNames) -> Option<Reassigned> {
        match fact {
            QuotaFact::Elastic(fact) if fact.fair => self.observe_pooled(fact, names, |e| Policy::Fair(Fair(e))),
            QuotaFact::Elastic(fact) => self.observe_pooled(fact, names, Policy::Elastic),
            QuotaFact::Tree(fact) => self.observe_tree(fact, names),
            QuotaFact::Queue(fact) => self.observe_queue(fact, names),
        }
    }

    /// A quota is about to be forgotten: from now on no pod answers to it.
    pub fn release(&mut self, id: QuotaId) -> Reassigned {
        match self.get(id).policy {
            Policy::Elastic(_) | Policy::Fair(_) => self.release_pooled(id),
            Policy::Tree(_) => self.release_tree(id),
            Policy::Queue(_) => self.release_queue(id),
        }
    }

    /// Takes a quota out of what its policy keeps, before it is forgotten.
    fn unlist(&mut self, id: QuotaId) {
        match self.get(id).policy {
            Policy::Elastic(_) | Policy::Fair(_) => {}
            Policy::Tree(_) => self.unlist_tree(id),
            Policy::Queue(_) => self.unlist_queue(id),
        }
    }

    /// What the pods of a quota request has changed.
    fn request_counted(&mut self, id: QuotaId, charge: &Charge, add: bool) {
        match self.get(id).policy {
            Policy::Tree(_) => self.count_own_request(id, charge, add),
            Policy::Elastic(_) | Policy::Fair(_) | Policy::Queue(_) => {}
        }
    }

    /// Something is charged to these quotas, and to no others (or no longer).
    fn charged(&mut self, quotas: &[QuotaId], charge: &Charge, add: bool) {
        self.count_outside_trees(quotas, charge, add);
    }

    /// What nodes hold in all changed.
    fn total_changed(&mut self, resources: impl Iterator<Item = ResourceId>) {
        self.tree_total_changed(resources);
    }

    /// Notes that a resource is a kind of card.
    pub fn note_card(&mut self, card: ResourceId) {
        self.shared.queues.note_card(card);
    }

    /// Notes whether nodes have cards that are had by this resource.
    pub fn note_card_resource(&mut self, resource: ResourceId, has_cards: bool) {
        self.shared.queues.note_card_resource(resource, has_cards);
    }

    /// Whether what quotas may hold is not worked out for all of them.
    pub fn is_stale(&self) -> bool {
        self.shared.trees.is_stale()
    }

    /// Works out what all quotas may hold.
    pub fn refresh(&mut self) {
        self.refresh_runtimes();
    }

    /// Works out what these quotas may hold, and leaves the others for later.
    pub fn refresh_of(&mut self, quotas: &[QuotaId]) {
        self.refresh_runtimes_of(quotas);
    }

    /// What the policies keep equals a recount. The error is the first thing that does not.
    pub fn check(&self) -> Result<(), String> {
        self.check_requests()
    }
}
