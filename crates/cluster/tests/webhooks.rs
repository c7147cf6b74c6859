//! The webhooks' certificates on a real API server: made, agreed on, renewed while it asks, or taken from a folder.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::ByteString;
use quotient_api::Configuration;
use quotient_cluster::system::System;
use quotient_cluster::webhook::authority::{Authority, Lifetimes};
use quotient_cluster::webhook::certificates::{Keeper, Source};
use quotient_cluster::webhook::configuration::{Target, configurations};
use quotient_cluster::webhook::{WebhookSettings, webhooks};
use quotient_cluster::{Clients, Metrics, connect};
use quotient_host::SharedObjects;
use quotient_host::objects::Objects;
use quotient_testenv::{ControlPlane, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const DAY_S: i64 = 24 * 3600;

/// The time of the keeper that lives through years.
static CLOCK_S: AtomicI64 = AtomicI64::new(1_767_225_600);

/// Lifetimes so short that two authorities follow the first within the test, and long enough for a machine that does
/// much else.
const SHORT: Lifetimes = Lifetimes {
    authority: Duration::from_secs(30),
    serving: Duration::from_secs(15),
    look_every: Duration::from_millis(300),
    trusted_after: Duration::from_secs(3),
};

fn secret(name: &str) -> Source {
    Source::SelfMade { namespace: "default".to_string(), secret: name.to_string() }
}

fn target(address: SocketAddr) -> Target {
    Target::Url(format!("https://{address}"))
}

fn get(plane: &ControlPlane, arguments: &[&str]) -> Value {
    let answer = plane.kubectl(&[&["get", "-o", "json"], arguments].concat()).expect("it is there");
    serde_json::from_str(&answer).expect("it is JSON")
}

/// The certificates that the API server trusts.
fn bundle(plane: &ControlPlane) -> Vec<CertificateDer<'static>> {
    let configuration = get(plane, &["validatingwebhookconfiguration", "quotient"]);
    let bundle = configuration["webhooks"][0]["clientConfig"]["caBundle"].clone();
    let ByteString(bytes) = serde_json::from_value(bundle).expect("it is base64");
    CertificateDer::pem_slice_iter(&bytes).collect::<Result<_, _>>().expect("it is PEM")
}

/// Shakes hands as one who trusts these; gives the certificate that was shown.
async fn shown(address: SocketAddr, trusted: &[CertificateDer<'static>]) -> Result<Vec<u8>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in trusted {
        roots.add(certificate.clone()).expect("it is a certificate");
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("they are known")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let name = ServerName::try_from(address.ip().to_string()).expect("it is an address");
    let connection = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let connection = connection.map_err(|error| error.to_string())?;
    let (_, session) = connection.get_ref();
    Ok(session.peer_certificates().and_then(|chain| chain.first()).expect("it was shown").to_vec())
}

fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port")
}

fn tell(plane: &ControlPlane, address: SocketAddr) {
    plane.apply(&configurations(&target(address), "default", &[System::Elastic])).expect("it is told");
}

/// Serves webhooks that know of no objects; they end with the value.
async fn start(clients: &Clients, address: SocketAddr, at: SocketAddr, source: Source) -> tokio::task::JoinSet<()> {
    let mut settings = WebhookSettings::new(address, target(at), source);
    settings.lifetimes = SHORT;
    start_with(clients, settings).await
}

async fn start_with(clients: &Clients, settings: WebhookSettings) -> tokio::task::JoinSet<()> {
    start_on(clients, settings, SharedObjects::default()).await
}

/// Serves webhooks that know of these objects and no others.
async fn start_on(clients: &Clients, settings: WebhookSettings, objects: SharedObjects) -> tokio::task::JoinSet<()> {
    objects.write().complete();
    let metrics = Metrics::default();
    metrics.beat();
    metrics.set_ready(true);
    let (_, answer) = webhooks(clients, settings, objects, metrics.clone()).await.expect("it listens");
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(answer);
    let begun = Instant::now();
    while !metrics.is_ready() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the webhooks are not ready");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tasks
}

