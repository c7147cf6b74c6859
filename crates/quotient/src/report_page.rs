//! The report of a simulation as one HTML file.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use quotient_replay::page::{escape, page, section};
use quotient_replay::tell::Sheet;
use quotient_sim::Report;
use quotient_sim::report::{NodeState, PodPhase, QuotaReport, StepReport};

use crate::standing::{amount_of, resources_of};

/// The most rows that a table of a page shows; the JSON has all.
const ROWS_MAX: usize = 2000;

/// Writes a page to a file.
pub fn write(path: &Path, page: &str) -> Result<()> {
    std::fs::write(path, page).with_context(|| format!("--report {}: cannot be written", path.display()))
}

/// What happened step by step, and how everything stands at the end.
pub fn simulation(report: &Report) -> String {
    let Report { steps, pods, quotas, nodes } = report;
    let count = |phase: PodPhase| pods.iter().filter(|pod| pod.phase == phase).count();
    let mut body = format!(
        "<p class=\"weak\">{} nodes, {} quotas, {} pods: {} running, {} pending, {} evicted</p>",
        nodes.len(),
        quotas.len(),
        pods.len(),
        count(PodPhase::Running),
        count(PodPhase::Pending),
        count(PodPhase::Evicted)
    );
    steps.iter().for_each(|step| body.push_str(&step_section(step)));
    let waiting = pods.iter().filter(|pod| pod.phase == PodPhase::Pending);
    let waiting = waiting.map(|pod| {
        let (code, message, remedy) = pod.reason.as_ref().map_or_else(Default::default, |reason| {
            (reason.code.clone(), reason.message.clone(), reason.remedies.first().cloned().unwrap_or_default())
        });
        vec![format!("{}/{}", pod.namespace, pod.name), code, message, remedy]
    });
    body.push_str(&table("Pending pods", &["POD", "REASON", "MESSAGE", "WHAT WOULD HELP"], 4, waiting.collect()));
    let titles = ["QUOTA", "RESOURCE", "USED", "GUARANTEED", "ENTITLED", "MAX", "BORROWED", "LENT"];
    body.push_str(&table("Quotas", &titles, 2, quotas.iter().flat_map(quota_rows).collect()));
    body.push_str("<h2>Nodes</h2>");
    nodes.iter().take(ROWS_MAX).for_each(|node| body.push_str(&node_bars(node)));
    page("Simulation", &body)
}

fn table(title: &'static str, columns: &[&str], left: usize, mut rows: Vec<Vec<String>>) -> String {
    rows.truncate(ROWS_MAX);
    section(&Sheet { title, columns: columns.iter().map(|column| (*column).to_string()).collect(), left, rows })
}

fn step_section(step: &StepReport) -> String {
    let StepReport { file, bound, evicted, rejected, problems } = step;
    let mut out = format!(
        "<h2>Step: {}</h2><p>{} bound, {} evicted, {} rejected, {} problems</p>",
        escape(file),
        bound.len(),
        evicted.len(),
        rejected.len(),
        problems.len()
    );
    let rows = evicted.iter().map(|evicted| {
        let claimant = evicted.claimant.clone().unwrap_or_default();
        vec![format!("{}/{}", evicted.namespace, evicted.name), evicted.node.clone(), claimant, evicted.rule.clone()]
    });
    out.push_str(&table("Evicted", &["POD", "NODE", "FOR", "RULE"], 4, rows.collect()));
    for rejected in rejected {
        let _ = write!(out, "<p class=\"note\">{}: {}</p>", escape(&rejected.object), escape(&rejected.message));
    }
    for problem in problems {
        let object = problem.object.as_deref().unwrap_or_default();
        let _ = write!(out, "<p class=\"note\">{} {}</p>", escape(object), escape(&problem.message));
    }
    out
}

fn quota_rows(quota: &QuotaReport) -> Vec<Vec<String>> {
    let row = |resource: &String| {
        let of = |amounts: &std::collections::BTreeMap<String, String>, absent: &str| {
            amounts.get(resource).map_or(absent, String::as_str).to_owned()
        };
        let QuotaReport { used, min, entitlement, max, borrowed, lent, .. } = quota;
        let mut row = vec![quota.object.clone(), resource.clone(), of(used, "0"), of(min, "-"), of(entitlement, "0")];
        row.extend([of(max, "-"), of(borrowed, "0"), of(lent, "0")]);
        row
    };
    resources_of(quota).iter().map(row).collect()
}

/// A line for each resource of a node: how much of it is used.
fn node_bars(node: &NodeState) -> String {
    let NodeState { name, allocatable, used, .. } = node;
    let parts: Vec<String> = allocatable
        .iter()
        .filter(|(resource, _)| *resource != "pods")
        .map(|(resource, all)| {
            let (total, held) = (amount_of(allocatable, resource), amount_of(used, resource));
            let percent = if total > 0 { held * 100 / total } else { 0 };
            let used = used.get(resource).map_or("0", String::as_str);
            format!("{} {} of {} ({percent} %)", escape(resource), escape(used), escape(all))
        })
        .collect();
    format!("<p><strong>{}</strong> <span class=\"weak\">{}</span></p>", escape(name), parts.join(" · "))
}
