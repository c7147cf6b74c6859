//! Quotas as trees, and the caps of nodes beside them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use quotient_sim::report::{NodeState, Quantities, QuotaReport};
use serde::Serialize;

use crate::printer::{LINES_MAX, Printer, Tone};
use crate::standing::{Units, amount_of, amounts_of, in_order, resources_of, usage_bar};
use crate::state::State;
use crate::table::{Align, Cell, Table};
use quotient_replay::tell::grouped;

/// The most quotas that a table shows; `-o wide` shows all.
const QUOTAS_MAX: usize = 100;

/// Everything that limits who may hold how much. Field names are a contract with whoever reads the JSON.
#[derive(Debug, Serialize)]
pub struct Forest {
    pub groups: Vec<Group>,
    /// Caps on what pods without GPUs hold: those that are passed first, then the fullest.
    pub caps: Vec<NodeCap>,
}

/// The quotas of one API group. They lend to none of another group.
#[derive(Debug, Serialize)]
pub struct Group {
    pub group: String,
    /// Sums over the quotas at the top.
    #[serde(flatten)]
    pub totals: Totals,
    pub quotas: Vec<Branch>,
}

/// Sums of amounts.
#[derive(Debug, Default, Serialize)]
pub struct Totals {
    pub min: Quantities,
    pub used: Quantities,
    pub borrowed: Quantities,
    pub lent: Quantities,
    pub reclaimable: Quantities,
}

/// A quota with those below it.
#[derive(Debug, Serialize)]
pub struct Branch {
    #[serde(flatten)]
    pub quota: QuotaReport,
    reclaimable: Quantities,
    pub children: Vec<Branch>,
}

impl Branch {
    /// How many quotas it is, with all below it.
    fn count(&self) -> usize {
        1 + self.children.iter().map(Branch::count).sum::<usize>()
    }
}

/// What pods without GPUs may hold on a node, and hold.
#[derive(Debug, Serialize)]
pub struct NodeCap {
    pub node: String,
    pub cap: Quantities,
    pub used: Quantities,
    /// What they hold beyond the cap. Nobody is evicted for it; nothing more comes in.
    pub over: Quantities,
}

impl Forest {
    /// How the quotas and caps stand.
    pub fn of(state: &State) -> Self {
        let mut groups: BTreeMap<&'static str, Vec<QuotaReport>> = BTreeMap::new();
        for (key, quota) in state.quotas() {
            groups.entry(key.group).or_default().push(quota.clone());
        }
        let groups = groups.into_iter().map(|(group, quotas)| Group::of(group, quotas)).collect();
        let mut caps: Vec<NodeCap> = state.nodes().iter().cloned().filter_map(NodeCap::of).collect();
        caps.sort_by_key(|cap| (cap.over.is_empty(), std::cmp::Reverse(cap.fullness()), cap.node.clone()));
        Forest { groups, caps }
    }
}

impl Group {
    fn of(group: &str, quotas: Vec<QuotaReport>) -> Self {
        let names: BTreeSet<String> = quotas.iter().map(|quota| quota.object.clone()).collect();
        let mut below: BTreeMap<Option<String>, Vec<QuotaReport>> = BTreeMap::new();
        for quota in quotas {
            // One whose parent is not there stands at the top, so that it is seen.
            let parent = quota.parent.clone().filter(|parent| names.contains(parent));
            below.entry(parent).or_default().push(quota);
        }
        let mut branches = grow(None, &mut below);
        // Quotas that are each other's parents are below nothing.
        while let Some(parent) = below.keys().next().cloned() {
            branches.extend(grow(parent, &mut below));
        }
        Group { group: group.to_owned(), totals: Totals::of(&branches), quotas: branches }
    }
}

/// Takes the quotas below a parent out of the table, each with its own.
fn grow(parent: Option<String>, below: &mut BTreeMap<Option<String>, Vec<QuotaReport>>) -> Vec<Branch> {
    let quotas = below.remove(&parent).unwrap_or_default();
    let branch = |quota: QuotaReport| {
        let children = grow(Some(quota.object.clone()), below);
        Branch { reclaimable: quota.reclaimable.clone(), quota, children }
    };
    quotas.into_iter().map(branch).collect()
}

impl Totals {
    fn of(branches: &[Branch]) -> Self {
        let sum = |of: &dyn Fn(&Branch) -> &Quantities| {
            let named: BTreeSet<&String> = branches.iter().flat_map(|branch| of(branch).keys()).collect();
            amounts_of(named.into_iter(), |resource| {
                branches.iter().map(|branch| amount_of(of(branch), resource)).sum()
            })
        };
        Totals {
            min: sum(&|branch| &branch.quota.min),
            used: sum(&|branch| &branch.quota.used),
            borrowed: sum(&|branch| &branch.quota.borrowed),
            lent: sum(&|branch| &branch.quota.lent),
            reclaimable: sum(&|branch| &branch.quota.reclaimable),
        }
    }
}