/// Asks the API server to make a quota, without keeping it; gives what it says.
fn make(plane: &ControlPlane, resource: &str) -> Result<String, String> {
    let quota = json!({"apiVersion": "nos.nebuly.com/v1alpha1", "kind": "CompositeElasticQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"namespaces": ["a"], "min": {resource: "1"}}});
    let answer = plane.kubectl_with(&["create", "--dry-run=server", "-f", "-"], &quota.to_string());
    answer.map_err(|error| error.to_string())
}

/// A quota that is fine comes in, and one that is not is refused by us and nobody else.
fn assert_asked(plane: &ControlPlane, when: &str) {
    make(plane, "cpu").unwrap_or_else(|error| panic!("{when}: {error}"));
    let refused = make(plane, "no name").expect_err("that is no resource");
    let ours =
        "compositeelasticquotas.nos.nebuly.com.quotient.dev\" denied the request: spec.min[\"no name\"]: \"1\": ";
    assert!(refused.contains(ours), "{when}: {refused}");
}

#[test]
fn certificates_are_made_agreed_on_renewed_and_reloaded() {
    let options = Options { controller_manager: false, kwok: false, ..Options::default() };
    let plane = ControlPlane::start(options).expect("the control plane starts");
    plane.install(&quotient_api::crd::definitions()).expect("the kinds are installed");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let clients = connect(Some(&plane.kubeconfig())).await.expect("the API server answers");
        an_authority_is_followed_in_time(&plane, &clients).await;
        renewed_while_the_api_server_asks(&plane, &clients).await;
        taken_from_a_folder(&plane, &clients).await;
        only_clients_of_the_authority_are_answered(&plane, &clients).await;
        idle_strangers_lock_no_api_server_out(&plane, &clients).await;
    });
}

/// Over years, by a clock that the test sets.
async fn an_authority_is_followed_in_time(plane: &ControlPlane, clients: &Clients) {
    let clock = || CLOCK_S.load(Ordering::Relaxed);
    let (address, lifetimes) = (free_address(), Lifetimes::default());
    let keeper = || Keeper::new(clients.keep.clone(), target(address), secret("years"), lifetimes, clock);
    let current = || get(plane, &["secret", "years"])["data"]["ca.crt"].clone();
    let (mut one, mut other) = (keeper(), keeper());
    one.look().await.expect("there is no configuration yet, and that is no error");
    assert!(one.holder().is_good_at(clock()), "the first authority is trusted as soon as it is told of");
    let first = current();
    other.look().await.expect("it reads what the other wrote");
    assert_eq!(current(), first, "they agree");
    tell(plane, address);
    one.look().await.expect("it tells whom to trust");
    let trusted = bundle(plane);
    assert_eq!(trusted.len(), 1);
    CLOCK_S.fetch_add(240 * DAY_S, Ordering::Relaxed);
    one.look().await.expect("there is nothing to do");
    assert_eq!(current(), first);
    CLOCK_S.fetch_add(5 * DAY_S, Ordering::Relaxed);
    other.look().await.expect("it makes another");
    let second = current();
    assert_ne!(second, first, "two thirds of a year are over");
    // One who starts now can only sign with an authority that API servers may not know yet; the others serve as before.
    let mut late = keeper();
    late.look().await.expect("it signs");
    assert!(!late.holder().is_good_at(clock()) && late.holder().is_good_at(clock() + 60));
    assert!(other.holder().is_good_at(clock()));
    one.look().await.expect("it reads what the other wrote");
    assert_eq!(current(), second, "they agree");
    let both = bundle(plane);
    assert!(both.len() == 2 && both.contains(&trusted[0]), "the old one is trusted meanwhile");
    CLOCK_S.fetch_add(245 * DAY_S, Ordering::Relaxed);
    one.look().await.expect("it makes another");
    assert!(!bundle(plane).contains(&trusted[0]), "its time is over");
    // Somebody breaks the Secret, or throws it away: what was trusted still is.
    let third = bundle(plane)[0].clone();
    plane.kubectl(&["annotate", "secret", "years", "quotient.dev/ca-name-"]).expect("it is broken");
    one.look().await.expect("it is written anew");
    assert!(bundle(plane).len() == 2 && bundle(plane).contains(&third));
    plane.kubectl(&["delete", "secret", "years"]).expect("it is gone");
    let fourth = bundle(plane)[0].clone();
    one.look().await.expect("it is written anew");
    assert!(bundle(plane).len() == 2 && bundle(plane).contains(&fourth));
    plane.kubectl(&["delete", "validatingwebhookconfigurations", "quotient"]).expect("it is gone");
}

/// Two replicas, an API server that asks all the time, and certificates that last for seconds.
async fn renewed_while_the_api_server_asks(plane: &ControlPlane, clients: &Clients) {
    let (one, other) = (free_address(), free_address());
    tell(plane, one);
    // Both begin at once, and one Secret comes of it.
    let (_first, _second) =
        tokio::join!(start(clients, one, one, secret("renewed")), start(clients, other, one, secret("renewed")));
    let (mut authorities, mut served) = (BTreeSet::new(), BTreeSet::new());
    let begun = Instant::now();
    while authorities.len() < 3 {
        assert!(begun.elapsed() < Duration::from_secs(180), "no authority follows");
        tokio::task::block_in_place(|| assert_asked(plane, &format!("after {:?}", begun.elapsed())));
        let trusted = tokio::task::block_in_place(|| bundle(plane));
        for address in [one, other] {
            let when = begun.elapsed();
            let certificate = shown(address, &trusted).await.unwrap_or_else(|error| panic!("after {when:?}: {error}"));
            served.insert(certificate);
        }
        authorities.extend(trusted.into_iter().map(|certificate| certificate.to_vec()));
    }
    assert!(served.len() > authorities.len(), "{} certificates of {} authorities", served.len(), authorities.len());
}

