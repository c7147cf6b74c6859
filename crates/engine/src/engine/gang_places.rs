//! Nodes for a gang whose pods differ. To take the best node for each pod in turn may find none where there are some,
//! since an earlier pod takes what only a later one needed; here every choice is tried.
//!
//! *The bound.* After [`TRIES_MAX`] tries the gang waits as if there were none. Only nodes that fit one of its pods are
//! tried, and pods that are alike take nodes in order, so that 8 pods on a few nodes are far from it.

use crate::engine::Engine;
use crate::gangs::GangId;
use crate::nodes::NodeId;
use crate::pods::{Place, PodId};
use crate::relations::Effects;

/// The most pods that are put onto nodes for a look.
const TRIES_MAX: u32 = 20_000;

/// A search for places, as far as it got.
struct Search<'a> {
    gang: GangId,
    members: &'a [PodId],
    nodes: Vec<NodeId>,
    /// For each member that was decided about: the number of its node, if it has one.
    chosen: Vec<Option<usize>>,
    effects: Effects,
    tries: u32,
}

impl Engine {
    /// Nodes for enough pods of a gang whose pods differ, if there are any as things stand.
    pub(super) fn places_for_mixed(&mut self, gang: GangId, members: &[PodId]) -> Option<Vec<(PodId, NodeId)>> {
        let group = |member: &PodId| self.world.pods.get(*member).group;
        let (first, rest) = members.split_first()?;
        // Pods that are alike fit one after the other wherever they fit at all.
        if rest.iter().all(|member| group(member).is_some() && group(member) == group(first)) {
            return None;
        }
        // Pods that name cards hold one kind all of them, which is tried kind by kind elsewhere.
        let names_cards =
            |member: &PodId| !self.world.shapes.get(self.world.pods.get(*member).shape).spec().cards.is_empty();
        if members.iter().any(names_cards) {
            return None;
        }
        let mut nodes: Vec<NodeId> = Vec::new();
        for node in self.world.nodes.by_name().collect::<Vec<_>>() {
            if members.iter().any(|member| self.world.is_open(*member, node)) {
                nodes.push(node);
            }
        }
        let effects = Effects::tentative();
        let mut search = Search { gang, members, nodes, chosen: Vec::new(), effects, tries: 0 };
        let is_found = self.place_next(&mut search);
        let Search { nodes, chosen, mut effects, .. } = search;
        let places: Vec<(PodId, NodeId)> =
            members.iter().zip(chosen).filter_map(|(member, at)| Some((*member, nodes[at?]))).collect();
        for (member, _) in places.iter().rev() {
            self.world.leave(*member, Place::Waiting, &mut effects);
        }
        is_found.then_some(places)
    }

    /// Decides about the next pod and all after it. What was chosen stays so where enough have a node; otherwise all is
    /// as it was.
    fn place_next(&mut self, search: &mut Search<'_>) -> bool {
        if self.world.gangs.get(search.gang).is_started() {
            return true;
        }
        let at = search.chosen.len();
        let Some(member) = search.members.get(at).copied() else { return false };
        let group = self.world.pods.get(member).group;
        let alike =
            (0..at).rev().find(|other| group.is_some() && self.world.pods.get(search.members[*other]).group == group);
        // Where one like it was left out, so is this one: which of the two is the same.
        let from = alike.map(|other| search.chosen[other]);
        if from != Some(None) {
            for number in from.flatten().unwrap_or(0)..search.nodes.len() {
                if search.tries >= TRIES_MAX {
                    return false;
                }
                search.tries += 1;
                let node = search.nodes[number];
                if !self.world.is_open(member, node) {
                    continue;
                }
                self.world.enter(member, Place::Assumed(node), &mut search.effects);
                search.chosen.push(Some(number));
                if self.place_next(search) {
                    return true;
                }
                search.chosen.pop();
                self.world.leave(member, Place::Waiting, &mut search.effects);
            }
        }
        let gang = self.world.gangs.get(search.gang);
        let left = u64::from(gang.counted(&gang.tally)) + (search.members.len() - at - 1) as u64;
        if left < u64::from(gang.min_member()) {
            return false;
        }
        search.chosen.push(None);
        let is_found = self.place_next(search);
        if !is_found {
            search.chosen.pop();
        }
        is_found
    }
}
