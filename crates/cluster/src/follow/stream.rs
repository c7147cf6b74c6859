//! A watch as it comes in, event by event.

use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use kube::client::Body;
use quotient_api::field;
use quotient_host::watched::Event;
use serde_json::Value;

use super::page::{Unreadable, beginning, read};
use super::spans::{fields, find};
use super::{Broken, Failure, Form, Heard, plan_of};
use crate::wire::{self, Plan, WireError};

/// A watch that ends sooner and said nothing was as good as refused.
const ENDS_AT_ONCE: Duration = Duration::from_secs(1);

/// The largest event. An object has 1.5 MiB at most by default, as etcd does.
const EVENT_MAX: usize = 64 << 20;

/// A watch as it comes in.
pub(super) struct Stream {
    body: Body,
    is_binary: bool,
    /// What came in, how much of it was read, and how far beyond it there is no end of a line.
    buffer: Vec<u8>,
    read: usize,
    searched: usize,
    begun: Instant,
    has_said: bool,
}

/// An event of a watch: its type, and the object or what is known of one that cannot be read.
pub(super) struct Told {
    kind: String,
    object: Result<Value, Unreadable>,
}

impl Stream {
    pub(super) fn new(body: Body, is_binary: bool) -> Self {
        let begun = Instant::now();
        Stream { body, is_binary, buffer: Vec::new(), read: 0, searched: 0, begun, has_said: false }
    }

    /// The next event; `None` when it ended.
    pub(super) async fn next(&mut self, form: &Form) -> Result<Option<Told>, Failure> {
        loop {
            if let Some(told) = self.told(form)? {
                self.has_said = true;
                return Ok(Some(told));
            }
            if self.buffer.len() - self.read > EVENT_MAX {
                return Err(Failure::Broken(Broken::Unreadable("an event is larger than any object".to_string())));
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
                Ok(Some(binary(frame, plan)?))
            }
            _ => {
                let Some(end) = buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
                    self.searched = buffer.len();
                    return Ok(None);
                };
                let line = String::from_utf8_lossy(&buffer[..self.searched + end]).into_owned();
                self.read += std::mem::take(&mut self.searched) + end + 1;
                text(&line).map(Some).map_err(|error| Failure::Broken(Broken::Unreadable(error)))
            }
        }
    }

    pub(super) fn ended_at_once(&self) -> bool {
        !self.has_said && self.begun.elapsed() < ENDS_AT_ONCE
    }
}

fn binary(frame: &[u8], plan: &Plan) -> Result<Told, WireError> {
    let (kind, object) = wire::event(frame)?;
    let object = if kind == "ERROR" { plan_of("Status").read(object) } else { plan.read(object) };
    Ok(Told { kind, object: Ok(object?) })
}

fn text(line: &str) -> Result<Told, String> {
    let found = fields(line).ok_or_else(|| beginning(line))?;
    let (Some(kind), Some(object)) = (find(&found, "type"), find(&found, "object")) else {
        return Err("an event has no type or no object".to_string());
    };
    let kind = serde_json::from_str(kind).map_err(|error| format!("the type of an event: {error}"))?;
    Ok(Told { kind, object: read(object) })
}

impl Told {
    /// What it means; notes the version that the watch has come to.
    pub(super) fn meaning(self, version: &mut String) -> Result<Heard, Broken> {
        let Told { kind, object } = self;
        let (object, why) = match object {
            Ok(object) => (object, None),
            Err(Unreadable { known, why }) => (known, Some(why)),
        };
        if kind == "ERROR" {
            let code = object.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
            let message = field::text(&object, "/message").unwrap_or_default().to_owned();
            return Err(Broken::Answered { code: code.unwrap_or(500), message, after: None });
        }
        if let Some(come_to) = field::text(&object, "/metadata/resourceVersion").filter(|text| !text.is_empty()) {
            come_to.clone_into(version);
        }
        Ok(match (kind.as_str(), why) {
            // It is gone, whatever it was.
            ("DELETED", _) => Heard::Event(Event::Deleted(object)),
            ("ADDED" | "MODIFIED", Some(why)) => Heard::Event(Event::Unreadable(object, why)),
            ("ADDED" | "MODIFIED", None) => Heard::Event(Event::Changed(object)),
            _ => Heard::Bookmark,
        })
    }
}