impl NodeCap {
    fn of(node: NodeState) -> Option<Self> {
        let NodeState { name, cap, cap_used, .. } = node;
        let beyond = |resource: &str| (amount_of(&cap_used, resource) - amount_of(&cap, resource)).max(0);
        let over = amounts_of(cap.keys(), beyond);
        (!cap.is_empty()).then_some(NodeCap { node: name, over, used: cap_used, cap })
    }

    /// How full the fullest of its resources is, in thousandths.
    fn fullness(&self) -> i128 {
        let of = |resource: &String| {
            let (used, cap) = (amount_of(&self.used, resource), amount_of(&self.cap, resource));
            if used == 0 { 0 } else { used.saturating_mul(1000) / cap.max(1) }
        };
        self.cap.keys().map(of).max().unwrap_or(0)
    }
}

/// Prints the trees, and the caps below them.
pub fn tell(printer: &mut Printer, forest: &Forest) -> Result<()> {
    let Forest { groups, caps } = forest;
    if groups.is_empty() {
        printer.line(format_args!("{}: none", printer.paint(Tone::Strong, "Quotas")))?;
    } else {
        let titles = ["QUOTA", "RESOURCE", "GUARANTEED", "USED", "BORROWED", "LENT", "ENTITLED", "RECLAIMABLE", "MAX"];
        let align = |i: usize| if i < 2 { Align::Left } else { Align::Right };
        let mut table = Table::new(titles.into_iter().enumerate().map(|(i, title)| (title, align(i)))).keyed_by(2);
        let count = groups.iter().map(|group| group.quotas.iter().map(Branch::count).sum::<usize>()).sum();
        let shown = printer.shown_of(count, QUOTAS_MAX);
        let mut room = shown;
        for group in groups {
            group_rows(group, &mut table, &mut room, printer.units());
        }
        printer.table("", &table)?;
        printer.left_out(count, shown)?;
    }
    if caps.is_empty() { Ok(()) } else { tell_caps(printer, caps) }
}

/// A row of sums for each resource of a group, then the quotas.
fn group_rows(group: &Group, table: &mut Table, room: &mut usize, units: Units) {
    let Group { group, totals: Totals { min, used, borrowed, lent, reclaimable }, quotas } = group;
    let governed = in_order([min, borrowed, lent].into_iter().flat_map(|amounts| amounts.keys()));
    for (i, resource) in governed.iter().enumerate() {
        let name = if i == 0 { Cell::toned(Tone::Strong, group.as_str()) } else { Cell::from("│") };
        let of = |amounts: &Quantities| Cell::from(units.show(resource, amounts.get(resource).map_or("0", |it| it)));
        let [min, used, borrowed, lent, reclaimable] = [min, used, borrowed, lent, reclaimable].map(of);
        table.row(vec![name, resource.as_str().into(), min, used, borrowed, lent, "".into(), reclaimable, "".into()]);
    }
    if governed.is_empty() {
        let mut cells = vec![Cell::from(""); 9];
        cells[0] = Cell::toned(Tone::Strong, group.as_str());
        table.row(cells);
    }
    branch_rows(quotas, "", table, room, units);
}

/// Rows for quotas and all below them, as long as there is room.
fn branch_rows(branches: &[Branch], indent: &str, table: &mut Table, room: &mut usize, units: Units) {
    for (i, branch) in branches.iter().enumerate() {
        if *room == 0 {
            return;
        }
        *room -= 1;
        let last = i + 1 == branches.len();
        let (knot, line) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let below = format!("{indent}{line}");
        let Branch { quota, children, .. } = branch;
        let tree = quota.tree.as_ref().map_or(String::new(), |tree| format!(" (tree {tree})"));
        let first = format!("{indent}{knot}{}{tree}", quota.object);
        let other = if children.is_empty() { below.clone() } else { format!("{below}│") };
        let resources = resources_of(quota);
        for (i, resource) in resources.iter().enumerate() {
            let name = if i == 0 { first.as_str() } else { other.trim_end() };
            let of = |amounts: &Quantities, absent: &str| {
                Cell::from(amounts.get(resource).map_or_else(|| absent.to_owned(), |it| units.show(resource, it)))
            };
            let reclaimable = match quota.reclaimable.get(resource) {
                Some(amount) => Cell::toned(Tone::Bad, units.show(resource, amount)),
                None => Cell::from("0"),
            };
            table.row(vec![
                name.into(),
                resource.as_str().into(),
                of(&quota.min, "0"),
                of(&quota.used, "0"),
                of(&quota.borrowed, "0"),
                of(&quota.lent, "0"),
                of(&quota.entitlement, "0"),
                reclaimable,
                of(&quota.max, "-"),
            ]);
        }
        if resources.is_empty() {
            let mut cells = vec![Cell::from(""); 9];
            cells[0] = first.into();
            table.row(cells);
        }
        branch_rows(children, &below, table, room, units);
    }
}

