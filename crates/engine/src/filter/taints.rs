//! A taint keeps away pods that do not tolerate it.

use crate::fact::{Effect, Taint, Toleration, TolerationOperator};
use crate::nodes::{Node, repels};

pub(crate) fn closes(node: &Node, tolerations: &[Toleration]) -> bool {
    untolerated(node, tolerations).next().is_some()
}

/// The taints that keep away pods with these tolerations.
pub(crate) fn untolerated<'a>(node: &'a Node, tolerations: &'a [Toleration]) -> impl Iterator<Item = &'a Taint> {
    node.taints.iter().filter(|taint| repels(taint) && !tolerated(taint, tolerations))
}

/// How many taints ask to be spared without being tolerated; what the score counts.
pub(crate) fn asks_to_be_spared(node: &Node, tolerations: &[Toleration]) -> u32 {
    let spare = |taint: &&Taint| taint.effect == Effect::PreferNoSchedule && !tolerated(taint, tolerations);
    node.taints.iter().filter(spare).count() as u32
}

fn tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

/// Whether a toleration puts up with a taint.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    if toleration.effect.is_some_and(|effect| effect != taint.effect) {
        return false;
    }
    if toleration.key.as_ref().is_some_and(|key| *key != taint.key) {
        return false;
    }
    let integers = || Some((taint.value.parse::<i64>().ok()?, toleration.value.parse::<i64>().ok()?));
    match toleration.operator {
        TolerationOperator::Exists => true,
        TolerationOperator::Equal => toleration.value == taint.value,
        TolerationOperator::Lt => integers().is_some_and(|(taint, bound)| taint < bound),
        TolerationOperator::Gt => integers().is_some_and(|(taint, bound)| taint > bound),
    }
}
