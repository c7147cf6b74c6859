//! How clients come to a server: certificates, proxies, tokens.

use std::sync::Arc;
use std::time::Duration;

use kube::Config;
use quotient_testenv::certificates::{Authority, Identity};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto::ring};

use super::{Asker, GOOD, KINDS, status};
use crate::scripted::{Server, answer, close, json};

fn acceptor(identity: &Identity, protocols: &[&[u8]]) -> TlsAcceptor {
    let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).map(|it| it.expect("a certificate"));
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("a key");
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain.collect(), key)
        .expect("a certificate and its key");
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

fn over_tls(server: &Server, authority: &Authority) -> Config {
    let mut config = Config::new(format!("https://{}", server.address).parse().expect("a URL"));
    let root = CertificateDer::from_pem_slice(authority.certificate.as_bytes()).expect("a certificate");
    config.root_cert = Some(vec![root.to_vec()]);
    config.default_retry = false;
    config
}

/// A server that comes back with another certificate of the same authority is the same server; one of another is not.
#[tokio::test]
async fn a_certificate_that_was_renewed_is_trusted_and_another_is_not() {
    let (authority, other) = (Authority::new().expect("an authority"), Authority::new().expect("another"));
    let ours = |authority: &Authority| authority.server(&["127.0.0.1"]).expect("a certificate");
    for kind in KINDS {
        let script = |_: usize, _: &str| vec![json(GOOD), close()];
        let first = Server::start_with(Some(acceptor(&ours(&authority), &[])), script).await;
        let second = Server::start_with(Some(acceptor(&ours(&authority), &[])), script).await;
        let strange = Server::start_with(Some(acceptor(&ours(&other), &[])), script).await;
        for server in [&first, &second] {
            assert_eq!(Asker::new(kind, over_tls(server, &authority)).await.ask().await, "ok", "{kind:?}");
        }
        let said = Asker::new(kind, over_tls(&strange, &authority)).await.ask().await;
        assert!(said.to_lowercase().contains("certificate"), "{kind:?}: {said}");
        assert!(said.starts_with("Unavailable(") || said.starts_with("Other("), "{kind:?}: {said}");
        // One that speaks only HTTP/2 says so in the handshake.
        let two = Server::start_with(Some(acceptor(&ours(&authority), &[b"h2"])), |_, _| vec![close()]).await;
        let said = Asker::new(kind, over_tls(&two, &authority)).await.ask().await;
        assert!(said.starts_with("Unavailable(") || said.starts_with("Other("), "{kind:?}: {said}");
    }
}

/// A proxy that opens tunnels; gives its port, and counts them.
async fn proxy() -> (u16, Arc<std::sync::atomic::AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("it listens").port();
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let tunnels = count.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let tunnels = tunnels.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let Some(target) = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()) else {
                    return;
                };
                let mut server = TcpStream::connect(target).await.expect("the server is there");
                tunnels.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.expect("it is taken");
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
            });
        }
    });
    (port, count)
}

#[tokio::test]
async fn every_client_goes_through_a_proxy_where_there_is_one() {
    let authority = Authority::new().expect("an authority");
    let identity = authority.server(&["127.0.0.1"]).expect("a certificate");
    let server = Server::start_with(Some(acceptor(&identity, &[])), |_, _| vec![json(GOOD)]).await;
    for kind in KINDS {
        let (port, tunnels) = proxy().await;
        let mut config = over_tls(&server, &authority);
        config.proxy_url = Some(format!("http://127.0.0.1:{port}").parse().expect("a URL"));
        assert_eq!(Asker::new(kind, config).await.ask().await, "ok", "{kind:?}");
        assert_eq!(tunnels.load(std::sync::atomic::Ordering::Relaxed), 1, "{kind:?}");
    }
}

/// A token in a file is read again while it is used: a kubelet replaces it long before it runs out.
#[tokio::test]
#[ignore = "takes a minute and more: `make minutes`"]
async fn a_token_that_was_rotated_is_used() {
    let file = std::env::temp_dir().join(format!("quotient-token-{}", std::process::id()));
    for kind in KINDS {
        std::fs::write(&file, "first").expect("it can be written");
        let server = Server::start(|_, head| match head.contains("authorization: bearer second") {
            true => vec![json(GOOD)],
            false => vec![answer("401 Unauthorized", "Content-Type: application/json\r\n", &status(401, ""))],
        })
        .await;
        let mut config = server.config();
        config.auth_info.token_file = Some(file.display().to_string());
        let asker = Asker::new(kind, config).await;
        assert_ne!(asker.ask().await, "ok", "{kind:?}");
        std::fs::write(&file, "second").expect("it can be written");
        tokio::time::sleep(Duration::from_secs(70)).await;
        assert_eq!(asker.ask().await, "ok", "{kind:?}");
    }
    std::fs::remove_file(&file).expect("it is there");
}
