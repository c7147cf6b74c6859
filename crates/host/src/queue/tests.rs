//! What is sent, in which order, and what is told of what was not.

use super::*;

const NOW: Tick = Tick(0);
const EVER: Tick = Tick(u64::MAX);

/// All that did not happen, whenever it is to be told.
fn told(queue: &mut WriteQueue) -> Vec<Feedback> {
    std::iter::from_fn(|| queue.feedback(EVER)).collect()
}

fn victims(queue: &mut WriteQueue) -> Vec<String> {
    let victim = |feedback: Feedback| match feedback.failed {
        Failed::Decision(fact) => match *fact {
            Fact::EvictFailed { pod, .. } => pod.name.to_string(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    told(queue).into_iter().map(victim).collect()
}

fn pod(name: &str) -> PodRef {
    PodRef { key: PodKey { namespace: "a".into(), name: name.into() }, uid: "1".into() }
}

fn bind(name: &str, node: &str) -> Write {
    let (claims, devices) = (Vec::new(), Default::default());
    Write::Bind { pod: pod(name), node: node.into(), claims, devices, bound_as: None, waited: None }
}

fn nominate(name: &str) -> Write {
    Write::Nominate { pod: pod(name), node: Some("n".into()) }
}

fn evict(name: &str, claimant: &str) -> Write {
    Write::Evict { pod: pod(name), claimant: Some(pod(claimant).key), message: String::new() }
}

fn condition(name: &str, message: &str) -> Write {
    let message = message.to_string();
    Write::Condition { pod: pod(name), reason: "Unschedulable", message, since: None }
}

#[test]
fn a_later_write_replaces_an_earlier_one_and_a_bind_ends_the_waiting() {
    let (mut queue, now) = (WriteQueue::default(), Tick(0));
    queue.push(condition("p", "no room"), NOW);
    queue.push(condition("p", "no quota"), NOW);
    assert_eq!(queue.take(Lane::Status, now), Some(condition("p", "no quota")));
    assert_eq!(queue.take(Lane::Status, now), None);
    queue.push(condition("p", "no node"), NOW);
    assert_eq!(queue.take(Lane::Status, now), None, "one at a time for each slot");
    queue.done(&Slot::Condition(pod("p").key), Outcome::Done, now);
    queue.push(bind("p", "n"), NOW);
    assert_eq!(queue.take(Lane::Status, now), None, "a pod that is bound waits no longer");
    assert_eq!(queue.take(Lane::Place, now), Some(bind("p", "n")));
}

#[test]
fn what_is_fenced_is_not_forgotten() {
    let (mut queue, now) = (WriteQueue::default(), Tick(0));
    queue.push(nominate("c"), NOW);
    queue.push(evict("v", "c"), NOW);
    assert_eq!(queue.take(Lane::Place, now), Some(nominate("c")));
    queue.done(&Slot::Nominate(pod("c").key), Outcome::Fenced, now);
    assert_eq!(queue.take(Lane::Place, now), None, "neither is sent");
    let later = later(now, FENCED_PAUSE);
    assert_eq!(queue.take(Lane::Place, later), Some(nominate("c")));
    queue.done(&Slot::Nominate(pod("c").key), Outcome::Done, later);
    for _ in 0..2 * PLACE_ATTEMPTS_MAX {
        let later = queue.next_due(Lane::Place).unwrap_or(later);
        assert_eq!(queue.take(Lane::Place, later), Some(evict("v", "c")));
        queue.done(&Slot::Evict(pod("v").key), Outcome::Fenced, later);
    }
    assert_eq!(queue.backlog(Lane::Place), 1);
}

#[test]
fn an_eviction_waits_for_the_nomination_of_its_claimant() {
    let (mut queue, now) = (WriteQueue::default(), Tick(0));
    queue.push(nominate("c"), NOW);
    queue.push(evict("v", "c"), NOW);
    queue.push(evict("w", "d"), NOW);
    assert_eq!(queue.backlog(Lane::Place), 3);
    assert_eq!(queue.take(Lane::Place, now), Some(nominate("c")));
    assert_eq!(queue.take(Lane::Place, now), Some(evict("w", "d")), "it waits for nobody");
    assert_eq!(queue.take(Lane::Place, now), None);
    queue.done(&Slot::Nominate(pod("c").key), Outcome::Done, now);
    assert_eq!(queue.take(Lane::Place, now), Some(evict("v", "c")));
}

#[test]
fn nobody_is_evicted_for_a_claim_that_cannot_be_written() {
    let (mut queue, now) = (WriteQueue::default(), Tick(0));
    queue.push(nominate("c"), NOW);
    queue.push(evict("v", "c"), NOW);
    queue.take(Lane::Place, now);
    queue.done(&Slot::Nominate(pod("c").key), Outcome::Refused("gone".to_string()), now);
    assert_eq!(victims(&mut queue), ["v"]);
    assert_eq!(queue.take(Lane::Place, now), None);
    assert_eq!(queue.backlog(Lane::Place), 0);
}

#[test]
fn what_fails_is_tried_again_after_longer_and_longer_and_then_told() {
    let (mut queue, mut now) = (WriteQueue::default(), Tick(0));
    queue.push(bind("p", "n"), NOW);
    let slot = Slot::Bind(pod("p").key);
    for attempt in 1..PLACE_ATTEMPTS_MAX {
        assert!(queue.take(Lane::Place, now).is_some(), "attempt {attempt}");
        queue.done(&slot, Outcome::Failed("busy".to_string()), now);
        assert_eq!(told(&mut queue), []);
        assert_eq!(queue.take(Lane::Place, now), None, "not at once");
        now = queue.next_due(Lane::Place).expect("it is put off");
    }
    assert!(queue.take(Lane::Place, now).is_some());
    queue.done(&slot, Outcome::Failed("busy".to_string()), now);
    let failed = told(&mut queue);
    assert_eq!(failed.len(), 1);
    assert!(failed[0].at > now, "the engine would decide the same at once");
    let mut refused = |now: Tick| {
        queue.push(bind("p", "n"), NOW);
        queue.take(Lane::Place, now);
        queue.done(&slot, Outcome::Refused("no".to_string()), now);
        told(&mut queue)[0].at.0 - now.0
    };
    assert!(refused(now) < refused(now), "each time later");
}

#[test]
fn what_tells_is_tried_until_it_is_replaced() {
    let (mut queue, mut now) = (WriteQueue::default(), Tick(0));
    queue.push(condition("p", "no room"), NOW);
    let slot = Slot::Condition(pod("p").key);
    for _ in 0..50 {
        assert!(queue.take(Lane::Status, now).is_some());
        queue.done(&slot, Outcome::Failed("busy".to_string()), now);
        now = queue.next_due(Lane::Status).expect("it is put off");
    }
    queue.take(Lane::Status, now);
    queue.push(condition("p", "no quota"), NOW);
    queue.done(&slot, Outcome::Failed("busy".to_string()), now);
    assert_eq!(queue.take(Lane::Status, now), Some(condition("p", "no quota")));
    queue.done(&slot, Outcome::Done, now);
    assert_eq!(queue.backlog(Lane::Status), 0);
}

#[test]
fn a_bind_does_not_wait_for_volumes_for_ever() {
    let (mut queue, mut now) = (WriteQueue::default(), Tick(0));
    let slot = Slot::Bind(pod("p").key);
    queue.push(bind("p", "n"), NOW);
    let mut asked = 0;
    loop {
        queue.take(Lane::Place, now).expect("it is tried");
        queue.done(&slot, Outcome::Later(Duration::from_secs(60)), now);
        asked += 1;
        if !told(&mut queue).is_empty() {
            break;
        }
        now = queue.next_due(Lane::Place).expect("it is put off");
    }
    assert_eq!(asked, 12);
}

#[test]
fn evictions_that_were_not_sent_are_cancelled_when_nobody_needs_them() {
    let gives_up = || Write::Nominate { pod: pod("c"), node: None };
    type End = fn(&mut WriteQueue);
    let ends: [(&str, End); 2] = [
        ("bound elsewhere", |queue| queue.push(bind("c", "m"), NOW)),
        ("gone", |queue| queue.forget(&pod("c").key, NOW)),
    ];
    for (what, end) in ends {
        let mut queue = WriteQueue::default();
        queue.push(nominate("c"), NOW);
        queue.push(evict("v", "c"), NOW);
        end(&mut queue);
        assert_eq!(victims(&mut queue), ["v"], "{what}");
        let left: Vec<Write> = std::iter::from_fn(|| queue.take(Lane::Place, NOW)).collect();
        assert!(!left.iter().any(|write| matches!(write, Write::Evict { .. })), "{what}: {left:?}");
    }
    // One that was put off is not sent either.
    let mut queue = WriteQueue::default();
    queue.push(evict("v", "c"), NOW);
    queue.take(Lane::Place, NOW);
    queue.done(&Slot::Evict(pod("v").key), Outcome::Failed("busy".to_string()), NOW);
    queue.push(gives_up(), NOW);
    assert_eq!(victims(&mut queue), ["v"]);
    assert_eq!(queue.take(Lane::Place, EVER), Some(gives_up()));
    assert_eq!(queue.take(Lane::Place, EVER), None);
}

#[test]
fn evictions_take_their_turn_between_binds() {
    let mut queue = WriteQueue::default();
    queue.push(bind("a", "n"), NOW);
    queue.push(evict("v", "c"), NOW);
    (0..100).for_each(|index| queue.push(bind(&format!("p-{index}"), "n"), NOW));
    assert_eq!(queue.take(Lane::Place, NOW), Some(bind("a", "n")));
    assert_eq!(queue.take(Lane::Place, NOW), Some(evict("v", "c")));
}

fn event(namespace: &str, name: &str, reason: &'static str, message: &str) -> Write {
    Write::Event(crate::event::EventNote {
        about: ObjectKey::pod(namespace, name),
        uid: "1".into(),
        is_warning: false,
        reason,
        message: message.to_string(),
        count: 1,
        first_us: 0,
        last_us: 0,
    })
}

fn make(namespace: &str, name: &str) -> Write {
    Write::Make { key: ObjectKey::pod(namespace, name), object: serde_json::Value::Null }
}

#[test]
fn an_event_is_dropped_by_no_rush_and_tried_until_the_server_takes_it() {
    let (mut queue, mut now) = (WriteQueue::default(), NOW);
    let bound = |index: usize| event("a", &format!("p-{index}"), "Scheduled", "Successfully assigned a/p to n");
    (0..20_000).for_each(|index| queue.push(bound(index), now));
    assert_eq!((queue.backlog(Lane::Event), queue.events_dropped()), (20_000, 0));
    for attempt in 0..50 {
        assert_eq!(queue.take(Lane::Event, now), Some(bound(0)), "attempt {attempt}");
        queue.done(&bound(0).slot(), Outcome::Failed("busy".to_string()), now);
        now = queue.next_due(Lane::Event).expect("it is put off");
    }
    assert_eq!((queue.backlog(Lane::Event), queue.events_dropped()), (20_000, 0));
    let too_late = later(now, EVENT_TRIED_MAX);
    queue.take(Lane::Event, too_late);
    queue.done(&bound(0).slot(), Outcome::Failed("busy".to_string()), too_late);
    assert_eq!((queue.backlog(Lane::Event), queue.events_dropped()), (19_999, 1), "nobody would find it");
    assert_eq!(queue.backlog(Lane::Place), 0);
}

#[test]
fn beyond_what_events_may_take_the_namespace_with_most_loses_its_oldest() {
    let mut queue = WriteQueue::default();
    let long = "m".repeat(4096);
    let count = events::EVENT_BYTES_MAX / 4096;
    queue.push(event("b", "first", "Scheduled", ""), NOW);
    (0..count).for_each(|index| queue.push(event("a", &format!("p-{index}"), "FailedScheduling", &long), NOW));
    let dropped = queue.events_dropped();
    assert!(dropped > 0, "a bound is a bound");
    assert_eq!(queue.backlog(Lane::Event) as u64, count as u64 + 1 - dropped);
    let first = queue.take(Lane::Event, NOW).map(|write| write.slot());
    assert_eq!(first, Some(event("b", "first", "Scheduled", "").slot()), "what has little is kept");
    let next = queue.take(Lane::Event, NOW).map(|write| write.slot());
    assert_eq!(next, Some(event("a", &format!("p-{dropped}"), "FailedScheduling", "").slot()), "the oldest went");
}

#[test]
fn a_flood_of_one_class_is_in_nobody_elses_way() {
    let mut queue = WriteQueue::default();
    (0..100_000).for_each(|index| queue.push(make("big", &format!("p-{index}")), NOW));
    (0..1000).for_each(|index| queue.push(event("big", &format!("p-{index}"), "Scheduled", ""), NOW));
    queue.push(bind("p", "n"), NOW);
    assert_eq!((queue.ready(Lane::Place), queue.backlog(Lane::Place)), (1, 1), "makes are no backlog of decisions");
    assert_eq!(queue.take(Lane::Place, NOW), Some(bind("p", "n")));
}

#[test]
fn namespaces_take_turns_with_all_but_decisions() {
    let about = |lane: Lane, namespace: &str, index: usize| match lane {
        Lane::Make => make(namespace, &format!("p-{index}")),
        Lane::Event => event(namespace, &format!("p-{index}"), "Scheduled", ""),
        _ => {
            let key = PodKey { namespace: namespace.into(), name: format!("p-{index}").as_str().into() };
            let pod = PodRef { key, uid: "1".into() };
            Write::Condition { pod, reason: "Unschedulable", message: String::new(), since: None }
        }
    };
    for lane in [Lane::Make, Lane::Status, Lane::Event] {
        let mut queue = WriteQueue::default();
        (0..1000).for_each(|index| queue.push(about(lane, "big", index), NOW));
        for _ in 0..10 {
            queue.take(lane, NOW);
        }
        (0..3).for_each(|index| queue.push(about(lane, "small", index), NOW));
        let next: Vec<Write> = std::iter::from_fn(|| queue.take(lane, NOW)).take(6).collect();
        let expected = [("big", 10), ("small", 0), ("big", 11), ("small", 1), ("big", 12), ("small", 2)];
        assert_eq!(next, expected.map(|(namespace, index)| about(lane, namespace, index)), "{lane:?}");
    }
}

#[test]
fn a_flood_of_conditions_does_not_hold_up_the_admission_of_the_same_namespace() {
    let mut queue = WriteQueue::default();
    (0..1000).for_each(|index| queue.push(condition(&format!("p-{index}"), "no room"), NOW));
    let admit = Write::Admit { group: ObjectKey::pod_group("a", "g") };
    queue.push(admit.clone(), NOW);
    assert_eq!(queue.take(Lane::Status, NOW), Some(admit));
}

#[test]
fn a_bind_withdraws_the_event_that_says_why_the_pod_is_pending() {
    let mut queue = WriteQueue::default();
    queue.push(event("a", "p", FAILED_SCHEDULING, "m"), NOW);
    queue.push(event("a", "p", "Other", "m"), NOW);
    queue.push(bind("p", "n"), NOW);
    assert_eq!(queue.take(Lane::Event, NOW), Some(event("a", "p", "Other", "m")));
    assert_eq!(queue.take(Lane::Event, NOW), None);
}
