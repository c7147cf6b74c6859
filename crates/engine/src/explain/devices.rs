//! Why a pod has no devices.

use std::collections::BTreeSet;

use crate::device::{Alternative, Count, PoolKey, Verdict};
use crate::devices::found::Fault;
use crate::devices::search::STEPS_MAX;
use crate::devices::site::consumption;
use crate::devices::world::DeviceTrouble;
use crate::explain::plain;
use crate::fact::Name;
use crate::nodes::NodeId;
use crate::place::Question;
use crate::reason::{Code, Reason};
use crate::world::World;

impl World {
    /// The nodes that lack nothing for the pod but, it may be, devices.
    fn open_but_for_devices<'w>(&'w self, question: &'w Question) -> impl Iterator<Item = NodeId> + 'w {
        let shape = self.shapes.get(question.shape);
        (0..self.nodes.limit()).map(|node| NodeId(node as u32)).filter(move |node| {
            self.nodes.is_present(*node)
                && self.node_rules.get(question.rule).closed_by(*node).is_none()
                && self.closed_locally(question, shape, *node).is_none()
                && self.closed_by_others(question, shape, *node).is_none()
        })
    }

    /// Whether the search for the pod's devices cannot be done as things are.
    pub fn has_device_fault(&self, question: &Question) -> bool {
        let Some(ask) = &question.devices else { return false };
        self.open_but_for_devices(question).any(|node| self.find_devices(ask, node, true).is_err())
    }

    /// Why the pod has no devices, where that is more than that there are none.
    pub fn device_reason(&self, question: &Question) -> Option<Reason> {
        let ask = question.devices.as_ref()?;
        let open: Vec<NodeId> = self.open_but_for_devices(question).collect();
        match self.device_trouble(ask, open.into_iter()) {
            DeviceTrouble::Fault(fault) => Some(faulty(&fault)),
            DeviceTrouble::Refused(refusal) => Some(self.refused(&refusal)),
            DeviceTrouble::None { given_up: 0 } => None,
            DeviceTrouble::None { given_up } => {
                let message = format!(
                    "the search for devices was given up after {STEPS_MAX} steps on {given_up} of {} nodes",
                    self.nodes.present_count()
                );
                let remedies = vec!["ask for fewer devices, or with fewer constraints".to_owned()];
                Some(plain(Code::NoFittingNode, message, remedies))
            }
        }
    }
}

/// The most requests that a reason counts devices for.
const REQUESTS_MAX: usize = 4;

/// The longest selector that is shown whole, in characters.
const SELECTOR_MAX: usize = 120;

/// Devices that a request finds on nodes that lack nothing else, by what keeps them from it.
#[derive(Debug, Default)]
struct Tally {
    all: u64,
    of_other_classes: u64,
    unselected: u64,
    in_use: u64,
    tainted: u64,
    too_small: u64,
}

impl Tally {
    /// How many it could have, each by itself.
    fn left(&self) -> u64 {
        let Tally { all, of_other_classes, unselected, in_use, tainted, too_small } = self;
        all - of_other_classes - unselected - in_use - tainted - too_small
    }

    fn sentence(&self, alternative: &Alternative) -> String {
        let Tally { all, of_other_classes, unselected, in_use, tainted, too_small } = self;
        let Alternative { name, class, .. } = alternative;
        let parts = [
            (of_other_classes, format!("not of class {class}")),
            (unselected, format!("not selected by {}", selectors_of(alternative))),
            (in_use, "in use".to_owned()),
            (tainted, "tainted".to_owned()),
            (too_small, "without the requested capacity".to_owned()),
            (&self.left(), "left".to_owned()),
        ];
        let parts = parts.iter().filter(|(count, _)| **count > 0).map(|(count, what)| format!("{count} {what}"));
        let parts: Vec<String> = parts.collect();
        match parts.is_empty() {
            true => format!("request {name}: no devices"),
            false => format!("request {name}: {all} devices, {}", parts.join(", ")),
        }
    }
}

