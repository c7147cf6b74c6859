//! When a pending pod may start: a fork of the engine runs forward while pods end, several times, each time with other
//! lifetimes, drawn from what is known of each pod.
//!
//! What is not known of the future is left out: pods that are not submitted yet, and the replacements of evicted ones.
//! The draws are the same each time, so that the same question has the same answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quotient_api::at;
use quotient_api::field::of;
use quotient_engine::fact::{PodKey, Tick};
use quotient_engine::{Budget, Decision, Engine, Fact};
use serde_json::Value;

/// How often the engine runs forward. If the truth is one more draw of the same kind, it lies between the earliest and
/// the latest of 19 in 18 of 20 cases.
const RUNS: u64 = 19;

/// It is not quite of the same kind: lives of pods that run side by side are alike, and pods come of which nobody knows
/// yet. So the interval is made wider, by parts that were measured on a trace and checked on others (docs/replay.md):
/// the latest start is this much later, in hundredths, and the earliest this much sooner. A little time is added to
/// both beforehand, since parts of nothing are nothing.
const LATER_PERCENT: u64 = 140;
const SOONER_PERCENT: u64 = 110;
const A_LITTLE_MS: u64 = 60_000;

/// The most moments at which pods end, over all runs: each costs a cycle.
const MOMENTS_MAX: usize = 20_000;

/// How long a pod runs, as its owner expects: `quotient.dev/duration: 2h`.
pub const DURATION: &str = "quotient.dev/duration";

/// Whether a pod has ended as it should.
pub fn has_succeeded(pod: &Value) -> bool {
    at(pod, "/status/phase").is_some_and(|phase| phase == "Succeeded")
}

/// Whether a pod says how long it runs, or how long pods like it run: few do.
pub fn is_timed(pod: &Value) -> bool {
    let annotations = at(pod, "/metadata/annotations");
    annotations.and_then(|all| of(all, DURATION)).is_some()
        || at(pod, "/spec/activeDeadlineSeconds").is_some()
        || has_succeeded(pod)
}

/// The fewest pods that must have ended before a history says anything.
pub const HISTORY_MIN: usize = 5;

/// How long a pod runs in all, in milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub enum Life {
    /// This long.
    Exactly(u64),
    /// It ends at any time up to this.
    AtMost(u64),
    /// As long as pods like it, and no longer than a deadline.
    Like { history: Arc<History>, at_most: Option<u64> },
}

/// How long pods of one kind ran.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    /// Lifetimes at which pods ended, ascending, and the part of all pods that live longer. Those that still run count
    /// as long as they have run (the Kaplan-Meier estimate): without them long lives would be missing.
    steps: Vec<(u64, f64)>,
}

impl History {
    /// Of pods that have ended, and of how long others have run so far. `None` where too few have ended.
    pub fn of(ended: &[u64], running: &[u64]) -> Option<History> {
        if ended.len() < HISTORY_MIN {
            return None;
        }
        // Of two at the same time, the end comes first.
        let mut all: Vec<(u64, bool)> = running.iter().map(|ms| (*ms, true)).collect();
        all.extend(ended.iter().map(|ms| (*ms, false)));
        all.sort_unstable();
        let (mut at_risk, mut longer, mut steps) = (all.len(), 1.0, Vec::new());
        for (ms, still_runs) in all {
            if !still_runs {
                longer *= 1.0 - 1.0 / at_risk as f64;
                steps.push((ms, longer));
            }
            at_risk -= 1;
        }
        Some(History { steps })
    }

    /// The lifetime of a pod that has run for `ran` and that lives as long as a part `draw` of those like it.
    fn life(&self, ran: u64, draw: f64) -> u64 {
        let from = self.steps.partition_point(|(ms, _)| *ms <= ran);
        let longer_now = if from == 0 { 1.0 } else { self.steps[from - 1].1 };
        let sought = longer_now * draw;
        let step = self.steps[from..].iter().find(|(_, longer)| *longer <= sought);
        step.map_or_else(
            || {
                // It outlives all that are known: the longer it has run, the longer it goes on.
                let known = self.steps.last().map_or(ran, |(ms, _)| *ms).max(ran).max(1);
                let left = self.steps.last().map_or(1.0, |(_, longer)| *longer).min(longer_now);
                let part = if left > 0.0 { sought / left } else { draw };
                (known as f64 / part.clamp(0.001, 1.0)) as u64
            },
            |(ms, _)| *ms,
        )
    }
}

