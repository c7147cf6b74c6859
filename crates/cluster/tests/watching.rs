//! A watch of one kind against a scripted server: what counts as life, and what an object that cannot be read does.

use std::time::Duration;

use crate::scripted::{Server, Step, answer, chunk, chunked, close, hang, json, wait};
use quotient_api::kinds;
use quotient_cluster::Metrics;
use quotient_cluster::watch::{Tells, watch};
use quotient_host::{Seen, Subject};
use tokio::sync::mpsc::{Receiver, channel};

/// A watch that fails for longer than this is dead, here.
const FAILS_MAX: Duration = Duration::from_millis(300);

/// What asks for another list.
type Relist = tokio::sync::watch::Sender<u64>;

fn claims() -> Subject {
    Subject::Kind(kinds::find("resource.k8s.io", "ResourceClaim").expect("it is known"))
}

/// What discovery says, where the kind is served.
fn discovery() -> Vec<Step> {
    vec![json(r#"{"resources": [{"name": "resourceclaims"}]}"#)]
}

fn list(items: &str) -> Vec<Step> {
    vec![json(&format!(r#"{{"metadata": {{"resourceVersion": "5"}}, "items": [{items}]}}"#))]
}

fn begin(server: &Server) -> (Metrics, Receiver<Seen>, Relist) {
    let metrics = Metrics::default().with_watch_fails_max(FAILS_MAX);
    metrics.set_ready(true);
    metrics.beat();
    let (sender, seen) = channel(1000);
    let (relist, relists) = tokio::sync::watch::channel(0);
    tokio::spawn(watch(server.client(), claims(), Tells::News, sender, metrics.clone(), relists));
    (metrics, seen, relist)
}

/// What is seen next, as a line.
async fn next(seen: &mut Receiver<Seen>) -> String {
    let seen = tokio::time::timeout(Duration::from_secs(20), seen.recv()).await.expect("in time").expect("it goes on");
    match seen {
        Seen::Object(_, object) => format!("seen {}", object["metadata"]["name"].as_str().unwrap_or("?")),
        Seen::Gone(_, key) => format!("gone {}", key.name),
        Seen::Unreadable(_, key, why) => format!("unreadable {}: {why}", key.name),
        Seen::Listed(_) => "listed".to_string(),
        Seen::Stale(_, why) => format!("stale: {why}"),
        Seen::Unavailable(_) => "unavailable".to_string(),
    }
}

fn age(metrics: &Metrics) -> Option<f64> {
    let text = metrics.text();
    let line = text.lines().find(|line| line.starts_with("quotient_watch_age_seconds{"))?;
    line.split(' ').next_back()?.parse().ok()
}

#[tokio::test]
async fn a_kind_that_is_not_served_leaves_everything_ready() {
    let server = Server::start(|_, _| vec![answer("404 Not Found", "", "404 page not found")]).await;
    let (metrics, mut seen, _relist) = begin(&server);
    assert_eq!(next(&mut seen).await, "unavailable");
    tokio::time::sleep(3 * FAILS_MAX).await;
    assert!(metrics.is_ready(), "a kind that is not served is no failure");
    assert_eq!(age(&metrics), None, "there is nothing to watch");
}

#[tokio::test]
async fn a_watch_that_was_cut_and_answered_again_is_alive() {
    let server = Server::start(|number, head| match head {
        _ if head.contains("get /apis/resource.k8s.io/v1 ") => discovery(),
        _ if !head.contains("watch=true") => list(""),
        // The first watch is cut in the middle of something.
        _ if number <= 2 => vec![chunked(), wait(100), close()],
        _ => vec![chunked(), hang()],
    })
    .await;
    let (metrics, mut seen, _relist) = begin(&server);
    assert_eq!(next(&mut seen).await, "listed");
    tokio::time::sleep(Duration::from_millis(600) + 3 * FAILS_MAX).await;
    assert!(server.requests().len() >= 4, "it was cut, and asked again: {:?}", server.requests());
    assert!(metrics.is_ready(), "nothing happens, and the watch is well");
}

#[tokio::test]
async fn a_watch_that_gets_no_answer_is_dead() {
    let server = Server::start(|_, head| match head {
        _ if head.contains("get /apis/resource.k8s.io/v1 ") => discovery(),
        _ if !head.contains("watch=true") => list(""),
        _ => vec![close()],
    })
    .await;
    let (metrics, mut seen, _relist) = begin(&server);
    assert_eq!(next(&mut seen).await, "listed");
    assert!(metrics.is_ready(), "it may come back");
    tokio::time::sleep(4 * FAILS_MAX).await;
    assert!(!metrics.is_ready());
}

#[tokio::test]
async fn bookmarks_are_life() {
    let server = Server::start(|_, head| match head {
        _ if head.contains("get /apis/resource.k8s.io/v1 ") => discovery(),
        _ if !head.contains("watch=true") => list(""),
        _ => {
            let bookmark = chunk("{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n");
            vec![chunked(), wait(900), bookmark, hang()]
        }
    })
    .await;
    let (metrics, mut seen, _relist) = begin(&server);
    assert_eq!(next(&mut seen).await, "listed");
    tokio::time::sleep(Duration::from_millis(1000)).await;
    let age = age(&metrics).expect("it is watched");
    assert!(age < 0.8, "the bookmark came {age} s ago");
}

#[tokio::test]
async fn it_is_listed_again_when_that_is_asked_for() {
    let server = Server::start(|_, head| match head {
        _ if head.contains("get /apis/resource.k8s.io/v1 ") => discovery(),
        _ if !head.contains("watch=true") => list(""),
        _ => vec![chunked(), hang()],
    })
    .await;
    let (_metrics, mut seen, relist) = begin(&server);
    assert_eq!(next(&mut seen).await, "listed");
    relist.send_modify(|times| *times += 1);
    assert_eq!(next(&mut seen).await, "stale: is listed again");
    assert_eq!(next(&mut seen).await, "listed");
}

/// An object as nobody expects it, of a size that an API server takes.
fn deep(name: &str) -> String {
    let depth = 5_000;
    let (open, close) = ("{\"a\":".repeat(depth), "}".repeat(depth));
    format!(r#"{{"metadata":{{"name":"{name}","namespace":"a","resourceVersion":"6"}},"spec":{{"x":{open}1{close}}}}}"#)
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_said_to_be_and_the_others_are_seen() {
    let server = Server::start(|_, head| match head {
        _ if head.contains("get /apis/resource.k8s.io/v1 ") => discovery(),
        _ if !head.contains("watch=true") => {
            let good = r#"{"metadata":{"name":"good","namespace":"a","resourceVersion":"2"}}"#;
            list(&format!("{},{good}", deep("deep")))
        }
        _ => {
            let event = |kind: &str, object: &str| chunk(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"));
            let half = r#"{"metadata":{"name":"half","namespace":"a","resourceVersion":"7"},"spec":{"x":"\ud800"}}"#;
            let large = r#"{"metadata":{"name":"large","namespace":"a","resourceVersion":"7"},"spec":{"x":1e999}}"#;
            let good = r#"{"metadata":{"name":"other","namespace":"a","resourceVersion":"8"}}"#;
            let mut wrong = b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"bytes\",\"namespace\":\"a\"},\"spec\":{\"x\":\"".to_vec();
            wrong.extend_from_slice(b"\xff\xfe\"}}}\n");
            let steps = [event("MODIFIED", &deep("good")), event("ADDED", half), event("ADDED", large), chunk(wrong)];
            let last = [event("ADDED", good), event("DELETED", &deep("deep")), hang()];
            [chunked()].into_iter().chain(steps).chain(last).collect()
        }
    })
    .await;
    let (metrics, mut seen, _relist) = begin(&server);
    let mut lines = Vec::new();
    for _ in 0..9 {
        lines.push(next(&mut seen).await);
    }
    let begins: Vec<&str> = lines.iter().map(|line| line.split(':').next().expect("one part")).collect();
    assert_eq!(
        begins,
        [
            "unreadable deep",
            "seen good",
            "listed",
            "unreadable good",
            "unreadable half",
            "unreadable large",
            "seen bytes",
            "seen other",
            "gone deep",
        ]
    );
    assert!(lines[0].contains("recursion limit exceeded"), "{}", lines[0]);
    assert!(metrics.is_ready());
    assert_eq!(server.requests().iter().filter(|head| head.contains("limit=")).count(), 1, "it was listed once");
}

#[tokio::test]
async fn where_nothing_can_be_read_from_a_version_on_it_is_listed_again_and_said_to_be_stale() {
    let server = Server::start(|_, head| match head {
        _ if head.contains("get /apis/resource.k8s.io/v1 ") => discovery(),
        _ if !head.contains("watch=true") => list(""),
        _ => vec![chunked(), chunk("<html>\n"), hang()],
    })
    .await;
    let (_, mut seen, _relist) = begin(&server);
    assert_eq!(next(&mut seen).await, "listed");
    let stale = next(&mut seen).await;
    assert!(stale.starts_with("stale: it is no JSON object, and begins \"<html>"), "{stale}");
    assert_eq!(next(&mut seen).await, "listed", "the list begins anew");
    let lists = server.requests().iter().filter(|head| head.contains("limit=")).count();
    assert_eq!(lists, 2, "{:?}", server.requests());
}