/// The selectors of an alternative besides its class's: a matcher's name is that of its class and these, by lines.
fn selectors_of(alternative: &Alternative) -> String {
    let all = alternative.matcher.split('\n').skip(1).collect::<Vec<_>>().join(" && ");
    match all.char_indices().nth(SELECTOR_MAX) {
        Some((end, _)) => format!("{}…", &all[..end]),
        None => all,
    }
}

impl World {
    /// For each request of a pod that finds too few devices: how many there are, and what keeps them from it. Where
    /// each finds enough and not all together do, all requests.
    pub(super) fn lacking_devices(&self, question: &Question) -> Vec<String> {
        let Some(ask) = &question.devices else { return Vec::new() };
        let nodes: Vec<NodeId> = self.open_but_for_devices(question).collect();
        let requests = ask.open.iter().flat_map(|(_, spec)| &spec.requests);
        let mut found: Vec<(bool, String)> = Vec::new();
        for alternative in requests.flat_map(|request| &request.alternatives) {
            let tally = self.tally_devices(alternative, &nodes);
            let is_short = match alternative.count {
                Count::Exactly(count) => tally.left() < count,
                Count::All => tally.left() == 0 || tally.in_use + tally.tainted > 0,
            };
            found.push((is_short, tally.sentence(alternative)));
        }
        let any_short = found.iter().any(|(is_short, _)| *is_short);
        let told = found.into_iter().filter(|(is_short, _)| *is_short || !any_short);
        told.map(|(_, sentence)| sentence).take(REQUESTS_MAX).collect()
    }

    fn tally_devices(&self, alternative: &Alternative, nodes: &[NodeId]) -> Tally {
        let mut tally = Tally::default();
        // Several nodes may reach one device.
        let mut seen: BTreeSet<(&PoolKey, &Name)> = BTreeSet::new();
        for node in nodes {
            let facts = self.nodes.get(*node);
            let site = self.devices.site(&facts.name, &facts.labels);
            let (of_class, selected) = (site.verdicts(&alternative.class), site.verdicts(&alternative.matcher));
            for (at, candidate) in site.candidates.iter().enumerate() {
                let pool = &site.pools[candidate.pool].fact.key;
                if !seen.insert((pool, &candidate.device.name)) {
                    continue;
                }
                let tolerated = |taint| alternative.tolerations.iter().any(|known| known.tolerates(taint));
                tally.all += 1;
                let counted = match () {
                    () if *of_class[at] == Verdict::No => &mut tally.of_other_classes,
                    () if *selected[at] == Verdict::No => &mut tally.unselected,
                    () if candidate.busy && !alternative.admin => &mut tally.in_use,
                    () if !candidate.device.taints.iter().all(tolerated) => &mut tally.tainted,
                    () if consumption(alternative, candidate.device, &pool.driver).is_none() => &mut tally.too_small,
                    () => continue,
                };
                *counted += 1;
            }
        }
        tally
    }
}

fn faulty(fault: &Fault) -> Reason {
    let (code, message, remedy) = match fault {
        Fault::Selector { request, device, message } => (
            Code::InvalidRequest,
            format!(
                "request {request}: CEL runtime error: selector cannot be evaluated for device {device}: {message}"
            ),
            "let the selector ask first, with has(), whether the device has the attribute",
        ),
        Fault::TooMany { request } => (
            Code::InvalidRequest,
            format!("request {request}: the claim is for more than {} devices", crate::device::RESULTS_MAX),
            "ask for fewer devices",
        ),
        Fault::Excluded { request, device } => (
            Code::NoFittingNode,
            format!("request {request}: all devices are asked for, and a constraint excludes device {device}"),
            "select the devices that the constraint allows",
        ),
        Fault::Unready { request, pool } => (
            Code::NoFittingNode,
            format!(
                "request {request}: all devices are asked for, and pool {}/{} is not ready",
                pool.driver, pool.pool
            ),
            "wait until the driver has published the pool",
        ),
    };
    plain(code, message, vec![remedy.to_owned()])
}
