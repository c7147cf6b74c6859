//! Whether the program runs: its Deployment, its configuration and its Lease.

use anyhow::Result;
use jiff::Timestamp;
use quotient_api::{Configuration, read, time};
use quotient_cluster::install::NAME;
use quotient_cluster::permission::LEASE;
use serde_json::Value;

use super::asking::Answer;
use super::{Asking, Section};

/// The findings, and the configuration that the program in the cluster runs with.
pub async fn check(asking: &Asking, namespace: &str) -> Result<(Section, Option<Configuration>)> {
    let mut section = Section::new("program");
    deployment(asking, namespace, &mut section).await?;
    let configuration = configuration(asking, namespace, &mut section).await?;
    lease(asking, namespace, &mut section).await?;
    Ok((section, configuration))
}

async fn deployment(asking: &Asking, namespace: &str, section: &mut Section) -> Result<()> {
    let found = match asking.get(&format!("/apis/apps/v1/namespaces/{namespace}/deployments/{NAME}")).await? {
        Answer::Object(found) => found,
        _ => {
            let hint = "apply what `quotient install` prints, or ignore this where it runs outside of the cluster";
            section.warn(format!("there is no Deployment {namespace}/{NAME}"), hint);
            return Ok(());
        }
    };
    let number = |pointer: &str| found.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let (ready, wanted) = (number("/status/readyReplicas"), number("/spec/replicas"));
    let image = found.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str).unwrap_or("?");
    let message = format!("{ready} of {wanted} replicas of {image} are ready");
    match ready {
        0 => section.fail(message, &format!("`kubectl describe pods -n {namespace}` says why")),
        _ if ready < wanted => section.warn(message, &format!("`kubectl describe pods -n {namespace}` says why")),
        _ => section.ok(message),
    }
    Ok(())
}

async fn configuration(asking: &Asking, namespace: &str, section: &mut Section) -> Result<Option<Configuration>> {
    let Answer::Object(map) = asking.get(&format!("/api/v1/namespaces/{namespace}/configmaps/{NAME}")).await? else {
        return Ok(None);
    };
    let text = map.pointer("/data/quotient.yaml").and_then(Value::as_str).unwrap_or_default();
    let (values, mut problems) = read::parse("quotient.yaml", text);
    let value = values.into_iter().next().map_or(Value::Object(Default::default()), |(_, value)| value);
    let read = Configuration::from_value(&value).unwrap_or_else(|found| {
        problems.extend(found);
        Configuration::default()
    });
    match problems.is_empty() {
        true => section.ok(format!("the configuration in ConfigMap {namespace}/{NAME} is valid")),
        false => {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            section.fail(
                format!("ConfigMap {namespace}/{NAME}: {}", lines.join("; ")),
                "correct it: replicas go on with the last valid one",
            );
        }
    }
    Ok(problems.is_empty().then_some(read))
}

async fn lease(asking: &Asking, namespace: &str, section: &mut Section) -> Result<()> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE}");
    let Answer::Object(lease) = asking.get(&path).await? else {
        section.fail(
            format!("there is no Lease {namespace}/{LEASE}: no replica leads"),
            "start the program, or see its log",
        );
        return Ok(());
    };
    let now = Timestamp::now().as_microsecond();
    match stale(&lease, now) {
        Ok((holder, age_s)) => section.ok(format!("{holder} leads; it renewed the Lease {age_s} s ago")),
        Err(why) => section.fail(format!("Lease {namespace}/{LEASE}: {why}"), "start the program, or see its log"),
    }
    Ok(())
}

/// The holder and the age of the last renewal in seconds; an error where nobody holds it any more.
fn stale(lease: &Value, now_us: i64) -> Result<(String, i64), String> {
    let spec = &lease["spec"];
    let holder = spec["holderIdentity"].as_str().unwrap_or_default();
    if holder.is_empty() {
        return Err("no replica holds it".to_string());
    }
    let renewed = spec["renewTime"].as_str().and_then(|text| time::parse_timestamp(text).ok());
    let renewed = renewed.ok_or("it was never renewed")?;
    let age_s = (now_us - renewed).max(0) / 1_000_000;
    let duration_s = spec["leaseDurationSeconds"].as_i64().unwrap_or(15);
    match age_s > 2 * duration_s {
        true => Err(format!("{holder} renewed it {age_s} s ago, more than twice its duration of {duration_s} s")),
        false => Ok((holder.to_string(), age_s)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_lease_is_held_while_it_is_renewed() {
        let renewed = time::parse_timestamp("2026-01-01T00:00:00.000000Z").expect("it can be read");
        let lease = |holder: &str| {
            json!({"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15,
                "renewTime": "2026-01-01T00:00:00.000000Z"}})
        };
        assert_eq!(stale(&lease("a"), renewed + 3_000_000), Ok(("a".to_string(), 3)));
        assert!(stale(&lease("a"), renewed + 31_000_000).is_err());
        assert!(stale(&lease(""), renewed).is_err());
        assert!(stale(&json!({"spec": {"holderIdentity": "a"}}), renewed).is_err());
    }
}
