//! ResourceSlices: the devices that drivers have to offer, and DeviceTaintRules.

use quotient_engine::device::{CapacityPolicy, DeviceEffect, DeviceTaint, PoolKey, Reach, ValidAmounts};
use quotient_engine::fact::Name;
use quotient_engine::quantity::{Format, Quantity};

use crate::cursor::Cursor;
use crate::intern::Interner;
use crate::selector::node_terms;

/// What an attribute says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Field {
    Int(i64),
    Bool(bool),
    Text(Name),
    Version(Name),
}

/// A capacity of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub domain: Name,
    pub name: Name,
    /// As the driver wrote it.
    pub written: Name,
    pub value: i128,
    pub format: Format,
    pub policy: CapacityPolicy,
}

/// A device, as its slice has it. Names without a domain are in the driver's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Device {
    pub name: Name,
    /// Where the slice leaves it to its devices.
    pub reach: Option<Reach>,
    /// Domain, name, value.
    pub attributes: Vec<(Name, Name, Field)>,
    pub capacity: Vec<Capacity>,
    pub taints: Vec<DeviceTaint>,
    /// Counter set, counter, amount.
    pub consumes: Vec<(Name, Name, i128)>,
    pub shared: bool,
    pub binds_to_node: bool,
    pub conditions: Vec<Name>,
    pub failure_conditions: Vec<Name>,
}

/// A ResourceSlice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slice {
    pub pool: PoolKey,
    pub generation: i64,
    pub count: i64,
    /// `None`: each device has its own.
    pub reach: Option<Reach>,
    pub devices: Vec<Device>,
    pub counters: Vec<(Name, Vec<(Name, i128)>)>,
}

impl Device {
    #[cfg(test)]
    pub fn named(name: &str) -> Self {
        Device { name: name.into(), ..Device::default() }
    }

    /// The attribute `name` of the driver's domain.
    pub fn attribute(&self, driver: &str, name: &str) -> Option<&Field> {
        self.attributes.iter().find(|(domain, own, _)| **domain == *driver && **own == *name).map(|(_, _, field)| field)
    }

    /// The card that it counts as: the product's name as nodes are labelled with it, and its MIG profile.
    pub fn card(&self, driver: &str) -> Option<String> {
        let text = |name: &str| match self.attribute(driver, name) {
            Some(Field::Text(text)) => Some(text),
            _ => None,
        };
        let product = text("productName").filter(|product| !product.is_empty())?.replace(' ', "-");
        match (text("type").map(|kind| &**kind), text("profile")) {
            _ if self.shared => None,
            (Some("mig"), Some(profile)) => Some(format!("{product}/mig-{profile}-mixed")),
            _ => Some(product),
        }
    }

    /// Its memory in gigabytes, where it is a card.
    pub fn gigabytes(&self, driver: &str) -> Option<i64> {
        self.card(driver)?;
        let memory = self.capacity.iter().find(|own| *own.domain == *driver && &*own.name == "memory")?;
        let gigabyte = (1i128 << 30) * 1_000_000_000;
        i64::try_from(memory.value / gigabyte + i128::from(memory.value % gigabyte > 0)).ok()
    }
}

/// Domain and name of something that a driver names.
pub(crate) fn qualified(written: &str, driver: &Name, interner: &mut Interner) -> (Name, Name) {
    match written.split_once('/') {
        Some((domain, name)) => (interner.name(domain), interner.name(name)),
        None => (driver.clone(), interner.name(written)),
    }
}

/// Reads a ResourceSlice. `None` where it does not say what it is a part of.
pub(crate) fn slice(root: &Cursor<'_, '_>, interner: &mut Interner) -> Option<Slice> {
    let spec = root.field("spec");
    let pool = spec.field("pool");
    let text = |at: &Cursor<'_, '_>, name: &str, interner: &mut Interner| {
        let field = at.field(name);
        let text = field.non_empty_str();
        if text.is_none() {
            at.note_missing(name, "a slice says which driver and pool it is of");
        }
        text.map(|text| interner.name(text))
    };
    let driver = text(&spec, "driver", interner)?;
    let key = PoolKey { pool: text(&pool, "name", interner)?, driver: driver.clone() };
    let per_device = spec.field("perDeviceNodeSelection").bool() == Some(true);
    let reach = if per_device { None } else { Some(reach(&spec, interner)?) };
    let (devices, counters) = (spec.field("devices"), spec.field("sharedCounters"));
    Some(Slice {
        pool: key,
        generation: pool.field("generation").int().unwrap_or(0),
        count: pool.field("resourceSliceCount").int().unwrap_or(1),
        devices: devices.items().filter_map(|at| device(&at, &driver, per_device, interner)).collect(),
        counters: counters
            .items()
            .filter_map(|set| Some((interner.name(set.field("name").non_empty_str()?), amounts(&set, interner))))
            .collect(),
        reach,
    })
}

/// The nodes that a slice, or a device, is for.
fn reach(at: &Cursor<'_, '_>, interner: &mut Interner) -> Option<Reach> {
    let selector = at.field("nodeSelector");
    if let Some(node) = at.field("nodeName").non_empty_str() {
        Some(Reach::Node(interner.name(node)))
    } else if at.field("allNodes").bool() == Some(true) {
        Some(Reach::All)
    } else if selector.exists() {
        node_terms(&selector.field("nodeSelectorTerms"), interner).into_iter().next().map(Reach::Nodes)
    } else {
        at.note("expected one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection");
        None
    }
}

/// The counters of a set, in billionths.
fn amounts(set: &Cursor<'_, '_>, interner: &mut Interner) -> Vec<(Name, i128)> {
    let counters = set.field("counters");
    let mut amounts: Vec<(Name, i128)> = counters
        .entries()
        .filter_map(|(name, counter)| Some((interner.name(name), counter.field("value").quantity()?.nanos())))
        .collect();
    amounts.sort();
    amounts
}

