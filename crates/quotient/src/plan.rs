//! What a change would do: two states of a cluster, compared.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use quotient_engine::quantity::canonical;
use quotient_sim::report::{
    Bound, Evicted, ObjectProblem, PodPhase, PodReport, Quantities, QuotaReport, RejectedObject, StepReport,
};
use serde::Serialize;

use crate::kin::{grouped_by, stem};
use crate::object_diff::{FieldDiff, ObjectDiff};
use crate::printer::{LINES_MAX, Printer, Tone};
use crate::standing::{Units, amount_of, in_order, resources_of};
use crate::state::State;
use crate::story::{self, tell_bound, tell_evicted, tell_refused};
use crate::table::{Align, Table, grouped};

/// What would be different. Field names are a contract with whoever reads the JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub file: String,
    /// What it comes to.
    pub verdict: Verdict,
    /// The fields of objects that the change sets, adds or takes away.
    pub diff: Vec<ObjectDiff>,
    /// What could not be read or used.
    pub problems: Vec<ObjectProblem>,
    /// What admission would refuse.
    pub rejected: Vec<RejectedObject>,
    /// The quotas that would be different, in what they say or in what they hold.
    pub quotas: Vec<QuotaChange>,
    /// Quotas that would hold more beyond their min or their limit than they do.
    pub over_quota: Vec<Overdrawn>,
    /// Guarantees that all nodes together cannot keep, and could before.
    pub unkept: Vec<Unkept>,
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

/// What a change comes to, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    pub starts: usize,
    pub evictions: usize,
    /// Pods that would wait and do not now.
    pub newly_pending: usize,
    pub newly_over_quota: usize,
    pub unkept_guarantees: usize,
    pub rejected: usize,
}

/// A guarantee that the nodes cannot keep.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unkept {
    /// The API group whose quotas promise it.
    pub group: String,
    pub resource: String,
    /// The sum of what the quotas at the top promise.
    pub promised: String,
    /// What all nodes have.
    pub allocatable: String,
}

/// A quota before and after; `null` where there is none.
#[derive(Debug, Serialize)]
pub struct QuotaChange {
    pub object: String,
    pub before: Option<QuotaReport>,
    pub after: Option<QuotaReport>,
}

/// What a quota holds beyond its min, or beyond what it may hold at all.
#[derive(Debug, Serialize)]
pub struct Overdrawn {
    pub object: String,
    pub resource: String,
    pub before: String,
    pub after: String,
    /// What it would hold beyond its limit: nothing more starts there, and nothing is evicted for it.
    pub beyond_max: Option<String>,
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
        let over_quota: Vec<Overdrawn> = quotas.iter().flat_map(overdrawn).collect();
        let waiting: Vec<WaitChange> = pods_after.iter().filter_map(|pod| wait_change(was(pod), pod)).collect();
        let unkept_before = unkept(before);
        let unkept: Vec<Unkept> = unkept(after).into_iter().filter(|one| !unkept_before.contains(one)).collect();
        let verdict = Verdict {
            starts: bound.len(),
            evictions: evicted.len(),
            newly_pending: waiting.iter().filter(|change| change.before.is_none()).count(),
            newly_over_quota: over_quota.iter().map(|over| &over.object).collect::<BTreeSet<_>>().len(),
            unkept_guarantees: unkept.len(),
            rejected: rejected.len(),
        };
        Plan {
            file,
            verdict,
            diff: Vec::new(),
            problems,
            rejected,
            over_quota,
            unkept,
            quotas,
            capacity: pods_after.iter().filter_map(|pod| capacity_change(was(pod)?, pod)).collect(),
            evicted,
            bound,
            waiting,
            waiting_count: pods_after.iter().filter(|pod| pod.phase == PodPhase::Pending).count(),
        }
    }

    fn is_nothing(&self) -> bool {
        let Plan { quotas, capacity, evicted, bound, waiting, diff, .. } = self;
        diff.is_empty()
            && quotas.is_empty()
            && capacity.is_empty()
            && evicted.is_empty()
            && bound.is_empty()
            && waiting.is_empty()
    }
}

fn quota_changes(before: &State, after: &State) -> Vec<QuotaChange> {
    let by_key = |state: &State| state.quotas().into_iter().collect::<BTreeMap<_, _>>();
    let (mut before, mut after) = (by_key(before), by_key(after));
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
    let change = |key| {
        let (before, after) = (before.remove(&key), after.remove(&key));
        let object = after.as_ref().or(before.as_ref())?.object.clone();
        let change = QuotaChange { object, before, after };
        is_visible(&change).then_some(change)
    };
    keys.into_iter().filter_map(change).collect()
}

