//! What the engine knows of quotas of one system, and what is wrong with which object.

use std::collections::BTreeMap;
use std::fmt::Debug;

use proptest::prelude::*;
use quotient_api::{ObjectKey, Translation, Translator, key_of};
use quotient_engine::Fact;
use quotient_engine::fact::{QuotaFact, QuotaKey};
use serde_json::Value;

/// What is told of a quota of that system.
pub trait Told: Sized {
    /// `None` for a fact of another system.
    fn of(fact: QuotaFact) -> Option<Self>;

    /// What holds at every moment.
    fn check(quotas: &BTreeMap<QuotaKey, Self>);
}

#[derive(Debug)]
pub struct Engine<Q> {
    translator: Translator,
    pub quotas: BTreeMap<QuotaKey, Q>,
    pub problems: BTreeMap<ObjectKey, Vec<String>>,
}

impl<Q: Told> Engine<Q> {
    pub fn told(objects: &[Value]) -> Self {
        let (quotas, problems) = (BTreeMap::new(), BTreeMap::new());
        let mut engine = Engine { translator: Translator::default(), quotas, problems };
        objects.iter().for_each(|object| engine.seen(object));
        engine
    }

    pub fn seen(&mut self, object: &Value) {
        let translation = self.translator.upsert(object);
        self.take(key_of(object).expect("an object"), translation);
    }

    pub fn gone(&mut self, key: &ObjectKey) {
        let translation = self.translator.remove(key);
        self.take(key.clone(), translation);
    }

    fn take(&mut self, key: ObjectKey, translation: Translation) {
        for fact in translation.facts {
            match fact {
                Fact::Quota(fact) => {
                    let key = fact.key().clone();
                    self.quotas.insert(key, Q::of(fact).expect("a quota of the system"));
                }
                Fact::QuotaGone(key) => assert!(self.quotas.remove(&key).is_some(), "{key} was not there"),
                other => panic!("{other:?}"),
            }
            Q::check(&self.quotas);
        }
        for (key, problems) in [(key, translation.problems)].into_iter().chain(translation.elsewhere) {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            if lines.is_empty() {
                self.problems.remove(&key)
            } else {
                self.problems.insert(key, lines)
            };
        }
    }

    /// An object is seen, or gone; what is told after it is what one that starts now is told of the same objects.
    pub fn change(
        &mut self,
        objects: &mut BTreeMap<ObjectKey, Value>,
        object: Value,
        is_there: bool,
    ) -> Result<(), TestCaseError>
    where
        Q: Debug + PartialEq,
    {
        let key = key_of(&object).expect("an object");
        if is_there {
            self.seen(&object);
            objects.insert(key, object);
        } else {
            self.gone(&key);
            objects.remove(&key);
        }
        let anew = Engine::<Q>::told(&objects.values().cloned().collect::<Vec<_>>());
        prop_assert_eq!(&self.quotas, &anew.quotas);
        let known = |told: &Engine<Q>| {
            let there = told.problems.iter().filter(|(key, _)| objects.contains_key(*key));
            there.map(|(key, lines)| (key.clone(), lines.clone())).collect::<BTreeMap<_, _>>()
        };
        prop_assert_eq!(known(self), known(&anew));
        Ok(())
    }

    pub fn lines(&self) -> Vec<&str> {
        self.problems.values().flatten().map(String::as_str).collect()
    }
}
