//! What a pod may be charged for devices, before it has a node: a bill for each way in which its claims can be met.
//!
//! Exact counts have one bill. Alternatives, `All`, cards and capacities may have several: which one it will be shows
//! on a node. What all of them have in common is held to ceilings before a node is; the rest is part of the question
//! whether the pod may go to a node, and a claimant's rights are judged for each bill by itself.
//!
//! Bills are worked out from what devices are, and not from who uses them, and are kept by shape until a device, a
//! class, a node or a quota changes.
//!
//! *The bound.* Of the bills of a shape the first [`BILLS_MAX`] are looked at for rights, in the order in which nodes,
//! alternatives and devices are tried; ceilings are held in any case, since they are asked of each choice of devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::device::{
    Alternative, ClaimSpec, Count, DeviceFact, DeviceRequest, ExtendedRequest, Need, RESULTS_MAX, Verdict,
};
use crate::devices::bill::{Bill, asked_as, extended_spec};
use crate::devices::found::Pick;
use crate::devices::site::{Site, consumption};
use crate::devices::world::DeviceAsk;
use crate::fact::{Amount, Name, PodSpec};
use crate::nodes::NodeId;
use crate::pods::{Pod, PodId};
use crate::policy::{Ask, Refusal};
use crate::resources::ResourceId;
use crate::shape::ShapeId;
use crate::world::World;

/// The most bills of a shape. It takes requests for several devices of several cards each to have more.
pub(crate) const BILLS_MAX: usize = 64;

/// What a shape asks for: its claims without devices, and extended resources with the classes that serve them.
pub(crate) type Asked = (Vec<Arc<ClaimSpec>>, Vec<(ExtendedRequest, Name)>);

/// Amounts by resource.
pub(crate) type DeviceCharge = Vec<(ResourceId, Amount)>;

/// The bills of a shape.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Bills {
    /// Different ones, for what quotas speak of. None where no node has devices for the pod, or it asks for none.
    pub ways: Vec<DeviceCharge>,
    /// What is part of all of them, and what each resource comes to at most. Where no node has devices, what counts
    /// say.
    pub least: DeviceCharge,
    pub most: DeviceCharge,
    /// What was found to cost something and quotas speak of, in order.
    pub named: Vec<ResourceId>,
}

/// What several ways have in common, or come to at most.
fn fold(ways: &[DeviceCharge], choose: fn(Amount, Amount) -> Amount) -> DeviceCharge {
    let mut resources: Vec<ResourceId> = ways.iter().flatten().map(|(resource, _)| *resource).collect();
    resources.sort_unstable();
    resources.dedup();
    let amount = |way: &DeviceCharge, r: ResourceId| way.iter().find(|(known, _)| *known == r).map_or(0, |(_, a)| *a);
    let of = |r: ResourceId| Some((r, ways.iter().map(|way| amount(way, r)).reduce(choose)?));
    resources.into_iter().filter_map(of).filter(|(_, amount)| *amount > 0).collect()
}

/// Sums of one bill and each of others, each sum once.
fn sums(ways: Vec<Bill>, more: &[Bill]) -> Vec<Bill> {
    let mut all: Vec<Bill> = Vec::new();
    for (way, more) in ways.iter().flat_map(|way| more.iter().map(move |more| (way, more))) {
        let mut sum = way.clone();
        more.0.iter().for_each(|(name, amount)| sum.add(name.clone(), *amount));
        sum.0.sort();
        if !all.contains(&sum) && all.len() < BILLS_MAX {
            all.push(sum);
        }
    }
    all
}

/// Bills with how many devices there are of each.
type Prices = Vec<(Bill, usize)>;

/// The bills of so many devices, of each price no more than there are.
fn choose(prices: &[(Bill, usize)], count: usize) -> Vec<Bill> {
    if count == 0 {
        return vec![Bill::default()];
    }
    let Some(((price, available), rest)) = prices.split_first() else { return Vec::new() };
    let mut all: Vec<Bill> = Vec::new();
    for of_this in (0..=count.min(*available)).rev() {
        if rest.iter().map(|(_, available)| available).sum::<usize>() < count - of_this {
            continue;
        }
        let mut own = Bill::default();
        price.0.iter().for_each(|(name, amount)| own.add(name.clone(), amount.saturating_mul(of_this as Amount)));
        for sum in sums(vec![own], &choose(rest, count - of_this)) {
            if !all.contains(&sum) && all.len() < BILLS_MAX {
                all.push(sum);
            }
        }
    }
    all
}

