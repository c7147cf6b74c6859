//! Lists what there is of a kind, in pages, then follows what changes; goes on where it was when a connection ends.
//!
//! ```text
//!            pages                    a watch from there
//!   Begin ───────────▶ Listed(version) ─────────────────▶ Watching ── it ends ──▶ Listed(the version it came to)
//!     ▲                                                      │
//!     └── whoever asks begins anew: the version is forgotten ┘
//! ```
//!
//! What is asked for by the thousand comes in Kubernetes' binary format ([`crate::wire`]), the rest as JSON.

use std::time::{Duration, Instant};

use http::{HeaderMap, Request, Response, header};
use http_body_util::BodyExt;
use hyper::body::Bytes;
use kube::Client;
use kube::client::Body;
use quotient_api::field;
use quotient_host::Subject;
use quotient_host::watched::Event;
use serde::Deserialize;
use serde_json::Value;

use crate::call::kind_path;
use crate::patience::jittered;
use crate::thin::{self, Thin};
use crate::wire::{self, BINARY, Plan, Reading, Wire, WireError};

/// How many objects are asked for at once.
const PAGE: usize = 500;

/// A watch is asked to end after this long at most. All begin at once, and not all of them should end so.
const WATCH_FOR: Duration = Duration::from_secs(580);

/// A watch that ends sooner and said nothing was as good as refused.
const ENDS_AT_ONCE: Duration = Duration::from_secs(1);

/// Why it does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// The server said so.
    Answered { code: u16, message: String },
    /// There was no answer, or none that can be read.
    Other(String),
}

impl Broken {
    fn other(error: &dyn std::error::Error) -> Self {
        Broken::Other(error.to_string())
    }
}

/// What there is of a subject, and what changes.
pub struct Follow {
    source: Source,
    form: Form,
    state: State,
}

/// Where it comes from.
struct Source {
    client: Client,
    /// Where all objects of the kind are.
    path: String,
    /// The selectors, as parts of a query.
    selectors: String,
}

/// How objects come.
enum Form {
    Binary(Plan),
    Text,
}

enum State {
    Begin,
    /// The first page is to be asked for.
    First,
    Page {
        items: Items,
        then: Then,
    },
    Listed(String),
    Watching {
        version: String,
        stream: Stream,
    },
}

/// What comes after a page.
enum Then {
    Page(String),
    /// The list is complete, and of this version.
    Listed(String),
}

/// Objects of a page that were not told of yet.
enum Items {
    /// They are read one by one: the list of a large cluster takes much more room than its bytes.
    Binary {
        bytes: Bytes,
        read: usize,
    },
    Text(std::vec::IntoIter<Thin>),
}

impl Follow {
    /// Follows a subject, in the version of its kind that was last found to be served.
    pub fn new(client: Client, subject: Subject) -> Self {
        let kind = subject.kind();
        let selector = |name: &str, value: Option<&str>| {
            value.map(|value| format!("&{name}={}", percent_encoded(value))).unwrap_or_default()
        };
        let selectors =
            selector("fieldSelector", subject.field_selector()) + &selector("labelSelector", subject.label_selector());
        let form = thin::plan(kind).map_or(Form::Text, Form::Binary);
        let source = Source { client, path: kind_path(kind, None), selectors };
        Follow { source, form, state: State::Begin }
    }

    /// What comes next. After an error it may be asked again, and goes on from where it was.
    pub async fn next(&mut self) -> Result<Event, Broken> {
        loop {
            match &mut self.state {
                State::Begin => {
                    self.state = State::First;
                    return Ok(Event::Listing);
                }
                State::First => {
                    let page = self.source.page("", self.form.accepted()).await;
                    self.go_on(page, State::Begin)?;
                }
                State::Page { items, then } => match items.next(&self.form) {
                    Ok(Some(object)) => return Ok(Event::Item(object)),
                    Ok(None) => match then {
                        Then::Listed(version) => {
                            self.state = State::Listed(std::mem::take(version));
                            return Ok(Event::Complete);
                        }
                        Then::Page(token) => {
                            // Where a page fails the list begins anew.
                            let page = self.source.page(&std::mem::take(token), self.form.accepted()).await;
                            self.go_on(page, State::Begin)?;
                        }
                    },
                    Err(error) => self.go_on(Err(Failure::Unreadable(error)), State::Begin)?,
                },
                State::Listed(version) => {
                    let version = std::mem::take(version);
                    let watch = self.source.watch(&version, self.form.accepted()).await;
                    let watching = watch.map(|stream| State::Watching { version: version.clone(), stream });
                    self.go_on(watching.map_err(Failure::Broken), State::Listed(version))?;
                }
                State::Watching { version, stream } => match stream.next(&self.form).await {
                    Ok(Some(told)) => {
                        if let Some(event) = told.meaning(version)? {
                            return Ok(event);
                        }
                    }
                    Ok(None) => {
                        let (version, said_nothing) = (std::mem::take(version), stream.ended_at_once());
                        self.state = State::Listed(version);
                        if said_nothing {
                            return Err(Broken::Other("the watch ended at once".to_string()));
                        }
                    }
                    Err(failure) => {
                        let version = std::mem::take(version);
                        self.go_on(Err(failure), State::Listed(version))?;
                    }
                },
            }
        }
    }

