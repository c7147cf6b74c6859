//! The configuration of a Volcano scheduler, as it stands: what in it has a meaning here.

use serde_json::Value;

use crate::crossquota::CrossQuota;
use crate::cursor::Cursor;
use crate::problem::Problem;
use crate::read;

/// What such a configuration sets.
#[derive(Debug, Default)]
pub(crate) struct VolcanoConf {
    pub cross_quota: Option<CrossQuota>,
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
                Some(other) => ignored.push(other),
                None => plugin.note_missing("name", "expected the name of a plugin"),
            }
        }
    }
    if !ignored.is_empty() {
        let plugins = ignored.join(", ");
        idle.push(Problem::new(format!("plugins without effect here, where only crossquota is read: {plugins}")));
    }
    conf
}
