//! What is to say about a pod, for people.

use anyhow::Result;
use quotient_sim::report::{Evicted, PodPhase, Quantities, QuotaReport};

use crate::explanation::eviction;
use crate::explanation::obstacles::Obstacle;
use crate::explanation::owed::{Holder, Owed};
use crate::explanation::{ClosedNode, Eviction, Explanation, NodesExplained, Position, ReasonExplained, Shortage};
use crate::printer::{Printer, Tone};
use crate::standing::{amount, in_order, quota_table};
use crate::story::tell_evicted;
use crate::table::{Align, Cell, Table};
use crate::when::When;
use quotient_replay::tell::grouped;

/// The most nodes of one kind that a table tells of in detail.
const NODES_MAX: usize = 5;

/// The most names that a line lists.
const NAMES_MAX: usize = 5;

/// Prints all there is to say about a pod.
pub fn tell(printer: &mut Printer, pod: &Explanation) -> Result<()> {
    tell_headline(printer, pod)?;
    tell_facts(printer, pod)?;
    if let Some(reason) = &pod.reason {
        tell_reason(printer, reason)?;
    }
    if let Some(nodes) = &pod.nodes {
        tell_nodes(printer, nodes)?;
    }
    if !pod.unseen.is_empty() {
        heading(printer, "Not worked out, since you do not see all of the cluster")?;
        printer.line("  its quotas, what each node says to it, and what would help")?;
    }
    if !pod.quotas.is_empty() {
        heading(printer, "Its quotas")?;
        printer.table("  ", &quota_table(&pod.quotas, printer.units()))?;
    }
    if !pod.owed.is_empty() {
        tell_owed(printer, &pod.owed)?;
    }
    if !pod.victims.is_empty() {
        heading(printer, "Pods evicted for it")?;
        tell_evictions(printer, &pod.victims)?;
    }
    if !pod.evicted.is_empty() && pod.phase != PodPhase::Evicted {
        heading(printer, "A pod of this name was evicted before")?;
        tell_evictions(printer, &pod.evicted)?;
    }
    Ok(())
}

fn heading(printer: &mut Printer, text: &str) -> Result<()> {
    printer.line("")?;
    printer.line(printer.paint(Tone::Strong, text))
}

/// One line that says how the pod stands, and the sentence that says why.
fn tell_headline(printer: &mut Printer, pod: &Explanation) -> Result<()> {
    let name = printer.paint(Tone::Strong, &format!("{}/{}", pod.namespace, pod.name));
    let node = pod.node.as_deref().unwrap_or_default();
    match pod.phase {
        PodPhase::Pending => match &pod.reason {
            Some(ReasonExplained { reason, .. }) => {
                printer.line(format_args!("{name} is pending: {}", printer.paint(Tone::Bad, &reason.code)))?;
                printer.line(format_args!("  {}", reason.message))
            }
            None => match &pod.said {
                Some(said) => {
                    printer
                        .line(format_args!("{name} is {}, says the scheduler", printer.paint(Tone::Bad, "pending")))?;
                    printer.line(format_args!("  {}", said.message))
                }
                None if !pod.unseen.is_empty() => {
                    printer.line(format_args!("{name} is pending, and no scheduler has said why"))
                }
                None => printer.line(format_args!("{name} is pending for another scheduler")),
            },
        },
        PodPhase::Running if pod.leaving => printer.line(format_args!("{name} is leaving {node}")),
        PodPhase::Running => {
            let capacity = pod.capacity.as_ref().map_or(String::new(), |capacity| format!(", {capacity}"));
            printer.line(format_args!("{name} {} on {node}{capacity}", printer.paint(Tone::Good, "runs")))
        }
        PodPhase::Succeeded => printer.line(format_args!("{name} has ended, and succeeded")),
        PodPhase::Failed => printer.line(format_args!("{name} has ended, and failed")),
        PodPhase::Evicted => {
            let Some(Eviction { file, time, evicted }) = pod.evicted.last() else {
                return printer.line(format_args!("{name} was evicted"));
            };
            let claimant = evicted.claimant.as_ref().map_or(String::new(), |claimant| format!(" for {claimant}"));
            let from = eviction::from_node(evicted);
            let rule = if evicted.rule.is_empty() { String::new() } else { format!(", by {}", evicted.rule) };
            let was = printer.paint(Tone::Bad, "was evicted");
            printer.line(format_args!("{name} {was}{from}{claimant}{rule}"))?;
            printer.line(format_args!("  {}", evicted.message))?;
            match time {
                Some(time) => printer.line(format_args!("  it happened at {time}")),
                None => printer.line(format_args!("  it happened when {file} was applied")),
            }
        }
    }
}