/// Whether anything that is shown of a quota would be different.
fn is_visible(change: &QuotaChange) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    let (of_before, of_after) = (resources_of(before), resources_of(after));
    let shown = |quota: &QuotaReport, resource: &str| {
        let QuotaReport { min, max, entitlement, used, borrowed, .. } = quota;
        let named = |amounts: &Quantities| amounts.get(resource).cloned();
        let amount = |amounts: &Quantities| amount_of(amounts, resource);
        (named(min), named(max), amount(entitlement), amount(used), amount(borrowed))
    };
    of_before.iter().chain(&of_after).any(|resource| shown(before, resource) != shown(after, resource))
}

/// What a quota would hold beyond its min or its limit, where that is more than it does.
fn overdrawn(change: &QuotaChange) -> Vec<Overdrawn> {
    let QuotaChange { object, before, after } = change;
    let Some(after) = after else { return Vec::new() };
    let none = QuotaReport::default();
    let before = before.as_ref().unwrap_or(&none);
    let beyond = |quota: &QuotaReport, resource: &str| {
        let limit = quota.max.get(resource).map(|_| amount_of(&quota.max, resource));
        limit.map_or(0, |limit| (amount_of(&quota.used, resource) - limit).max(0))
    };
    let text =
        |amounts: &Quantities, resource: &String| amounts.get(resource).cloned().unwrap_or_else(|| "0".to_owned());
    let more = |resource: &String| {
        let borrows_more = amount_of(&after.borrowed, resource) > amount_of(&before.borrowed, resource);
        let over = beyond(after, resource);
        let passes_more = over > beyond(before, resource);
        (borrows_more || passes_more).then(|| Overdrawn {
            object: object.clone(),
            resource: resource.clone(),
            before: text(&before.borrowed, resource),
            after: text(&after.borrowed, resource),
            beyond_max: (over > 0).then(|| canonical(resource, over)),
        })
    };
    resources_of(after).iter().filter_map(more).collect()
}