/// Whether two devices of a driver cost the same.
fn costs_alike(a: &DeviceFact, b: &DeviceFact) -> bool {
    (a.shared, &a.card, a.gigabytes, &a.capacity) == (b.shared, &b.card, b.gigabytes, &b.capacity)
}

/// What is asked for on one node.
struct Pricing<'a> {
    world: &'a World,
    site: &'a Site<'a>,
    served: &'a [ExtendedRequest],
    /// The names that some quota speaks of.
    is_named: &'a mut BTreeMap<Name, bool>,
}

impl Pricing<'_> {
    fn keep_named(&mut self, bill: &mut Bill) {
        let world = self.world;
        bill.0.retain(|(name, _)| *self.is_named.entry(name.clone()).or_insert_with(|| world.is_counted(name)));
        bill.0.sort();
    }

    /// The bills of a request, by its alternatives.
    fn request(&mut self, request: &DeviceRequest, is_extended: bool) -> Vec<Bill> {
        let mut bills: Vec<Bill> = Vec::new();
        for alternative in &request.alternatives {
            for bill in self.alternative(alternative, is_extended) {
                if !bills.contains(&bill) {
                    bills.push(bill);
                }
            }
        }
        bills
    }

    fn alternative(&mut self, alternative: &Alternative, is_extended: bool) -> Vec<Bill> {
        let prices = self.prices(alternative, is_extended);
        let there: usize = prices.iter().map(|(_, count)| count).sum();
        let count = match alternative.count {
            Count::All => there,
            Count::Exactly(count) => usize::try_from(count).unwrap_or(usize::MAX),
        };
        if count == 0 || count > there || count > RESULTS_MAX {
            return Vec::new();
        }
        choose(&prices, count)
    }

    /// What each device that would do costs, in the order of devices.
    fn prices(&mut self, alternative: &Alternative, is_extended: bool) -> Prices {
        let (site, devices) = (self.site, &self.world.devices);
        let asked_as = if is_extended { asked_as(self.served, &alternative.name) } else { None };
        let mut prices: Prices = Vec::new();
        let mut last: Option<(&DeviceFact, usize)> = None;
        let verdicts = site.verdicts(&alternative.matcher);
        for (candidate, verdict) in site.candidates.iter().zip(verdicts) {
            let driver = &site.pools[candidate.pool].fact.key.driver;
            if *verdict != Verdict::Yes {
                continue;
            }
            let Some(amounts) = consumption(alternative, candidate.device, driver) else { continue };
            // Devices of a node are most often alike.
            if let Some((_, at)) = last.filter(|(last, _)| costs_alike(last, candidate.device)) {
                prices[at].1 += 1;
                continue;
            }
            let mut bill = Bill::default();
            if !alternative.admin {
                bill.add_pick(devices, alternative, candidate.device, &amounts, asked_as.as_ref());
            }
            self.keep_named(&mut bill);
            let at = prices.iter().position(|(known, _)| *known == bill).unwrap_or_else(|| {
                prices.push((bill, 0));
                prices.len() - 1
            });
            prices[at].1 += 1;
            last = Some((candidate.device, at));
        }
        prices
    }
}

impl World {
    /// Whether some quota speaks of a resource.
    fn is_counted(&self, name: &Name) -> bool {
        self.names.find(name).is_some_and(|resource| self.quotas.speaks_of(resource))
    }

    /// The bills of a pod's shape.
    pub fn device_bills(&self, id: PodId) -> Arc<Bills> {
        let shape = self.pods.get(id).shape;
        match self.devices.bills.get(&shape) {
            Some(known) => known.clone(),
            None => Arc::new(self.bills_of(shape)),
        }
    }

