//! Where a pod wants to be: near which nodes, near which pods, and how evenly spread.

use quotient_engine::fact::{
    Effect, Labels, Name, NodeTerm, Operator, PodTerm, Selector, SpreadConstraint, Toleration, TolerationOperator,
    WhenUnsatisfiable,
};

use crate::cursor::Cursor;
use crate::intern::Interner;
use crate::selector::{equality, label_selector, names, node_term, node_terms, selector};

/// The pod whose terms are read: terms may refer to its namespace and its labels.
pub(crate) struct Own<'a> {
    pub namespace: &'a Name,
    pub labels: &'a Labels,
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// The required terms of a node affinity, if there is such a rule.
pub(crate) fn required_nodes(affinity: &Cursor<'_, '_>, interner: &mut Interner) -> Option<Vec<NodeTerm>> {
    let node_affinity = affinity.field("nodeAffinity");
    let required = node_affinity.field(REQUIRED);
    required.value()?;
    Some(node_terms(&required.field("nodeSelectorTerms"), interner))
}

/// The preferred terms of a node affinity. One without conditions selects nothing and is left out.
pub(crate) fn preferred_nodes(affinity: &Cursor<'_, '_>, interner: &mut Interner) -> Vec<(i32, NodeTerm)> {
    let node_affinity = affinity.field("nodeAffinity");
    let preferred = node_affinity.field(PREFERRED);
    let terms = preferred.items().filter_map(|item| {
        let term = node_term(&item.field("preference"), interner);
        Some((weight(&item)?, term))
    });
    terms.filter(|(_, term)| *term != NodeTerm::default()).collect()
}

/// The required terms of `podAffinity` or `podAntiAffinity`.
pub(crate) fn required_pods(at: &Cursor<'_, '_>, own: &Own<'_>, interner: &mut Interner) -> Vec<PodTerm> {
    at.field(REQUIRED).items().filter_map(|term| pod_term(&term, own, interner)).collect()
}

/// The preferred terms of `podAffinity` or `podAntiAffinity`.
pub(crate) fn preferred_pods(at: &Cursor<'_, '_>, own: &Own<'_>, interner: &mut Interner) -> Vec<(i32, PodTerm)> {
    let preferred = at.field(PREFERRED);
    let terms = preferred.items().filter_map(|item| {
        let term = pod_term(&item.field("podAffinityTerm"), own, interner)?;
        Some((weight(&item)?, term))
    });
    terms.collect()
}

fn weight(item: &Cursor<'_, '_>) -> Option<i32> {
    let at = item.field("weight");
    match at.int::<i32>() {
        Some(weight @ 1..=100) => Some(weight),
        _ => {
            at.note("expected a weight from 1 to 100");
            None
        }
    }
}

fn pod_term(at: &Cursor<'_, '_>, own: &Own<'_>, interner: &mut Interner) -> Option<PodTerm> {
    let topology_key = topology_key(at, interner)?;
    let mut term_selector = label_selector(&at.field("labelSelector"), interner);
    merge_keys(&mut term_selector, &at.field("matchLabelKeys"), Operator::In, own.labels);
    merge_keys(&mut term_selector, &at.field("mismatchLabelKeys"), Operator::NotIn, own.labels);
    let mut namespaces = names(&at.field("namespaces"), interner);
    namespaces.sort();
    namespaces.dedup();
    let namespace_selector = label_selector(&at.field("namespaceSelector"), interner);
    if namespaces.is_empty() && !at.field("namespaceSelector").exists() {
        namespaces.push(own.namespace.clone());
    }
    Some(PodTerm { topology_key, selector: term_selector, namespaces, namespace_selector })
}

fn topology_key(at: &Cursor<'_, '_>, interner: &mut Interner) -> Option<Name> {
    let key = at.field("topologyKey");
    let text = key.non_empty_str();
    if text.is_none() {
        key.note("expected the key of a node label");
    }
    text.map(|text| interner.name(text))
}

/// Adds a condition for each key that the pod has a label of: that another pod's value is the same, or
/// is not. Keys that the pod lacks say nothing. A selector of nothing stays one.
fn merge_keys(term: &mut Option<Selector>, keys: &Cursor<'_, '_>, operator: Operator, labels: &Labels) {
    let keys = keys.strs();
    let Some(current) = term.take_if(|_| !keys.is_empty()) else { return };
    let mut requirements = current.requirements;
    for (key, value) in labels.iter().filter(|(key, _)| keys.contains(&&**key)) {
        requirements.push(equality(key, operator, value));
    }
    *term = Some(selector(requirements));
}

