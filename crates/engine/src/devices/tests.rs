//! The search beside a plain one, on random pools and claims: the plain one lists every choice in order and replays it
//! from the start. `PROPTEST_CASES=100000` tries more than the few thousand of an ordinary run.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::device::*;
use crate::quantity::Format;
use crate::sign::Sign;

const NODE: &str = "node";

/// A small generator of choices; equal seeds give equal cases.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % sides
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }
}

fn name(text: impl AsRef<str>) -> Name {
    Name::from(text.as_ref())
}

fn capacity(dice: &mut Dice) -> DeviceCapacity {
    let value = 10 + 10 * i128::from(dice.roll(3));
    let valid = match dice.roll(4) {
        0 => ValidAmounts::Range { min: 4, max: (dice.one_in(2)).then_some(16), step: dice.one_in(2).then_some(3) },
        1 => ValidAmounts::Values(vec![5, 10, 20]),
        _ => ValidAmounts::Any,
    };
    let policy = CapacityPolicy { default: dice.one_in(2).then_some(5), valid };
    DeviceCapacity { name: name("driver/memory"), written: name("memory"), value, format: Format::DecimalSI, policy }
}

fn device(dice: &mut Dice, at: usize, has_counters: bool) -> DeviceFact {
    let mut attributes = Vec::new();
    if !dice.one_in(6) {
        attributes.push((name("a"), Attribute::Int(dice.roll(3) as i64)));
    }
    if !dice.one_in(4) {
        attributes.push((name("b"), if dice.one_in(2) { Attribute::Bool(true) } else { Attribute::Text(name("x")) }));
    }
    let draws =
        (has_counters && !dice.one_in(3)).then(|| vec![(0, dice.roll(2) as usize, 1 + i128::from(dice.roll(3)))]);
    DeviceFact {
        name: name(format!("d{at}")),
        reach: match dice.roll(8) {
            0 => Reach::Node(name("elsewhere")),
            1 => Reach::All,
            _ => Reach::Node(name(NODE)),
        },
        attributes,
        taints: if dice.one_in(8) {
            vec![DeviceTaint { key: name("t"), value: name(""), effect: DeviceEffect::NoSchedule }]
        } else {
            Vec::new()
        },
        draws: draws.unwrap_or_default(),
        capacity: if dice.one_in(2) { vec![capacity(dice)] } else { Vec::new() },
        shared: dice.one_in(4),
        binds_to_node: false,
        binds_late: dice.one_in(12),
        card: dice.one_in(4).then(|| name("card")),
        gigabytes: None,
    }
}

fn world(dice: &mut Dice) -> Devices {
    let mut devices = Devices::default();
    let pools = 1 + dice.roll(2);
    for p in 0..pools {
        let has_counters = dice.one_in(2);
        let key = PoolKey { driver: name("driver"), pool: name(format!("p{p}")) };
        let list: Vec<DeviceFact> = (0..2 + dice.roll(5) as usize).map(|at| device(dice, at, has_counters)).collect();
        let set = vec![(name("c"), 2 + i128::from(dice.roll(4))), (name("d"), 3)];
        let count = list.len();
        let mut held = Allocation::default();
        for device in &list {
            if !dice.one_in(5) {
                continue;
            }
            held.results.push(DeviceResult {
                request: name("r"),
                device: DeviceKey { pool: key.clone(), device: device.name.clone() },
                admin: dice.one_in(6),
                share: device.shared,
                consumed: device.capacity.iter().filter(|_| device.shared).map(|c| (c.written.clone(), 5)).collect(),
            });
        }
        devices.observe_pool(PoolFact {
            key: key.clone(),
            state: if dice.one_in(10) { PoolState::Incomplete } else { PoolState::Ready },
            devices: list,
            counters: if has_counters { vec![(name("s"), set)] } else { Vec::new() },
            slices: vec![Reach::Node(name(NODE))],
        });
        for matcher in ["m0", "m1", "m2"] {
            let few = 3 + dice.roll(6);
            let verdicts = (0..count).map(|_| if dice.one_in(few) { Verdict::No } else { Verdict::Yes }).collect();
            devices.observe_verdicts(VerdictsFact { matcher: name(matcher), pool: key.clone(), verdicts });
        }
        devices.hold(&held, Sign::Add);
    }
    devices
}