fn tell_caps(printer: &mut Printer, caps: &[NodeCap]) -> Result<()> {
    let over = caps.iter().filter(|cap| !cap.over.is_empty()).count();
    let passed = if over == 0 { String::new() } else { format!(", {} passed", grouped(over as u64)) };
    printer.line("")?;
    let title = printer.paint(Tone::Strong, "Caps on pods without GPUs");
    let nodes = if caps.len() == 1 { "node" } else { "nodes" };
    printer.line(format_args!("{title}: on {} {nodes}{passed}", grouped(caps.len() as u64)))?;
    let titles = [("NODE", Align::Left), ("RESOURCE", Align::Left), ("USED", Align::Right), ("CAP", Align::Right)];
    let mut table = Table::new(titles.into_iter().chain([("", Align::Picture), ("", Align::Whole)])).keyed_by(2);
    let shown = printer.shown_of(caps.len(), LINES_MAX);
    let units = printer.units();
    for NodeCap { node, cap, used, over } in caps.iter().take(shown) {
        for (i, resource) in in_order(cap.keys()).iter().enumerate() {
            let name = if i == 0 { node.as_str() } else { "" };
            let of = |amounts: &Quantities| units.show(resource, amounts.get(resource).map_or("0", |it| it));
            let over = over
                .get(resource)
                .map(|over| Cell::toned(Tone::Bad, format!("passed by {}", units.show(resource, over))));
            table.row(vec![
                name.into(),
                resource.as_str().into(),
                of(used).into(),
                of(cap).into(),
                usage_bar(amount_of(used, resource), amount_of(cap, resource)).into(),
                over.unwrap_or_else(|| Cell::from("")),
            ]);
        }
    }
    printer.table("  ", &table)?;
    printer.left_out(caps.len(), shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(object: &str, parent: Option<&str>, min: &str, used: &str) -> QuotaReport {
        let cpu = |amount: &str| Quantities::from([("cpu".to_owned(), amount.to_owned())]);
        QuotaReport {
            object: object.to_owned(),
            parent: parent.map(str::to_owned),
            min: cpu(min),
            used: cpu(used),
            ..QuotaReport::default()
        }
    }

    /// The first columns of the rows of a group.
    fn shown(group: &Group, room: usize) -> Vec<String> {
        let mut table = Table::new([("", Align::Left); 9]);
        group_rows(group, &mut table, &mut { room }, Units::Exact);
        let cut = |line: String| line.split_once(" cpu").map_or(line.clone(), |(name, _)| name.trim_end().to_owned());
        table.lines(None, |_, text| text.to_owned()).into_iter().skip(1).map(cut).collect()
    }

    #[test]
    fn quotas_stand_below_their_parents() {
        let quotas = vec![
            quota("Q/root", None, "10", "7"),
            quota("Q/a", Some("Q/root"), "6", "4"),
            quota("Q/a-1", Some("Q/a"), "2", "1"),
            quota("Q/a-2", Some("Q/a"), "4", "3"),
            quota("Q/b", Some("Q/root"), "4", "3"),
            quota("Q/other", None, "1", "500m"),
        ];
        let group = Group::of("example.com", quotas);
        let all =
            ["example.com", "├─ Q/root", "│  ├─ Q/a", "│  │  ├─ Q/a-1", "│  │  └─ Q/a-2", "│  └─ Q/b", "└─ Q/other"];
        assert_eq!(shown(&group, 100), all);
        assert_eq!(shown(&group, 2), all[..3]);
        let totals = (group.totals.min["cpu"].as_str(), group.totals.used["cpu"].as_str());
        assert_eq!(totals, ("11", "7500m"), "only what stands at the top counts");
    }

    #[test]
    fn quotas_without_a_way_to_the_top_are_shown_all_the_same() {
        let lost = quota("Q/lost", Some("Q/gone"), "1", "0");
        let circle = [("Q/x", "Q/y"), ("Q/y", "Q/x")].map(|(name, parent)| quota(name, Some(parent), "1", "0"));
        let group = Group::of("example.com", [vec![lost], circle.to_vec()].concat());
        assert_eq!(group.quotas.iter().map(Branch::count).sum::<usize>(), 3);
        assert_eq!(shown(&group, 100), ["example.com", "├─ Q/lost", "└─ Q/y", "   └─ Q/x"]);
    }

    #[test]
    fn caps_that_are_passed_say_by_how_much() {
        let amounts = |cpu: &str| Quantities::from([("cpu".to_owned(), cpu.to_owned())]);
        let node = |used: &str| NodeState {
            name: "n".to_owned(),
            cap: amounts("4"),
            cap_used: amounts(used),
            ..NodeState::default()
        };
        assert_eq!(NodeCap::of(node("1")).map(|cap| cap.fullness()), Some(250));
        let cap = NodeCap::of(node("4500m")).expect("it has a cap");
        assert_eq!((cap.over["cpu"].as_str(), cap.fullness()), ("500m", 1125));
        assert!(NodeCap::of(node("4")).is_some_and(|cap| cap.over.is_empty()));
        assert!(NodeCap::of(NodeState::default()).is_none());
    }
}
