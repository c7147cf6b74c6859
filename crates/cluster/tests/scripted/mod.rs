//! A server that says what a script says, byte for byte, and ends connections where the script does.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::{Client, Config};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What the server does.
#[derive(Debug, Clone)]
pub enum Step {
    Say(Vec<u8>),
    Wait(Duration),
    /// It says no more, and still listens.
    HalfClose,
    /// It ends the connection.
    Close,
    /// It says nothing and keeps the connection.
    Hang,
}

use Step::{Close, Hang, Say, Wait};

pub fn say(text: &str) -> Step {
    Say(text.as_bytes().to_vec())
}

/// An answer with its length.
pub fn answer(status: &str, fields: &str, body: &str) -> Step {
    say(&format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len()))
}

pub fn json(body: &str) -> Step {
    answer("200 OK", "Content-Type: application/json\r\n", body)
}

/// The head of an answer in chunks, as that to a watch.
pub fn chunked() -> Step {
    say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
}

pub fn chunk(content: impl AsRef<[u8]>) -> Step {
    let content = content.as_ref();
    let mut bytes = format!("{:x}\r\n", content.len()).into_bytes();
    bytes.extend_from_slice(content);
    bytes.extend_from_slice(b"\r\n");
    Say(bytes)
}

pub fn wait(ms: u64) -> Step {
    Wait(Duration::from_millis(ms))
}

pub fn hang() -> Step {
    Hang
}

pub fn close() -> Step {
    Close
}

type Script = dyn Fn(usize, &str) -> Vec<Step> + Send + Sync;

/// A server that runs; it ends with the test.
pub struct Server {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Each request is answered by what the script says of its number and its head. The connection goes on after it.
    pub async fn start(script: impl Fn(usize, &str) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Server::start_with(None, script).await
    }

    /// The same over TLS.
    pub async fn start_with(
        tls: Option<TlsAcceptor>,
        script: impl Fn(usize, &str) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (script, heard): (Arc<Script>, _) = (Arc::new(script), requests.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, heard, tls) = (script.clone(), heard.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => converse(stream, &*script, &heard).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                converse(stream, &*script, &heard).await;
                            }
                        }
                    }
                });
            }
        });
        Server { address, requests }
    }

    /// The heads of all requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn config(&self) -> Config {
        let mut config = Config::new(format!("http://{}", self.address).parse().expect("a URL"));
        config.default_retry = false;
        config
    }

    pub fn client(&self) -> Client {
        Client::try_from(self.config()).expect("a client")
    }
}

async fn converse(mut stream: impl AsyncRead + AsyncWrite + Unpin, script: &Script, heard: &Mutex<Vec<String>>) {
    while let Some(head) = request(&mut stream).await {
        let number = {
            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard.push(head.clone());
            heard.len() - 1
        };
        for step in script(number, &head) {
            let done = match step {
                Say(bytes) => stream.write_all(&bytes).await.and(stream.flush().await),
                Wait(time) => {
                    tokio::time::sleep(time).await;
                    Ok(())
                }
                Step::HalfClose => stream.shutdown().await,
                Close => return,
                Hang => std::future::pending().await,
            };
            if done.is_err() {
                return;
            }
        }
    }
}

/// The head of the next request; its body is read too.
async fn request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut read = Vec::new();
    loop {
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&read);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let size = head.split_once("content-length: ").and_then(|(_, rest)| rest.split("\r\n").next()?.parse().ok());
        if body.len() >= size.unwrap_or(0) {
            return Some(head);
        }
    }
}
