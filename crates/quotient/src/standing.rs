//! Quotas and nodes as they stand, in tables that several commands show, and amounts in order.

use std::collections::BTreeSet;

use quotient_engine::quantity::{Format, Quantity, canonical};
use quotient_sim::report::{NodeState, Quantities, QuotaReport};

use crate::kin::grouped_by;
use crate::table::{Align, Table, bar};
use quotient_replay::tell::grouped;

/// Characters of a usage bar.
pub const BAR_WIDTH: usize = 10;

/// How amounts are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Units {
    /// As exact as they are.
    Exact,
    /// In the unit that reads best, rounded.
    Rounded,
}

impl Units {
    /// An amount of a report in these units.
    pub fn show(self, resource: &str, quantity: &str) -> String {
        // What is not an amount, such as the `-` of one that is not there, is shown as it is.
        let is_amount = quantity.contains(|c: char| c.is_ascii_digit());
        match (self, quantity.parse::<Quantity>()) {
            (Units::Rounded, Ok(quantity)) if is_amount => rounded(resource, quantity.sum(resource)),
            _ => quantity.to_owned(),
        }
    }

    /// Two amounts that are compared by whoever reads them: where they differ, they are shown so that they do.
    pub fn show_two(self, resource: &str, one: &str, other: &str) -> (String, String) {
        let shown = (self.show(resource, one), self.show(resource, other));
        if shown.0 == shown.1 && one != other { (one.to_owned(), other.to_owned()) } else { shown }
    }
}

/// An amount in the unit that reads best: `12.5` cores, `1.1Ti`, `1,200` cards. At most three digits are kept of what
/// is not whole.
pub fn rounded(resource: &str, amount: i128) -> String {
    let (sign, size) = (if amount < 0 { "-" } else { "" }, amount.unsigned_abs());
    let shown = match Format::of(resource) {
        Format::BinarySI => scaled(size, 1024, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
        _ if resource == "cpu" && size % 1000 != 0 => {
            // Thousandths up to ten cores, tenths from there on.
            let digits = if size < 10_000 { 3 } else { 1 };
            decimal(size, 1000, digits)
        }
        _ => {
            let whole = if resource == "cpu" { size / 1000 } else { size };
            match whole {
                0..1_000_000_000 => grouped(u64::try_from(whole).unwrap_or(u64::MAX)),
                _ => scaled(whole, 1000, &["", "k", "M", "G", "T", "P", "E"]),
            }
        }
    };
    format!("{sign}{shown}")
}

/// The amount in the largest unit of which there is one at least.
fn scaled(amount: u128, step: u128, suffixes: &[&str]) -> String {
    let (mut unit, mut at) = (1_u128, 0);
    while at + 1 < suffixes.len() && amount >= unit * step {
        unit *= step;
        at += 1;
    }
    let digits = if amount / unit < 100 { 1 } else { 0 };
    format!("{}{}", decimal(amount, unit, digits), suffixes[at])
}

/// `amount / unit` with so many digits after the point, rounded half up, without zeroes at the end.
fn decimal(amount: u128, unit: u128, digits: u32) -> String {
    let scale = 10_u128.pow(digits);
    let scaled = (amount * scale * 2 + unit) / (unit * 2);
    let (whole, part) = (scaled / scale, scaled % scale);
    let whole = grouped(u64::try_from(whole).unwrap_or(u64::MAX));
    if part == 0 {
        return whole;
    }
    let part = format!("{part:0width$}", width = digits as usize);
    format!("{whole}.{}", part.trim_end_matches('0'))
}

/// A row for each resource that a quota speaks of.
pub fn quota_table(quotas: &[QuotaReport], units: Units) -> Table {
    let titles = ["NAME", "POLICY", "RESOURCE", "USED", "MIN", "ENTITLED", "MAX", "BORROWED", "LENT"];
    let align = |i: usize| if i < 3 { Align::Left } else { Align::Right };
    let mut table = Table::new(titles.into_iter().enumerate().map(|(i, title)| (title, align(i)))).keyed_by(3);
    for quota in quotas {
        let of_quota = || vec![quota.object.clone(), quota.policy.clone()];
        let resources = resources_of(quota);
        for (i, resource) in resources.iter().enumerate() {
            let of = |amounts: &Quantities, absent: &str| {
                amounts.get(resource).map_or_else(|| absent.to_owned(), |amount| units.show(resource, amount))
            };
            let mut cells = if i == 0 { of_quota() } else { vec![String::new(), String::new()] };
            cells.push(resource.clone());
            cells.extend([of(&quota.used, "0"), of(&quota.min, "-"), of(&quota.entitlement, "0"), of(&quota.max, "-")]);
            cells.extend([of(&quota.borrowed, "0"), of(&quota.lent, "0")]);
            table.row(cells);
        }
        // A quota that limits nothing is there all the same.
        if resources.is_empty() {
            table.row(of_quota().into_iter().chain(std::iter::repeat_n(String::new(), 7)).collect());
        }
    }
    table
}

/// The resources that a quota has something to say about. What its pods hold of others is limited by nodes alone.
pub fn resources_of(quota: &QuotaReport) -> Vec<String> {
    let QuotaReport { min, max, entitlement, runtime, borrowed, lent, .. } = quota;
    in_order([min, max, entitlement, runtime, borrowed, lent].into_iter().flat_map(|amounts| amounts.keys()))
}

/// Nodes of which the same is to be said, by the first of them, in order.
pub fn alike<'a, T>(nodes: &'a [T], state: impl Fn(&'a T) -> &'a NodeState) -> Vec<Vec<&'a T>> {
    let said = |node: &'a T| {
        let NodeState { name: _, allocatable, used, cards: _, cap, cap_used } = state(node);
        (allocatable, used, cap, cap_used)
    };
    grouped_by(nodes, said).into_iter().map(|(_, alike)| alike).collect()
}