fn alternative(dice: &mut Dice, name_of: Name, listed: bool) -> Alternative {
    let tolerates = DeviceToleration { key: dice.one_in(2).then(|| name("t")), value: None, effect: None };
    Alternative {
        name: name_of,
        class: name("class"),
        matcher: name(["m0", "m1", "m2"][dice.roll(3) as usize]),
        count: if dice.one_in(8) { Count::All } else { Count::Exactly(1 + dice.roll(2)) },
        admin: !listed && dice.one_in(10),
        tolerations: if dice.one_in(3) { vec![tolerates] } else { Vec::new() },
        capacity: if dice.one_in(5) { vec![(name("memory"), 1 + i128::from(dice.roll(12)))] } else { Vec::new() },
    }
}

fn claim(dice: &mut Dice) -> Arc<ClaimSpec> {
    let requests = (0..1 + dice.roll(2)).map(|r| {
        let own = name(format!("r{r}"));
        let listed = dice.one_in(3);
        let alternatives = match listed {
            true => (0..1 + dice.roll(2)).map(|a| alternative(dice, name(format!("r{r}/{a}")), true)).collect(),
            false => vec![alternative(dice, own.clone(), false)],
        };
        DeviceRequest { name: own, alternatives, listed }
    });
    let requests = requests.collect();
    let constraints = (0..dice.roll(5) / 3).map(|_| Constraint {
        attribute: name(["a", "b"][dice.roll(2) as usize]),
        sameness: if dice.one_in(2) { Sameness::Match } else { Sameness::Distinct },
        requests: [Vec::new(), vec![name("r0")], vec![name("r1/0"), name("r0")]][dice.roll(3) as usize].clone(),
    });
    let constraints = constraints.collect();
    Arc::new(ClaimSpec { requests, constraints })
}

/// Every way to use some alternative of each request with some devices, in order: the first that holds is the answer.
fn plain(site: &Site<'_>, claims: &[Arc<ClaimSpec>], cards_max: usize) -> Option<Vec<(usize, usize, usize, usize)>> {
    let slots: Vec<(usize, usize)> =
        claims.iter().enumerate().flat_map(|(c, claim)| (0..claim.requests.len()).map(move |r| (c, r))).collect();
    let mut picks = Vec::new();
    enumerate(site, claims, &slots, &mut picks, cards_max)
}

fn enumerate(
    site: &Site<'_>,
    claims: &[Arc<ClaimSpec>],
    slots: &[(usize, usize)],
    picks: &mut Vec<(usize, usize, usize, usize)>,
    cards_max: usize,
) -> Option<Vec<(usize, usize, usize, usize)>> {
    let Some(((c, r), rest)) = slots.split_first() else {
        return holds(site, claims, picks, cards_max).then(|| picks.clone());
    };
    for (a, alternative) in claims[*c].requests[*r].alternatives.iter().enumerate() {
        let row = site.verdicts(&alternative.matcher);
        let matching: Vec<usize> = (0..row.len()).filter(|i| *row[*i] == Verdict::Yes).collect();
        let could_ever = |device: &usize| {
            let capacity = &site.candidates[*device].device.capacity;
            let asked = alternative.capacity.iter().find(|(name, _)| &**name == "memory").map(|(_, amount)| *amount);
            let gives = |own: &DeviceCapacity| own.consumed(asked).is_some_and(|amount| amount <= own.value);
            capacity.iter().all(gives) && (asked.is_none() || !capacity.is_empty())
        };
        let matching: Vec<usize> = match alternative.count {
            Count::All => matching.into_iter().filter(could_ever).collect(),
            Count::Exactly(_) => matching,
        };
        let sets: Vec<Vec<usize>> = match alternative.count {
            Count::All if matching.is_empty() => Vec::new(),
            Count::All => vec![matching],
            Count::Exactly(count) => subsets(&matching, count as usize),
        };
        for set in sets {
            let before = picks.len();
            picks.extend(set.iter().map(|device| (*c, *r, a, *device)));
            // A choice that does not hold by itself cannot be mended by what comes after it.
            if holds(site, claims, picks, cards_max)
                && let Some(found) = enumerate(site, claims, rest, picks, cards_max)
            {
                return Some(found);
            }
            picks.truncate(before);
        }
    }
    None
}

fn subsets(of: &[usize], count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (i, first) in of.iter().enumerate() {
        for mut rest in subsets(&of[i + 1..], count - 1) {
            rest.insert(0, *first);
            all.push(rest);
        }
    }
    all
}

