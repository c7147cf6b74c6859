//! `quotient lint`: what admission would say of manifests, and what they promise that cannot be kept.

use std::collections::BTreeMap;

use anyhow::Result;
use quotient_api::elastic::takeover::takeover;
use quotient_api::elastic::traps::traps;
use quotient_api::volcano;
use quotient_api::{
    Configuration, Document, ObjectKey, Operation, Place, Problem, Request, Translator, TranslatorSettings, View, admit,
};
use quotient_engine::Fact;
use quotient_sim::store::Store;
use serde::Serialize;
use serde_json::Value;

use crate::arguments::{LintArguments, OutputArguments};
use crate::commands::manifests::inputs;
use crate::exit::Exit;
use crate::printer::{Printer, Tone};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    /// The object would be refused.
    Error,
    /// It would be let in, and not do all that it says.
    Warning,
}

/// One thing that was found.
#[derive(Debug, Serialize)]
struct Finding {
    severity: Severity,
    file: Option<String>,
    object: Option<String>,
    field: Option<String>,
    value: Option<String>,
    message: String,
}

impl Finding {
    fn new(severity: Severity, problem: Problem) -> Self {
        let Problem { file, object, field, value, message } = problem;
        Finding { severity, file, object, field, value, message }
    }

    fn problem(&self) -> Problem {
        let Finding { severity: _, file, object, field, value, message } = self;
        Problem {
            file: file.clone(),
            object: object.clone(),
            field: field.clone(),
            value: value.clone(),
            message: message.clone(),
        }
    }
}

/// What programs get.
#[derive(Debug, Serialize)]
struct Answer {
    /// How many objects were looked at.
    objects: usize,
    findings: Vec<Finding>,
}

/// Looks at the files and prints what was found.
pub fn run(arguments: LintArguments) -> Result<Exit> {
    let LintArguments { files, config, output: OutputArguments { output } } = arguments;
    let mut printer = Printer::new(output);
    let configuration = match config.as_deref().map(Configuration::read_path).transpose() {
        Ok(configuration) => configuration.unwrap_or_default(),
        Err(problems) => return Ok(printer.refuse(&problems)),
    };
    for idle in &configuration.idle {
        printer.note(format_args!("note: {idle}"));
    }
    let inputs = match inputs(&files) {
        Ok(inputs) => inputs,
        Err(problems) => return Ok(printer.refuse(&problems)),
    };
    let mut unreadable = Vec::new();
    let mut linter = Linter::new(&configuration);
    for input in inputs {
        unreadable.extend(input.read.problems);
        input.read.documents.into_iter().for_each(|document| linter.look_at(document));
    }
    if linter.objects == 0 && unreadable.is_empty() {
        unreadable.push(Problem::new("the files hold no object: expected Kubernetes manifests"));
    }
    let answer = linter.finish();
    if printer.is_for_people() {
        tell(&mut printer, &answer)?;
    } else {
        printer.document(&answer)?;
    }
    printer.finish()?;
    match (unreadable.is_empty(), answer.findings.is_empty()) {
        (false, _) => Ok(printer.refuse(&unreadable)),
        (true, false) => Ok(Exit::No),
        (true, true) => Ok(Exit::Fine),
    }
}

fn tell(printer: &mut Printer, answer: &Answer) -> Result<()> {
    for finding in &answer.findings {
        let (word, tone) = match finding.severity {
            Severity::Error => ("error", Tone::Bad),
            Severity::Warning => ("warning", Tone::Strong),
        };
        printer.line(format_args!("{}: {}", printer.paint(tone, word), finding.problem()))?;
    }
    Ok(())
}

/// The objects so far, and what was found.
struct Linter {
    store: Store,
    translator: Translator,
    whole_gpu_gb: u32,
    /// Where each object was last given.
    places: BTreeMap<ObjectKey, Place>,
    /// Objects in the order in which they first came.
    order: Vec<ObjectKey>,
    objects: usize,
    /// Caps are set on GPU nodes, and no such node was seen yet.
    uncapped: bool,
    findings: Vec<Finding>,
}

