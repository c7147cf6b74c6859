//! Quotas that are as admission would not have let them in, because nobody was asked: the webhooks were down, are not
//! installed, or were asked about two quotas at once.
//!
//! They are reported and nothing else: what they mean for the engine is what the translation makes of them.

use std::collections::{BTreeMap, BTreeSet};

use quotient_api::{Kind, ObjectKey, Operation, Problem, Request, guarded_kinds, key_of, tree, validate};

use crate::objects::Objects;

/// How many quotas are looked at in one go. To look at one takes a look at all others; with ten thousand of them that
/// is a millisecond, and they are all looked at once in ten minutes.
const PER_LOOK: usize = 16;

/// What was found so far, and how far we are.
#[derive(Debug, Clone, Default)]
pub struct Patrol {
    after: Option<ObjectKey>,
    known: BTreeMap<ObjectKey, Vec<Problem>>,
}

impl Patrol {
    /// Looks at the next few; says what is wrong with them and was not said before. Objects of which something was said
    /// already are passed over.
    pub fn look(&mut self, objects: &Objects, is_reported: impl Fn(&ObjectKey) -> bool) -> Vec<Problem> {
        let keys: BTreeSet<&ObjectKey> = guarded_kinds()
            .map(|guarded| guarded.kind)
            .filter(|kind| is_watched(kind))
            .flat_map(|kind| objects.of_kind(kind.group, kind.kind, None).map(|(key, _)| key))
            .collect();
        self.known.retain(|key, _| keys.contains(key));
        let after = self.after.take();
        let next: Vec<&ObjectKey> =
            keys.into_iter().filter(|key| after.as_ref().is_none_or(|after| *key > after)).take(PER_LOOK).collect();
        // At the end it begins anew.
        self.after = next.last().filter(|_| next.len() == PER_LOOK).map(|key| (*key).clone());
        let mut news = Vec::new();
        for key in next.into_iter().filter(|key| !is_reported(key)) {
            let found = problems(key, objects);
            let known = self.known.get(key).map_or(&[][..], Vec::as_slice);
            news.extend(found.iter().filter(|problem| !known.contains(problem)).cloned());
            match found.is_empty() {
                true => self.known.remove(key),
                false => self.known.insert(key.clone(), found),
            };
        }
        news
    }
}

/// What admission would have said of an object if it came now.
fn problems(key: &ObjectKey, objects: &Objects) -> Vec<Problem> {
    let Some(object) = quotient_api::View::get(objects, key) else { return Vec::new() };
    debug_assert_eq!(key_of(object).as_ref().ok(), Some(key), "objects are kept by their keys");
    let request = Request { operation: Operation::Create, object: object.clone(), old: None };
    match validate(request, objects) {
        Ok(_) => Vec::new(),
        Err(rejection) => rejection.problems.into_iter().map(|problem| problem.of_object(key)).collect(),
    }
}

/// Whether objects of the kind say who may have how much. What they say of each other holds at any time; what is said
/// of a job holds when it comes.
fn is_watched(kind: &Kind) -> bool {
    quotient_api::is_quota(kind.group, kind.kind) || kind.group == tree::PROFILE_GROUP
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn see(objects: &mut Objects, object: &Value) {
        objects.seen(&key_of(object).expect("it is an object"), object);
    }

    fn quota(name: &str, parent: &str, min: &str) -> Value {
        json!({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": name, "namespace": "a", "labels": {
                "quota.scheduling.koordinator.sh/is-parent": (parent == tree::ROOT).to_string(),
                "quota.scheduling.koordinator.sh/parent": parent}},
            "spec": {"min": {"cpu": min}, "max": {"cpu": "100"}}})
    }

    #[test]
    fn what_got_in_though_it_should_not_is_said_once() {
        let mut objects = Objects::default();
        see(&mut objects, &quota("team", tree::ROOT, "4"));
        // Enough for two rounds, and all is well with them.
        for index in 0..PER_LOOK {
            see(&mut objects, &quota(&format!("a-{index}"), tree::ROOT, "0"));
        }
        let mut patrol = Patrol::default();
        let mut round = |objects: &Objects| {
            let found = (0..2).flat_map(|_| patrol.look(objects, |_| false)).collect::<Vec<_>>();
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(round(&objects), [""; 0]);
        see(&mut objects, &quota("b", "team", "5"));
        let said = round(&objects);
        assert_eq!(said.len(), 2, "of the child and of its parent: {said:?}");
        assert!(
            said[0].starts_with("ElasticQuota/a/b: spec.min.cpu: \"5\": the mins below team would be 5"),
            "{said:?}"
        );
        assert_eq!(round(&objects), [""; 0], "it was said");
        see(&mut objects, &quota("b", "team", "3"));
        assert_eq!(round(&objects), [""; 0], "it was mended");
        see(&mut objects, &quota("b", "team", "5"));
        assert_eq!(round(&objects).len(), 2, "it is so again");
        assert_eq!(patrol.look(&objects, |_| true).len(), 0);
    }
}
