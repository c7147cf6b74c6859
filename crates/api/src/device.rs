//! Dynamic Resource Allocation (`resource.k8s.io`): slices, classes, claims and templates.
//!
//! What the engine is told follows from several objects at once: a pool from its slices, what devices match from
//! slices, classes and claims. [`Book`] keeps what that takes, evaluates selectors when one of these changes, and gives
//! the facts that differ.

mod cel;
pub(crate) mod check;
pub(crate) mod claim;
mod pool;
mod slice;
pub mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quotient_engine::Fact;
use quotient_engine::device::{Allocation, ClaimKey, DeviceClassFact, PoolKey, PoolState, VerdictsFact};
use quotient_engine::fact::{Created, Name};

use crate::cursor::{Cursor, Notes};
use crate::intern::Interner;
use crate::object::ObjectKey;
use crate::time::parse_timestamp;
use cel::{Selector, Subject, judge};
use claim::Wanted;
use pool::Pool;
use serde_json::{Value, json};
use slice::{Slice, TaintRule};

/// The API group.
pub const GROUP: &str = "resource.k8s.io";
pub const SLICE: &str = "ResourceSlice";
pub const CLASS: &str = "DeviceClass";
pub const CLAIM: &str = "ResourceClaim";
pub const TEMPLATE: &str = "ResourceClaimTemplate";
pub const TAINT_RULE: &str = "DeviceTaintRule";

/// The resource of a class: a request for it is a request for devices of the class.
pub const CLASS_RESOURCE_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// Whether objects of the kind are about devices.
pub fn is_device_kind(group: &str, kind: &str) -> bool {
    group == GROUP && matches!(kind, SLICE | CLASS | CLAIM | TEMPLATE | TAINT_RULE)
}

/// A DeviceClass, as far as selecting goes.
#[derive(Debug, Clone)]
struct Class {
    /// Parameters for drivers.
    config: Value,
    sources: Vec<Name>,
    selectors: Vec<Selector>,
}

/// What devices are matched with.
#[derive(Debug, Clone)]
struct Matcher {
    class: Name,
    selectors: Vec<Selector>,
    /// How many claims, templates and classes have it.
    users: u32,
}

/// What is known of devices, classes and selectors.
#[derive(Debug, Clone, Default)]
pub(crate) struct Book {
    slices: BTreeMap<Name, Arc<Slice>>,
    of_pool: BTreeMap<PoolKey, BTreeSet<Name>>,
    pools: BTreeMap<PoolKey, Arc<Pool>>,
    classes: BTreeMap<Name, Class>,
    rules: BTreeMap<Name, TaintRule>,
    matchers: BTreeMap<Name, Matcher>,
    /// The specs and uids of claims, for what is written about them.
    claims: BTreeMap<ClaimKey, Arc<Value>>,
    /// What claims and templates want.
    wants: BTreeMap<ObjectKey, Vec<Wanted>>,
}

impl Book {
    /// What there is to tell about an object that was seen. What is wrong with others than the object itself is with
    /// it.
    pub fn seen(
        &mut self,
        key: &ObjectKey,
        root: &Cursor<'_, '_>,
        notes: &Notes,
        interner: &mut Interner,
        is_gpu: &mut dyn FnMut(&str) -> bool,
    ) -> Vec<Fact> {
        match key.kind {
            SLICE => {
                let slice = slice::slice(root, interner);
                self.slice_seen(key.name.clone(), slice, interner)
            }
            CLASS => self.class_seen(root, &key.name, interner, is_gpu),
            CLAIM => {
                let (fact, wanted) = claim::claim(root, notes, key, interner);
                let part = |name: &str| root.field(name).value().cloned().unwrap_or_default();
                let kept = json!({"metadata": {"uid": &*fact.uid}, "spec": part("spec")});
                if self.claims.get(&fact.key).is_none_or(|known| **known != kept) {
                    self.claims.insert(fact.key.clone(), Arc::new(kept));
                }
                let mut facts = self.want(key, wanted);
                facts.push(Fact::DeviceClaim(fact));
                facts
            }
            TEMPLATE => {
                let spec = root.field("spec");
                let (_, wanted) = claim::claim_spec(&spec.field("spec"), interner);
                self.want(key, wanted)
            }
            TAINT_RULE => self.rule_seen(&key.name, slice::taint_rule(root, interner), interner),
            _ => Vec::new(),
        }
    }

