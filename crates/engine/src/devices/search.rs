//! The search for devices: all claims of a pod together, or none.
//!
//! Depth first, in a fixed order: claims as the pod lists them, requests, alternatives, devices; the first complete
//! choice is the answer. Within a request the next device comes after the last, so that combinations are tried and not
//! their orders.
//!
//! Three shortcuts leave out what cannot change the answer. Of devices that are alike only the first is tried where it
//! led nowhere: the others would too. A request that later finds too few devices is seen at once. What was found to
//! lead
//! nowhere is remembered by what it leaves for the requests to come. The last two are off where a selector cannot be
//! evaluated for some device: whether the search comes by that device is part of the answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::device::{Alternative, ClaimSpec, Count, DeviceFact, Draw, RESULTS_MAX, Sameness, Verdict};
use crate::devices::found::{Affordable, Chosen, Fault, Found, Pick};
use crate::devices::prospect::{Mark, Prospect, State};
use crate::devices::site::{Site, attribute, consumption};
use crate::fact::Name;
use crate::lookup::LookupMap;

/// The most devices that are tried for a pod on one node. What needs more counts as not to be had there, and the pod's
/// reason says so. It takes a claim for a dozen devices among dozens that all differ, and rules that none of them
/// meets.
pub const STEPS_MAX: u32 = 200_000;

/// Chooses devices for claims among those that a node reaches.
pub(crate) fn search(site: &Site<'_>, claims: &[Arc<ClaimSpec>], affordable: Affordable<'_>) -> Result<Found, Fault> {
    let mut search = match Search::new(site, claims, affordable)? {
        Some(search) => search,
        None => return Ok(Found::Nothing),
    };
    match search.request(0, 0) {
        Ok(true) => Ok(Found::Devices(search.chosen)),
        Ok(false) => Ok(Found::Nothing),
        Err(Stop::TooLong) => Ok(Found::TooLong),
        Err(Stop::Fault(fault)) => Err(fault),
    }
}

enum Stop {
    TooLong,
    Fault(Fault),
}

/// What holds for a constraint: the candidates chosen under it.
type Bound = Vec<usize>;

struct Search<'a, 'f> {
    site: &'a Site<'a>,
    claims: &'a [Arc<ClaimSpec>],
    affordable: Affordable<'f>,
    verdicts: BTreeMap<&'a Name, Vec<&'a Verdict>>,
    kinds: Vec<u32>,
    /// What is known of each alternative beforehand, by claim, request and alternative.
    prospects: Vec<Vec<Vec<Prospect>>>,
    /// Whether shortcuts may be taken.
    brief: bool,
    /// What leads nowhere.
    futile: LookupMap<State, ()>,
    /// The devices of requests for all of them, by claim, request and alternative.
    all: BTreeMap<(usize, usize, usize), Vec<usize>>,
    chosen: Vec<Chosen>,
    /// By candidate: taken whole in this attempt; how often looked at or shared.
    taken: Vec<bool>,
    uses: Vec<u32>,
    left: Vec<Vec<i128>>,
    counters: Vec<Vec<Vec<i128>>>,
    /// By claim and constraint.
    bound: Vec<Vec<Bound>>,
    steps: u32,
}

impl<'a, 'f> Search<'a, 'f> {
    /// `None` where a request for all devices finds none.
    fn new(
        site: &'a Site<'a>,
        claims: &'a [Arc<ClaimSpec>],
        affordable: Affordable<'f>,
    ) -> Result<Option<Self>, Fault> {
        let mut verdicts: BTreeMap<&Name, Vec<&Verdict>> = BTreeMap::new();
        let alternatives = || claims.iter().flat_map(|claim| &claim.requests).flat_map(|r| &r.alternatives);
        for Alternative { matcher, .. } in alternatives() {
            verdicts.entry(matcher).or_insert_with(|| site.verdicts(matcher));
        }
        let prospect = |alternative: &Alternative| Prospect::new(site, &verdicts[&alternative.matcher], alternative);
        let of_claim = |claim: &Arc<ClaimSpec>| {
            claim.requests.iter().map(|request| request.alternatives.iter().map(prospect).collect()).collect()
        };
        let prospects: Vec<Vec<Vec<Prospect>>> = claims.iter().map(of_claim).collect();
        let excludes = |claim: &Arc<ClaimSpec>| {
            let mut alternatives = claim.requests.iter().flat_map(|request| &request.alternatives);
            !claim.constraints.is_empty() && alternatives.any(|alternative| alternative.count == Count::All)
        };
        let has_errors = prospects.iter().flatten().flatten().any(|prospect| prospect.has_errors);
        let kinds = site.kinds(claims, &verdicts);
        let mut search = Search {
            site,
            claims,
            affordable,
            verdicts,
            kinds,
            brief: !has_errors && !claims.iter().any(excludes),
            prospects,
            futile: LookupMap::default(),
            all: BTreeMap::new(),
            chosen: Vec::new(),
            taken: vec![false; site.candidates.len()],
            uses: vec![0; site.candidates.len()],
            left: site.left.clone(),
            counters: site.counters.clone(),
            bound: claims.iter().map(|claim| vec![Vec::new(); claim.constraints.len()]).collect(),
            steps: 0,
        };
        for (c, claim) in claims.iter().enumerate() {
            let mut least = 0;
            for (r, request) in claim.requests.iter().enumerate() {
                match search.gather(c, r)? {
                    Some(count) => least += count,
                    None => return Ok(None),
                }
                if least > RESULTS_MAX as u64 {
                    return Err(Fault::TooMany { request: request.name.clone() });
                }
            }
        }
        Ok(Some(search))
    }

