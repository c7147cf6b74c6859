//! Lists what there is of a kind, in pages, then follows what changes; goes on where it was when a connection ends.
//!
//! ```text
//!            pages                    a watch from there
//!   Begin ───────────▶ Listed(version) ─────────────────▶ Watching ── it ends ──▶ Listed(the version it came to)
//!     ▲                                                      │
//!     └── whoever asks begins anew: the version is forgotten ┘
//! ```
//!
//! What is asked for by the thousand comes in Kubernetes' binary format ([`crate::wire`]), the rest as JSON. Each
//! object is read by itself: one that cannot be read is told of as such ([`Event::Unreadable`]), the others as usual.

mod page;
mod spans;
mod stream;

use std::time::Duration;

use http::header::HeaderValue;
use http::{HeaderMap, Request, Response, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use quotient_api::field;
use quotient_host::Subject;
use quotient_host::watched::Event;

use crate::call::kind_path;
use crate::connect::with_sources;
use crate::patience::{jittered, retry_after};
use crate::thin;
use crate::wire::{BINARY, Plan, WireError};
use page::Items;
use stream::Stream;

/// How many objects are asked for at once.
const PAGE: usize = 500;

/// A watch is asked to end after this long at most. All begin at once, and not all of them should end so.
const WATCH_FOR: Duration = Duration::from_secs(580);

/// A page that takes longer is given up.
const PAGE_WITHIN: Duration = Duration::from_secs(120);

/// Why it does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// The server said so, and when to come again.
    Answered { code: u16, message: String, after: Option<Duration> },
    /// The server answered something that cannot be read.
    Unreadable(String),
    /// There was no answer.
    Other(String),
}

impl Broken {
    fn other(error: &dyn std::error::Error) -> Self {
        Broken::Other(with_sources(error))
    }
}

/// Something that a list or a watch says.
#[derive(Debug)]
pub enum Heard {
    Event(Event),
    /// The server answered, and has said nothing of an object yet.
    Answered,
    /// The watch is current, and nothing happened.
    Bookmark,
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
    pub async fn next(&mut self) -> Result<Heard, Broken> {
        loop {
            match &mut self.state {
                State::Begin => {
                    self.state = State::First;
                    return Ok(Heard::Event(Event::Listing));
                }
                State::First => {
                    let page = self.source.page("", self.form.accepted()).await;
                    self.go_on(page, State::Begin)?;
                }
                State::Page { items, then } => match items.next(&self.form) {
                    Ok(Some(event)) => return Ok(Heard::Event(event)),
                    Ok(None) => match then {
                        Then::Listed(version) => {
                            self.state = State::Listed(std::mem::take(version));
                            return Ok(Heard::Event(Event::Complete));
                        }
                        Then::Page(token) => {
                            // Where a page fails the list begins anew.
                            let page = self.source.page(&std::mem::take(token), self.form.accepted()).await;
                            self.go_on(page, State::Begin)?;
                        }
                    },
                    Err(error) => self.go_on(Err(Failure::Binary(error)), State::Begin)?,
                },
                State::Listed(version) => {
                    let version = std::mem::take(version);
                    let watch = self.source.watch(&version, self.form.accepted()).await;
                    let watching = watch.map(|stream| State::Watching { version: version.clone(), stream });
                    self.go_on(watching.map_err(Failure::Broken), State::Listed(version))?;
                    return Ok(Heard::Answered);
                }
                State::Watching { version, stream } => match stream.next(&self.form).await {
                    Ok(Some(told)) => return told.meaning(version),
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
    /// be read is asked for as text from then on: text tells one object from the next whatever is in them.
    fn go_on(&mut self, next: Result<State, Failure>, otherwise: State) -> Result<(), Broken> {
        self.state = otherwise;
        match next {
            Ok(state) => {
                self.state = state;
                Ok(())
            }
            Err(Failure::Broken(broken)) => Err(broken),
            Err(Failure::Binary(error)) => {
                self.form = Form::Text;
                Err(Broken::Unreadable(error.to_string()))
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
        let late = || Broken::Other(format!("the list did not come within {} s", PAGE_WITHIN.as_secs()));
        let page = tokio::time::timeout(PAGE_WITHIN, self.whole_page(token, accepted));
        page.await.map_err(|_| Failure::Broken(late()))?
    }

    async fn whole_page(&self, token: &str, accepted: &str) -> Result<State, Failure> {
        let token = if token.is_empty() { String::new() } else { format!("&continue={}", percent_encoded(token)) };
        let answer = self.get(&format!("{}?limit={PAGE}{}{token}", self.path, self.selectors), accepted).await?;
        let is_binary = is_binary(answer.headers());
        let bytes = answer.into_body().collect().await.map_err(|error| Broken::other(&error))?.to_bytes();
        let (items, version, token) = match is_binary {
            true => page::binary(&bytes)?,
            false => page::text(bytes).map_err(|error| Broken::Unreadable(format!("the list: {error}")))?,
        };
        let then = match (token.is_empty(), version.is_empty()) {
            (false, _) => Then::Page(token),
            (true, false) => Then::Listed(version),
            (true, true) => return Err(Broken::Unreadable("the list has no version".to_string()).into()),
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
        Ok(Stream::new(answer.into_body(), is_binary))
    }

    async fn get(&self, path: &str, accepted: &str) -> Result<Response<Body>, Broken> {
        let request = Request::get(path).header(header::ACCEPT, accepted).body(Body::empty());
        let request = request.map_err(|error| Broken::other(&error))?;
        let answer = self.client.send(request).await.map_err(|error| Broken::other(&error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let (code, is_binary) = (answer.status().as_u16(), is_binary(answer.headers()));
        let after = retry_after(answer.headers().get(header::RETRY_AFTER).map(HeaderValue::as_bytes));
        let bytes = answer.into_body().collect().await.map_err(|error| Broken::other(&error))?.to_bytes();
        let status = match is_binary {
            true => plan_of("Status").read(&bytes).unwrap_or_default(),
            false => serde_json::from_slice(&bytes).unwrap_or_default(),
        };
        // What stands in between may answer with anything.
        let message = field::text(&status, "/message").map(str::to_owned);
        Err(Broken::Answered { code, message: message.unwrap_or_else(|| format!("it answered {code}")), after })
    }
}

fn plan_of(message: &str) -> Plan {
    Plan::of(message, &[]).expect("the layout has it; a test reads one")
}

/// Why a list or a watch does not go on.
enum Failure {
    Broken(Broken),
    /// What came in the binary format cannot be read.
    Binary(WireError),
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        Failure::Broken(broken)
    }
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        Failure::Binary(error)
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