/// What is known of the pod itself, one fact a line.
fn tell_facts(printer: &mut Printer, pod: &Explanation) -> Result<()> {
    let requests = amounts(&pod.requests);
    // In a virtual cluster time begins when it is asked, which says nothing.
    let dated = |moment: &Option<String>| moment.as_deref().filter(|_| pod.is_dated).map(to_the_second);
    let since = match pod.phase {
        PodPhase::Pending => ("pending since", dated(&pod.created)),
        PodPhase::Running => ("running since", dated(&pod.started)),
        _ => ("ran since", dated(&pod.started)),
    };
    let when = pod.when.as_ref().map(|When { earliest, latest, basis }| match (earliest, latest) {
        (Some(earliest), Some(latest)) if earliest == latest => format!("{} ({basis})", to_the_second(earliest)),
        (Some(earliest), Some(latest)) => {
            format!("{} to {} ({basis})", to_the_second(earliest), to_the_second(latest))
        }
        _ => format!("unknown: {basis}"),
    });
    let position = pod.position.as_ref().map(|Position { place, of, place_in_quota, of_quota }| {
        let all = format!("{} of {} pending pods", grouped(*place as u64), grouped(*of as u64));
        if pod.quotas.is_empty() || of == of_quota {
            return all;
        }
        format!("{all}, {} of {} with its quotas", grouped(*place_in_quota as u64), grouped(*of_quota as u64))
    });
    let at_risk = if pod.phase == PodPhase::Running { borrowed(pod) } else { None };
    let facts = [
        ("requests", (!requests.is_empty()).then_some(requests)),
        ("priority", pod.priority.filter(|priority| *priority != 0).map(|priority| priority.to_string())),
        ("reserved on", pod.nominated_node.clone()),
        since,
        ("position", position),
        ("may start", when),
        ("borrowing", at_risk),
    ];
    for (what, value) in facts {
        if let Some(value) = value {
            printer.line(format_args!("  {} {value}", printer.paint(Tone::Weak, &format!("{what:13}"))))?;
        }
    }
    Ok(())
}

/// `2 cpu, 8Gi memory`.
fn amounts(amounts: &Quantities) -> String {
    let named = in_order(amounts.keys());
    let shown = named.iter().filter_map(|resource| Some(format!("{} {resource}", amounts.get(resource)?)));
    shown.collect::<Vec<_>>().join(", ")
}

fn tell_reason(printer: &mut Printer, explained: &ReasonExplained) -> Result<()> {
    let ReasonExplained { reason, closed: _, details } = explained;
    // Where no quota refuses the pod, the numbers are those of the nearest node, which the nodes' own table has.
    if let (Some(quota), Some(resource), Some(used), Some(requested), Some(limit), Some(short_by)) =
        (&reason.quota, &reason.resource, &reason.used, &reason.requested, &reason.limit, &reason.short_by)
    {
        let place = if reason.code == "PoolExhausted" { format!("the pool of {quota}") } else { quota.clone() };
        printer.line("")?;
        let mut table = shortage_table("QUOTA", "LIMIT");
        table.row([place.as_str(), resource, used, requested, limit, short_by, ""].to_vec());
        printer.table("  ", &table)?;
    }
    heading(printer, "What would help, each by itself")?;
    for remedy in &reason.remedies {
        printer.line(format_args!("  - {remedy}"))?;
    }
    if reason.remedies.is_empty() {
        printer.line("  none of the changes that were tried")?;
    }
    // Nodes that caps close are told of one by one, with the other nodes.
    let others: Vec<_> = details.iter().filter(|detail| detail.reason.code != "NodeCapExceeded").collect();
    if !others.is_empty() {
        heading(printer, "What else is in the way")?;
        for ReasonExplained { reason, .. } in others {
            printer.line(format_args!("  {}: {}", printer.paint(Tone::Bad, &reason.code), reason.message))?;
        }
    }
    Ok(())
}

/// Columns for what is used, asked for and allowed, and a last one for a note.
fn shortage_table(place: &str, limit: &str) -> Table {
    Table::new([
        (place, Align::Left),
        ("RESOURCE", Align::Left),
        ("USED", Align::Right),
        ("REQUESTED", Align::Right),
        (limit, Align::Right),
        ("SHORT BY", Align::Right),
        ("", Align::Whole),
    ])
}