/// A folder whose files change.
async fn taken_from_a_folder(plane: &ControlPlane, clients: &Clients) {
    let address = free_address();
    let folder = plane.folder().join("certificate");
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let now_s = quotient_cluster::clock::wall_us() / 1_000_000;
    let certificate = |folder: &Path| {
        let authority = plane.certificate(&["127.0.0.1"]).expect("it is made");
        std::fs::write(folder.join("tls.crt"), &authority.certificate).expect("it is written");
        std::fs::write(folder.join("tls.key"), &authority.key).expect("it is written");
        std::fs::write(folder.join("ca.crt"), plane.authority()).expect("it is written");
    };
    certificate(&folder);
    tell(plane, address);
    let _tasks = start(clients, address, address, Source::Mounted(folder.clone())).await;
    let begun = Instant::now();
    while make(plane, "cpu").is_err() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", make(plane, "cpu"));
    }
    assert_asked(plane, "from a folder");
    let before = shown(address, &bundle(plane)).await.expect("it is trusted");
    // What cannot be used is not used.
    let stranger = Authority::make(now_s, Duration::from_secs(3600)).expect("it is made");
    std::fs::write(folder.join("tls.key"), &stranger.key).expect("it is written");
    tokio::time::sleep(3 * SHORT.look_every).await;
    assert_eq!(shown(address, &bundle(plane)).await.as_ref(), Ok(&before));
    certificate(&folder);
    let begun = Instant::now();
    while shown(address, &bundle(plane)).await.as_ref() == Ok(&before) {
        assert!(begun.elapsed() < Duration::from_secs(30), "the new certificate is not served");
        tokio::time::sleep(SHORT.look_every).await;
    }
    assert_asked(plane, "from a folder that changed");
}

/// What whoever shows this certificate is answered, or nothing.
async fn asked_as(address: SocketAddr, plane: &ControlPlane, user: Option<&str>) -> Option<String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(plane.authority().as_bytes()) {
        roots.add(certificate.expect("it is PEM")).expect("it is a certificate");
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("they are known")
        .with_root_certificates(roots);
    let config = match user {
        None => config.with_no_client_auth(),
        Some(user) => {
            let file = plane.kubeconfig_of(user, &[]).expect("a user can be made");
            let kubeconfig: Value =
                serde_json::from_str(&std::fs::read_to_string(file).expect("it is there")).expect("it is JSON");
            let part = |name: &str| {
                let ByteString(bytes) =
                    serde_json::from_value(kubeconfig["users"][0]["user"][name].clone()).expect("it is base64");
                bytes
            };
            let chain = CertificateDer::pem_slice_iter(&part("client-certificate-data"))
                .collect::<Result<Vec<_>, _>>()
                .expect("it is PEM");
            let key = PrivateKeyDer::from_pem_slice(&part("client-key-data")).expect("it is PEM");
            config.with_client_auth_cert(chain, key).expect("they belong together")
        }
    };
    let stream = TcpStream::connect(address).await.ok()?;
    let name = ServerName::try_from(address.ip().to_string()).expect("it is an address");
    let mut connection = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    let request = b"POST /validate HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    connection.write_all(request).await.ok()?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.ok()?;
    String::from_utf8(answer).ok().filter(|answer| !answer.is_empty())
}

/// With an authority of clients, nobody else gets an answer.
async fn only_clients_of_the_authority_are_answered(plane: &ControlPlane, clients: &Clients) {
    let (address, folder) = (free_address(), plane.folder().join("certificate"));
    let mut settings = WebhookSettings::new(address, target(address), Source::Mounted(folder.clone()));
    settings.lifetimes = SHORT;
    settings.client_authority = Some(folder.join("ca.crt"));
    let _tasks = start_with(clients, settings).await;
    assert_eq!(asked_as(address, plane, None).await, None, "a stranger is not answered");
    let answer = asked_as(address, plane, Some("apiserver")).await.expect("a client of the authority is");
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("expected admission.k8s.io/v1"), "{answer}");
}

