//! Sums of amounts by resource, exact.

use crate::fact::Amount;
use crate::resources::ResourceId;
use crate::sign::Sign;

/// Amounts by resource number; what is not there is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sums(Vec<i128>);

impl Sums {
    pub fn get(&self, resource: ResourceId) -> i128 {
        self.0.get(resource.0 as usize).copied().unwrap_or(0)
    }

    pub fn add(&mut self, resource: ResourceId, amount: i128) {
        let at = resource.0 as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        self.0[at] += amount;
    }

    /// Adds a charge (or takes it off).
    pub fn charge(&mut self, charge: &[(ResourceId, Amount)], sign: Sign) {
        for (resource, amount) in charge {
            self.add(*resource, sign.of(i128::from(*amount)));
        }
    }

    /// All that is not 0, in order of the numbers.
    pub fn nonzero(&self) -> impl Iterator<Item = (ResourceId, i128)> + '_ {
        let all = self.0.iter().enumerate().map(|(i, amount)| (ResourceId(i as u32), *amount));
        all.filter(|(_, amount)| *amount != 0)
    }
}
