//! The openb format: two CSV files, one with nodes and one with pods.
//!
//! | nodes | pods |
//! |---|---|
//! | `sn`, `cpu_milli`, `memory_mib`, `gpu`, `model` | `name`, `cpu_milli`, `memory_mib`, `num_gpu`, `gpu_milli`,
//! `gpu_spec`, `qos`, `pod_phase`, `creation_time`, `deletion_time`, `scheduled_time` |
//!
//! Times are whole seconds. A pod's team is its QoS class: `LS` becomes the namespace `ls`. `gpu_spec` lists the models
//! that a pod accepts (`P100|T4`), and becomes the annotation `volcano.sh/card.name`.

use serde_json::{Value, json};

use crate::trace::{Event, Life, Trace, TraceError};

/// What a node may run at most; the format does not say.
const PODS_PER_NODE: &str = "110";

/// The header by which a file of pods is known.
pub fn is_pod_list(text: &str) -> bool {
    let header = text.lines().next().unwrap_or_default();
    ["name", "num_gpu", "creation_time", "deletion_time"].iter().all(|name| header.split(',').any(|cell| cell == *name))
}

/// A trace of these two files. The names are for messages.
pub fn read(nodes: (&str, &str), pods: (&str, &str)) -> Result<Trace, TraceError> {
    let mut trace = Trace { name: pods.0.to_string(), ..Trace::default() };
    let table = Rows::of(nodes.0, nodes.1)?;
    for row in table.rows() {
        trace.objects.push(node(&row?)?);
    }
    let (mut shares, mut unscheduled) = (0, 0);
    let mut events = Vec::new();
    for row in Rows::of(pods.0, pods.1)?.rows() {
        let row = row?;
        let created_s = row.number("creation_time")?;
        let deleted_s = row.number("deletion_time")?;
        let life = match row.text("scheduled_time")? {
            "" => {
                unscheduled += 1;
                Life::Until { at_ms: deleted_s * 1000 }
            }
            _ => Life::Runs { ms: deleted_s.saturating_sub(row.number("scheduled_time")?) * 1000 },
        };
        shares += u32::from(row.number("num_gpu")? > 0 && row.number("gpu_milli")? % 1000 != 0);
        events.push((created_s * 1000, Event::Apply { object: pod(&row)?, life }));
    }
    events.sort_by_key(|(at, _)| *at);
    trace.events = events;
    if shares > 0 {
        trace.notes.push(format!("{shares} pods ask for a share of a GPU; each counts as a whole one"));
    }
    if unscheduled > 0 {
        trace.notes.push(format!(
            "{unscheduled} pods were never scheduled in the trace; they run from their start to their deletion time"
        ));
    }
    Ok(trace)
}

fn node(row: &Row<'_>) -> Result<Value, TraceError> {
    let (name, model, gpus) = (row.text("sn")?, row.text("model")?, row.number("gpu")?);
    let mut allocatable = json!({
        "cpu": format!("{}m", row.number("cpu_milli")?), "memory": format!("{}Mi", row.number("memory_mib")?),
        "pods": PODS_PER_NODE,
    });
    let mut labels = json!({"kubernetes.io/hostname": name});
    if gpus > 0 {
        allocatable["nvidia.com/gpu"] = json!(gpus.to_string());
        if !model.is_empty() {
            labels["nvidia.com/gpu.product"] = json!(model);
        }
    }
    Ok(json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }))
}

fn pod(row: &Row<'_>) -> Result<Value, TraceError> {
    let gpus = row.number("num_gpu")?;
    let mut resources = json!({"requests": {
        "cpu": format!("{}m", row.number("cpu_milli")?), "memory": format!("{}Mi", row.number("memory_mib")?),
    }});
    let mut annotations = json!({});
    if gpus > 0 {
        resources["requests"]["nvidia.com/gpu"] = json!(gpus.to_string());
        resources["limits"] = json!({"nvidia.com/gpu": gpus.to_string()});
        // The format may name a model twice.
        let mut models: Vec<&str> = Vec::new();
        for model in row.text("gpu_spec")?.split('|').filter(|model| !model.is_empty()) {
            if !models.contains(&model) {
                models.push(model);
            }
        }
        if !models.is_empty() {
            annotations["volcano.sh/card.name"] = json!(models.join("|"));
        }
    }
    let team = row.text("qos")?.to_lowercase();
    let team = if team.is_empty() { "default".to_string() } else { team };
    Ok(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": row.text("name")?, "namespace": team, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "workload", "resources": resources}]},
    }))
}

