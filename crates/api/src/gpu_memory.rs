//! GPU memory in gigabytes, as it follows from the kinds of GPU that are asked for.
//!
//! Quotas may limit GPU memory whatever the GPUs are called: a whole GPU counts as many gigabytes as is configured, a
//! MIG device and a slice say theirs in their names.
//!
//! It is computed from what a pod holds in all, not container by container. A device that only an init container asks
//! for stays with the pod as long as the pod lives, so a pod whose init container needs a whole GPU and whose container
//! needs a slice keeps both from everybody else, and is charged for both. Where all containers ask for one kind of GPU
//! the two ways come to the same.

/// What the memory is called in quotas, by the API group of the quota.
pub const GPU_MEMORY: [&str; 2] = ["n8s.nebuly.ai/gpu-memory", "nos.nebuly.com/gpu-memory"];

/// What a whole GPU counts where nothing else is configured.
pub const WHOLE_GPU_GB: u32 = 16;

/// The gigabytes of all that `amounts` name. `whole_gb` is what a whole GPU counts.
pub(crate) fn gigabytes<'a>(amounts: impl IntoIterator<Item = (&'a str, i128)>, whole_gb: u32) -> i128 {
    let each = |(resource, amount): (&str, i128)| amount.saturating_mul(gigabytes_of_one(resource, whole_gb).into());
    amounts.into_iter().map(each).fold(0, i128::saturating_add)
}

/// The gigabytes of one unit of `resource`; 0 where it is no GPU.
fn gigabytes_of_one(resource: &str, whole_gb: u32) -> u64 {
    let Some(device) = resource.strip_prefix("nvidia.com/") else { return 0 };
    if device == "gpu" {
        return whole_gb.into();
    }
    let size = match device.strip_prefix("mig-") {
        Some(profile) => profile_size(profile),
        None => device.strip_prefix("gpu-"),
    };
    size.and_then(leading_gigabytes).unwrap_or(0)
}

/// What follows `<n>g.` in the name of a MIG profile. Compute instances (`1c.3g.20gb`) have the memory of the GPU
/// instance that they are in.
fn profile_size(profile: &str) -> Option<&str> {
    let whole = match profile.split_once("c.") {
        Some((instances, rest)) if is_number(instances) => rest,
        _ => profile,
    };
    let (slices, size) = whole.split_once("g.")?;
    is_number(slices).then_some(size)
}

/// `10` of `10gb`, `10gb+me`, `10gb.me` and `10gb.shared`.
fn leading_gigabytes(size: &str) -> Option<u64> {
    let (number, rest) = size.split_once("gb")?;
    let ends = rest.is_empty() || rest.starts_with(['.', '+', '-']);
    (ends && is_number(number)).then(|| number.parse().ok()).flatten()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gigabytes_by_name() {
        let cases = [
            ("nvidia.com/gpu", 16),
            ("nvidia.com/mig-1g.10gb", 10),
            ("nvidia.com/mig-2g.32gb", 32),
            ("nvidia.com/mig-7g.80gb", 80),
            ("nvidia.com/mig-1g.5gb+me", 5),
            ("nvidia.com/mig-1g.5gb.me", 5),
            ("nvidia.com/mig-1g.24gb-me", 24),
            ("nvidia.com/mig-1g.5gb.shared", 5),
            ("nvidia.com/mig-1c.3g.20gb", 20),
            ("nvidia.com/gpu-10gb", 10),
            ("nvidia.com/gpu.shared", 0),
            ("nvidia.com/gpu-gb", 0),
            ("nvidia.com/gpu-10gbx", 0),
            ("nvidia.com/gpu-1e3gb", 0),
            ("nvidia.com/mig-g.10gb", 0),
            ("nvidia.com/mig-xg.10gb", 0),
            ("nvidia.com/mig-1g.tengb", 0),
            ("nvidia.com/mig-1g.99999999999999999999gb", 0),
            ("amd.com/gpu", 0),
            ("gpu", 0),
            ("cpu", 0),
        ];
        for (resource, expected) in cases {
            assert_eq!(gigabytes_of_one(resource, WHOLE_GPU_GB), expected, "{resource}");
        }
    }

    #[test]
    fn sums() {
        let pod = [("cpu", 4000), ("nvidia.com/gpu", 2), ("nvidia.com/mig-1g.10gb", 1)];
        assert_eq!(gigabytes(pod, 16), 42);
        assert_eq!(gigabytes(pod, 8), 26);
        assert_eq!(gigabytes([("nvidia.com/gpu", i128::MAX)], 16), i128::MAX);
    }
}
