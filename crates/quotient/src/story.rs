//! What `simulate` tells people: counts first, then what happened by owner and reason, then how everything stands.
//! `-o wide` tells of every pod.

use anyhow::Result;
use quotient_sim::report::{
    Bound, Evicted, NodeState, ObjectProblem, PodPhase, PodReport, QuotaReport, ReasonReport, RejectedObject, Report,
    StepReport, WaitingGroup,
};

use crate::kin::{grouped_by, stem};
use crate::printer::{LINES_MAX, Printer, Tone};
use crate::standing::{Units, alike, node_table, quota_table};
use quotient_replay::tell::grouped;

/// The most names that a line lists.
const NAMES_MAX: usize = 3;

/// Prints the report for people.
pub fn tell(printer: &mut Printer, report: &Report) -> Result<()> {
    let Report { steps, pods, groups, quotas, nodes } = report;
    for step in steps {
        tell_step(printer, step)?;
        printer.line("")?;
    }
    tell_pods(printer, pods)?;
    if !groups.is_empty() {
        let waiting = if groups.len() == 1 { "1 waits" } else { &format!("{} wait", grouped(groups.len() as u64)) };
        printer.line(format_args!("{}: {waiting}", printer.paint(Tone::Strong, "Groups without pods yet")))?;
        tell_groups(printer, groups)?;
        printer.line("")?;
    }
    tell_quotas(printer, quotas)?;
    tell_nodes(printer, nodes)
}

fn tell_step(printer: &mut Printer, step: &StepReport) -> Result<()> {
    let StepReport { file, bound, evicted, rejected, problems } = step;
    let counted = counts(&[
        (bound.len(), "bound"),
        (evicted.len(), "evicted"),
        (rejected.len(), "rejected"),
        (problems.len(), if problems.len() == 1 { "problem" } else { "problems" }),
    ]);
    let counted = counted.unwrap_or_else(|| "nothing to decide".to_owned());
    printer.line(format_args!("{}: {counted}", printer.paint(Tone::Strong, file)))?;
    tell_refused(printer, problems, rejected)?;
    tell_evicted(printer, &evicted.iter().collect::<Vec<_>>())?;
    tell_bound(printer, bound)
}

