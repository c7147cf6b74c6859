//! What can be asked.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use quotient_api::read;
use quotient_sim::{Input, Setup, Simulation};
use serde_json::{Value, json};

use crate::arguments::McpArguments;
use crate::commands::explain::explained;
use crate::commands::lint;
use crate::commands::manifests;
use crate::fullness::Fullness;
use crate::plan::Plan;
use crate::printer::Printer;
use crate::quota_tree::Forest;
use crate::state::State;

/// Something that can be asked.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    pub name: &'static str,
    description: &'static str,
}

const ALL: [Tool; 6] = [
    Tool {
        name: "explain",
        description: "Why a pod is pending, where it runs or why it was evicted; what exactly is in the way, and remedies that were tried. Give `pod` (namespace/name), or `try` (manifests to try out before submitting).",
    },
    Tool {
        name: "tree",
        description: "Quotas as trees: guaranteed, used, borrowed, lent, reclaimable; and caps of nodes.",
    },
    Tool { name: "top", description: "Totals by resource and card, and the fullest nodes and quotas first." },
    Tool {
        name: "plan",
        description: "What a change of quotas or other objects (`change`) would do: which pods start, are evicted or become pending.",
    },
    Tool {
        name: "simulate",
        description: "Applies manifests to a virtual cluster and reports what the scheduler does.",
    },
    Tool {
        name: "lint",
        description: "What admission would refuse in manifests, misspelt fields, and guarantees that cannot be kept.",
    },
];

/// All tools, in the order in which they are listed.
pub fn all() -> impl Iterator<Item = Tool> {
    ALL.into_iter()
}

impl Tool {
    /// The tool as a client is told of it.
    pub fn listed(self) -> Value {
        let text = |description: &str| json!({"type": "string", "description": description});
        let mut properties = json!({
            "files": {"type": "array", "items": {"type": "string"},
                "description": "Files or folders of manifests, or snapshots, of the cluster as it is"},
            "manifests": text("The cluster as it is, as YAML or JSON text"),
        });
        let mut required = Vec::new();
        match self.name {
            "explain" => {
                properties["pod"] = text("namespace/name of a pod");
                properties["try"] = text("Manifests to try out on top, as YAML or JSON text");
            }
            "plan" => {
                properties["change"] = text("The change, as YAML or JSON text");
                required.push("change");
            }
            "top" => properties["by"] = text("The resource that decides the order"),
            _ => {}
        }
        json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": {"type": "object", "properties": properties, "required": required},
            "annotations": {"readOnlyHint": true},
        })
    }
}

/// Runs a tool and gives what it found.
pub fn run(tool: Tool, given: &Value, arguments: &McpArguments, printer: &mut Printer) -> Result<Value> {
    let inputs = inputs(given, arguments, printer)?;
    if tool.name == "lint" {
        return Ok(serde_json::to_value(lint::answer(inputs, &Default::default()).0)?);
    }
    if tool.name == "simulate" {
        let simulation = Simulation::of(Setup::default(), inputs, &mut |_| {}).map_err(|stuck| anyhow!("{stuck}"))?;
        return Ok(serde_json::to_value(simulation.into_report())?);
    }
    let state = State::of_inputs(Setup::default(), inputs).map_err(|stuck| anyhow!("{stuck}"))?;
    match tool.name {
        "tree" => Ok(serde_json::to_value(Forest::of(&state))?),
        "top" => Ok(serde_json::to_value(Fullness::of(&state, text(given, "by")))?),
        "plan" => plan(&state, given),
        _ => {
            let trial = text(given, "try").map(|text| change("try", text)).transpose()?;
            explained(&state, text(given, "pod"), trial)
        }
    }
}

fn text<'a>(given: &'a Value, name: &str) -> Option<&'a str> {
    given.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The cluster that is asked about: files, text, or the live one where neither is given.
fn inputs(given: &Value, arguments: &McpArguments, printer: &mut Printer) -> Result<Vec<Input>> {
    let files: Vec<PathBuf> = match given.get("files") {
        None | Some(Value::Null) => Vec::new(),
        Some(files) => serde_json::from_value(files.clone()).context("files: expected a list of texts")?,
    };
    let lines = |problems: Vec<quotient_api::Problem>| {
        anyhow!(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    };
    let mut inputs = manifests::inputs(&files).map_err(lines)?;
    if let Some(text) = text(given, "manifests") {
        inputs.push(Input { file: "manifests".to_owned(), read: read::read("manifests", text) });
    }
    if inputs.is_empty() {
        let (input, partial) = manifests::live(printer, &arguments.cluster.clone().which(None))?;
        if let Some(partial) = partial {
            bail!(partial.refusal());
        }
        inputs.push(input);
    }
    if inputs.iter().all(|input| input.read.documents.is_empty()) {
        let problems = inputs.into_iter().flat_map(|input| input.read.problems).collect::<Vec<_>>();
        bail!(if problems.is_empty() { anyhow!("no object is given") } else { lines(problems) });
    }
    Ok(inputs)
}

/// A change that is given as text; all of it must be readable.
fn change(name: &str, text: &str) -> Result<Input> {
    let read = read::read(name, text);
    if let Some(problem) = read.problems.first() {
        bail!("{problem}");
    }
    Ok(Input { file: name.to_owned(), read })
}

fn plan(state: &State, given: &Value) -> Result<Value> {
    let change = change("change", text(given, "change").context("change: missing: expected manifests")?)?;
    let plan = Plan::make(state, vec![change], None).map_err(|stuck| anyhow!("{stuck}"))?;
    Ok(serde_json::to_value(plan)?)
}
