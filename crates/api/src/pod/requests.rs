//! What a pod asks for, as Kubernetes counts it.
//!
//! Containers run together and are summed. Init containers run one after another before them, so that
//! the largest counts, and a sidecar (an init container that keeps running) counts beside everything
//! that starts after it. What the pod itself asks for stands for what its containers do, and the
//! overhead of its runtime comes on top. A limit stands for a request that is not given.
//!
//! A running container may be resized. Until its node has done that, the larger of what the spec asks for and what the
//! container has counts; a resize that the node can never do does not count.

use std::collections::BTreeMap;

use quotient_engine::device::ExtendedRequest;
use quotient_engine::fact::{Amount, Amounts, CPU, MEMORY, PODS};

use crate::cursor::Cursor;
use crate::gpu_memory::{GPU_MEMORY, gigabytes};
use crate::intern::Interner;

/// What a container that asks for no cpu is taken to use, for scoring: 100m.
pub(crate) const ASSUMED_CPU: Amount = 100;
/// What a container that asks for no memory is taken to use, for scoring: 200Mi.
pub(crate) const ASSUMED_MEMORY: Amount = 200 * 1024 * 1024;

/// Amounts by resource, as they are summed up. 128 bits hold any sum of what 64 bits hold.
type Sums<'v> = BTreeMap<&'v str, i128>;