impl Life {
    /// How long a pod that has run for `ran` goes on.
    fn left(&self, ran: u64, draw: f64) -> u64 {
        let all = match self {
            Life::Exactly(ms) => *ms,
            Life::AtMost(ms) => return (ms.saturating_sub(ran) as f64 * (1.0 - draw)) as u64,
            Life::Like { history, at_most } => {
                let life = history.life(ran, draw);
                at_most.map_or(life, |most| life.min(most))
            }
        };
        all.saturating_sub(ran)
    }

    fn is_exact(&self) -> bool {
        matches!(self, Life::Exactly(_))
    }
}

/// A running pod of which is known how long pods like it run.
#[derive(Debug, Clone)]
pub struct Running {
    pub pod: PodKey,
    /// For how long it has run.
    pub ran_ms: u64,
    pub life: Life,
}

/// What a forecast rests on.
#[derive(Debug)]
pub struct Forecast<'a> {
    pub engine: &'a Engine,
    pub now: Tick,
    pub running: Vec<Running>,
    /// How long pending pods run once they start; one that is not listed does not end.
    pub pending: BTreeMap<PodKey, Life>,
}

/// When a pod starts, in milliseconds from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub earliest_ms: u64,
    pub latest_ms: u64,
}

impl Window {
    fn wider(self) -> Window {
        let Window { earliest_ms, latest_ms } = self;
        let sooner = earliest_ms.saturating_add(A_LITTLE_MS).saturating_mul(100) / SOONER_PERCENT;
        let later = latest_ms.saturating_add(A_LITTLE_MS).saturating_mul(LATER_PERCENT) / 100;
        Window { earliest_ms: sooner.saturating_sub(A_LITTLE_MS), latest_ms: later - A_LITTLE_MS }
    }
}

impl Forecast<'_> {
    /// When the pod starts; `None` where it does not in some run.
    pub fn start_of(&self, pod: &PodKey) -> Option<Window> {
        let lives = self.running.iter().map(|running| &running.life).chain(self.pending.values());
        let runs = if lives.into_iter().all(Life::is_exact) { 1 } else { RUNS };
        let mut moments = MOMENTS_MAX;
        let mut window: Option<Window> = None;
        for run in 0..runs {
            let start = self.run(pod, &mut Draws::new(run), &mut moments)?;
            let Window { earliest_ms, latest_ms } = window.unwrap_or(Window { earliest_ms: start, latest_ms: start });
            window = Some(Window { earliest_ms: earliest_ms.min(start), latest_ms: latest_ms.max(start) });
        }
        // What is known exactly needs no room for what is not.
        if runs == 1 { window } else { window.map(Window::wider) }
    }

    /// When the pod starts with the lives of one run.
    fn run(&self, pod: &PodKey, draws: &mut Draws, moments: &mut usize) -> Option<u64> {
        let mut engine = self.engine.fork();
        let mut ends: BTreeSet<(u64, &PodKey)> = BTreeSet::new();
        for Running { pod, ran_ms, life } in &self.running {
            ends.insert((life.left(*ran_ms, draws.next()), pod));
        }
        let mut wake: Option<u64> = None;
        loop {
            let end = ends.first().map(|(at, _)| *at);
            let at = [end, wake.take()].into_iter().flatten().min()?;
            *moments = moments.checked_sub(1)?;
            let tick = Tick(self.now.0 + at);
            while let Some((_, ended)) = ends.first().filter(|(end, _)| *end <= at).copied() {
                ends.pop_first();
                engine.observe(tick, Fact::PodGone(ended.clone()));
            }
            let (bound, next) = settle(&mut engine, tick);
            for bound in bound {
                if bound == *pod {
                    return Some(at);
                }
                if let Some((key, life)) = self.pending.get_key_value(&bound) {
                    ends.insert((at.saturating_add(life.left(0, draws.next())), key));
                }
            }
            wake = next.map(|next| next.0.saturating_sub(self.now.0)).filter(|next| *next > at);
        }
    }
}

