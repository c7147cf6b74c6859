//! Pods.

pub(crate) mod affinity;
mod features;
pub(crate) mod known_specs;
pub(crate) mod requests;
pub mod ties;
pub(crate) mod usage;
mod volumes;

use std::sync::Arc;

use quotient_engine::Capacity;
use quotient_engine::device::PodClaim;
use quotient_engine::fact::{
    Amounts, Created, EvictionClass, HostPort, Labels, Name, Phase, PodFact, PodKey, PodSpec, RequestProblem,
};

use crate::crossquota::caps::Caps;
use crate::cursor::{Cursor, Notes};
use crate::intern::Interner;
use crate::limits;
use crate::object::ObjectKey;
use crate::selector::labels;
use crate::time::parse_timestamp;
use crate::tree;
use crate::volcano::membership::membership;
use crate::{gangs, pod_group};
use known_specs::KnownSpecs;

/// The scheduler of pods that name none.
pub(crate) const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// What the `DisruptionTarget` condition of a victim says; who the victim makes room for is read back
/// from it after a restart.
pub fn preemption_message(claimant: &PodKey) -> String {
    format!("preempted by quotient for {claimant}")
}

/// Whom the message of a `DisruptionTarget` condition names as the claimant.
fn claimant_of(message: &str) -> Option<PodKey> {
    let (_, claimant) = message.rsplit_once(" for ")?;
    let (namespace, name) = claimant.split_once('/')?;
    let is_name = |text: &str| !text.is_empty() && !text.contains([' ', '/']);
    (is_name(namespace) && is_name(name)).then(|| PodKey { namespace: namespace.into(), name: name.into() })
}

/// What is shared by all pods that are read.
pub(crate) struct Reading<'a> {
    /// What a whole GPU counts in gigabytes.
    pub whole_gpu_gb: u32,
    pub interner: &'a mut Interner,
    pub known: &'a mut KnownSpecs<Arc<PodSpec>>,
    pub caps: &'a mut Caps,
}

/// What there is to tell about a pod. `ours` says whether a scheduler's name is ours.
pub(crate) fn pod(
    root: &Cursor<'_, '_>,
    notes: &Notes,
    key: &ObjectKey,
    ours: impl Fn(&str) -> bool,
    reading: Reading<'_>,
) -> PodFact {
    let Reading { whole_gpu_gb, interner, known, caps } = reading;
    let (metadata, spec, status) = (root.field("metadata"), root.field("spec"), root.field("status"));
    let namespace = interner.name(key.namespace.as_deref().unwrap_or_default());
    let as_bound = ties::as_bound(root);
    let as_bound = as_bound.as_ref().map(|bound| Cursor::root(bound, notes));
    let tied = as_bound.as_ref().unwrap_or(root).field("metadata");
    let tied_labels = tied.field("labels");
    let is_kept = !tree::quota::flag(&tied_labels.field(tree::keys::PREEMPTIBLE), true);
    let labels = labels(&metadata.field("labels"), interner);
    let own = affinity::Own { namespace: &namespace, labels: &labels };
    let read_before = spec.value().map_or(Err(None), |spec| known.find(spec, status.value()));
    let (is_known, mark) = (read_before.is_ok(), read_before.as_ref().err().copied().flatten());
    let mut pod_spec =
        read_before.unwrap_or_else(|_| Arc::new(pod_spec(&spec, &status, &key.name, &own, whole_gpu_gb, interner)));
    let membership = membership(&tied, &pod_spec.requests, interner);
    let capped = caps.of_pod(&pod_spec.requests, &labels, &metadata.field("annotations"));
    if !membership.cards.is_empty() || capped.is_some() {
        let own = Arc::make_mut(&mut pod_spec);
        (own.cards, own.capped) = (membership.cards, capped);
        pod_spec = interner.spec(pod_spec);
    } else if !is_known {
        pod_spec = interner.spec(pod_spec);
        if let (Some(mark), Some(spec)) = (mark.filter(|_| notes.is_empty()), spec.value()) {
            known.keep(mark, spec, &pod_spec);
        }
    }
    // What Kubernetes itself calls the pod's group counts before annotations, and those before labels.
    let group = pod_group::group_name(&spec, interner).or(membership.group).map(|group| (group, None));
    let group = group.or_else(|| gangs::by_label(as_bound.as_ref().unwrap_or(root), &namespace, interner));
    let (group, group_terms) = group.unzip();
    let node = spec.field("nodeName").non_empty_str().map(|name| interner.name(name));
    let phase = phase(&status.field("phase"), node.is_some());
    let gates =
        spec.field("schedulingGates").items().filter_map(|gate| gate.field("name").str().map(Name::from)).collect();
    let scheduler = spec.field("schedulerName").non_empty_str().unwrap_or(DEFAULT_SCHEDULER);
    PodFact {
        uid: metadata.field("uid").str().unwrap_or_default().into(),
        created: timestamp(&metadata.field("creationTimestamp")).unwrap_or_default(),
        priority: spec.field("priority").int().unwrap_or(0),
        never_preempts: spec.field("preemptionPolicy").str() == Some("Never"),
        nominated: status.field("nominatedNodeName").non_empty_str().map(|name| interner.name(name)),
        marks: marks(&labels),
        victim_of: victim_of(&status),
        leaving_since: leaving_since(&metadata),
        ours: ours(scheduler),
        tree_quota: tied_labels.field(tree::keys::QUOTA_NAME).non_empty_str().map(|name| interner.name(name)),
        eviction_class: match (is_kept, membership.protected) {
            (true, _) => EvictionClass::NonPreemptible,
            (false, true) => EvictionClass::Protected,
            (false, false) => EvictionClass::Preemptible,
        },
        owner: owner(&metadata).map(|owner| interner.name(&owner)),
        spec: pod_spec,
        name: key.name.clone(),
        namespace,
        labels,
        phase,
        node,
        gates,
        queue: membership.queue,
        group,
        group_terms: group_terms.flatten(),
        task: membership.task,
        device_claims: device_claims(&spec, &status, interner),
        // Last, when everything was looked at.
        problem: notes
            .first_of_spec()
            .map(|note| RequestProblem { message: note_message(&note).into(), field: note.field.into() })
            .or(membership.problem),
    }
}

