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
    assert_eq!(queue.take(Lane::Tell, now), Some(condition("p", "no quota")));
    assert_eq!(queue.take(Lane::Tell, now), None);
    queue.push(condition("p", "no node"), NOW);
    assert_eq!(queue.take(Lane::Tell, now), None, "one at a time for each slot");
    queue.done(&Slot::Condition(pod("p").key), Outcome::Done, now);
    queue.push(bind("p", "n"), NOW);
    assert_eq!(queue.take(Lane::Tell, now), None, "a pod that is bound waits no longer");
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
        assert!(queue.take(Lane::Tell, now).is_some());
        queue.done(&slot, Outcome::Failed("busy".to_string()), now);
        now = queue.next_due(Lane::Tell).expect("it is put off");
    }
    queue.take(Lane::Tell, now);
    queue.push(condition("p", "no quota"), NOW);
    queue.done(&slot, Outcome::Failed("busy".to_string()), now);
    assert_eq!(queue.take(Lane::Tell, now), Some(condition("p", "no quota")));
    queue.done(&slot, Outcome::Done, now);
    assert_eq!(queue.backlog(Lane::Tell), 0);
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

#[test]
fn events_that_nobody_takes_are_dropped_and_hold_nothing_up() {
    let mut queue = WriteQueue::default();
    let event = |index: usize| {
        let about = quotient_api::ObjectKey::pod("a", &format!("p-{index}"));
        Write::Event(crate::event::EventNote {
            about,
            uid: "1".into(),
            is_warning: false,
            reason: "Scheduled",
            message: String::new(),
            count: 1,
            first_us: 0,
            last_us: 0,
        })
    };
    (0..EVENTS_MAX + 10).for_each(|index| queue.push(event(index), NOW));
    assert_eq!((queue.backlog(Lane::Tell), queue.events_dropped()), (EVENTS_MAX, 10));
    assert_eq!(queue.take(Lane::Tell, NOW), Some(event(10)), "the oldest go first");
    for attempt in 1..=EVENT_ATTEMPTS_MAX {
        queue.done(&event(10).slot(), Outcome::Failed("no".to_string()), NOW);
        let again = queue.next_due(Lane::Tell).map(|due| (attempt, due));
        assert_eq!(again.is_some(), attempt < EVENT_ATTEMPTS_MAX, "{again:?}");
        // Of those that are due the one that came first goes first.
        if again.is_some() {
            assert_eq!(queue.take(Lane::Tell, EVER), Some(event(10)));
        }
    }
    assert_eq!((queue.backlog(Lane::Tell), queue.events_dropped()), (EVENTS_MAX - 1, 11));
    assert_eq!(queue.backlog(Lane::Place), 0);
}

#[test]
fn a_bind_withdraws_the_event_that_says_why_the_pod_is_pending() {
    let event = |reason: &'static str| {
        Write::Event(crate::event::EventNote {
            about: ObjectKey::pod("a", "p"),
            uid: "1".into(),
            is_warning: true,
            reason,
            message: "m".to_string(),
            count: 1,
            first_us: 0,
            last_us: 0,
        })
    };
    let mut queue = WriteQueue::default();
    queue.push(event(FAILED_SCHEDULING), NOW);
    queue.push(event("Other"), NOW);
    queue.push(bind("p", "n"), NOW);
    assert_eq!(queue.take(Lane::Tell, NOW), Some(event("Other")));
    assert_eq!(queue.take(Lane::Tell, NOW), None);
}
