//! Policies: what each quota system answers, and the only place that tells them apart.
//!
//! A policy is a file (or a folder) below this module. It implements [`Rules`], which are the questions that the engine
//! asks of a quota: its *ceilings* (how much may it hold now?), its *entitlement* (how much may it reclaim now?), and
//! what follows from the two. All answers are values. Refusals, shortages, room for groups, reports and marks are folds
//! over these values, written once for all policies (`folds.rs`, `report.rs`, `marks.rs`).
//!
//! Nothing outside this module names a policy or looks into one; `crates/tidy` fails the build otherwise.

mod elastic;
mod facts;
mod fair;
mod folds;
mod marks;
mod membership;
mod namespaces;
mod queue;
mod quotas;
mod report;
mod rules;
mod tree;

/// How quotas are told.
pub mod quota_facts {
    pub use crate::policy::QuotaFact;
    pub use crate::policy::facts::{ElasticFact, QueueFact, TreeFact, TreeRoot, Users};
}

pub(crate) use crate::policy::quota_facts::{ElasticFact, QueueFact, TreeFact, Users};

pub(crate) use crate::policy::folds::{Expected, Refusal, Shortage};
pub(crate) use crate::policy::membership::{Membership, Ties};
use crate::policy::quotas::Counted;
pub(crate) use crate::policy::quotas::{Quota, QuotaId, Quotas, Seniority, seniority};
pub(crate) use crate::policy::rules::{
    Amounts, Ask, Ceiling, Charge, Crossing, Draw, DrawDepth, LedgerId, Moved, Reassigned, Standing, Strength, Taking,
};

use std::borrow::Cow;

use crate::engine::{QuotaReport, Settings};
use crate::fact::{Labels, Name, QuotaKey, Tick};
use crate::ledger::share::Share;
use crate::policy::elastic::Elastic;
use crate::policy::fair::Fair;
use crate::policy::queue::{QueuePolicy, Queues};
use crate::policy::report::{Lending, Reporter};
use crate::policy::rules::{At, Rules};
use crate::policy::tree::{Tree, Trees};
use crate::reason::Code;
use crate::resources::{ResourceId, ResourceNames};
use crate::sign::Sign;

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
    namespaces: namespaces::Namespaces,
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

    /// Of these resources those for which a quota may be drawn on by one within what `claimant` is entitled to.
    pub fn comparable<'a>(
        &self,
        from: QuotaId,
        claimant: QuotaId,
        charge: &Charge,
        compared: &'a [ResourceId],
    ) -> Cow<'a, [ResourceId]> {
        if !self.is_plain(from) {
            return Cow::Borrowed(compared);
        }
        Cow::Owned(compared.iter().copied().filter(|r| self.owes_though_plain(from, claimant, charge, *r)).collect())
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

    /// What giving a pod so much does to one of its quotas, or to one above it: whether some of that is beyond what the
    /// quota keeps, so that others may claim it, and whether it held no more than that before.
    pub fn lends_with(&self, quota: QuotaId, charge: &Charge) -> Option<Crossing> {
        let mut found = None;
        for level in self.path(quota) {
            for (resource, amount) in charge.iter().filter(|(_, amount)| *amount > 0) {
                let Some(kept) = self.keeps(level, *resource, DrawDepth::Min) else { continue };
                let held = self.get(level).ledger.to_be_used(*resource);
                if held > kept {
                    let crossing = if held - i128::from(*amount) <= kept { Crossing::Now } else { Crossing::Before };
                    found = found.max(Some(crossing));
                }
            }
        }
        found
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

    /// Whether a quota's entitlement moves with what other quotas hold or ask for.
    pub fn entitlement_moves(&self, id: QuotaId) -> bool {
        ask!(self, id, at => at.entitlement_moves())
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
    fn request_counted(&mut self, id: QuotaId, charge: &Charge, sign: Sign) {
        match self.get(id).policy {
            Policy::Tree(_) => self.count_own_request(id, charge, sign),
            Policy::Elastic(_) | Policy::Fair(_) | Policy::Queue(_) => {}
        }
    }

    /// Something is counted in these quotas, and in no others (or no longer).
    fn counted(&mut self, quotas: &[QuotaId], what: Counted, charge: &Charge, sign: Sign) {
        self.count_everything(what, charge, sign);
        self.count_outside_trees(quotas, what, charge, sign);
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
        self.check_requests()?;
        self.check_lent()
    }
}
