//! Devices, classes and claims, as the objects say.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::amount::{Amounts, amount};
use crate::claims::case::{DRIVER, devices_of};
use crate::world::text;

/// A device of a pool.
#[derive(Debug, Clone)]
pub struct Device {
    pub pool: String,
    pub name: String,
    /// The one node that reaches it, or all where there is none.
    pub node: Option<String>,
    pub model: String,
    pub card: Option<String>,
    pub is_shared: bool,
    /// The capacity `mem` in bytes, and what a request for it is rounded by: default, least, step.
    pub mem: Option<i128>,
    pub policy: Option<(i128, i128, i128)>,
    /// What it draws from its pool's counter.
    pub units: i128,
}

/// A result of an allocation, or of a search for one.
#[derive(Debug, Clone)]
pub struct Held {
    pub device: usize,
    pub class: String,
    pub is_admin: bool,
    /// It is a share, and consumes so much of `mem`.
    pub share: Option<i128>,
}

/// One way to meet a request.
#[derive(Debug, Clone)]
pub struct Way {
    /// As results name it.
    pub name: String,
    pub class: String,
    /// `None` is all devices.
    pub count: Option<u64>,
    pub is_admin: bool,
    pub mem: Option<i128>,
}

/// What a claim asks for.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// By request: its ways, the preferred first.
    pub requests: Vec<Vec<Way>>,
    /// All devices have the same model.
    pub is_matched: bool,
    /// It was made for extended resources, asked for by this name.
    pub resource: Option<String>,
}

/// A claim.
#[derive(Debug, Clone)]
pub struct Claim {
    pub key: String,
    pub asked: Asked,
    pub held: Option<Vec<Held>>,
    /// UIDs of pods, in order.
    pub reserved_for: Vec<String>,
}

/// All devices and what of them is held.
#[derive(Debug, Clone, Default)]
pub struct Devices {
    pub list: Vec<Device>,
    /// By pool.
    pub units: BTreeMap<String, i128>,
    pub claims: Vec<Claim>,
    /// The extended resource of class `any`.
    pub extended: Option<String>,
    /// Results that name no device.
    pub unknown: Vec<String>,
}

fn bytes(value: &Value) -> Option<i128> {
    amount("mem", value)
}

/// What a class takes: all devices of the driver, or those of a model.
pub fn is_of(class: &str, device: &Device) -> bool {
    class == "any" || device.model == class
}

impl Device {
    /// What a request consumes of its memory: rounded up to the policy's next amount; nothing requested is the default,
    /// or all. `None`: it can never give that.
    pub fn consumes(&self, asked: Option<i128>) -> Option<i128> {
        let Some(value) = self.mem else { return asked.is_none().then_some(0) };
        let amount = match (asked, self.policy) {
            (None, Some((default, ..))) => default,
            (None, None) => value,
            (Some(asked), None) => asked,
            (Some(asked), Some((_, least, step))) => least + ((asked - least).max(0) + step - 1) / step * step,
        };
        (amount <= value).then_some(amount)
    }
}

fn way(name: String, spec: &Value) -> Way {
    let count = (text(spec, "/allocationMode") != "All").then(|| spec["count"].as_u64().unwrap_or(1));
    Way {
        name,
        class: text(spec, "/deviceClassName").to_string(),
        count,
        is_admin: spec["adminAccess"] == Value::Bool(true),
        mem: spec.pointer("/capacity/requests/mem").and_then(bytes),
    }
}

/// What a claim's spec asks for.
pub fn asked(devices: &Value) -> Asked {
    let requests = devices["requests"].as_array().into_iter().flatten().map(|request| {
        let name = text(request, "/name");
        match request["firstAvailable"].as_array() {
            Some(ways) => ways.iter().map(|spec| way(format!("{name}/{}", text(spec, "/name")), spec)).collect(),
            None => vec![way(name.to_string(), &request["exactly"])],
        }
    });
    let is_matched = devices["constraints"].as_array().is_some_and(|all| !all.is_empty());
    Asked { requests: requests.collect(), is_matched, resource: None }
}

