//! What is asked of the API server about the rights of people, and how much of it at a time.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use quotient_dashboard::shared::Name;

/// How long an answer counts where all can be asked in time: rights that are taken away are gone after it.
const FRESH: Duration = Duration::from_secs(30);

/// How long an answer counts at most: with 5,000 namespaces and quotas, each is asked about every 5 minutes.
const KEPT_MAX: Duration = Duration::from_secs(600);

/// Questions about one person, or about all accounts of one namespace, within a while.
pub const QUESTIONS_MAX: usize = 500;
const WHILE: Duration = Duration::from_secs(30);

/// Whoever must wait for longer than this is sent away.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// What somebody may want to do. An empty name: any; an empty namespace: all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    pub verb: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
    pub namespace: Name,
    pub name: Name,
}

impl Question {
    /// Whether all of a kind may be listed.
    pub fn everywhere(group: &'static str, resource: &'static str) -> Self {
        Question { verb: "list", group, resource, namespace: Name::default(), name: Name::default() }
    }
}

/// The answers about one person, and when each was given.
#[derive(Debug, Default)]
pub struct Rights {
    answers: BTreeMap<Question, (Instant, bool)>,
}

impl Rights {
    /// Those of the questions that are to be asked now: that were never asked, or longest ago, and no more than may be.
    pub fn due(&mut self, counted_as: &str, questions: Vec<Question>, now: Instant) -> Vec<Question> {
        self.answers.retain(|_, (at, _)| now.duration_since(*at) < KEPT_MAX);
        let age = |question: &Question| self.answers.get(question).map(|(at, _)| now.duration_since(*at));
        let mut due: Vec<(Option<Instant>, Question)> = questions
            .into_iter()
            .filter(|question| age(question).is_none_or(|age| age >= FRESH))
            .map(|question| (self.answers.get(&question).map(|(at, _)| *at), question))
            .collect();
        due.sort_by_key(|(at, _)| *at);
        due.truncate(granted(counted_as, due.len(), now));
        due.into_iter().map(|(_, question)| question).collect()
    }

    pub fn learn(&mut self, question: Question, answer: bool, now: Instant) {
        self.answers.insert(question, (now, answer));
    }

    /// Whether it is known to be allowed.
    pub fn allows(&self, question: &Question) -> bool {
        self.answers.get(question).is_some_and(|(_, allowed)| *allowed)
    }
}

/// How many of so many questions may be asked now for whom they are counted.
fn granted(counted_as: &str, wanted: usize, now: Instant) -> usize {
    static ASKED: LazyLock<Mutex<BTreeMap<String, (Instant, usize)>>> = LazyLock::new(Mutex::default);
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    asked.retain(|_, (since, _)| now.duration_since(*since) < WHILE);
    let (_, count) = asked.entry(counted_as.to_owned()).or_insert((now, 0));
    let granted = wanted.min(QUESTIONS_MAX - *count);
    *count += granted;
    granted
}

/// So many at once after a rest, and then so many a second.
pub struct Pace {
    burst: Duration,
    each: Duration,
    next: Mutex<Instant>,
}

impl Pace {
    pub fn new((at_once, a_second): (u32, u32)) -> Self {
        let each = Duration::from_secs(1) / a_second;
        Pace { burst: each * at_once, each, next: Mutex::new(Instant::now()) }
    }

    /// For how long the next one has to wait; `None`: for too long.
    fn turn(&self, now: Instant) -> Option<Duration> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = (*next).max(now.checked_sub(self.burst).unwrap_or(now));
        let wait = turn.saturating_duration_since(now);
        (wait <= WAIT_MAX).then(|| {
            *next = turn + self.each;
            wait
        })
    }

    /// Waits for a turn; says whether there is one.
    pub async fn wait(&self) -> bool {
        let Some(wait) = self.turn(Instant::now()) else { return false };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(count: usize) -> Vec<Question> {
        let pods = Question::everywhere("", "pods");
        (0..count).map(|at| Question { namespace: format!("n-{at:05}").into(), ..pods.clone() }).collect()
    }

    #[test]
    fn a_person_costs_so_many_questions_in_a_while_and_comes_to_see_the_rest() {
        let (mut rights, begun) = (Rights::default(), Instant::now());
        let first = rights.due("the first", about(2 * QUESTIONS_MAX), begun);
        assert_eq!(first.len(), QUESTIONS_MAX);
        first.into_iter().for_each(|question| rights.learn(question, true, begun));
        assert!(rights.due("the first", about(2 * QUESTIONS_MAX), begun).is_empty(), "another token changes nothing");
        assert!(Rights::default().due("the first", about(10), begun).is_empty(), "nor does another account");
        assert_eq!(Rights::default().due("another", about(10), begun).len(), 10);
        let later = begun + WHILE;
        let second = rights.due("the first", about(2 * QUESTIONS_MAX), later);
        assert_eq!(second, about(2 * QUESTIONS_MAX)[QUESTIONS_MAX..], "those that were never asked come first");
        assert!(rights.allows(&about(1)[0]));
        rights.due("the first", Vec::new(), begun + KEPT_MAX);
        assert!(!rights.allows(&about(1)[0]), "an answer does not count for ever");
    }

    #[test]
    fn all_together_keep_a_pace() {
        let pace = Pace::new((4, 2));
        let now = Instant::now() + Duration::from_secs(60);
        let waits: Vec<Option<u128>> = (0..20).map(|_| pace.turn(now).map(|wait| wait.as_millis())).collect();
        assert_eq!(waits[..5], [Some(0), Some(0), Some(0), Some(0), Some(0)]);
        assert_eq!(waits[5..7], [Some(500), Some(1000)]);
        assert_eq!(waits[19], None, "whoever would wait too long is sent away");
    }
}
