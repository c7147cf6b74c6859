//! What a change would do: two states of a cluster, compared.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use quotient_sim::report::{
    Bound, Evicted, ObjectProblem, PodPhase, PodReport, Quantities, QuotaReport, RejectedObject, StepReport,
};
use serde::Serialize;

use crate::printer::{LINES_MAX, Printer, Tone};
use crate::standing::{amount_of, in_order, resources_of};
use crate::state::State;
use crate::story::{tell_bound, tell_evicted, tell_refused};
use crate::table::{Align, Table, grouped};

/// What would be different. Field names are a contract with whoever reads the JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub file: String,
    /// What could not be read or used.
    pub problems: Vec<ObjectProblem>,
    /// What admission would refuse.
    pub rejected: Vec<RejectedObject>,
    /// The quotas that would be different, in what they say or in what they hold.
    pub quotas: Vec<QuotaChange>,
    /// Quotas that would hold more beyond their min than they do.
    pub over_quota: Vec<Overdrawn>,
    /// Running pods that would count as within their quota, or no longer.
    pub capacity: Vec<CapacityChange>,
    /// Pods that would have to go.
    pub evicted: Vec<Evicted>,
    /// Pods that would start.
    pub bound: Vec<Bound>,
    /// Pods that would wait, and do not now or for another reason.
    pub waiting: Vec<WaitChange>,
    /// How many pods would wait in all.
    pub waiting_count: usize,
}

/// A quota before and after; `null` where there is none.
#[derive(Debug, Serialize)]
pub struct QuotaChange {
    pub object: String,
    pub before: Option<QuotaReport>,
    pub after: Option<QuotaReport>,
}

/// What a quota holds beyond its min.
#[derive(Debug, Serialize)]
pub struct Overdrawn {
    pub object: String,
    pub resource: String,
    pub before: String,
    pub after: String,
}

/// How a running pod is marked, before and after.
#[derive(Debug, Serialize)]
pub struct CapacityChange {
    pub namespace: String,
    pub name: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// Why a pod waits, before and after; `before` is `null` where it does not wait now.
#[derive(Debug, Serialize)]
pub struct WaitChange {
    pub namespace: String,
    pub name: String,
    pub before: Option<String>,
    pub after: Option<String>,
    pub message: Option<String>,
}

impl Plan {
    /// What `changed` has that `unchanged` has not. What happens either way is not the change's doing.
    pub fn of(unchanged: (&State, StepReport), changed: (&State, StepReport)) -> Self {
        let ((before, anyway), (after, happened)) = (unchanged, changed);
        let StepReport { file, mut bound, mut evicted, rejected, problems } = happened;
        bound.retain(|bound| !anyway.bound.contains(bound));
        evicted.retain(|evicted| !anyway.evicted.contains(evicted));
        let quotas = quota_changes(before, after);
        let (pods_before, pods_after) = (before.pods(), after.pods());
        let known: BTreeMap<(&str, &str), &PodReport> =
            pods_before.iter().map(|pod| ((pod.namespace.as_str(), pod.name.as_str()), pod)).collect();
        let was = |pod: &PodReport| known.get(&(pod.namespace.as_str(), pod.name.as_str())).copied();
        Plan {
            file,
            problems,
            rejected,
            over_quota: quotas.iter().flat_map(overdrawn).collect(),
            quotas,
            capacity: pods_after.iter().filter_map(|pod| capacity_change(was(pod)?, pod)).collect(),
            evicted,
            bound,
            waiting: pods_after.iter().filter_map(|pod| wait_change(was(pod), pod)).collect(),
            waiting_count: pods_after.iter().filter(|pod| pod.phase == PodPhase::Pending).count(),
        }
    }

