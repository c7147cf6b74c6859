//! Who may look at a live cluster: the owner of a token that the API server knows, at what the API server lets them
//! see.
//!
//! The API server is asked, and no more than it can bear: a person has so many questions in a while, whatever number of
//! tokens they have, and all people together have so many a second ([`super::questions`]). Where a person may be asked
//! about more namespaces and quotas than that, they come to see more of them each time.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use kube::Client;
use quotient_api::kinds;
use quotient_cluster::call::CallError;
use quotient_cluster::review::{Act, Person, may, person};
use quotient_dashboard::View;
use quotient_dashboard::gate::{Gate, Later, Refusal};
use quotient_dashboard::shared::Name;
use quotient_dashboard::viewer::{Sight, Viewer};

use super::questions::{Pace, Question, Rights};

/// How long it counts whose token it is.
const TOKEN_KEPT: Duration = Duration::from_secs(30);

/// Tokens and people that are remembered: beyond them the one that is known longest is forgotten.
const TOKENS_MAX: usize = 1000;
const PEOPLE_MAX: usize = 200;

/// Questions under way at a time for one viewer.
const ASKED_AT_ONCE: usize = 16;

/// Questions to the API server: how many at once after a rest, and then a second. Tokens that nobody knows have a pace
/// of their own, so that who sends many holds up only who signs in.
const RIGHTS_PACE: (u32, u32) = (400, 200);
const TOKENS_PACE: (u32, u32) = (40, 20);

/// Asks the API server.
pub struct TokenGate {
    client: Client,
    /// By fingerprint, with a key of this process: tokens are not kept.
    tokens: Mutex<BTreeMap<u64, (Instant, Arc<Known>)>>,
    people: Mutex<BTreeMap<String, (Instant, Arc<Known>)>>,
    fingerprint: RandomState,
    rights_pace: Pace,
    tokens_pace: Pace,
}

/// A person, and what is known of their rights. Who asks for one person at once asks one after the other.
struct Known {
    person: Person,
    rights: tokio::sync::Mutex<Rights>,
}

/// Keeps the newest of what is remembered.
fn remember<K: Ord + Clone, V>(known: &mut BTreeMap<K, (Instant, V)>, max: usize, key: K, value: V) {
    known.insert(key, (Instant::now(), value));
    if known.len() > max
        && let Some(oldest) = known.iter().min_by_key(|(_, (at, _))| *at).map(|(key, _)| key.clone())
    {
        known.remove(&oldest);
    }
}

/// Whose questions are counted together: the service accounts of a namespace are those of one tenant.
fn counted_as(person: &Person) -> String {
    let account = person.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    account.map_or_else(|| format!("user {}", person.name), |(namespace, _)| format!("namespace {namespace}"))
}

fn failed(error: &CallError) -> Refusal {
    Refusal::Forbidden(format!("the API server could not be asked about your rights: {error}"))
}

fn busy() -> Refusal {
    Refusal::Bad("too many people sign in; try again in a moment".to_owned())
}

impl TokenGate {
    pub fn new(client: Client) -> Self {
        let (rights_pace, tokens_pace) = (Pace::new(RIGHTS_PACE), Pace::new(TOKENS_PACE));
        let (tokens, people, fingerprint) = (Mutex::default(), Mutex::default(), RandomState::new());
        TokenGate { client, tokens, people, fingerprint, rights_pace, tokens_pace }
    }

