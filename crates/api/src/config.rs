//! The settings of a cluster: the body of a `QuotientConfiguration`.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::crossquota::CrossQuota;
use crate::cursor::{Cursor, Notes};
use crate::problem::Problem;
use crate::read;
use crate::time::parse_duration;
use crate::translate::TranslatorSettings;
use crate::volcano_conf::{self, VolcanoConf};

/// The settings. What is left out has its default.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// Pods that name one of these in `spec.schedulerName` are ours.
    pub scheduler_names: Vec<String>,
    /// After this long a waiting pod that cannot run may hold a node for itself.
    pub reserve_after: Duration,
    /// So long a waiting pod that only lacks room waits for a node to come, before others are evicted for it.
    pub evict_after: Duration,
    /// What a whole NVIDIA GPU counts in gigabytes of GPU memory.
    pub nvidia_gpu_resource_memory_gb: u32,
    pub tree: Option<TreeSettings>,
    pub cards: Option<CardSettings>,
    /// The caps on what pods without GPUs hold on GPU nodes.
    pub cross_quota: Option<CrossQuota>,
    /// Whether jobs of several tasks get their pods from here. Where Volcano's own controller runs, they must not.
    pub runs_volcano_jobs: bool,
    /// Whether groups are made for pods that say how many of them must be able to run, and say how they stand.
    pub runs_pod_groups: bool,
    /// Whether the roots of quota trees follow the nodes that their profiles select.
    pub runs_profiles: bool,
    /// Whether queues and quotas of trees may be used only by namespaces that they list (`tenancy: {use: listed}`).
    pub listed_users_only: bool,
    /// What is logged, such as `debug`; the environment's where it is not given.
    pub log: Option<String>,
    /// What was read and has no effect: no mistake, but worth telling.
    pub idle: Vec<Problem>,
}

/// Settings of quota trees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeSettings {
    /// For how long a quota may use more than its runtime before pods of it are evicted.
    pub revoke_after: Option<Duration>,
    /// Whether minima are scaled down where they sum up to more than there is.
    pub scale_min: Option<bool>,
}

/// Settings of card quotas.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CardSettings {
    /// Whether pods with cards go unchecked against cpu and memory quotas.
    pub card_unlimited_cpu_memory: Option<bool>,
    /// The weight of the order of nodes by card.
    pub node_order_weight: Option<i64>,
}

impl Default for Configuration {
    fn default() -> Self {
        Configuration {
            scheduler_names: vec!["quotient".to_string()],
            reserve_after: Duration::from_secs(5 * 60),
            evict_after: Duration::ZERO,
            nvidia_gpu_resource_memory_gb: 16,
            tree: None,
            cards: None,
            cross_quota: None,
            runs_volcano_jobs: true,
            runs_pod_groups: true,
            runs_profiles: true,
            listed_users_only: false,
            log: None,
            idle: Vec::new(),
        }
    }
}

impl Configuration {
    /// Whether the two decide alike: all but what is logged is equal.
    pub fn decides_like(&self, other: &Configuration) -> bool {
        let silent = |configuration: &Configuration| Configuration { log: None, ..configuration.clone() };
        silent(self) == silent(other)
    }

    /// What of it the engine is told.
    pub fn engine_settings(&self) -> quotient_engine::Settings {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let mut settings = quotient_engine::Settings {
            reserve_after_ms: millis(self.reserve_after),
            evict_after_ms: millis(self.evict_after),
            caps: self.cross_quota.as_ref().map(CrossQuota::settings).unwrap_or_default(),
            listed_users_only: self.listed_users_only,
            ..quotient_engine::Settings::default()
        };
        (settings.tree.default_quota, settings.tree.system_quota) =
            (crate::tree::DEFAULT.into(), crate::tree::SYSTEM.into());
        if let Some(tree) = &self.tree {
            settings.tree.revoke_after_ms = tree.revoke_after.map_or(settings.tree.revoke_after_ms, millis);
            settings.tree.scale_min = tree.scale_min.unwrap_or(settings.tree.scale_min);
        }
        if let Some(cards) = &self.cards {
            let CardSettings { card_unlimited_cpu_memory, node_order_weight } = cards;
            settings.cards.unlimited_cpu_memory = card_unlimited_cpu_memory.unwrap_or(false);
            settings.cards.node_order_weight = node_order_weight.unwrap_or(settings.cards.node_order_weight);
        }
        settings
    }
}

/// The keys of a configuration.
const KEYS: [&str; 12] = [
    "schedulerNames",
    "reserveAfter",
    "evictAfter",
    "nvidiaGPUResourceMemoryGB",
    "tree",
    "cards",
    "crossQuota",
    "volcanoJobController",
    "podGroupController",
    "profileController",
    "tenancy",
    "log",
];

