//! Pools: the slices of a driver put together.

use std::collections::BTreeSet;
use std::sync::Arc;

use quotient_engine::device::{Attribute, DeviceCapacity, DeviceFact, PoolFact, PoolKey, PoolState, Reach};
use quotient_engine::fact::Name;

use super::slice::{Device, Field, Slice, TaintRule};
use crate::intern::Interner;

/// The newest generation of a pool.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    pub state: PoolState,
    /// By name.
    slices: Vec<Arc<Slice>>,
}

impl Pool {
    /// Puts slices of one pool together, which come by name.
    pub fn new(slices: impl Iterator<Item = Arc<Slice>>) -> Option<Self> {
        let mut slices: Vec<Arc<Slice>> = slices.collect();
        let newest = slices.iter().map(|slice| slice.generation).max()?;
        slices.retain(|slice| slice.generation == newest);
        let expected = slices[0].count;
        let state = match (slices.len() as i64 == expected, is_sound(&slices)) {
            (false, _) => PoolState::Incomplete,
            (true, false) => PoolState::Invalid,
            (true, true) => PoolState::Ready,
        };
        Some(Pool { state, slices })
    }

    /// Its devices in the order in which they are tried, with the reach of the slice.
    pub fn devices(&self) -> impl Iterator<Item = (&Device, &Option<Reach>)> {
        self.slices.iter().flat_map(|slice| slice.devices.iter().map(|device| (device, &slice.reach)))
    }

    /// What there is to tell about it.
    pub fn fact<'r>(
        &self,
        key: &PoolKey,
        rules: impl Iterator<Item = &'r TaintRule> + Clone,
        interner: &mut Interner,
    ) -> PoolFact {
        let of_slice = |slice: &Arc<Slice>| match &slice.reach {
            Some(reach) => vec![reach.clone()],
            None => slice.devices.iter().filter_map(|device| device.reach.clone()).collect(),
        };
        if self.state != PoolState::Ready {
            let slices = self.slices.iter().flat_map(of_slice).collect();
            return PoolFact { key: key.clone(), state: self.state, slices, ..PoolFact::default() };
        }
        let mut counters: Vec<(Name, Vec<(Name, i128)>)> =
            self.slices.iter().flat_map(|slice| slice.counters.iter().cloned()).collect();
        counters.sort();
        let rules = rules.filter(|rule| rule.concerns(key));
        let device = |(device, reach): (&Device, &Option<Reach>)| {
            let mut fact = device_fact(device, reach, &key.driver, &counters, interner);
            let more = rules.clone().filter(|rule| rule.concerns_device(&device.name));
            fact.taints.extend(more.map(|rule| rule.taint.clone()));
            fact
        };
        let devices = self.devices().map(device).collect();
        PoolFact { key: key.clone(), state: self.state, devices, counters, slices: Vec::new() }
    }
}

/// Whether no device and no counter set is listed twice, and every counter that is used is listed.
fn is_sound(slices: &[Arc<Slice>]) -> bool {
    let (mut names, mut sets) = (BTreeSet::new(), BTreeSet::new());
    let devices = || slices.iter().flat_map(|slice| &slice.devices);
    let counters = || slices.iter().flat_map(|slice| &slice.counters);
    let is_listed = |(set, counter, _): &(Name, Name, i128)| {
        counters().any(|(name, list)| name == set && list.iter().any(|(name, _)| name == counter))
    };
    devices().all(|device| names.insert(&device.name))
        && counters().all(|(set, _)| sets.insert(set))
        && devices().all(|device| device.consumes.iter().all(is_listed))
}

fn device_fact(
    device: &Device,
    reach: &Option<Reach>,
    driver: &Name,
    counters: &[(Name, Vec<(Name, i128)>)],
    interner: &mut Interner,
) -> DeviceFact {
    let attribute = |field: &Field| match field {
        Field::Int(value) => Attribute::Int(*value),
        Field::Bool(value) => Attribute::Bool(*value),
        Field::Text(text) => Attribute::Text(text.clone()),
        Field::Version(text) => Attribute::Version(text.clone()),
    };
    let mut attributes: Vec<(Name, Attribute)> = device
        .attributes
        .iter()
        .map(|(domain, name, field)| (interner.name(&format!("{domain}/{name}")), attribute(field)))
        .collect();
    attributes.sort();
    let draws = device.consumes.iter().filter_map(|(set, counter, amount)| {
        let at = counters.iter().position(|(name, _)| name == set)?;
        Some((at, counters[at].1.iter().position(|(name, _)| name == counter)?, *amount))
    });
    let capacity = device.capacity.iter().map(|own| DeviceCapacity {
        name: interner.name(&format!("{}/{}", own.domain, own.name)),
        written: own.written.clone(),
        value: own.value,
        format: own.format,
        policy: own.policy.clone(),
    });
    let mut capacity: Vec<DeviceCapacity> = capacity.collect();
    capacity.sort_by(|a, b| a.name.cmp(&b.name));
    DeviceFact {
        name: device.name.clone(),
        // A device of a slice for all its devices has its own; a slice without either reaches no node.
        reach: reach.clone().or_else(|| device.reach.clone()).unwrap_or(Reach::Nodes(Default::default())),
        attributes,
        taints: device.taints.clone(),
        draws: draws.collect(),
        capacity,
        shared: device.shared,
        binds_to_node: device.binds_to_node,
        binds_late: !device.conditions.is_empty(),
        card: device.card(driver).map(|card| interner.name(&card)),
        gigabytes: device.gigabytes(driver),
    }
}
