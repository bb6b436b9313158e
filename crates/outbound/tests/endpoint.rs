//! Webhooks behind real connections: TLS, credentials, bounds, and servers that do what servers should not.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::Uri;
use object::Value;
use outbound::{Backoff, Bounds, Client, Error, Kubeconfig, Tls, Trust, Webhook};
use schema::view::View as _;
use schema::views::authorization::v1::SubjectAccessReview;
use schema::{Limits, json};
use testkit::https::{Authority, HttpsServer, Reply, Request};

const ALLOWED: &str =
    r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}"#;
const FAST: Backoff = Backoff { initial: Duration::from_millis(1), factor: 1.5, jitter: 0.2, attempts: 5 };

struct Setup {
    authority: Authority,
    server: HttpsServer,
    folder: tempfile::TempDir,
}

fn setup(answers: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Setup {
    let authority = Authority::new().unwrap();
    let serving = authority.issue(&["127.0.0.1", "localhost"]).unwrap();
    let server = HttpsServer::start(&serving, Some(&authority), answers).unwrap();
    Setup { authority, server, folder: tempfile::tempdir().unwrap() }
}

impl Setup {
    fn webhook(&self, user: &str) -> Webhook {
        self.webhook_within(user, Duration::from_secs(20))
    }

    fn webhook_within(&self, user: &str, timeout: Duration) -> Webhook {
        let path = self.folder.path().join("config");
        self.server.kubeconfig(&path, "/authorize/?old=1", &self.authority, user).unwrap();
        Webhook::new(Kubeconfig::read(&path).unwrap().endpoint().unwrap(), FAST, timeout)
    }

    fn tls(&self) -> Tls {
        Tls { trust: Trust::from_pem(self.authority.certificate.as_bytes()).unwrap(), ..Tls::default() }
    }
}

async fn review(webhook: &Webhook) -> Result<Value, Error> {
    let review =
        r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"user":"jane"}}"#;
    let ty = SubjectAccessReview::schema();
    let value = json::decode(ty, review.as_bytes(), &Limits::REQUEST).unwrap().value;
    webhook.review(ty, &value, None).await
}