/// What a pod asks for, and what scoring takes it to use (cpu, memory). A pod that there is has a status, which says
/// how far it is resized.
pub(crate) fn requests<'v, 's>(
    spec: &Cursor<'v, '_>,
    status: Option<&'s Cursor<'v, 's>>,
    interner: &mut Interner,
) -> (Amounts, (Amount, Amount)) {
    let resize = Resize::of(status);
    let (running, starting) = (spec.field("containers"), spec.field("initContainers"));
    let containers: Vec<Sums<'_>> = running.items().map(|c| resize.settle(&c, "containerStatuses")).collect();
    let init: Vec<(bool, Sums<'_>)> =
        starting.items().map(|c| (is_sidecar(&c), resize.settle(&c, "initContainerStatuses"))).collect();
    let pod = resize.settle_pod(pod_level(spec, &containers, &init));
    let overhead: Sums<'_> = amounts(&spec.field("overhead"));

    let total = |containers: &[Sums<'_>], init: &[(bool, Sums<'_>)]| {
        let mut total = aggregate(containers, init);
        total.extend(pod.iter());
        add(&mut total, &overhead);
        total.into_iter().map(|(resource, amount)| (resource.to_string(), amount)).collect::<BTreeMap<_, _>>()
    };
    let exact = total(&containers, &init);
    let assumed_containers: Vec<Sums<'_>> = containers.iter().cloned().map(with_assumed).collect();
    let assumed_init: Vec<(bool, Sums<'_>)> =
        init.iter().map(|(sidecar, sums)| (*sidecar, with_assumed(sums.clone()))).collect();
    let assumed = total(&assumed_containers, &assumed_init);

    let fit = |resource: &str, amount: i128| fit(spec, resource, amount);
    let assumed_of = |resource: &str| assumed.get(resource).copied().unwrap_or(0);
    let assumed = (fit(CPU, assumed_of(CPU)), fit(MEMORY, assumed_of(MEMORY)));
    let requests = exact
        .into_iter()
        .filter(|(resource, amount)| *amount != 0 && resource != PODS)
        .map(|(resource, amount)| (interner.name(&resource), fit(&resource, amount)))
        .collect();
    (requests, assumed)
}

/// An amount that is counted in 64 bits. What does not fit is noted.
fn fit(spec: &Cursor<'_, '_>, resource: &str, amount: i128) -> Amount {
    Amount::try_from(amount)
        .map_err(|_| spec.note(format!("asks for {amount} of {resource} in total, more than can be counted")))
        .unwrap_or(Amount::MAX)
}

/// What quotas charge a pod with these requests for, beyond the requests: its GPU memory, under each name it has.
pub(crate) fn derived(
    spec: &Cursor<'_, '_>,
    requests: &Amounts,
    whole_gpu_gb: u32,
    interner: &mut Interner,
) -> Amounts {
    let gigabytes = gigabytes(requests.iter().map(|(name, amount)| (&**name, i128::from(*amount))), whole_gpu_gb);
    GPU_MEMORY.map(|name| (interner.name(name), fit(spec, name, gigabytes))).into_iter().collect()
}

/// The extended resources that containers ask for, one by one.
pub(crate) fn extended(spec: &Cursor<'_, '_>, interner: &mut Interner) -> Vec<ExtendedRequest> {
    let (init, containers) = (spec.field("initContainers"), spec.field("containers"));
    let all = init.items().map(|at| (true, at)).chain(containers.items().map(|at| (false, at)));
    let mut requests = Vec::new();
    for (place, (is_init, at)) in all.enumerate() {
        let sums = container(&at);
        // The order is that of the names, as a map of sums has it.
        let own = sums.iter().filter(|(name, amount)| **amount > 0 && is_extended(name));
        for (request, (name, amount)) in own.enumerate() {
            requests.push(ExtendedRequest {
                container: place as u32,
                request: request as u32,
                init: is_init && !is_sidecar(&at),
                resource: interner.name(name),
                amount: Amount::try_from(*amount).unwrap_or(Amount::MAX),
            });
        }
    }
    requests
}

/// Whether a resource is neither Kubernetes' own nor a quota's: a class may serve it.
fn is_extended(resource: &str) -> bool {
    let domain = resource.split_once('/').map(|(domain, _)| domain);
    resource.starts_with(crate::device::CLASS_RESOURCE_PREFIX)
        || domain.is_some_and(|domain| domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io"))
}

/// Whether an init container keeps running beside the containers.
pub(crate) fn is_sidecar(container: &Cursor<'_, '_>) -> bool {
    container.field("restartPolicy").str() == Some("Always")
}

/// What one container asks for. A resource that is asked for with 0 is there, as 0.
fn container<'v>(at: &Cursor<'v, '_>) -> Sums<'v> {
    let resources = at.field("resources");
    let mut sums = amounts(&resources.field("limits"));
    sums.extend(amounts(&resources.field("requests")));
    sums
}

/// How far a pod is resized.
struct Resize<'s, 'v> {
    status: Option<&'s Cursor<'v, 's>>,
    /// The node can never do what the spec asks for.
    is_infeasible: bool,
}

impl<'s, 'v> Resize<'s, 'v> {
    fn of(status: Option<&'s Cursor<'v, 's>>) -> Self {
        let is_refused = |condition: Cursor<'v, '_>| {
            condition.field("type").str() == Some("PodResizePending")
                && condition.field("status").str() == Some("True")
                && condition.field("reason").str() == Some("Infeasible")
        };
        let is_infeasible = status.is_some_and(|status| status.field("conditions").items().any(is_refused));
        Resize { status, is_infeasible }
    }

    /// What a container counts for, with regard to what it has.
    fn settle(&self, at: &Cursor<'v, '_>, list: &str) -> Sums<'v> {
        let asked = container(at);
        let Some(status) = self.status else { return asked };
        let (name, statuses) = (at.field("name"), status.field(list));
        let own = statuses.items().find(|own| own.field("name").str() == name.str() && own.field("resources").exists());
        match own {
            Some(own) => self.larger(asked, &own),
            None => asked,
        }
    }

    /// The same for what the pod as a whole asks for.
    fn settle_pod(&self, asked: Sums<'v>) -> Sums<'v> {
        match self.status.filter(|status| !asked.is_empty() && status.field("resources").exists()) {
            Some(status) => {
                let mut sums = self.larger(asked, status);
                sums.retain(|resource, _| is_pod_level(resource));
                sums
            }
            None => asked,
        }
    }

    /// The larger of what is asked for and what a status says is there, or what is there alone.
    fn larger(&self, asked: Sums<'v>, status: &Cursor<'v, '_>) -> Sums<'v> {
        let mut sums = amounts(&status.field("resources").field("requests"));
        raise(&mut sums, &amounts(&status.field("allocatedResources")));
        if !self.is_infeasible || sums.is_empty() {
            raise(&mut sums, &asked);
        }
        sums
    }
}

/// The resources that a pod as a whole can ask for.
fn is_pod_level(resource: &str) -> bool {
    resource == CPU || resource == MEMORY || resource.starts_with("hugepages-")
}

/// What the pod as a whole asks for: what it says, else what its containers ask for, else its limit.
fn pod_level<'v>(spec: &Cursor<'v, '_>, containers: &[Sums<'v>], init: &[(bool, Sums<'v>)]) -> Sums<'v> {
    let resources = spec.field("resources");
    let mut sums = amounts(&resources.field("limits"));
    sums.retain(|resource, _| is_pod_level(resource));
    if !sums.is_empty() {
        let aggregate = aggregate(containers, init);
        for (resource, amount) in &mut sums {
            *amount = aggregate.get(resource).copied().unwrap_or(*amount);
        }
    }
    sums.extend(amounts(&resources.field("requests")).into_iter().filter(|(resource, _)| is_pod_level(resource)));
    sums
}

/// What containers ask for together, init containers considered.
fn aggregate<'v>(containers: &[Sums<'v>], init: &[(bool, Sums<'v>)]) -> Sums<'v> {
    let mut running = Sums::new();
    containers.iter().for_each(|sums| add(&mut running, sums));
    let mut sidecars = Sums::new();
    let mut starting = Sums::new();
    for (is_sidecar, sums) in init {
        let mut now = sidecars.clone();
        add(&mut now, sums);
        raise(&mut starting, &now);
        if *is_sidecar {
            add(&mut running, sums);
            sidecars = now;
        }
    }
    raise(&mut running, &starting);
    running
}

/// Adds to each amount.
fn add<'v>(sums: &mut Sums<'v>, other: &Sums<'v>) {
    for (resource, amount) in other {
        *sums.entry(resource).or_default() += amount;
    }
}

/// Raises each amount to at least the other.
fn raise<'v>(sums: &mut Sums<'v>, other: &Sums<'v>) {
    for (resource, amount) in other {
        let sum = sums.entry(resource).or_default();
        *sum = (*sum).max(*amount);
    }
}

fn with_assumed(mut sums: Sums<'_>) -> Sums<'_> {
    sums.entry(CPU).or_insert(ASSUMED_CPU.into());
    sums.entry(MEMORY).or_insert(ASSUMED_MEMORY.into());
    sums
}

/// The map of quantities at `at`.
fn amounts<'v>(at: &Cursor<'v, '_>) -> Sums<'v> {
    at.entries().filter_map(|(resource, value)| Some((resource, value.amount(resource)?.into()))).collect()
}

/// What a pod may use at most, as a ResourceQuota counts it.
pub(crate) fn limits<'v>(spec: &Cursor<'v, '_>) -> BTreeMap<&'v str, i128> {
    let of = |at: &Cursor<'v, '_>| amounts(&at.field("resources").field("limits"));
    let containers: Vec<Sums<'_>> = spec.field("containers").items().map(|c| of(&c)).collect();
    let init: Vec<(bool, Sums<'_>)> = spec.field("initContainers").items().map(|c| (is_sidecar(&c), of(&c))).collect();
    let mut total = aggregate(&containers, &init);
    total.extend(of(spec).into_iter().filter(|(resource, _)| is_pod_level(resource)));
    add(&mut total, &amounts(&spec.field("overhead")));
    total
}
