//! The features of Kubernetes that a node must declare for a pod to run there as it says.

use quotient_engine::fact::Name;

use crate::cursor::Cursor;
use crate::intern::Interner;

/// Whether a pod with this spec needs a feature.
type IsNeeded = fn(&Cursor<'_, '_>) -> bool;

/// The features that bear on where a pod can be, as Kubernetes 1.37 has them.
const FEATURES: [(&str, IsNeeded); 3] = [
    ("RestartAllContainersOnContainerExits", restarts_all_containers),
    ("UserNamespacesHostNetworkSupport", has_own_users_on_the_host_network),
    ("VolumeBindMountOptions", has_bind_mount_options),
];

/// The features that a pod needs, by name.
pub(super) fn features(spec: &Cursor<'_, '_>, interner: &mut Interner) -> Vec<Name> {
    FEATURES.iter().filter(|(_, is_needed)| is_needed(spec)).map(|(name, _)| interner.name(name)).collect()
}

fn any_container(spec: &Cursor<'_, '_>, is_so: impl Fn(&Cursor<'_, '_>) -> bool) -> bool {
    ["containers", "initContainers"].iter().any(|list| spec.field(list).items().any(|container| is_so(&container)))
}

fn restarts_all_containers(spec: &Cursor<'_, '_>) -> bool {
    any_container(spec, |container| {
        let rules = container.field("restartPolicyRules");
        rules.items().any(|rule| rule.field("action").str() == Some("RestartAllContainers"))
    })
}

fn has_own_users_on_the_host_network(spec: &Cursor<'_, '_>) -> bool {
    spec.field("hostNetwork").bool() == Some(true) && spec.field("hostUsers").bool() == Some(false)
}

fn has_bind_mount_options(spec: &Cursor<'_, '_>) -> bool {
    any_container(spec, |container| {
        let mounts = container.field("volumeMounts");
        mounts.items().any(|mount| mount.field("bindMountOptions").items().next().is_some())
    })
}
