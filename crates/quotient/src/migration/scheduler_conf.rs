//! Configurations of schedulers, where a cluster keeps them: in ConfigMaps, or in files of their own.

use std::collections::BTreeMap;

use quotient_api::read;
use serde_json::Value;

/// The configuration of one scheduler.
#[derive(Debug, Clone, PartialEq)]
pub enum SchedulerConf {
    /// A KubeSchedulerConfiguration, which schedulers built on kube-scheduler read.
    Kube {
        place: String,
        profiles: Vec<Profile>,
        extenders: usize,
    },
    Volcano {
        place: String,
        actions: Vec<String>,
        plugins: Vec<Plugin>,
    },
}

/// A profile of a KubeSchedulerConfiguration.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The `schedulerName` of its pods.
    pub name: String,
    pub plugins: Vec<Plugin>,
}

impl Profile {
    pub fn plugin(&self, name: &str) -> Option<&Plugin> {
        self.plugins.iter().find(|plugin| plugin.name == name)
    }
}

/// A plugin that is switched on, with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Plugin {
    pub name: String,
    pub arguments: Value,
}

impl SchedulerConf {
    /// Where it was found.
    pub fn place(&self) -> &str {
        match self {
            SchedulerConf::Kube { place, .. } | SchedulerConf::Volcano { place, .. } => place,
        }
    }

    /// The configurations in a value: a ConfigMap with any number of them, or one by itself. Other values hold none.
    pub fn all(place: &str, value: &Value) -> Vec<SchedulerConf> {
        if value["kind"] != "ConfigMap" {
            return SchedulerConf::of(place, value).into_iter().collect();
        }
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let place = format!("ConfigMap {}/{}", text("/metadata/namespace"), text("/metadata/name"));
        let texts = value["data"].as_object().into_iter().flat_map(|data| data.values()).filter_map(Value::as_str);
        let hints = ["KubeSchedulerConfiguration", "tiers:", "actions:", "\"tiers\"", "\"actions\""];
        // A ConfigMap may hold anything: what is no configuration of a scheduler is not read.
        let likely = texts.filter(|text| hints.iter().any(|hint| text.contains(hint)));
        likely
            .flat_map(|text| read::parse(&place, text).0)
            .filter_map(|(_, value)| SchedulerConf::of(&place, &value))
            .collect()
    }

    fn of(place: &str, value: &Value) -> Option<SchedulerConf> {
        let place = place.to_owned();
        if value["kind"] == "KubeSchedulerConfiguration" {
            let profiles = value["profiles"].as_array().map(|profiles| profiles.iter().map(profile).collect());
            let extenders = value["extenders"].as_array().map_or(0, Vec::len);
            return Some(SchedulerConf::Kube { place, profiles: profiles.unwrap_or_default(), extenders });
        }
        let tiers = value.get("tiers").and_then(Value::as_array);
        if value.get("kind").is_some() || (tiers.is_none() && !value["actions"].is_string()) {
            return None;
        }
        let actions = value["actions"].as_str().unwrap_or_default().split(',').map(str::trim);
        let plugins = tiers.into_iter().flatten().filter_map(|tier| tier["plugins"].as_array()).flatten();
        Some(SchedulerConf::Volcano {
            place,
            actions: actions.filter(|action| !action.is_empty()).map(str::to_owned).collect(),
            plugins: plugins.filter_map(|plugin| named(plugin, "arguments")).collect(),
        })
    }
}

fn named(plugin: &Value, arguments: &str) -> Option<Plugin> {
    Some(Plugin { name: plugin["name"].as_str()?.to_owned(), arguments: plugin[arguments].clone() })
}

/// A plugin is on where any extension point names it, or where it has arguments.
fn profile(value: &Value) -> Profile {
    let points = value["plugins"].as_object().into_iter().flat_map(|points| points.values());
    let enabled = points.filter_map(|point| point["enabled"].as_array()).flatten();
    let enabled = enabled.filter_map(|plugin| named(plugin, "args")).filter(|plugin| plugin.name != "*");
    let configured = value["pluginConfig"].as_array().into_iter().flatten().filter_map(|plugin| named(plugin, "args"));
    let mut plugins: BTreeMap<String, Value> = BTreeMap::new();
    for Plugin { name, arguments } in enabled.chain(configured) {
        let known = plugins.entry(name).or_default();
        if !arguments.is_null() {
            *known = arguments;
        }
    }
    Profile {
        name: value["schedulerName"].as_str().unwrap_or("default-scheduler").to_owned(),
        plugins: plugins.into_iter().map(|(name, arguments)| Plugin { name, arguments }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn configurations_are_found_in_config_maps_and_by_themselves() {
        let text = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: batch
  plugins:
    multiPoint: {enabled: [{name: CapacityScheduling}], disabled: [{name: '*'}]}
  pluginConfig:
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}
";
        let map = json!({"kind": "ConfigMap", "metadata": {"namespace": "a", "name": "c"},
            "data": {"other.sh": "actions: [", "scheduler.yaml": text}});
        let [SchedulerConf::Kube { place, profiles, extenders: 0 }] = &SchedulerConf::all("-", &map)[..] else {
            panic!("one is there")
        };
        assert_eq!((place.as_str(), profiles[0].name.as_str()), ("ConfigMap a/c", "batch"));
        assert_eq!(profiles[0].plugins.len(), 2);
        assert!(profiles[0].plugin("CapacityScheduling").is_some_and(|plugin| plugin.arguments.is_null()));
        let conf = json!({"actions": "enqueue, allocate",
            "tiers": [{"plugins": [{"name": "gang"}, {"name": "capacity-card", "arguments": {"nodeOrderWeight": 2}}]}]});
        let [SchedulerConf::Volcano { actions, plugins, .. }] = &SchedulerConf::all("f", &conf)[..] else {
            panic!("one is there")
        };
        assert_eq!((actions.len(), plugins.len()), (2, 2));
        assert_eq!(plugins[1].arguments["nodeOrderWeight"], 2);
        assert!(SchedulerConf::all("f", &json!({"kind": "Pod", "actions": "x"})).is_empty());
        assert!(SchedulerConf::all("f", &json!({"on": "push"})).is_empty());
    }
}
