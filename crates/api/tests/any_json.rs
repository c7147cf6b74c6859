//! Whatever an object looks like: reading, admitting and translating it never panics.

use proptest::prelude::*;
use quotient_api::{ObjectKey, Operation, Request, Translator, View, admit, read};
use serde_json::{Map, Value, json};

/// Field names that readers look at, so that nonsense is found where sense is expected.
const NAMES: &[&str] = &[
    "metadata",
    "name",
    "namespace",
    "labels",
    "annotations",
    "spec",
    "status",
    "containers",
    "initContainers",
    "resources",
    "requests",
    "limits",
    "cpu",
    "memory",
    "nvidia.com/gpu",
    "overhead",
    "restartPolicy",
    "ports",
    "hostPort",
    "containerPort",
    "hostNetwork",
    "affinity",
    "nodeAffinity",
    "podAffinity",
    "podAntiAffinity",
    "tolerations",
    "key",
    "operator",
    "value",
    "values",
    "effect",
    "topologySpreadConstraints",
    "topologyKey",
    "maxSkew",
    "whenUnsatisfiable",
    "labelSelector",
    "matchLabels",
    "matchExpressions",
    "matchFields",
    "matchLabelKeys",
    "nodeSelectorTerms",
    "weight",
    "preference",
    "podAffinityTerm",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
    "volumes",
    "persistentVolumeClaim",
    "claimName",
    "ephemeral",
    "csi",
    "driver",
    "rbd",
    "monitors",
    "image",
    "schedulingGates",
    "priority",
    "priorityClassName",
    "runtimeClassName",
    "conditions",
    "type",
    "message",
    "phase",
    "nodeName",
    "allocatable",
    "capacity",
    "taints",
    "images",
    "names",
    "sizeBytes",
    "drivers",
    "count",
    "selector",
    "template",
    "replicas",
    "storage",
    "claimRef",
    "allowedTopologies",
    "matchLabelExpressions",
    "minAvailable",
    "ownerReferences",
    "controller",
    "items",
    "min",
    "max",
    "namespaces",
    "creationTimestamp",
    "volcano.sh/card.quota",
    "volcano.sh/card.request",
    "volcano.sh/card.name",
    "volcano.sh/preemptable",
    "scheduling.volcano.sh/queue-name",
    "scheduling.volcano.sh/group-min-member",
    "scheduling.k8s.io/group-name",
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.memory",
    "nvidia.com/gpu.replicas",
    "nvidia.com/gpu.shared",
    "capability",
    "deserved",
    "guarantee",
    "resource",
    "parent",
    "reclaimable",
    "queue",
    "minMember",
    "minTaskMember",
    "minResources",
    "tasks",
    "policies",
    "event",
    "events",
    "action",
    "exitCode",
    "state",
];

const TEXTS: &[&str] = &[
    "",
    "a",
    "1",
    "-1",
    "1e3",
    "500m",
    "9Ei",
    "1.5GB",
    "Always",
    "In",
    "Exists",
    "Gt",
    "NoSchedule",
    "Equal",
    "DoNotSchedule",
    "Honor",
    "DisruptionTarget",
    "True",
    "x for a/b",
    "2026-01-02T03:04:05Z",
    "50%",
    "\u{1f600}\n",
    "quotient",
    "kata",
    "{\"A100|H100\": 4}",
    "A100|H100",
    "root",
    "default",
    "Closed",
    "PodFailed",
    "RestartJob",
];

