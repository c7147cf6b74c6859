//! Requests to the API server for what `check` wants to know, and what their answers mean.

use anyhow::{Context, Result};
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

/// A long list is read in pages of this size.
const PAGE: u32 = 500;

/// What the API server says.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Object(Value),
    NotFound,
    /// The user may not ask.
    Forbidden,
    /// It was refused for another reason.
    Refused(String),
}

/// A client that asks.
#[derive(Clone)]
pub struct Asking {
    client: Client,
}

impl Asking {
    pub fn new(client: Client) -> Self {
        Asking { client }
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<(u16, HeaderMap, Value)> {
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Body::from(bytes))
            .context("a request cannot be made")?;
        let answer = self.client.send(request).await.with_context(|| format!("{path}: no answer"))?;
        let (head, body) = answer.into_parts();
        let bytes = body.collect().await.with_context(|| format!("{path}: no answer"))?.to_bytes();
        Ok((head.status.as_u16(), head.headers, serde_json::from_slice(&bytes).unwrap_or_default()))
    }

    fn answer(status: u16, body: Value) -> Answer {
        let message = body["message"].as_str().unwrap_or_default().to_string();
        match status {
            200..=299 => Answer::Object(body),
            404 => Answer::NotFound,
            // A webhook that rejects an object answers 403 too, and then its name is in the message.
            401 | 403 if !message.contains("denied the request") => Answer::Forbidden,
            _ => Answer::Refused(message),
        }
    }

    /// Reads an object.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        let (status, _, body) = self.send(Method::GET, path, None).await?;
        Ok(Self::answer(status, body))
    }

    /// Sends an object.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        let (status, _, body) = self.send(Method::POST, path, Some(body)).await?;
        Ok(Self::answer(status, body))
    }

    /// The header of an answer.
    pub async fn header(&self, path: &str, name: http::HeaderName) -> Result<Option<String>> {
        let (_, headers, _) = self.send(Method::GET, path, None).await?;
        Ok(headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_string))
    }

    /// All objects of a list; `None` where the user may not read it or there is no such kind.
    pub async fn list(&self, path: &str) -> Result<Option<Vec<Value>>> {
        let (mut all, mut next) = (Vec::new(), String::new());
        loop {
            let page = format!("{path}?limit={PAGE}{next}");
            let Answer::Object(body) = self.get(&page).await? else { return Ok(None) };
            all.extend(body["items"].as_array().cloned().unwrap_or_default());
            match body.pointer("/metadata/continue").and_then(Value::as_str) {
                Some(token) if !token.is_empty() => next = format!("&continue={token}"),
                _ => return Ok(Some(all)),
            }
        }
    }
}
