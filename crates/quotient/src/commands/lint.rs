//! `quotient lint`: what admission would say of manifests, and what they promise that cannot be kept.

use std::collections::BTreeMap;

use anyhow::Result;
use quotient_api::elastic::takeover::takeover;
use quotient_api::elastic::traps::traps;
use quotient_api::tree::roots::plan;
use quotient_api::unknown_fields::unknown_fields;
use quotient_api::users::{ALLOWED_NAMESPACE_SELECTOR, ALLOWED_NAMESPACES};
use quotient_api::{
    Configuration, Document, ObjectKey, Operation, Place, Problem, Request, Translator, TranslatorSettings, View,
    admit, key_of, order, tree,
};
use quotient_api::{gangs, volcano};
use quotient_engine::Fact;
use quotient_sim::Input;
use quotient_sim::store::Store;
use serde::Serialize;
use serde_json::Value;

use crate::arguments::{LintArguments, OutputArguments};
use crate::commands::manifests;
use crate::exit::Exit;
use crate::printer::{Printer, Tone};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The object would be refused.
    Error,
    /// It would be let in, and not do all that it says.
    Warning,
}

/// One thing that was found.
#[derive(Debug, Serialize)]
pub struct Finding {
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
pub struct Answer {
    /// How many objects were looked at.
    objects: usize,
    findings: Vec<Finding>,
    /// Queues and tree quotas that do not say who may use them.
    #[serde(skip)]
    open: Vec<String>,
}

/// What is said where the configuration lets everyone use quotas that do not say who may.
fn open_use(open: &[String]) -> Option<Finding> {
    let message = format!(
        "every namespace may use {} that lists no namespaces ({} in all): expected listed, or the annotation \
         {ALLOWED_NAMESPACES} on each",
        open.first()?,
        open.len()
    );
    let problem = Problem::new(message).at_field("tenancy.use").with_value(&Value::from("all"));
    Some(Finding::new(Severity::Warning, problem))
}

/// Looks at the files and prints what was found.
pub fn run(arguments: LintArguments) -> Result<Exit> {
    let LintArguments { files, config, output: OutputArguments { output } } = arguments;
    let mut printer = Printer::paged(output);
    let configuration = match manifests::configuration(&mut printer, config.as_deref()) {
        Ok(configuration) => configuration,
        Err(exit) => return Ok(exit),
    };
    let inputs = match manifests::inputs(&files) {
        Ok(inputs) => inputs,
        Err(problems) => return Ok(printer.refuse(&problems)),
    };
    if let Err(exit) = manifests::refuse_joined(&mut printer, &inputs) {
        return Ok(exit);
    }
    manifests::note_ignored(&mut printer, &inputs);
    let (mut answer, unreadable) = answer(inputs, &configuration);
    if config.is_some() && !configuration.listed_users_only {
        answer.findings.extend(open_use(&answer.open));
    }
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

/// What is found in manifests, and what of them cannot be read.
pub fn answer(inputs: Vec<Input>, configuration: &Configuration) -> (Answer, Vec<Problem>) {
    let mut unreadable = Vec::new();
    let nodes = inputs.iter().flat_map(|input| &input.read.documents).filter(|document| document.key.kind == "Node");
    let nodes = nodes.map(|document| (document.key.clone(), document.value.clone())).collect();
    let mut linter = Linter::new(configuration, nodes);
    let is_something = inputs.iter().any(|input| !input.read.ignored.is_empty());
    let mut documents = Vec::new();
    for input in inputs {
        unreadable.extend(input.read.problems);
        documents.extend(input.read.documents);
    }
    // What others refer to may stand after them, in the same file or in another.
    order::applicable(documents).into_iter().for_each(|document| linter.look_at(document));
    if linter.objects == 0 && unreadable.is_empty() && !is_something {
        unreadable.push(manifests::no_object());
    }
    (linter.finish(), unreadable)
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
    /// The nodes of all files, wherever they stand: quota trees have what their nodes hold.
    nodes: BTreeMap<ObjectKey, Value>,
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

/// The objects so far, and the nodes of all files.
struct WithAllNodes<'a> {
    store: &'a Store,
    nodes: &'a BTreeMap<ObjectKey, Value>,
}

impl View for WithAllNodes<'_> {
    fn get(&self, key: &ObjectKey) -> Option<&Value> {
        View::get(self.store, key)
    }

    fn list(&self, group: &str, kind: &str, namespace: Option<&str>) -> Vec<&Value> {
        match (group, kind) {
            ("", "Node") => self.nodes.values().collect(),
            _ => self.store.list(group, kind, namespace),
        }
    }
}

impl Linter {
    fn new(configuration: &Configuration, nodes: BTreeMap<ObjectKey, Value>) -> Self {
        let whole_gpu_gb = configuration.nvidia_gpu_resource_memory_gb;
        let cross_quota = configuration.cross_quota.clone();
        let settings = TranslatorSettings { whole_gpu_gb, cross_quota, ..TranslatorSettings::default() };
        Linter {
            store: Store::default(),
            translator: Translator::new(settings),
            whole_gpu_gb,
            nodes,
            uncapped: configuration.cross_quota.as_ref().is_some_and(|caps| !caps.is_inert()),
            places: BTreeMap::new(),
            order: Vec::new(),
            objects: 0,
            findings: Vec::new(),
        }
    }