impl Devices {
    pub fn read(objects: &[&Value]) -> Self {
        let mut devices = Devices::default();
        let of_kind = |kind: &'static str| objects.iter().filter(move |object| text(object, "/kind") == kind);
        for slice in of_kind("ResourceSlice") {
            let spec = &slice["spec"];
            let pool = text(spec, "/pool/name").to_string();
            for set in spec["sharedCounters"].as_array().into_iter().flatten() {
                let value = set.pointer("/counters/units/value").and_then(bytes);
                devices.units.insert(pool.clone(), value.unwrap_or(0));
            }
            for device in spec["devices"].as_array().into_iter().flatten() {
                let policy = device.pointer("/capacity/mem/requestPolicy");
                let node = text(spec, "/nodeName").to_string();
                devices.list.push(Device {
                    pool: pool.clone(),
                    name: text(device, "/name").to_string(),
                    node: (!node.is_empty()).then_some(node),
                    model: text(device, "/attributes/model/string").to_string(),
                    card: device
                        .pointer("/attributes/productName/string")
                        .and_then(Value::as_str)
                        .map(|name| name.replace(' ', "-")),
                    is_shared: device["allowMultipleAllocations"] == Value::Bool(true),
                    mem: device.pointer("/capacity/mem/value").and_then(bytes),
                    policy: policy.and_then(|policy| {
                        let of = |path: &str| policy.pointer(path).and_then(bytes);
                        Some((of("/default")?, of("/validRange/min")?, of("/validRange/step")?))
                    }),
                    units: device.pointer("/consumesCounters/0/counters/units/value").and_then(bytes).unwrap_or(0),
                });
            }
        }
        // Pools by name, devices as listed.
        devices.list.sort_by(|a, b| a.pool.cmp(&b.pool));
        for class in of_kind("DeviceClass").filter(|class| text(class, "/metadata/name") == "any") {
            let name = text(class, "/spec/extendedResourceName");
            devices.extended = (!name.is_empty()).then(|| name.to_string());
        }
        for claim in of_kind("ResourceClaim") {
            devices.read_claim(claim, objects);
        }
        devices
    }

    fn read_claim(&mut self, object: &Value, objects: &[&Value]) {
        let key = format!("{}/{}", text(object, "/metadata/namespace"), text(object, "/metadata/name"));
        let mut asked = asked(&object["spec"]["devices"]);
        let is_extended = object["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"] == "true";
        if is_extended {
            let owner = text(object, "/metadata/ownerReferences/0/uid");
            let pod = objects.iter().find(|pod| text(pod, "/metadata/uid") == owner);
            asked.resource = pod.and_then(|pod| extended_request(pod)).map(|(resource, _)| resource);
        }
        let results = object.pointer("/status/allocation/devices/results").and_then(Value::as_array);
        let held = results.map(|results| {
            let held = |result: &Value| {
                let (pool, name) = (text(result, "/pool"), text(result, "/device"));
                let device = self.list.iter().position(|device| device.pool == pool && device.name == name);
                let way = asked.requests.iter().flatten().find(|way| way.name == text(result, "/request"));
                let share =
                    result.get("shareID").map(|_| result.pointer("/consumedCapacity/mem").and_then(bytes).unwrap_or(0));
                let is_admin = result["adminAccess"] == Value::Bool(true);
                Some(Held { device: device?, class: way?.class.clone(), is_admin, share })
            };
            let all: Vec<Option<Held>> = results.iter().map(held).collect();
            if all.iter().any(Option::is_none) || results.iter().any(|result| text(result, "/driver") != DRIVER) {
                self.unknown.push(key.clone());
            }
            all.into_iter().flatten().collect()
        });
        let reserved = object.pointer("/status/reservedFor").and_then(Value::as_array);
        let reserved_for = reserved.into_iter().flatten().map(|pod| text(pod, "/uid").to_string()).collect();
        self.claims.push(Claim { key, asked, held, reserved_for });
    }

    /// What results cost: by class, by the class's other names, by card, by what shares consume. What was asked for by
    /// a resource's name is charged under that name by the request itself.
    pub fn bill(&self, held: &[Held], resource: Option<&str>) -> Amounts {
        let mut bill = Amounts::new();
        let mut add = |name: String, amount: i128| {
            if Some(&*name) != resource {
                *bill.entry(name).or_default() += amount;
            }
        };
        for result in held.iter().filter(|result| !result.is_admin) {
            add(devices_of(&result.class), 1);
            add(format!("deviceclass.resource.kubernetes.io/{}", result.class), 1);
            if result.class == "any" {
                self.extended.iter().for_each(|name| add(name.clone(), 1));
            }
            match result.share {
                Some(mem) => add(format!("{}.deviceclass.resource.k8s.io/mem", result.class), mem),
                None => self.list[result.device].card.iter().for_each(|card| add(card.clone(), 1)),
            }
        }
        bill
    }
}

/// The extended resource that a pod asks for, and how many.
pub fn extended_request(pod: &Value) -> Option<(String, i128)> {
    let requests = pod.pointer("/spec/containers/0/resources/requests")?.as_object()?;
    requests
        .iter()
        .find(|(name, _)| name.contains('/'))
        .and_then(|(name, count)| Some((name.clone(), amount(name, count)?)))
}
