//! Answers as servers send them, in any pieces; and a server that ends connections.

use super::*;
use tokio::net::{TcpListener, TcpStream};

const MADE: &str = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";

fn read(text: &str, ended: bool) -> Option<(u16, String, bool)> {
    let (answer, goes_on) = answer(text.as_bytes(), ended).expect("it can be read")?;
    Some((answer.code, String::from_utf8(answer.body).expect("it is text"), goes_on))
}

#[test]
fn an_answer_is_read_when_all_of_it_is_there() {
    let chunked =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;a=b\r\nabc\r\nA\r\n0123456789\r\n0\r\nx: y\r\n\r\n";
    let cases = [
        (MADE, (201, "{}", true)),
        (chunked, (200, "abc0123456789", true)),
        ("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx", (200, "x", false)),
        ("HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx", (200, "x", false)),
        ("HTTP/1.1 204 No Content\r\n\r\n", (204, "", true)),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 409 Conflict\r\ncontent-length: 0\r\n\r\n", (409, "", true)),
    ];
    for (text, (code, body, goes_on)) in cases {
        for end in 0..text.len() {
            assert_eq!(read(&text[..end], false), None, "{:?}", &text[..end]);
        }
        assert_eq!(read(text, false), Some((code, body.to_string(), goes_on)), "{text}");
    }
    let more = format!("{MADE}HTTP/1.1 400");
    assert_eq!(read(&more, false), Some((201, "{}".to_string(), false)), "nobody asked for what follows");
    let endless = "HTTP/1.1 200 OK\r\n\r\nabc";
    assert_eq!(read(endless, false), None);
    assert_eq!(read(endless, true), Some((200, "abc".to_string(), false)));
}

#[test]
fn what_is_no_answer_is_not_read() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for text in [
        "SSH-2.0-server\r\n".to_string(),
        "HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n".to_string(),
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n".to_string(),
        format!("{chunked}zz\r\n"),
        format!("{chunked}1\r\nab\r\n"),
        format!("{chunked}fffffffffffffff\r\n"),
    ] {
        assert!(answer(text.as_bytes(), false).is_err(), "{text}");
    }
}

/// Reads a request whose body is as long as it says.
async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    loop {
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&read);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let size = head.split_once("content-length: ").expect("a size").1;
        if body.len() == size.split("\r\n").next().and_then(|size| size.parse().ok()).unwrap_or(0) {
            return Some(text.into_owned());
        }
    }
}

async fn lines(listener: &TcpListener, path: &str) -> Lines {
    let address = listener.local_addr().expect("an address");
    let mut config = Config::new(format!("http://{address}{path}").parse().expect("a URL"));
    config.auth_info.token = Some("secret".to_string().into());
    config.auth_info.impersonate = Some("alice".to_string());
    Lines::new(&config).await.expect("there is nothing to be wrong")
}

fn bind() -> Outgoing {
    let (path, content) = ("/api/v1/pods".to_string(), "application/json");
    Outgoing { method: Method::POST, path, content, accepts: content, body: b"{}".to_vec() }
}

#[tokio::test]
async fn requests_go_one_after_the_other_over_one_connection_and_say_who_asks() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let lines = lines(&listener, "/clusters/one/").await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut requests = Vec::new();
        for _ in 0..2 {
            requests.push(request(&mut stream).await.expect("a request"));
            stream.write_all(MADE.as_bytes()).await.expect("it is taken");
        }
        requests
    });
    for _ in 0..2 {
        assert_eq!(
            lines.send(&bind()).await.expect("an answer"),
            Answer { code: 201, retry_after: None, body: b"{}".to_vec() }
        );
    }
    for request in server.await.expect("it ends") {
        assert!(request.starts_with("POST /clusters/one/api/v1/pods HTTP/1.1\r\nhost: 127.0.0.1:"), "{request}");
        assert!(request.contains("\r\nauthorization: Bearer secret\r\n"), "{request}");
        assert!(request.contains("\r\nimpersonate-user: alice\r\n"), "{request}");
    }
}

#[tokio::test]
async fn where_a_used_connection_has_ended_the_request_goes_over_the_next() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let lines = lines(&listener, "").await;
    let server = tokio::spawn(async move {
        // It ends the first connection where it does not say so, and the second without an answer.
        for answers in [true, true, false] {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            request(&mut stream).await.expect("a request");
            if answers {
                stream.write_all(MADE.as_bytes()).await.expect("it is taken");
                request(&mut stream).await;
            }
        }
    });
    assert_eq!(lines.send(&bind()).await.expect("an answer").code, 201);
    assert_eq!(lines.send(&bind()).await.expect("the answer of the second connection").code, 201);
    let broken = lines.send(&bind()).await.expect_err("the third connection is new, and ends without an answer");
    assert!(broken.to_string().contains("ended before the answer"), "{broken}");
    server.await.expect("it ends");
}
