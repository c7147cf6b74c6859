//! `quotient explain`: one pod, or what a file would bring.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, anyhow};
use quotient_api::kinds::{KINDS, Kind};
use quotient_api::near_names::near_names;
use quotient_api::{ObjectKey, Problem};
use quotient_sim::Input;

use crate::arguments::{ExplainArguments, OutputArguments};
use crate::commands::manifests;
use crate::exit::Exit;
use crate::explanation::eviction::EvictionExplained;
use crate::explanation::{Explanation, words};
use crate::printer::Printer;
use crate::state::State;
use crate::trial::{self, Owner, Trial};

/// Explains a pod as it is, or as it would be.
pub fn run(arguments: ExplainArguments) -> Result<Exit> {
    let ExplainArguments { target, namespace, trial, state, output: OutputArguments { output } } = arguments;
    let mut printer = Printer::paged(output);
    let target = match Target::read(&target) {
        Ok(target) => target,
        Err(problem) => return Ok(printer.refuse(&[problem])),
    };
    if matches!(target, Target::All) && trial.is_empty() {
        let problem =
            Problem::new("no pod is named: write NAMESPACE/NAME before -f, or try a file out with --try FILE");
        return Ok(printer.refuse(&[problem]));
    }
    if let Err(problem) = manifests::standard_input_once(trial.iter().chain(&state.files)) {
        return Ok(printer.refuse(&[problem]));
    }
    let of_target = namespace.clone().or_else(|| target.namespace());
    let state = match State::open(&mut printer, state, of_target) {
        Ok(state) => state,
        Err(exit) => return Ok(exit),
    };
    if let Some(partial) = state.partial().filter(|_| !trial.is_empty()) {
        return Ok(printer.refuse(&[partial.refusal()]));
    }
    let begun = Instant::now();
    let namespace = namespace.as_deref();
    let outcome = match (&target, trial.is_empty()) {
        (Target::Eviction(pod), _) => eviction(&mut printer, &state, pod, namespace)?,
        (Target::Maker(kind, name), true) => maker(&mut printer, &state, kind, name, namespace)?,
        (Target::Owner(kind, name), true) => owner(&mut printer, &state, kind, name, namespace)?,
        (Target::Pod(pod), true) => pod_as_it_is(&mut printer, &state, pod, namespace)?,
        _ => try_out(&mut printer, &state, &trial, &target, namespace)?,
    };
    printer.finish()?;
    printer.detail(format_args!("answered in {} ms", begun.elapsed().as_millis()));
    // The process ends: to give the memory of a large cluster back piece by piece takes longer than the answer.
    std::mem::forget(state);
    Ok(outcome.unwrap_or_else(|problem| printer.refuse(&[problem])))
}

/// What `explain` has to say, as programs get it: of a pod, or of what a file would bring.
pub fn explained(state: &State, pod: Option<&str>, trial: Option<Input>) -> Result<serde_json::Value> {
    let problem = |problem: Problem| anyhow!("{problem}");
    let Some(input) = trial else {
        let pod = pod.ok_or_else(|| anyhow!("pod: missing: expected namespace/name, or manifests to try"))?;
        let (namespace, name) = find(state, pod, None).map_err(problem)?;
        let explanation =
            Explanation::of(state, &namespace, &name).ok_or_else(|| anyhow!("no pod {namespace}/{name}"))?;
        return Ok(serde_json::to_value(explanation)?);
    };
    let objects: Vec<ObjectKey> = input.read.documents.iter().map(|document| document.key.clone()).collect();
    let (after, happened) = state.with(vec![input], None).map_err(|stuck| anyhow!("{stuck}"))?;
    let pods = match pod {
        Some(pod) => vec![find(&after, pod, None).map_err(problem)?],
        None => after.pods_of(&objects),
    };
    Ok(serde_json::to_value(Trial::of(&after, &objects, &pods, happened))?)
}

/// What is to be explained.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    /// Whatever a trial brings.
    All,
    Pod(String),
    /// What makes pods, by kind and by name or `namespace/name`.
    Owner(&'static Kind, String),
    /// What made pods and has no bearing on scheduling itself, by kind and by name or `namespace/name`.
    Maker(String, String),
    /// The eviction of a pod.
    Eviction(String),
}

/// The kinds whose pods are explained together.
pub const OWNERS: [&str; 7] =
    ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "PodGroup", "ReplicationController"];