    fn find(&mut self, severity: Severity, problem: Problem, key: &ObjectKey, place: &Place) {
        let problem = problem.of_object(key).in_file(place.to_string());
        // Admission and whoever acts on an object may say the same of it.
        let text = problem.to_string();
        let is_same = |finding: &Finding| finding.object == problem.object && finding.problem().to_string() == text;
        if !self.findings.iter().any(is_same) {
            self.findings.push(Finding::new(severity, problem));
        }
    }

    /// Takes in one object, as if it was applied.
    fn look_at(&mut self, document: Document) {
        let Document { key, value, place } = document;
        self.objects += 1;
        if key.group == "quotient.dev" {
            let problem = Problem::new(format!("a {} is not an object of a cluster", key.kind));
            return self.find(Severity::Warning, problem, &key, &place);
        }
        for problem in unknown_fields(&key, &value) {
            self.find(Severity::Warning, problem, &key, &place);
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
        // Nodes with devices of a class that is one of GPUs have caps too.
        self.uncapped &= !translation.facts.iter().any(|fact| match fact {
            Fact::Node(node) => node.cap.is_some(),
            Fact::DeviceClass(class) => class.gpu,
            _ => false,
        });
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
        if tree::is_profile(&key) {
            self.keep_roots(&key, &place);
        }
        self.places.insert(key, place);
    }

    /// Makes the roots of quota trees that the profiles so far ask for, and says what is wrong with this profile.
    fn keep_roots(&mut self, profile: &ObjectKey, place: &Place) {
        let plan = plan(&WithAllNodes { store: &self.store, nodes: &self.nodes });
        for wanted in plan.profiles {
            let is_this = wanted.profile == *profile;
            for problem in wanted.problems.into_iter().filter(|_| is_this) {
                self.find(Severity::Warning, problem, profile, place);
            }
            let Some(root) = wanted.write else { continue };
            let old = key_of(&root).ok().and_then(|key| self.store.get(&key).cloned());
            let operation = if old.is_some() { Operation::Update } else { Operation::Create };
            match admit(Request { operation, object: root, old: old.as_deref() }, &WithoutNodes(&self.store)) {
                Ok(admitted) => {
                    if let Ok(key) = key_of(&admitted.object) {
                        self.translator.upsert(&admitted.object);
                        self.store.put(key, admitted.object);
                    }
                }
                Err(rejection) if is_this => {
                    let problem = Problem::new(format!("the root of the tree is refused: {rejection}"));
                    self.find(Severity::Error, problem, profile, place);
                }
                Err(_) => {}
            }
        }
    }

    /// Whether an object is a queue or a tree quota that pods can name and that does not say who may.
    fn is_open(&self, key: &ObjectKey) -> bool {
        let is_queue = (key.group, key.kind) == (volcano::SCHEDULING, volcano::QUEUE);
        let Some(object) = self.store.get(key).filter(|_| is_queue || tree::is_tree(key)) else { return false };
        let annotations = &object["metadata"]["annotations"];
        [ALLOWED_NAMESPACES, ALLOWED_NAMESPACE_SELECTOR].iter().all(|name| annotations.get(name).is_none())
    }

    /// Looks at all objects together.
    fn finish(mut self) -> Answer {
        let ordered: Vec<&Value> = self.order.iter().filter_map(|key| self.store.get(key)).map(AsRef::as_ref).collect();
        let nodes = self.store.list("", "Node", None);
        let classes = self.store.list("resource.k8s.io", "DeviceClass", None);
        let mut trapped = traps(&ordered, &nodes, &classes, self.whole_gpu_gb);
        trapped.extend(volcano::traps::traps(&ordered, &nodes));
        trapped.extend(gangs::traps::traps(&ordered));
        for (key, problem) in trapped {
            if let Some(place) = self.places.get(&key).cloned() {
                let problem = problem.of_object(&key).in_file(place.to_string());
                self.findings.push(Finding::new(Severity::Warning, problem));
            }
        }
        let trees: Vec<&Value> = [(tree::PROFILE_GROUP, tree::PROFILE), (tree::GROUP, tree::QUOTA)]
            .into_iter()
            .flat_map(|(group, kind)| self.store.list(group, kind, None))
            .collect();
        for (key, problem) in tree::traps::traps(&trees, &nodes) {
            // What is wrong with a root that a profile made is said of the profile.
            if let Some(place) = self.places.get(&key) {
                self.findings.push(Finding::new(Severity::Warning, problem.in_file(place.to_string())));
            }
        }
        if self.uncapped && !nodes.is_empty() {
            let message = "the caps have no effect: no node has a resource that gpu-resource-names matches";
            self.findings.push(Finding::new(Severity::Warning, Problem::new(message).at_field("crossQuota")));
        }
        let open = self.order.iter().filter(|key| self.is_open(key)).map(ToString::to_string).collect();
        Answer { objects: self.objects, findings: self.findings, open }
    }
}
