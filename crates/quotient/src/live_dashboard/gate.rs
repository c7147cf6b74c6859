//! Who may look at a live cluster: the owner of a token that the API server knows, at what the API server lets them
//! see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use kube::Client;
use quotient_api::kinds;
use quotient_cluster::review::{Act, Person, may, person};
use quotient_dashboard::View;
use quotient_dashboard::gate::{Gate, Later, Refusal};
use quotient_dashboard::shared::Name;
use quotient_dashboard::view::QuotaRow;
use quotient_dashboard::viewer::{Sight, Viewer};

/// How long an answer of the API server counts: rights that are taken away are gone after it.
const KEPT: Duration = Duration::from_secs(30);

/// Tokens that are remembered; whoever comes beyond is asked about again each time.
const KEPT_MAX: usize = 1000;

/// Questions under way at a time for one viewer.
const ASKED_AT_ONCE: usize = 16;

/// Namespaces and quotas that are asked about one by one.
const ASKED_MAX: usize = 5000;

/// Asks the API server.
pub struct TokenGate {
    client: Client,
    known: Mutex<BTreeMap<String, (Instant, Viewer)>>,
}

impl TokenGate {
    pub fn new(client: Client) -> Self {
        TokenGate { client, known: Mutex::default() }
    }

    async fn look_up(&self, token: &str, view: &View) -> Result<Viewer, Refusal> {
        let failed = |error: quotient_cluster::call::CallError| {
            Refusal::Forbidden(format!("the API server could not be asked about your rights: {error}"))
        };
        let Some(person) = person(&self.client, token).await.map_err(failed)? else { return Err(Refusal::SignIn) };
        let everywhere = |verb, group, resource| Act { verb, group, resource, namespace: "", name: "" };
        let all_pods = may(&self.client, &person, everywhere("list", "", "pods")).await.map_err(failed)?;
        let nodes = may(&self.client, &person, everywhere("list", "", "nodes")).await.map_err(failed)?;
        let mut all_quotas = true;
        let mut open: BTreeSet<(&str, &str)> = BTreeSet::new();
        let quota_kinds: BTreeSet<(&str, &str)> = view.quotas.iter().map(|quota| (quota.group, quota.kind)).collect();
        for (group, kind) in quota_kinds {
            let Some(kind_entry) = kinds::find(group, kind) else { continue };
            let act = everywhere("list", group, kind_entry.plural);
            if may(&self.client, &person, act).await.map_err(failed)? {
                open.insert((group, kind));
            } else {
                all_quotas = false;
            }
        }
        if all_pods && nodes && all_quotas {
            return Ok(Viewer::All);
        }
        let namespaces: BTreeSet<Name> = view.pods.iter().map(|pod| pod.namespace.clone()).collect();
        let namespaces = match all_pods {
            true => namespaces,
            false => {
                self.allowed(&person, namespaces.into_iter().collect(), |namespace| Act {
                    namespace,
                    ..everywhere("list", "", "pods")
                })
                .await
            }
        };
        let is_open = |quota: &QuotaRow| open.contains(&(quota.group, quota.kind));
        let asked = view.quotas.iter().take(ASKED_MAX);
        let asked: Vec<_> = asked.map(|quota| self.quota_if_allowed(&person, quota, is_open(quota))).collect();
        let quotas: BTreeSet<Name> =
            stream::iter(asked).buffer_unordered(ASKED_AT_ONCE).filter_map(std::future::ready).collect().await;
        Ok(Viewer::Some(Sight { namespaces, quotas, nodes }))
    }

    /// The quota's name, if the person may get it.
    async fn quota_if_allowed(&self, person: &Person, quota: &QuotaRow, is_open: bool) -> Option<Name> {
        let act = Act {
            verb: "get",
            group: quota.group,
            resource: kinds::find(quota.group, quota.kind)?.plural,
            namespace: quota.namespace.as_deref().unwrap_or_default(),
            name: &quota.name,
        };
        let allowed = is_open || may(&self.client, person, act).await.unwrap_or(false);
        allowed.then(|| quota.object.clone())
    }

    /// Of these names those for which the act is allowed. What cannot be asked is not allowed.
    async fn allowed(&self, person: &Person, names: Vec<Name>, act: impl Fn(&str) -> Act<'_>) -> BTreeSet<Name> {
        let asked = names.into_iter().take(ASKED_MAX).map(|name| {
            let act = &act;
            async move {
                let allowed = may(&self.client, person, act(&name)).await.unwrap_or(false);
                allowed.then_some(name)
            }
        });
        stream::iter(asked).buffer_unordered(ASKED_AT_ONCE).filter_map(std::future::ready).collect().await
    }
}

impl Gate for TokenGate {
    fn viewer<'a>(&'a self, token: Option<&'a str>, view: Arc<View>) -> Later<'a, Result<Viewer, Refusal>> {
        Box::pin(async move {
            let Some(token) = token else { return Err(Refusal::SignIn) };
            let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            if let Some((until, viewer)) = lock().get(token)
                && *until > now
            {
                return Ok(viewer.clone());
            }
            let viewer = self.look_up(token, &view).await?;
            let mut known = lock();
            known.retain(|_, (until, _)| *until > now);
            if known.len() < KEPT_MAX {
                known.insert(token.to_string(), (now + KEPT, viewer.clone()));
            }
            Ok(viewer)
        })
    }
}