    /// Whose token it is.
    async fn known(&self, token: &str) -> Result<Arc<Known>, Refusal> {
        let print = self.fingerprint.hash_one(token);
        let lock = || self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, known)) = lock().get(&print)
            && since.elapsed() < TOKEN_KEPT
        {
            return Ok(known.clone());
        }
        if !self.tokens_pace.wait().await {
            return Err(busy());
        }
        let found = person(&self.client, token).await.map_err(|error| failed(&error))?;
        let Some(person) = found else { return Err(Refusal::SignIn) };
        let mut people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
        let key = format!("{person:?}");
        let known = people.get(&key).map(|(_, known)| known.clone());
        let known = known.unwrap_or_else(|| Arc::new(Known { person, rights: tokio::sync::Mutex::default() }));
        remember(&mut people, PEOPLE_MAX, key, known.clone());
        drop(people);
        remember(&mut lock(), TOKENS_MAX, print, known.clone());
        Ok(known)
    }

    /// Asks what is not known, as far as may be asked now.
    async fn ask(&self, person: &Person, rights: &mut Rights, questions: Vec<Question>) -> Result<(), Refusal> {
        let due = rights.due(&counted_as(person), questions, Instant::now());
        let asked = due.into_iter().map(|question| async move {
            if !self.rights_pace.wait().await {
                return Err(busy());
            }
            let Question { verb, group, resource, namespace, name } = &question;
            let act = Act { verb, group, resource, namespace, name };
            // What cannot be asked is not allowed, and is asked again.
            let answer = may(&self.client, person, act).await.ok();
            Ok((question, answer))
        });
        let mut answers = stream::iter(asked).buffer_unordered(ASKED_AT_ONCE);
        while let Some(answer) = answers.next().await {
            if let (question, Some(answer)) = answer? {
                rights.learn(question, answer, Instant::now());
            }
        }
        Ok(())
    }

    async fn look_up(&self, known: &Known, view: &View) -> Result<Viewer, Refusal> {
        let Known { person, rights } = known;
        let mut rights = rights.lock().await;
        let quota_kinds: BTreeSet<(&'static str, &'static str)> =
            view.quotas.iter().map(|quota| (quota.group, quota.kind)).collect();
        let plural = |group: &str, kind: &str| kinds::find(group, kind).map(|kind| kind.plural);
        let all_pods = Question::everywhere("", "pods");
        let nodes = Question::everywhere("", "nodes");
        let of_kind =
            |(group, kind): &(&'static str, &'static str)| Some(Question::everywhere(group, plural(group, kind)?));
        let wide: Vec<Question> =
            [all_pods.clone(), nodes.clone()].into_iter().chain(quota_kinds.iter().filter_map(of_kind)).collect();
        self.ask(person, &mut rights, wide.clone()).await?;
        if wide.iter().all(|question| rights.allows(question)) {
            return Ok(Viewer::All);
        }
        let namespaces: BTreeSet<Name> = view.pods.iter().map(|pod| pod.namespace.clone()).collect();
        let in_namespace = |namespace: &Name| Question { namespace: namespace.clone(), ..all_pods.clone() };
        let of_quota = |quota: &quotient_dashboard::view::QuotaRow| {
            let (namespace, name) = (quota.namespace.clone().unwrap_or_default(), quota.name.clone());
            let resource = plural(quota.group, quota.kind)?;
            Some(Question { verb: "get", group: quota.group, resource, namespace, name })
        };
        let sees_all_pods = rights.allows(&all_pods);
        let is_open = |rights: &Rights, quota: &quotient_dashboard::view::QuotaRow| {
            of_kind(&(quota.group, quota.kind)).is_some_and(|question| rights.allows(&question))
        };
        let mut narrow: Vec<Question> = Vec::new();
        narrow.extend(namespaces.iter().filter(|_| !sees_all_pods).map(in_namespace));
        narrow.extend(view.quotas.iter().filter(|quota| !is_open(&rights, quota)).filter_map(of_quota));
        self.ask(person, &mut rights, narrow).await?;
        let seen = namespaces.into_iter().filter(|namespace| sees_all_pods || rights.allows(&in_namespace(namespace)));
        let may_get = |quota: &&quotient_dashboard::view::QuotaRow| {
            is_open(&rights, quota) || of_quota(quota).is_some_and(|question| rights.allows(&question))
        };
        let quotas = view.quotas.iter().filter(may_get).map(|quota| quota.object.clone()).collect();
        Ok(Viewer::Some(Sight { namespaces: seen.collect(), quotas, nodes: rights.allows(&nodes) }))
    }
}

impl Gate for TokenGate {
    fn viewer<'a>(&'a self, token: Option<&'a str>, view: Arc<View>) -> Later<'a, Result<Viewer, Refusal>> {
        Box::pin(async move {
            let Some(token) = token else { return Err(Refusal::SignIn) };
            let known = self.known(token).await?;
            self.look_up(&known, &view).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_one_namespace_are_counted_together() {
        let person = |name: &str| Person::read(&serde_json::json!({"username": name}));
        let of = |name: &str| counted_as(&person(name));
        assert_eq!(of("system:serviceaccount:a:one"), of("system:serviceaccount:a:two"));
        assert_ne!(of("system:serviceaccount:a:one"), of("system:serviceaccount:b:one"));
        assert_ne!(of("jo"), of("mo"));
    }

    #[test]
    fn of_what_is_remembered_the_oldest_is_forgotten() {
        let mut known = BTreeMap::new();
        (0..5).for_each(|key| remember(&mut known, 3, key, ()));
        assert_eq!(known.into_keys().collect::<Vec<_>>(), [2, 3, 4]);
    }
}
