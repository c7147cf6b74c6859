//! Any bytes as the answer to a list or a watch: reading ends, and an object is told of whatever stands beside it.
//!
//! The first byte says what the rest is: a page or a watch, as text or in the binary format, or one item of a page.
#![no_main]

use std::convert::Infallible;

use http::{Request, Response, header};
use http_body_util::Full;
use hyper::body::Bytes;
use kube::Client;
use kube::client::Body;
use libfuzzer_sys::fuzz_target;
use quotient_api::kinds;
use quotient_cluster::follow::{Follow, Heard};
use quotient_cluster::wire::BINARY;
use quotient_host::Subject;
use quotient_host::watched::Event;
use serde::de::IgnoredAny;

const PAGE: &[u8] = br#"{"metadata": {"resourceVersion": "5"}, "items": []}"#;

fuzz_target!(|bytes: &[u8]| {
    let Some((which, rest)) = bytes.split_first() else { return };
    let is_item = which % 5 == 4;
    if is_item && serde_json::from_slice::<IgnoredAny>(rest).is_err() {
        return;
    }
    let good = |name: &str| format!(r#"{{"metadata": {{"name": "{name}", "namespace": "a"}}}}"#).into_bytes();
    let around = [
        &b"{\"metadata\": {\"resourceVersion\": \"5\"}, \"items\": ["[..],
        &good("first"),
        b",",
        rest,
        b",",
        &good("last"),
        b"]}",
    ];
    let (is_binary, page, watch) = match which % 5 {
        0 => (false, rest.to_vec(), Vec::new()),
        1 => (true, rest.to_vec(), Vec::new()),
        2 => (false, PAGE.to_vec(), rest.to_vec()),
        3 => (true, PAGE.to_vec(), rest.to_vec()),
        _ => (false, around.concat(), Vec::new()),
    };
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let body = if is_watch { watch.clone() } else { page.clone() };
        let is_binary = is_binary && (is_watch || body != PAGE);
        let kind = if is_binary { BINARY } else { "application/json" };
        let answer = Response::builder().header(header::CONTENT_TYPE, kind).body(Full::new(Bytes::from(body)));
        async move { Ok::<_, Infallible>(answer.expect("it is an answer")) }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async move {
        let kind = if is_binary { "Pod" } else { "PersistentVolumeClaim" };
        let subject = Subject::Kind(kinds::find("", kind).expect("it is known"));
        let mut follow = Follow::new(Client::new(service, "default"), subject);
        let (mut errors, mut seen) = (0, Vec::new());
        for _ in 0..1_000 {
            match follow.next().await {
                Ok(Heard::Event(Event::Item(object))) => {
                    seen.extend(object["metadata"]["name"].as_str().map(str::to_owned))
                }
                Ok(Heard::Event(Event::Complete)) if is_item => break,
                Ok(_) => {}
                Err(_) => errors += 1,
            }
            if errors == 4 {
                break;
            }
        }
        if is_item {
            assert!(seen.contains(&"first".to_string()) && seen.contains(&"last".to_string()), "{seen:?}");
        }
    });
});