/// The keys that every object has.
const OBJECT_KEYS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Configuration {
    /// How objects are translated by it. `scheduler_names`: which pods are ours; `None` is every pod.
    pub fn translator_settings(&self, scheduler_names: Option<Vec<String>>) -> TranslatorSettings {
        let whole_gpu_gb = self.nvidia_gpu_resource_memory_gb;
        let cross_quota = self.cross_quota.clone();
        let needs_consent = self.listed_users_only;
        TranslatorSettings {
            scheduler_names,
            whole_gpu_gb,
            cross_quota,
            needs_consent,
            ..TranslatorSettings::default()
        }
    }

    /// Reads the body of a configuration; `apiVersion`, `kind` and `metadata` may be there or not. The
    /// configuration of a Volcano scheduler is read as it stands, in its ConfigMap or without it. All problems are
    /// given at once.
    pub fn from_value(value: &Value) -> Result<Configuration, Vec<Problem>> {
        let notes = Notes::default();
        let held = volcano_conf::in_config_map(value)?;
        let value = held.as_ref().unwrap_or(value);
        let root = Cursor::root(value, &notes);
        let is_conf = volcano_conf::is_conf(value);
        let configuration = if is_conf { Self::read_volcano(&root) } else { Self::read_cursor(&root) };
        let problems: Vec<Problem> = notes.into_vec().into_iter().map(Problem::from).collect();
        if problems.is_empty() { Ok(configuration) } else { Err(problems) }
    }

    /// Reads a file that holds one configuration. An empty file is one with every default.
    pub fn read_path(path: &Path) -> Result<Configuration, Vec<Problem>> {
        let file = path.display().to_string();
        let text = read::read_text(path).map_err(|problem| vec![problem])?;
        let (values, problems) = read::parse(&file, &text);
        if !problems.is_empty() {
            return Err(problems);
        }
        let in_file = |problems: Vec<Problem>| -> Vec<Problem> {
            problems.into_iter().map(|p| p.in_file(file.as_str())).collect()
        };
        match &values[..] {
            [] => Ok(Configuration::default()),
            [(_, value)] => {
                let mut configuration = Self::from_value(value).map_err(in_file)?;
                configuration.idle = in_file(configuration.idle);
                Ok(configuration)
            }
            more => Err(in_file(vec![Problem::new(format!("holds {} documents: expected one", more.len()))])),
        }
    }

    fn read_volcano(root: &Cursor<'_, '_>) -> Configuration {
        let mut idle = Vec::new();
        let VolcanoConf { cross_quota, cards } = volcano_conf::read_conf(root, &mut idle);
        Configuration { cross_quota, cards, idle, ..Configuration::default() }
    }

    fn read_cursor(root: &Cursor<'_, '_>) -> Configuration {
        let defaults = Configuration::default();
        known_keys(root, &KEYS, &OBJECT_KEYS);
        let kind = root.field("kind");
        if kind.str().is_some_and(|kind| kind != "QuotientConfiguration") {
            kind.note("expected QuotientConfiguration");
        }
        let api_version = root.field("apiVersion");
        if api_version.str().is_some_and(|version| version != "quotient.dev/v1alpha1") {
            api_version.note("expected quotient.dev/v1alpha1");
        }
        let scheduler_names = root.field("schedulerNames");
        let names: Vec<String> = scheduler_names.strs().into_iter().map(str::to_string).collect();
        if scheduler_names.exists() && (names.is_empty() || names.iter().any(String::is_empty)) {
            scheduler_names.note("expected at least one name, and none that is empty");
        }
        let memory = root.field("nvidiaGPUResourceMemoryGB");
        let mut idle = Vec::new();
        let cross_quota = root.field("crossQuota");
        let cross_quota = cross_quota.value().map(|_| CrossQuota::read(&cross_quota, &mut idle));
        Configuration {
            scheduler_names: if scheduler_names.exists() { names } else { defaults.scheduler_names },
            reserve_after: duration(&root.field("reserveAfter")).unwrap_or(defaults.reserve_after),
            evict_after: duration(&root.field("evictAfter")).unwrap_or(defaults.evict_after),
            nvidia_gpu_resource_memory_gb: memory.int().unwrap_or(defaults.nvidia_gpu_resource_memory_gb),
            tree: tree(&root.field("tree")),
            cards: cards(&root.field("cards")),
            cross_quota,
            runs_volcano_jobs: root.field("volcanoJobController").bool().unwrap_or(defaults.runs_volcano_jobs),
            runs_pod_groups: root.field("podGroupController").bool().unwrap_or(defaults.runs_pod_groups),
            runs_profiles: root.field("profileController").bool().unwrap_or(defaults.runs_profiles),
            listed_users_only: lists_users(&root.field("tenancy")),
            log: root.field("log").str().map(str::to_string),
            idle,
        }
    }
}