/// A row for each of the first groups of nodes, with a column for each resource that any node has. Where many resources
/// would make the table wider than `room`, bars are left out.
pub fn node_table(nodes: &[Vec<&NodeState>], shown: usize, units: Units, room: Option<usize>) -> Table {
    let with_bars = node_rows(nodes, shown, units, true);
    match room {
        Some(room) if with_bars.width() > room => node_rows(nodes, shown, units, false),
        _ => with_bars,
    }
}

fn node_rows(groups: &[Vec<&NodeState>], shown: usize, units: Units, bars: bool) -> Table {
    let nodes = || groups.iter().filter_map(|alike| Some((*alike.first()?, alike.len())));
    let resources = in_order(nodes().flat_map(|(node, _)| node.allocatable.keys()));
    let capped = in_order(nodes().flat_map(|(node, _)| node.cap.keys()));
    let counts = nodes().take(shown).any(|(_, count)| count > 1);
    let mut columns = vec![("NAME".to_owned(), Align::Left)];
    columns.extend(counts.then(|| ("NODES".to_owned(), Align::Right)));
    columns.extend(resources.iter().map(|name| (name.to_uppercase(), Align::Whole)));
    columns.extend(capped.iter().map(|name| (format!("{} WITHOUT GPU", name.to_uppercase()), Align::Whole)));
    let mut table = Table::new(columns).keyed_by(1 + usize::from(counts));
    for (NodeState { name, allocatable, used, cap, cap_used, .. }, count) in nodes().take(shown) {
        let mut cells = vec![name.clone()];
        cells.extend(counts.then(|| grouped(count as u64)));
        cells.extend(resources.iter().map(|resource| usage(resource, used, allocatable, units, bars)));
        cells.extend(capped.iter().map(|resource| usage(resource, cap_used, cap, units, bars)));
        table.row(cells);
    }
    table
}

/// `[###.......] 3 of 8`, or nothing where there is none of the resource.
pub fn usage(resource: &str, used: &Quantities, of: &Quantities, units: Units, bars: bool) -> String {
    let Some(total) = of.get(resource) else { return String::new() };
    let used = used.get(resource).map_or("0", String::as_str);
    let bar = if bars { usage_bar(amount(resource, used), amount(resource, total)) + " " } else { String::new() };
    let (used, total) = units.show_two(resource, used, total);
    format!("{bar}{used} of {total}")
}

/// `[###.......]`.
pub fn usage_bar(used: i128, total: i128) -> String {
    let positive = |amount: i128| u128::try_from(amount).unwrap_or(0);
    format!("[{}]", bar(positive(used), positive(total), BAR_WIDTH))
}

/// Resources, each once: cpu and memory first, `pods` last.
pub fn in_order<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let rank = |name: &str| match name {
        "cpu" => 0,
        "memory" => 1,
        "pods" => 3,
        _ => 2,
    };
    let mut all: Vec<String> = names.collect::<BTreeSet<_>>().into_iter().cloned().collect();
    all.sort_by(|a, b| (rank(a), a).cmp(&(rank(b), b)));
    all
}

/// What a quantity of a report comes to; a report holds none that cannot be read.
pub fn amount(resource: &str, quantity: &str) -> i128 {
    quantity.parse::<Quantity>().map_or(0, |quantity| quantity.sum(resource))
}

/// What there is of a resource among amounts; 0 where it is not named.
pub fn amount_of(amounts: &Quantities, resource: &str) -> i128 {
    amounts.get(resource).map_or(0, |quantity| amount(resource, quantity))
}

/// Amounts that are worked out resource by resource; nothing that is 0.
pub fn amounts_of<'a>(resources: impl Iterator<Item = &'a String>, of: impl Fn(&str) -> i128) -> Quantities {
    let amounts = resources.map(|resource| (resource, of(resource))).filter(|(_, amount)| *amount != 0);
    amounts.map(|(resource, amount)| (resource.clone(), canonical(resource, amount))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_as_people_write_them() {
        let cases = [
            ("cpu", 250, "0.25"),
            ("cpu", 1, "0.001"),
            ("cpu", 91_025, "91"),
            ("cpu", 95_690, "95.7"),
            ("cpu", 1_000_000, "1,000"),
            ("memory", 400 << 30, "400Gi"),
            ("memory", 1_160_274_168 << 10, "1.1Ti"),
            ("memory", 1_500, "1.5Ki"),
            ("nvidia.com/gpu", 1_200, "1,200"),
            ("example.com/thing", 4_611_686_018_427_387, "4.6P"),
            ("cpu", 0, "0"),
        ];
        for (resource, amount, shown) in cases {
            assert_eq!(rounded(resource, amount), shown, "{amount} {resource}");
        }
        assert_eq!(Units::Rounded.show_two("cpu", "63999m", "64"), ("63999m".to_owned(), "64".to_owned()));
        assert_eq!(Units::Rounded.show("cpu", "-"), "-");
        assert_eq!(Units::Exact.show("memory", "1160274168Ki"), "1160274168Ki");
    }
}