impl Target {
    fn read(typed: &[String]) -> Result<Target, Problem> {
        match typed {
            [] => Ok(Target::All),
            [word, pod] if word == "eviction" => Ok(Target::Eviction(pod.clone())),
            [kind, name] => {
                let owner = Target::owner(&format!("{kind}/{name}"));
                Ok(owner.unwrap_or_else(|| Target::Maker(kind.clone(), name.clone())))
            }
            [one, ..] => {
                let maker = || Target::maker(one).unwrap_or_else(|| Target::Pod(one.clone()));
                Ok(Target::owner(one).unwrap_or_else(maker))
            }
        }
    }

    /// The namespace that is typed with it.
    fn namespace(&self) -> Option<String> {
        let typed = match self {
            Target::Pod(typed) | Target::Owner(_, typed) | Target::Maker(_, typed) | Target::Eviction(typed) => typed,
            Target::All => return None,
        };
        typed.split_once('/').map(|(namespace, _)| namespace.to_owned())
    }

    /// `TrainJob/a/train`, `jobset/a/train`, `RayCluster/train`: three parts, or a kind as it is written, which no
    /// namespace could be.
    fn maker(typed: &str) -> Option<Target> {
        let (kind, name) = typed.split_once('/')?;
        let is_kind = name.contains('/') || kind.starts_with(|first: char| first.is_ascii_uppercase());
        (is_kind && kind != "pod").then(|| Target::Maker(kind.to_owned(), name.to_owned()))
    }

    /// `job/a/train`, `deployment/web`, `podgroups/g`.
    fn owner(typed: &str) -> Option<Target> {
        let (word, name) = typed.split_once('/')?;
        let word = word.to_lowercase();
        let kind = KINDS.iter().find(|kind| {
            OWNERS.contains(&kind.kind) && [kind.kind.to_lowercase().as_str(), kind.plural].contains(&word.as_str())
        })?;
        Some(Target::Owner(kind, name.to_owned()))
    }
}

type Outcome = Result<Exit, Problem>;

fn pod_as_it_is(printer: &mut Printer, state: &State, pod: &str, namespace: Option<&str>) -> Result<Outcome> {
    let found = find(state, pod, namespace);
    let explanation = found.and_then(|(namespace, name)| {
        Explanation::of(state, &namespace, &name).ok_or_else(|| Problem::new(format!("no pod {namespace}/{name}")))
    });
    let explanation = match explanation {
        Ok(explanation) => explanation,
        Err(problem) => return Ok(Err(problem)),
    };
    if printer.is_for_people() {
        words::tell(printer, &explanation)?;
    } else {
        printer.document(&explanation)?;
    }
    Ok(Ok(Exit::Fine))
}

fn try_out(
    printer: &mut Printer,
    state: &State,
    files: &[PathBuf],
    target: &Target,
    namespace: Option<&str>,
) -> Result<Outcome> {
    let change = match manifests::change(printer, files) {
        Ok(change) => change,
        Err(exit) => return Ok(Ok(exit)),
    };
    let objects: Vec<ObjectKey> =
        change.iter().flat_map(|input| &input.read.documents).map(|document| document.key.clone()).collect();
    let (after, happened) = match state.with(change, None) {
        Ok(changed) => changed,
        Err(stuck) => return Ok(Ok(printer.bug(&stuck))),
    };
    let pods = match target {
        Target::Pod(pod) | Target::Eviction(pod) => match find(&after, pod, namespace) {
            Ok(found) => vec![found],
            Err(problem) => return Ok(Err(problem)),
        },
        Target::Owner(kind, name) => match pods_of_owner(&after, kind, name, namespace) {
            Ok((_, pods)) => pods,
            Err(problem) => return Ok(Err(problem)),
        },
        Target::Maker(kind, typed) => {
            let (namespace, name) = typed.split_once('/').map_or((namespace, &**typed), |(of, name)| (Some(of), name));
            after.pods_below(kind, namespace, name).into_iter().flat_map(|(_, pods)| pods).collect()
        }
        Target::All => after.pods_of(&objects),
    };
    let trial = Trial::of(&after, &objects, &pods, happened);
    if printer.is_for_people() {
        trial::tell(printer, &trial)?;
    } else {
        printer.document(&trial)?;
    }
    Ok(Ok(if trial.all_run() { Exit::Fine } else { Exit::No }))
}

/// An owner with its pods, as namespace and name.
type OwnersPods = (ObjectKey, Vec<(String, String)>);