/// What the quotas at the top of each group promise beyond what all nodes have.
fn unkept(state: &State) -> Vec<Unkept> {
    let nodes = state.nodes();
    let mut promised: BTreeMap<(&'static str, String), i128> = BTreeMap::new();
    let quotas = state.quotas();
    let names: BTreeSet<(&str, &str)> =
        quotas.iter().map(|(key, report)| (key.group, report.object.as_str())).collect();
    for (key, quota) in &quotas {
        let is_top = quota.parent.as_ref().is_none_or(|parent| !names.contains(&(key.group, parent.as_str())));
        for resource in quota.min.keys().filter(|_| is_top) {
            *promised.entry((key.group, resource.clone())).or_default() += amount_of(&quota.min, resource);
        }
    }
    let of_nodes = |resource: &str| -> i128 {
        nodes.iter().map(|node| amount_of(&node.allocatable, resource).max(amount_of(&node.cards, resource))).sum()
    };
    let beyond = promised.into_iter().filter_map(|((group, resource), promised)| {
        let has = of_nodes(&resource);
        // What no node has may be derived from what they have, such as the memory of GPUs.
        (has > 0 && promised > has).then(|| Unkept {
            group: group.to_owned(),
            promised: canonical(&resource, promised),
            allocatable: canonical(&resource, has),
            resource,
        })
    });
    beyond.collect()
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

impl Verdict {
    /// `12 starts, 2 evictions, …` of what is not 0.
    fn text(self) -> Option<String> {
        let Verdict { starts, evictions, newly_pending, newly_over_quota, unkept_guarantees, rejected } = self;
        let noun = |count: usize, one: &'static str, many: &'static str| if count == 1 { one } else { many };
        story::counts(&[
            (starts, noun(starts, "pod starts", "pods start")),
            (evictions, noun(evictions, "pod is evicted", "pods are evicted")),
            (newly_pending, "newly pending"),
            (newly_over_quota, noun(newly_over_quota, "quota goes over", "quotas go over")),
            (unkept_guarantees, noun(unkept_guarantees, "guarantee cannot be kept", "guarantees cannot be kept")),
            (rejected, "rejected"),
        ])
    }
}

/// Prints what would be different: what it comes to first.
pub fn tell(printer: &mut Printer, plan: &Plan) -> Result<()> {
    let Plan { file, verdict, diff, problems, rejected, quotas, over_quota, unkept, .. } = plan;
    let Plan { capacity, evicted, bound, waiting, waiting_count, .. } = plan;
    let nothing = if plan.is_nothing() { "nothing would be different" } else { "no pod starts, is evicted or waits" };
    let text = verdict.text();
    let is_bad = verdict.evictions + verdict.unkept_guarantees + verdict.rejected > 0;
    let tone = if is_bad { Tone::Bad } else { Tone::Good };
    let text = printer.paint(tone, text.as_deref().unwrap_or(nothing));
    printer.line(format_args!("{}: {text}", printer.paint(Tone::Strong, &format!("If {file} was applied"))))?;
    if !problems.is_empty() || !rejected.is_empty() {
        tell_refused(printer, problems, rejected)?;
    }
    tell_diff(printer, diff)?;
    if !quotas.is_empty() {
        heading(printer, "Quotas that would be different", quotas.len())?;
        let shown = printer.shown_of(quotas.len(), LINES_MAX);
        printer.table("  ", &change_table(&quotas[..shown], printer.units()))?;
        printer.left_out(quotas.len(), shown)?;
    }
    if !over_quota.is_empty() {
        heading(printer, "Over quota", over_quota.len())?;
        let units = printer.units();
        printer.list(over_quota, |printer, Overdrawn { object, resource, before, after, beyond_max }| {
            let show = |amount: &String| units.show(resource, amount);
            let beyond = beyond_max.as_ref().map(|over| {
                let text = format!("{} beyond its limit", show(over));
                printer.paint(Tone::Bad, &text)
            });
            let borrowed = (before != after).then(|| format!("{} beyond its min, now {}", show(after), show(before)));
            let said: Vec<String> = beyond.into_iter().chain(borrowed).collect();
            vec![format!("{object} would hold {resource}: {}", said.join("; "))]
        })?;
    }
    if !unkept.is_empty() {
        heading(printer, "Guarantees that the nodes cannot keep", unkept.len())?;
        printer.list(unkept, |_, Unkept { group, resource, promised, allocatable }| {
            vec![format!("quotas of {group} guarantee {promised} {resource}, the nodes have {allocatable}")]
        })?;
    }
    if !capacity.is_empty() {
        heading(printer, "Pods that would be labelled anew", capacity.len())?;
        printer.list(capacity, |_, CapacityChange { namespace, name, before, after }| {
            let shown = |capacity: &Option<String>| capacity.clone().unwrap_or_else(|| "no label".to_owned());
            vec![format!("{namespace}/{name}: {} → {}", shown(before), shown(after))]
        })?;
    }
    if !evicted.is_empty() {
        heading(printer, "Pods that would be evicted", evicted.len())?;
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
    printer.line(format_args!("{} {noun} would be pending in all", grouped(*waiting_count as u64)))
}

/// What the change sets, as a diff: `+` is added, `-` is taken away, `~` is changed.
fn tell_diff(printer: &mut Printer, diff: &[ObjectDiff]) -> Result<()> {
    if diff.is_empty() {
        return Ok(());
    }
    heading(printer, "Changes", diff.len())?;
    printer.list(diff, |printer, ObjectDiff { object, is_new, fields }| {
        let mark = if *is_new { printer.paint(Tone::Good, "+") } else { printer.paint(Tone::Strong, "~") };
        let mut lines = vec![format!("{mark} {object}")];
        if !*is_new || printer.is_wide() {
            lines.extend(fields.iter().map(|FieldDiff { field, from, to }| match (from, to) {
                (None, Some(to)) => format!("    {} {field}: {to}", printer.paint(Tone::Good, "+")),
                (Some(from), None) => format!("    {} {field}: {from}", printer.paint(Tone::Bad, "-")),
                (from, to) => {
                    let text = |value: &Option<String>| value.clone().unwrap_or_default();
                    format!("    ~ {field}: {} → {}", text(from), text(to))
                }
            }));
        }
        lines
    })
}

/// Which pods would wait, and why: an owner's together, with the sentence once.
fn tell_waiting(printer: &mut Printer, waiting: &[WaitChange]) -> Result<()> {
    let wide = printer.is_wide();
    let groups = grouped_by(waiting, |change| {
        let name = if wide { change.name.as_str() } else { stem(&change.name) };
        (change.namespace.as_str(), name, change.before.clone(), change.after.clone())
    });
    printer.list(&groups, |printer, ((namespace, stem, before, after), pods)| {
        let name = match pods.len() {
            1 => format!("{namespace}/{}", pods[0].name),
            count => format!("{} pods of {namespace}/{stem}", grouped(count as u64)),
        };
        let after = after.as_deref().map(|code| printer.paint(Tone::Bad, code)).unwrap_or_default();
        let before = before.as_ref().map_or(String::new(), |before| format!("{before} → "));
        let mut lines = vec![format!("{name}: {before}{after}")];
        lines.extend(pods[0].message.as_ref().map(|message| format!("    {}", printer.paint(Tone::Weak, message))));
        lines
    })
}

fn heading(printer: &mut Printer, text: &str, count: usize) -> Result<()> {
    printer.line("")?;
    printer.line(format_args!("{}: {}", printer.paint(Tone::Strong, text), grouped(count as u64)))
}

/// A row for each resource of a quota of which anything would be different.
fn change_table(quotas: &[QuotaChange], units: Units) -> Table {
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
                let text = |quota: &QuotaReport| of(quota).get(&resource).map_or(absent, String::as_str).to_owned();
                let (before, after) = units.show_two(&resource, &text(before), &text(after));
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
        // A quota that comes or goes without limiting anything.
        if !name.is_empty() {
            table.row([name].into_iter().chain(std::iter::repeat_n(String::new(), 6)).collect());
        }
    }
    table
}

#[cfg(test)]
mod tests;