/// The pod's own spread constraints.
pub(crate) fn spread(spec: &Cursor<'_, '_>, own: &Own<'_>, interner: &mut Interner) -> Vec<SpreadConstraint> {
    let list = spec.field("topologySpreadConstraints");
    list.items().filter_map(|constraint| spread_constraint(&constraint, own, interner)).collect()
}

fn spread_constraint(at: &Cursor<'_, '_>, own: &Own<'_>, interner: &mut Interner) -> Option<SpreadConstraint> {
    let topology_key = topology_key(at, interner)?;
    let max_skew_at = at.field("maxSkew");
    let Some(max_skew) = max_skew_at.int::<u32>().filter(|skew| *skew >= 1) else {
        max_skew_at.note("expected a whole number above 0");
        return None;
    };
    let when_at = at.field("whenUnsatisfiable");
    let when = match when_at.str() {
        Some("DoNotSchedule") => WhenUnsatisfiable::DoNotSchedule,
        Some("ScheduleAnyway") => WhenUnsatisfiable::ScheduleAnyway,
        _ => {
            when_at.note("expected DoNotSchedule or ScheduleAnyway");
            return None;
        }
    };
    let mut constraint_selector = label_selector(&at.field("labelSelector"), interner);
    merge_keys(&mut constraint_selector, &at.field("matchLabelKeys"), Operator::In, own.labels);
    let min_domains_at = at.field("minDomains");
    let min_domains = min_domains_at.int::<u32>();
    if min_domains == Some(0) {
        min_domains_at.note("expected a whole number above 0");
    }
    let honors = |policy: &Cursor<'_, '_>, default: bool| match policy.str() {
        None => default,
        Some("Honor") => true,
        Some("Ignore") => false,
        Some(_) => {
            policy.note("expected Honor or Ignore");
            default
        }
    };
    Some(SpreadConstraint {
        topology_key,
        max_skew,
        when,
        selector: constraint_selector,
        min_domains,
        honor_affinity: honors(&at.field("nodeAffinityPolicy"), true),
        honor_taints: honors(&at.field("nodeTaintsPolicy"), false),
    })
}

/// What the pod puts up with.
pub(crate) fn tolerations(spec: &Cursor<'_, '_>, interner: &mut Interner) -> Vec<Toleration> {
    spec.field("tolerations").items().filter_map(|at| toleration(&at, interner)).collect()
}

fn toleration(at: &Cursor<'_, '_>, interner: &mut Interner) -> Option<Toleration> {
    let operator_at = at.field("operator");
    let operator = match operator_at.str() {
        None | Some("" | "Equal") => TolerationOperator::Equal,
        Some("Exists") => TolerationOperator::Exists,
        Some("Lt") => TolerationOperator::Lt,
        Some("Gt") => TolerationOperator::Gt,
        Some(_) => {
            operator_at.note("expected Equal, Exists, Lt or Gt");
            return None;
        }
    };
    let key = at.field("key").non_empty_str().map(|key| interner.name(key));
    if key.is_none() && operator != TolerationOperator::Exists {
        operator_at.note("expected Exists where no key is given");
        return None;
    }
    let value_at = at.field("value");
    let value = value_at.str().unwrap_or_default();
    if operator == TolerationOperator::Exists && !value.is_empty() {
        value_at.note("expected no value with the operator Exists");
        return None;
    }
    let effect_at = at.field("effect");
    let effect = match effect_at.non_empty_str() {
        None => None,
        Some(_) => Some(effect(&effect_at)?),
    };
    Some(Toleration { key, operator, value: interner.name(value), effect })
}

/// The effect of a taint or a toleration.
pub(crate) fn effect(at: &Cursor<'_, '_>) -> Option<Effect> {
    match at.str() {
        Some("NoSchedule") => Some(Effect::NoSchedule),
        Some("PreferNoSchedule") => Some(Effect::PreferNoSchedule),
        Some("NoExecute") => Some(Effect::NoExecute),
        _ => {
            at.note("expected NoSchedule, PreferNoSchedule or NoExecute");
            None
        }
    }
}