    fn is_nothing(&self) -> bool {
        let Plan { quotas, capacity, evicted, bound, waiting, .. } = self;
        quotas.is_empty() && capacity.is_empty() && evicted.is_empty() && bound.is_empty() && waiting.is_empty()
    }
}

fn quota_changes(before: &State, after: &State) -> Vec<QuotaChange> {
    let by_key = |state: &State| state.quotas().into_iter().collect::<BTreeMap<_, _>>();
    let (mut before, mut after) = (by_key(before), by_key(after));
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
    let change = |key| {
        let (before, after) = (before.remove(&key), after.remove(&key));
        let object = after.as_ref().or(before.as_ref())?.object.clone();
        (before != after).then_some(QuotaChange { object, before, after })
    };
    keys.into_iter().filter_map(change).collect()
}

/// What a quota would hold beyond its min, where that is more than it does.
fn overdrawn(change: &QuotaChange) -> Vec<Overdrawn> {
    let QuotaChange { object, before, after } = change;
    let Some(after) = after else { return Vec::new() };
    let nothing = Quantities::new();
    let before = before.as_ref().map_or(&nothing, |before| &before.borrowed);
    let more = |(resource, borrowed): (&String, &String)| {
        (amount_of(&after.borrowed, resource) > amount_of(before, resource)).then(|| Overdrawn {
            object: object.clone(),
            resource: resource.clone(),
            before: before.get(resource).cloned().unwrap_or_else(|| "0".to_owned()),
            after: borrowed.clone(),
        })
    };
    after.borrowed.iter().filter_map(more).collect()
}

fn capacity_change(before: &PodReport, after: &PodReport) -> Option<CapacityChange> {
    let runs = before.phase == PodPhase::Running && after.phase == PodPhase::Running;
    (runs && before.capacity != after.capacity).then(|| CapacityChange {
        namespace: after.namespace.clone(),
        name: after.name.clone(),
        before: before.capacity.clone(),
        after: after.capacity.clone(),
    })
}

fn wait_change(before: Option<&PodReport>, after: &PodReport) -> Option<WaitChange> {
    let code = |pod: &PodReport| pod.reason.as_ref().map(|reason| reason.code.clone());
    let waited = before.is_some_and(|before| before.phase == PodPhase::Pending);
    let before = before.and_then(code);
    let is_new = after.phase == PodPhase::Pending && (!waited || before != code(after));
    is_new.then(|| WaitChange {
        namespace: after.namespace.clone(),
        name: after.name.clone(),
        before,
        after: code(after),
        message: after.reason.as_ref().map(|reason| reason.message.clone()),
    })
}

/// Prints what would be different.
pub fn tell(printer: &mut Printer, plan: &Plan) -> Result<()> {
    let Plan { file, problems, rejected, quotas, over_quota, capacity, evicted, bound, waiting, waiting_count } = plan;
    let refused = !problems.is_empty() || !rejected.is_empty();
    let nothing = if plan.is_nothing() { " nothing would be different" } else { "" };
    printer.line(format_args!("If {file} was applied:{nothing}"))?;
    if refused {
        tell_refused(printer, problems, rejected)?;
    }
    if !quotas.is_empty() {
        heading(printer, "Quotas that would be different", quotas.len())?;
        let shown = printer.shown_of(quotas.len(), LINES_MAX);
        printer.table("  ", &change_table(&quotas[..shown]))?;
        printer.left_out(quotas.len(), shown)?;
    }
    if !over_quota.is_empty() {
        heading(printer, "Beyond their min", over_quota.len())?;
        printer.list(over_quota, |_, Overdrawn { object, resource, before, after }| {
            vec![format!("{object} would hold {after} {resource} beyond its min; now {before}")]
        })?;
    }
    if !capacity.is_empty() {
        heading(printer, "Pods that would be marked anew", capacity.len())?;
        printer.list(capacity, |_, CapacityChange { namespace, name, before, after }| {
            let shown = |capacity: &Option<String>| capacity.clone().unwrap_or_else(|| "unmarked".to_owned());
            vec![format!("{namespace}/{name}: {} → {}", shown(before), shown(after))]
        })?;
    }
    if !evicted.is_empty() {
        heading(printer, "Pods that would go", evicted.len())?;
        tell_evicted(printer, &evicted.iter().collect::<Vec<_>>())?;
    }
    if !bound.is_empty() {
        heading(printer, "Pods that would start", bound.len())?;
        tell_bound(printer, bound)?;
    }
    if !waiting.is_empty() {
        heading(printer, "Pods that would wait anew, or for another reason", waiting.len())?;
        tell_waiting(printer, waiting)?;
    }
    printer.line("")?;
    let noun = if *waiting_count == 1 { "pod" } else { "pods" };
    printer.line(format_args!("{} {noun} would wait in all", grouped(*waiting_count as u64)))
}

/// Who would wait, and why; the sentence once for all that it is said of.
fn tell_waiting(printer: &mut Printer, waiting: &[WaitChange]) -> Result<()> {
    let shown = printer.shown_of(waiting.len(), LINES_MAX);
    for (i, WaitChange { namespace, name, before, after, message }) in waiting[..shown].iter().enumerate() {
        let after = after.as_deref().map(|code| printer.paint(Tone::Bad, code)).unwrap_or_default();
        let before = before.as_ref().map_or(String::new(), |before| format!("{before} → "));
        printer.line(format_args!("  {namespace}/{name}: {before}{after}"))?;
        let is_last_to_say_so = waiting[..shown].get(i + 1).is_none_or(|next| next.message != *message);
        if let Some(message) = message.as_ref().filter(|_| is_last_to_say_so) {
            printer.line(format_args!("      {}", printer.paint(Tone::Weak, message)))?;
        }
    }
    printer.left_out(waiting.len(), shown)
}

fn heading(printer: &mut Printer, text: &str, count: usize) -> Result<()> {
    printer.line("")?;
    printer.line(format_args!("{}: {}", printer.paint(Tone::Strong, text), grouped(count as u64)))
}

/// A row for each resource of a quota of which anything would be different.
fn change_table(quotas: &[QuotaChange]) -> Table {
    let titles = ["QUOTA", "RESOURCE", "MIN", "MAX", "ENTITLED", "USED", "BORROWED"];
    let align = |i: usize| if i < 2 { Align::Left } else { Align::Right };
    let mut table = Table::new(titles.into_iter().enumerate().map(|(i, title)| (title, align(i))));
    let none = QuotaReport::default();
    for QuotaChange { object, before, after } in quotas {
        let fate = match (before, after) {
            (None, _) => " (new)",
            (_, None) => " (gone)",
            _ => "",
        };
        let (before, after) = (before.as_ref().unwrap_or(&none), after.as_ref().unwrap_or(&none));
        let (named_before, named_after) = (resources_of(before), resources_of(after));
        let mut name = format!("{object}{fate}");
        for resource in in_order(named_before.iter().chain(&named_after)) {
            let cell = |of: fn(&QuotaReport) -> &Quantities, absent: &str| {
                let show = |quota: &QuotaReport| of(quota).get(&resource).map_or(absent, String::as_str).to_owned();
                let (before, after) = (show(before), show(after));
                if before == after { after } else { format!("{before} → {after}") }
            };
            let cells = [
                cell(|quota| &quota.min, "-"),
                cell(|quota| &quota.max, "-"),
                cell(|quota| &quota.entitlement, "0"),
                cell(|quota| &quota.used, "0"),
                cell(|quota| &quota.borrowed, "0"),
            ];
            if cells.iter().any(|cell| cell.contains('→')) {
                table.row([std::mem::take(&mut name), resource.clone()].into_iter().chain(cells).collect());
            }
        }
        if !name.is_empty() {
            table.row([name].into_iter().chain(std::iter::repeat_n(String::new(), 6)).collect());
        }
    }
    table
}
