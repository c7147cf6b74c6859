//! Why a pod was evicted: for whom, by which rule, and what the quotas held before and after.

use anyhow::Result;
use quotient_api::ObjectKey;
use serde::Serialize;
use serde_json::Value;

use crate::explanation::Eviction;
use crate::printer::{Printer, Tone};
use crate::state::State;

/// The evictions of a pod. Field names are a contract with whoever reads the JSON.
#[derive(Debug, Serialize)]
pub struct EvictionExplained {
    pub namespace: String,
    pub name: String,
    /// The last is the latest.
    pub evictions: Vec<Told>,
}

/// One eviction.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    #[serde(flatten)]
    pub eviction: Eviction,
    /// What the rule says.
    pub rule_says: &'static str,
    /// The pods that were evicted with it for the same claimant, as `namespace/name`.
    pub with: Vec<String>,
}

impl EvictionExplained {
    /// What is known of a pod's evictions: from what happened here, or from the condition that the pod has.
    pub fn of(state: &State, namespace: &str, name: &str) -> Self {
        let all: Vec<Eviction> = state
            .evictions()
            .map(|(file, evicted)| Eviction { file: file.to_owned(), evicted: evicted.clone() })
            .collect();
        let of_it = all.iter().filter(|one| one.evicted.namespace == namespace && one.evicted.name == name);
        let mut told: Vec<Told> = of_it
            .map(|one| {
                let same = |other: &&Eviction| {
                    (&other.file, &other.evicted.claimant) == (&one.file, &one.evicted.claimant)
                        && other.evicted != one.evicted
                        && one.evicted.claimant.is_some()
                };
                let with = all.iter().filter(same);
                Told {
                    eviction: one.clone(),
                    rule_says: one
                        .evicted
                        .reason
                        .as_ref()
                        .map_or("see docs/semantics.md", |reason| reason.rule.sentence()),
                    with: with.map(|other| format!("{}/{}", other.evicted.namespace, other.evicted.name)).collect(),
                }
            })
            .collect();
        if told.is_empty() {
            told.extend(from_condition(state, namespace, name));
        }
        EvictionExplained { namespace: namespace.to_owned(), name: name.to_owned(), evictions: told }
    }

    /// Prints it for people.
    pub fn tell(&self, printer: &mut Printer) -> Result<()> {
        for Told { eviction: Eviction { file, evicted }, rule_says, with } in &self.evictions {
            let name = printer.paint(Tone::Strong, &format!("{}/{}", self.namespace, self.name));
            let claimant = evicted.claimant.as_ref().map_or(String::new(), |claimant| format!(" for {claimant}"));
            let was = printer.paint(Tone::Bad, "was evicted");
            printer.line(format_args!("{name} {was} from {}{claimant}", evicted.node))?;
            let weak = |text: &str| printer.paint(Tone::Weak, text);
            let facts = [
                (weak("rule  "), format!("{}: {rule_says}", evicted.rule)),
                (weak("why   "), evicted.message.clone()),
                (weak("when  "), if file.is_empty() { String::new() } else { format!("{file} was applied") }),
                (weak("with  "), with.join(", ")),
            ];
            for (what, text) in facts.into_iter().filter(|(_, text)| !text.is_empty()) {
                printer.line(format_args!("  {what} {text}"))?;
            }
        }
        Ok(())
    }
}

/// The condition that whoever evicts a pod writes on it first.
fn from_condition(state: &State, namespace: &str, name: &str) -> Option<Told> {
    let pod = state.object(&ObjectKey::pod(namespace, name))?;
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array)?;
    let target = conditions.iter().find(|one| one["type"] == "DisruptionTarget" && one["status"] == "True")?;
    let text = |name: &str| target.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let message = text("message");
    let claimant = message.rsplit_once(" for ").map(|(_, claimant)| claimant.to_owned());
    let evicted = quotient_sim::report::Evicted {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        node: pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default().to_owned(),
        claimant: claimant.filter(|claimant| claimant.contains('/') && !claimant.contains(' ')),
        rule: text("reason"),
        message,
        reason: None,
    };
    let eviction = Eviction { file: String::new(), evicted };
    Some(Told { eviction, rule_says: "the condition DisruptionTarget of the pod says so", with: Vec::new() })
}