    /// Collects what a request for all devices is about. Returns how many devices the request takes at least.
    fn gather(&mut self, c: usize, r: usize) -> Result<Option<u64>, Fault> {
        let request = &self.claims[c].requests[r];
        let mut least: Option<u64> = None;
        for (a, alternative) in request.alternatives.iter().enumerate() {
            let count = match alternative.count {
                Count::Exactly(count) => count,
                Count::All => {
                    if let Some(pool) = self.site.unready {
                        let pool = pool.fact.key.clone();
                        return Err(Fault::Unready { request: alternative.name.clone(), pool });
                    }
                    let mut all = Vec::new();
                    for candidate in 0..self.site.candidates.len() {
                        match self.verdicts[&alternative.matcher][candidate] {
                            // One that could never give what is requested is none of those that are meant.
                            Verdict::Yes if self.prospects[c][r][a].could_ever[candidate] => all.push(candidate),
                            Verdict::Yes | Verdict::No => {}
                            Verdict::Error(message) => return Err(self.error(alternative, candidate, message)),
                        }
                    }
                    let count = all.len() as u64;
                    self.all.insert((c, r, a), all);
                    if count == 0 {
                        continue;
                    }
                    count
                }
            };
            least = Some(least.map_or(count, |least| least.min(count)));
        }
        Ok(least)
    }

    fn error(&self, alternative: &Alternative, candidate: usize, message: &Name) -> Fault {
        let device = self.device_name(candidate);
        Fault::Selector { request: alternative.name.clone(), device, message: message.clone() }
    }

    fn device_name(&self, candidate: usize) -> Name {
        let known = &self.site.candidates[candidate];
        let key = &self.site.pools[known.pool].fact.key;
        Name::from(format!("{}/{}/{}", key.driver, key.pool, known.device.name))
    }

    fn step(&mut self) -> Result<(), Stop> {
        self.steps += 1;
        if self.steps > STEPS_MAX { Err(Stop::TooLong) } else { Ok(()) }
    }

    /// Chooses for this request of this claim, and for all that come after it.
    fn request(&mut self, c: usize, r: usize) -> Result<bool, Stop> {
        let Some(claim) = self.claims.get(c) else { return Ok(true) };
        let Some(request) = claim.requests.get(r) else { return self.request(c + 1, 0) };
        if self.brief && self.lacks_devices(c, r) {
            return Ok(false);
        }
        let state = (self.brief && !self.chosen.is_empty()).then(|| self.state(c, r));
        if state.as_ref().is_some_and(|state| self.futile.get(state).is_some()) {
            return Ok(false);
        }
        for a in 0..request.alternatives.len() {
            self.step()?;
            let count = match request.alternatives[a].count {
                Count::Exactly(count) => count,
                Count::All => self.all[&(c, r, a)].len() as u64,
            };
            let so_far = self.chosen.iter().filter(|chosen| chosen.claim == c).count() as u64;
            if count == 0 || so_far + count > RESULTS_MAX as u64 {
                continue;
            }
            let found = match request.alternatives[a].count {
                Count::All => self.all_of((c, r, a), 0)?,
                Count::Exactly(_) => self.some_of((c, r, a), count, 0)?,
            };
            if found {
                return Ok(true);
            }
        }
        if let Some(state) = state {
            self.futile.insert(state, ());
        }
        Ok(false)
    }

    /// Whether some request, from this one on, has too few devices left, whatever else is chosen.
    fn lacks_devices(&self, c: usize, r: usize) -> bool {
        let claims = self.claims.iter().enumerate().skip(c);
        let mut requests = claims
            .flat_map(|(claim, spec)| {
                spec.requests.iter().enumerate().map(move |(request, spec)| (claim, request, spec))
            })
            .filter(|(claim, request, _)| *claim > c || *request >= r);
        requests.any(|(claim, request, spec)| {
            let lacks = |(a, alternative): (usize, &Alternative)| {
                let Count::Exactly(count) = alternative.count else { return false };
                let able = &self.prospects[claim][request][a].able;
                let free = |i: &usize| able[*i] && (alternative.admin || !self.is_used_whole(*i));
                ((0..able.len()).filter(free).count() as u64) < count
            };
            spec.alternatives.iter().enumerate().all(lacks)
        })
    }

