//! A way of our own through the API server's queues, so that a flood of others' requests holds up no bind; the lease
//! goes the way that leases go.

use serde_json::{Value, json};

use super::{NAME, metadata};

const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io/v1";

/// Our part of the requests that the API server has under way: as much as the controllers of Kubernetes have together.
const SHARES: u32 = 40;

pub fn objects(namespace: &str) -> Vec<Value> {
    let level = json!({
        "apiVersion": FLOW_CONTROL, "kind": "PriorityLevelConfiguration", "metadata": metadata(NAME, None),
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": SHARES,
            "lendablePercent": 50,
            "limitResponse": {"type": "Queue", "queuing": {"queues": 16, "handSize": 4, "queueLengthLimit": 100}},
        }},
    });
    let everything = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"],
        "clusterScope": true}]);
    let leases = json!([{"verbs": ["get", "create", "update"], "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"], "namespaces": [namespace]}]);
    let schema = |name: &str, level: &str, precedence: u32, rules: Value| {
        json!({
            "apiVersion": FLOW_CONTROL, "kind": "FlowSchema", "metadata": metadata(name, None),
            "spec": {
                "priorityLevelConfiguration": {"name": level},
                "matchingPrecedence": precedence,
                "distinguisherMethod": {"type": "ByUser"},
                "rules": [{
                    "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"name": NAME, "namespace": namespace}}],
                    "resourceRules": rules,
                }],
            },
        })
    };
    vec![level, schema("quotient-lease", "leader-election", 150, leases), schema(NAME, NAME, 500, everything)]
}
