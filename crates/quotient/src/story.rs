//! What `simulate` tells people: what happened step by step, who waits and why, how full the nodes are.

use anyhow::Result;
use quotient_sim::report::{
    Bound, Evicted, NodeState, ObjectProblem, PodPhase, PodReport, QuotaReport, ReasonReport, RejectedObject, Report,
    StepReport,
};

use crate::printer::{LINES_MAX, Printer, Tone};
use crate::standing::{node_table, quota_table};
use crate::table::grouped;

/// Prints the report for people.
pub fn tell(printer: &mut Printer, report: &Report) -> Result<()> {
    let Report { steps, pods, quotas, nodes } = report;
    for step in steps {
        tell_step(printer, step)?;
        printer.line("")?;
    }
    tell_waiting(printer, pods)?;
    tell_quotas(printer, quotas)?;
    tell_nodes(printer, nodes)
}

fn tell_step(printer: &mut Printer, step: &StepReport) -> Result<()> {
    let StepReport { file, bound, evicted, rejected, problems } = step;
    printer.line(printer.paint(Tone::Strong, file))?;
    tell_refused(printer, problems, rejected)?;
    tell_evicted(printer, &evicted.iter().collect::<Vec<_>>())?;
    tell_bound(printer, bound)?;
    if bound.is_empty() && evicted.is_empty() && rejected.is_empty() && problems.is_empty() {
        printer.line("  nothing to decide")?;
    }
    Ok(())
}

/// Which pods got which nodes.
pub fn tell_bound(printer: &mut Printer, bound: &[Bound]) -> Result<()> {
    let width = bound.iter().map(|Bound { namespace, name, .. }| namespace.len() + name.len() + 1).max().unwrap_or(0);
    printer.list(bound, |printer, Bound { namespace, name, node }| {
        let pod = format!("{namespace}/{name}");
        vec![format!("{}     {pod:width$}  on {node}", printer.paint(Tone::Good, "bound"))]
    })
}

/// Objects that could not be read or were refused.
pub fn tell_refused(printer: &mut Printer, problems: &[ObjectProblem], rejected: &[RejectedObject]) -> Result<()> {
    printer.list(problems, |printer, ObjectProblem { object, message }| {
        let object = object.as_ref().map_or(String::new(), |object| format!("{object}: "));
        vec![format!("{}   {object}{message}", printer.paint(Tone::Bad, "problem"))]
    })?;
    printer.list(rejected, |printer, RejectedObject { object, message }| {
        vec![format!("{}  {object}: {message}", printer.paint(Tone::Bad, "rejected"))]
    })
}

/// Who had to go, for whom, by which rule; and the sentence that says why, once for all that it is said of.
pub fn tell_evicted(printer: &mut Printer, evictions: &[&Evicted]) -> Result<()> {
    let shown = printer.shown_of(evictions.len(), LINES_MAX);
    for (i, evicted) in evictions.iter().take(shown).enumerate() {
        let Evicted { namespace, name, node, claimant, rule, message } = evicted;
        let claimant = claimant.as_ref().map_or(String::new(), |claimant| format!(" for {claimant}"));
        let verb = printer.paint(Tone::Bad, "evicted");
        printer.line(format_args!("  {verb}   {namespace}/{name} from {node}{claimant}, by {rule}"))?;
        let next = evictions[..shown].get(i + 1);
        if next.is_none_or(|next| next.message != *message) {
            printer.line(format_args!("            {}", printer.paint(Tone::Weak, message)))?;
        }
    }
    printer.left_out(evictions.len(), shown)
}

fn tell_waiting(printer: &mut Printer, pods: &[PodReport]) -> Result<()> {
    let count = |phase: PodPhase| pods.iter().filter(|pod| pod.phase == phase).count();
    let phases = [
        (PodPhase::Running, "running"),
        (PodPhase::Pending, "waiting"),
        (PodPhase::Succeeded, "succeeded"),
        (PodPhase::Failed, "failed"),
        (PodPhase::Evicted, "evicted for good"),
    ];
    let counted: Vec<String> = phases
        .into_iter()
        .map(|(phase, word)| (count(phase), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{} {word}", grouped(count as u64)))
        .collect();
    let counted = if counted.is_empty() { "none".to_owned() } else { counted.join(", ") };
    printer.line(format_args!("{}: {counted}", printer.paint(Tone::Strong, "Pods")))?;
    let waiting: Vec<&PodReport> = pods.iter().filter(|pod| pod.phase == PodPhase::Pending).collect();
    printer.list(&waiting, |printer, pod| {
        let name = format!("{}/{}", pod.namespace, pod.name);
        let Some(ReasonReport { code, message, remedies, .. }) = &pod.reason else {
            return vec![format!("{name} waits for a scheduler of another name")];
        };
        let mut lines = vec![format!("{name} waits: {}", printer.paint(Tone::Bad, code)), format!("    {message}")];
        lines.extend(remedies.iter().map(|remedy| format!("    hint: {remedy}")));
        lines
    })?;
    printer.line("")
}

/// A cluster without quotas has nothing to tell of them.
fn tell_quotas(printer: &mut Printer, quotas: &[QuotaReport]) -> Result<()> {
    if quotas.is_empty() {
        return Ok(());
    }
    printer.line(format_args!("{}: {}", printer.paint(Tone::Strong, "Quotas"), grouped(quotas.len() as u64)))?;
    let shown = printer.shown_of(quotas.len(), LINES_MAX);
    printer.table("  ", &quota_table(&quotas[..shown]))?;
    printer.left_out(quotas.len(), shown)?;
    printer.line("")
}

fn tell_nodes(printer: &mut Printer, nodes: &[NodeState]) -> Result<()> {
    if nodes.is_empty() {
        return printer.line(format_args!("{}: none", printer.paint(Tone::Strong, "Nodes")));
    }
    printer.line(format_args!("{}: {}", printer.paint(Tone::Strong, "Nodes"), grouped(nodes.len() as u64)))?;
    let shown = printer.shown_of(nodes.len(), LINES_MAX);
    printer.table("  ", &node_table(nodes, shown))?;
    printer.left_out(nodes.len(), shown)
}