/// What `tenancy` says of quotas that do not list who may use them.
fn lists_users(at: &Cursor<'_, '_>) -> bool {
    known_keys(at, &["use"], &[]);
    let used = at.field("use");
    match used.str() {
        None | Some("all") => false,
        Some("listed") => true,
        Some(_) => {
            used.note("expected all or listed");
            false
        }
    }
}

fn tree(at: &Cursor<'_, '_>) -> Option<TreeSettings> {
    at.value()?;
    known_keys(at, &["revokeAfter", "scaleMin"], &[]);
    Some(TreeSettings { revoke_after: duration(&at.field("revokeAfter")), scale_min: at.field("scaleMin").bool() })
}

fn cards(at: &Cursor<'_, '_>) -> Option<CardSettings> {
    at.value()?;
    known_keys(at, &["cardUnlimitedCpuMemory", "nodeOrderWeight"], &[]);
    Some(CardSettings {
        card_unlimited_cpu_memory: at.field("cardUnlimitedCpuMemory").bool(),
        node_order_weight: at.field("nodeOrderWeight").int(),
    })
}

fn duration(at: &Cursor<'_, '_>) -> Option<Duration> {
    let text = at.str()?;
    parse_duration(text).map_err(|message| at.note(message)).ok()
}

/// Notes every key that is in neither list: a misspelt setting must not silently keep its default.
fn known_keys(at: &Cursor<'_, '_>, known: &[&str], also: &[&str]) {
    for (key, value) in at.entries() {
        if !known.contains(&key) && !also.contains(&key) {
            value.note(format!("is not a key that is known: expected one of {}", known.join(", ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lines(value: &Value) -> Vec<String> {
        let problems = Configuration::from_value(value).expect_err("problems");
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_empty_one_has_every_default() {
        assert_eq!(Configuration::from_value(&json!({})), Ok(Configuration::default()));
    }

    #[test]
    fn every_key_is_read() {
        let value = json!({
            "apiVersion": "quotient.dev/v1alpha1",
            "kind": "QuotientConfiguration",
            "schedulerNames": ["a", "b"],
            "reserveAfter": "1h30m",
            "evictAfter": "10m",
            "nvidiaGPUResourceMemoryGB": 8,
            "tenancy": {"use": "listed"},
            "tree": {"revokeAfter": "2m", "scaleMin": true},
            "cards": {"cardUnlimitedCpuMemory": false, "nodeOrderWeight": 1},
            "crossQuota": {"quota.cpu": "32", "crossQuotaWeight": 10},
            "volcanoJobController": false,
            "podGroupController": false,
            "profileController": false,
            "log": "debug",
        });
        let expected = Configuration {
            scheduler_names: vec!["a".into(), "b".into()],
            reserve_after: Duration::from_secs(5400),
            evict_after: Duration::from_secs(600),
            nvidia_gpu_resource_memory_gb: 8,
            tree: Some(TreeSettings { revoke_after: Some(Duration::from_secs(120)), scale_min: Some(true) }),
            cards: Some(CardSettings { card_unlimited_cpu_memory: Some(false), node_order_weight: Some(1) }),
            cross_quota: Some(CrossQuota::read(
                &Cursor::root(&value["crossQuota"], &Notes::default()),
                &mut Vec::new(),
            )),
            runs_volcano_jobs: false,
            runs_pod_groups: false,
            listed_users_only: true,
            runs_profiles: false,
            log: Some("debug".into()),
            idle: vec![Problem::new("crossquota has no effect without gpu-resource-names")],
        };
        assert_eq!(Configuration::from_value(&value), Ok(expected));
    }

    const CONF: &str = r#"
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
- plugins:
  - name: crossquota
    arguments:
      gpu-resource-names: "nvidia.com/gpu,amd.com/gpu"
      quota-resources: "cpu,memory"
      quota.cpu: "32"
      quota-percentage.memory: "50"
      crossQuotaWeight: 10
      weight.cpu: 10
      weight.memory: 1
  - name: nodeorder
"#;

    fn yaml(text: &str) -> Value {
        read::parse("a.yaml", text).0.remove(0).1
    }

    #[test]
    fn the_configuration_of_a_volcano_scheduler_is_read_as_it_stands() {
        let conf = yaml(CONF);
        let arguments = conf["tiers"][1]["plugins"][0]["arguments"].clone();
        let same = Configuration::from_value(&json!({"crossQuota": arguments})).expect("it can be read");
        let read = Configuration::from_value(&conf).expect("it can be read");
        assert_eq!(read.cross_quota, same.cross_quota);
        assert!(read.cross_quota.is_some() && same.idle.is_empty());
        let idle: Vec<String> = read.idle.iter().map(ToString::to_string).collect();
        assert_eq!(
            idle,
            [
                "plugins without effect here, where only crossquota and capacity-card are read: priority, gang, nodeorder"
            ]
        );
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "volcano-scheduler-configmap"},
            "data": {"volcano-scheduler.conf": CONF}});
        assert_eq!(Configuration::from_value(&map), Ok(read));
    }

    #[test]
    fn the_arguments_of_capacity_card_are_read_quoted_or_not() {
        let conf =
            |arguments: &str| yaml(&format!("tiers: [{{plugins: [{{name: capacity-card, arguments: {arguments}}}]}}]"));
        let read = |arguments: &str| Configuration::from_value(&conf(arguments)).map(|read| read.cards);
        let cards = |unlimited: Option<bool>, weight: Option<i64>| {
            Ok(Some(CardSettings { card_unlimited_cpu_memory: unlimited, node_order_weight: weight }))
        };
        assert_eq!(read("{cardUnlimitedCpuMemory: true}"), cards(Some(true), None));
        assert_eq!(read("{cardUnlimitedCpuMemory: \"false\", nodeOrderWeight: \"2\"}"), cards(Some(false), Some(2)));
        assert_eq!(read("{nodeOrderWeight: 3}"), cards(None, Some(3)));
        assert_eq!(
            Configuration::from_value(&yaml("tiers: [{plugins: [{name: capacity-card}]}]")).map(|c| c.cards),
            cards(None, None)
        );
        let place = "tiers[0].plugins[0].arguments";
        assert_eq!(
            lines(&conf("{cardUnlimitedCpuMemory: yes please}")),
            [format!("{place}.cardUnlimitedCpuMemory: \"yes please\": expected true or false")]
        );
        assert_eq!(
            lines(&conf("{nodeOrderWeight: heavy}")),
            [format!("{place}.nodeOrderWeight: \"heavy\": expected a whole number")]
        );
        assert_eq!(lines(&conf("{cardUnlimited: true}")).len(), 1);
    }

    #[test]
    fn what_is_wrong_in_the_configuration_of_a_volcano_scheduler_is_named() {
        let plugin = |arguments: &str| format!("{{name: crossquota, arguments: {arguments}}}");
        let conf = |plugins: &str| yaml(&format!("tiers: [{{plugins: [{plugins}]}}]"));
        let lots = &lines(&conf(&plugin("{quota.cpu: lots}")))[0];
        assert!(lots.starts_with(r#"tiers[0].plugins[0].arguments["quota.cpu"]: "lots": "#), "{lots}");
        let twice = format!("{}, {}", plugin("{}"), plugin("{}"));
        assert_eq!(lines(&conf(&twice)), [r#"tiers[0].plugins[1].name: "crossquota": is given twice"#]);
        assert_eq!(lines(&conf("{}")), ["tiers[0].plugins[0].name: missing: expected the name of a plugin"]);
        assert_eq!(lines(&json!({"tiers": 1})), ["tiers: 1: expected a list"]);
        let map = |text: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a.conf": text}});
        assert_eq!(lines(&map("tiers: [")).len(), 1);
        assert_eq!(lines(&map("a: 1"))[1], r#"kind: "ConfigMap": expected QuotientConfiguration"#);
    }

    #[test]
    fn what_is_wrong_is_said_all_at_once() {
        let value = json!({
            "kind": "Pod",
            "reserveAfer": "5m",
            "reserveAfter": "5 minutes",
            "schedulerNames": [],
            "nvidiaGPUResourceMemoryGB": -1,
            "tree": {"revoke": 1},
            "cards": [],
            "crossQuota": "none",
        });
        let expected = [
            r#"reserveAfer: "5m": is not a key that is known: expected one of schedulerNames, reserveAfter, evictAfter, nvidiaGPUResourceMemoryGB, tree, cards, crossQuota, volcanoJobController, podGroupController, profileController, tenancy, log"#,
            r#"kind: "Pod": expected QuotientConfiguration"#,
            r#"schedulerNames: []: expected at least one name, and none that is empty"#,
            r#"crossQuota: "none": expected a map"#,
            r#"reserveAfter: "5 minutes": expected a duration such as 30s, 5m or 1h30m"#,
            "nvidiaGPUResourceMemoryGB: -1: is out of range",
            "tree.revoke: 1: is not a key that is known: expected one of revokeAfter, scaleMin",
            "cards: []: expected a map",
        ];
        assert_eq!(lines(&value), expected);
    }
}
