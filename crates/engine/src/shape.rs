//! Shapes: what matters of a pod for where it can go, compiled once and shared by all pods that are alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::device::{Count, RESULTS_MAX};
use crate::devices::bill::class_resource;
use crate::fact::{Amount, Labels, Name, PodSpec, PodTerm, PodVolume, Selector, SpreadConstraint, WhenUnsatisfiable};
use crate::lookup::LookupMap;
use crate::nodes::Nodes;
use crate::pods::Pods;
use crate::relations::{Bearing, HolderKey, Part, RelationId, Relations};
use crate::resources::{CPU_ID, Demand, MEMORY_ID, ResourceId, ResourceNames};
use crate::score::resources::Size;
use crate::topology::{TopoId, Topologies};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ShapeId(pub u32);

/// What makes two pods alike. The namespace counts only where the spec's meaning depends on it, and the pod's own
/// labels only by whether its own rules match it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    spec: Arc<PodSpec>,
    namespace: Option<Name>,
    /// Soft spread rules that the cluster's services and controllers imply.
    implied: Option<Selector>,
    matches_itself: Vec<bool>,
}

/// A spread constraint, compiled.
#[derive(Debug, Clone)]
pub(crate) struct Spread {
    pub relation: RelationId,
    pub topology: TopoId,
    pub max_skew: u32,
    pub min_domains: Option<u32>,
    /// Which flags of the pod's rule about nodes exclude one from counting.
    pub mask: u8,
    /// 1 if the pod itself is one of those to be spread.
    pub itself: i64,
}

/// A term of inter-pod affinity, compiled.
#[derive(Debug, Clone)]
pub(crate) struct Term {
    pub relation: RelationId,
    pub topology: TopoId,
    /// Positive to be near, negative to be away; for required terms it says nothing.
    pub weight: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct Shape {
    key: Key,
    pub demand: Demand,
    pub size: Size,
    /// What its pods are charged to quotas: what they ask for, and what follows from it.
    pub charge: Vec<(ResourceId, Amount)>,
    /// How many devices its claims are for at most, by class.
    pub device_counts: Vec<(ResourceId, Amount)>,
    pub spread: Vec<Spread>,
    pub soft_spread: Vec<Spread>,
    /// Whether the soft spread is implied: then a key that a node lacks adds nothing, and does not exclude it.
    pub spread_implied: bool,
    /// The pods that match all required affinity terms, and the keys by which they must be near.
    pub affinity: Option<(RelationId, Vec<TopoId>)>,
    /// The pod matches all its own affinity terms: the first of its kind may start anywhere.
    pub affine_to_itself: bool,
    pub anti_affinity: Vec<Term>,
    pub preferred: Vec<Term>,
    /// What placed pods of this shape hold against, or for, arriving ones.
    pub holds: Vec<HolderKey>,
    /// The numbers of resources that are lent to it.
    resources: Box<[ResourceId]>,
    users: u32,
    pub asked: Asked,
}

/// How often it was asked where a pod of a shape can go.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    pub times: u32,
    /// Where the log of nodes stood when it was last asked, and how often in a row little had changed since.
    pub at: u64,
    pub soon: u32,
}

impl Shape {
    pub fn spec(&self) -> &Arc<PodSpec> {
        &self.key.spec
    }

    /// What tells its pods from others in who takes from whom.
    pub fn class_charge(&self) -> Vec<(ResourceId, Amount)> {
        self.charge.iter().chain(&self.device_counts).copied().collect()
    }

    pub fn namespace(&self) -> Option<&Name> {
        self.key.namespace.as_ref()
    }

    /// Whether anything about it depends on other pods.
    pub fn is_related(&self) -> bool {
        !self.spread.is_empty()
            || !self.soft_spread.is_empty()
            || self.affinity.is_some()
            || !self.anti_affinity.is_empty()
            || !self.preferred.is_empty()
    }

    /// Whether other pods can close a node to it.
    pub fn is_bound_to_others(&self) -> bool {
        !self.spread.is_empty() || self.affinity.is_some() || !self.anti_affinity.is_empty()
    }

