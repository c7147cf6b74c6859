//! What a server lacks that is older than the newest that this is tested on. All else works without it.

/// What came with which minor version of Kubernetes 1. `docs/live.md` has the same table.
const CAME_WITH: &[(u32, &str)] = &[
    (30, "the tenant policies"),
    (33, "resize in place and device claims"),
    (34, "the CRDs of elastic quotas, whose rule this server rejects as too costly"),
    (35, "features that nodes declare"),
    (37, "PodGroups of Kubernetes"),
];

/// What a server of this version (`v1.34.4`) lacks, as one line.
pub fn lacks(version: &str) -> Option<String> {
    let (major, rest) = version.trim_start_matches('v').split_once('.')?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let minor: u32 = digits.parse().ok().filter(|_| major == "1")?;
    let missing = CAME_WITH.iter().filter(|(came, _)| minor < *came);
    let missing: Vec<String> = missing.map(|(came, what)| format!("{what} (from 1.{came})")).collect();
    (!missing.is_empty()).then(|| format!("not in Kubernetes 1.{minor}, and done without: {}", missing.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_server_lacks_what_came_later() {
        assert_eq!(
            lacks("v1.34.4").as_deref(),
            Some(
                "not in Kubernetes 1.34, and done without: features that nodes declare (from 1.35); PodGroups of Kubernetes \
                 (from 1.37)"
            )
        );
        assert!(lacks("v1.29.1-eks-5").is_some_and(|line| line.contains("the tenant policies (from 1.30)")));
        for version in ["v1.37.1", "v1.40.0", "unknown", "v2.0.0", ""] {
            assert_eq!(lacks(version), None, "{version}");
        }
    }
}
