//! Chance that is the same for the same seed, everywhere.

use quotient_sim::random::Random;

/// What happens, by chance.
#[derive(Debug, Clone)]
pub struct Dice(Random);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d))
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0.below(sides)
    }

    /// Whether something happens that happens so many times in a thousand.
    pub fn in_thousand(&mut self, times: u64) -> bool {
        self.roll(1000) < times
    }
}