/// What is wrong with the field, without its name.
fn note_message(note: &crate::cursor::Note) -> String {
    match &note.value {
        Some(value) => format!("{value}: {}", note.message),
        None => note.message.clone(),
    }
}

/// The spec of a pod named `name`.
fn pod_spec<'v>(
    spec: &Cursor<'v, '_>,
    status: &Cursor<'v, '_>,
    name: &str,
    own: &affinity::Own<'_>,
    whole_gpu_gb: u32,
    interner: &mut Interner,
) -> PodSpec {
    let (requests, assumed) = requests::requests(spec, Some(status), interner);
    let derived = requests::derived(spec, &requests, whole_gpu_gb, interner);
    let extended = requests::extended(spec, interner);
    let mut read = PodSpec { requests, extended, assumed, derived, ..placement(spec, name, own, interner) };
    limits::hold(spec, &mut read);
    read
}

/// Everything of a spec but what the pod asks for.
fn placement(spec: &Cursor<'_, '_>, name: &str, own: &affinity::Own<'_>, interner: &mut Interner) -> PodSpec {
    let affinity = spec.field("affinity");
    let (near, apart) = (affinity.field("podAffinity"), affinity.field("podAntiAffinity"));
    PodSpec {
        requests: Amounts::default(),
        assumed: (0, 0),
        node_selector: labels(&spec.field("nodeSelector"), interner),
        required_nodes: affinity::required_nodes(&affinity, interner),
        preferred_nodes: affinity::preferred_nodes(&affinity, interner),
        tolerations: affinity::tolerations(spec, interner),
        spread: affinity::spread(spec, own, interner),
        affinity: affinity::required_pods(&near, own, interner),
        anti_affinity: affinity::required_pods(&apart, own, interner),
        preferred_affinity: affinity::preferred_pods(&near, own, interner),
        preferred_anti_affinity: affinity::preferred_pods(&apart, own, interner),
        ports: host_ports(spec, interner),
        volumes: volumes::volumes(spec, name, interner),
        images: images(spec, interner),
        derived: Amounts::default(),
        capped: None,
        cards: Vec::new(),
        any_card: false,
        extended: Vec::new(),
        features: features::features(spec, interner),
        needs: Vec::new(),
        served: Vec::new(),
    }
}

/// Reads a spec for what is noted about it: terms, tolerations, ports and volumes that cannot be read.
pub(crate) fn read_placement(spec: &Cursor<'_, '_>) {
    let own = affinity::Own { namespace: &Name::default(), labels: &Labels::default() };
    placement(spec, "", &own, &mut Interner::default());
}

/// The pod's claims on devices. One from a template has its name in the pod's status once it was made; one that its
/// status says needs no claim is none.
fn device_claims(spec: &Cursor<'_, '_>, status: &Cursor<'_, '_>, interner: &mut Interner) -> Vec<PodClaim> {
    let statuses = status.field("resourceClaimStatuses");
    let mut claims = Vec::new();
    for claim in spec.field("resourceClaims").items() {
        if let Some(name) = claim.field("resourceClaimName").non_empty_str() {
            claims.push(PodClaim::Named(interner.name(name)));
            continue;
        }
        let template = interner.name(claim.field("resourceClaimTemplateName").str().unwrap_or_default());
        let name = claim.field("name");
        let made = statuses.items().find(|made| made.field("name").str() == name.str());
        let made = made.map(|made| made.field("resourceClaimName").non_empty_str().map(|name| interner.name(name)));
        match made {
            Some(None) => {}
            made => claims.push(PodClaim::Made { template, claim: made.flatten() }),
        }
    }
    let extended = status.field("extendedResourceClaimStatus");
    if let Some(name) = extended.field("resourceClaimName").non_empty_str() {
        claims.push(PodClaim::Extended(interner.name(name)));
    }
    claims
}