    /// Works out the bills of a pod's shape, to be kept.
    pub fn remember_bills(&mut self, id: PodId) {
        let shape = self.pods.get(id).shape;
        let asks = |spec: &PodSpec| !spec.needs.is_empty() || !spec.served.is_empty();
        let spec = self.shapes.get(shape).spec();
        if !asks(spec) || self.devices.bills.get(&shape).is_some() {
            return;
        }
        // Pods whose claims ask for the same are charged alike, whatever else they are like.
        let asked = (spec.needs.iter().filter_map(Need::open).cloned().collect(), spec.served.clone());
        let bills = match self.devices.bills_by_request.get(&asked) {
            Some(known) => known.clone(),
            None => Arc::new(self.bills_of(shape)),
        };
        self.devices.bills_by_request.insert(asked, bills.clone());
        self.devices.bills.insert(shape, bills);
    }

    fn bills_of(&self, shape: ShapeId) -> Bills {
        let spec = self.shapes.get(shape).spec();
        let open: Vec<&Arc<ClaimSpec>> = spec.needs.iter().filter_map(Need::open).collect();
        if open.is_empty() && spec.served.is_empty() {
            return Bills::default();
        }
        let mut is_named = BTreeMap::new();
        let mut found: Vec<Bill> = Vec::new();
        for node in self.nodes.by_name() {
            for bill in self.bills_on(node, spec, &open, &mut is_named) {
                if !found.contains(&bill) && found.len() < BILLS_MAX {
                    found.push(bill);
                }
            }
        }
        let priced = |bill: &Bill| -> DeviceCharge {
            bill.0.iter().filter_map(|(name, amount)| Some((self.names.find(name)?, *amount))).collect()
        };
        let ways: Vec<DeviceCharge> = found.iter().map(priced).collect();
        let named = is_named.iter().filter(|(_, is_named)| **is_named).filter_map(|(name, _)| self.names.find(name));
        let mut named: Vec<ResourceId> = named.collect();
        named.sort_unstable();
        if !ways.is_empty() {
            return Bills { least: fold(&ways, Amount::min), most: fold(&ways, Amount::max), ways, named };
        }
        let counted = self.bills_by_count(spec, &open);
        let counted: Vec<DeviceCharge> = counted.iter().map(priced).collect();
        Bills { ways, least: fold(&counted, Amount::min), most: fold(&counted, Amount::max), named }
    }

    fn bills_on(
        &self,
        node: NodeId,
        spec: &PodSpec,
        open: &[&Arc<ClaimSpec>],
        is_named: &mut BTreeMap<Name, bool>,
    ) -> Vec<Bill> {
        let facts = self.nodes.get(node);
        let site = self.devices.site(&facts.name, &facts.labels);
        let served = self.served_by_devices(&spec.served, node);
        let extended = extended_spec(&served);
        let served: Vec<ExtendedRequest> = served.into_iter().map(|(request, _)| request).collect();
        let mut pricing = Pricing { world: self, site: &site, served: &served, is_named };
        let mut ways = vec![Bill::default()];
        for (spec, is_extended) in open.iter().map(|spec| (&***spec, false)).chain(extended.iter().map(|e| (e, true))) {
            for request in &spec.requests {
                ways = sums(ways, &pricing.request(request, is_extended));
            }
        }
        ways
    }

    /// What counts alone say, where no node has such devices: by alternatives.
    fn bills_by_count(&self, spec: &PodSpec, open: &[&Arc<ClaimSpec>]) -> Vec<Bill> {
        let extended = extended_spec(&spec.served);
        let served: Vec<ExtendedRequest> = spec.served.iter().map(|(request, _)| request.clone()).collect();
        let mut ways = vec![Bill::default()];
        for (spec, is_extended) in open.iter().map(|spec| (&***spec, false)).chain(extended.iter().map(|e| (e, true))) {
            for request in &spec.requests {
                let counted = |alternative: &Alternative| {
                    let asked_as = if is_extended { asked_as(&served, &alternative.name) } else { None };
                    let count = match alternative.count {
                        Count::All => 1,
                        Count::Exactly(count) => count.min(RESULTS_MAX as u64),
                    };
                    let mut bill = Bill::default();
                    for _ in 0..if alternative.admin { 0 } else { count } {
                        bill.add_device(&self.devices, &alternative.class, None, &[], asked_as.as_ref());
                    }
                    bill
                };
                ways = sums(ways, &request.alternatives.iter().map(counted).collect::<Vec<_>>());
            }
        }
        ways
    }

