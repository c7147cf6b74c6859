//! Objects as version 0.1.0 wrote them are understood: what survives a restart survives an upgrade too. The text is
//! that of the version, and does not follow the code.

use quotient_api::{Translator, read};
use quotient_engine::Fact;
use quotient_engine::fact::{PodKey, QuotaFact};

const WRITTEN: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: victim, namespace: a, uid: u-1, labels: {nos.nebuly.com/capacity: over-quota}}
spec: {schedulerName: quotient, nodeName: n-0, containers: [{name: c, image: i}]}
status:
  phase: Running
  conditions:
  - type: DisruptionTarget
    status: "True"
    reason: PreemptionByScheduler
    message: preempted by quotient for b/claimant
---
apiVersion: v1
kind: Pod
metadata: {name: claimant, namespace: b, uid: u-2}
spec: {schedulerName: quotient, containers: [{name: c, image: i}]}
status:
  phase: Pending
  nominatedNodeName: n-0
  conditions:
  - {type: PodScheduled, status: "False", reason: Unschedulable, message: "AwaitingVictims: 1 pod is leaving"}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g, namespace: a}
spec: {minMember: 2, queue: q}
status: {phase: Inqueue}
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: t, namespace: a}
spec: {min: {cpu: "1"}, max: {cpu: "2"}}
status:
  used: {cpu: "3"}
  conditions:
  - {type: Overused, status: "True", reason: Overused, message: "", lastTransitionTime: "2026-01-01T00:00:10Z"}
"#;

#[test]
fn what_the_last_version_wrote_is_read() {
    let read = read("written.yaml", WRITTEN);
    assert_eq!(read.problems, []);
    let mut translator = Translator::default();
    let mut facts = Vec::new();
    for document in read.documents {
        let translation = translator.upsert(&document.value);
        assert_eq!(translation.problems, []);
        facts.extend(translation.facts);
    }
    let pod = |name: &str| {
        facts.iter().find_map(|fact| match fact {
            Fact::Pod(pod) if *pod.name == *name => Some(pod),
            _ => None,
        })
    };
    let victim = pod("victim").expect("it is told");
    assert_eq!(victim.victim_of, Some(PodKey { namespace: "b".into(), name: "claimant".into() }));
    assert_eq!(victim.marks.len(), 1, "the capacity label is read: {:?}", victim.marks);
    assert_eq!(pod("claimant").and_then(|pod| pod.nominated.as_deref()), Some("n-0"));
    let is_admitted = facts.iter().any(|fact| matches!(fact, Fact::Group(group) if group.admitted));
    assert!(is_admitted, "{facts:?}");
    let since = facts.iter().find_map(|fact| match fact {
        Fact::Quota(QuotaFact::Tree(tree)) => tree.overused_since,
        _ => None,
    });
    assert!(since.is_some(), "since when it is over its runtime quota is read");
}
