//! What pods may name that nobody else does: as much as the limit, held beyond it, and given back.

use std::sync::Arc;

use quotient_engine::fact::{
    Amounts, Created, Fact, Labels, Name, NodeFact, PodFact, PodKey, PodSpec, PodTerm, SpreadConstraint,
    WhenUnsatisfiable,
};
use quotient_engine::limits::POD_NAMES_MAX;
use quotient_engine::{Budget, Code, Decision, Decisions, Engine, Settings, Tick};

const NOW: Tick = Tick(0);

fn name(text: &str) -> Name {
    Name::from(text)
}

fn node(named: &str, resources: &[&str], labels: &[&str]) -> Fact {
    let all = ["cpu", "pods"].iter().chain(resources).map(|resource| (name(resource), 100));
    let labels: Labels = labels.iter().map(|key| (name(key), name(named))).collect();
    Fact::Node(NodeFact { name: name(named), allocatable: all.collect(), labels, ..NodeFact::default() })
}

fn pod(named: &str, spec: PodSpec) -> PodFact {
    PodFact {
        namespace: name("a"),
        name: name(named),
        uid: name(named),
        created: Created(0),
        spec: Arc::new(spec),
        ours: true,
        ..PodFact::default()
    }
}

fn requesting(resources: impl Iterator<Item = String>) -> PodSpec {
    let requests: Amounts = resources.map(|resource| (name(&resource), 1)).collect();
    PodSpec { requests, ..PodSpec::default() }
}

fn spread(keys: impl Iterator<Item = String>) -> PodSpec {
    let rule = |key: String| SpreadConstraint {
        topology_key: name(&key),
        max_skew: 1,
        when: WhenUnsatisfiable::ScheduleAnyway,
        selector: None,
        min_domains: None,
        honor_affinity: true,
        honor_taints: false,
    };
    PodSpec { spread: keys.map(rule).collect(), ..PodSpec::default() }
}

fn term(key: String) -> PodTerm {
    PodTerm { topology_key: name(&key), selector: None, namespaces: vec![name("a")], namespace_selector: None }
}

fn held(decisions: &Decisions, pod: &str) -> Option<Code> {
    let mut held = decisions.list.iter().filter_map(|decision| match decision {
        Decision::Hold { pod: key, reason, .. } if &*key.name == pod => Some(reason.code),
        _ => None,
    });
    held.next_back()
}

fn is_bound(decisions: &Decisions, pod: &str) -> bool {
    decisions.list.iter().any(|decision| matches!(decision, Decision::Bind { pod: key, .. } if &*key.name == pod))
}

#[test]
fn a_pod_is_held_for_a_resource_beyond_the_limit_until_a_name_is_given_back() {
    let mut engine = Engine::new(Settings::default());
    engine.observe(NOW, node("n", &["gpu"], &[]));
    engine.observe(NOW, Fact::Pod(pod("most", requesting((0..POD_NAMES_MAX).map(|i| format!("r{i}"))))));
    let decisions = engine.decide(NOW, Budget::default());
    assert_eq!(held(&decisions, "most"), Some(Code::NoFittingNode), "within the limit it is a pod like any other");
    let beyond = Fact::Pod(pod("beyond", requesting(["one-more".to_string()].into_iter())));
    engine.observe(NOW, beyond.clone());
    engine.observe(NOW, Fact::Pod(pod("other", requesting(["gpu".to_string(), "r0".to_string()].into_iter()))));
    engine.observe(NOW, Fact::Pod(pod("plain", requesting(["gpu".to_string()].into_iter()))));
    let decisions = engine.decide(NOW, Budget::default());
    assert_eq!(held(&decisions, "beyond"), Some(Code::InvalidRequest));
    assert_eq!(held(&decisions, "other"), Some(Code::NoFittingNode), "it brings no other name");
    assert!(is_bound(&decisions, "plain"), "the others are scheduled");
    engine.observe(NOW, Fact::PodGone(PodKey { namespace: name("a"), name: name("most") }));
    engine.observe(NOW, beyond);
    let decisions = engine.decide(NOW, Budget::default());
    assert_eq!(held(&decisions, "beyond"), Some(Code::NoFittingNode), "there is room for its name");
    engine.observe(NOW, node("m", &["one-more"], &[]));
    assert!(is_bound(&engine.decide(NOW, Budget::default()), "beyond"), "a node has it now");
}

#[test]
fn a_pod_is_held_for_a_topology_key_beyond_the_limit_and_keys_of_nodes_do_not_count() {
    let mut engine = Engine::new(Settings::default());
    engine.observe(NOW, node("n", &[], &["zone"]));
    engine.observe(NOW, Fact::Pod(pod("most", spread((0..POD_NAMES_MAX).map(|i| format!("k{i}"))))));
    engine.observe(NOW, Fact::Pod(pod("beyond", spread(["one-more".to_string()].into_iter()))));
    engine.observe(NOW, Fact::Pod(pod("zoned", spread(["zone".to_string()].into_iter()))));
    let decisions = engine.decide(NOW, Budget::default());
    assert!(is_bound(&decisions, "most") && is_bound(&decisions, "zoned"), "{decisions:?}");
    assert_eq!(held(&decisions, "beyond"), Some(Code::InvalidRequest));
}

#[test]
fn more_names_than_sixteen_bits_hold_come_and_go() {
    let mut engine = Engine::new(Settings::default());
    engine.observe(NOW, node("n", &[], &[]));
    for round in 0..80 {
        let resources = (0..POD_NAMES_MAX).map(|i| format!("r{round}-{i}"));
        let terms = (0..POD_NAMES_MAX).map(|i| term(format!("k{round}-{i}")));
        let spec = PodSpec { anti_affinity: terms.collect(), ..requesting(resources) };
        let fact = pod(&format!("p{round}"), spec);
        let key = fact.key();
        engine.observe(NOW, Fact::Pod(fact));
        let decisions = engine.decide(NOW, Budget::default());
        assert_eq!(held(&decisions, &format!("p{round}")), Some(Code::NoFittingNode), "round {round}");
        engine.observe(NOW, Fact::PodGone(key));
    }
}