    /// The claims of its pods, by name.
    pub fn claims(&self) -> impl Iterator<Item = &Name> {
        self.spec().volumes.iter().filter_map(|volume| match volume {
            PodVolume::Claim(name) => Some(name),
            _ => None,
        })
    }

    /// The topology keys that are lent to it, as often as they are.
    fn topologies(&self) -> impl Iterator<Item = TopoId> {
        let spread = self.spread.iter().chain(&self.soft_spread).map(|rule| rule.topology);
        let terms = self.anti_affinity.iter().chain(&self.preferred).map(|term| term.topology);
        spread.chain(terms).chain(self.affinity.iter().flat_map(|(_, keys)| keys.iter().copied()))
    }

    fn relations(&self) -> Vec<RelationId> {
        let spread = self.spread.iter().chain(&self.soft_spread).map(|s| s.relation);
        let terms = self.anti_affinity.iter().chain(&self.preferred).map(|t| t.relation);
        let affinity = self.affinity.iter().map(|(relation, _)| *relation);
        spread.chain(terms).chain(affinity).chain(self.holds.iter().map(|h| h.relation)).collect()
    }
}

/// The tables that compiling a shape adds to.
pub(crate) struct Compiling<'a> {
    pub names: &'a mut ResourceNames,
    pub nodes: &'a Nodes,
    pub pods: &'a Pods,
    pub topologies: &'a mut Topologies,
    pub relations: &'a mut Relations,
}

/// The tables that a shape gives back to.
pub(crate) struct Lenders<'a> {
    pub names: &'a mut ResourceNames,
    pub topologies: &'a mut Topologies,
    pub relations: &'a mut Relations,
}

/// All shapes in use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shapes {
    list: Vec<Option<Shape>>,
    vacant: Vec<ShapeId>,
    ids: LookupMap<Key, ShapeId>,
}

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The spread that pods of a service or controller have where they name none: (key, skew).
const IMPLIED: [(&str, u32); 2] = [(ZONE, 3), (HOSTNAME, 5)];

impl Shapes {
    pub fn get(&self, id: ShapeId) -> &Shape {
        self.list[id.0 as usize].as_ref().expect("a shape is used only while it has users")
    }

    pub fn get_mut(&mut self, id: ShapeId) -> &mut Shape {
        self.list[id.0 as usize].as_mut().expect("a shape is used only while it has users")
    }

    /// The shape of a pod, for one more user.
    pub fn intern(
        &mut self,
        spec: &Arc<PodSpec>,
        namespace: &Name,
        labels: &Labels,
        implied: Option<Selector>,
        tables: &mut Compiling<'_>,
    ) -> ShapeId {
        let implied = implied.filter(|_| spec.spread.is_empty());
        let spreads = !spec.spread.is_empty() || implied.is_some();
        let has_claims = spec.volumes.iter().any(|volume| matches!(volume, PodVolume::Claim(_)));
        let own = |selector: &Option<Selector>| Part {
            namespaces: vec![namespace.clone()],
            namespace_selector: None,
            selector: selector.clone(),
        };
        let mut matches_itself: Vec<bool> =
            spec.spread.iter().map(|c| tables.relations.part_matches(&own(&c.selector), namespace, labels)).collect();
        let affine = spec.affinity.iter().all(|t| tables.relations.part_matches(&part(t), namespace, labels));
        matches_itself.push(!spec.affinity.is_empty() && affine);
        let key = Key {
            spec: spec.clone(),
            namespace: (spreads || has_claims).then(|| namespace.clone()),
            implied: implied.clone(),
            matches_itself,
        };
        self.intern_key(key, namespace, tables)
    }

    /// A shape that differs from another in its spec alone, for one more user.
    pub fn intern_like(
        &mut self,
        base: ShapeId,
        spec: PodSpec,
        namespace: &Name,
        tables: &mut Compiling<'_>,
    ) -> ShapeId {
        let key = Key { spec: Arc::new(spec), ..self.get(base).key.clone() };
        self.intern_key(key, namespace, tables)
    }