fn device(at: &Cursor<'_, '_>, driver: &Name, per_device: bool, interner: &mut Interner) -> Option<Device> {
    let name = at.field("name");
    let Some(text) = name.non_empty_str() else {
        name.note("expected the name of the device");
        return None;
    };
    let (attributes, capacity) = (at.field("attributes"), at.field("capacity"));
    let mut fields: Vec<(Name, Name, Field)> = Vec::new();
    for (written, value) in attributes.entries() {
        let (domain, name) = qualified(written, driver, interner);
        fields.extend(field(&value, interner).map(|field| (domain, name, field)));
    }
    let consumes = at.field("consumesCounters");
    let consumed = consumes.items().flat_map(|set| {
        let name = set.field("counterSet").str().map(Name::from).unwrap_or_default();
        let counters = amounts(&set, interner);
        counters.into_iter().map(move |(counter, amount)| (name.clone(), counter, amount)).collect::<Vec<_>>()
    });
    let consumed = consumed.collect();
    let names = |name: &str| at.field(name).strs().into_iter().map(Name::from).collect();
    Some(Device {
        name: interner.name(text),
        reach: if per_device { Some(reach(at, interner)?) } else { None },
        attributes: fields,
        capacity: capacity
            .entries()
            .filter_map(|(written, value)| self::capacity(written, &value, driver, interner))
            .collect(),
        taints: at.field("taints").items().filter_map(|taint| self::taint(&taint, interner)).collect(),
        consumes: consumed,
        shared: at.field("allowMultipleAllocations").bool().unwrap_or(false),
        binds_to_node: at.field("bindsToNode").bool().unwrap_or(false),
        conditions: names("bindingConditions"),
        failure_conditions: names("bindingFailureConditions"),
    })
}

fn field(at: &Cursor<'_, '_>, interner: &mut Interner) -> Option<Field> {
    let (int, bool, string, version) = (at.field("int"), at.field("bool"), at.field("string"), at.field("version"));
    if int.exists() {
        return int.int().map(Field::Int);
    }
    if bool.exists() {
        return bool.bool().map(Field::Bool);
    }
    if string.exists() {
        return string.str().map(|text| Field::Text(interner.name(text)));
    }
    version.str().map(|text| Field::Version(interner.name(text)))
}

fn capacity(written: &str, at: &Cursor<'_, '_>, driver: &Name, interner: &mut Interner) -> Option<Capacity> {
    let (domain, name) = qualified(written, driver, interner);
    let value = at.field("value").quantity()?;
    let policy = at.field("requestPolicy");
    let nanos = |at: &Cursor<'_, '_>| at.quantity().map(Quantity::nanos);
    let (range, values) = (policy.field("validRange"), policy.field("validValues"));
    let valid = if range.exists() {
        ValidAmounts::Range {
            min: nanos(&range.field("min")).unwrap_or(0),
            max: nanos(&range.field("max")),
            step: nanos(&range.field("step")),
        }
    } else if values.exists() {
        let mut values: Vec<i128> = values.items().filter_map(|value| nanos(&value)).collect();
        values.sort_unstable();
        ValidAmounts::Values(values)
    } else {
        ValidAmounts::Any
    };
    let policy = CapacityPolicy { default: nanos(&policy.field("default")), valid };
    let written = interner.name(written);
    Some(Capacity { domain, name, written, value: value.nanos(), format: value.format(), policy })
}

/// A taint that keeps claims away; others are only watched.
pub(crate) fn taint(at: &Cursor<'_, '_>, interner: &mut Interner) -> Option<DeviceTaint> {
    let effect = effect(at.field("effect").str()?)?;
    let key = interner.name(at.field("key").str().unwrap_or_default());
    let value = interner.name(at.field("value").str().unwrap_or_default());
    Some(DeviceTaint { key, value, effect })
}

/// The effect of that name, if it keeps claims away.
pub(crate) fn effect(text: &str) -> Option<DeviceEffect> {
    match text {
        "NoSchedule" => Some(DeviceEffect::NoSchedule),
        "NoExecute" => Some(DeviceEffect::NoExecute),
        _ => None,
    }
}

/// A DeviceTaintRule: a taint on all devices of a driver, a pool or a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaintRule {
    driver: Option<Name>,
    pool: Option<Name>,
    device: Option<Name>,
    pub taint: DeviceTaint,
}

impl TaintRule {
    /// Whether it is about devices of the pool.
    pub fn concerns(&self, pool: &PoolKey) -> bool {
        let is = |wanted: &Option<Name>, name: &Name| wanted.as_ref().is_none_or(|wanted| wanted == name);
        is(&self.driver, &pool.driver) && is(&self.pool, &pool.pool)
    }

    /// Whether it is about the device of that name in a pool that it is about.
    pub fn concerns_device(&self, name: &Name) -> bool {
        self.device.as_ref().is_none_or(|wanted| wanted == name)
    }
}

/// Reads a DeviceTaintRule. `None` where it taints nothing.
pub(crate) fn taint_rule(root: &Cursor<'_, '_>, interner: &mut Interner) -> Option<TaintRule> {
    let spec = root.field("spec");
    let selector = spec.field("deviceSelector");
    let mut name = |field: &str| selector.field(field).non_empty_str().map(|text| interner.name(text));
    let (driver, pool, device) = (name("driver"), name("pool"), name("device"));
    // A rule that selects nothing in particular selects nothing.
    if !selector.exists() || (driver.is_none() && pool.is_none() && device.is_none()) {
        return None;
    }
    Some(TaintRule { driver, pool, device, taint: taint(&spec.field("taint"), interner)? })
}
