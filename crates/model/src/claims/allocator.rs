//! A naive allocator: every choice of devices for claims on a node, in the order in which they are to be tried.

use std::collections::BTreeMap;

use crate::claims::devices::{Asked, Devices, Held, Way, is_of};

/// More choices than this are not looked at; small clusters have fewer.
const CHOICES_MAX: usize = 3_000;

/// A device that was chosen, and for which claim.
#[derive(Debug, Clone)]
struct Pick {
    claim: usize,
    held: Held,
}

struct Search<'a> {
    devices: &'a Devices,
    asked: &'a [Asked],
    node: &'a str,
    /// By device: a claim has all of it; what shares consume, if any do.
    whole: Vec<bool>,
    consumed: Vec<Option<i128>>,
    /// By pool: what claims have drawn.
    drawn: BTreeMap<String, i128>,
    found: Vec<Vec<Vec<Held>>>,
}

/// All choices of devices for these claims together, by claim. `gone` are claims that hold nothing any more.
pub fn choices(devices: &Devices, asked: &[Asked], node: &str, gone: &[usize]) -> Vec<Vec<Vec<Held>>> {
    let mut search = Search {
        devices,
        asked,
        node,
        whole: vec![false; devices.list.len()],
        consumed: vec![None; devices.list.len()],
        drawn: BTreeMap::new(),
        found: Vec::new(),
    };
    for (at, claim) in devices.claims.iter().enumerate() {
        for held in claim.held.iter().flatten().filter(|held| !gone.contains(&at) && !held.is_admin) {
            match held.share {
                Some(mem) => *search.consumed[held.device].get_or_insert(0) += mem,
                None => search.whole[held.device] = true,
            }
        }
    }
    for (at, device) in devices.list.iter().enumerate() {
        if search.whole[at] || search.consumed[at].is_some() {
            *search.drawn.entry(device.pool.clone()).or_default() += device.units;
        }
    }
    search.request(0, 0, &mut Vec::new());
    search.found
}

impl Search<'_> {
    fn request(&mut self, claim: usize, request: usize, picks: &mut Vec<Pick>) {
        if self.found.len() >= CHOICES_MAX {
            return;
        }
        let asked = self.asked;
        let Some(of_claim) = asked.get(claim) else {
            let of = |claim| picks.iter().filter(|pick| pick.claim == claim).map(|pick| pick.held.clone()).collect();
            self.found.push((0..asked.len()).map(of).collect());
            return;
        };
        let Some(ways) = of_claim.requests.get(request) else { return self.request(claim + 1, 0, picks) };
        for way in ways {
            match way.count {
                Some(count) => self.some((claim, request), way, count, 0, picks),
                None => self.all((claim, request), way, picks),
            }
        }
    }

    /// The devices on the node that match and could ever give what is requested.
    fn matching(&self, way: &Way) -> Vec<usize> {
        let is_here = |at: &usize| {
            let device = &self.devices.list[*at];
            device.node.as_deref().is_none_or(|node| node == self.node)
                && is_of(&way.class, device)
                && device.consumes(way.mem).is_some()
        };
        (0..self.devices.list.len()).filter(is_here).collect()
    }

    fn all(&mut self, at: (usize, usize), way: &Way, picks: &mut Vec<Pick>) {
        let all = self.matching(way);
        let before = picks.len();
        let is_had = !all.is_empty() && all.iter().all(|device| self.take(at.0, way, *device, picks));
        if is_had {
            self.request(at.0, at.1 + 1, picks);
        }
        picks.truncate(before);
    }

    fn some(&mut self, at: (usize, usize), way: &Way, count: u64, from: usize, picks: &mut Vec<Pick>) {
        if count == 0 {
            return self.request(at.0, at.1 + 1, picks);
        }
        for device in self.matching(way).into_iter().filter(|device| *device >= from) {
            if self.take(at.0, way, device, picks) {
                self.some(at, way, count - 1, device + 1, picks);
                picks.pop();
            }
        }
    }

    /// Adds a device to what is picked, if it is to be had.
    fn take(&self, claim: usize, way: &Way, device: usize, picks: &mut Vec<Pick>) -> bool {
        let known = &self.devices.list[device];
        let mut of_device = picks.iter().filter(|pick| pick.held.device == device);
        let is_used = of_device.clone().next().is_some();
        let is_taken = match way.is_admin {
            true => of_device.any(|pick| pick.claim == claim),
            false => self.whole[device] || is_used,
        };
        if is_taken && !known.is_shared {
            return false;
        }
        let Some(consumes) = known.consumes(way.mem) else { return false };
        let shares = picks.iter().filter(|pick| pick.held.device == device).filter_map(|pick| pick.held.share);
        let consumed = self.consumed[device].unwrap_or(0) + shares.sum::<i128>();
        if known.is_shared && known.mem.is_some_and(|value| consumed + consumes > value) {
            return false;
        }
        let draws = |pick: &&Pick| self.devices.list[pick.held.device].pool == known.pool;
        let in_attempt: i128 = picks.iter().filter(draws).map(|pick| self.devices.list[pick.held.device].units).sum();
        let drawn = self.drawn.get(&known.pool).copied().unwrap_or(0) + in_attempt;
        if known.units > 0 && drawn + known.units > self.devices.units.get(&known.pool).copied().unwrap_or(0) {
            return false;
        }
        let of_claim = picks.iter().filter(|pick| pick.claim == claim);
        let differs = |pick: &Pick| self.devices.list[pick.held.device].model != known.model;
        if self.asked[claim].is_matched && of_claim.clone().any(differs) {
            return false;
        }
        let share = known.is_shared.then_some(consumes);
        picks.push(Pick { claim, held: Held { device, class: way.class.clone(), is_admin: way.is_admin, share } });
        true
    }
}
