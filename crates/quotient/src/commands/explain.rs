//! `quotient explain`: one pod, or what a file would bring.

use anyhow::Result;
use quotient_api::near_names::near_names;
use quotient_api::{ObjectKey, Problem};

use crate::arguments::{ExplainArguments, OutputArguments};
use crate::commands::manifests;
use crate::exit::Exit;
use crate::explanation::{Explanation, words};
use crate::printer::Printer;
use crate::state::State;
use crate::trial::{self, Trial};

/// Explains a pod as it stands, or as it would stand.
pub fn run(arguments: ExplainArguments) -> Result<Exit> {
    let ExplainArguments { pod, namespace, trial, state, output: OutputArguments { output } } = arguments;
    let mut printer = Printer::new(output);
    if pod.is_none() && trial.is_empty() {
        let problem =
            Problem::new("no pod is named: write NAMESPACE/NAME before -f, or try a file out with --try FILE");
        return Ok(printer.refuse(&[problem]));
    }
    if let Err(problem) = manifests::standard_input_once(trial.iter().chain(&state.files)) {
        return Ok(printer.refuse(&[problem]));
    }
    let state = match State::open(&mut printer, state) {
        Ok(state) => state,
        Err(exit) => return Ok(exit),
    };
    if trial.is_empty() {
        return explain(&mut printer, &state, pod.as_deref().unwrap_or_default(), namespace.as_deref());
    }
    let change = match manifests::change(&mut printer, &trial) {
        Ok(change) => change,
        Err(exit) => return Ok(exit),
    };
    let objects: Vec<ObjectKey> =
        change.iter().flat_map(|input| &input.read.documents).map(|document| document.key.clone()).collect();
    let (after, happened) = match state.with(change, None) {
        Ok(changed) => changed,
        Err(stuck) => return Ok(printer.bug(&stuck)),
    };
    let pods = match pod {
        None => after.pods_of(&objects),
        Some(pod) => match find(&after, &pod, namespace.as_deref()) {
            Ok(found) => vec![found],
            Err(problem) => return Ok(printer.refuse(&[problem])),
        },
    };
    let trial = Trial::of(&after, &pods, happened);
    if printer.is_for_people() {
        trial::tell(&mut printer, &trial)?;
    } else {
        printer.document(&trial)?;
    }
    printer.finish()?;
    Ok(if trial.all_run() { Exit::Fine } else { Exit::No })
}

fn explain(printer: &mut Printer, state: &State, pod: &str, namespace: Option<&str>) -> Result<Exit> {
    let found = find(state, pod, namespace);
    let explanation = found.and_then(|(namespace, name)| {
        Explanation::of(state, &namespace, &name).ok_or_else(|| Problem::new(format!("no pod {namespace}/{name}")))
    });
    let explanation = match explanation {
        Ok(explanation) => explanation,
        Err(problem) => return Ok(printer.refuse(&[problem])),
    };
    if printer.is_for_people() {
        words::tell(printer, &explanation)?;
    } else {
        printer.document(&explanation)?;
    }
    printer.finish()?;
    Ok(Exit::Fine)
}

/// The pod that is meant: `namespace/name`, or a name that only one pod has. Pods that had to go can be meant too.
fn find(state: &State, typed: &str, namespace: Option<&str>) -> Result<(String, String), Problem> {
    // As `kubectl get -o name` writes it.
    let typed = typed.strip_prefix("pod/").filter(|_| namespace.is_some()).unwrap_or(typed);
    let (namespace, name) = match (namespace, typed.split_once('/')) {
        (None, Some((namespace, name))) => (Some(namespace), name),
        (Some(namespace), Some((other, name))) if namespace == other => (Some(namespace), name),
        (Some(namespace), Some(_)) => {
            return Err(Problem::new(format!("the pod {typed:?} and --namespace {namespace:?} name two namespaces")));
        }
        (namespace, None) => (namespace, typed),
    };
    let pods = state.pods();
    let standing = pods.iter().map(|pod| (pod.namespace.as_str(), pod.name.as_str()));
    let gone = state.evictions().map(|(_, evicted)| (evicted.namespace.as_str(), evicted.name.as_str()));
    let mut known: Vec<(&str, &str)> = standing.chain(gone).collect();
    known.sort_unstable();
    known.dedup();
    let is_meant = |(of, called): &(&str, &str)| *called == name && namespace.is_none_or(|namespace| namespace == *of);
    let meant: Vec<(&str, &str)> = known.iter().copied().filter(is_meant).collect();
    let full = |(namespace, name): &(&str, &str)| format!("{namespace}/{name}");
    match meant[..] {
        [(namespace, name)] => Ok((namespace.to_owned(), name.to_owned())),
        [] => {
            let wanted = namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
            let names: Vec<String> = known.iter().map(full).collect();
            let near = near_names(&wanted, names.iter().map(String::as_str));
            let meant = match (&near[..], known.len()) {
                ([], 0) => "the cluster has no pods".to_owned(),
                ([], 1) => format!("the one pod is {}", names[0]),
                ([], count) => format!("none of the {count} pods has a name like it"),
                (near, _) => format!("did you mean {}?", near.join(" or ")),
            };
            Err(Problem::new(format!("no pod {wanted:?}: {meant}")))
        }
        _ => {
            let meant: Vec<String> = meant.iter().map(full).collect();
            Err(Problem::new(format!("several pods are called {name:?}: write one of {}", meant.join(", "))))
        }
    }
}
