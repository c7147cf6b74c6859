//! The bound on turns: a cycle ends in every build, whatever one pod or gang does in it.
//!
//! Reservations and evictions come to rest by how they are made (`preempt::loops`, `Engine::note_given_up`). Where that
//! fails, the pod or gang that goes round in a circle has no more turns until the cycle ends, and others have theirs.

use std::collections::{BTreeMap, BTreeSet};

use crate::decision::{Decision, Decisions};
use crate::engine::Engine;
use crate::engine::cycle::Turn;
use crate::explain;
use crate::fact::{Created, PodKey};
use crate::gangs::GangId;
use crate::limits::{IDLE_TURNS_MAX, MOVES_MAX};
use crate::nodes::NodeId;
use crate::pods::PodId;
use crate::reason::{Code, Reason};

/// Turns since something was last bound or evicted.
#[derive(Debug, Clone, Default)]
pub(super) struct Turns {
    /// How many decisions of this call were looked at.
    seen: usize,
    idle: usize,
    moves: BTreeMap<PodId, u32>,
    aside: BTreeSet<PodId>,
}

impl Turns {
    /// Another call goes on with the cycle.
    pub fn go_on(&mut self) {
        self.seen = 0;
    }

    /// Counts a turn. Returns whether it is one too many.
    fn count(&mut self, pod: PodId, is_move: bool, decided: &[Decision]) -> bool {
        let is_progress = |decision: &Decision| matches!(decision, Decision::Bind { .. } | Decision::Evict { .. });
        if decided[self.seen..].iter().any(is_progress) {
            self.idle = 0;
            self.moves.clear();
        }
        self.seen = decided.len();
        self.idle += 1;
        if !is_move && self.idle <= IDLE_TURNS_MAX {
            return false;
        }
        let moves = self.moves.entry(pod).or_default();
        *moves += 1;
        *moves > MOVES_MAX
    }
}

impl Engine {
    /// The turn of a pod, or of the gang that it can only be placed with.
    pub(super) fn take_next_turn(&mut self, pod: PodId, gang: Option<GangId>, decisions: &mut Decisions) -> Turn {
        if self.turns.aside.contains(&pod) {
            return Turn::Rests(self.endless(gang), Vec::new());
        }
        let turn = match gang {
            Some(gang) => {
                let levels = self.moving_levels(pod);
                self.take_turn_of_gang(gang, decisions).gated_by(levels)
            }
            None => self.take_turn(pod, decisions),
        };
        let is_move = matches!(turn, Turn::Reserved | Turn::Dropped);
        if !self.turns.count(pod, is_move, &decisions.list) {
            return turn;
        }
        debug_assert!(false, "a cycle comes to an end: {} goes round in a circle", self.world.pods.get(pod).key());
        self.set_aside(pod, gang, decisions);
        Turn::Dropped
    }

    /// Leaves a pod, or the waiting pods of a gang, out of the rest of the cycle, with nothing kept for them.
    fn set_aside(&mut self, pod: PodId, gang: Option<GangId>, decisions: &mut Decisions) {
        let members = gang.map_or_else(|| vec![pod], |gang| self.waiting_members(gang));
        for member in &members {
            if self.world.pods.get(*member).reservation.is_some() {
                self.give_up_reservation(*member, decisions);
            }
        }
        self.turns.aside.extend(members.iter().chain([&pod]));
        self.misled.extend(members);
        decisions.endless.push(self.world.pods.get(pod).key());
    }

    /// Why a pod waits for others to leave a node.
    pub(super) fn awaiting(&self, pod: PodId, victims: &[(PodKey, Option<Created>)], node: NodeId) -> Reason {
        let (namespace, node) = (&self.world.pods.get(pod).namespace, &self.world.nodes.get(node).name);
        explain::awaiting(victims, node, namespace)
    }

    fn endless(&self, gang: Option<GangId>) -> Reason {
        let code = if gang.is_some() { Code::GangIncomplete } else { Code::NoFittingNode };
        let message = "what was reserved for it was given up again and again in one scheduling cycle; it is tried \
                       again in the next one";
        explain::plain(code, message.to_owned(), vec!["report it: this is a defect of Quotient".to_owned()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Name;

    fn bound() -> Decision {
        let pod = PodKey { namespace: Name::from("a"), name: Name::from("p") };
        let (uid, node) = (Name::from("u"), Name::from("n"));
        Decision::Bind { pod, uid, node, claims: Vec::new(), devices: Default::default() }
    }

    #[test]
    fn a_pod_is_set_aside_when_it_reserves_and_gives_up_without_end() {
        let mut turns = Turns::default();
        let mut run = |pod: u32, decided: &[Decision]| turns.count(PodId(pod), true, decided);
        assert!((0..MOVES_MAX).all(|_| !run(1, &[])));
        assert!(run(1, &[]), "one too many");
        assert!(!run(2, &[]), "another pod goes on");
        assert!(!run(1, &[bound()]), "something was bound");
    }

    #[test]
    fn a_turn_without_a_move_counts_when_nothing_was_bound_for_very_long() {
        let mut turns = Turns::default();
        assert!((0..IDLE_TURNS_MAX).all(|_| !turns.count(PodId(1), false, &[])));
        assert!((0..MOVES_MAX).all(|_| !turns.count(PodId(1), false, &[])));
        assert!(turns.count(PodId(1), false, &[]));
    }
}