/// A CSV file without quotes, as the format is.
struct Rows<'a> {
    file: &'a str,
    columns: Vec<&'a str>,
    text: &'a str,
}

/// A line of it.
struct Row<'a> {
    file: &'a str,
    line: usize,
    columns: &'a [&'a str],
    cells: Vec<&'a str>,
}

impl<'a> Rows<'a> {
    fn of(file: &'a str, text: &'a str) -> Result<Self, TraceError> {
        let columns: Vec<&str> = text.lines().next().unwrap_or_default().trim_end().split(',').collect();
        if columns.len() < 5 {
            let message = "expected a header such as sn,cpu_milli,memory_mib,gpu,model";
            return Err(TraceError::new(format!("{file}:1"), message));
        }
        Ok(Rows { file, columns, text })
    }

    fn rows(&self) -> impl Iterator<Item = Result<Row<'_>, TraceError>> {
        let lines = self.text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty());
        lines.map(|(index, line)| {
            let cells: Vec<&str> = line.trim_end().split(',').collect();
            let row = Row { file: self.file, line: index + 1, columns: &self.columns, cells };
            match row.cells.len() == self.columns.len() {
                true => Ok(row),
                false => {
                    let message = format!("{} columns, expected {}", row.cells.len(), self.columns.len());
                    Err(TraceError::new(row.place(), message))
                }
            }
        })
    }
}

impl<'a> Row<'a> {
    fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }

    fn text(&self, column: &str) -> Result<&'a str, TraceError> {
        let at = self.columns.iter().position(|name| *name == column);
        at.map(|at| self.cells[at])
            .ok_or_else(|| TraceError::new(format!("{}:1", self.file), format!("no column {column}")))
    }

    fn number(&self, column: &str) -> Result<u64, TraceError> {
        let text = self.text(column)?;
        // Beyond this the times of a trace would not fit a calendar.
        let number = text.parse::<u64>().ok().filter(|number| *number < 1 << 40);
        number.ok_or_else(|| TraceError::new(self.place(), format!("{column} {text:?}: expected a whole number")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\nn-0,32000,1024,2,T4\nn-1,32000,1024,0,\n";

    #[test]
    fn nodes_and_pods_become_objects_and_shares_round_up() {
        let pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
            p-1,100,1,1,460,T4|P100|T4,BE,Running,7,20,9\np-0,100,1,0,0,,LS,Pending,5,8,\n";
        let trace = read(("n.csv", NODES), ("p.csv", pods)).expect("it is a trace");
        assert_eq!(trace.objects.len(), 2);
        assert_eq!(trace.objects[0]["metadata"]["labels"]["nvidia.com/gpu.product"], "T4");
        let [(5000, Event::Apply { object, life: Life::Until { at_ms: 8000 } }), (7000, second)] = &trace.events[..]
        else {
            panic!("{:?}", trace.events)
        };
        assert_eq!(object["metadata"]["namespace"], "ls");
        let Event::Apply { object, life: Life::Runs { ms: 11_000 } } = second else { panic!("{second:?}") };
        assert_eq!(object["metadata"]["annotations"]["volcano.sh/card.name"], "T4|P100");
        assert_eq!(object["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], "1");
        assert_eq!(trace.notes.len(), 2);
    }

    #[test]
    fn what_cannot_be_read_is_named_with_file_line_and_field() {
        let header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n";
        for (row, message) in [
            ("p,x,1,0,0,,LS,Running,1,2,1", "p.csv:2: cpu_milli \"x\": expected a whole number"),
            ("p,1,1", "p.csv:2: 3 columns, expected 11"),
            ("p,1,1,0,0,,LS,Running,1,-2,1", "p.csv:2: deletion_time \"-2\": expected a whole number"),
        ] {
            let error = read(("n.csv", NODES), ("p.csv", &format!("{header}{row}\n"))).expect_err("it is wrong");
            assert_eq!(error.to_string(), message);
        }
    }
}
