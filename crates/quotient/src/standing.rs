//! Quotas and nodes as they stand, in tables that several commands show, and amounts in order.

use std::collections::BTreeSet;

use quotient_engine::quantity::{Quantity, canonical};
use quotient_sim::report::{NodeState, Quantities, QuotaReport};

use crate::table::{Align, Table, bar};

/// Characters of a usage bar.
pub const BAR_WIDTH: usize = 10;

/// A row for each resource that a quota speaks of.
pub fn quota_table(quotas: &[QuotaReport]) -> Table {
    let titles = ["NAME", "POLICY", "RESOURCE", "USED", "MIN", "ENTITLED", "MAX", "BORROWED", "LENT"];
    let align = |i: usize| if i < 3 { Align::Left } else { Align::Right };
    let mut table = Table::new(titles.into_iter().enumerate().map(|(i, title)| (title, align(i))));
    for quota in quotas {
        for (i, resource) in resources_of(quota).iter().enumerate() {
            let of =
                |amounts: &Quantities, absent: &str| amounts.get(resource).map_or(absent, String::as_str).to_owned();
            let mut cells = match i {
                0 => vec![quota.object.clone(), quota.policy.clone()],
                _ => vec![String::new(), String::new()],
            };
            cells.push(resource.clone());
            cells.extend([of(&quota.used, "0"), of(&quota.min, "-"), of(&quota.entitlement, "0"), of(&quota.max, "-")]);
            cells.extend([of(&quota.borrowed, "0"), of(&quota.lent, "0")]);
            table.row(cells);
        }
    }
    table
}

/// The resources that a quota has something to say about. What its pods hold of others is limited by nodes alone.
pub fn resources_of(quota: &QuotaReport) -> Vec<String> {
    let QuotaReport { min, max, entitlement, runtime, borrowed, lent, .. } = quota;
    in_order([min, max, entitlement, runtime, borrowed, lent].into_iter().flat_map(|amounts| amounts.keys()))
}

/// A row for each of the first nodes, with a column for each resource that any node has.
pub fn node_table(nodes: &[NodeState], shown: usize) -> Table {
    let resources = in_order(nodes.iter().flat_map(|node| node.allocatable.keys()));
    let capped = in_order(nodes.iter().flat_map(|node| node.cap.keys()));
    let mut columns = vec![("NAME".to_owned(), Align::Left)];
    columns.extend(resources.iter().map(|name| (name.to_uppercase(), Align::Left)));
    columns.extend(capped.iter().map(|name| (format!("{} WITHOUT GPU", name.to_uppercase()), Align::Left)));
    let mut table = Table::new(columns);
    for NodeState { name, allocatable, used, cap, cap_used, .. } in nodes.iter().take(shown) {
        let mut cells = vec![name.clone()];
        cells.extend(resources.iter().map(|resource| usage(resource, used, allocatable)));
        cells.extend(capped.iter().map(|resource| usage(resource, cap_used, cap)));
        table.row(cells);
    }
    table
}

/// `[###.......] 3 of 8`, or nothing where there is none of the resource.
pub fn usage(resource: &str, used: &Quantities, of: &Quantities) -> String {
    let Some(total) = of.get(resource) else { return String::new() };
    let used = used.get(resource).map_or("0", String::as_str);
    format!("{} {used} of {total}", usage_bar(amount(resource, used), amount(resource, total)))
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