/// Whether these choices hold together, replayed one after the other.
fn holds(site: &Site<'_>, claims: &[Arc<ClaimSpec>], picks: &[(usize, usize, usize, usize)], cards_max: usize) -> bool {
    let mut counters = site.counters.clone();
    let mut cards = 0;
    for (i, (c, r, a, device)) in picks.iter().enumerate() {
        let before = &picks[..i];
        let request = &claims[*c].requests[*r];
        let alternative = &request.alternatives[*a];
        let known = &site.candidates[*device];
        let tolerated = |taint: &DeviceTaint| alternative.tolerations.iter().any(|t| t.tolerates(taint));
        if !known.device.taints.iter().all(tolerated) {
            return false;
        }
        let earlier = || before.iter().filter(|pick| pick.3 == *device);
        let is_taken = match alternative.admin {
            // What a claim has already it does not look at as well.
            true => earlier().any(|pick| pick.0 == *c),
            false => known.busy || earlier().next().is_some(),
        };
        // What several may use is never taken, but by somebody who has all of it.
        if is_taken && (!known.device.shared || known.busy && !alternative.admin) {
            return false;
        }
        for (k, capacity) in known.device.capacity.iter().enumerate() {
            let of = |pick: &(usize, usize, usize, usize)| {
                let alternative = &claims[pick.0].requests[pick.1].alternatives[pick.2];
                let asked = alternative.capacity.iter().find(|(name, _)| &**name == "memory");
                capacity.consumed(asked.map(|(_, amount)| *amount))
            };
            let Some(own) = of(&picks[i]) else { return false };
            let others: i128 = earlier().filter_map(of).sum();
            let most = if known.device.shared { site.left[*device][k] - others } else { capacity.value };
            if own > most.min(capacity.value) {
                return false;
            }
        }
        if !alternative.capacity.is_empty() && known.device.capacity.is_empty() {
            return false;
        }
        // A device that several may use draws once; any other draws for each who has it or looks at it.
        if !known.device.shared || !known.drawn && earlier().next().is_none() {
            for (set, counter, amount) in &known.device.draws {
                counters[known.pool][*set][*counter] -= amount;
                if counters[known.pool][*set][*counter] < 0 {
                    return false;
                }
            }
        }
        cards += usize::from(known.device.card.is_some() && !alternative.admin);
        for constraint in claims[*c].constraints.iter().filter(|k| k.concerns(&request.name, &alternative.name)) {
            let value = |device: usize| {
                site.candidates[device].device.attributes.iter().find(|(name, _)| *name == constraint.attribute)
            };
            let Some((_, own)) = value(*device) else { return false };
            let concerned = before.iter().filter(|pick| {
                let request = &claims[pick.0].requests[pick.1];
                pick.0 == *c && constraint.concerns(&request.name, &request.alternatives[pick.2].name)
            });
            let same = concerned.filter(|pick| value(pick.3).is_some_and(|(_, other)| other == own)).count();
            let all = before.iter().filter(|pick| {
                let request = &claims[pick.0].requests[pick.1];
                pick.0 == *c && constraint.concerns(&request.name, &request.alternatives[pick.2].name)
            });
            let met = match constraint.sameness {
                Sameness::Match => same == all.count(),
                Sameness::Distinct => same == 0,
            };
            if !met {
                return false;
            }
        }
    }
    cards <= cards_max
}

/// One random case. Returns whether devices were found, `None` where the attempt ended otherwise.
fn compare(seed: u64) -> Option<bool> {
    let mut dice = Dice(seed);
    let devices = world(&mut dice);
    let claims: Vec<Arc<ClaimSpec>> = (0..1 + dice.roll(2)).map(|_| claim(&mut dice)).collect();
    let cards_max = if dice.one_in(3) { dice.roll(2) as usize } else { usize::MAX };
    let site = devices.site(&name(NODE), &Labels::default());
    let has_all = |claim: &Arc<ClaimSpec>| {
        claim.requests.iter().flat_map(|r| &r.alternatives).any(|alternative| alternative.count == Count::All)
    };
    let mut affordable = |picks: &[found::Pick<'_>]| {
        picks.iter().filter(|pick| pick.device.card.is_some() && !pick.alternative.admin).count() <= cards_max
    };
    match search(&site, &claims, &mut affordable) {
        Err(Fault::Excluded { .. }) => {
            assert!(claims.iter().any(|claim| has_all(claim) && !claim.constraints.is_empty()), "seed {seed}");
            None
        }
        Err(Fault::Unready { .. }) => {
            assert!(site.unready.is_some() && claims.iter().any(has_all), "seed {seed}");
            None
        }
        Err(fault) => panic!("seed {seed}: {fault:?}"),
        Ok(Found::TooLong) => panic!("seed {seed}: given up on a small case"),
        Ok(found) => {
            let found = match found {
                Found::Devices(chosen) => {
                    Some(chosen.iter().map(|k| (k.claim, k.request, k.alternative, k.candidate)).collect::<Vec<_>>())
                }
                _ => None,
            };
            assert_eq!(found, plain(&site, &claims, cards_max), "seed {seed}");
            Some(found.is_some())
        }
    }
}

