//! How full nodes and quotas are, the fullest first.

use std::cmp::Reverse;

use anyhow::Result;
use quotient_sim::report::{NodeState, Quantities, QuotaReport};
use serde::Serialize;

use crate::printer::{LINES_MAX, Printer, Tone};
use crate::standing::{Units, alike, amount_of, amounts_of, in_order, resources_of, usage, usage_bar};
use crate::state::State;
use crate::table::{Align, Cell, Table};
use quotient_replay::tell::grouped;

/// All nodes and quotas in order. Field names are a contract with whoever reads the JSON.
#[derive(Debug, Serialize)]
pub struct Fullness {
    /// What all nodes have and hold, by resource.
    pub totals: Vec<Total>,
    pub nodes: Vec<FullNode>,
    pub quotas: Vec<FullQuota>,
}

/// What all nodes have of a resource, or of a kind of card, and hold of it.
#[derive(Debug, Serialize)]
pub struct Total {
    pub resource: String,
    /// Whether it is a kind of card, by its name.
    pub card: bool,
    pub used: String,
    pub allocatable: String,
    /// How many nodes have it.
    pub nodes: usize,
}

/// What there is least left of, in proportion.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Share {
    /// How much of it is used, rounded down; `null` where something is used of nothing.
    #[serde(serialize_with = "finite")]
    pub percent: u64,
    pub resource: String,
}

/// Something is used, and there should be none.
const OF_NOTHING: u64 = u64::MAX;

fn finite<S: serde::Serializer>(percent: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    if *percent == OF_NOTHING { serializer.serialize_none() } else { serializer.serialize_u64(*percent) }
}

/// A node and the resource it is fullest of.
#[derive(Debug, Serialize)]
pub struct FullNode {
    pub fullest: Option<Share>,
    #[serde(flatten)]
    pub node: NodeState,
}

/// A quota and the resource it has used most of.
#[derive(Debug, Serialize)]
pub struct FullQuota {
    pub fullest: Option<Share>,
    #[serde(flatten)]
    pub quota: QuotaReport,
}

impl Fullness {
    /// How full everything is: by one resource, or by each one's fullest.
    pub fn of(state: &State, by: Option<&str>) -> Self {
        let counts = |resource: &str| by.is_none_or(|by| by == resource);
        let mut nodes: Vec<FullNode> = state.nodes().iter().cloned().map(|node| FullNode::of(node, &counts)).collect();
        nodes.sort_by(|a, b| {
            (Reverse(percent(&a.fullest)), &a.node.name).cmp(&(Reverse(percent(&b.fullest)), &b.node.name))
        });
        let quotas = state.quotas().iter().map(|(_, quota)| FullQuota::of(quota.clone(), &counts));
        let mut quotas: Vec<FullQuota> = quotas.collect();
        // Quotas come by namespace and name, and among equals stay so.
        quotas.sort_by_key(|quota| Reverse(percent(&quota.fullest)));
        Fullness { totals: totals(&nodes), nodes, quotas }
    }

    /// The resources that anything could be full of.
    pub fn resources(state: &State) -> Vec<String> {
        let (nodes, quotas) = (state.nodes(), state.quotas());
        let of_quotas: Vec<String> = quotas.iter().flat_map(|(_, quota)| resources_of(quota)).collect();
        in_order(nodes.iter().flat_map(|node| node.allocatable.keys()).chain(&of_quotas))
    }
}

/// What is held of the cards of a node: those that are devices by name, the others as of the resource of which it has
/// as many as cards.
fn cards_used(node: &NodeState) -> Quantities {
    let held = |card: &String| {
        if let Some(devices) = node.used.get(card) {
            return Some((card.clone(), devices.clone()));
        }
        let is_of = |resource: &&String| {
            resource.contains('/') && amount_of(&node.allocatable, resource) == amount_of(&node.cards, card)
        };
        let resource = node.allocatable.keys().find(is_of)?;
        Some((card.clone(), node.used.get(resource)?.clone()))
    };
    node.cards.keys().filter_map(held).collect()
}

