//! What `simulate` tells people: what happened step by step, who waits and why, how full the nodes are.

use std::collections::BTreeSet;

use anyhow::Result;
use quotient_engine::quantity::Quantity;
use quotient_sim::report::{
    Bound, Evicted, NodeState, ObjectProblem, PodPhase, PodReport, Quantities, QuotaReport, ReasonReport,
    RejectedObject, Report, StepReport,
};

use crate::arguments::Format;
use crate::printer::{Printer, Tone};
use crate::table::{Align, Table, bar, grouped};

/// The most lines of one list that are shown; `-o wide` shows all.
const LINES_MAX: usize = 20;

/// Characters of a usage bar.
const BAR_WIDTH: usize = 10;

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
    list(printer, problems, |printer, ObjectProblem { object, message }| {
        let object = object.as_ref().map_or(String::new(), |object| format!("{object}: "));
        vec![format!("{}   {object}{message}", printer.paint(Tone::Bad, "problem"))]
    })?;
    list(printer, rejected, |printer, RejectedObject { object, message }| {
        vec![format!("{}  {object}: {message}", printer.paint(Tone::Bad, "rejected"))]
    })?;
    list(printer, evicted, |printer, Evicted { namespace, name, node, claimant, rule, message }| {
        let claimant = claimant.as_ref().map_or(String::new(), |claimant| format!(" for {claimant}"));
        vec![
            format!("{}   {namespace}/{name} from {node}{claimant}, by {rule}", printer.paint(Tone::Bad, "evicted")),
            format!("          {}", printer.paint(Tone::Weak, message)),
        ]
    })?;
    let width = bound.iter().map(|Bound { namespace, name, .. }| namespace.len() + name.len() + 1).max().unwrap_or(0);
    list(printer, bound, |printer, Bound { namespace, name, node }| {
        let pod = format!("{namespace}/{name}");
        vec![format!("{}     {pod:width$}  on {node}", printer.paint(Tone::Good, "bound"))]
    })?;
    if bound.is_empty() && evicted.is_empty() && rejected.is_empty() && problems.is_empty() {
        printer.line("  nothing to decide")?;
    }
    Ok(())
}

/// Prints each item's lines, and how many were left out.
fn list<T>(printer: &mut Printer, items: &[T], lines: impl Fn(&Printer, &T) -> Vec<String>) -> Result<()> {
    let most = if printer.format() == Format::Wide { items.len() } else { LINES_MAX };
    for item in items.iter().take(most) {
        for line in lines(printer, item) {
            printer.line(format_args!("  {line}"))?;
        }
    }
    if items.len() > most {
        printer.line(format_args!("  … and {} more (-o wide shows all)", grouped((items.len() - most) as u64)))?;
    }
    Ok(())
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
    list(printer, &waiting, |printer, pod| {
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

/// A row for each resource that a quota names. A cluster without quotas has nothing to tell.
fn tell_quotas(printer: &mut Printer, quotas: &[QuotaReport]) -> Result<()> {
    if quotas.is_empty() {
        return Ok(());
    }
    printer.line(format_args!("{}: {}", printer.paint(Tone::Strong, "Quotas"), grouped(quotas.len() as u64)))?;
    let titles = ["NAME", "POLICY", "RESOURCE", "USED", "MIN", "ENTITLED", "MAX", "BORROWED", "LENT"];
    let align = |i: usize| if i < 3 { Align::Left } else { Align::Right };
    let mut table = Table::new(titles.into_iter().enumerate().map(|(i, title)| (title, align(i))));
    let most = if printer.format() == Format::Wide { quotas.len() } else { LINES_MAX };
    for quota in quotas.iter().take(most) {
        let named: BTreeSet<&String> = quota.min.keys().chain(quota.max.keys()).collect();
        for (i, resource) in named.iter().enumerate() {
            let of =
                |amounts: &Quantities, absent: &str| amounts.get(*resource).map_or(absent, String::as_str).to_owned();
            let mut cells = match i {
                0 => vec![quota.object.clone(), quota.policy.clone()],
                _ => vec![String::new(), String::new()],
            };
            cells.push((*resource).clone());
            cells.extend([of(&quota.used, "0"), of(&quota.min, "-"), of(&quota.entitlement, "0"), of(&quota.max, "-")]);
            cells.extend([of(&quota.borrowed, "0"), of(&quota.lent, "0")]);
            table.row(cells);
        }
    }
    printer.table("  ", &table)?;
    if quotas.len() > most {
        printer.line(format_args!("  … and {} more (-o wide shows all)", grouped((quotas.len() - most) as u64)))?;
    }
    printer.line("")
}

fn tell_nodes(printer: &mut Printer, nodes: &[NodeState]) -> Result<()> {
    if nodes.is_empty() {
        return printer.line(format_args!("{}: none", printer.paint(Tone::Strong, "Nodes")));
    }
    printer.line(format_args!("{}: {}", printer.paint(Tone::Strong, "Nodes"), grouped(nodes.len() as u64)))?;
    let resources = resources(nodes);
    let titles: Vec<String> = resources.iter().map(|name| name.to_uppercase()).collect();
    let mut columns = vec![("NAME".to_owned(), Align::Left)];
    columns.extend(titles.into_iter().map(|title| (title, Align::Left)));
    let capped: BTreeSet<&String> = nodes.iter().flat_map(|node| node.cap.keys()).collect();
    columns.extend(capped.iter().map(|name| (format!("{} WITHOUT GPU", name.to_uppercase()), Align::Left)));
    let mut table = Table::new(columns);
    let most = if printer.format() == Format::Wide { nodes.len() } else { LINES_MAX };
    for NodeState { name, allocatable, used, cap, cap_used, .. } in nodes.iter().take(most) {
        let mut cells = vec![name.clone()];
        cells.extend(resources.iter().map(|resource| usage(resource, used, allocatable)));
        cells.extend(capped.iter().map(|resource| usage(resource, cap_used, cap)));
        table.row(cells);
    }
    printer.table("  ", &table)?;
    if nodes.len() > most {
        printer.line(format_args!("  … and {} more (-o wide shows all)", grouped((nodes.len() - most) as u64)))?;
    }
    Ok(())
}

/// The resources that nodes have: cpu and memory first, `pods` last.
fn resources(nodes: &[NodeState]) -> Vec<String> {
    let all: BTreeSet<&String> = nodes.iter().flat_map(|node| node.allocatable.keys()).collect();
    let rank = |name: &str| match name {
        "cpu" => 0,
        "memory" => 1,
        "pods" => 3,
        _ => 2,
    };
    let mut all: Vec<String> = all.into_iter().cloned().collect();
    all.sort_by(|a, b| (rank(a), a).cmp(&(rank(b), b)));
    all
}

/// `[###.......] 3 of 8`, or nothing where the node does not have the resource.
fn usage(resource: &str, used: &Quantities, allocatable: &Quantities) -> String {
    let Some(total) = allocatable.get(resource) else { return String::new() };
    let used = used.get(resource).map_or("0", String::as_str);
    format!("[{}] {used} of {total}", bar(amount(resource, used), amount(resource, total), BAR_WIDTH))
}

/// What a quantity of the report comes to; the report holds none that cannot be read.
fn amount(resource: &str, quantity: &str) -> u128 {
    let amount = quantity.parse::<Quantity>().ok().and_then(|quantity| quantity.amount(resource).ok());
    amount.and_then(|amount| u128::try_from(amount).ok()).unwrap_or(0)
}
