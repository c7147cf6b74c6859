//! The configuration of a Volcano scheduler, as it stands: what in it has a meaning here.

use serde_json::Value;

use crate::config::CardSettings;
use crate::crossquota::CrossQuota;
use crate::cursor::Cursor;
use crate::problem::Problem;
use crate::read;

/// What such a configuration sets.
#[derive(Debug, Default)]
pub(crate) struct VolcanoConf {
    pub cross_quota: Option<CrossQuota>,
    pub cards: Option<CardSettings>,
}

/// The keys that only such a configuration has.
const KEYS: [&str; 2] = ["actions", "tiers"];

/// Whether a value is such a configuration. It has no kind of its own.
pub(crate) fn is_conf(value: &Value) -> bool {
    value.get("kind").is_none() && KEYS.iter().any(|key| value.get(key).is_some())
}

/// The configuration that a ConfigMap holds, where it holds one: that is how it is kept in a cluster.
pub(crate) fn in_config_map(value: &Value) -> Result<Option<Value>, Vec<Problem>> {
    let data = value.get("data").and_then(Value::as_object);
    let Some(data) = data.filter(|_| value.get("kind").is_some_and(|kind| kind == "ConfigMap")) else {
        return Ok(None);
    };
    for (key, text) in data {
        let (values, problems) = read::parse(&format!("data[{key:?}]"), text.as_str().unwrap_or_default());
        if !problems.is_empty() {
            return Err(problems);
        }
        if let [(_, conf)] = &values[..]
            && is_conf(conf)
        {
            return Ok(Some(conf.clone()));
        }
    }
    Ok(None)
}

/// Reads it. What is wrong is noted at its place; what has no effect is added to `idle`.
pub(crate) fn read_conf(root: &Cursor<'_, '_>, idle: &mut Vec<Problem>) -> VolcanoConf {
    let mut conf = VolcanoConf::default();
    let mut ignored = Vec::new();
    for tier in root.field("tiers").items() {
        for plugin in tier.field("plugins").items() {
            let name = plugin.field("name");
            match name.str() {
                // Every plugin that means something here has its line.
                Some("crossquota") if conf.cross_quota.is_some() => name.note("is given twice"),
                Some("crossquota") => conf.cross_quota = Some(CrossQuota::read(&plugin.field("arguments"), idle)),
                Some("capacity-card") if conf.cards.is_some() => name.note("is given twice"),
                Some("capacity-card") => conf.cards = Some(cards(&plugin.field("arguments"))),
                Some(other) => ignored.push(other),
                None => plugin.note_missing("name", "expected the name of a plugin"),
            }
        }
    }
    if !ignored.is_empty() {
        let plugins = ignored.join(", ");
        idle.push(Problem::new(format!(
            "plugins without effect here, where only crossquota and capacity-card are read: {plugins}"
        )));
    }
    conf
}

/// The arguments of `capacity-card`. Numbers and truth values may be quoted or not.
fn cards(at: &Cursor<'_, '_>) -> CardSettings {
    let unlimited = at.field("cardUnlimitedCpuMemory");
    let weight = at.field("nodeOrderWeight");
    for (key, value) in at.entries() {
        if !["cardUnlimitedCpuMemory", "nodeOrderWeight"].contains(&key) {
            value.note("is not an argument that is known: expected cardUnlimitedCpuMemory or nodeOrderWeight");
        }
    }
    let card_unlimited_cpu_memory = match unlimited.value() {
        Some(Value::String(text)) if text == "true" => Some(true),
        Some(Value::String(text)) if text == "false" => Some(false),
        Some(Value::String(_)) => {
            unlimited.note("expected true or false");
            None
        }
        _ => unlimited.bool(),
    };
    let node_order_weight = match weight.value() {
        Some(Value::String(text)) => {
            let number = text.parse().ok();
            if number.is_none() {
                weight.note("expected a whole number");
            }
            number
        }
        _ => weight.int(),
    };
    CardSettings { card_unlimited_cpu_memory, node_order_weight }
}