    /// Goes on in the next state; where there is none, from an earlier one. What came in the binary format and cannot
    /// be read is asked for as text from then on.
    fn go_on(&mut self, next: Result<State, Failure>, otherwise: State) -> Result<(), Broken> {
        self.state = otherwise;
        match next {
            Ok(state) => {
                self.state = state;
                Ok(())
            }
            Err(Failure::Broken(broken)) => Err(broken),
            Err(Failure::Unreadable(error)) => {
                self.form = Form::Text;
                Err(Broken::other(&error))
            }
        }
    }
}

impl Form {
    /// What is asked for. A server that does not have it in the binary format sends text.
    fn accepted(&self) -> &'static str {
        match self {
            Form::Binary(_) => "application/vnd.kubernetes.protobuf, application/json",
            Form::Text => "application/json",
        }
    }
}

impl Source {
    async fn page(&self, token: &str, accepted: &str) -> Result<State, Failure> {
        let token = if token.is_empty() { String::new() } else { format!("&continue={}", percent_encoded(token)) };
        let answer = self.get(&format!("{}?limit={PAGE}{}{token}", self.path, self.selectors), accepted).await?;
        let is_binary = is_binary(answer.headers());
        let bytes = answer.into_body().collect().await.map_err(|error| Broken::other(&error))?.to_bytes();
        let (items, version, token) = match is_binary {
            true => binary_page(&bytes)?,
            false => text_page(&bytes)?,
        };
        let then = match (token.is_empty(), version.is_empty()) {
            (false, _) => Then::Page(token),
            (true, false) => Then::Listed(version),
            (true, true) => return Err(Broken::Other("the list has no version".to_string()).into()),
        };
        Ok(State::Page { items, then })
    }

    async fn watch(&self, version: &str, accepted: &str) -> Result<Stream, Broken> {
        let seconds = jittered(WATCH_FOR).as_secs();
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={version}{}",
            self.path, self.selectors
        );
        let answer = self.get(&path, accepted).await?;
        let is_binary = is_binary(answer.headers());
        let (buffer, begun) = (Vec::new(), Instant::now());
        Ok(Stream { body: answer.into_body(), is_binary, buffer, read: 0, begun, has_said: false })
    }

    async fn get(&self, path: &str, accepted: &str) -> Result<Response<Body>, Broken> {
        let request = Request::get(path).header(header::ACCEPT, accepted).body(Body::empty());
        let request = request.map_err(|error| Broken::other(&error))?;
        let answer = self.client.send(request).await.map_err(|error| Broken::other(&error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let (code, is_binary) = (answer.status().as_u16(), is_binary(answer.headers()));
        let bytes = answer.into_body().collect().await.map_err(|error| Broken::other(&error))?.to_bytes();
        let status = match is_binary {
            true => plan_of("Status").read(&bytes).unwrap_or_default(),
            false => serde_json::from_slice(&bytes).unwrap_or_default(),
        };
        // What stands in between may answer with anything.
        let message = field::text(&status, "/message").map(str::to_owned);
        Err(Broken::Answered { code, message: message.unwrap_or_else(|| format!("it answered {code}")) })
    }
}

fn plan_of(message: &str) -> Plan {
    Plan::of(message, &[]).expect("the layout has it; a test reads one")
}

impl Items {
    fn next(&mut self, form: &Form) -> Result<Option<Value>, WireError> {
        const ITEM: u64 = 2;
        match (self, form) {
            (Items::Text(items), _) => Ok(items.next().map(|thin| thin.0)),
            (Items::Binary { bytes, read }, Form::Binary(plan)) => {
                let mut reading = Reading::of_message(&bytes[*read..]);
                while let Some((number, part)) = reading.next()? {
                    *read = bytes.len() - reading.rest().len();
                    if let (ITEM, Wire::Bytes(item)) = (number, part) {
                        return plan.read_bare(item).map(Some);
                    }
                }
                Ok(None)
            }
            // It was asked for as text since: the list begins anew.
            (Items::Binary { .. }, Form::Text) => Ok(None),
        }
    }
}

/// The objects of a page, its version, and how to ask for the next one.
type Page = (Items, String, String);

fn binary_page(bytes: &Bytes) -> Result<Page, WireError> {
    const METADATA: u64 = 1;
    let list = bytes.slice_ref(Reading::of_answer(bytes)?.rest());
    let (mut reading, mut metadata) = (Reading::of_message(&list), Value::Null);
    while let Some((number, part)) = reading.next()? {
        if let (METADATA, Wire::Bytes(part)) = (number, part) {
            metadata = plan_of("ListMeta").read_bare(part)?;
        }
    }
    let text = |field: &str| field::text(&metadata, field).unwrap_or_default().to_owned();
    Ok((Items::Binary { bytes: list.clone(), read: 0 }, text("/resourceVersion"), text("/continue")))
}

#[derive(Deserialize)]
struct TextPage {
    #[serde(default)]
    metadata: Value,
    // A list without items has none, or null.
    items: Option<Vec<Thin>>,
}

fn text_page(bytes: &[u8]) -> Result<Page, Broken> {
    let TextPage { metadata, items } = serde_json::from_slice(bytes).map_err(|error| Broken::other(&error))?;
    let text = |field: &str| field::text(&metadata, field).unwrap_or_default().to_owned();
    Ok((Items::Text(items.unwrap_or_default().into_iter()), text("/resourceVersion"), text("/continue")))
}

/// A watch as it comes in.
struct Stream {
    body: Body,
    is_binary: bool,
    /// What came in, and how much of it was read.
    buffer: Vec<u8>,
    read: usize,
    begun: Instant,
    has_said: bool,
}

/// Why a list or a watch does not go on.
enum Failure {
    Broken(Broken),
    Unreadable(WireError),
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        Failure::Broken(broken)
    }
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        Failure::Unreadable(error)
    }
}

