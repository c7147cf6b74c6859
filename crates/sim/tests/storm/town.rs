//! The cluster outside of the scheduler: the virtual API server, the controllers of every cluster, and people.

use std::sync::Arc;
use std::time::Duration;

use quotient_api::{ObjectKey, key_of};
use quotient_sim::controllers::Controllers;
use quotient_sim::server::{self, Server};
use quotient_sim::store::Change;
use serde_json::{Value, json};

use crate::storm::dice::Dice;
use crate::storm::observer::Observer;
use crate::storm::say;

/// Something that happened to an object: as it is now, or as it was last.
#[derive(Debug, Clone)]
pub struct Entry {
    pub at_ms: u64,
    pub key: ObjectKey,
    pub object: Arc<Value>,
    pub is_gone: bool,
}

/// The quotas that teams live under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Elastic quotas of one pool.
    Elastic,
    /// Queues, with gangs in them.
    Queues,
    /// Quotas of a tree, below its root.
    Tree,
}

/// How large a town is.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub nodes: u64,
    pub cpus_per_node: u64,
    /// What each team is entitled to, and the most that it may hold.
    pub min: u64,
    pub max: u64,
}

pub const SMALL: Size = Size { nodes: 3, cpus_per_node: 4, min: 4, max: 8 };

pub struct Town {
    pub server: Server,
    pub rules: Rules,
    size: Size,
    controllers: Controllers,
    /// All that happened, in order: what watches tell of.
    pub log: Vec<Entry>,
    pub observer: Observer,
    /// Whether people change quotas and nodes.
    edits: bool,
    made: u64,
}

pub const TEAMS: u64 = 3;

impl Town {
    pub fn new(dice: &mut Dice) -> Self {
        let edits = dice.in_thousand(400);
        let takes = [0, 0, 500, 3_000][dice.roll(4) as usize];
        let rules = [Rules::Elastic, Rules::Elastic, Rules::Queues, Rules::Tree][dice.roll(4) as usize];
        Town::of(rules, SMALL, edits, Duration::from_millis(takes))
    }

    pub fn of(rules: Rules, size: Size, edits: bool, eviction_takes: Duration) -> Self {
        let mut town = Town {
            server: Server::default(),
            rules,
            size,
            controllers: Controllers::default(),
            log: Vec::new(),
            observer: Observer::of(rules),
            edits,
            made: 0,
        };
        town.server.set_eviction_takes(eviction_takes);
        (0..size.nodes).for_each(|index| town.make_node(index));
        (0..TEAMS).for_each(|index| town.set_quota(index, size.min, size.max));
        town.settle();
        town
    }

    pub fn now_ms(&self) -> u64 {
        self.server.clock.tick().0
    }

    fn apply(&mut self, object: Value) {
        let key = key_of(&object);
        // People may be refused; that is no fault.
        let _ = self.server.apply(object);
        drop(key);
    }

