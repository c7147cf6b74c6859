//! How quotas stand, as Prometheus reads it: written when it is asked for, and bounded however many quotas there are.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use quotient_api::volcano::metrics::{CARD_ALLOCATED, Sample};
use quotient_engine::QuotaReport;
use quotient_engine::fact::{CPU, Name};

/// So many quotas are written by name: those that hold most of their entitlement. All of them are in the totals.
const NAMED_MAX: usize = 200;

/// What is said of a quota.
type Amounts<'a> = [(&'static str, &'a [(Name, i128)]); 7];

fn amounts(report: &QuotaReport) -> Amounts<'_> {
    [
        ("min", &report.min),
        ("max", &report.max),
        ("used", &report.used),
        ("entitlement", &report.entitlement),
        ("runtime", &report.runtime),
        ("borrowed", &report.borrowed),
        ("lent", &report.lent),
    ]
}

/// The name of the figure for a resource, which has its unit, and what an amount is divided by.
fn figure(resource: &str) -> (&'static str, i128) {
    match resource {
        CPU => ("cpu_cores", 1000),
        "memory" | "ephemeral-storage" | "storage" => ("bytes", 1),
        name if name.starts_with("hugepages-") => ("bytes", 1),
        _ => ("count", 1),
    }
}

/// How much of its entitlement a quota holds, in thousandths, of the resource of which it holds most.
fn fullness(report: &QuotaReport) -> i128 {
    let entitled: BTreeMap<&Name, i128> = report.entitlement.iter().map(|(name, amount)| (name, *amount)).collect();
    let share = |(name, used): &(Name, i128)| match entitled.get(name).copied().unwrap_or(0) {
        0 => i128::from(*used > 0) * 1_000_000,
        entitled => used.saturating_mul(1000) / entitled,
    };
    report.used.iter().map(share).max().unwrap_or(0)
}

/// The queues whose figures by card are shown: those that hold most cards.
pub fn fullest_queues(samples: &[Sample]) -> BTreeSet<&str> {
    let mut held: BTreeMap<&str, i128> = BTreeMap::new();
    for Sample { metric, queue, value, .. } in samples {
        let value = if *metric == CARD_ALLOCATED { *value } else { 0 };
        *held.entry(queue).or_default() += value;
    }
    let mut fullest: Vec<(Reverse<i128>, &str)> =
        held.into_iter().map(|(queue, held)| (Reverse(held), queue)).collect();
    fullest.sort_unstable();
    fullest.into_iter().take(NAMED_MAX).map(|(_, queue)| queue).collect()
}

/// Writes the fullest quotas by name, and the totals of all by policy.
pub fn write(text: &mut String, reports: &[QuotaReport]) {
    let mut fullest: Vec<&QuotaReport> = reports.iter().collect();
    fullest.sort_by_cached_key(|report| (Reverse(fullness(report)), report.key.clone()));
    fullest.truncate(NAMED_MAX);
    let mut lines: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for report in fullest {
        let (quota, group, policy) = (report.key.to_string(), &report.key.group, report.policy.to_string());
        for (amount, values) in amounts(report) {
            for (resource, value) in values {
                let (unit, divisor) = figure(resource);
                let labels = format!(
                    "quota=\"{}\",group=\"{}\",policy=\"{}\",resource=\"{}\",amount=\"{amount}\"",
                    escaped(&quota),
                    escaped(group),
                    escaped(&policy),
                    escaped(resource)
                );
                lines.entry(unit).or_default().push(format!("{{{labels}}} {}", shown(*value, divisor)));
            }
        }
    }
    for (unit, lines) in lines {
        let name = format!("quotient_quota_{unit}");
        let _ = writeln!(text, "# HELP {name} Amounts of the {NAMED_MAX} fullest quotas.\n# TYPE {name} gauge");
        lines.iter().for_each(|line| {
            let _ = writeln!(text, "{name}{line}");
        });
    }
    write_totals(text, reports);
}

fn write_totals(text: &mut String, reports: &[QuotaReport]) {
    let mut totals: BTreeMap<(&str, String, &Name, &str), i128> = BTreeMap::new();
    for report in reports {
        for (amount, values) in amounts(report) {
            for (resource, value) in values {
                let (unit, _) = figure(resource);
                *totals.entry((unit, report.policy.to_string(), resource, amount)).or_default() += value;
            }
        }
    }
    let mut last = "";
    for ((unit, policy, resource, amount), value) in &totals {
        let name = format!("quotient_quotas_{unit}");
        if std::mem::replace(&mut last, unit) != *unit {
            let _ = writeln!(text, "# HELP {name} Amounts of all quotas of a policy.\n# TYPE {name} gauge");
        }
        let (policy, resource) = (escaped(policy), escaped(resource));
        let value = shown(*value, figure(&resource).1);
        let _ = writeln!(text, "{name}{{policy=\"{policy}\",resource=\"{resource}\",amount=\"{amount}\"}} {value}");
    }
    let name = "quotient_quotas";
    let _ = writeln!(text, "# HELP {name} How many quotas there are.\n# TYPE {name} gauge\n{name} {}", reports.len());
}

fn shown(value: i128, divisor: i128) -> f64 {
    value as f64 / divisor as f64
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quotient_engine::fact::QuotaKey;

    #[test]
    fn however_many_quotas_there_are_the_fullest_are_named_and_all_are_counted() {
        let amount = |resource: &str, value: i128| vec![(Name::from(resource), value)];
        let report = |number: i128| QuotaReport {
            key: QuotaKey { name: format!("q{number:05}").into(), ..QuotaKey::default() },
            used: amount("nvidia.com/gpu", number),
            entitlement: amount("nvidia.com/gpu", 10_000),
            min: amount(CPU, 1500),
            ..QuotaReport::default()
        };
        let reports: Vec<QuotaReport> = (0..10_000).map(report).collect();
        let mut text = String::new();
        write(&mut text, &reports);
        let named: BTreeSet<&str> = text.split("quota=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(named.len(), NAMED_MAX);
        assert!(named.iter().all(|name| *name >= "/q09800"), "{named:?}");
        assert!(text.lines().count() < 4 * NAMED_MAX, "{} lines", text.lines().count());
        let total = |line: &str| assert!(text.lines().any(|written| written == line), "{line}");
        total("quotient_quotas 10000");
        total(r#"quotient_quotas_count{policy="elastic",resource="nvidia.com/gpu",amount="used"} 49995000"#);
        total(r#"quotient_quotas_cpu_cores{policy="elastic",resource="cpu",amount="min"} 15000"#);
    }
}