    /// What is left for the requests from this one on, by what was taken.
    fn state(&self, c: usize, r: usize) -> State {
        let admin = self.claims.iter().flat_map(|claim| &claim.requests).flat_map(|r| &r.alternatives).any(|a| a.admin);
        let mark = |chosen: &Chosen| {
            let claim = &self.claims[chosen.claim];
            let request = &claim.requests[chosen.request];
            let alternative = &request.alternatives[chosen.alternative];
            let here = chosen.claim == c;
            let is_whole = !admin && self.taken[chosen.candidate];
            let concerned = |i: &usize| here && claim.constraints[*i].concerns(&request.name, &alternative.name);
            Mark {
                device: if is_whole { Ok(self.kinds[chosen.candidate]) } else { Err(chosen.candidate) },
                consumed: chosen.consumed.clone(),
                constraints: (0..claim.constraints.len()).filter(concerned).collect(),
                here,
                admin: alternative.admin,
                class: alternative.class.clone(),
            }
        };
        let mut taken: Vec<Mark> = self.chosen.iter().map(mark).collect();
        taken.sort_unstable();
        State { claim: c, request: r, taken }
    }

    /// Takes all devices of a request, from the `i`-th on: they are all needed, so each must be to be had.
    fn all_of(&mut self, at: (usize, usize, usize), i: usize) -> Result<bool, Stop> {
        let Some(candidate) = self.all[&at].get(i).copied() else { return self.request(at.0, at.1 + 1) };
        self.step()?;
        match self.take(at, candidate) {
            Taken::Yes => {}
            Taken::No => return Ok(false),
            Taken::Excluded => {
                let alternative = &self.claims[at.0].requests[at.1].alternatives[at.2];
                let device = self.device_name(candidate);
                return Err(Stop::Fault(Fault::Excluded { request: alternative.name.clone(), device }));
            }
        }
        if self.all_of(at, i + 1)? {
            return Ok(true);
        }
        self.give_back();
        Ok(false)
    }

    /// Takes `count` more devices for a request, from the candidate `from` on.
    fn some_of(&mut self, at: (usize, usize, usize), count: u64, from: usize) -> Result<bool, Stop> {
        if count == 0 {
            return self.request(at.0, at.1 + 1);
        }
        let alternative = &self.claims[at.0].requests[at.1].alternatives[at.2];
        if self.prospects[at.0][at.1][at.2].remaining[from] < count {
            return Ok(false);
        }
        // Those that led nowhere: kind, and what this attempt did with them before.
        let mut futile: Vec<(u32, bool, u32, bool)> = Vec::new();
        for candidate in from..self.site.candidates.len() {
            if !self.is_free(at, alternative, candidate) {
                continue;
            }
            match self.verdicts[&alternative.matcher][candidate] {
                Verdict::Yes => {}
                Verdict::No => continue,
                Verdict::Error(message) => return Err(Stop::Fault(self.error(alternative, candidate, message))),
            }
            let alike = (self.kinds[candidate], self.taken[candidate], self.uses[candidate], self.has(at.0, candidate));
            if futile.contains(&alike) {
                continue;
            }
            self.step()?;
            if let Taken::Yes = self.take(at, candidate) {
                if self.some_of(at, count - 1, candidate + 1)? {
                    return Ok(true);
                }
                self.give_back();
            }
            // A share that was taken from it in this attempt makes it unlike others, whatever else it is.
            if self.uses[candidate] == 0 {
                futile.push(alike);
            }
        }
        Ok(false)
    }

    /// Whether this claim has the device already, in this attempt.
    fn has(&self, claim: usize, candidate: usize) -> bool {
        self.chosen.iter().any(|chosen| chosen.claim == claim && chosen.candidate == candidate)
    }

    /// Whether a device may still be taken, or looked at. What a claim looks at, it does not get for itself as well,
    /// unless several may use the device.
    fn is_free(&self, at: (usize, usize, usize), alternative: &Alternative, candidate: usize) -> bool {
        let known = &self.site.candidates[candidate];
        match alternative.admin {
            true => known.device.shared || !self.has(at.0, candidate),
            false => !known.busy && !self.is_used_whole(candidate),
        }
    }

    /// Whether this attempt has taken the device for one user, or looks at it as one that has a single user.
    fn is_used_whole(&self, candidate: usize) -> bool {
        self.taken[candidate] || self.uses[candidate] > 0 && !self.site.candidates[candidate].device.shared
    }