/// The marks that the pod bears, as in-quota or over-quota, by API group.
fn marks(labels: &Labels) -> Vec<(Name, Capacity)> {
    let mark = |(group, label): (&str, &str)| {
        let value = labels.get(label)?;
        let capacity = [Capacity::InQuota, Capacity::OverQuota].into_iter().find(|c| c.name() == &**value)?;
        Some((Name::from(group), capacity))
    };
    let groups = [("n8s.nebuly.ai", "n8s.nebuly.ai/capacity"), ("nos.nebuly.com", "nos.nebuly.com/capacity")];
    groups.into_iter().filter_map(mark).collect()
}

/// A pod without a phase has just been created; one that says where it is counts as running there.
fn phase(at: &Cursor<'_, '_>, has_node: bool) -> Phase {
    let default = if has_node { Phase::Running } else { Phase::Pending };
    match at.non_empty_str() {
        None => default,
        Some("Pending") => Phase::Pending,
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        // The node has not been heard of: the pod still holds what it holds.
        Some("Unknown") => default,
        Some(_) => {
            at.note("expected Pending, Running, Succeeded or Failed");
            default
        }
    }
}

/// Since when a pod is on its way out. An API server writes down when it is to be gone at the latest, and how long it
/// was given.
fn leaving_since(metadata: &Cursor<'_, '_>) -> Option<Created> {
    let Created(gone_at) = timestamp(&metadata.field("deletionTimestamp"))?;
    let given_seconds: i64 = metadata.field("deletionGracePeriodSeconds").int().unwrap_or(0);
    Some(Created(gone_at.saturating_sub(given_seconds.saturating_mul(1_000_000))))
}

fn timestamp(at: &Cursor<'_, '_>) -> Option<Created> {
    let text = at.str()?;
    parse_timestamp(text).map_err(|message| at.note(message)).ok().map(Created)
}

/// The controller that made the pod, as `Kind/name`.
fn owner(metadata: &Cursor<'_, '_>) -> Option<String> {
    let owners = metadata.field("ownerReferences");
    let controller = owners.items().find(|owner| owner.field("controller").bool() == Some(true))?;
    Some([controller.field("kind").str()?, controller.field("name").str()?].join("/"))
}

fn victim_of(status: &Cursor<'_, '_>) -> Option<PodKey> {
    let conditions = status.field("conditions");
    let target = conditions.items().find(|condition| {
        condition.field("type").str() == Some("DisruptionTarget") && condition.field("status").str() == Some("True")
    })?;
    claimant_of(target.field("message").str()?)
}

/// The ports of the node that containers and sidecars take. Where the pod lives in the node's network,
/// every port is one.
fn host_ports(spec: &Cursor<'_, '_>, interner: &mut Interner) -> Vec<HostPort> {
    let host_network = spec.field("hostNetwork").bool().unwrap_or(false);
    let (containers, init) = (spec.field("containers"), spec.field("initContainers"));
    let running = containers.items().chain(init.items().filter(requests::is_sidecar));
    let mut ports = Vec::new();
    for container in running {
        for port in container.field("ports").items() {
            let host_port = port.field("hostPort").int::<u16>().filter(|port| *port != 0);
            let container_port = port.field("containerPort").int::<u16>().filter(|_| host_network);
            let Some(number) = host_port.or(container_port).filter(|port| *port != 0) else { continue };
            ports.push(HostPort {
                ip: interner.name(port.field("hostIP").non_empty_str().unwrap_or("0.0.0.0")),
                protocol: interner.name(port.field("protocol").non_empty_str().unwrap_or("TCP")),
                port: number,
            });
        }
    }
    ports
}

/// The images of containers and init containers.
fn images(spec: &Cursor<'_, '_>, interner: &mut Interner) -> Vec<Name> {
    let (containers, init) = (spec.field("containers"), spec.field("initContainers"));
    let images =
        init.items().chain(containers.items()).filter_map(|container| container.field("image").non_empty_str());
    images.map(|image| interner.name(&normalized_image(image))).collect()
}

/// The name a node would know the image by: with a tag, `latest` where neither tag nor digest is given.
fn normalized_image(image: &str) -> String {
    // A colon before the last slash belongs to the registry's port.
    if image.rfind(':') <= image.rfind('/') { format!("{image}:latest") } else { image.to_string() }
}
