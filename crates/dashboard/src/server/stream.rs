//! Server-sent events: the overview whenever there is a newer one, and what happened since a page was last told.
//!
//! The id of an event is the number of the newest journal entry that it covers. A page that comes back with
//! `Last-Event-ID` gets the entries that it missed, or is told to start anew where they are forgotten.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::header::{self, HeaderValue};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming};
use serde_json::json;
use tokio::sync::mpsc;

use super::{Body, Server};
use crate::answers;
use crate::gate::Refusal;
use crate::viewer::Viewer;

/// A page is told of changes at most this often.
const PACE_MIN: Duration = Duration::from_millis(300);

/// Making an overview takes at most this part of the time: one twentieth.
const PACE_FACTOR: u32 = 20;

/// A stream ends after this long, and the page comes back: what it may see is looked up anew then.
const STREAM_MAX: Duration = Duration::from_secs(120);

/// A sign of life for proxies that close quiet connections.
const QUIET_MAX: Duration = Duration::from_secs(15);

/// Entries that one event tells of; the page reads the rest where it needs it.
const ENTRIES_MAX: usize = 100;

/// Overviews of the newest version, so that viewers who see the same share one. A viewer of every kind that looks now
/// is
/// at most as many as there are streams.
#[derive(Default)]
pub struct Overviews(Mutex<Vec<(u64, Viewer, Bytes)>>);

impl Overviews {
    fn get(&self, server: &Server, viewer: &Viewer) -> (u64, u64, Bytes) {
        let (version, view, last) = {
            let inner = server.hub.state();
            (inner.version, inner.view.clone(), inner.journal.last())
        };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(of, _, _)| *of == version);
        if let Some((_, _, bytes)) = kept.iter().find(|(_, of, _)| of == viewer) {
            return (version, last, bytes.clone());
        }
        let overview = answers::overview(&viewer.of(&view), &server.hub.state().journal, viewer);
        let about = server.source.about();
        let value = json!({"version": version, "overview": overview, "about": about});
        let bytes = Bytes::from(value.to_string());
        kept.push((version, viewer.clone(), bytes.clone()));
        (version, last, bytes)
    }
}

/// Answers with a stream that lasts until the page goes away.
pub fn events(server: &Arc<Server>, request: &Request<Incoming>, viewer: Viewer) -> Result<Response<Body>, Refusal> {
    let permit = server.streams.clone().try_acquire_owned();
    let permit = permit.map_err(|_| Refusal::Forbidden("too many pages are open; close one and try again".into()))?;
    let told = request.headers().get("last-event-id").and_then(|id| id.to_str().ok()).and_then(|id| id.parse().ok());
    let (sender, receiver) = mpsc::channel(2);
    let server = server.clone();
    tokio::spawn(async move {
        tell(&server, &viewer, told, &sender).await;
        drop(permit);
    });
    let mut response = Response::new(Events(receiver).boxed());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

async fn tell(server: &Server, viewer: &Viewer, told: Option<u64>, sender: &mpsc::Sender<Bytes>) {
    let until = Instant::now() + STREAM_MAX;
    let mut versions = server.hub.versions();
    let mut told = match told {
        Some(told) => told,
        None => server.hub.state().journal.last(),
    };
    loop {
        versions.mark_unchanged();
        let begun = Instant::now();
        let (_, last, overview) = server.overviews.get(server, viewer);
        let missed = server.hub.state().journal.since(told, viewer, ENTRIES_MAX);
        let took = begun.elapsed();
        let mut text = String::new();
        match missed {
            None => text.push_str("event: reset\ndata: {}\n\n"),
            Some(entries) if !entries.is_empty() => {
                text.push_str(&format!("id: {last}\nevent: journal\ndata: {}\n\n", json!(entries)));
            }
            Some(_) => {}
        }
        told = last;
        text.push_str(&format!("id: {last}\nevent: overview\ndata: {}\n\n", String::from_utf8_lossy(&overview)));
        if sender.send(Bytes::from(text)).await.is_err() {
            return;
        }
        tokio::time::sleep(PACE_MIN.max(took * PACE_FACTOR)).await;
        loop {
            if Instant::now() > until {
                return;
            }
            match tokio::time::timeout(QUIET_MAX, versions.changed()).await {
                Ok(Ok(())) => break,
                Ok(Err(_)) => return,
                Err(_) => {
                    if sender.send(Bytes::from_static(b": quiet\n\n")).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// A body that is what comes through a channel.
struct Events(mpsc::Receiver<Bytes>);

impl HttpBody for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
