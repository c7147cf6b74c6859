//! What nodes have of each resource, in columns, and which labels they have.

use crate::fact::{Amount, Name};
use crate::nodes::{NodeId, Nodes, clamp};
use crate::resources::ResourceId;
use crate::sign::Sign;

impl Nodes {
    pub(super) fn count_labels(&mut self, id: NodeId, sign: Sign) {
        for (key, _) in self.list[id.at()].labels.iter() {
            let count = self.label_nodes.or_insert_with(key.clone(), || 0);
            *count = if sign.is_add() { *count + 1 } else { count.saturating_sub(1) };
        }
    }

    /// Whether some node has a label of this key.
    pub fn has_label(&self, key: &Name) -> bool {
        self.label_nodes.get(key).is_some_and(|count| *count > 0)
    }

    pub(super) fn set_allocatable(&mut self, id: NodeId, amounts: &[(ResourceId, Amount)]) {
        for column in self.allocatable.iter_mut().filter(|column| !column.is_empty()) {
            column[id.at()] = 0;
        }
        for (resource, amount) in amounts.iter().filter(|(_, amount)| *amount != 0) {
            self.open_column(*resource);
            self.allocatable[resource.0 as usize][id.at()] = *amount;
        }
        for resource in 0..self.free.len() {
            self.refresh_free(ResourceId(resource as u32), id);
        }
        self.refresh_load(id);
    }

    /// Makes room for a resource that a node has.
    fn open_column(&mut self, resource: ResourceId) {
        let at = resource.0 as usize;
        if self.free.len() <= at {
            self.free.resize_with(at + 1, Vec::new);
            self.allocatable.resize_with(at + 1, Vec::new);
        }
        if self.free[at].is_empty() {
            self.free[at] = vec![0; self.list.len()];
            self.allocatable[at] = vec![0; self.list.len()];
            self.columns += 1;
            for i in 0..self.list.len() {
                self.refresh_free(resource, NodeId(i as u32));
            }
        }
    }

    pub(super) fn refresh_free(&mut self, resource: ResourceId, id: NodeId) {
        let at = resource.0 as usize;
        if self.free.get(at).is_none_or(Vec::is_empty) {
            return;
        }
        let free = self.allocatable[at][id.at()] as i128 - self.held(resource, id) - self.reserved(resource, id);
        self.free[at][id.at()] = clamp(free);
    }
}