/// An event of a watch.
#[derive(Deserialize)]
struct Told {
    #[serde(rename = "type")]
    kind: String,
    object: Thin,
}

impl Stream {
    /// The next event; `None` when it ended.
    async fn next(&mut self, form: &Form) -> Result<Option<Told>, Failure> {
        loop {
            if let Some(told) = self.told(form)? {
                self.has_said = true;
                return Ok(Some(told));
            }
            let frame = match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(Failure::Broken(Broken::other(&error))),
                Some(Ok(frame)) => frame,
            };
            if let Ok(data) = frame.into_data() {
                self.buffer.drain(..std::mem::take(&mut self.read));
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    /// The next event of what came in so far.
    fn told(&mut self, form: &Form) -> Result<Option<Told>, Failure> {
        let buffer = &self.buffer[self.read..];
        match (self.is_binary, form) {
            (true, Form::Binary(plan)) => {
                let Some((frame, length)) = wire::frame(buffer)? else { return Ok(None) };
                self.read += length;
                Ok(Some(binary_told(frame, plan)?))
            }
            _ => {
                let Some(end) = buffer.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
                self.read += end + 1;
                let told = serde_json::from_slice(&buffer[..end]);
                told.map(Some).map_err(|error| Failure::Broken(Broken::other(&error)))
            }
        }
    }

    fn ended_at_once(&self) -> bool {
        !self.has_said && self.begun.elapsed() < ENDS_AT_ONCE
    }
}

fn binary_told(frame: &[u8], plan: &Plan) -> Result<Told, WireError> {
    let (kind, object) = wire::event(frame)?;
    let object = if kind == "ERROR" { plan_of("Status").read(object) } else { plan.read(object) };
    Ok(Told { kind, object: Thin(object?) })
}

impl Told {
    /// What it means; notes the version that the watch has come to.
    fn meaning(self, version: &mut String) -> Result<Option<Event>, Broken> {
        let Told { kind, object: Thin(object) } = self;
        if kind == "ERROR" {
            let code = object.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
            let message = field::text(&object, "/message").unwrap_or_default().to_owned();
            return Err(Broken::Answered { code: code.unwrap_or(500), message });
        }
        if let Some(come_to) = field::text(&object, "/metadata/resourceVersion").filter(|text| !text.is_empty()) {
            come_to.clone_into(version);
        }
        Ok(match kind.as_str() {
            "ADDED" | "MODIFIED" => Some(Event::Changed(object)),
            "DELETED" => Some(Event::Deleted(object)),
            _ => None,
        })
    }
}

fn is_binary(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(BINARY.as_bytes()))
}

/// A text as part of a query.
fn percent_encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_query_means_nothing_else() {
        assert_eq!(percent_encoded("status.phase!=Failed,a=b c"), "status.phase%21%3DFailed%2Ca%3Db%20c");
    }
}
