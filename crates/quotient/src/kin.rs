//! Pods that belong together by their names: those of one owner are told of once.

use std::collections::BTreeMap;

/// The part of a pod's name that its siblings share: `web` of `web-5d8f9c7b6d-x7kq2`, `train` of `train-0`. A name of
/// which nothing was made up is its own.
pub fn stem(name: &str) -> &str {
    let Some((owner, last)) = name.rsplit_once('-') else { return name };
    if is_ordinal(last) && !owner.is_empty() {
        return owner;
    }
    if last.len() != 5 || !is_made_up(last) || owner.is_empty() {
        return name;
    }
    // A pod of a Deployment has its ReplicaSet's hash before its own suffix, one of an indexed Job its index.
    match owner.rsplit_once('-') {
        Some((stem, hash)) if !stem.is_empty() && (8..=10).contains(&hash.len()) && is_made_up(hash) => stem,
        Some((stem, index)) if !stem.is_empty() && is_ordinal(index) => stem,
        _ => owner,
    }
}

fn is_ordinal(part: &str) -> bool {
    !part.is_empty() && part.len() <= 6 && part.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a part of a name is made of the letters and digits that Kubernetes makes names of: no vowels, no 0, 1 and 3.
fn is_made_up(part: &str) -> bool {
    part.bytes().all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte))
}

/// Items by a key that they share, in the order in which the keys first come.
pub fn grouped_by<'a, T, K: Ord + Clone>(items: &'a [T], key: impl Fn(&'a T) -> K) -> Vec<(K, Vec<&'a T>)> {
    let mut places: BTreeMap<K, usize> = BTreeMap::new();
    let mut groups: Vec<(K, Vec<&'a T>)> = Vec::new();
    for item in items {
        let key = key(item);
        let place = *places.entry(key.clone()).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(item);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_share_a_stem() {
        let cases = [
            ("web-5d8f9c7b6d-x7kq2", "web"),
            ("web-ppv4s7c4st-8nqj2", "web"),
            ("train-0", "train"),
            ("train-worker-12", "train-worker"),
            ("forecast-tlhvf", "forecast"),
            ("sweep-3-x7kq2", "sweep"),
            ("database", "database"),
            ("my-model", "my-model"),
            ("-0", "-0"),
        ];
        for (name, expected) in cases {
            assert_eq!(stem(name), expected, "{name}");
        }
    }

    #[test]
    fn groups_keep_the_order_of_their_first() {
        let groups = grouped_by(&[3, 1, 4, 6, 5], |number| number % 2);
        assert_eq!(groups, [(1, vec![&3, &1, &5]), (0, vec![&4, &6])]);
    }
}
