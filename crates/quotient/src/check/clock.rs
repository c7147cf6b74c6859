//! Whether this machine's clock and the API server's agree.

use anyhow::Result;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use super::{Asking, Section};

/// Certificates, ages of pods and leases are off by as much as clocks are. A header says whole seconds.
const SECONDS_MAX: u64 = 5;

pub async fn check(asking: &Asking, section: &mut Section) -> Result<()> {
    let date = asking.header("/version", http::header::DATE).await?;
    let Some(theirs) = date.as_deref().and_then(|date| DateTimeParser::new().parse_timestamp(date).ok()) else {
        section.warn("the API server does not say what time it is", "compare the clocks by hand");
        return Ok(());
    };
    let apart = Timestamp::now().as_second().abs_diff(theirs.as_second());
    if apart <= SECONDS_MAX {
        section.ok(format!("the clocks of this machine and of the API server are {apart} s apart"));
    } else {
        section.fail(
            format!("the clocks of this machine and of the API server are {apart} s apart"),
            "set both by NTP: ages of pods, leases and certificates depend on them",
        );
    }
    Ok(())
}
