//! The systems whose objects are understood. Each can be left out of an installation.

use quotient_api::{Kind, elastic, is_quota, tree, volcano};

/// A family of objects that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// Quotas of namespaces: elastic ones, composite ones, and every kind that has no system of its own.
    Elastic,
    /// Quota trees and their profiles.
    Tree,
    /// Queues, groups of pods, and jobs of several tasks.
    Queues,
    /// The controller of those jobs. It has no kinds of its own; it needs the right to create pods everywhere, which is
    /// why it has to be asked for.
    Jobs,
}

/// All systems.
pub const SYSTEMS: [System; 4] = [System::Elastic, System::Tree, System::Queues, System::Jobs];

impl System {
    /// The name by which it is chosen.
    pub fn name(self) -> &'static str {
        match self {
            System::Elastic => "elastic",
            System::Tree => "tree",
            System::Queues => "queues",
            System::Jobs => "jobs",
        }
    }

    /// The system that a kind belongs to; none for those that Kubernetes itself has.
    pub fn of(kind: &Kind) -> Option<System> {
        match kind.group {
            group if elastic::GROUPS.contains(&group) => Some(System::Elastic),
            tree::GROUP | tree::PROFILE_GROUP => Some(System::Tree),
            volcano::SCHEDULING | volcano::BATCH | volcano::command::BUS => Some(System::Queues),
            group => is_quota(group, kind.kind).then_some(System::Elastic),
        }
    }
}