/// Strangers from three addresses take every place with connections that say nothing.
async fn idle_strangers_lock_no_api_server_out(plane: &ControlPlane, clients: &Clients) {
    let (address, folder) = (free_address(), plane.folder().join("certificate"));
    let mut settings = WebhookSettings::new(address, target(address), Source::Mounted(folder));
    settings.lifetimes = SHORT;
    let _tasks = start_with(clients, settings).await;
    let mut idle = Vec::new();
    for at in 0..600_u16 {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from(([127, 0, 0, 2 + (at % 3) as u8], 0))).expect("the loopback has it");
        idle.push(socket.connect(address).await.expect("the port is open"));
    }
    let begun = std::time::Instant::now();
    let answer = asked_as(address, plane, None).await.expect("whoever asks is answered");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(2), "it waits for nobody: {:?}", begun.elapsed());
}

/// Gives a user these rights on elastic quotas in a namespace, which is made.
fn grant(plane: &ControlPlane, user: &str, namespace: &str, resource: &str, verbs: &[&str]) {
    let rbac = "rbac.authorization.k8s.io";
    let metadata = json!({"name": user, "namespace": namespace});
    let rule = json!({"apiGroups": ["nos.nebuly.com"], "resources": [resource], "verbs": verbs});
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": metadata, "rules": [rule]}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": user},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}]}),
    ];
    plane.apply(&objects).expect("the rights are given");
}

/// Where namespaces have to agree to composite quotas, whoever may make and delete the quotas of one agrees for it.
#[test]
fn whoever_has_rights_on_the_quotas_of_a_namespace_agrees_for_it() {
    const AGREED: &str = "quotient.dev/agreed-namespaces";
    let options = Options { controller_manager: false, kwok: false, ..Options::default() };
    let plane = ControlPlane::start(options).expect("the control plane starts");
    plane.install(&quotient_api::crd::definitions()).expect("the kinds are installed");
    grant(&plane, "maker", "platform", "compositeelasticquotas", &["create", "get", "update", "patch"]);
    grant(&plane, "maker", "a", "elasticquotas", &["create", "delete"]);
    grant(&plane, "maker", "b", "elasticquotas", &["create"]);
    let address = free_address();
    tell(&plane, address);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _tasks = runtime.block_on(async {
        let clients = connect(Some(&plane.kubeconfig())).await.expect("the API server answers");
        let objects = SharedObjects::default();
        let configuration = Configuration { listed_users_only: true, ..Configuration::default() };
        *objects.write() = Objects::new(&configuration);
        start_on(&clients, WebhookSettings::new(address, target(address), secret("consent")), objects).await
    });
    let user = plane.kubeconfig_of("maker", &[]).expect("a user can be made").display().to_string();
    let composite = |namespaces: &[&str], agreed: Option<&str>| {
        json!({"apiVersion": "nos.nebuly.com/v1alpha1", "kind": "CompositeElasticQuota",
            "metadata": {"name": "q", "namespace": "platform", "annotations": agreed.map(|text| json!({AGREED: text}))},
            "spec": {"namespaces": namespaces, "min": {"cpu": "1"}}})
    };
    let send = |arguments: &[&str], object: &Value| {
        let answer = plane.kubectl_with(&[arguments, &["-o", "json", "-f", "-"]].concat(), &object.to_string());
        let agreed = |text: String| serde_json::from_str::<Value>(&text).expect("it is JSON")["metadata"].clone();
        answer.map(|text| agreed(text)["annotations"][AGREED].clone()).map_err(|error| error.to_string())
    };
    let create = ["--kubeconfig", &user, "create", "--dry-run=server"];
    let begun = Instant::now();
    while let Err(error) = send(&create, &composite(&["platform"], None)) {
        assert!(begun.elapsed() < Duration::from_secs(30), "its own namespace needs no consent: {error}");
    }
    assert_eq!(send(&create, &composite(&["a", "platform"], None)), Ok(json!("a")));
    for agreed in [None, Some("b"), Some("a,b")] {
        let refused = send(&create, &composite(&["a", "b"], agreed)).expect_err("it may not delete quotas of b");
        assert!(refused.contains(r#"spec.namespaces[1]: "b": has not agreed"#), "{agreed:?}: {refused}");
    }
    // An administrator may; what was agreed stays so when another changes the quota, and no more is added to it.
    assert_eq!(send(&["create"], &composite(&["a", "b"], None)), Ok(json!("a,b")));
    let replace = ["--kubeconfig", &user, "replace"];
    assert_eq!(send(&replace, &composite(&["b", "a", "platform"], None)), Ok(json!("b,a")));
    let refused = send(&replace, &composite(&["b", "kube-system"], Some("kube-system"))).expect_err("it has no rights");
    assert!(refused.contains("has not agreed"), "{refused}");
}