    /// What there is to tell about an object that is gone.
    pub fn gone(&mut self, key: &ObjectKey, interner: &mut Interner) -> Vec<Fact> {
        let name = key.name.clone();
        match key.kind {
            SLICE => self.slice_seen(name, None, interner),
            CLASS => {
                self.classes.remove(&name);
                let mut facts = self.unwant(&[Wanted::class(&name)]);
                facts.push(Fact::DeviceClassGone(name));
                facts
            }
            CLAIM => {
                let mut facts = self.want(key, Vec::new());
                let namespace = key.namespace.clone().unwrap_or_default();
                let claim = ClaimKey { namespace, name };
                self.claims.remove(&claim);
                facts.push(Fact::DeviceClaimGone(claim));
                facts
            }
            TEMPLATE => self.want(key, Vec::new()),
            TAINT_RULE => self.rule_seen(&name, None, interner),
            _ => Vec::new(),
        }
    }

    fn slice_seen(&mut self, name: Name, slice: Option<Slice>, interner: &mut Interner) -> Vec<Fact> {
        let old = match slice {
            Some(slice) => {
                self.of_pool.entry(slice.pool.clone()).or_default().insert(name.clone());
                self.slices.insert(name.clone(), Arc::new(slice))
            }
            None => self.slices.remove(&name),
        };
        let new = self.slices.get(&name).map(|slice| slice.pool.clone());
        let old = old.map(|slice| slice.pool.clone());
        let mut facts = Vec::new();
        if let Some(old) = old.filter(|old| new.as_ref() != Some(old)) {
            if let Some(names) = self.of_pool.get_mut(&old) {
                names.remove(&name);
            }
            facts.extend(self.renew(&old, interner));
        }
        facts.extend(new.into_iter().flat_map(|new| self.renew(&new, interner)));
        facts
    }

    /// Puts a pool together anew.
    fn renew(&mut self, key: &PoolKey, interner: &mut Interner) -> Vec<Fact> {
        let names = self.of_pool.get(key).into_iter().flatten();
        let pool = Pool::new(names.filter_map(|name| self.slices.get(name).cloned()));
        let Some(pool) = pool else {
            self.of_pool.remove(key);
            let known = self.pools.remove(key).is_some();
            return known.then(|| Fact::DevicePoolGone(key.clone())).into_iter().collect();
        };
        let mut facts = vec![Fact::DevicePool(pool.fact(key, self.rules.values(), interner))];
        self.pools.insert(key.clone(), Arc::new(pool));
        let matchers: Vec<Name> = self.matchers.keys().cloned().collect();
        facts.extend(self.verdicts(key, &matchers));
        facts
    }

    /// What matchers say of the devices of a pool.
    fn verdicts(&self, key: &PoolKey, matchers: &[Name]) -> Vec<Fact> {
        let Some(pool) = self.pools.get(key).filter(|pool| pool.state == PoolState::Ready) else { return Vec::new() };
        let known = |matcher: &Name| {
            let known = self.matchers.get(matcher)?;
            Some((matcher.clone(), known, self.classes.get(&known.class)?))
        };
        let known: Vec<(Name, &Matcher, &Class)> = matchers.iter().filter_map(known).collect();
        if known.is_empty() {
            return Vec::new();
        }
        let subjects: Vec<Subject<'_>> = pool.devices().map(|(device, _)| Subject::new(&key.driver, device)).collect();
        let row = |(matcher, known, class): (Name, &Matcher, &Class)| {
            let verdict = |subject| judge(subject, class.selectors.iter().chain(&known.selectors));
            let verdicts = subjects.iter().map(verdict).collect();
            Fact::DeviceVerdicts(VerdictsFact { matcher, pool: key.clone(), verdicts })
        };
        known.into_iter().map(row).collect()
    }

