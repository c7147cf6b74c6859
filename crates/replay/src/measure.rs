//! What is measured while a trace runs: levels over time, kept as integrals in a bounded number of buckets.
//!
//! A level (pods that wait, GPUs in use) holds until it changes. Its integral is exact, in units times milliseconds. A
//! run has at most [`BUCKETS_MAX`] buckets: when they are full, pairs are merged and each is twice as long.

/// How many points a plot has at most.
pub const BUCKETS_MAX: usize = 480;

/// Which level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LevelId(usize);

/// Levels over time.
#[derive(Debug, Clone, Default)]
pub struct Levels {
    now_ms: u64,
    width_ms: u64,
    now: Vec<i64>,
    max: Vec<i64>,
    /// By bucket and level: units times milliseconds. A level that came later has no entry in earlier buckets.
    buckets: Vec<Vec<i128>>,
}

impl Levels {
    /// Levels with buckets of this length to begin with.
    pub fn new(width_ms: u64) -> Self {
        Levels { width_ms: width_ms.max(1), ..Levels::default() }
    }

    /// A new level, at 0.
    pub fn add(&mut self) -> LevelId {
        self.now.push(0);
        self.max.push(0);
        LevelId(self.now.len() - 1)
    }

    /// Changes a level by so much, from now on.
    pub fn change(&mut self, id: LevelId, by: i64) {
        self.set(id, self.now[id.0] + by);
    }

    /// Sets a level, from now on.
    pub fn set(&mut self, id: LevelId, to: i64) {
        self.now[id.0] = to;
        self.max[id.0] = self.max[id.0].max(to);
    }

    /// The highest that a level was.
    pub fn highest(&self, id: LevelId) -> i64 {
        self.max[id.0]
    }

    /// Lets time pass. Says whether another bucket began.
    pub fn advance(&mut self, to_ms: u64) -> bool {
        let first = self.now_ms / self.width_ms;
        while self.now_ms < to_ms {
            let mut bucket = (self.now_ms / self.width_ms) as usize;
            while bucket >= BUCKETS_MAX {
                self.merge();
                bucket = (self.now_ms / self.width_ms) as usize;
            }
            let end = ((bucket as u64 + 1) * self.width_ms).min(to_ms);
            if self.buckets.len() <= bucket {
                self.buckets.resize_with(bucket + 1, Vec::new);
            }
            let passed = i128::from(end - self.now_ms);
            let sums = &mut self.buckets[bucket];
            sums.resize(sums.len().max(self.now.len()), 0);
            for (sum, level) in sums.iter_mut().zip(&self.now) {
                *sum += i128::from(*level) * passed;
            }
            self.now_ms = end;
        }
        self.now_ms / self.width_ms != first
    }

    fn merge(&mut self) {
        let old = std::mem::take(&mut self.buckets);
        for pair in old.chunks(2) {
            let mut sums = pair[0].clone();
            if let Some(second) = pair.get(1) {
                sums.resize(sums.len().max(second.len()), 0);
                sums.iter_mut().zip(second).for_each(|(sum, more)| *sum += more);
            }
            self.buckets.push(sums);
        }
        self.width_ms *= 2;
    }

    /// How long a bucket is.
    pub fn width_ms(&self) -> u64 {
        self.width_ms
    }

    /// A level's integral over all time.
    pub fn total(&self, id: LevelId) -> i128 {
        self.buckets.iter().filter_map(|sums| sums.get(id.0)).sum()
    }

    /// A level's mean in each bucket; the last one counts as far as time has come.
    pub fn means(&self, id: LevelId) -> Vec<f64> {
        let length = |bucket: usize| {
            let start = bucket as u64 * self.width_ms;
            (self.now_ms.min(start + self.width_ms) - start).max(1)
        };
        let sum = |sums: &Vec<i128>| sums.get(id.0).copied().unwrap_or(0);
        self.buckets.iter().enumerate().map(|(i, sums)| sum(sums) as f64 / length(i) as f64).collect()
    }
}

/// How long pods waited, at some ranks. A rank is the nearest one: a wait that a pod really had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waits {
    pub p50_ms: u64,
    pub p90_ms: u64,
    pub p99_ms: u64,
    pub max_ms: u64,
}

impl Waits {
    pub fn of(mut waits: Vec<u64>) -> Self {
        waits.sort_unstable();
        let rank = |percent: usize| {
            let index = (waits.len() * percent).div_ceil(100).max(1) - 1;
            waits.get(index).copied().unwrap_or(0)
        };
        Waits { p50_ms: rank(50), p90_ms: rank(90), p99_ms: rank(99), max_ms: rank(100) }
    }
}

/// Jain's index of these shares, in millionths: 1,000,000 where all are equal, 1/n of that where one has all.
pub fn jain_ppm(shares: &[f64]) -> Option<i64> {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    match shares.len() {
        0 | 1 => None,
        _ if squares == 0.0 => Some(1_000_000),
        count => Some((sum * sum / (count as f64 * squares) * 1e6).round() as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integrals_are_exact_when_buckets_merge() {
        let mut levels = Levels::new(10);
        let a = levels.add();
        levels.set(a, 3);
        levels.advance(25);
        levels.set(a, 1);
        let b = levels.add();
        levels.set(b, 2);
        levels.advance(10 * BUCKETS_MAX as u64 + 7);
        assert_eq!(levels.width_ms(), 20);
        let end = 10 * BUCKETS_MAX as i128 + 7;
        assert_eq!(levels.total(a), 75 + (end - 25));
        assert_eq!(levels.total(b), 2 * (end - 25));
        assert_eq!((levels.means(a)[0], levels.means(a)[1], levels.highest(a)), (3.0, 1.5, 3));
        assert!(levels.means(a).len() <= BUCKETS_MAX);
    }

    #[test]
    fn ranks_are_waits_that_a_pod_had() {
        let waits = Waits::of((1..=200).rev().collect());
        assert_eq!(waits, Waits { p50_ms: 100, p90_ms: 180, p99_ms: 198, max_ms: 200 });
        assert_eq!(Waits::of(vec![7]), Waits { p50_ms: 7, p90_ms: 7, p99_ms: 7, max_ms: 7 });
        assert_eq!(Waits::of(vec![]), Waits::default());
    }

    #[test]
    fn fairness_is_one_for_equals_and_one_nth_for_one_of_n() {
        assert_eq!(jain_ppm(&[0.5, 0.5, 0.5]), Some(1_000_000));
        assert_eq!(jain_ppm(&[1.0, 0.0, 0.0, 0.0]), Some(250_000));
        assert_eq!((jain_ppm(&[0.0, 0.0]), jain_ppm(&[1.0])), (Some(1_000_000), None));
    }
}