    fn intern_key(&mut self, key: Key, namespace: &Name, tables: &mut Compiling<'_>) -> ShapeId {
        if let Some(id) = self.ids.get(&key) {
            let id = *id;
            self.get_mut(id).users += 1;
            return id;
        }
        let shape = compile(key.clone(), namespace, tables);
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.list.push(None);
            ShapeId(self.list.len() as u32 - 1)
        });
        self.list[id.0 as usize] = Some(shape);
        self.ids.insert(key, id);
        id
    }

    /// One user less. Returns whether the shape is forgotten with it.
    pub fn release(&mut self, id: ShapeId, lenders: Lenders<'_>) -> bool {
        let shape = self.get_mut(id);
        shape.users -= 1;
        if shape.users > 0 {
            return false;
        }
        let shape = self.list[id.0 as usize].take().expect("it was just there");
        let Lenders { names, topologies, relations } = lenders;
        shape.relations().into_iter().for_each(|relation| relations.release(relation));
        shape.resources.iter().for_each(|resource| names.give_back(*resource));
        shape.topologies().for_each(|topology| topologies.give_back(topology));
        if topologies.forget_idle() {
            // Their numbers go to others, for which nothing was counted.
            relations.drop_counters();
        }
        self.ids.remove(&shape.key);
        self.vacant.push(id);
        true
    }
}

/// Numbers of resources that a shape has for as long as it is.
struct Lent<'n> {
    names: &'n mut ResourceNames,
    ids: Vec<ResourceId>,
}

impl Lent<'_> {
    fn number(&mut self, name: &Name) -> ResourceId {
        let id = self.names.lend(name);
        self.ids.push(id);
        id
    }
}