/// Sums over the nodes: resources first, then cards by name.
fn totals(nodes: &[FullNode]) -> Vec<Total> {
    let sums = |of: &dyn Fn(&NodeState) -> Quantities| {
        let amounts: Vec<Quantities> = nodes.iter().map(|node| of(&node.node)).collect();
        let named = in_order(amounts.iter().flat_map(|amounts| amounts.keys()));
        amounts_of(named.iter(), |resource| amounts.iter().map(|amounts| amount_of(amounts, resource)).sum())
    };
    let (allocatable, used) = (sums(&|node| node.allocatable.clone()), sums(&|node| node.used.clone()));
    let (cards, cards_used) = (sums(&|node| node.cards.clone()), sums(&cards_used));
    let text = |amounts: &Quantities, name: &str| amounts.get(name).cloned().unwrap_or_else(|| "0".to_owned());
    let total = |name: &String, card: bool, used: &Quantities, all: &Quantities| Total {
        resource: name.clone(),
        card,
        used: text(used, name),
        allocatable: text(all, name),
        nodes: nodes
            .iter()
            .filter(|node| {
                let of = if card { &node.node.cards } else { &node.node.allocatable };
                amount_of(of, name) > 0
            })
            .count(),
    };
    let resources = in_order(allocatable.keys());
    let of_resources = resources.iter().map(|name| total(name, false, &used, &allocatable));
    of_resources.chain(cards.keys().map(|name| total(name, true, &cards_used, &cards))).collect()
}

fn percent(share: &Option<Share>) -> Option<u64> {
    share.as_ref().map(|share| share.percent)
}

/// How much of a whole is used, in percent, rounded down.
fn share(used: i128, whole: i128) -> u64 {
    match (used, whole) {
        (0, _) => 0,
        (_, ..=0) => OF_NOTHING,
        (used, whole) => u64::try_from(used.saturating_mul(100) / whole).unwrap_or(OF_NOTHING),
    }
}

/// The fullest of some resources; of equally full ones the first by name.
fn fullest(shares: impl Iterator<Item = Share>) -> Option<Share> {
    shares.min_by_key(|share| (Reverse(share.percent), share.resource.clone()))
}

impl FullNode {
    fn of(node: NodeState, counts: &dyn Fn(&str) -> bool) -> Self {
        let share = |resource: &String| Share {
            percent: share(amount_of(&node.used, resource), amount_of(&node.allocatable, resource)),
            resource: resource.clone(),
        };
        let fullest = fullest(node.allocatable.keys().filter(|resource| counts(resource)).map(share));
        FullNode { fullest, node }
    }
}

impl FullQuota {
    fn of(quota: QuotaReport, counts: &dyn Fn(&str) -> bool) -> Self {
        let resources = resources_of(&quota);
        let share = |resource: &String| Share {
            percent: share(amount_of(&quota.used, resource), measure(&quota, resource)),
            resource: resource.clone(),
        };
        let fullest = fullest(resources.iter().filter(|resource| counts(resource)).map(share));
        FullQuota { fullest, quota }
    }
}

/// What a quota's use is measured against: its entitlement, or its max where it is entitled to nothing.
fn measure(quota: &QuotaReport, resource: &str) -> i128 {
    match amount_of(&quota.entitlement, resource) {
        0 => amount_of(&quota.max, resource),
        entitled => entitled,
    }
}