/// The objects as admission sees them here. Nodes may stand after quotas in the files, so what they hold is compared
/// with the quotas at the end, and not quota by quota.
struct WithoutNodes<'a>(&'a Store);

impl View for WithoutNodes<'_> {
    fn get(&self, key: &ObjectKey) -> Option<&Value> {
        View::get(self.0, key)
    }

    fn list(&self, group: &str, kind: &str, namespace: Option<&str>) -> Vec<&Value> {
        if (group, kind) == ("", "Node") { Vec::new() } else { self.0.list(group, kind, namespace) }
    }
}

impl Linter {
    fn new(configuration: &Configuration) -> Self {
        let whole_gpu_gb = configuration.nvidia_gpu_resource_memory_gb;
        let cross_quota = configuration.cross_quota.clone();
        let settings = TranslatorSettings { whole_gpu_gb, cross_quota, ..TranslatorSettings::default() };
        Linter {
            store: Store::default(),
            translator: Translator::new(settings),
            whole_gpu_gb,
            uncapped: configuration.cross_quota.as_ref().is_some_and(|caps| !caps.is_inert()),
            places: BTreeMap::new(),
            order: Vec::new(),
            objects: 0,
            findings: Vec::new(),
        }
    }

    fn find(&mut self, severity: Severity, problem: Problem, key: &ObjectKey, place: &Place) {
        self.findings.push(Finding::new(severity, problem.of_object(key).in_file(place.to_string())));
    }

    /// Takes in one object, as if it was applied.
    fn look_at(&mut self, document: Document) {
        let Document { key, value, place } = document;
        self.objects += 1;
        if key.group == "quotient.dev" {
            let problem = Problem::new(format!("a {} is not an object of a cluster", key.kind));
            return self.find(Severity::Warning, problem, &key, &place);
        }
        let old = self.store.get(&key).cloned();
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let request = Request { operation, object: value, old: old.as_deref() };
        let admitted = match admit(request, &WithoutNodes(&self.store)) {
            Ok(admitted) => admitted,
            Err(rejection) => {
                for problem in rejection.problems {
                    self.find(Severity::Error, problem, &key, &place);
                }
                return;
            }
        };
        for warning in admitted.warnings {
            self.find(Severity::Warning, Problem::new(warning), &key, &place);
        }
        let translation = self.translator.upsert(&admitted.object);
        self.uncapped &= !translation.facts.iter().any(|fact| matches!(fact, Fact::Node(node) if node.cap.is_some()));
        for problem in translation.problems {
            self.find(Severity::Warning, problem, &key, &place);
        }
        if old.is_none() {
            self.order.push(key.clone());
        }
        for taken in takeover(&admitted.object, &self.store) {
            self.translator.remove(&taken);
            self.store.remove(&taken);
        }
        self.store.put(key.clone(), admitted.object);
        self.places.insert(key, place);
    }

    /// Looks at all objects together.
    fn finish(mut self) -> Answer {
        let ordered: Vec<&Value> = self.order.iter().filter_map(|key| self.store.get(key)).map(AsRef::as_ref).collect();
        let nodes = self.store.list("", "Node", None);
        let mut trapped = traps(&ordered, &nodes, self.whole_gpu_gb);
        trapped.extend(volcano::traps::traps(&ordered, &nodes));
        for (key, problem) in trapped {
            if let Some(place) = self.places.get(&key).cloned() {
                let problem = problem.of_object(&key).in_file(place.to_string());
                self.findings.push(Finding::new(Severity::Warning, problem));
            }
        }
        if self.uncapped && !nodes.is_empty() {
            let message = "the caps have no effect: no node has a resource that gpu-resource-names matches";
            self.findings.push(Finding::new(Severity::Warning, Problem::new(message).at_field("crossQuota")));
        }
        Answer { objects: self.objects, findings: self.findings }
    }
}