fn pods_of_owner(
    state: &State,
    kind: &'static Kind,
    typed: &str,
    namespace: Option<&str>,
) -> Result<OwnersPods, Problem> {
    let (namespace, name) = match typed.split_once('/') {
        Some((of, name)) => (Some(of), name),
        None => (namespace, typed),
    };
    let is_meant = |key: &&ObjectKey| {
        key.kind == kind.kind && &*key.name == name && namespace.is_none_or(|of| key.namespace.as_deref() == Some(of))
    };
    let owners = state.keys().filter(|key| OWNERS.contains(&key.kind));
    let known: Vec<&ObjectKey> = owners.collect();
    let meant: Vec<&&ObjectKey> = known.iter().filter(|key| is_meant(key)).collect();
    match meant[..] {
        [key] => Ok(((*key).clone(), state.pods_of(std::slice::from_ref(*key)))),
        [] => {
            let names: Vec<String> =
                known.iter().filter(|key| key.kind == kind.kind).map(ToString::to_string).collect();
            let wanted = format!("{}/{typed}", kind.kind);
            let near = near_names(name, names.iter().map(String::as_str));
            let meant = if near.is_empty() { String::new() } else { format!(": did you mean {}?", near.join(" or ")) };
            Err(Problem::new(format!("no {wanted}{meant}")))
        }
        _ => {
            let meant: Vec<String> = meant.iter().map(|key| key.qualified()).collect();
            Err(Problem::new(format!("several are called {typed:?}: write one of {}", meant.join(", "))))
        }
    }
}

fn owner(
    printer: &mut Printer,
    state: &State,
    kind: &'static Kind,
    name: &str,
    namespace: Option<&str>,
) -> Result<Outcome> {
    let (key, pods) = match pods_of_owner(state, kind, name, namespace) {
        Ok(found) => found,
        Err(problem) => return Ok(Err(problem)),
    };
    tell_owner(printer, &Owner::of(state, key.to_string(), std::slice::from_ref(&key), &pods))
}

/// The pods of whatever is called so, whatever its kind is.
fn maker(printer: &mut Printer, state: &State, kind: &str, typed: &str, namespace: Option<&str>) -> Result<Outcome> {
    let (namespace, name) = match typed.split_once('/') {
        Some((of, name)) => (Some(of), name),
        None => (namespace, typed),
    };
    match &state.pods_below(kind, namespace, name)[..] {
        [(made, pods)] => tell_owner(printer, &Owner::of(state, made.to_string(), &[], pods)),
        [] => {
            let message =
                format!("no {kind}/{typed}: nothing of that kind and name is seen, and no pod was made by it");
            Ok(Err(Problem::new(message)))
        }
        several => {
            let names: Vec<String> = several.iter().map(|(made, _)| made.to_string()).collect();
            Ok(Err(Problem::new(format!("several are called {typed:?}: write one of {}", names.join(", ")))))
        }
    }
}

fn tell_owner(printer: &mut Printer, owner: &Owner) -> Result<Outcome> {
    if printer.is_for_people() {
        trial::tell_owner(printer, owner)?;
    } else {
        printer.document(owner)?;
    }
    Ok(Ok(Exit::Fine))
}

fn eviction(printer: &mut Printer, state: &State, pod: &str, namespace: Option<&str>) -> Result<Outcome> {
    let (namespace, name) = match find(state, pod, namespace) {
        Ok(found) => found,
        Err(problem) => return Ok(Err(problem)),
    };
    let evictions = EvictionExplained::of(state, &namespace, &name);
    if evictions.evictions.is_empty() {
        return Ok(Err(Problem::new(format!("pod {namespace}/{name} was not evicted"))));
    }
    if printer.is_for_people() {
        evictions.tell(printer)?;
    } else {
        printer.document(&evictions)?;
    }
    Ok(Ok(Exit::Fine))
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
    // To list all pods of a large cluster takes longer than to explain one.
    if let Some(namespace) = namespace.filter(|namespace| state.has_pod(namespace, name)) {
        return Ok((namespace.to_owned(), name.to_owned()));
    }
    let standing = state.pod_names();
    let gone = state.evictions().map(|happened| happened.evicted);
    let gone = gone.map(|evicted| (evicted.namespace.as_str(), evicted.name.as_str()));
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
                ([], 0) if state.partial().is_some() => "no pod is seen".to_owned(),
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