    fn make_node(&mut self, index: u64) {
        self.apply(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n-{index}")},
            "status": {"allocatable": {"cpu": self.size.cpus_per_node.to_string(), "pods": "110"}}}));
    }

    fn set_quota(&mut self, team: u64, min: u64, max: u64) {
        let (name, min, max) =
            (format!("team-{team}"), json!({"cpu": min.to_string()}), json!({"cpu": max.to_string()}));
        let spec = json!({"min": min, "max": max});
        self.apply(match self.rules {
            Rules::Elastic => json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota",
                "metadata": {"name": "quota", "namespace": name}, "spec": spec}),
            Rules::Queues => json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
                "metadata": {"name": name}, "spec": {"deserved": min, "capability": max, "reclaimable": true}}),
            Rules::Tree => json!({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
                "metadata": {"name": name, "namespace": name}, "spec": spec}),
        });
    }

    /// People do something.
    pub fn live(&mut self, dice: &mut Dice) {
        match dice.roll(12) {
            0 if self.rules == Rules::Queues => self.make_gang(dice),
            0..=5 => self.make_pod(dice),
            6 | 7 => self.with_some_pod(dice, |town, pod| {
                let _ = town.server.delete(&pod);
            }),
            8 => self.with_some_pod(dice, |town, pod| {
                let now = town.server.clock.now_us();
                town.server.amend(&pod, |pod| {
                    if pod["status"]["phase"] == "Running" {
                        server::end(pod, "Succeeded", now);
                    }
                });
            }),
            9 if self.edits => {
                let (team, min) = (dice.roll(TEAMS), 1 + dice.roll(6));
                self.set_quota(team, min, min + dice.roll(5));
            }
            10 if self.edits => {
                let node = dice.roll(self.size.nodes);
                let _ = self.server.delete(&ObjectKey::node(&format!("n-{node}")));
            }
            11 if self.edits => (0..self.size.nodes).for_each(|index| self.make_node(index)),
            _ => {}
        }
        self.settle();
    }

    /// What people leave behind: all nodes are there.
    pub fn mend(&mut self) {
        (0..self.size.nodes).for_each(|index| self.make_node(index));
        self.settle();
    }

    fn make_pod(&mut self, dice: &mut Dice) {
        self.made += 1;
        let (team, cpu, priority) = (dice.roll(TEAMS + 1), 1 + dice.roll(3), dice.roll(3));
        let name = format!("p-{}", self.made);
        self.apply(self.pod(&name, team, cpu, priority, None));
    }

    /// A pod of a core in the next team, by number: for those who make many.
    pub fn make_plain_pod(&mut self) {
        self.made += 1;
        let name = format!("p-{}", self.made);
        self.apply(self.pod(&name, self.made % TEAMS, 1, 0, None));
    }

    /// A gang of two or three pods, sometimes with one more than it needs.
    fn make_gang(&mut self, dice: &mut Dice) {
        self.made += 1;
        let (team, members, cpu) = (dice.roll(TEAMS), 2 + dice.roll(2), 1 + dice.roll(2));
        let (name, queue) = (format!("g-{}", self.made), format!("team-{team}"));
        self.apply(json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": queue}, "spec": {"minMember": members, "queue": queue}}));
        for index in 0..members + dice.roll(2) {
            self.apply(self.pod(&format!("{name}-{index}"), team, cpu, 1, Some(&name)));
        }
    }

    fn pod(&self, name: &str, team: u64, cpu: u64, priority: u64, gang: Option<&str>) -> Value {
        let namespace = format!("team-{team}");
        let mut annotations = json!({});
        if self.rules == Rules::Queues && team < TEAMS {
            annotations["scheduling.volcano.sh/queue-name"] = json!(namespace);
        }
        if let Some(gang) = gang {
            annotations["scheduling.k8s.io/group-name"] = json!(gang);
        }
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
            "spec": {"schedulerName": "quotient", "priority": priority, "containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu.to_string()}}}]}})
    }

    fn with_some_pod(&mut self, dice: &mut Dice, change: impl FnOnce(&mut Town, ObjectKey)) {
        let pods: Vec<ObjectKey> = self.server.store().pods().map(|(key, _)| key.clone()).collect();
        if !pods.is_empty() {
            let pod = pods[dice.roll(pods.len() as u64) as usize].clone();
            change(self, pod);
        }
    }

    /// Lets time pass.
    pub fn advance(&mut self, to_ms: u64) {
        self.server.clock.advance_to(i64::try_from(to_ms * 1000).expect("it is not that late"));
        self.server.depart();
        self.settle();
    }

    /// Lets the controllers of every cluster do what they do, and notes all that happened.
    pub fn settle(&mut self) {
        loop {
            let changes = self.server.take_changes();
            for change in &changes {
                self.controllers.note(change, self.server.store());
                self.note(change);
            }
            match self.controllers.have_work() {
                true => self.controllers.run(&mut self.server),
                false => return,
            }
        }
    }

    fn note(&mut self, change: &Change) {
        let at_ms = self.now_ms();
        let entry = match change {
            Change::Gone(key, object) => Entry { at_ms, key: key.clone(), object: object.clone(), is_gone: true },
            Change::Seen(key) => match self.server.store().get(key) {
                Some(object) => Entry { at_ms, key: key.clone(), object: object.clone(), is_gone: false },
                None => return,
            },
        };
        say(|| {
            let (what, object) = (if entry.is_gone { "gone" } else { "is" }, &entry.object);
            let (node, leaves) = (&object["spec"]["nodeName"], &object["metadata"]["deletionTimestamp"]);
            format!("{at_ms} {what} {}, node {node}, leaves {leaves}", entry.key)
        });
        self.observer.see(&entry, self.server.store());
        self.log.push(entry);
    }
}
