//! Names close to one that was mistyped.

/// The most names that are proposed.
const PROPOSED_MAX: usize = 3;

/// The names nearest to `typed`, the nearest first: those that need few changes to become it, or hold it as a part. A
/// name typed without its namespace is compared with the last part of each name too.
pub fn near_names<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let changes_max = (typed.chars().count() / 3).max(2);
    let part = typed.rsplit('/').next().filter(|part| part.chars().count() >= 3);
    let is_part = !typed.contains('/');
    let mut near: Vec<(usize, &str)> = known
        .filter_map(|name| {
            let last = name.rsplit('/').next().filter(|_| is_part).unwrap_or(name);
            let changes = changes_between(typed, name).min(changes_between(typed, last));
            let holds = part.is_some_and(|part| name.contains(part));
            (changes <= changes_max || holds).then_some((changes, name))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().map(|(_, name)| name).take(PROPOSED_MAX).collect()
}

/// The one name that a slip of the keyboard turns into `typed`: at most two changes, whatever the case, and fewer than
/// half of its letters.
pub fn nearest_name<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = typed.to_lowercase();
    let near = known.filter_map(|name| {
        let changes = changes_between(&lower, &name.to_lowercase());
        (changes <= 2 && changes * 2 < name.chars().count().min(typed.chars().count())).then_some((changes, name))
    });
    near.min().map(|(_, name)| name)
}

/// How many letters have to be put in, left out or replaced to turn one text into the other.
fn changes_between(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    // The row of the letters so far: how many changes to each beginning of the other text.
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, target) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *target);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted() {
        let cases = [("", "", 0), ("", "abc", 3), ("abc", "abc", 0), ("abc", "abd", 1), ("kitten", "sitting", 3)];
        for (one, other, changes) in cases {
            assert_eq!(changes_between(one, other), changes, "{one} {other}");
            assert_eq!(changes_between(other, one), changes, "{other} {one}");
        }
    }

    #[test]
    fn what_was_meant_is_proposed() {
        let known = ["shop/web-0", "shop/web-1", "shop/database", "research/training-abc-x", "research/training-abc-y"];
        let near = |typed: &str| near_names(typed, known.into_iter());
        assert_eq!(near("shop/databse"), ["shop/database"]);
        assert_eq!(near("shop/web-2"), ["shop/web-0", "shop/web-1"]);
        assert_eq!(near("vision/training"), ["research/training-abc-x", "research/training-abc-y"]);
        assert!(near("vision/x").is_empty());
        assert_eq!(near("databse"), ["shop/database"]);
        assert_eq!(near_names("p-recc", ["p-rec", "p-vision"].into_iter()), ["p-rec"]);
    }

    #[test]
    fn a_slip_is_told_from_another_word() {
        let fields = ["min", "max", "resources", "requests"];
        for (typed, meant) in
            [("mim", Some("min")), ("maxx", Some("max")), ("resource", Some("resources")), ("image", None), ("x", None)]
        {
            assert_eq!(nearest_name(typed, fields.into_iter()), meant, "{typed}");
        }
    }
}
