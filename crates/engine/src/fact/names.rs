//! Values by name: labels, amounts and limits, sorted so that equal ones are listed alike.

use crate::fact::{Amount, Name};

/// The later of two values for one name counts; sorted by name.
fn by_name<T>(pairs: impl IntoIterator<Item = (Name, T)>) -> Vec<(Name, T)> {
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.reverse();
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    pairs.dedup_by(|a, b| a.0 == b.0);
    pairs
}

fn find<'a, T>(pairs: &'a [(Name, T)], name: &str) -> Option<&'a T> {
    pairs.binary_search_by(|(n, _)| (**n).cmp(name)).ok().map(|i| &pairs[i].1)
}

/// Names with values, sorted by name, each name once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Labels(Vec<(Name, Name)>);

impl Labels {
    /// No label at all.
    pub(crate) const NONE: Labels = Labels(Vec::new());

    /// The value under `key`.
    pub fn get(&self, key: &str) -> Option<&Name> {
        find(&self.0, key)
    }

    /// All pairs, by key.
    pub fn iter(&self) -> impl Iterator<Item = &(Name, Name)> {
        self.0.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Name, Name)> for Labels {
    fn from_iter<I: IntoIterator<Item = (Name, Name)>>(pairs: I) -> Self {
        Labels(by_name(pairs))
    }
}

/// Amounts by resource name, sorted by name, zeroes left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Amounts(Vec<(Name, Amount)>);

impl Amounts {
    /// The amount of `resource`, 0 where none is named.
    pub fn get(&self, resource: &str) -> Amount {
        find(&self.0, resource).copied().unwrap_or(0)
    }

    /// All amounts, by name.
    pub fn iter(&self) -> impl Iterator<Item = &(Name, Amount)> {
        self.0.iter()
    }

    /// Whether nothing is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Name, Amount)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (Name, Amount)>>(pairs: I) -> Self {
        let mut pairs = by_name(pairs);
        pairs.retain(|(_, amount)| *amount != 0);
        Amounts(pairs)
    }
}

/// Amounts by resource, sorted by name. A resource that is named with 0 is another thing than one that is not named.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Limits(Vec<(Name, Amount)>);

impl Limits {
    /// The amount of `resource`, if it is named.
    pub fn get(&self, resource: &str) -> Option<Amount> {
        find(&self.0, resource).copied()
    }

    /// All that is named, by name.
    pub fn iter(&self) -> impl Iterator<Item = &(Name, Amount)> {
        self.0.iter()
    }

    /// Whether nothing is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Name, Amount)> for Limits {
    fn from_iter<I: IntoIterator<Item = (Name, Amount)>>(pairs: I) -> Self {
        Limits(by_name(pairs))
    }
}