    /// What a pending pod will be charged for devices at least: what all ways have in common, and what claims have that
    /// nobody pays for yet.
    pub fn asked_devices(&self, id: PodId) -> DeviceCharge {
        self.devices_with(id, &self.device_bills(id).least)
    }

    /// The same in one of the ways.
    pub fn devices_with(&self, id: PodId, way: &DeviceCharge) -> DeviceCharge {
        let mut charge = way.clone();
        self.add_bill(&mut charge, &self.unpaid(id));
        charge
    }

    /// What a pod will pay for claims that have devices and no user.
    fn unpaid(&self, id: PodId) -> Bill {
        let mut bill = Bill::default();
        let pod = self.pods.get(id);
        for key in self.claim_keys(pod) {
            let claim = self.device_claims.get(&key).filter(|claim| !claim.fact.extended && claim.payer().is_none());
            if let Some((claim, allocation)) = claim.and_then(|claim| Some((claim, claim.allocation()?))) {
                self.bill_allocation(&mut bill, &claim.fact.spec, allocation, &[]);
            }
        }
        bill
    }

    /// Whether a pod's quotas have room for these devices.
    pub(super) fn affords(&self, pod: &Pod, base: &DeviceCharge, bill: &Bill) -> bool {
        self.device_refusals(pod, base, bill).is_empty()
    }

    pub(super) fn device_refusals(&self, pod: &Pod, base: &DeviceCharge, bill: &Bill) -> Vec<Refusal> {
        let mut charge = base.clone();
        self.add_bill(&mut charge, bill);
        let ask = Ask { charge: &charge, non_preemptible: pod.is_non_preemptible(), has_victims: pod.has_victims() };
        self.quotas.refusals(&pod.quotas, &ask, &self.names)
    }

    /// What a pod is charged beside what is chosen for its open claims.
    pub(super) fn charge_beside(&self, id: PodId) -> DeviceCharge {
        let mut charge = self.shapes.get(self.pods.get(id).shape).charge.clone();
        self.add_bill(&mut charge, &self.unpaid(id));
        charge
    }

    /// What these devices cost.
    pub(super) fn bill_picks(&self, ask: &DeviceAsk, served: &[ExtendedRequest], picks: &[Pick<'_>]) -> Bill {
        let mut bill = Bill::default();
        for Pick { claim, alternative, device, consumed } in picks.iter().filter(|pick| !pick.alternative.admin) {
            let is_extended = *claim == ask.open.len();
            let asked_as = if is_extended { asked_as(served, &alternative.name) } else { None };
            bill.add_pick(&self.devices, alternative, device, consumed, asked_as.as_ref());
        }
        bill
    }

    /// Whether a bill stays within one of the ways, as far as quotas speak of it.
    pub(super) fn is_within_way(&self, way: &DeviceCharge, bills: &Bills, bill: &Bill) -> bool {
        bill.0.iter().all(|(name, amount)| {
            let resource = self.names.find(name).filter(|resource| bills.named.binary_search(resource).is_ok());
            let most = |resource| way.iter().find(|(known, _)| *known == resource).map_or(0, |(_, amount)| *amount);
            resource.is_none_or(|resource| *amount <= most(resource))
        })
    }

    /// Adds what is on a bill to a charge, for names that somebody counts.
    pub(super) fn add_bill(&self, charge: &mut DeviceCharge, bill: &Bill) {
        for (name, amount) in &bill.0 {
            let Some(resource) = self.names.find(name) else { continue };
            match charge.iter_mut().find(|(known, _)| *known == resource) {
                Some((_, sum)) => *sum = sum.saturating_add(*amount),
                None => charge.push((resource, *amount)),
            }
        }
    }

    /// What a pod requests of devices, as trees count it: what it holds, or what it could come to hold.
    pub fn requested_devices(&mut self, id: PodId) -> DeviceCharge {
        match self.pods.get(id).node() {
            Some(_) => self.held_devices(id),
            None => {
                self.remember_bills(id);
                let bills = self.device_bills(id);
                self.devices_with(id, &bills.most)
            }
        }
    }
}
