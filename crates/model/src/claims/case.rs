//! Random small clusters with devices: up to three nodes, a dozen pods, and claims in every form.

use quotient_sim::random::Random;
use serde_json::{Map, Value, json};

/// Which quotas a case has.
pub const POLICIES: &[&str] = &["none", "elastic", "fair", "tree", "queue"];

/// What devices are like.
pub const KINDS: &[&str] = &["plain", "cards", "shares", "parts", "sized"];

/// The ways in which a pod asks for devices.
pub const FORMS: &[&str] = &[
    "exact", "two", "all", "first", "prefer", "capacity", "pair", "matched", "shared", "admin", "extended", "implicit",
];

/// The driver of all devices.
pub const DRIVER: &str = "d";
/// The resource that class `any` stands for, in some cases.
pub const EXTENDED: &str = "example.com/dev";
/// The resource that every class has.
pub const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/any";

const NAMESPACES: &[&str] = &["a", "b", "c"];
const PODS_MAX: usize = 10;

/// A case: its policy, what its devices are like, and the scenario.
pub struct Case {
    pub policy: &'static str,
    pub kind: &'static str,
    /// How many pods ask in which form.
    pub forms: Vec<&'static str>,
    pub scenario: Value,
}

struct Maker {
    random: Random,
    policy: &'static str,
    kind: &'static str,
    resources: Vec<String>,
    returning: bool,
    pods: usize,
    made: Vec<String>,
    forms: Vec<&'static str>,
}

/// The resource by which quotas count the devices of a class.
pub fn devices_of(class: &str) -> String {
    format!("{class}.deviceclass.resource.k8s.io/devices")
}

/// The case of a seed. `returning`: controllers make every pod, so that what is evicted comes back.
pub fn case(seed: u64, returning: bool) -> Case {
    let mut random = Random::new(seed);
    let (policy, kind) = (*random.of(POLICIES), *random.of(KINDS));
    let mut all = vec![devices_of("any"), devices_of("any"), devices_of("big"), EXTENDED.to_string()];
    match kind {
        "cards" => all.extend(["Card-A".to_string(), "Card-B".to_string()]),
        "shares" => all.push("any.deviceclass.resource.k8s.io/mem".to_string()),
        _ => all.extend([devices_of("small"), IMPLICIT.to_string()]),
    }
    let mut resources = vec![random.of(&all).clone()];
    if random.chance(35) {
        let other = random.of(&all).clone();
        if !resources.contains(&other) {
            resources.push(other);
        }
    }
    let returning = returning || random.chance(20);
    let mut maker = Maker { random, policy, kind, resources, returning, pods: 0, made: Vec::new(), forms: Vec::new() };
    let mut steps = vec![maker.first_step()];
    for _ in 0..maker.random.within(1, 3) {
        let step = maker.step();
        steps.push(step);
    }
    // Whatever was under way comes to rest.
    steps.push(json!({"name": "rest", "wait": "2m"}));
    let name = format!("claims-{policy}-{kind}-{seed}");
    let scenario = json!({
        "apiVersion": "quotient.dev/v1alpha1", "kind": "Scenario", "metadata": {"name": name},
        "spec": {"source": "random clusters with devices", "config": {"reserveAfter": "1000h"}, "steps": steps},
    });
    Case { policy, kind, forms: maker.forms, scenario }
}

