//! The API server, as scenarios use it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use http::Method;
use quotient_api::{Kind, ObjectKey, key_of};
use quotient_cluster::call::{Call, CallError, Content, kind_path};
use quotient_cluster::{Clients, Fence};
use quotient_sim::Trouble;
use serde_json::{Value, json};

/// For how long a server may be busy, and how often it is asked again meanwhile.
const BUSY_MAX: Duration = Duration::from_secs(30);
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// Objects by key, as they are stored.
pub type Objects = BTreeMap<ObjectKey, Arc<Value>>;

/// Requests of the runner; they need no lease.
#[derive(Debug, Clone)]
pub struct Server {
    pub clients: Clients,
    fence: Fence,
}

/// How an object is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// As people do it.
    Usual,
    /// Without grace, and without asking our webhooks.
    AtOnce,
}

/// What a request that changes something came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    Done(T),
    /// The server says no, and why.
    Rejected(String),
    /// There is no such object.
    Missing,
    /// It is there already, or was changed meanwhile.
    Conflict,
}

impl<T> Answer<T> {
    fn of(result: Result<T, CallError>) -> Result<Answer<T>, Trouble> {
        match result {
            Ok(value) => Ok(Answer::Done(value)),
            Err(CallError::Refused { message, .. }) => Ok(Answer::Rejected(message)),
            Err(CallError::NotFound(_)) => Ok(Answer::Missing),
            Err(CallError::Conflict(_)) => Ok(Answer::Conflict),
            Err(error) => Err(Trouble::Stuck(format!("the API server: {error}"))),
        }
    }
}

impl Server {
    pub fn new(clients: Clients) -> Self {
        Server { clients, fence: Fence::open() }
    }

    /// Sends a request, again and again for a while where the server is busy.
    async fn send(&self, call: Call) -> Result<Value, CallError> {
        let begun = Instant::now();
        loop {
            match call.send(&self.clients.tell, &self.fence).await {
                Err(CallError::Throttled { .. }) if begun.elapsed() < BUSY_MAX => tokio::time::sleep(BUSY_PAUSE).await,
                other => return other,
            }
        }
    }

    /// The object, if there is one.
    pub async fn get(&self, key: &ObjectKey) -> Result<Option<Value>, Trouble> {
        match Answer::of(self.send(Call::get(key)).await)? {
            Answer::Done(object) => Ok(Some(object)),
            Answer::Missing => Ok(None),
            Answer::Rejected(why) => Err(Trouble::Stuck(format!("{key} cannot be read: {why}"))),
            Answer::Conflict => Ok(None),
        }
    }

    /// All objects of a kind; `None` where the kind is not served.
    pub async fn list(&self, kind: &'static Kind) -> Result<Option<Vec<(ObjectKey, Value)>>, Trouble> {
        let call = Call::at(Method::GET, kind_path(kind, None), Content::Json, Value::Null);
        let mut answer = match Answer::of(self.send(call).await)? {
            Answer::Done(list) => list,
            Answer::Missing | Answer::Conflict => return Ok(None),
            Answer::Rejected(why) => return Err(Trouble::Stuck(format!("{} cannot be listed: {why}", kind.plural))),
        };
        let items = match answer["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        let named = items.into_iter().filter_map(|mut object| {
            // Objects of a list do not say what they are.
            object["kind"] = json!(kind.kind);
            object["apiVersion"] = json!(kind.api_version());
            Some((key_of(&object).ok()?, object))
        });
        Ok(Some(named.collect()))
    }

    /// All objects of these kinds.
    pub async fn look(&self, kinds: impl IntoIterator<Item = &'static Kind>) -> Result<Objects, Trouble> {
        let lists = try_join_all(kinds.into_iter().map(|kind| self.list(kind))).await?;
        let objects = lists.into_iter().flatten().flatten();
        Ok(objects.map(|(key, object)| (key, Arc::new(object))).collect())
    }

    /// The events about objects, of all namespaces.
    pub async fn events(&self) -> Result<Vec<Value>, Trouble> {
        let call = Call::at(Method::GET, "/api/v1/events".to_string(), Content::Json, Value::Null);
        match Answer::of(self.send(call).await)? {
            Answer::Done(mut list) => match list["items"].take() {
                Value::Array(items) => Ok(items),
                _ => Ok(Vec::new()),
            },
            other => Err(Trouble::Stuck(format!("events cannot be listed: {other:?}"))),
        }
    }

    pub async fn create(&self, key: &ObjectKey, object: &Value) -> Result<Answer<Value>, Trouble> {
        let Some(kind) = key.kind_entry() else { return Ok(Answer::Rejected(format!("{key} is of no known kind"))) };
        let path = kind_path(kind, key.namespace.as_deref());
        Answer::of(self.send(Call::at(Method::POST, path, Content::Json, object.clone())).await)
    }

    pub async fn replace(&self, key: &ObjectKey, object: &Value) -> Result<Answer<Value>, Trouble> {
        Answer::of(self.send(Call::new(Method::PUT, key, None, Content::Json, object.clone())).await)
    }

    pub async fn patch(&self, key: &ObjectKey, part: Option<&str>, patch: Value) -> Result<Answer<Value>, Trouble> {
        Answer::of(self.send(Call::new(Method::PATCH, key, part, Content::MergePatch, patch)).await)
    }

    /// Deletes an object, what hangs on it soon after.
    pub async fn delete(&self, key: &ObjectKey, manner: Manner) -> Result<Answer<()>, Trouble> {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        if manner == Manner::AtOnce {
            options["gracePeriodSeconds"] = json!(0);
        }
        Answer::of(self.send(Call::new(Method::DELETE, key, None, Content::Json, options)).await.map(drop))
    }

    /// Deletes all events of a namespace.
    pub async fn delete_events(&self, namespace: &str) -> Result<(), Trouble> {
        let path = format!("/api/v1/namespaces/{namespace}/events");
        Answer::of(self.send(Call::at(Method::DELETE, path, Content::Json, Value::Null)).await).map(drop)
    }

    /// Sends something to a path of its own: for kinds that scenarios have nothing of.
    pub async fn at(&self, method: Method, path: &str, body: Value) -> Result<Answer<Value>, Trouble> {
        Answer::of(self.send(Call::at(method, path.to_string(), Content::Json, body)).await)
    }

    /// Tries what the server would say to an object; nothing is stored.
    pub async fn try_out(&self, object: &Value) -> Result<Value, String> {
        let key = key_of(object).map_err(|problem| problem.to_string())?;
        let kind = key.kind_entry().ok_or("it is of no known kind")?;
        let request = http::Request::post(format!("{}?dryRun=All", kind_path(kind, key.namespace.as_deref())))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(object.to_string().into_bytes());
        let request = request.map_err(|error| error.to_string())?;
        self.clients.status.request(request).await.map_err(|error| error.to_string())
    }

    /// Takes finalizers off an object, so that it can go.
    pub async fn release(&self, key: &ObjectKey) -> Result<(), Trouble> {
        self.patch(key, None, json!({"metadata": {"finalizers": null}})).await.map(drop)
    }
}
