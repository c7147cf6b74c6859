//! The webhooks, served from this process to an API server on this machine.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use http::Method;
use quotient_api::key_of;
use quotient_cluster::Metrics;
use quotient_cluster::system::SYSTEMS;
use quotient_cluster::webhook::certificates::Source;
use quotient_cluster::webhook::configuration::{KINDS, NAME, Target, configurations};
use quotient_cluster::webhook::{WebhookSettings, webhooks};
use quotient_host::objects::SharedObjects;
use quotient_sim::Trouble;
use serde_json::{Value, json};

use super::clean::is_labelled;
use super::fit::LABEL;
use super::server::{Answer, Server};

/// Where the authority of the certificates is kept.
const NAMESPACE: &str = "quotient-scenarios";

/// How long the API server may take to ask us, and how often it is tried.
const ASKED_WITHIN: Duration = Duration::from_secs(30);
const ASKED_EVERY: Duration = Duration::from_millis(50);

/// What is deleted without grace is cleared away after a scenario, and nobody is asked.
const NOT_CLEARED_AWAY: &str = "request.operation != 'DELETE' || !has(request.options.gracePeriodSeconds)";

/// Serves the webhooks on a port of this machine, and tells the API server of them. They answer from `objects`.
pub async fn serve(server: &Server, objects: SharedObjects) -> Result<(), Trouble> {
    let stuck = |error: &dyn std::fmt::Display| Trouble::Stuck(format!("webhooks cannot be served: {error}"));
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    let address: SocketAddr = free.map_err(|error| stuck(&error))?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {LABEL: "true"}}});
    let key = key_of(&namespace).map_err(|problem| stuck(&problem))?;
    server.create(&key, &namespace).await?;
    let target = Target::Url(format!("https://{address}"));
    let source = Source::SelfMade { namespace: NAMESPACE.to_string(), secret: NAME.to_string() };
    let settings = WebhookSettings::new(address, target.clone(), source);
    let (_, answer) =
        webhooks(&server.clients, settings, objects, Metrics::default()).await.map_err(|error| stuck(&error))?;
    tokio::spawn(answer);
    for mut configuration in configurations(&target, NAMESPACE, &SYSTEMS) {
        configuration["metadata"]["labels"] = json!({LABEL: "true"});
        for webhook in configuration["webhooks"].as_array_mut().into_iter().flatten() {
            if let Value::Array(conditions) = &mut webhook["matchConditions"] {
                conditions.push(json!({"name": "not-cleared-away", "expression": NOT_CLEARED_AWAY}));
            }
        }
        let kind = configuration["kind"].clone();
        let Some((_, plural, _)) = KINDS.iter().find(|(known, ..)| kind == *known) else { continue };
        match server.at(Method::POST, &path(plural), configuration).await? {
            Answer::Done(_) => {}
            other => return Err(stuck(&format!("{plural}: {other:?}"))),
        }
    }
    Ok(())
}

fn path(plural: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{plural}")
}

/// Waits until the API server asks: something that is wrong does not get in any more.
pub async fn await_questions(server: &Server) -> Result<(), Trouble> {
    let begun = Instant::now();
    let mut asked = [false; 2];
    while asked != [true; 2] {
        if begun.elapsed() > ASKED_WITHIN {
            let seconds = ASKED_WITHIN.as_secs();
            return Err(Trouble::Stuck(format!(
                "after {seconds} s the API server does not ask our webhooks: expected one that runs on this machine"
            )));
        }
        tokio::time::sleep(ASKED_EVERY).await;
        // What is wrong is said by the one, what is left out is filled in by the other. Nothing is stored.
        let wrong = json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": "wrong", "namespace": "default"}, "spec": {"min": {"cpu": "2"}, "max": {"cpu": "1"}}});
        let bare = json!({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": "bare", "namespace": "default"}, "spec": {"max": {"cpu": "1"}}});
        asked[0] = server.try_out(&wrong).await.is_err_and(|message| message.contains("max"));
        let filled_in = |stored: Value| stored["metadata"]["labels"].is_object() || stored["spec"] != bare["spec"];
        asked[1] = server.try_out(&bare).await.is_ok_and(filled_in);
    }
    Ok(())
}

/// Takes the webhooks out. Gives the name of one that is there and not of a run of scenarios.
pub async fn remove(server: &Server) -> Result<Option<String>, Trouble> {
    for (kind, plural, _) in KINDS {
        let path = format!("{}/{NAME}", path(plural));
        if let Answer::Done(found) = server.at(Method::GET, &path, Value::Null).await? {
            if !is_labelled(&found) {
                return Ok(Some(format!("{kind}/{NAME}")));
            }
            server.at(Method::DELETE, &path, Value::Null).await?;
        }
    }
    Ok(None)
}
