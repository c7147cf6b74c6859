//! Long texts are read in parts, by as many threads as there are cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The most threads that read one text: memory is what limits more.
const THREADS_MAX: usize = 4;

/// What comes of each part, in the order of the parts.
pub(crate) fn of_parts<P: Sync, T: Send>(parts: &[P], read: impl Fn(&P) -> T + Sync) -> Vec<T> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX).min(parts.len());
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(at) else { return done };
            done.push((at, read(part)));
        }
    };
    let mut all = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take)).collect();
        let mut all = take();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, done)| done).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_in_order() {
        let parts: Vec<usize> = (0..1000).collect();
        assert_eq!(of_parts(&parts, |part| part * 2), parts.iter().map(|part| part * 2).collect::<Vec<_>>());
        assert!(of_parts(&[], |part: &usize| *part).is_empty());
    }
}
