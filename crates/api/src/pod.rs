//! Pods.

use quotient_engine::fact::PodKey;

/// What the `DisruptionTarget` condition of a victim says; who the victim makes room for is read back
/// from it after a restart.
pub fn preemption_message(claimant: &PodKey) -> String {
    format!("preempted by quotient for {claimant}")
}