/// `3 bound, 1 evicted`; `None` where all are 0.
pub fn counts(counted: &[(usize, &str)]) -> Option<String> {
    let shown = counted.iter().filter(|(count, _)| *count > 0);
    let shown: Vec<String> = shown.map(|(count, word)| format!("{} {word}", grouped(*count as u64))).collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// `a, b, c and 4 more`.
pub fn some_of(names: &[String]) -> String {
    let shown = names[..names.len().min(NAMES_MAX)].join(", ");
    if names.len() > NAMES_MAX { format!("{shown} and {} more", names.len() - NAMES_MAX) } else { shown }
}

/// Which pods got which nodes: an owner's together.
pub fn tell_bound(printer: &mut Printer, bound: &[Bound]) -> Result<()> {
    let verb = printer.paint(Tone::Good, "bound");
    if printer.is_wide() || bound.len() <= LINES_MAX / 2 {
        let width =
            bound.iter().map(|Bound { namespace, name, .. }| namespace.len() + name.len() + 1).max().unwrap_or(0);
        for Bound { namespace, name, node } in bound {
            let pod = format!("{namespace}/{name}");
            printer.line(format_args!("  {verb}     {pod:width$}  on {node}"))?;
        }
        return Ok(());
    }
    let kin = grouped_by(bound, |Bound { namespace, name, .. }| (namespace.as_str(), stem(name)));
    printer.list(&kin, |_, ((namespace, stem), pods)| {
        let mut nodes: Vec<String> = pods.iter().map(|bound| bound.node.clone()).collect();
        nodes.sort();
        nodes.dedup();
        let nodes = some_of(&nodes);
        match pods[..] {
            [Bound { name, .. }] => vec![format!("{verb}     {namespace}/{name} on {nodes}")],
            _ => vec![format!("{verb}     {} pods of {namespace}/{stem} on {nodes}", grouped(pods.len() as u64))],
        }
    })
}

/// Objects that could not be read or were refused: what is said of many is said once.
pub fn tell_refused(printer: &mut Printer, problems: &[ObjectProblem], rejected: &[RejectedObject]) -> Result<()> {
    let of_problem = |ObjectProblem { object, message }: &ObjectProblem| (object.clone(), message.clone());
    let of_rejected = |RejectedObject { object, message }: &RejectedObject| (Some(object.clone()), message.clone());
    tell_objects(printer, "problem ", &problems.iter().map(of_problem).collect::<Vec<_>>())?;
    tell_objects(printer, "rejected", &rejected.iter().map(of_rejected).collect::<Vec<_>>())
}

fn tell_objects(printer: &mut Printer, what: &str, said: &[(Option<String>, String)]) -> Result<()> {
    // In the wide format each stands for itself.
    let wide = printer.is_wide();
    let said: Vec<(usize, &(Option<String>, String))> = said.iter().enumerate().collect();
    let groups = grouped_by(&said, |(at, (_, message))| (if wide { *at } else { 0 }, message.as_str()));
    printer.list(&groups, |printer, ((_, message), objects)| {
        let names: Vec<String> = objects.iter().filter_map(|(_, (object, _))| object.clone()).collect();
        let named = if names.is_empty() { String::new() } else { format!("{}: ", some_of(&names)) };
        vec![format!("{}  {named}{message}", printer.paint(Tone::Bad, what))]
    })
}

/// Which pods were evicted, for whom and by which rule: an owner's together, with the sentence that says why once.
pub fn tell_evicted(printer: &mut Printer, evictions: &[&Evicted]) -> Result<()> {
    let verb = printer.paint(Tone::Bad, "evicted");
    let wide = printer.is_wide();
    let groups = grouped_by(evictions, |evicted| {
        let Evicted { namespace, name, claimant, rule, .. } = *evicted;
        let claimant = claimant.as_deref().map(|claimant| if wide { claimant } else { stem(claimant) });
        (namespace.as_str(), if wide { name.as_str() } else { stem(name) }, claimant, rule.as_str())
    });
    let shown = printer.shown_of(groups.len(), LINES_MAX);
    for (i, ((namespace, stem, claimant, rule), pods)) in groups.iter().take(shown).enumerate() {
        let Evicted { name, node, claimant: first, message, .. } = *pods[0];
        let line = match pods.len() {
            1 => {
                let claimant = first.as_ref().map_or(String::new(), |claimant| format!(" for {claimant}"));
                format!("{namespace}/{name} from {node}{claimant}, by {rule}")
            }
            count => {
                let claimant = claimant.map_or(String::new(), |claimant| format!(" for {claimant}"));
                format!("{} pods of {namespace}/{stem}{claimant}, by {rule}", grouped(count as u64))
            }
        };
        printer.line(format_args!("  {verb}   {line}"))?;
        let next = groups[..shown].get(i + 1).map(|(_, pods)| &pods[0].message);
        if next != Some(message) {
            let first = if pods.len() > 1 { format!("{namespace}/{name}: ") } else { String::new() };
            printer.line(format_args!("            {first}{}", printer.paint(Tone::Weak, message)))?;
        }
    }
    printer.left_out(groups.len(), shown)
}

/// How many pods there are in each phase, and why those wait that do.
fn tell_pods(printer: &mut Printer, pods: &[PodReport]) -> Result<()> {
    let count = |phase: PodPhase| pods.iter().filter(|pod| pod.phase == phase).count();
    let counted = counts(&[
        (count(PodPhase::Running), "running"),
        (count(PodPhase::Pending), "pending"),
        (count(PodPhase::Succeeded), "succeeded"),
        (count(PodPhase::Failed), "failed"),
        (count(PodPhase::Evicted), "evicted for good"),
    ]);
    let counted = counted.unwrap_or_else(|| "none".to_owned());
    printer.line(format_args!("{}: {counted}", printer.paint(Tone::Strong, "Pods")))?;
    let pending: Vec<&PodReport> = pods.iter().filter(|pod| pod.phase == PodPhase::Pending).collect();
    tell_pending(printer, &pending)?;
    printer.line("")
}

/// Why groups wait that have no pods yet.
pub fn tell_groups(printer: &mut Printer, groups: &[WaitingGroup]) -> Result<()> {
    let units = printer.units();
    printer.list(groups, |printer, WaitingGroup { object, group, reason }| {
        let whose = if object == group { "it" } else { "its group" };
        let code = printer.paint(Tone::Bad, &reason.code);
        let mut lines = vec![format!("{object}: {code}{}", arithmetic(reason, units))];
        lines.push(format!("    {whose} is not admitted: {}", reason.message));
        if printer.is_wide() {
            lines.extend(reason.remedies.iter().map(|remedy| format!("    hint: {remedy}")));
        }
        lines
    })
}

/// Why pods wait: those of one owner that wait for the same thing together, the most first.
pub fn tell_pending(printer: &mut Printer, pending: &[&PodReport]) -> Result<()> {
    let wide = printer.is_wide();
    let mut groups = grouped_by(pending, |pod| {
        let name = if wide { pod.name.as_str() } else { stem(&pod.name) };
        let of = |reason: &'_ ReasonReport| (reason.code.clone(), reason.quota.clone(), reason.resource.clone());
        (pod.namespace.as_str(), name, pod.reason.as_ref().map(of))
    });
    if !wide {
        groups.sort_by_key(|(_, pods)| std::cmp::Reverse(pods.len()));
    }
    let units = printer.units();
    printer.list(&groups, |printer, ((namespace, stem, _), pods)| {
        let name = match pods.len() {
            1 => format!("{namespace}/{}", pods[0].name),
            count => format!("{} pods of {namespace}/{stem}", grouped(count as u64)),
        };
        let Some(reason) = &pods[0].reason else {
            return vec![format!("{name}: pending for another scheduler")];
        };
        let code = printer.paint(Tone::Bad, &reason.code);
        let mut lines = vec![format!("{name}: {code}{}", arithmetic(reason, units)), format!("    {}", reason.message)];
        // Hints are not tried here; `explain` tells those that were.
        if printer.is_wide() {
            lines.extend(reason.remedies.iter().map(|remedy| format!("    hint: {remedy}")));
        }
        lines
    })
}

/// ` at Queue/r-vision: 120 of 120 NVIDIA-A100-80GB used, 1 requested`; nothing where no quota is in the way.
fn arithmetic(reason: &ReasonReport, units: Units) -> String {
    let ReasonReport { quota, resource, used, requested, limit, .. } = reason;
    match (quota, resource, used, requested, limit) {
        (Some(quota), Some(resource), Some(used), Some(requested), Some(limit)) => {
            let (used, limit) = units.show_two(resource, used, limit);
            let requested = units.show(resource, requested);
            format!(" at {quota}: {used} of {limit} {resource} used, {requested} requested")
        }
        _ => String::new(),
    }
}

/// A cluster without quotas has nothing to tell of them.
fn tell_quotas(printer: &mut Printer, quotas: &[QuotaReport]) -> Result<()> {
    if quotas.is_empty() {
        return Ok(());
    }
    printer.line(format_args!("{}: {}", printer.paint(Tone::Strong, "Quotas"), grouped(quotas.len() as u64)))?;
    let shown = printer.shown_of(quotas.len(), LINES_MAX);
    printer.table("  ", &quota_table(&quotas[..shown], printer.units()))?;
    printer.left_out(quotas.len(), shown)?;
    printer.line("")
}

fn tell_nodes(printer: &mut Printer, nodes: &[NodeState]) -> Result<()> {
    if nodes.is_empty() {
        return printer.line(format_args!("{}: none", printer.paint(Tone::Strong, "Nodes")));
    }
    printer.line(format_args!("{}: {}", printer.paint(Tone::Strong, "Nodes"), grouped(nodes.len() as u64)))?;
    // Where there are many, those of which the same is to be said are told of once.
    let each = printer.is_wide() || nodes.len() <= LINES_MAX / 2;
    let rows = if each { nodes.iter().map(|node| vec![node]).collect() } else { alike(nodes, |node| node) };
    let shown = printer.shown_of(rows.len(), LINES_MAX);
    printer.table("  ", &node_table(&rows, shown, printer.units(), printer.columns()))?;
    printer.left_out(rows.len(), shown)
}