fn tell_nodes(printer: &mut Printer, nodes: &NodesExplained) -> Result<()> {
    let NodesExplained { total, open, filters: _, obstacles, closed } = nodes;
    let would = format!("{}/{} fit", grouped(open.len() as u64), grouped(*total as u64));
    printer.line("")?;
    printer.line(format_args!("{}: {would}", printer.paint(Tone::Strong, "Nodes")))?;
    if !open.is_empty() {
        let shown = printer.shown_of(open.len(), NAMES_MAX);
        printer.line(format_args!("  fit: {}", open[..shown].join(", ")))?;
        printer.left_out(open.len(), shown)?;
    }
    let count = |obstacle: &Obstacle| grouped(obstacle.nodes.len() as u64);
    let width = obstacles.iter().map(|obstacle| count(obstacle).len()).max().unwrap_or(0);
    for obstacle in obstacles {
        let shown = printer.shown_of(obstacle.nodes.len(), NAMES_MAX);
        let more = obstacle.nodes.len() - shown;
        let more = if more > 0 { format!(" and {} more", grouped(more as u64)) } else { String::new() };
        let names = printer.paint(Tone::Weak, &format!("({}{more})", obstacle.nodes[..shown].join(", ")));
        printer.line(format_args!("  {:>width$} {} {names}", count(obstacle), obstacle.what))?;
    }
    let of_all = grouped(*total as u64);
    let capped: Vec<&ClosedNode> = closed.iter().filter(|node| !node.cap.is_empty()).collect();
    if !capped.is_empty() {
        printer.line("")?;
        let title = printer.paint(Tone::Strong, "Caps on pods without GPUs");
        printer
            .line(format_args!("{title}: on {} of {of_all} nodes, the nearest first", grouped(capped.len() as u64)))?;
        let beside = |node: &ClosedNode| match node {
            ClosedNode { cap_alone: true, .. } => None,
            ClosedNode { filter: "NodeCap", .. } => Some("other filters exclude it too".to_owned()),
            ClosedNode { filter, .. } => Some(format!("{filter} excludes it too")),
        };
        tell_shortages(printer, "CAP", &capped, |node| &node.cap, beside)?;
    }
    let short: Vec<&ClosedNode> = closed.iter().filter(|node| node.filter == "NodeResourcesFit").collect();
    if !short.is_empty() {
        printer.line("")?;
        let title = printer.paint(Tone::Strong, "Nodes without enough room");
        printer.line(format_args!("{title}: {} of {of_all}, the nearest first", grouped(short.len() as u64)))?;
        tell_shortages(printer, "HAS", &short, |node| &node.short, |_| None)?;
    }
    Ok(())
}

/// A row for each resource that a node is short of.
fn tell_shortages<'a>(
    printer: &mut Printer,
    title: &str,
    nodes: &[&'a ClosedNode],
    short: impl Fn(&'a ClosedNode) -> &'a [Shortage],
    beside: impl Fn(&ClosedNode) -> Option<String>,
) -> Result<()> {
    let mut table = shortage_table("NODE", title);
    let shown = printer.shown_of(nodes.len(), NODES_MAX);
    for node in nodes.iter().take(shown) {
        for (i, Shortage { resource, used, requested, limit, short_by }) in short(node).iter().enumerate() {
            let name = if i == 0 { node.node.clone() } else { String::new() };
            let too_small = amount(resource, requested) > amount(resource, limit);
            let too_small = too_small.then(|| match title {
                "CAP" => "requests more than the cap".to_owned(),
                _ => "too small even if empty".to_owned(),
            });
            let notes = too_small.into_iter().chain(beside(node).filter(|_| i == 0)).collect::<Vec<_>>();
            let cells = [&name, resource, used, requested, limit, short_by].map(|text| Cell::from(text.as_str()));
            table.row(cells.into_iter().chain([Cell::toned(Tone::Weak, notes.join(", "))]).collect());
        }
    }
    printer.table("  ", &table)?;
    printer.left_out(nodes.len(), shown)
}

/// What its quotas are owed, and who holds it.
fn tell_owed(printer: &mut Printer, owed: &[Owed]) -> Result<()> {
    heading(printer, "Who holds what its quotas are entitled to")?;
    for Owed { quota, resource, entitled, used, owed, holders } in owed {
        printer
            .line(format_args!("  {quota} uses {used} of {entitled} {resource}: {owed} less than it may reclaim"))?;
        for Holder { quota, amount, pods } in holders {
            let pods = if pods.is_empty() { String::new() } else { format!(", such as {}", pods.join(", ")) };
            printer.line(format_args!("    {quota} holds {amount} {resource} that others may reclaim{pods}"))?;
        }
    }
    Ok(())
}

fn tell_evictions(printer: &mut Printer, evictions: &[Eviction]) -> Result<()> {
    let evictions: Vec<&Evicted> = evictions.iter().map(|eviction| &eviction.evicted).collect();
    tell_evicted(printer, &evictions)
}

/// A moment to the second: in a virtual cluster finer steps only tell the older of two pods from the younger.
fn to_the_second(moment: &str) -> String {
    moment.split_once('.').map_or_else(|| moment.to_owned(), |(seconds, _)| format!("{seconds}Z"))
}

/// What the pod's quotas hold beyond their min of what it asks for: it may be evicted for those that are entitled
/// to it.
fn borrowed(pod: &Explanation) -> Option<String> {
    let of_quota = |quota: &QuotaReport| {
        let asked = quota.borrowed.iter().filter(|(resource, _)| pod.requests.contains_key(*resource));
        let asked: Quantities = asked.map(|(resource, amount)| (resource.clone(), amount.clone())).collect();
        (!asked.is_empty()).then(|| format!("{} holds {} beyond its min", quota.object, amounts(&asked)))
    };
    let all: Vec<String> = pod.quotas.iter().filter_map(of_quota).collect();
    (!all.is_empty()).then(|| format!("{}, which others may claim back", all.join("; ")))
}
