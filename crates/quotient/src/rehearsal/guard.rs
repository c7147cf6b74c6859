//! A cluster in which something else is at work is not one to run scenarios on: they empty it.

use quotient_api::{Kind, ObjectKey, kinds, pod_group};
use quotient_sim::Trouble;
use serde_json::Value;

use super::clean::is_labelled;
use super::server::{Objects, Server};

/// Why scenarios cannot be run on this cluster, in one line; `None` when they can.
pub async fn objection(server: &Server) -> Result<Option<String>, Trouble> {
    let quotas = |kind: &&'static Kind| {
        let installed = ["ElasticQuota", "CompositeElasticQuota", "ElasticQuotaProfile", "Queue", "PodGroup"];
        kind.group != pod_group::SCHEDULING && installed.contains(&kind.kind)
            || (kind.group, kind.kind) == ("batch.volcano.sh", "Job")
    };
    for kind in kinds::KINDS.iter().filter(quotas) {
        if server.list(kind).await?.is_none() {
            let missing = format!("{}.{}", kind.plural, kind.group);
            return Ok(Some(format!("the kind {missing} is not installed: `quotient install | kubectl apply -f -`")));
        }
    }
    let others = |kind: &&'static Kind| {
        matches!((kind.group, kind.kind), ("", "Node" | "Pod" | "Namespace" | "PersistentVolume")) || quotas(kind)
    };
    let objects = server.look(kinds::KINDS.iter().filter(others)).await?;
    let foreign = objects.iter().find(|(key, object)| key.kind != "Namespace" && !is_ours(key, object, &objects));
    Ok(foreign.map(|(key, _)| {
        format!("{key} is there: scenarios empty the cluster they run on, and are run only on one without nodes, pods and quotas")
    }))
}

/// Whether an object is left from scenarios that were interrupted.
fn is_ours(key: &ObjectKey, object: &Value, objects: &Objects) -> bool {
    let standing = key.kind == "Queue" && matches!(&*key.name, "root" | "default");
    let namespace = key.namespace.clone().map(|name| ObjectKey { group: "", kind: "Namespace", namespace: None, name });
    let in_ours = namespace.and_then(|key| objects.get(&key)).is_some_and(|namespace| is_labelled(namespace));
    standing || in_ours || is_labelled(object)
}