const KINDS: &[(&str, &str)] = &[
    ("v1", "Pod"),
    ("v1", "Node"),
    ("v1", "Namespace"),
    ("v1", "Service"),
    ("v1", "PersistentVolume"),
    ("v1", "PersistentVolumeClaim"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "Job"),
    ("policy/v1", "PodDisruptionBudget"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("node.k8s.io/v1", "RuntimeClass"),
    ("storage.k8s.io/v1", "StorageClass"),
    ("storage.k8s.io/v1", "CSINode"),
    ("scheduling.x-k8s.io/v1alpha1", "ElasticQuota"),
    ("nos.nebuly.com/v1alpha1", "CompositeElasticQuota"),
    ("scheduling.volcano.sh/v1beta1", "Queue"),
    ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    ("batch.volcano.sh/v1alpha1", "Job"),
    ("quotient.dev/v1alpha1", "QuotientConfiguration"),
    ("v1", "List"),
    ("v1", "Unknown"),
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        proptest::sample::select(TEXTS).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(8, 128, 6, |inner| {
        prop_oneof![
            1 => proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => proptest::collection::vec((proptest::sample::select(NAMES), inner), 0..6)
                .prop_map(|fields| {
                    let fields = fields.into_iter().map(|(k, v)| (k.to_string(), v));
                    Value::Object(fields.collect::<Map<_, _>>())
                }),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    (proptest::sample::select(KINDS), value(), value(), value(), any::<bool>()).prop_map(
        |((version, kind), metadata, spec, status, named)| {
            let mut object =
                json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec, "status": status});
            if named {
                object["metadata"] = json!({"name": "o", "namespace": "a", "labels": {"app": "x"}});
            }
            object
        },
    )
}

/// A cluster that has nothing, or one object as every object.
struct Everywhere<'a>(Option<&'a Value>);

impl View for Everywhere<'_> {
    fn get(&self, _: &ObjectKey) -> Option<&Value> {
        self.0
    }

    fn list(&self, _: &str, _: &str, _: Option<&str>) -> Vec<&Value> {
        self.0.into_iter().collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn translation_never_panics_and_problems_are_one_line(object in object()) {
        for problem in Translator::default().upsert(&object).problems {
            prop_assert!(!problem.to_string().contains('\n'));
        }
    }

    #[test]
    fn a_translator_shares_and_does_not_change(objects in proptest::collection::vec(object(), 1..4)) {
        let mut shared = Translator::default();
        // What an elastic quota means depends on the others; `elastic.rs` checks how.
        let is_quota = |object: &&Value| object["kind"].as_str().is_some_and(|kind| kind.ends_with("ElasticQuota"));
        for object in objects.iter().filter(|object| !is_quota(object)) {
            prop_assert_eq!(shared.upsert(object), Translator::default().upsert(object));
        }
    }

    #[test]
    fn admission_never_panics(object in object(), old in object(), elsewhere in object(), exists in any::<bool>()) {
        for operation in [Operation::Create, Operation::Update, Operation::Delete] {
            let old = (operation != Operation::Create).then_some(&old);
            let request = Request { operation, object: object.clone(), old };
            match admit(request, &Everywhere(exists.then_some(&elsewhere))) {
                Ok(admitted) => prop_assert!(admitted.object.is_object()),
                Err(rejection) => prop_assert!(!rejection.message.is_empty() && !rejection.message.contains('\n')),
            }
        }
    }

    #[test]
    fn what_was_admitted_is_admitted_again_unchanged(object in object()) {
        let everywhere = Everywhere(None);
        let create = |object: Value| admit(Request { operation: Operation::Create, object, old: None }, &everywhere);
        if let Ok(admitted) = create(object) {
            let again = create(admitted.object.clone()).map(|again| again.object);
            prop_assert_eq!(again, Ok(admitted.object.clone()));
            let (object, old) = (admitted.object.clone(), Some(&admitted.object));
            let updated = admit(Request { operation: Operation::Update, object, old }, &everywhere);
            prop_assert_eq!(updated.map(|updated| updated.object), Ok(admitted.object.clone()));
        }
    }

    #[test]
    fn reading_never_panics(text in ".{0,64}", tokens in proptest::collection::vec(
        proptest::sample::select(&["a", ":", " ", "\n", "-", "{", "}", "[", "]", ",", "&a", "*a", "<<", "|", ">", "'", "\"", "#", "!", "---\n", "  ", "1.5", "?"][..]), 0..24)) {
        for text in [text, tokens.concat()] {
            for problem in read("f.yaml", &text).problems {
                prop_assert!(!problem.to_string().contains('\n'));
            }
        }
    }
}
