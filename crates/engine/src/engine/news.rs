//! The end of a cycle: what is said of pods that changed. Why they wait, and whether they are within their quotas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::decision::{Capacity, Decision, Decisions};
use crate::engine::Engine;
use crate::explain;
use crate::fact::Name;
use crate::pods::PodId;
use crate::policy::QuotaId;
use crate::reason::Reason;

impl Engine {
    /// Says why pods wait, where that changed.
    pub(super) fn tell(&mut self, decisions: &mut Decisions) {
        let mut news: Vec<(PodId, Arc<Reason>)> = Vec::new();
        for id in std::mem::take(&mut self.unsaid) {
            let pod = self.world.pods.get(id);
            let reason = match pod.problem.as_ref().or(pod.misfit.as_ref()) {
                Some(problem) => explain::invalid(problem),
                None if !pod.gates.is_empty() => explain::gated(&pod.gates),
                None => Engine::unready(pod.unready.as_ref().unwrap_or(&pod.name)),
            };
            news.push((id, Arc::new(reason)));
        }
        news.sort_by_cached_key(|(id, _)| self.world.pods.get(*id).key());
        news.extend(self.queue.take_untold());
        for (id, reason) in news {
            let pod = self.world.pods.get_mut(id);
            if pod.reason.as_ref() != Some(&reason) {
                pod.reason = Some(reason.clone());
                decisions.list.push(Decision::Hold { pod: pod.key(), uid: pod.uid.clone(), reason });
            }
        }
    }

    /// Marks running pods as within their quotas or over them, where that changed.
    pub(super) fn mark(&mut self, decisions: &mut Decisions) {
        let mut pods = std::mem::take(&mut self.remark);
        let mut marks: BTreeMap<PodId, Vec<(Name, Capacity)>> = BTreeMap::new();
        for quota in self.world.quotas.take_unmarked() {
            let quotas = &self.world.quotas;
            if quotas.marks_pods(quota) {
                pods.extend(quotas.get(quota).pods.iter().map(|senior| senior.pod));
            }
        }
        let mut concerned: BTreeSet<QuotaId> = BTreeSet::new();
        for pod in &pods {
            concerned.extend(&self.world.pods.get(*pod).quotas);
            marks.insert(*pod, Vec::new());
        }
        for quota in concerned {
            let group = self.world.quotas.get(quota).key.group.clone();
            for (pod, capacity) in self.world.quotas.marks(quota, &self.world.pods, &self.world.shapes) {
                if let Some(marks) = marks.get_mut(&pod) {
                    marks.push((group.clone(), capacity));
                }
            }
        }
        let mut changed = Vec::new();
        for (pod, mut new) in marks {
            new.sort();
            if self.world.pods.get(pod).marks != new {
                changed.push((self.world.pods.get(pod).key(), pod, new));
            }
        }
        changed.sort();
        for (key, pod, new) in changed {
            let old = std::mem::replace(&mut self.world.pods.get_mut(pod).marks, new.clone());
            let uid = self.world.pods.get(pod).uid.clone();
            let mut say = |group: &Name, capacity: Option<Capacity>| {
                let (pod, uid, group) = (key.clone(), uid.clone(), group.clone());
                decisions.list.push(Decision::Mark { pod, uid, group, capacity });
            };
            for (group, _) in old.iter().filter(|(group, _)| !new.iter().any(|(g, _)| g == group)) {
                say(group, None);
            }
            for (group, capacity) in new.iter().filter(|mark| !old.contains(mark)) {
                say(group, Some(*capacity));
            }
        }
    }
}
