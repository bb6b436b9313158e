//! What only a store on etcd has: other processes that write, lifetimes, a full database, members that go and
//! come back, TLS.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use store::{
    Change, ChangeKind, Error, Follow, Health, Key, Revision, Store,
    contract::{load, next, put},
    etcd::{Etcd, EtcdOptions, Tls},
};
use tasks::{
    Name,
    faults::{Fault, inject},
};
use testkit::{Proxy, ProxyMode, Signal};
use tokio::net::{TcpListener, TcpStream};

const FLAGS: &[&str] = &["--heartbeat-interval=50", "--election-timeout=500", "--unsafe-no-fsync"];

fn start(members: usize, flags: &[&str]) -> testkit::Etcd {
    testkit::Etcd::start("etcd", members, &[FLAGS, flags].concat()).unwrap()
}

fn options(etcd: &testkit::Etcd) -> EtcdOptions {
    EtcdOptions { endpoints: etcd.endpoints(), ..EtcdOptions::default() }
}

fn connect(options: EtcdOptions) -> Arc<dyn Store> {
    Arc::new(Etcd::connect(options).unwrap())
}

fn key(text: &str) -> Key {
    Key::try_from(text).unwrap()
}

/// Waits until something holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(30), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_comes_to_revisions_of_keys_that_are_not_the_stores() {
    let etcd = start(1, &[]);
    let store = connect(options(&etcd));
    let other = connect(EtcdOptions { prefix: "/other/".into(), ..options(&etcd) });
    let mut follower = store.follow(Follow::after(store.known_revision())).unwrap();
    let written = put(&other, "/other/a", "v").await;
    let newest = store.newest_revision().await.unwrap();
    assert!(newest >= written);
    let batch = next(&mut follower).await.unwrap();
    assert_eq!((batch.events.len(), batch.revision), (0, newest));
    assert_eq!(load(&store, "", None).unwrap().entries, []);
    assert_eq!(load(&store, "/other/", None).unwrap().entries, []);
    assert_eq!(load(&other, "", None).unwrap().texts(), ["/other/a=v"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_of_one_process_reach_another() {
    let etcd = start(1, &[]);
    let (one, another) = (connect(options(&etcd)), connect(options(&etcd)));
    assert!(one.is_shared() && one.expires());
    let mut follower = another.follow(Follow::after(another.known_revision())).unwrap();
    let revision = put(&one, "/registry/a", "v").await;
    assert_eq!(next(&mut follower).await.unwrap().revision, revision);
    assert_eq!(another.get(&key("/registry/a")).unwrap().unwrap().value, "v");
    let stale = Change::put(key("/registry/a"), "w").create_only();
    assert!(matches!(another.commit(stale).await, Err(Error::Conflict(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_during_a_panic_of_the_watch_reaches_followers() {
    let etcd = start(1, &[]);
    let store = connect(options(&etcd));
    let mut follower = store.follow(Follow::after(store.known_revision())).unwrap();
    let names = [Name::EtcdWatch, Name::EtcdCompact, Name::EtcdHealth];
    // A pause of no time is a fault that changes nothing, and says who runs.
    let all_run = || names.iter().all(|name| inject(*name, Fault::Pause(Duration::ZERO)) == 1);
    until("all of them run", all_run).await;
    for name in names {
        assert_eq!(inject(name, Fault::Panic), 1);
    }
    let revision = put(&store, "/registry/a", "v").await;
    let batch = next(&mut follower).await.unwrap();
    assert_eq!((batch.events.len(), batch.revision), (1, revision));
    until("all of them run again", all_run).await;
    until("the store is healthy", || matches!(store.health(), Health::Good)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_with_a_lifetime_share_leases_and_expire() {
    let etcd = start(1, &[]);
    let store = connect(options(&etcd));
    for number in 0..20 {
        let change = Change::put(key(&format!("/registry/events/{number}")), "v");
        store.commit(change.expire_after(Duration::from_secs(3600))).await.unwrap();
    }
    let leases = etcd.ask(0, "POST", "/v3/lease/leases", "{}").unwrap();
    assert_eq!(leases.matches("\"ID\"").count(), 1, "{leases}");
    let written = Instant::now();
    let short = Change::put(key("/registry/events/short"), "v").expire_after(Duration::from_secs(1));
    let revision = store.commit(short).await.unwrap().revision;
    let mut follower = store.follow(Follow::after(revision)).unwrap();
    let batch = next(&mut follower).await.unwrap();
    assert!(written.elapsed() >= Duration::from_secs(1));
    let deleted: Vec<_> = batch.events.iter().map(|event| (event.kind, event.key.to_string())).collect();
    assert_eq!(deleted, [(ChangeKind::Delete, "/registry/events/short".to_owned())]);
    assert_eq!(load(&store, "", None).unwrap().entries.len(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_servers_compact_once_in_an_interval() {
    let etcd = start(1, &[]);
    let interval = Duration::from_millis(700);
    let settings = || EtcdOptions { compaction_interval: interval, ..options(&etcd) };
    let stores = [connect(settings()), connect(settings()), connect(settings())];
    let never = connect(EtcdOptions { compaction_interval: Duration::ZERO, ..options(&etcd) });
    let begin = Instant::now();
    let first = put(&stores[0], "/registry/a", "1").await;
    put(&stores[0], "/registry/a", "2").await;
    for store in &stores {
        until("a compaction is due", || store.compacted() > first).await;
    }
    until("also a store that does not compact learns of it", || never.compacted() > first).await;
    assert!(begin.elapsed() >= interval);
    let intervals = begin.elapsed().as_millis() / interval.as_millis();
    let note = etcd.ask(0, "POST", "/v3/kv/range", r#"{"key":"Y29tcGFjdF9yZXZfa2V5"}"#).unwrap();
    let version =
        note.split("\"version\":\"").nth(1).and_then(|rest| rest.split('"').next()?.parse::<u128>().ok());
    let version = version.unwrap();
    assert!((2..=intervals + 1).contains(&version), "{version} compactions in {intervals} intervals");
    assert!(matches!(load(&stores[1], "", Some(first)), Err(Error::Compacted { .. })));
    assert_eq!(load(&stores[1], "", None).unwrap().texts(), ["/registry/a=2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_database_fails_writes_and_not_reads_until_there_is_room() {
    let etcd = start(1, &["--quota-backend-bytes=4194304"]);
    let store = connect(options(&etcd));
    let fill = || Change::put(key("/registry/a"), vec![7; 500_000]);
    let mut error = None;
    for _ in 0..40 {
        error = store.commit(fill()).await.err();
        if error.is_some() {
            break;
        }
    }
    assert!(matches!(error, Some(Error::Full { .. })), "{error:?}");
    until("the health says so", || matches!(store.health(), Health::Failing(Error::Full { .. }))).await;
    assert!(matches!(store.commit(fill()).await, Err(Error::Full { .. })));
    let newest = store.newest_revision().await.unwrap();
    assert_eq!(store.get(&key("/registry/a")).unwrap().unwrap().value.len(), 500_000);
    store.compact(newest).await.unwrap();
    etcd.ask(0, "POST", "/v3/maintenance/defragment", "{}").unwrap();
    let status = etcd.ask(0, "POST", "/v3/maintenance/alarm", r#"{"action":"GET"}"#).unwrap();
    let member = status.split("\"memberID\":\"").nth(1).unwrap().split('"').next().unwrap();
    let disarm = format!(r#"{{"action":"DEACTIVATE","alarm":"NOSPACE","memberID":"{member}"}}"#);
    etcd.ask(0, "POST", "/v3/maintenance/alarm", &disarm).unwrap();
    until("the store recovers by itself", || store.health().is_good()).await;
    store.commit(fill()).await.unwrap();
}

/// etcd forgets a delete at the very revision that it is compacted to, and a watch from that revision does
/// not learn of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_that_is_compacted_before_it_is_sent_is_not_passed_over() {
    for further_writes in [0, 3] {
        let etcd = start(1, &[]);
        let proxy = Proxy::start(etcd.endpoints()[0].trim_start_matches("http://")).unwrap();
        let other = connect(options(&etcd));
        let store =
            connect(EtcdOptions { endpoints: vec![format!("http://{}", proxy.address())], ..options(&etcd) });
        let written = put(&other, "/registry/a", "v").await;
        until("the store follows", || store.known_revision() >= written).await;
        let mut follower = store.follow(Follow::after(written)).unwrap();
        proxy.set(ProxyMode::Hold);
        let deleted = other.commit(Change::delete(key("/registry/a"))).await.unwrap().revision;
        other.compact(deleted).await.unwrap();
        for number in 0..further_writes {
            put(&other, "/registry/b", &number.to_string()).await;
        }
        proxy.cut();
        proxy.set(ProxyMode::Pass);
        match next(&mut follower).await {
            Ok(batch) => assert_eq!(batch.events[0].kind, ChangeKind::Delete, "{batch:?}"),
            Err(error) => assert!(matches!(error, Error::Compacted { .. }), "{error}"),
        }
        let newest = store.newest_revision().await.unwrap();
        until("the store goes on", || store.known_revision() >= newest).await;
        let mut follower = store.follow(Follow::after(newest)).unwrap();
        let written = put(&store, "/registry/a", "w").await;
        assert_eq!(next(&mut follower).await.unwrap().revision, written);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_end_when_etcd_has_lost_revisions() {
    let mut etcd = start(1, &[]);
    let store = connect(options(&etcd));
    for number in 0..20 {
        put(&store, "/registry/a", &number.to_string()).await;
    }
    let mut follower = store.follow(Follow::after(store.known_revision())).unwrap();
    let changed = store.changed(store.known_revision());
    etcd.wipe(0).unwrap();
    assert!(matches!(store.commit(Change::put(key("/registry/a"), "v")).await, Err(Error::Io { .. })));
    etcd.launch(0).unwrap();
    etcd.wait_until_ready().unwrap();
    assert!(matches!(next(&mut follower).await, Err(Error::Compacted { .. })));
    tokio::time::timeout(Duration::from_secs(5), changed).await.unwrap().unwrap();
    assert_eq!(load(&store, "", None).unwrap().entries, []);
    assert!(store.known_revision() < Revision(20));
    let mut follower = store.follow(Follow::after(store.known_revision())).unwrap();
    let revision = put(&store, "/registry/b", "v").await;
    assert_eq!(next(&mut follower).await.unwrap().revision, revision);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_stops_or_dies_is_left_for_another() {
    let mut etcd = start(3, &[]);
    let store = connect(options(&etcd));
    put(&store, "/registry/a", "v").await;
    // The store talks to the first one.
    etcd.signal(0, Signal::SIGSTOP).unwrap();
    let begin = Instant::now();
    while store.commit(Change::put(key("/registry/a"), "w")).await.is_err() {
        assert!(begin.elapsed() < Duration::from_secs(30), "a stopped member is left");
    }
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    etcd.signal(0, Signal::SIGCONT).unwrap();
    etcd.kill(1).unwrap();
    let begin = Instant::now();
    while store.commit(Change::put(key("/registry/a"), "w")).await.is_err() {
        assert!(begin.elapsed() < Duration::from_secs(15), "a dead member is left");
    }
    assert!(store.get(&key("/registry/a")).unwrap().is_some());
    // Without a quorum everything fails, in time, and recovers.
    etcd.kill(2).unwrap();
    until("the health says so", || !store.health().is_good()).await;
    let begin = Instant::now();
    assert!(store.newest_revision().await.is_err());
    assert!(store.commit(Change::put(key("/registry/a"), "x")).await.is_err());
    assert!(begin.elapsed() < Duration::from_secs(25), "{:?}", begin.elapsed());
    etcd.launch(1).unwrap();
    until("the store recovers by itself", || store.health().is_good()).await;
    put(&store, "/registry/a", "y").await;
}

#[tokio::test]
async fn an_etcd_that_is_not_there_is_an_error() {
    let settings = |endpoints: &[&str]| EtcdOptions {
        endpoints: endpoints.iter().map(|endpoint| (*endpoint).to_owned()).collect(),
        dial_timeout: Duration::from_millis(300),
        ..EtcdOptions::default()
    };
    for endpoints in [&[][..], &["ftp://127.0.0.1"], &["http://127.0.0.1:1"], &["unix:///nowhere"]] {
        assert!(matches!(Etcd::connect(settings(endpoints)), Err(Error::Io { .. })), "{endpoints:?}");
    }
}

/// A name for files, a certificate and its key.
struct Signed {
    cert: String,
    key: String,
}

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: rustls::pki_types::CertificateDer<'static>,
}

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pair = KeyPair::generate().unwrap();
    let cert = params.self_signed(&pair).unwrap();
    Authority { pem: cert.pem(), der: cert.der().clone(), issuer: Issuer::new(params, pair) }
}

impl Authority {
    fn sign(&self, purpose: ExtendedKeyUsagePurpose) -> (Signed, rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
        params.extended_key_usages = vec![purpose];
        let pair = KeyPair::generate().unwrap();
        let cert = params.signed_by(&pair, &self.issuer).unwrap();
        (Signed { cert: cert.pem(), key: pair.serialize_pem() }, cert, pair)
    }
}

/// A way to a member that speaks TLS and asks for a certificate.
async fn tls_proxy(authority: &Authority, target: String) -> u16 {
    let (_, cert, pair) = authority.sign(ExtendedKeyUsagePurpose::ServerAuth);
    let mut roots = RootCertStore::empty();
    roots.add(authority.der.clone()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
    let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![cert.der().clone()], secret)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (acceptor, target) = (acceptor.clone(), target.clone());
            tokio::spawn(async move {
                let Ok(mut client) = acceptor.accept(client).await else { return };
                let mut server = TcpStream::connect(target).await.unwrap();
                drop(tokio::io::copy_bidirectional(&mut client, &mut server).await);
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_asks_for_the_authority_and_shows_the_client_certificate() {
    let etcd = start(1, &[]);
    let target = etcd.endpoints().remove(0).trim_start_matches("http://").to_owned();
    let (authority, stranger) = (authority(), authority());
    let port = tls_proxy(&authority, target).await;
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (client, ..) = authority.sign(ExtendedKeyUsagePurpose::ClientAuth);
    let tls = Tls {
        ca: Some(write("ca.crt", &authority.pem)),
        cert: Some(write("client.crt", &client.cert)),
        key: Some(write("client.key", &client.key)),
    };
    let settings = |tls: Tls| EtcdOptions {
        endpoints: vec![format!("https://127.0.0.1:{port}")],
        dial_timeout: Duration::from_secs(2),
        tls,
        ..EtcdOptions::default()
    };
    let store = connect(settings(tls.clone()));
    put(&store, "/registry/a", "v").await;
    assert_eq!(store.get(&key("/registry/a")).unwrap().unwrap().value, "v");
    let refused = [
        Tls { cert: None, key: None, ..tls.clone() },
        Tls { key: None, ..tls.clone() },
        Tls { ca: Some(write("other.crt", &stranger.pem)), ..tls.clone() },
        Tls { ca: Some(Path::new("/nowhere").into()), ..tls },
    ];
    for tls in refused {
        let failed = tokio::task::spawn_blocking({
            let settings = settings(tls);
            move || Etcd::connect(settings).map(drop)
        });
        assert!(matches!(failed.await.unwrap(), Err(Error::Io { .. })));
    }
}
