//! A plan in words, for people.

use anyhow::Result;
use quotient_sim::report::{Quantities, QuotaReport};

use super::{CapacityChange, Overdrawn, Plan, QuotaChange, Unkept, Verdict, WaitChange};
use crate::kin::{grouped_by, stem};
use crate::object_diff::{FieldDiff, ObjectDiff};
use crate::printer::{LINES_MAX, Printer, Tone};
use crate::standing::{Units, in_order, resources_of};
use crate::story::{self, tell_bound, tell_evicted, tell_refused};
use crate::table::{Align, Table};
use quotient_replay::tell::grouped;

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
    let mut table = Table::new(titles.into_iter().enumerate().map(|(i, title)| (title, align(i)))).keyed_by(2);
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