#[test]
fn the_search_finds_what_a_plain_one_finds() {
    let cases = ProptestConfig::default().cases.max(4_000);
    let (found, nothing) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    proptest!(ProptestConfig::with_cases(cases), |(seed in any::<u64>())| {
        match compare(seed) {
            Some(true) => found.set(found.get() + 1),
            Some(false) => nothing.set(nothing.get() + 1),
            None => {}
        }
    });
    let (found, nothing) = (found.get(), nothing.get());
    // A comparison that finds nothing, or everything, compares nothing.
    assert!(found > cases / 5 && nothing > cases / 10, "found {found}, nothing {nothing} of {cases}");
}

fn pool_of(count: usize, make: impl Fn(usize) -> DeviceFact) -> Devices {
    let mut devices = Devices::default();
    let key = PoolKey { driver: name("driver"), pool: name("p") };
    devices.observe_pool(PoolFact { key: key.clone(), devices: (0..count).map(make).collect(), ..PoolFact::default() });
    let verdicts = (0..count).map(|_| Verdict::Yes).collect();
    devices.observe_verdicts(VerdictsFact { matcher: name("m"), pool: key, verdicts });
    devices
}

fn simple(at: usize) -> DeviceFact {
    DeviceFact {
        name: name(format!("d{at}")),
        reach: Reach::Node(name(NODE)),
        attributes: vec![(name("uuid"), Attribute::Int(at as i64)), (name("z"), Attribute::Int(at as i64 % 4))],
        taints: Vec::new(),
        draws: Vec::new(),
        capacity: Vec::new(),
        shared: false,
        binds_to_node: false,
        binds_late: false,
        card: None,
        gigabytes: None,
    }
}

fn ask(count: u64) -> DeviceRequest {
    let alternative = Alternative {
        name: name("r"),
        class: name("class"),
        matcher: name("m"),
        count: Count::Exactly(count),
        admin: false,
        tolerations: Vec::new(),
        capacity: Vec::new(),
    };
    DeviceRequest { name: name("r"), alternatives: vec![alternative], listed: false }
}

fn find(devices: &Devices, claims: &[Arc<ClaimSpec>]) -> Result<Found, Fault> {
    search(&devices.site(&name(NODE), &Labels::default()), claims, &mut |_| true)
}

#[test]
fn a_request_that_cannot_be_met_is_given_up_at_once_among_equal_devices() {
    // 128 devices, of which two claims of 20 have the first 40; 32 + 32 + 32 is more than the 88 that are left.
    let devices = pool_of(88, simple);
    let claims: Vec<Arc<ClaimSpec>> =
        (0..3).map(|_| Arc::new(ClaimSpec { requests: vec![ask(32)], constraints: Vec::new() })).collect();
    assert_eq!(find(&devices, &claims), Ok(Found::Nothing));
}

#[test]
fn a_search_that_nothing_prunes_ends_all_the_same() {
    // Every device has an attribute of its own, and the last request contradicts the first.
    let devices = pool_of(64, simple);
    let constraint =
        |sameness, attribute: &str| Constraint { attribute: name(attribute), sameness, requests: Vec::new() };
    let constraints = vec![constraint(Sameness::Distinct, "uuid"), constraint(Sameness::Distinct, "z")];
    let claims = vec![Arc::new(ClaimSpec { requests: vec![ask(16), ask(16)], constraints })];
    assert!(matches!(find(&devices, &claims), Ok(Found::TooLong | Found::Nothing)));
}

#[test]
fn an_error_counts_where_the_search_comes_by_it() {
    let mut devices = pool_of(3, simple);
    let key = PoolKey { driver: name("driver"), pool: name("p") };
    let verdicts = [Verdict::Yes, Verdict::Error(name("no such key: model")), Verdict::Yes].into_iter().collect();
    devices.observe_verdicts(VerdictsFact { matcher: name("m"), pool: key, verdicts });
    let claim = |count| vec![Arc::new(ClaimSpec { requests: vec![ask(count)], constraints: Vec::new() })];
    assert!(matches!(find(&devices, &claim(1)), Ok(Found::Devices(_))));
    assert!(matches!(find(&devices, &claim(2)), Err(Fault::Selector { .. })));
    assert!(matches!(find(&devices, &claim(33)), Err(Fault::TooMany { .. })));
}
