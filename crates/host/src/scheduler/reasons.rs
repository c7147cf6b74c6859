//! Why pods wait, as it is written on them: at once when the code changes, and now and then when its numbers do.

use std::sync::Arc;
use std::time::Duration;

use quotient_api::volcano::events;
use quotient_api::{ObjectKey, View, device, field, kinds, ties};
use quotient_engine::device::ClaimKey;
use quotient_engine::fact::{Name, PodKey};
use quotient_engine::{Code, Reason, Tick};
use serde_json::Value;

use super::{Happened, Now, Round, Scheduler};
use crate::event::{FAILED_SCHEDULING, Remark, whole_seconds};
use crate::write::{PodRef, Write};

/// Why a pod waits is written at once when the code changes; the numbers of a reason change with every pod that comes
/// and goes, and are written no more often than this.
const NUMBERS_EVERY: Duration = Duration::from_secs(30);

/// What is said of a pod for which another node would not help.
const BEYOND: &str = "pods that wait for nodes before it are to have what its quota has left";

/// What autoscalers wait for.
const UNSCHEDULABLE: &str = "Unschedulable";

/// Claims of templates and volumes are made a moment after the pod: that they are missing is said if they stay so.
const CLAIM_PATIENCE: Duration = Duration::from_secs(1);

impl Scheduler {
    /// Keeps what a pod says of why it waits, and of what it answers to.
    pub(super) fn note_shown(&mut self, key: &ObjectKey, object: &Value) {
        if key.kind != "Pod" || !key.group.is_empty() {
            return;
        }
        let pod = PodKey { namespace: key.namespace.clone().unwrap_or_default(), name: key.name.clone() };
        let Some(waiting) = self.waiting.get_mut(&pod) else { return };
        let version = field::text(object, "/metadata/resourceVersion");
        waiting.version = version.and_then(|version| version.parse().ok()).unwrap_or(0);
        waiting.ties = ties::record(object).map(Into::into);
        waiting.is_forged = ties::recorded(object).is_some();
        let conditions = field::at(object, "/status/conditions").and_then(Value::as_array);
        let says_no = |condition: &&Value| condition["type"] == "PodScheduled" && condition["status"] == "False";
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let scheduled = conditions.into_iter().flatten().find(says_no);
        waiting.shown = scheduled.map(|condition| (text(&condition["reason"]), text(&condition["message"])));
    }

    /// Says why a pod waits: at once where the code is new, else when nothing was said for a while.
    pub(super) fn hold(&mut self, now: Now, pod: PodKey, uid: Name, reason: Arc<Reason>, round: &mut Round) {
        if reason.code == Code::NoFittingNode {
            round.writes.extend(self.deallocations(&pod, &uid));
        }
        let word = self.word(&pod, &reason);
        if let Some(waiting) = self.waiting.get_mut(&pod).filter(|waiting| waiting.uid == uid) {
            let is_new = waiting.held.is_none() && reason.code == Code::ClaimNotReady;
            if is_new && waiting.quiet_until == Tick(0) {
                waiting.quiet_until = Tick(now.tick.0 + CLAIM_PATIENCE.as_millis() as u64);
            }
            let is_another = !is_new && (waiting.held != Some(reason.code) || waiting.word != word);
            if is_another || now.tick >= waiting.quiet_until {
                return self.say(now, pod, uid, &reason, round);
            }
            if waiting.unsaid.replace(reason).is_none() {
                self.unsaid.insert((waiting.quiet_until, pod));
            }
            return;
        }
        self.say(now, pod, uid, &reason, round);
    }

