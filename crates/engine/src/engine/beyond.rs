//! Which of the pods that lack room their quotas would refuse if there were room: a new node would not let those run,
//! since others that wait for nodes too are to have what the quota has left.
//!
//! Nothing is decided by it. It is what programs that make nodes are told apart by: of pods that wait for nodes no more
//! are worth a node than would be admitted, and of a gang all that it needs or none.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::Engine;
use crate::fact::PodKey;
use crate::gangs::GangId;
use crate::pods::PodId;
use crate::policy::{Ask, Expected};
use crate::queue::{GroupId, MemberKey};
use crate::reason::Code;

/// Pods beyond what their quotas have left, with what those would refuse them with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Beyond {
    /// Of pods that are alike, from this member on.
    classes: BTreeMap<GroupId, (MemberKey, Code)>,
    /// Of pods of gangs that have not started, these.
    members: BTreeMap<PodId, Code>,
}

impl Engine {
    /// What the quotas of a pod that lacks room would refuse it with, once those that wait for room before it have it.
    pub fn beyond(&self, pod: &PodKey) -> Option<Code> {
        let id = self.world.pods.find(pod)?;
        let pod = self.world.pods.get(id);
        if let Some(code) = self.beyond.members.get(&id) {
            return Some(*code);
        }
        let (first, code) = self.beyond.classes.get(&pod.group?)?;
        (*first <= (pod.created, pod.name.clone(), id)).then_some(*code)
    }

    /// The pods of which [`Engine::beyond`] says something else than before, since this was last asked.
    pub fn take_retold(&mut self) -> Vec<PodKey> {
        let retold = std::mem::take(&mut self.retold);
        retold.into_iter().filter(|id| self.world.pods.is_listed(*id)).map(|id| self.world.pods.get(id).key()).collect()
    }

    /// Works out anew who is beyond what quotas have left.
    pub(super) fn settle_beyond(&mut self) {
        let mut found = Beyond::default();
        let mut expected = Expected::default();
        let mut seen: BTreeSet<GangId> = BTreeSet::new();
        for group in self.queue.lacking_room() {
            let Some(first) = self.queue.first_of(group) else { continue };
            match self.unstarted_gang(first) {
                Some(gang) if !seen.insert(gang) => {}
                Some(gang) => self.expect_gang(gang, &mut expected, &mut found),
                None => {
                    let many = self.queue.len_of(group);
                    let (admitted, code) = self.admitted(first, many, &mut expected);
                    let beyond = code.and_then(|code| Some((self.queue.member_at(group, admitted)?, code)));
                    if let Some(beyond) = beyond {
                        found.classes.insert(group, beyond);
                    }
                }
            }
        }
        if found != self.beyond {
            self.note_retold(&found);
            self.beyond = found;
        }
    }

    /// How many pods like this one, of so many, the quotas admit beside those that are expected; and what refuses the
    /// next.
    fn admitted(&self, pod: PodId, many: usize, expected: &mut Expected) -> (usize, Option<Code>) {
        let known = self.world.pods.get(pod);
        let charge = self.world.asked_charge(pod);
        let ask = Ask { charge: &charge, non_preemptible: known.is_non_preemptible(), has_victims: false };
        self.world.quotas.admitted_beside(&known.quotas, &ask, many, expected)
    }

    /// Expects what a gang needs to start as a whole or not at all, and then the rest of it pod by pod.
    fn expect_gang(&self, id: GangId, expected: &mut Expected, found: &mut Beyond) {
        let members = self.waiting_members(id);
        let needed = self.needed_of(id, &members);
        let before = expected.clone();
        let refused = needed.iter().find_map(|member| self.admitted(*member, 1, expected).1);
        if let Some(code) = refused {
            *expected = before;
            found.members.extend(members.into_iter().map(|member| (member, code)));
            return;
        }
        for member in members.into_iter().filter(|member| !needed.contains(member)) {
            if let (0, Some(code)) = self.admitted(member, 1, expected) {
                found.members.insert(member, code);
            }
        }
    }

    /// Notes the pods for which this says something else than what is known.
    fn note_retold(&mut self, found: &Beyond) {
        let known = &self.beyond;
        let groups: BTreeSet<GroupId> = known.classes.keys().chain(found.classes.keys()).copied().collect();
        for group in groups {
            let (old, new) = (known.classes.get(&group), found.classes.get(&group));
            if old != new {
                self.retold.extend(self.queue.members_between(group, old.map(|old| &old.0), new.map(|new| &new.0)));
            }
        }
        let pods: BTreeSet<PodId> = known.members.keys().chain(found.members.keys()).copied().collect();
        self.retold.extend(pods.into_iter().filter(|pod| known.members.get(pod) != found.members.get(pod)));
    }
}
