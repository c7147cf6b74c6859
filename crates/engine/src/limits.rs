//! Limits of what objects may bring.

/// Names of resources, and as many topology keys, that pods may bring all together beside those of nodes, quotas and
/// groups. It is some times what the largest clusters name, and what each costs on every node stays within some
/// megabytes in all.
pub const POD_NAMES_MAX: usize = 1024;

/// So often one pod or gang may take or give up reservations in a cycle while nothing is bound or evicted. In a cycle
/// that comes to rest a pod does so a few times.
pub const MOVES_MAX: u32 = 100;

/// After so many turns of a cycle in which nothing is bound or evicted, every turn counts as a move does. It is more
/// than the pods of the largest cluster that Quotient is made for, each of which may have to be looked at once.
pub const IDLE_TURNS_MAX: usize = 1_000_000;