/// Prints nodes, then quotas.
pub fn tell(printer: &mut Printer, fullness: &Fullness) -> Result<()> {
    let Fullness { totals, nodes, quotas } = fullness;
    tell_totals(printer, totals)?;
    let title = |printer: &Printer, what: &str, count: usize| {
        let order = if count > 1 { ", the fullest first" } else { "" };
        format!("{}: {}{order}", printer.paint(Tone::Strong, what), grouped(count as u64))
    };
    printer.line(title(printer, "Nodes", nodes.len()))?;
    let each = printer.is_wide();
    let rows = if each { nodes.iter().map(|node| vec![node]).collect() } else { alike(nodes, |node| &node.node) };
    let (nodes_max, quota_rows_max) = room(printer, totals.len(), rows.len());
    let shown = printer.shown_of(rows.len(), nodes_max);
    printer.table("  ", &node_table(&rows, shown, printer.units(), printer.columns()))?;
    printer.left_out(rows.len(), shown)?;
    // A quota that neither limits nor guarantees anything is not full of anything.
    let limited = quotas.iter().position(|quota| quota.fullest.is_none()).unwrap_or(quotas.len());
    let quotas = &quotas[..limited];
    if quotas.is_empty() {
        return Ok(());
    }
    printer.line("")?;
    printer.line(title(printer, "Quotas", quotas.len()))?;
    let most = quotas_within(quotas, quota_rows_max).min(LINES_MAX);
    let shown = printer.shown_of(quotas.len(), most);
    printer.table("  ", &quota_table(&quotas[..shown], printer.units()))?;
    printer.left_out(quotas.len(), shown)
}

/// How many rows of nodes and of quotas are shown: on a screen that is shown again and again, as many as it has lines
/// for.
fn room(printer: &Printer, totals: usize, node_rows: usize) -> (usize, usize) {
    /// Titles, headings, what was left out, empty lines, and the cursor.
    const OTHER_LINES: usize = 10;
    let Some(rows) = printer.rows() else { return (LINES_MAX, usize::MAX) };
    let left = rows.saturating_sub(totals + OTHER_LINES);
    let nodes = node_rows.min((left / 2).max(1)).min(LINES_MAX);
    (nodes, left.saturating_sub(nodes).max(1))
}

/// How many of the first quotas have no more rows than this together; one at least.
fn quotas_within(quotas: &[FullQuota], rows_max: usize) -> usize {
    let mut rows = 0;
    let fits = |quota: &&FullQuota| {
        rows += resources_of(&quota.quota).len().max(1);
        rows <= rows_max
    };
    quotas.iter().take_while(fits).count().max(1)
}

/// All nodes together: what is left of each resource and card.
fn tell_totals(printer: &mut Printer, totals: &[Total]) -> Result<()> {
    if totals.is_empty() {
        return Ok(());
    }
    let titles = [("TOTAL", Align::Left), ("", Align::Picture), ("USE", Align::Right), ("USED", Align::Right)];
    let mut table = Table::new(titles.into_iter().chain([("OF", Align::Right), ("NODES", Align::Right)]));
    let units = printer.units();
    for Total { resource, used, allocatable, nodes, .. } in totals {
        let of = |quantity: &String| amount_of(&Quantities::from([(resource.clone(), quantity.clone())]), resource);
        let (held, all) = (of(used), of(allocatable));
        let percent = share(held, all);
        let (used, allocatable) = units.show_two(resource, used, allocatable);
        table.row(vec![
            resource.as_str().into(),
            Cell::toned(tone(percent), usage_bar(held, all)),
            percentage(percent).into(),
            used.into(),
            allocatable.into(),
            grouped(*nodes as u64).into(),
        ]);
    }
    printer.table("", &table)?;
    printer.line("")
}

/// `87%`; more than can be said in numbers where something is used of nothing.
fn percentage(percent: u64) -> String {
    if percent == OF_NOTHING { "over".to_owned() } else { format!("{percent}%") }
}

/// Green while there is some left, bold when there is none, weak while nothing is used.
fn tone(percent: u64) -> Tone {
    match percent {
        0 => Tone::Weak,
        1..100 => Tone::Good,
        _ => Tone::Strong,
    }
}

