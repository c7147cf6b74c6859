//! One table of what servers, and what stands before them, do wrong; each row against each client: the one for writes
//! (`lines`), the one for lists and watches (`follow`), and the general one for what is asked for once (`once`). What
//! each says of it is in the row. Afterwards each goes on as if nothing had been.

mod connections;

use std::time::Duration;

use crate::scripted::{Server, Step, answer, chunk, chunked, close, hang, json, say, wait};
use http::Request;
use kube::{Client, Config};
use quotient_api::{ObjectKey, kinds};
use quotient_cluster::call::{Call, CallError, call_error};
use quotient_cluster::follow::{Broken, Follow, Heard};
use quotient_cluster::lease::Fence;
use quotient_cluster::lines::Lines;
use quotient_host::Subject;
use quotient_host::watched::Event;
use serde_json::Value;

/// How long a client may take for a row of the table.
const PATIENCE: Duration = Duration::from_secs(20);

const GOOD: &str =
    r#"{"kind": "NamespaceList", "metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": "n"}}]}"#;

fn status(code: u16, more: &str) -> String {
    format!(r#"{{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "code": {code}{more}}}"#)
}

/// A client to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lines,
    Follow,
    Once,
}

const KINDS: [Kind; 3] = [Kind::Lines, Kind::Follow, Kind::Once];

/// A client with its connections.
enum Asker {
    Lines(Lines),
    Follow(Client),
    Once(Client),
}

impl Asker {
    async fn new(kind: Kind, config: Config) -> Self {
        match kind {
            Kind::Lines => Asker::Lines(Lines::new(&config).await.expect("a client")),
            Kind::Follow => Asker::Follow(Client::try_from(config).expect("a client")),
            Kind::Once => Asker::Once(Client::try_from(config).expect("a client")),
        }
    }

    /// Asks, and says what came: `ok`, or the error.
    async fn ask(&self) -> String {
        match tokio::time::timeout(PATIENCE, self.ask_long()).await {
            Ok(said) => said,
            Err(_) => "no end".to_string(),
        }
    }

    async fn ask_long(&self) -> String {
        let said = |error: CallError| format!("{error:?}");
        match self {
            Asker::Lines(lines) => {
                let answer = Call::get(&ObjectKey::node("n")).send(lines, &Fence::open()).await;
                answer.map_or_else(said, |_| "ok".to_string())
            }
            Asker::Once(client) => {
                let request = Request::get("/api/v1/namespaces").body(Vec::new()).expect("a request");
                let answer = client.request::<Value>(request).await;
                answer.map_or_else(|error| said(call_error(error)), |_| "ok".to_string())
            }
            Asker::Follow(client) => {
                let subject = Subject::Kind(kinds::find("", "Namespace").expect("it is known"));
                let mut follow = Follow::new(client.clone(), subject);
                loop {
                    match follow.next().await {
                        Ok(Heard::Event(Event::Complete)) => return "ok".to_string(),
                        Ok(_) => {}
                        Err(broken) => return format!("{broken:?}"),
                    }
                }
            }
        }
    }
}

/// A row: what the server does instead of answering, and a part of what each client says, in the order of [`KINDS`].
struct Row {
    name: &'static str,
    steps: Vec<Step>,
    said: [&'static str; 3],
}

fn row(name: &'static str, steps: Vec<Step>, said: [&'static str; 3]) -> Row {
    Row { name, steps, said }
}