impl Maker {
    fn first_step(&mut self) -> Value {
        let count = self.random.within(1, 3);
        let names: Vec<String> = (0..count).map(|at| format!("n{at}")).collect();
        let nodes: Vec<Value> = names
            .iter()
            .map(|name| json!({"name": name, "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}}))
            .collect();
        let mut apply = self.classes();
        for name in &names {
            apply.extend(self.slices(name, json!({"nodeName": name})));
        }
        if self.random.chance(15) {
            apply.extend(self.slices("wide", json!({"allNodes": true})));
        }
        for namespace in NAMESPACES {
            apply.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace,
                "labels": {"resource.kubernetes.io/admin-access": "true"}}}));
            apply.extend(self.quota(namespace));
        }
        let mut pods = Vec::new();
        for _ in 0..self.random.within(2, 5) {
            self.add(&mut apply, &mut pods);
        }
        let mut step = json!({"name": "first", "nodes": nodes, "apply": apply, "pods": pods});
        if self.random.chance(35) {
            step["evictionTakes"] = json!("30s");
        }
        step
    }

    fn step(&mut self) -> Value {
        let mut step = Map::new();
        step.insert("name".to_string(), json!(format!("after {} pods", self.pods)));
        let (mut apply, mut pods) = (Vec::new(), Vec::new());
        match self.random.within(0, 9) {
            0 if !self.made.is_empty() => {
                let pod = self.random.of(&self.made.clone()).clone();
                step.insert("finish".to_string(), json!([pod]));
            }
            1 => drop(step.insert("wait".to_string(), json!(*self.random.of(&["10s", "40s"])))),
            _ => {
                for _ in 0..self.random.within(1, 2) {
                    self.add(&mut apply, &mut pods);
                }
            }
        }
        if self.random.chance(20) {
            step.insert("restart".to_string(), json!(true));
        }
        step.insert("apply".to_string(), json!(apply));
        step.insert("pods".to_string(), json!(pods));
        Value::Object(step)
    }

    fn classes(&mut self) -> Vec<Value> {
        let class = |name: &str, expression: &str| {
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
                "spec": {"selectors": [{"cel": {"expression": expression}}]}})
        };
        let mut any = class("any", "device.driver == 'd'");
        if self.resources.iter().any(|name| name == EXTENDED) || self.random.chance(50) {
            any["spec"]["extendedResourceName"] = json!(EXTENDED);
        }
        let of = |model: &str| class(model, &format!("device.attributes['d'].model == '{model}'"));
        vec![any, of("big"), of("small")]
    }

    fn slices(&mut self, pool: &str, place: Value) -> Vec<Value> {
        let count = self.random.within(1, 4);
        let devices: Vec<Value> = (0..count).map(|at| self.device(at)).collect();
        let has_parts = self.kind == "parts";
        let slices = if has_parts { 2 } else { 1 };
        let spec = |part: (&str, Value)| {
            let mut spec = place.clone();
            spec["driver"] = json!(DRIVER);
            spec["pool"] = json!({"name": pool, "generation": 1, "resourceSliceCount": slices});
            spec[part.0] = part.1;
            spec
        };
        let slice = |name: String, spec: Value| {
            let api = "resource.k8s.io/v1";
            json!({"apiVersion": api, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec})
        };
        let mut all = vec![slice(format!("{pool}-d"), spec(("devices", json!(devices))))];
        if has_parts {
            let units = self.random.within(2, 5).to_string();
            let counters = json!([{"name": "card", "counters": {"units": {"value": units}}}]);
            all.push(slice(format!("{pool}-c"), spec(("sharedCounters", counters))));
        }
        all
    }

    fn device(&mut self, at: u64) -> Value {
        let model = *self.random.of(&["big", "small"]);
        let mut device = json!({"name": format!("g{at}"), "attributes": {"model": {"string": model}}});
        match self.kind {
            "cards" => {
                let card = *self.random.of(&["Card A", "Card B"]);
                device["attributes"]["productName"] = json!({"string": card});
            }
            "shares" => {
                let value = *self.random.of(&["4Gi", "8Gi", "12Gi"]);
                device["allowMultipleAllocations"] = json!(true);
                device["capacity"] = json!({"mem": {"value": value,
                    "requestPolicy": {"default": "4Gi", "validRange": {"min": "2Gi", "step": "2Gi"}}}});
            }
            "parts" => {
                let units = self.random.within(1, 2).to_string();
                device["consumesCounters"] = json!([{"counterSet": "card", "counters": {"units": {"value": units}}}]);
            }
            "sized" => {
                let value = *self.random.of(&["4Gi", "8Gi"]);
                device["capacity"] = json!({"mem": {"value": value}});
            }
            _ => {}
        }
        device
    }

    fn amounts(&mut self, low: u64, high: u64) -> Value {
        let mut amounts = Map::new();
        for resource in self.resources.clone() {
            let number = self.random.within(low, high);
            let text = if resource.ends_with("/mem") { format!("{}Gi", number * 2) } else { number.to_string() };
            amounts.insert(resource, json!(text));
        }
        Value::Object(amounts)
    }

    fn quota(&mut self, namespace: &str) -> Option<Value> {
        let metadata = json!({"namespace": namespace, "name": namespace});
        let kind = "ElasticQuota";
        let elastic =
            |api: &str, spec: Value| json!({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec});
        match self.policy {
            "elastic" | "fair" => {
                let mut spec = json!({"min": self.amounts(0, 3)});
                if self.random.chance(30) {
                    spec["max"] = self.amounts(3, 5);
                }
                let api = if self.policy == "fair" { "nos.nebuly.com" } else { "scheduling.x-k8s.io" };
                Some(elastic(&format!("{api}/v1alpha1"), spec))
            }
            "tree" => {
                let spec = json!({"min": self.amounts(0, 3), "max": self.amounts(3, 6)});
                Some(elastic("scheduling.sigs.k8s.io/v1alpha1", spec))
            }
            "queue" => {
                let mut spec = json!({"deserved": self.amounts(0, 3)});
                if self.random.chance(30) {
                    spec["capability"] = self.amounts(3, 5);
                }
                let name = format!("q-{namespace}");
                Some(json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
                    "metadata": {"name": name}, "spec": spec}))
            }
            _ => None,
        }
    }

    /// The requests of a claim.
    fn requests(&mut self, form: &str) -> Value {
        let class = *self.random.of(&["any", "any", "big", "small"]);
        let exactly = |name: &str, spec: Value| json!({"name": name, "exactly": spec});
        match form {
            "two" => json!([exactly("r", json!({"deviceClassName": class, "count": 2}))]),
            "all" => json!([exactly("r", json!({"deviceClassName": class, "allocationMode": "All"}))]),
            "first" => json!([{"name": "r", "firstAvailable": [{"name": "x", "deviceClassName": class}]}]),
            "prefer" => json!([{"name": "r", "firstAvailable": [
                {"name": "x", "deviceClassName": "big", "count": self.random.within(1, 2)},
                {"name": "y", "deviceClassName": *self.random.of(&["small", "any"])}]}]),
            "capacity" => {
                let asked = *self.random.of(&["1Gi", "3Gi", "4Gi", "6Gi"]);
                let mut spec = json!({"deviceClassName": class, "capacity": {"requests": {"mem": asked}}});
                if self.random.chance(20) {
                    spec["allocationMode"] = json!("All");
                }
                json!([exactly("r", spec)])
            }
            "pair" | "matched" => json!([
                exactly("r", json!({"deviceClassName": class})),
                exactly("s", json!({"deviceClassName": "any"})),
            ]),
            "admin" => {
                let own = exactly("s", json!({"deviceClassName": class}));
                let look = exactly("r", json!({"deviceClassName": "any", "adminAccess": true}));
                if self.random.chance(50) { json!([look, own]) } else { json!([look]) }
            }
            _ => json!([exactly("r", json!({"deviceClassName": class}))]),
        }
    }

    /// One more pod, or a few that share a claim, or a ReplicaSet.
    fn add(&mut self, apply: &mut Vec<Value>, pods: &mut Vec<Value>) {
        if self.pods >= PODS_MAX {
            return;
        }
        let has_capacity = matches!(self.kind, "shares" | "sized");
        let form = match *self.random.of(FORMS) {
            "capacity" if !has_capacity => "exact",
            form => form,
        };
        self.forms.push(form);
        let namespace = *self.random.of(NAMESPACES);
        let name = format!("p{}", self.pods);
        let mut requests = json!({"cpu": "100m"});
        let mut spec = Map::new();
        match form {
            "extended" => requests[EXTENDED] = json!(self.random.within(1, 2).to_string()),
            "implicit" => requests[IMPLICIT] = json!("1"),
            _ => {
                let mut devices = json!({"requests": self.requests(form)});
                if form == "matched" {
                    devices["constraints"] = json!([{"matchAttribute": "d/model"}]);
                }
                let metadata = json!({"namespace": namespace, "name": name});
                let api = "resource.k8s.io/v1";
                let is_shared = form == "shared";
                apply.push(match is_shared {
                    true => json!({"apiVersion": api, "kind": "ResourceClaim", "metadata": metadata,
                        "spec": {"devices": devices}}),
                    false => json!({"apiVersion": api, "kind": "ResourceClaimTemplate", "metadata": metadata,
                        "spec": {"spec": {"devices": devices}}}),
                });
                let source = if is_shared { "resourceClaimName" } else { "resourceClaimTemplateName" };
                spec.insert("resourceClaims".to_string(), json!([{"name": "c", source: name}]));
            }
        }
        let count = if form == "shared" { self.random.within(2, 3) } else { 1 };
        let mut annotations = json!({});
        if self.policy == "queue" {
            annotations["scheduling.volcano.sh/queue-name"] = json!(format!("q-{namespace}"));
        }
        self.pods += count as usize;
        if self.returning {
            let limits: Map<String, Value> = requests
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(name, _)| name.contains('/'))
                .map(|(n, a)| (n.clone(), a.clone()))
                .collect();
            spec.insert(
                "containers".to_string(),
                json!([{"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}}]),
            );
            apply.push(json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": {"namespace": namespace, "name": name},
                "spec": {"replicas": count, "selector": {"matchLabels": {"app": name}}, "template":
                    {"metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": spec}}}));
            return;
        }
        let mut pod = json!({"namespace": namespace, "name": name, "requests": requests, "annotations": annotations,
            "spec": spec});
        match count {
            1 => self.made.push(format!("{namespace}/{name}")),
            count => pod["count"] = json!(count),
        }
        pods.push(pod);
    }
}