/// Equally full nodes share a row, by the name of the first, with their number.
fn node_table(nodes: &[Vec<&FullNode>], shown: usize, units: Units, room: Option<usize>) -> Table {
    let with_bars = node_rows(nodes, shown, units, true);
    match room {
        Some(room) if with_bars.width() > room => node_rows(nodes, shown, units, false),
        _ => with_bars,
    }
}

fn node_rows(groups: &[Vec<&FullNode>], shown: usize, units: Units, bars: bool) -> Table {
    let nodes = || groups.iter().filter_map(|alike| Some((*alike.first()?, alike.len())));
    let resources = in_order(nodes().flat_map(|(node, _)| node.node.allocatable.keys()));
    let counts = nodes().take(shown).any(|(_, count)| count > 1);
    let mut columns = vec![("NODE".to_owned(), Align::Left)];
    columns.extend(counts.then(|| ("NODES".to_owned(), Align::Right)));
    columns.push(("FULLEST".to_owned(), Align::Right));
    columns.extend(resources.iter().map(|name| (name.to_uppercase(), Align::Whole)));
    let mut table = Table::new(columns).keyed_by(1 + usize::from(counts));
    for (FullNode { fullest, node }, count) in nodes().take(shown) {
        let mut cells = vec![Cell::from(node.name.as_str())];
        cells.extend(counts.then(|| Cell::from(grouped(count as u64))));
        cells.push(Cell::from(percent(fullest).map_or(String::new(), percentage)));
        cells.extend(resources.iter().map(|resource| {
            let percent = share(amount_of(&node.used, resource), amount_of(&node.allocatable, resource));
            Cell::toned(tone(percent), usage(resource, &node.used, &node.allocatable, units, bars))
        }));
        table.row(cells);
    }
    table
}

/// A row for each resource of a quota, the fullest first.
fn quota_table(quotas: &[FullQuota], units: Units) -> Table {
    let right = |title: &'static str| (title, Align::Right);
    let mut table = Table::new([
        ("QUOTA", Align::Left),
        ("RESOURCE", Align::Left),
        ("", Align::Picture),
        right("USE"),
        right("USED"),
        right("ENTITLED"),
        right("MAX"),
        right("BORROWED"),
    ])
    .keyed_by(2);
    for FullQuota { quota, .. } in quotas {
        let of = |resource: &String| share(amount_of(&quota.used, resource), measure(quota, resource));
        let mut resources: Vec<(u64, String)> = resources_of(quota).into_iter().map(|r| (of(&r), r)).collect();
        resources.sort_by_key(|(percent, _)| Reverse(*percent));
        for (i, (percent, resource)) in resources.iter().enumerate() {
            let name = if i == 0 { quota.object.as_str() } else { "" };
            let text = |amounts: &Quantities, absent: &str| {
                Cell::from(amounts.get(resource).map_or_else(|| absent.to_owned(), |it| units.show(resource, it)))
            };
            let bar = usage_bar(amount_of(&quota.used, resource), measure(quota, resource));
            table.row(vec![
                name.into(),
                resource.as_str().into(),
                Cell::toned(tone(*percent), bar),
                percentage(*percent).into(),
                text(&quota.used, "0"),
                text(&quota.entitlement, "0"),
                text(&quota.max, "-"),
                text(&quota.borrowed, "0"),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_down_and_never_divide_by_nothing() {
        for (used, whole, percent) in [(0, 0, 0), (0, 5, 0), (1, 3, 33), (3, 3, 100), (8, 4, 200), (1, 0, OF_NOTHING)] {
            assert_eq!(share(used, whole), percent, "{used} of {whole}");
        }
        assert_eq!(percentage(OF_NOTHING), "over");
    }

    #[test]
    fn of_equally_full_resources_the_first_counts() {
        let share = |resource: &str, percent| Share { percent, resource: resource.to_owned() };
        let most = fullest([share("memory", 50), share("pods", 80), share("cpu", 80)].into_iter());
        assert_eq!(most, Some(share("cpu", 80)));
        assert_eq!(fullest([].into_iter()), None);
    }
}