/// Lets the engine decide all there is to decide, and evicted pods go at once; says which pods were bound, and when
/// time alone changes something next.
fn settle(engine: &mut Engine, now: Tick) -> (Vec<PodKey>, Option<Tick>) {
    /// Each pod that is bound may take a few rounds; a cluster that goes on without end is given up.
    const ROUNDS_MAX: usize = 1_000;
    let mut bound = Vec::new();
    let mut wake = None;
    for _ in 0..ROUNDS_MAX {
        let decisions = engine.decide(now, Budget::default());
        wake = decisions.wake_at;
        let is_done = decisions.list.is_empty() && !decisions.more;
        for decision in decisions.list {
            match decision {
                Decision::Bind { pod, .. } => bound.push(pod),
                Decision::Evict { pod, .. } => engine.observe(now, Fact::PodGone(pod)),
                Decision::Nominate { .. } | Decision::Mark { .. } | Decision::Admit { .. } | Decision::Hold { .. } => {}
            }
        }
        if is_done {
            break;
        }
    }
    (bound, wake)
}

/// Numbers between 0 and 1 that are the same each time (splitmix64).
#[derive(Debug)]
struct Draws(u64);

impl Draws {
    fn new(run: u64) -> Self {
        Draws(run.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_follow_the_history() {
        let history = History::of(&[10, 20, 30, 40, 50], &[]).expect("five have ended");
        for (ran, draw, life) in [(0, 0.99, 10), (0, 0.5, 30), (0, 0.01, 50), (25, 0.99, 30), (25, 0.01, 50)] {
            assert_eq!(history.life(ran, draw), life, "{ran} {draw}");
        }
        // It outlived them all.
        assert_eq!(history.life(100, 1.0), 100);
        assert_eq!(history.life(100, 0.5), 200);
        assert_eq!(History::of(&[1, 2, 3, 4], &[9]), None);
    }

    #[test]
    fn those_that_still_run_make_lives_longer() {
        let without = History::of(&[10, 20, 30, 40, 50], &[]).expect("enough");
        let with = History::of(&[10, 20, 30, 40, 50], &[25, 60, 60, 60, 60]).expect("enough");
        assert!(with.life(0, 0.5) > without.life(0, 0.5));
    }

    #[test]
    fn what_is_left_counts_from_what_it_ran() {
        assert_eq!(Life::Exactly(100).left(30, 0.5), 70);
        assert_eq!(Life::Exactly(100).left(300, 0.5), 0);
        assert_eq!(Life::AtMost(100).left(20, 0.25), 60);
        let history = Arc::new(History::of(&[1000; 5], &[]).expect("enough"));
        assert_eq!(Life::Like { history, at_most: Some(400) }.left(100, 0.5), 300);
    }

    #[test]
    fn an_interval_has_room_for_what_is_not_known() {
        let wider = |earliest_ms, latest_ms| Window { earliest_ms, latest_ms }.wider();
        assert_eq!(wider(0, 0), Window { earliest_ms: 0, latest_ms: 24_000 });
        assert_eq!(wider(270_000, 540_000), Window { earliest_ms: 240_000, latest_ms: 780_000 });
        assert!(wider(u64::MAX, u64::MAX).latest_ms > u64::MAX / 200);
    }

    #[test]
    fn draws_are_spread_and_the_same_each_time() {
        let (mut a, mut b) = (Draws::new(3), Draws::new(3));
        let drawn: Vec<f64> = (0..1000).map(|_| a.next()).collect();
        assert!(drawn.iter().all(|draw| (0.0..1.0).contains(draw) && *draw == b.next()));
        let mean = drawn.iter().sum::<f64>() / 1000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }
}
