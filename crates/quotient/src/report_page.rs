//! The report of a simulation as one HTML file.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use quotient_replay::page::{escape, page, section};
use quotient_replay::tell::Sheet;
use quotient_sim::Report;
use quotient_sim::report::{NodeState, PodPhase, Quantities, QuotaReport, StepReport};

use crate::standing::{amount_of, resources_of};

/// The most rows that a table of a page shows; the JSON has all.
const ROWS_MAX: usize = 2000;

/// Writes a page to a file.
pub fn write(path: &Path, page: &str) -> Result<()> {
    std::fs::write(path, page).with_context(|| format!("--report {}: cannot be written", path.display()))
}

/// What happened step by step, and how everything stands at the end.
pub fn simulation(report: &Report) -> String {
    let Report { steps, pods, groups: _, quotas, nodes } = report;
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
    body.push_str(&step_sections(steps));
    let waiting = pods.iter().filter(|pod| pod.phase == PodPhase::Pending);
    let waiting = waiting.map(|pod| {
        let (code, message, remedy) = pod.reason.as_ref().map_or_else(Default::default, |reason| {
            (reason.code.clone(), reason.message.clone(), reason.remedies.first().cloned().unwrap_or_default())
        });
        vec![format!("{}/{}", pod.namespace, pod.name), code, message, remedy]
    });
    body.push_str(&table("Pending pods", &["POD", "REASON", "MESSAGE", "HINT"], 4, waiting.collect()));
    let titles = ["QUOTA", "RESOURCE", "USED", "GUARANTEED", "ENTITLED", "MAX", "BORROWED", "LENT"];
    body.push_str(&table("Quotas", &titles, 2, quotas.iter().flat_map(quota_rows).collect()));
    body.push_str(&node_table(nodes));
    page("Simulation", &body)
}

fn table(title: &'static str, columns: &[&str], left: usize, mut rows: Vec<Vec<String>>) -> String {
    rows.truncate(ROWS_MAX);
    section(&Sheet { title, columns: columns.iter().map(|column| (*column).to_string()).collect(), left, rows })
}

/// How much happened in each step, then what, with the step that it happened in.
fn step_sections(steps: &[StepReport]) -> String {
    let counted = steps.iter().map(|step| {
        let StepReport { file, bound, evicted, rejected, problems } = step;
        let counts = [bound.len(), evicted.len(), rejected.len(), problems.len()];
        [file.clone()].into_iter().chain(counts.iter().map(ToString::to_string)).collect()
    });
    let mut out = table("Steps", &["STEP", "BOUND", "EVICTED", "REJECTED", "PROBLEMS"], 1, counted.collect());
    let evicted = steps.iter().flat_map(|step| {
        step.evicted.iter().map(|evicted| {
            let pod = format!("{}/{}", evicted.namespace, evicted.name);
            let claimant = evicted.claimant.clone().unwrap_or_default();
            vec![step.file.clone(), pod, evicted.node.clone(), claimant, evicted.rule.clone()]
        })
    });
    out.push_str(&table("Evictions", &["STEP", "POD", "NODE", "FOR", "RULE"], 5, evicted.collect()));
    let said = |step: &StepReport, object: &str, message: &str| vec![step.file.clone(), object.into(), message.into()];
    let rejected =
        steps.iter().flat_map(|step| step.rejected.iter().map(move |one| said(step, &one.object, &one.message)));
    out.push_str(&table("Rejected objects", &["STEP", "OBJECT", "MESSAGE"], 3, rejected.collect()));
    let problems = steps.iter().flat_map(|step| {
        step.problems.iter().map(move |one| said(step, one.object.as_deref().unwrap_or_default(), &one.message))
    });
    out.push_str(&table("Problems", &["STEP", "OBJECT", "MESSAGE"], 3, problems.collect()));
    out
}

fn quota_rows(quota: &QuotaReport) -> Vec<Vec<String>> {
    let row = |resource: &String| {
        let of = |amounts: &Quantities, absent: &str| amounts.get(resource).map_or(absent, String::as_str).to_owned();
        let QuotaReport { used, min, entitlement, max, borrowed, lent, .. } = quota;
        let mut row = vec![quota.object.clone(), resource.clone(), of(used, "0"), of(min, "-"), of(entitlement, "0")];
        row.extend([of(max, "-"), of(borrowed, "0"), of(lent, "0")]);
        row
    };
    resources_of(quota).iter().map(row).collect()
}

/// A row for each resource of a node: how much of it is used, as a bar and in numbers.
fn node_table(nodes: &[NodeState]) -> String {
    let mut out = String::from(
        "<h2>Nodes</h2><div class=\"scroll\"><table><thead><tr><th scope=\"col\">NODE</th><th scope=\"col\">RESOURCE</th>\
         <th scope=\"col\">IN USE</th><th scope=\"col\" class=\"number\">USED</th><th scope=\"col\" class=\"number\">ALLOCATABLE</th>\
         <th scope=\"col\" class=\"number\">SHARE</th></tr></thead><tbody>",
    );
    let resources = |node: &NodeState| {
        let resources = node.allocatable.keys().filter(|resource| *resource != "pods");
        resources.cloned().collect::<Vec<_>>()
    };
    let rows = nodes.iter().flat_map(|node| resources(node).into_iter().map(move |resource| (node, resource)));
    for (node, resource) in rows.take(ROWS_MAX) {
        let NodeState { name, allocatable, used, .. } = node;
        let (total, held) = (amount_of(allocatable, &resource), amount_of(used, &resource));
        let percent = if total > 0 { held * 100 / total } else { 0 };
        let text = |amounts: &Quantities| escape(amounts.get(&resource).map_or("0", String::as_str));
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"wide\"><svg class=\"use\" viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" \
             role=\"img\" aria-label=\"{percent} % in use\"><rect class=\"track\" width=\"100\" height=\"8\"/><rect class=\"fill\" width=\"{}\" height=\"8\"/></svg></td>\
             <td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{percent} %</td></tr>",
            escape(name),
            escape(&resource),
            percent.clamp(0, 100),
            text(used),
            text(allocatable)
        );
    }
    out.push_str("</tbody></table></div>");
    out
}