fn script(folder: &Path, text: &str) {
    let path = folder.join("plugin.sh");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn review_is_posted_to_the_address_and_comes_back() {
    let setup = setup(|_| Reply::ok(ALLOWED));
    let webhook = setup.webhook("{token: hush}");
    let answer = review(&webhook).await.unwrap();
    let answer = SubjectAccessReview::of(answer.as_map().unwrap());
    assert!(answer.status().allowed());
    review(&webhook).await.unwrap();
    let requests = setup.server.requests();
    let first = requests.first().unwrap();
    assert_eq!((first.method.as_str(), first.path.as_str()), ("POST", "/authorize?timeout=20s"));
    assert_eq!(first.header("authorization"), "Bearer hush");
    assert_eq!(first.header("content-type"), "application/json");
    assert!(first.body.contains(r#""spec":{"user":"jane"}"#), "{}", first.body);
    let connections: Vec<_> = requests.iter().map(|request| request.connection).collect();
    assert_eq!(connections, [0, 0]);
    assert!(!format!("{webhook:?}").contains("hush"));
}

#[tokio::test]
async fn password_and_client_certificate_are_sent() {
    let setup = setup(|_| Reply::ok(ALLOWED));
    let pair = setup.authority.issue(&["server"]).unwrap();
    std::fs::write(setup.folder.path().join("me.crt"), &pair.certificate).unwrap();
    std::fs::write(setup.folder.path().join("me.key"), &pair.key).unwrap();
    let webhook = setup.webhook("{username: a, password: b, client-certificate: me.crt, client-key: me.key}");
    review(&webhook).await.unwrap();
    let requests = setup.server.requests();
    let first = requests.first().unwrap();
    assert_eq!(first.header("authorization"), "Basic YTpi");
    assert!(first.certificate.is_some());
}

#[tokio::test]
async fn answers_that_are_no_reviews_are_errors() {
    let cases: &[(Reply, &str)] = &[
        (Reply::ok(""), "0-length response with status code: 200 and content type: application/json"),
        (Reply::ok("<html>"), "couldn't get version/kind; json parse error: invalid character '<'"),
        (Reply::ok("[]"), "the answer is not a SubjectAccessReview: json: cannot unmarshal array"),
        (
            Reply::ok(
                r#"{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"allowed":true}}"#,
            ),
            r#"the answer is a "TokenReview" in version "authentication.k8s.io/v1", not a "SubjectAccessReview" in version "authorization.k8s.io/v1""#,
        ),
        (
            Reply::ok(
                r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1beta1","status":{"allowed":true}}"#,
            ),
            r#"the answer is a "SubjectAccessReview" in version "authorization.k8s.io/v1beta1""#,
        ),
        (Reply::ok(r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no way"}"#), "no way"),
        (Reply::ok(r#"{"status":{"allowed":"yes"}}"#), "cannot unmarshal string"),
        (Reply::Json(401, "x".into()), "the server has asked for the client to provide credentials"),
        (Reply::Json(404, "x".into()), "the server could not find the requested resource"),
        (
            Reply::Json(418, "x".into()),
            "the server responded with the status code 418 but did not return more information",
        ),
        (Reply::Json(403, r#"{"kind":"Status","status":"Failure","message":"not you"}"#.into()), "not you"),
        (
            Reply::Raw(
                b"HTTP/1.1 302 Found\r\nLocation: https://example.com/\r\nContent-Length: 0\r\n\r\n".to_vec(),
            ),
            "redirects are not followed (status 302)",
        ),
        (Reply::Raw(b"SSH-2.0-OpenSSH\r\n\r\n".to_vec()), "malformed HTTP response: invalid HTTP"),
        (Reply::Endless, "the answer is longer than 3145728 bytes"),
    ];
    for (reply, wanted) in cases {
        let reply = reply.clone();
        let setup = setup(move |_| reply.clone());
        let error = review(&setup.webhook("{token: hush}")).await.unwrap_err().to_string();
        assert!(error.contains(wanted) && !error.contains("hush"), "{wanted}: {error}");
    }
}

#[tokio::test]
async fn answer_that_repeats_the_credentials_comes_back_without_them() {
    let setup = setup(|request| {
        let sent = request.header("authorization");
        if sent == "Bearer authorization" {
            return Reply::ok(ALLOWED.replace("true", &format!(r#"false,"reason":"no {sent}""#)));
        }
        Reply::Json(403, format!(r#"{{"kind":"Status","status":"Failure","message":"{sent} is unknown"}}"#))
    });
    let error = review(&setup.webhook("{token: hush-hush}")).await.unwrap_err();
    assert_eq!(error.to_string(), "Bearer [withheld] is unknown");
    let error = review(&setup.webhook("{username: jane, password: hush}")).await.unwrap_err();
    assert_eq!(error.to_string(), "Basic [withheld] is unknown");
    // Only in texts for people: the group of the review has the same word.
    let answer = review(&setup.webhook("{token: authorization}")).await.unwrap();
    let reason = answer.get("status").and_then(|status| status.get("reason")?.as_str());
    assert_eq!(reason, Some("no Bearer [withheld]"));
}

#[tokio::test]
async fn transient_errors_are_retried() {
    for bad in [Reply::Json(500, "oops".into()), Reply::Json(429, String::new()), Reply::Close] {
        let count = Arc::new(AtomicUsize::new(0));
        let setup = setup({
            let count = count.clone();
            move |_| if count.fetch_add(1, Ordering::SeqCst) < 2 { bad.clone() } else { Reply::ok(ALLOWED) }
        });
        review(&setup.webhook("{}")).await.unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 3);
    }
    let setup = setup(|_| Reply::Json(500, "oops".into()));
    let error = review(&setup.webhook("{}")).await.unwrap_err().to_string();
    assert_eq!(error, "an error on the server (\"oops\") has prevented the request from succeeding");
    assert_eq!(setup.server.requests().len(), 5);
}

#[tokio::test]
async fn hanging_server_costs_the_time_of_the_request_only() {
    let setup = setup(|request| match request.header("authorization") {
        "Bearer slow" => Reply::Silence(Duration::from_secs(60)),
        _ => Reply::ok(ALLOWED),
    });
    let slow = setup.webhook_within("{token: slow}", Duration::from_millis(300));
    let quick = setup.webhook("{token: quick}");
    let begin = Instant::now();
    let (hung, answered) = tokio::join!(review(&slow), review(&quick));
    answered.unwrap();
    let error = hung.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(
        error.to_string().ends_with(r#"/authorize?timeout=300ms": context deadline exceeded"#),
        "{error}"
    );
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn server_that_accepts_and_says_nothing_costs_the_time_of_the_request() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url: Uri = format!("https://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let client = Client::new(&Tls { trust: Trust::Anyone, ..Tls::default() }).unwrap();
    let bounds = Bounds::within(Duration::from_millis(200), 100);
    let error = client.get(&url, "*/*", bounds).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    drop(listener);
    let error = client.get(&url, "*/*", Bounds::within(Duration::from_secs(20), 100)).await.unwrap_err();
    assert!(matches!(&error, Error::Connect { .. }) && !error.is_transient(), "{error}");
    assert!(error.to_string().contains("connect: connection refused"), "{error}");
}

#[tokio::test]
async fn only_trusted_servers_are_asked() {
    let setup = setup(|_| Reply::ok("{}"));
    let url: Uri = format!("{}/", setup.server.url()).parse().unwrap();
    let bounds = || Bounds::within(Duration::from_secs(20), 100);
    let get = async |tls: Tls| Client::new(&tls).unwrap().get(&url, "*/*", bounds()).await;
    assert_eq!(get(setup.tls()).await.unwrap().body, "{}");
    assert_eq!(get(Tls { trust: Trust::Anyone, ..Tls::default() }).await.unwrap().status, 200);
    let localhost = Tls { server_name: Some("localhost".into()), ..setup.tls() };
    assert_eq!(get(localhost).await.unwrap().status, 200);
    let other_name = Tls { server_name: Some("example.com".into()), ..setup.tls() };
    let error = get(other_name).await.unwrap_err().to_string();
    assert!(error.contains("x509: certificate is ") && error.ends_with("example.com"), "{error}");
    let stranger = Trust::from_pem(Authority::new().unwrap().certificate.as_bytes()).unwrap();
    let error = get(Tls { trust: stranger, ..Tls::default() }).await.unwrap_err().to_string();
    assert!(error.contains("x509: certificate signed by unknown authority"), "{error}");
    assert_eq!(setup.server.requests().len(), 3);
}

#[tokio::test]
async fn certificate_that_is_its_own_authority_is_trusted_when_it_is_given() {
    let key = rcgen::KeyPair::generate().unwrap();
    let make = |not_after: (i32, u8, u8)| {
        let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.not_after = rcgen::date_time_ymd(not_after.0, not_after.1, not_after.2);
        params.self_signed(&key).unwrap().pem()
    };
    for (not_after, wanted) in [((2100, 1, 1), None), ((2020, 1, 1), Some("expired"))] {
        let certificate = make(not_after);
        let pair = testkit::https::Pair { certificate: certificate.clone(), key: key.serialize_pem() };
        let server = HttpsServer::start(&pair, None, |_| Reply::ok("{}")).unwrap();
        let url: Uri = format!("{}/", server.url()).parse().unwrap();
        let tls = Tls { trust: Trust::from_pem(certificate.as_bytes()).unwrap(), ..Tls::default() };
        let get = async |tls: Tls| {
            let bounds = Bounds::within(Duration::from_secs(20), 100);
            Client::new(&tls).unwrap().get(&url, "*/*", bounds).await
        };
        let outcome = get(tls.clone()).await;
        match wanted {
            None => assert_eq!(outcome.unwrap().status, 200),
            Some(wanted) => {
                let error = outcome.unwrap_err().to_string();
                assert!(error.contains(wanted), "{error}");
            }
        }
        assert!(get(Tls { server_name: Some("example.com".into()), ..tls }).await.is_err());
    }
}

#[tokio::test]
async fn certificate_that_is_given_is_trusted_whatever_signed_it() {
    let pair = Authority::new().unwrap().issue(&["127.0.0.1"]).unwrap();
    let server = HttpsServer::start(&pair, None, |_| Reply::ok("{}")).unwrap();
    let url: Uri = format!("{}/", server.url()).parse().unwrap();
    let tls = Tls { trust: Trust::from_pem(pair.certificate.as_bytes()).unwrap(), ..Tls::default() };
    let get = async |tls: Tls| {
        let bounds = Bounds::within(Duration::from_secs(20), 100);
        Client::new(&tls).unwrap().get(&url, "*/*", bounds).await
    };
    assert_eq!(get(tls.clone()).await.unwrap().status, 200);
    let error = get(Tls { server_name: Some("example.com".into()), ..tls }).await.unwrap_err().to_string();
    assert!(error.contains("x509: certificate is ") && error.ends_with("example.com"), "{error}");
    let other = Authority::new().unwrap().issue(&["127.0.0.1"]).unwrap();
    let trust = Trust::from_pem(other.certificate.as_bytes()).unwrap();
    let error = get(Tls { trust, ..Tls::default() }).await.unwrap_err().to_string();
    assert!(error.contains("x509: certificate signed by unknown authority"), "{error}");
}

#[tokio::test]
async fn plugin_is_run_again_after_a_401_and_for_a_new_certificate() {
    let setup = setup(|request| match request.header("authorization") {
        "Bearer one" => Reply::Json(401, String::new()),
        _ => Reply::ok(ALLOWED),
    });
    let folder = setup.folder.path();
    let status = |status: &str| {
        format!(
            "echo '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{status}}}'"
        )
    };
    script(folder, &status(r#"{"token":"one"}"#));
    let user =
        "{exec: {command: ./plugin.sh, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}}";
    let webhook = setup.webhook(user);
    let error = review(&webhook).await.unwrap_err();
    assert!(matches!(error, Error::Status { code: 401, .. }), "{error}");
    script(folder, &status(r#"{"token":"two"}"#));
    review(&webhook).await.unwrap();
    let pair = setup.authority.issue(&["server"]).unwrap();
    let (certificate, key) = (pair.certificate.replace('\n', "\\n"), pair.key.replace('\n', "\\n"));
    let issued = format!(
        r#"{{"clientCertificateData":"{certificate}","clientKeyData":"{key}","expirationTimestamp":"2001-01-01T00:00:00Z"}}"#
    );
    // `echo` of some shells reads the escapes, `cat` does not.
    std::fs::write(
        folder.join("issued"),
        format!(
            r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{issued}}}"#
        ),
    )
    .unwrap();
    script(folder, &format!("cat '{}'", folder.join("issued").display()));
    let webhook = setup.webhook(user);
    review(&webhook).await.unwrap();
    // The credentials have expired, but the certificate is the same, and so is the connection.
    review(&webhook).await.unwrap();
    let other = setup.authority.issue(&["server"]).unwrap();
    let text = std::fs::read_to_string(folder.join("issued")).unwrap();
    let text = text
        .replace(&certificate, &other.certificate.replace('\n', "\\n"))
        .replace(&key, &other.key.replace('\n', "\\n"));
    std::fs::write(folder.join("issued"), text).unwrap();
    review(&webhook).await.unwrap();
    let requests = setup.server.requests();
    let seen: Vec<_> = requests.iter().map(|request| request.header("authorization")).collect();
    assert_eq!(seen, ["Bearer one", "Bearer two", "", "", ""]);
    let [.., first, second, third] = requests.as_slice() else { panic!("{requests:?}") };
    assert!(first.certificate.is_some() && first.certificate == second.certificate);
    assert_eq!(first.connection, second.connection);
    assert_ne!(second.certificate, third.certificate);
    assert_ne!(second.connection, third.connection);
}

#[tokio::test]
async fn plugin_that_is_too_slow_fails_the_request_in_its_time() {
    let setup = setup(|_| Reply::ok(ALLOWED));
    script(setup.folder.path(), "sleep 5");
    let user =
        "{exec: {command: ./plugin.sh, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}}";
    let error = review(&setup.webhook_within(user, Duration::from_millis(200))).await.unwrap_err();
    assert_eq!(error.to_string(), "getting credentials: there were none before the deadline of the request");
    assert!(setup.server.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_share_a_connection_with_http2() {
    let authority = Authority::new().unwrap();
    let serving = authority.issue(&["127.0.0.1"]).unwrap();
    let (url, connections) = http2_server(&serving).await;
    let tls = Tls { trust: Trust::from_pem(authority.certificate.as_bytes()).unwrap(), ..Tls::default() };
    let client = Client::new(&tls).unwrap();
    let bounds = || Bounds::within(Duration::from_secs(20), 100);
    assert_eq!(client.get(&url, "*/*", bounds()).await.unwrap().body, "HTTP/2.0");
    let (one, other) = tokio::join!(client.get(&url, "*/*", bounds()), client.get(&url, "*/*", bounds()));
    assert_eq!((one.unwrap().body, other.unwrap().body), ("HTTP/2.0".into(), "HTTP/2.0".into()));
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

/// A server that says the version of HTTP of each request.
async fn http2_server(serving: &testkit::https::Pair) -> (Uri, Arc<AtomicUsize>) {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let chain = CertificateDer::pem_slice_iter(serving.certificate.as_bytes()).flatten().collect();
    let key = PrivateKeyDer::from_pem_slice(serving.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let stream = acceptor.accept(socket).await.unwrap();
                let service =
                    hyper::service::service_fn(|request: http::Request<hyper::body::Incoming>| async move {
                        let body =
                            http_body_util::Full::new(bytes::Bytes::from(format!("{:?}", request.version())));
                        Ok::<_, std::convert::Infallible>(http::Response::new(body))
                    });
                let io = hyper_util::rt::TokioIo::new(stream);
                let _ = hyper::server::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new())
                    .serve_connection(io, service)
                    .await;
            });
        }
    });
    (url, connections)
}

#[tokio::test]
async fn plain_http_is_spoken_without_credentials_where_the_address_says_so() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let config = format!(
        "clusters: [{{name: c, cluster: {{server: 'http://{}/x'}}}}]\nusers: [{{name: u, user: {{token: hush}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n",
        listener.local_addr().unwrap()
    );
    std::fs::write(&path, config).unwrap();
    let served = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut head = [0; 4096];
        let length = socket.read(&mut head).unwrap();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{ALLOWED}", ALLOWED.len());
        socket.write_all(answer.as_bytes()).unwrap();
        String::from_utf8_lossy(&head[..length]).into_owned()
    });
    let endpoint = Kubeconfig::read(&path).unwrap().endpoint().unwrap();
    review(&Webhook::new(endpoint, FAST, Duration::from_secs(20))).await.unwrap();
    let request = served.join().unwrap();
    assert!(
        request.starts_with("POST /x?timeout=20s HTTP/1.1\r\n") && !request.contains("hush"),
        "{request}"
    );
}
