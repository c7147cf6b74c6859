//! Why a pod was evicted: for whom, by which rule, and what the quotas held before and after.

use anyhow::Result;
use quotient_api::ObjectKey;
use quotient_engine::Rule;
use quotient_sim::Input;
use quotient_sim::report::Evicted;
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
        let all: Vec<Eviction> = state.evictions().map(Eviction::from).collect();
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
                    rule_says: rule_says(&one.evicted.rule),
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
        for Told { eviction: Eviction { file, time, evicted }, rule_says, with } in &self.evictions {
            let name = printer.paint(Tone::Strong, &format!("{}/{}", self.namespace, self.name));
            let claimant = evicted.claimant.as_ref().map_or(String::new(), |claimant| format!(" for {claimant}"));
            let was = printer.paint(Tone::Bad, "was evicted");
            printer.line(format_args!("{name} {was}{}{claimant}", from_node(evicted)))?;
            let weak = |text: &str| printer.paint(Tone::Weak, text);
            let rule = if evicted.rule.is_empty() { String::new() } else { format!("{}: {rule_says}", evicted.rule) };
            let applied = (!file.is_empty()).then(|| format!("{file} was applied"));
            let facts = [
                (weak("rule  "), rule),
                (weak("why   "), evicted.message.clone()),
                (weak("when  "), time.clone().or(applied).unwrap_or_default()),
                (weak("with  "), with.join(", ")),
            ];
            for (what, text) in facts.into_iter().filter(|(_, text)| !text.is_empty()) {
                printer.line(format_args!("  {what} {text}"))?;
            }
        }
        Ok(())
    }
}

/// An eviction before the state was read, as an event tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastEviction {
    pub time: Option<String>,
    pub evicted: Evicted,
}

impl PastEviction {
    /// Those that these inputs tell of, the oldest first.
    pub fn all(inputs: &[Input]) -> Vec<PastEviction> {
        let events = inputs.iter().flat_map(|input| &input.read.evictions);
        let mut all: Vec<PastEviction> = events.filter_map(PastEviction::of_event).collect();
        all.sort_by(|a, b| (&a.time, &a.evicted).cmp(&(&b.time, &b.evicted)));
        all
    }

    /// What the event of a victim says: ours says for whom, by which rule and why, kube-scheduler's says where.
    fn of_event(event: &Value) -> Option<PastEviction> {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
        let message = text("/message").unwrap_or_default();
        let (head, said) = message.split_once("): ").unwrap_or((message, ""));
        let (head, rule) = head.split_once(" (").unwrap_or((head, ""));
        let claimant = head.strip_prefix("Preempted by ").filter(|claimant| is_pod_name(claimant));
        let why = if rule.is_empty() || said.is_empty() { message } else { said };
        // "evicted to make room on NODE for …", "Preempted by pod UID on node NODE"
        let node = why.rsplit_once(" on node ").or_else(|| why.split_once(" on ")).map(|(_, rest)| rest);
        let node = node.and_then(|rest| rest.split([' ', ',', ':']).next()).unwrap_or_default();
        let time = ["/lastTimestamp", "/eventTime", "/firstTimestamp"].into_iter().find_map(text);
        let evicted = Evicted {
            namespace: text("/involvedObject/namespace")?.to_owned(),
            name: text("/involvedObject/name")?.to_owned(),
            node: node.to_owned(),
            claimant: claimant.map(str::to_owned),
            rule: if said.is_empty() { String::new() } else { rule.to_owned() },
            message: why.to_owned(),
            reason: None,
        };
        Some(PastEviction { time: time.map(str::to_owned), evicted })
    }
}

fn is_pod_name(text: &str) -> bool {
    text.split_once('/').is_some_and(|(namespace, name)| !namespace.is_empty() && !name.is_empty())
        && !text.contains(' ')
}

/// ` from NODE`, where the node is known.
pub fn from_node(evicted: &Evicted) -> String {
    if evicted.node.is_empty() { String::new() } else { format!(" from {}", evicted.node) }
}

/// The condition that whoever evicts a pod writes on it first.
fn from_condition(state: &State, namespace: &str, name: &str) -> Option<Told> {
    let pod = state.object(&ObjectKey::pod(namespace, name))?;
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array)?;
    let target = conditions.iter().find(|one| one["type"] == "DisruptionTarget" && one["status"] == "True")?;
    let text = |name: &str| target.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let message = text("message");
    let claimant = message.rsplit_once(" for ").map(|(_, claimant)| claimant.to_owned());
    let evicted = Evicted {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        node: pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default().to_owned(),
        claimant: claimant.filter(|claimant| claimant.contains('/') && !claimant.contains(' ')),
        rule: text("reason"),
        message,
        reason: None,
    };
    let time = Some(text("lastTransitionTime")).filter(|time| !time.is_empty());
    let eviction = Eviction { file: String::new(), time, evicted };
    Some(Told { eviction, rule_says: "the condition DisruptionTarget of the pod says so", with: Vec::new() })
}

/// What a rule gives a claimant the right to.
fn rule_says(rule: &str) -> &'static str {
    Rule::ALL.into_iter().find(|known| known.name() == rule).map_or("see docs/semantics.md", Rule::sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_say_for_whom_by_which_rule_and_when() {
        let event = |message: &str| {
            let involved = json!({"kind": "Pod", "namespace": "b", "name": "v"});
            let event =
                json!({"involvedObject": involved, "message": message, "lastTimestamp": "2026-10-01T00:00:00Z"});
            let PastEviction { time, evicted } = PastEviction::of_event(&event).expect("an eviction");
            assert_eq!((time.as_deref(), &*evicted.name), (Some("2026-10-01T00:00:00Z"), "v"));
            (evicted.claimant, evicted.rule, evicted.node, evicted.message)
        };
        let text = |text: &str| text.to_owned();
        let why = "evicted to make room on n-1 for a/p, which stays within its quota's min (q: cpu from 0 to 1, entitled to 2)";
        assert_eq!(
            event(&format!("Preempted by a/p (elastic.reclaim): {why}")),
            (Some(text("a/p")), text("elastic.reclaim"), text("n-1"), text(why))
        );
        assert_eq!(
            event("Evicted (tree.overuse): over its runtime for 2m"),
            (None, text("tree.overuse"), text(""), text("over its runtime for 2m"))
        );
        let foreign = "Preempted by pod 3f1c on node n-2";
        assert_eq!(event(foreign), (None, text(""), text("n-2"), text(foreign)));
    }
}
