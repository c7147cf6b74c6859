//! Values of a strategy that are always the same, to see whether it brings about what it is for.

use std::fmt::Debug;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

pub fn samples<T: Debug>(count: usize, strategy: impl Strategy<Value = T>) -> impl Iterator<Item = T> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(move |_| strategy.new_tree(&mut runner).expect("nothing is filtered").current())
}