/// How many devices a pod's claims are for at most, by class, whether they have them or not.
fn device_counts(spec: &PodSpec, names: &mut Lent<'_>) -> Vec<(ResourceId, Amount)> {
    let mut counts: BTreeMap<&Name, Amount> = BTreeMap::new();
    for request in spec.needs.iter().flat_map(|need| &need.spec().requests) {
        let mut most: BTreeMap<&Name, Amount> = BTreeMap::new();
        for alternative in request.alternatives.iter().filter(|alternative| !alternative.admin) {
            let count = match alternative.count {
                Count::All => Amount::try_from(RESULTS_MAX).unwrap_or(Amount::MAX),
                Count::Exactly(count) => Amount::try_from(count).unwrap_or(Amount::MAX),
            };
            let of_class = most.entry(&alternative.class).or_default();
            *of_class = count.max(*of_class);
        }
        for (class, count) in most {
            let sum = counts.entry(class).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    let number = |(class, count): (&Name, Amount)| {
        let name = class_resource(class, "devices");
        // A class that nobody else has named is charged to no quota.
        let fits = names.names.find(&name).is_some() || names.names.has_room_for(1);
        fits.then(|| (names.number(&name), count))
    };
    counts.into_iter().filter_map(number).collect()
}

fn part(term: &PodTerm) -> Part {
    Part {
        namespaces: term.namespaces.clone(),
        namespace_selector: term.namespace_selector.clone(),
        selector: term.selector.clone(),
    }
}

/// How pods that a service or controller selects are spread where they do not ask for it.
fn implied_constraints(selector: &Selector) -> [SpreadConstraint; IMPLIED.len()] {
    IMPLIED.map(|(topology_key, max_skew)| SpreadConstraint {
        topology_key: Name::from(topology_key),
        max_skew,
        when: WhenUnsatisfiable::ScheduleAnyway,
        selector: Some(selector.clone()),
        min_domains: None,
        honor_affinity: true,
        honor_taints: false,
    })
}

/// What a pod is charged: what it asks for, and what follows from that.
fn charge(requested: &Demand, spec: &PodSpec, names: &mut Lent<'_>) -> Vec<(ResourceId, Amount)> {
    let derived = spec.derived.iter().filter(|(_, amount)| *amount > 0);
    let derived = derived.map(|(name, amount)| (names.number(name), *amount));
    requested.amounts.iter().copied().chain(derived).collect()
}

fn size_of(demand: &Demand) -> Size {
    Size { request: [demand.get(CPU_ID), demand.get(MEMORY_ID)], assumed: [demand.assumed.0, demand.assumed.1] }
}

fn compile(key: Key, namespace: &Name, tables: &mut Compiling<'_>) -> Shape {
    let spec = key.spec.clone();
    let mut names = Lent { names: &mut *tables.names, ids: Vec::new() };
    let requested = Demand {
        capped: spec.capped.is_some(),
        ..Demand::new(&spec.requests, spec.assumed, |name| names.number(name))
    };
    let mut demand = requested.clone();
    // What devices may serve is looked for on each node.
    let served: Vec<ResourceId> = spec.served.iter().map(|(request, _)| names.number(&request.resource)).collect();
    demand.amounts.retain(|(resource, _)| !served.contains(resource));
    let size = size_of(&demand);
    let charge = charge(&requested, &spec, &mut names);
    let device_counts = device_counts(&spec, &mut names);
    let resources = names.ids.into_boxed_slice();
    let (mut spread, mut soft_spread) = (Vec::new(), Vec::new());
    let implied = key.implied.iter().flat_map(implied_constraints);
    let constraints: Vec<SpreadConstraint> = spec.spread.iter().cloned().chain(implied).collect();
    for (i, constraint) in constraints.iter().enumerate() {
        let part = Part {
            namespaces: vec![namespace.clone()],
            namespace_selector: None,
            selector: constraint.selector.clone(),
        };
        let compiled = Spread {
            relation: tables.relations.intern(vec![part], tables.pods),
            topology: tables.topologies.lend(&constraint.topology_key, tables.nodes),
            max_skew: constraint.max_skew,
            min_domains: constraint.min_domains,
            mask: crate::relations::Eligible::mask(constraint.honor_affinity, constraint.honor_taints),
            itself: i64::from(spec.spread.get(i).is_some() && key.matches_itself[i]),
        };
        match constraint.when {
            WhenUnsatisfiable::DoNotSchedule => spread.push(compiled),
            WhenUnsatisfiable::ScheduleAnyway => soft_spread.push(compiled),
        }
    }
    let mut term = |term: &PodTerm, weight: i64| Term {
        relation: tables.relations.intern(vec![part(term)], tables.pods),
        topology: tables.topologies.lend(&term.topology_key, tables.nodes),
        weight,
    };
    let anti_affinity: Vec<Term> = spec.anti_affinity.iter().map(|t| term(t, 0)).collect();
    let mut preferred: Vec<Term> = Vec::new();
    preferred.extend(spec.preferred_affinity.iter().map(|(w, t)| term(t, i64::from(*w))));
    preferred.extend(spec.preferred_anti_affinity.iter().map(|(w, t)| term(t, -i64::from(*w))));
    let required: Vec<Term> = spec.affinity.iter().map(|t| term(t, 1)).collect();
    let mut holds = Vec::new();
    let mut hold = |t: &Term, bearing: Bearing| {
        holds.push(HolderKey { relation: t.relation, topology: t.topology, bearing });
    };
    anti_affinity.iter().for_each(|t| hold(t, Bearing::Objects));
    preferred.iter().chain(&required).for_each(|t| hold(t, Bearing::Inclines(t.weight)));
    // What is held is used once more than the terms themselves, except that required terms are only held.
    for t in anti_affinity.iter().chain(&preferred) {
        tables.relations.retain(t.relation);
    }
    let affinity = (!spec.affinity.is_empty()).then(|| {
        let all = tables.relations.intern(spec.affinity.iter().map(part).collect(), tables.pods);
        (all, required.iter().map(|t| t.topology).collect())
    });
    Shape {
        demand,
        size,
        charge,
        device_counts,
        spread,
        soft_spread,
        spread_implied: key.implied.is_some(),
        affinity,
        affine_to_itself: key.matches_itself.last().copied().unwrap_or(false),
        anti_affinity,
        preferred,
        holds,
        resources,
        users: 1,
        asked: Asked::default(),
        key,
    }
}
