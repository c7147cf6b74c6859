//! How much memory this process holds, as the kernel counts it.

use serde::{Deserialize, Serialize};

/// Resident memory in bytes. Nothing where the system does not tell (`/proc` is Linux's).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    pub current_bytes: Option<u64>,
    /// The most it ever was.
    pub peak_bytes: Option<u64>,
}

impl Memory {
    /// What is held now, and what was at most.
    pub fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Memory { current_bytes: field(&status, "VmRSS:"), peak_bytes: field(&status, "VmHWM:") }
    }
}

fn field(status: &str, name: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_by_name() {
        let status = "Name:\tquotient\nVmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\n";
        assert_eq!(field(status, "VmRSS:"), Some(1 << 20));
        assert_eq!(field(status, "VmHWM:"), Some(2 << 20));
        assert_eq!(field(status, "VmSwap:"), None);
    }
}