    fn class_seen(
        &mut self,
        root: &Cursor<'_, '_>,
        name: &Name,
        interner: &mut Interner,
        is_gpu: &mut dyn FnMut(&str) -> bool,
    ) -> Vec<Fact> {
        let (metadata, spec) = (root.field("metadata"), root.field("spec"));
        let selectors = spec.field("selectors");
        let sources: Vec<Name> = selectors
            .items()
            .filter_map(|selector| {
                let cel = selector.field("cel");
                let expression = cel.field("expression");
                expression.str().map(Name::from)
            })
            .collect();
        let created = metadata.field("creationTimestamp");
        let created = created.str().and_then(|text| parse_timestamp(text).ok()).map(Created).unwrap_or_default();
        let extended = spec.field("extendedResourceName").non_empty_str().map(|name| interner.name(name));
        let own = format!("{name}.deviceclass.resource.k8s.io/devices");
        let gpu = is_gpu(&own) || extended.as_ref().is_some_and(|name| is_gpu(name));
        let mut facts = vec![Fact::DeviceClass(DeviceClassFact { name: name.clone(), created, extended, gpu })];
        if let Some(class) = self.classes.get_mut(name) {
            class.config = spec.field("config").value().cloned().unwrap_or_default();
        }
        let is_new = self.classes.get(name).is_none_or(|class| class.sources != sources);
        if is_new {
            let was_known = self.classes.contains_key(name);
            let selectors = sources.iter().map(|source| Selector::new(source)).collect();
            let config = spec.field("config").value().cloned().unwrap_or_default();
            self.classes.insert(name.clone(), Class { config, sources, selectors });
            if !was_known {
                self.add(&Wanted::class(name));
            }
            let of_class = self.matchers.iter().filter(|(_, matcher)| matcher.class == *name);
            let matchers: Vec<Name> = of_class.map(|(matcher, _)| matcher.clone()).collect();
            let pools: Vec<PoolKey> = self.pools.keys().cloned().collect();
            facts.extend(pools.iter().flat_map(|pool| self.verdicts(pool, &matchers)));
        }
        facts
    }

    /// One user more of a matcher. Returns its name if it is new.
    fn add(&mut self, wanted: &Wanted) -> Option<Name> {
        let name = wanted.matcher();
        let mut is_new = false;
        let matcher = self.matchers.entry(name.clone()).or_insert_with(|| {
            is_new = true;
            let selectors = wanted.selectors.iter().map(|source| Selector::new(source)).collect();
            Matcher { class: wanted.class.clone(), selectors, users: 0 }
        });
        matcher.users += 1;
        is_new.then_some(name)
    }

    fn unwant(&mut self, wanted: &[Wanted]) -> Vec<Fact> {
        let mut facts = Vec::new();
        for wanted in wanted {
            let name = wanted.matcher();
            if let Some(matcher) = self.matchers.get_mut(&name) {
                matcher.users -= 1;
                if matcher.users == 0 {
                    self.matchers.remove(&name);
                    facts.push(Fact::DeviceMatcherGone(name));
                }
            }
        }
        facts
    }

    /// Takes in what a claim or a template wants.
    fn want(&mut self, key: &ObjectKey, wanted: Vec<Wanted>) -> Vec<Fact> {
        if self.wants.get(key).is_some_and(|old| *old == wanted) {
            return Vec::new();
        }
        let new: Vec<Name> = wanted.iter().filter_map(|wanted| self.add(wanted)).collect();
        let old = match wanted.is_empty() {
            true => self.wants.remove(key),
            false => self.wants.insert(key.clone(), wanted),
        };
        let mut facts = self.unwant(&old.unwrap_or_default());
        if !new.is_empty() {
            facts.extend(self.pools.keys().flat_map(|pool| self.verdicts(pool, &new)));
        }
        facts
    }

    fn rule_seen(&mut self, name: &Name, rule: Option<TaintRule>, interner: &mut Interner) -> Vec<Fact> {
        let old = match rule.clone() {
            Some(rule) => self.rules.insert(name.clone(), rule),
            None => self.rules.remove(name),
        };
        if old == rule {
            return Vec::new();
        }
        let concerned = |pool: &&PoolKey| old.iter().chain(&rule).any(|rule| rule.concerns(pool));
        let pools: Vec<PoolKey> = self.pools.keys().filter(concerned).cloned().collect();
        pools.iter().flat_map(|pool| self.renew(pool, interner)).collect()
    }

    /// The device of that name, if it is listed.
    pub(crate) fn device(&self, pool: &PoolKey, name: &Name) -> Option<&slice::Device> {
        self.pools.get(pool)?.devices().map(|(device, _)| device).find(|device| device.name == *name)
    }

    /// What to write into the status of a claim that gets these devices. `None` where the claim is not known.
    pub fn allocation(&self, claim: &ClaimKey, allocation: &Allocation, now: &str) -> Option<Value> {
        let claim = self.claims.get(claim)?;
        Some(write::allocation(self, claim, allocation, Some(now)))
    }

    /// The uid of a claim.
    pub fn uid(&self, claim: &ClaimKey) -> Option<&str> {
        self.claims.get(claim)?.pointer("/metadata/uid")?.as_str()
    }
}
