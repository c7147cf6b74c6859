//! What pods and reservations use on a node: amounts, ports, volumes and disks.

use crate::fact::{HostPort, Name};
use crate::nodes::{Column, NodeId, Nodes};
use crate::resources::Demand;
use crate::sign::Sign;

impl Nodes {
    /// Adds what a pod holds (or takes it off).
    pub fn hold(&mut self, id: NodeId, demand: &Demand, sign: Sign) {
        self.change(id, demand, sign, Column::Held);
    }

    /// Adds what a reservation holds (or takes it off).
    pub fn reserve(&mut self, id: NodeId, demand: &Demand, sign: Sign) {
        self.change(id, demand, sign, Column::Reserved);
    }

    /// Notes that what a pod holds will be free (or no longer).
    pub fn count_leaving(&mut self, id: NodeId, demand: &Demand, sign: Sign) {
        self.change(id, demand, sign, Column::Leaving);
    }

    fn change(&mut self, id: NodeId, demand: &Demand, sign: Sign, which: Column) {
        for (resource, amount) in &demand.amounts {
            let node = &mut self.list[id.at()];
            let column = match which {
                Column::Held => &mut node.held,
                Column::Reserved => &mut node.reserved,
                Column::Leaving => &mut node.leaving,
            };
            if column.len() <= resource.0 as usize {
                column.resize(resource.0 as usize + 1, 0);
            }
            let entry = &mut column[resource.0 as usize];
            *entry += sign.of(i128::from(*amount));
            debug_assert!(*entry >= 0, "no amount held or reserved is ever negative");
            self.refresh_free(*resource, id);
        }
        self.list[id.at()].cap.count(demand, sign, which);
        if which != Column::Leaving {
            let assumed = &mut self.list[id.at()].assumed;
            assumed[0] += sign.of(i128::from(demand.assumed.0));
            assumed[1] += sign.of(i128::from(demand.assumed.1));
            self.refresh_load(id);
        }
        self.touch(id);
    }

    /// Adds a host port (or takes it off).
    pub fn use_port(&mut self, id: NodeId, port: &HostPort, sign: Sign) {
        let ports = &mut self.list[id.at()].ports;
        match ports.iter().position(|(p, _)| p == port) {
            Some(i) if sign.is_add() => ports[i].1 += 1,
            Some(i) => {
                ports[i].1 -= 1;
                if ports[i].1 == 0 {
                    ports.swap_remove(i);
                }
            }
            None if sign.is_add() => ports.push((port.clone(), 1)),
            None => debug_assert!(false, "only a port in use can be given back"),
        }
    }

    /// Adds a use of an attached volume (or takes it off).
    pub fn use_volume(&mut self, id: NodeId, driver: &Name, handle: &Name, sign: Sign) {
        let attached = &mut self.list[id.at()].attached;
        let key = (driver.clone(), handle.clone());
        let count = attached.entry(key.clone()).or_insert(0);
        debug_assert!(sign.is_add() || *count > 0, "only a volume that is attached can be detached");
        *count = if sign.is_add() { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            attached.remove(&key);
        }
    }

    /// Adds a use of a disk (or takes it off).
    pub fn use_disk(&mut self, id: NodeId, disk: &Name, read_only: bool, sign: Sign) {
        let disks = &mut self.list[id.at()].disks;
        let count = disks.entry(disk.clone()).or_insert((0, 0));
        let side = if read_only { &mut count.1 } else { &mut count.0 };
        *side = if sign.is_add() { *side + 1 } else { side.saturating_sub(1) };
        if *count == (0, 0) {
            disks.remove(disk);
        }
    }
}