    /// Whether one more use of a device draws from its counters. A shared device draws once.
    fn draws(&self, candidate: usize) -> bool {
        let known = &self.site.candidates[candidate];
        !known.device.shared || !known.drawn && self.uses[candidate] == 0
    }

    /// Takes a device, if it is to be had as things are.
    fn take(&mut self, at: (usize, usize, usize), candidate: usize) -> Taken {
        let request = &self.claims[at.0].requests[at.1];
        let alternative = &request.alternatives[at.2];
        let known = self.site.candidates[candidate];
        let device = known.device;
        let tolerated = |taint| alternative.tolerations.iter().any(|toleration| toleration.tolerates(taint));
        if !self.is_free(at, alternative, candidate) || !device.taints.iter().all(tolerated) {
            return Taken::No;
        }
        let driver = &self.site.pools[known.pool].fact.key.driver;
        let Some(amounts) = consumption(alternative, device, driver) else { return Taken::No };
        let mut consumed = Vec::new();
        if device.shared {
            if amounts.iter().zip(&self.left[candidate]).any(|(amount, left)| amount > left) {
                return Taken::No;
            }
            consumed = amounts;
        }
        let counters = &self.counters[known.pool];
        let lacks = |(set, counter, amount): &Draw| counters[*set][*counter] < *amount;
        if self.draws(candidate) && device.draws.iter().any(lacks) {
            return Taken::No;
        }
        if !self.meets_constraints(at, candidate) {
            return Taken::Excluded;
        }
        if !self.is_affordable(at.0, alternative, device, &consumed) {
            return Taken::No;
        }
        self.put(at, candidate, consumed, 1);
        Taken::Yes
    }

    fn meets_constraints(&self, at: (usize, usize, usize), candidate: usize) -> bool {
        let claim = &self.claims[at.0];
        let request = &claim.requests[at.1];
        let device = self.site.candidates[candidate].device;
        claim.constraints.iter().zip(&self.bound[at.0]).all(|(constraint, bound)| {
            if !constraint.concerns(&request.name, &request.alternatives[at.2].name) {
                return true;
            }
            let Some(value) = attribute(device, &constraint.attribute) else { return false };
            let of = |other: &usize| attribute(self.site.candidates[*other].device, &constraint.attribute);
            match constraint.sameness {
                Sameness::Match => bound.first().is_none_or(|first| of(first) == Some(value)),
                Sameness::Distinct => bound.iter().all(|other| of(other) != Some(value)),
            }
        })
    }

    fn is_affordable(
        &mut self,
        claim: usize,
        alternative: &Alternative,
        device: &DeviceFact,
        consumed: &[i128],
    ) -> bool {
        let claims = self.claims;
        let mut picks: Vec<Pick<'_>> = Vec::with_capacity(self.chosen.len() + 1);
        for chosen in &self.chosen {
            let alternative = &claims[chosen.claim].requests[chosen.request].alternatives[chosen.alternative];
            let device = self.site.candidates[chosen.candidate].device;
            picks.push(Pick { claim: chosen.claim, alternative, device, consumed: &chosen.consumed });
        }
        picks.push(Pick { claim, alternative, device, consumed });
        (self.affordable)(&picks)
    }

    /// Puts a choice down, or takes it up again.
    fn put(&mut self, at: (usize, usize, usize), candidate: usize, consumed: Vec<i128>, sign: i128) {
        let claim = &self.claims[at.0];
        let request = &claim.requests[at.1];
        let alternative = &request.alternatives[at.2];
        let known = self.site.candidates[candidate];
        let add = sign > 0;
        let is_use = known.device.shared || alternative.admin;
        if is_use && !add {
            self.uses[candidate] -= 1;
        }
        if self.draws(candidate) {
            for (set, counter, amount) in &known.device.draws {
                self.counters[known.pool][*set][*counter] -= sign * amount;
            }
        }
        for (left, amount) in self.left[candidate].iter_mut().zip(&consumed) {
            *left -= sign * amount;
        }
        match is_use {
            true => self.uses[candidate] += u32::from(add),
            false => self.taken[candidate] = add,
        }
        for (constraint, bound) in claim.constraints.iter().zip(&mut self.bound[at.0]) {
            if constraint.concerns(&request.name, &alternative.name) {
                match add {
                    true => bound.push(candidate),
                    false => bound.truncate(bound.len() - 1),
                }
            }
        }
        if add {
            let (claim, request, alternative) = at;
            self.chosen.push(Chosen { claim, request, alternative, candidate, consumed });
        } else {
            self.chosen.pop();
        }
    }

    /// Gives the last device back.
    fn give_back(&mut self) {
        let Some(last) = self.chosen.last().cloned() else { return };
        let Chosen { claim, request, alternative, candidate, consumed } = last;
        self.put((claim, request, alternative), candidate, consumed, -1);
    }
}

enum Taken {
    Yes,
    No,
    /// A constraint excludes it.
    Excluded,
}