    /// Claims that have devices where the pod cannot run, and that no pod uses, may get others, as with kube-scheduler.
    fn deallocations(&self, pod: &PodKey, uid: &Name) -> Vec<Write> {
        let kind = kinds::find(device::GROUP, device::CLAIM).expect("the kind is in the table");
        let write = |claim: ClaimKey| {
            let of_claim = self.translator.device_claim_uid(&claim)?.into();
            let pod = PodRef { key: pod.clone(), uid: uid.clone() };
            let claim = ObjectKey::new(kind, Some(&claim.namespace), &claim.name);
            Some(Write::Deallocate { claim, uid: of_claim, pod })
        };
        self.engine.idle_device_claims(pod).into_iter().filter_map(write).collect()
    }

    /// Says what is due of pods whose numbers changed, and when the next is.
    pub(super) fn say_numbers(&mut self, now: Now, round: &mut Round) {
        while let Some((due, _)) = self.unsaid.first()
            && *due <= now.tick
        {
            let Some((_, pod)) = self.unsaid.pop_first() else { break };
            let unsaid =
                self.waiting.get_mut(&pod).and_then(|waiting| Some((waiting.uid.clone(), waiting.unsaid.take()?)));
            if let Some((uid, reason)) = unsaid {
                self.say(now, pod, uid, &reason, round);
            }
        }
        let next = self.unsaid.first().map(|(due, _)| *due);
        round.wake_at = round.wake_at.into_iter().chain(next).min();
    }

    /// The word by which a pod's condition says why it waits. Programs that make nodes go by it: `Unschedulable` where
    /// another node would let the pod run, and otherwise the code of what would not let it.
    fn word(&self, pod: &PodKey, reason: &Reason) -> &'static str {
        match reason.lacks_room() {
            true => self.engine.beyond(pod).map_or(UNSCHEDULABLE, Code::name),
            false => reason.code.name(),
        }
    }

    /// Says it anew of pods for which another node would help now, or would not any more.
    pub(super) fn say_words(&mut self, now: Now, round: &mut Round) {
        for pod in self.engine.take_retold() {
            let Some(uid) = self.waiting.get(&pod).map(|waiting| waiting.uid.clone()) else { continue };
            if let Some(reason) = self.engine.reason(&pod) {
                self.hold(now, pod, uid, reason, round);
            }
        }
    }

    fn say(&mut self, now: Now, pod: PodKey, uid: Name, reason: &Reason, round: &mut Round) {
        let Reason { code, message, .. } = reason;
        let is_beyond = reason.lacks_room() && self.engine.beyond(&pod).is_some();
        let message = &if is_beyond { format!("{message}; {BEYOND}") } else { message.clone() };
        round.happened.push(Happened::Held { pod: pod.clone(), code: *code, message: message.clone() });
        let short = self.word(&pod, reason);
        let mut since = Some(whole_seconds(now.wall_us));
        if let Some(waiting) = self.waiting.get_mut(&pod).filter(|waiting| waiting.uid == uid) {
            let is_first = waiting.held.replace(*code).is_none();
            waiting.quiet_until = Tick(now.tick.0 + NUMBERS_EVERY.as_millis() as u64);
            waiting.unsaid = None;
            waiting.word = short;
            if let Some((shown_reason, shown_message)) = &waiting.shown {
                // Whoever was here before said the same. What we said ourselves may not have arrived yet.
                if is_first && shown_reason == short && shown_message == message {
                    return;
                }
                since = None;
            } else if !is_first {
                since = None;
            }
        }
        if *code != Code::SchedulingGated {
            let remark = Remark { is_warning: true, reason: FAILED_SCHEDULING, message: message.clone() };
            round.writes.extend(self.event(now, &pod, &uid, remark));
            let key = ObjectKey::pod(&pod.namespace, &pod.name);
            let further = self.objects.read().get(&key).and_then(|object| events::of_pod(object, reason));
            if let Some(further) = further {
                let remark = Remark { is_warning: true, reason: further, message: message.clone() };
                round.writes.extend(self.event(now, &pod, &uid, remark));
            }
        }
        let message = message.clone();
        round.writes.push(Write::Condition { pod: PodRef { key: pod, uid }, reason: short, message, since });
    }
}
