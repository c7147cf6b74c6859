//! The devices that a node reaches, as a search sees them before it takes any.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::device::{Alternative, Attribute, ClaimSpec, DeviceCapacity, DeviceFact, DeviceTaint, Draw, Verdict};
use crate::devices::Pool;
use crate::fact::Name;

/// A device that the node reaches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    /// Its pool, by place in [`Site::pools`].
    pub pool: usize,
    pub device: &'a DeviceFact,
    /// Its place in its pool.
    pub place: usize,
    /// A claim has all of it.
    pub busy: bool,
    /// It draws from its counters already, since a claim has a share.
    pub drawn: bool,
}

/// What a node reaches.
#[derive(Debug, Default)]
pub(crate) struct Site<'a> {
    /// Pools with a device here: by driver and name, those that bind late last.
    pub pools: Vec<&'a Pool>,
    pub candidates: Vec<Candidate<'a>>,
    /// By candidate: what is left of each capacity of a shared device.
    pub left: Vec<Vec<i128>>,
    /// By pool: what is left of its counters.
    pub counters: Vec<Vec<Vec<i128>>>,
    /// A pool that is here and not ready.
    pub unready: Option<&'a Pool>,
}

impl<'a> Site<'a> {
    /// Adds a pool with the devices of it that the node reaches, by their places.
    pub fn add(&mut self, pool: &'a Pool, places: impl Iterator<Item = usize>) {
        let at = self.pools.len();
        for place in places {
            let device = &pool.fact.devices[place];
            let held = pool.held.get(&device.name);
            let shares = held.map_or(0, |held| held.shares);
            self.candidates.push(Candidate {
                pool: at,
                device,
                place,
                busy: held.is_some_and(|held| held.whole > 0) || (shares > 0 && !device.shared),
                drawn: shares > 0,
            });
            let consumed = |capacity: &DeviceCapacity| {
                held.and_then(|held| held.consumed.get(&capacity.written)).copied().unwrap_or(0)
            };
            let left = |capacity: &DeviceCapacity| capacity.value - consumed(capacity);
            self.left.push(if device.shared { device.capacity.iter().map(left).collect() } else { Vec::new() });
        }
        self.counters.push(pool.counters_left());
        self.pools.push(pool);
    }

    /// What each matcher says of each candidate.
    pub fn verdicts(&self, matcher: &Name) -> Vec<&'a Verdict> {
        let rows: Vec<Option<&'a Arc<[Verdict]>>> = self.pools.iter().map(|pool| pool.verdicts.get(matcher)).collect();
        let verdict = |candidate: &Candidate<'a>| {
            rows[candidate.pool].and_then(|row| row.get(candidate.place)).unwrap_or(&Verdict::No)
        };
        self.candidates.iter().map(verdict).collect()
    }

    /// Numbers the candidates so that those of one number are alike to these claims: the one will do where the other
    /// will.
    pub fn kinds(&self, claims: &[Arc<ClaimSpec>], verdicts: &BTreeMap<&'a Name, Vec<&'a Verdict>>) -> Vec<u32> {
        let attributes: Vec<&Name> =
            claims.iter().flat_map(|claim| claim.constraints.iter().map(|constraint| &constraint.attribute)).collect();
        #[derive(PartialEq, Eq, Hash)]
        struct Kind<'a> {
            verdicts: Vec<bool>,
            attributes: Vec<Option<&'a Attribute>>,
            taints: &'a [DeviceTaint],
            draws: Option<(usize, &'a [Draw])>,
            capacity: &'a [DeviceCapacity],
            left: &'a [i128],
            flags: (bool, bool, bool),
            card: Option<&'a Name>,
        }
        let mut known: crate::lookup::LookupMap<Kind<'_>, u32> = crate::lookup::LookupMap::default();
        let mut count = 0;
        let mut kinds = Vec::with_capacity(self.candidates.len());
        for (i, candidate) in self.candidates.iter().enumerate() {
            let device = candidate.device;
            if verdicts.values().any(|row| matches!(row[i], Verdict::Error(_))) {
                count += 1;
                kinds.push(count - 1);
                continue;
            }
            let kind = Kind {
                verdicts: verdicts.values().map(|row| *row[i] == Verdict::Yes).collect(),
                attributes: attributes.iter().map(|name| attribute(device, name)).collect(),
                taints: &device.taints,
                draws: (!device.draws.is_empty()).then_some((candidate.pool, device.draws.as_slice())),
                capacity: &device.capacity,
                left: &self.left[i],
                flags: (candidate.busy, candidate.drawn, device.shared),
                card: device.card.as_ref(),
            };
            let number = *known.or_insert_with(kind, || count);
            count = count.max(number + 1);
            kinds.push(number);
        }
        kinds
    }
}

/// The attribute of a device, if it has it.
pub(crate) fn attribute<'d>(device: &'d DeviceFact, name: &Name) -> Option<&'d Attribute> {
    device.attributes.binary_search_by(|(known, _)| known.cmp(name)).ok().map(|at| &device.attributes[at].1)
}

/// What an alternative consumes of each capacity of a device; `None` where the device cannot give it, whoever else has
/// a share.
pub(crate) fn consumption(alternative: &Alternative, device: &DeviceFact, driver: &str) -> Option<Vec<i128>> {
    let is = |capacity: &DeviceCapacity, asked: &Name| match asked.contains('/') {
        true => capacity.name == *asked,
        false => capacity.name.strip_prefix(driver).and_then(|rest| rest.strip_prefix('/')) == Some(asked),
    };
    let has_all = alternative.capacity.iter().all(|(asked, _)| device.capacity.iter().any(|own| is(own, asked)));
    if !has_all {
        return None;
    }
    let one = |capacity: &DeviceCapacity| {
        let asked = alternative.capacity.iter().find(|(asked, _)| is(capacity, asked)).map(|(_, amount)| *amount);
        capacity.consumed(asked).filter(|amount| *amount <= capacity.value)
    };
    device.capacity.iter().map(one).collect()
}