fn whole() -> Vec<Row> {
    let ok = ["ok"; 3];
    let pieces: Vec<Step> = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{GOOD}", GOOD.len())
        .as_bytes()
        .chunks(7)
        .flat_map(|part| [Step::Say(part.to_vec()), wait(5)])
        .collect();
    vec![
        row("a good answer", vec![json(GOOD)], ok),
        row("in pieces, slowly", pieces, ok),
        row("in chunks", vec![chunked(), chunk(&GOOD[..9]), wait(20), chunk(&GOOD[9..]), say("0\r\n\r\n")], ok),
        row("until the end", vec![say(&format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{GOOD}")), close()], ok),
        row("100 first", vec![say("HTTP/1.1 100 Continue\r\n\r\n"), json(GOOD)], ok),
        row("103 first", vec![say("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"), wait(10), json(GOOD)], ok),
    ]
}

fn cut() -> Vec<Row> {
    let gone = ["Unavailable(\"the connection ended before the answer", "Other(", "Unavailable("];
    let within = ["Unavailable(\"the connection ended within the answer", "Other(", "Unavailable("];
    vec![
        row("closed before the answer", vec![close()], gone),
        row("half-closed before the answer", vec![Step::HalfClose], gone),
        row("closed in the head", vec![say("HTTP/1.1 200 OK\r\nContent-"), close()], within),
        row("truncated", vec![say("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"a\""), close()], within),
        row(
            "half-closed in the body",
            vec![say("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"), Step::HalfClose],
            within,
        ),
        row("a chunk that ends too soon", vec![chunked(), say("ff\r\n{\"a\""), close()], within),
        row("no last chunk", vec![chunked(), chunk(GOOD), close()], within),
    ]
}

fn refusals() -> Vec<Row> {
    let plain = |code: &str, fields: &str| vec![answer(code, fields, "go away")];
    let json = |code: &str, body: &str| vec![answer(code, "Content-Type: application/json\r\n", body)];
    let after = "Retry-After: 7\r\nContent-Type: text/plain\r\n";
    vec![
        row(
            "429 without a Status",
            plain("429 Too Many Requests", after),
            ["Throttled { after: Some(7s)", "code: 429, message: \"it answered 429\", after: Some(7s)", "Throttled {"],
        ),
        row(
            "429 with a Status",
            json("429 Too Many Requests", &status(429, r#", "details": {"retryAfterSeconds": 3}"#)),
            ["Throttled { after: Some(3s)", "code: 429, message: \"no\"", "Throttled { after: Some(3s)"],
        ),
        row("500", json("500 Internal Server Error", &status(500, "")), ["Broken(\"no\")", "code: 500", "Broken("]),
        row(
            "502 as a page",
            plain("502 Bad Gateway", ""),
            ["Unavailable(\"it answered 502: go away", "code: 502", "Unavailable("],
        ),
        row(
            "503",
            plain("503 Service Unavailable", after),
            ["Unavailable(", "code: 503, message: \"it answered 503\", after: Some(7s)", "Unavailable("],
        ),
        row("504", plain("504 Gateway Timeout", ""), ["Unavailable(", "code: 504", "Unavailable("]),
        row("401", json("401 Unauthorized", &status(401, "")), ["Unavailable(\"no\")", "code: 401", "Unavailable("]),
        row(
            "403",
            json("403 Forbidden", &status(403, "")),
            ["Refused { code: 403", "code: 403", "Refused { code: 403"],
        ),
        row(
            "a redirect to somewhere",
            plain("302 Found", "Location: https://login.example.com/\r\n"),
            ["Unavailable(\"it answered 302", "code: 302", "Unavailable("],
        ),
        row(
            "a redirect for good",
            plain("308 Permanent Redirect", "Location: /x\r\n"),
            ["Unavailable(", "code: 308", "Unavailable("],
        ),
    ]
}

fn nonsense() -> Vec<Row> {
    let unreadable = ["Unavailable(\"the answer cannot be read", "Other(", "Unavailable("];
    let fields: String = (0..80).map(|index| format!("x-{index}: y\r\n")).collect();
    let settings =
        b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"
            .to_vec();
    vec![
        row("another protocol", vec![say("SSH-2.0-server\r\n"), close()], unreadable),
        row("HTTP/2 only", vec![Step::Say(settings), close()], unreadable),
        row(
            "a page for people",
            vec![answer("200 OK", "", "<html>log in</html>")],
            [
                "Unavailable(\"GET /api/v1/nodes/n: the answer cannot be read",
                "Unreadable(\"the list: it is no JSON object",
                "Unavailable(",
            ],
        ),
        row("nothing", vec![answer("200 OK", "", "")], ["Unavailable(", "Unreadable(", "Unavailable("]),
        row("a length that is none", vec![say("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}"), close()], unreadable),
        row("a chunk that is none", vec![chunked(), say("zz\r\n{}\r\n"), close()], unreadable),
        row(
            "too many fields",
            vec![say(&format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 2\r\n\r\n{{}}")), close()],
            ["Unavailable(", "Unreadable(", "ok"],
        ),
    ]
}

/// Each row, then a good answer: the client is none the worse for it.
async fn check(rows: Vec<Row>) {
    let mut wrong = Vec::new();
    for Row { name, steps, said } in rows {
        for (kind, expected) in KINDS.into_iter().zip(said) {
            let steps = steps.clone();
            let server = Server::start(move |number, _| match number {
                0 => steps.clone(),
                _ => vec![json(GOOD)],
            })
            .await;
            let asker = Asker::new(kind, server.config()).await;
            let first = asker.ask().await;
            if !first.contains(expected) {
                wrong.push(format!("{name}, {kind:?}: {first}: expected {expected}"));
            }
            let second = asker.ask().await;
            if second != "ok" {
                wrong.push(format!("{name}, {kind:?}: afterwards {second}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn answers_in_any_form_are_read() {
    check(whole()).await;
}

#[tokio::test]
async fn what_is_cut_off_is_an_error_and_no_answer() {
    check(cut()).await;
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    check(refusals()).await;
}

#[tokio::test]
async fn what_is_no_answer_is_an_error() {
    check(nonsense()).await;
}

/// A used connection that ends between a request and its answer, and one that ended before: the request is sent again.
#[tokio::test]
async fn a_used_connection_that_ends_costs_nothing() {
    for kind in [Kind::Lines, Kind::Once] {
        let server = Server::start(|number, _| match number {
            // It ends after its first answer, a moment later.
            0 => vec![json(GOOD), wait(50), close()],
            _ => vec![json(GOOD)],
        })
        .await;
        let asker = Asker::new(kind, server.config()).await;
        assert_eq!(asker.ask().await, "ok");
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(asker.ask().await, "ok", "{kind:?}");
    }
    let server = Server::start(|number, _| if number == 1 { vec![close()] } else { vec![json(GOOD)] }).await;
    let asker = Asker::new(Kind::Lines, server.config()).await;
    assert_eq!([asker.ask().await, asker.ask().await], ["ok", "ok"], "it ended when it had the second request");
    assert_eq!(server.requests().len(), 3);
}

/// A write is given up in time. A watch may be silent for long, and a list takes as long as it takes.
#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    let server = Server::start(|_, _| vec![hang()]).await;
    let asker = Asker::new(Kind::Lines, server.config()).await;
    let said = asker.ask().await;
    assert!(said.contains("no answer in time"), "{said}");
    let server = Server::start(|_, _| vec![say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"), hang()]).await;
    let asker = Asker::new(Kind::Lines, server.config()).await;
    let said = asker.ask().await;
    assert!(said.contains("no answer in time"), "{said}");
}

/// What a watch says, as far as it comes, and what it is asked then.
async fn watched(steps: Vec<Step>, count: usize) -> Vec<String> {
    let server = Server::start(move |number, _| match number {
        0 => vec![json(GOOD)],
        1 => steps.clone(),
        _ => vec![chunked(), chunk(event("ADDED", "last", 99)), hang()],
    })
    .await;
    let subject = Subject::Kind(kinds::find("", "Namespace").expect("it is known"));
    let mut follow = Follow::new(server.client(), subject);
    let mut said = Vec::new();
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or("?").to_string();
    while said.len() < count {
        let heard = tokio::time::timeout(PATIENCE, follow.next()).await;
        said.push(match heard {
            Err(_) => return [said, vec!["no end".to_string()]].concat(),
            Ok(Ok(Heard::Event(Event::Listing | Event::Item(_) | Event::Complete))) => continue,
            Ok(Ok(Heard::Answered)) => "answered".to_string(),
            Ok(Ok(Heard::Bookmark)) => "bookmark".to_string(),
            Ok(Ok(Heard::Event(Event::Changed(object)))) => format!("changed {}", name(&object)),
            Ok(Ok(Heard::Event(Event::Deleted(object)))) => format!("deleted {}", name(&object)),
            Ok(Ok(Heard::Event(Event::Unreadable(object, _)))) => format!("unreadable {}", name(&object)),
            Ok(Ok(Heard::Event(other))) => format!("{other:?}"),
            Ok(Err(Broken::Answered { code, after, .. })) => format!("answered {code} {after:?}"),
            Ok(Err(Broken::Unreadable(_))) => "cannot be read".to_string(),
            Ok(Err(Broken::Other(_))) => "broken".to_string(),
        });
    }
    let query = server.requests().pop().unwrap_or_default();
    let version = query.split("resourceversion=").nth(1).and_then(|rest| rest.split([' ', '&']).next());
    said.push(format!("from {}", version.unwrap_or("?")));
    said
}

fn event(kind: &str, name: &str, version: u64) -> String {
    let metadata = format!(r#"{{"name": "{name}", "resourceVersion": "{version}"}}"#);
    format!("{{\"type\": \"{kind}\", \"object\": {{\"metadata\": {metadata}}}}}\n")
}

/// What happens to a watch after its list, and what is heard then; the last is the version that it goes on from.
#[tokio::test]
async fn a_watch_goes_on_from_where_it_was() {
    let head = || chunked();
    let one = || chunk(event("ADDED", "one", 7));
    let after = "Retry-After: 2\r\n";
    let gone = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"message\":\"too old\"}}\n";
    let half = event("ADDED", "two", 8);
    let odd = event("MODIFIED", "one", 8).replace("\"metadata\"", "\"x\": \"\\ud800\", \"metadata\"");
    let many = event("ADDED", "one", 7) + &event("DELETED", "one", 8) + &event("BOOKMARK", "", 9);
    let rows: Vec<(&str, Vec<Step>, &[&str])> = vec![
        ("ends", vec![head(), wait(1100), say("0\r\n\r\n")], &["answered", "answered", "changed last", "from 5"]),
        (
            "is cut",
            vec![head(), one(), close()],
            &["answered", "changed one", "broken", "answered", "changed last", "from 7"],
        ),
        (
            "is cut in an event",
            vec![head(), one(), chunk(&half[..20]), close()],
            &["answered", "changed one", "broken", "answered", "changed last", "from 7"],
        ),
        (
            "comes in pieces",
            vec![head(), chunk(&many[..30]), wait(20), chunk(&many[30..31]), chunk(&many[31..]), close()],
            &["answered", "changed one", "deleted one", "bookmark", "broken", "answered", "changed last", "from 9"],
        ),
        (
            "an object that cannot be read",
            vec![head(), one(), chunk(odd), close()],
            &["answered", "changed one", "unreadable one", "broken", "answered", "changed last", "from 8"],
        ),
        (
            "no event",
            vec![head(), chunk("<html>\n"), hang()],
            &["answered", "cannot be read", "answered", "changed last", "from 5"],
        ),
        ("too old", vec![head(), one(), chunk(gone), hang()], &["answered", "changed one", "answered 410 None"]),
        (
            "throttled",
            vec![answer("429 Too Many Requests", after, "x")],
            &["answered 429 Some(2s)", "answered", "changed last", "from 5"],
        ),
        (
            "refused",
            vec![answer("503 Service Unavailable", after, "")],
            &["answered 503 Some(2s)", "answered", "changed last", "from 5"],
        ),
        (
            "a redirect",
            vec![answer("302 Found", "Location: /\r\n", "")],
            &["answered 302 None", "answered", "changed last", "from 5"],
        ),
        ("closed at once", vec![close()], &["broken", "answered", "changed last", "from 5"]),
    ];
    let mut wrong = Vec::new();
    for (name, steps, expected) in rows {
        let ends_here = expected.last().is_some_and(|last| !last.starts_with("from"));
        let said = watched(steps, expected.len() - usize::from(!ends_here)).await;
        if said[..expected.len()] != *expected {
            wrong.push(format!("{name}: {said:?}: expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
