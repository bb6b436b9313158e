#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use super::*;
use bytes::Bytes;
use cache::{CacheOptions, Change, Spec};
use http::StatusCode;
use server::forks::Forks as _;
use server::{Body, Error, Peer, Request, Response};
use std::sync::atomic::{AtomicUsize, Ordering};
use store::Store as _;
use tasks::Name;

/// Planes that answer with the name of their fork and how many pods there are, after a task has begun.
#[derive(Default)]
struct Planes {
    assembled: Arc<AtomicUsize>,
    /// Held by a task of each plane.
    held: Arc<()>,
}

struct Plane {
    name: String,
    cache: Cache,
}

impl DynHandler for Plane {
    fn answer(&self, request: Request) -> BoxFuture<'_, Result<Response, Error>> {
        Box::pin(async move {
            let pods = self.cache.resource("pods").unwrap();
            match request.uri().path() {
                "/add" => {
                    let json = r#"{"kind":"Pod","metadata":{"name":"new","namespace":"n"}}"#;
                    self.cache.commit(Change::put(&pods, "n", "new", json)).await.unwrap();
                }
                "/hang" => std::future::pending().await,
                _ => {}
            }
            Ok(Response::new(format!("{} {}", self.name, pods.len()).into()))
        })
    }
}

impl Assemble for Planes {
    fn assemble(&self, parts: Parts) -> BoxFuture<'static, Result<Arc<dyn DynHandler>, String>> {
        self.assembled.fetch_add(1, Ordering::SeqCst);
        let held = self.held.clone();
        Box::pin(async move {
            if parts.controllers == Controllers::None {
                return Err("it is to fail".into());
            }
            tasks::spawn(Name::ForkObjects, move || {
                let held = held.clone();
                async move {
                    let _held = held;
                    std::future::pending().await
                }
            })
            .detach();
            tokio::task::yield_now().await;
            let cache = Cache::over(&parts.snapshot, parts.store, CacheOptions::default());
            let plane: Arc<dyn DynHandler> = Arc::new(Plane { name: parts.name, cache });
            Ok(plane)
        })
    }

    fn check(&self, controllers: &Controllers) -> Result<(), String> {
        match controllers {
            Controllers::Named(names) => Err(format!("there is no controller {}", names.join(" "))),
            _ => Ok(()),
        }
    }
}

struct Fixture {
    parent: Arc<Cache>,
    forks: Arc<Forks>,
    assembled: Arc<AtomicUsize>,
    held: Arc<()>,
}

impl Fixture {
    async fn new(limits: Limits) -> Self {
        let specs = [Spec::namespaced("pods").unwrap()];
        let store = Arc::new(Memory::default());
        let parent = Arc::new(Cache::open(store, specs, CacheOptions::default()).await.unwrap());
        let planes = Planes::default();
        let (assembled, held) = (planes.assembled.clone(), planes.held.clone());
        let forks = Forks::new(Config {
            parent: parent.clone(),
            limits,
            assemble: Arc::new(planes),
            sealed: None,
            administrator: Administrator {
                url: "https://127.0.0.1:1".into(),
                kubeconfig: Box::new(|| Ok("    server: https://127.0.0.1:1\n    token: secret\n".into())),
            },
            authority: Box::new(|| Arc::from("authority")),
        });
        let fixture = Self { parent, forks, assembled, held };
        fixture.pod("a").await;
        fixture
    }

    async fn with_few() -> Self {
        Self::new(Limits { forks: 3, bytes: 100 << 20, retention: Duration::from_secs(300) }).await
    }

    async fn pod(&self, name: &str) {
        let pods = self.parent.resource("pods").unwrap();
        let json = format!(r#"{{"kind":"Pod","metadata":{{"name":"{name}","namespace":"n"}}}}"#);
        self.parent.commit(Change::put(&pods, "n", name, json)).await.unwrap();
    }

    /// The answer to a request about forks.
    async fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let uri = format!("https://h:1/keelson/v1/forks{path}");
        let mut request = request(method, &uri, body);
        shown(self.forks.answer(path, &mut request).await).await
    }

    /// The answer of a fork.
    async fn of(&self, name: &str, path: &str) -> (u16, String) {
        let Some(fork) = self.forks.find(name) else { panic!("there is no fork {name}") };
        shown(fork.answer(request("GET", path, "")).await).await
    }

    async fn until_ended(&self, tasks: usize) {
        for _ in 0..1000 {
            // One each of the fixture and the planes, and two of each task: of its runs, and of the one that
            // runs.
            if Arc::strong_count(&self.held) == 2 + 2 * tasks {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{} hold it", Arc::strong_count(&self.held));
    }
}

fn request(method: &str, uri: &str, body: &str) -> Request {
    let request = http::Request::builder().method(method).uri(uri);
    let request = request.body(Bytes::copy_from_slice(body.as_bytes())).unwrap();
    Request::in_process(request, Arc::new(Peer::plain(([127, 0, 0, 1], 1).into())))
}

async fn shown(outcome: Result<Response, Error>) -> (u16, String) {
    let mut response = match outcome {
        Ok(response) => response,
        Err(Error::Status(status)) => return (status.code, status.message.clone()),
        Err(error) => return (404, error.to_string()),
    };
    let mut text = Vec::new();
    let code = response.status();
    while let Some(frame) = std::future::poll_fn(|context| {
        let body: std::pin::Pin<&mut Body> = std::pin::Pin::new(response.body_mut());
        http_body::Body::poll_frame(body, context)
    })
    .await
    {
        text.extend(frame.unwrap().into_data().unwrap());
    }
    (code.as_u16(), String::from_utf8_lossy(&text).into_owned())
}

#[tokio::test]
async fn fork_has_a_name_an_address_and_a_revision() {
    let fixture = Fixture::with_few().await;
    let (code, made) = fixture.ask("POST", "", r#"{"name":"one"}"#).await;
    assert_eq!(code, 201);
    let head =
        r#"{"name":"one","server":"https://h:1/keelson/v1/forks/one/server","revision":"1","createdAt":""#;
    assert!(made.starts_with(head), "{made}");
    assert_eq!(fixture.ask("GET", "/one", "").await, (200, made.clone()));
    assert_eq!(fixture.ask("GET", "", "").await, (200, format!("{{\"items\":[{}]}}\n", made.trim_end())));
    let (code, generated) = fixture.ask("POST", "", "").await;
    assert!(code == 201 && generated.starts_with(r#"{"name":"fork-"#), "{generated}");
    for (body, wanted) in [
        (r#"{"name":"one"}"#, 409),
        (r#"{"name":"One"}"#, 400),
        (r#"{"name":"x","controllers":["y"]}"#, 400),
        ("[]", 400),
    ] {
        assert_eq!(fixture.ask("POST", "", body).await.0, wanted, "{body}");
    }
    for (method, path, wanted) in [
        ("PUT", "", 405),
        ("POST", "/one", 405),
        ("GET", "/one/reset", 405),
        ("GET", "/two", 404),
        ("DELETE", "/two", 404),
        ("POST", "/two/reset", 404),
        ("GET", "/two/server", 404),
        ("GET", "/one/other", 404),
    ] {
        assert_eq!(fixture.ask(method, path, "").await.0, wanted, "{method} {path}");
    }
    assert_eq!(fixture.ask("DELETE", "/one", "").await, (200, made));
    assert_eq!(fixture.ask("GET", "/one", "").await.0, 404);
}

#[tokio::test]
async fn plane_is_assembled_once_by_the_first_request_and_ends_with_its_life() {
    let fixture = Fixture::with_few().await;
    fixture.ask("POST", "", r#"{"name":"a"}"#).await;
    fixture.ask("POST", "", r#"{"name":"b"}"#).await;
    fixture.pod("later").await;
    assert_eq!(fixture.assembled.load(Ordering::SeqCst), 0);
    let both = tokio::join!(fixture.of("a", "/"), fixture.of("a", "/"));
    assert_eq!(both, ((200, "a 1".into()), (200, "a 1".into())));
    assert_eq!(fixture.assembled.load(Ordering::SeqCst), 1);
    assert_eq!(fixture.of("a", "/add").await.1, "a 2");
    assert_eq!(fixture.of("b", "/").await.1, "b 1");
    fixture.until_ended(2).await;

    let (hanging, reset) = tokio::join!(fixture.of("a", "/hang"), async {
        tokio::task::yield_now().await;
        fixture.ask("POST", "/a/reset", "").await
    });
    assert_eq!((hanging.0, reset.0), (503, 200), "{}", hanging.1);
    fixture.until_ended(1).await;
    assert_eq!(fixture.of("a", "/").await.1, "a 1");
    let (hanging, dropped) = tokio::join!(fixture.of("a", "/hang"), async {
        tokio::task::yield_now().await;
        fixture.ask("DELETE", "/a", "").await
    });
    assert_eq!((hanging.0, dropped.0), (404, 200), "{}", hanging.1);
    fixture.until_ended(1).await;
    fixture.ask("DELETE", "/b", "").await;
    fixture.until_ended(0).await;
    let table = fixture.forks.table().unwrap();
    for _ in 0..1000 {
        if table.budget.used() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{} bytes are still held", table.budget.used());
}

#[tokio::test]
async fn revisions_go_on_after_a_reset() {
    let fixture = Fixture::with_few().await;
    fixture.ask("POST", "", r#"{"name":"a"}"#).await;
    fixture.of("a", "/add").await;
    let table = fixture.forks.table().unwrap();
    let newest = || table.find("a").unwrap().store().known_revision().0;
    assert_eq!(newest(), 2);
    fixture.ask("POST", "/a/reset", "").await;
    assert_eq!(newest(), 3);
    fixture.of("a", "/add").await;
    assert_eq!((newest(), fixture.parent.revision().0), (4, 1));
}

#[tokio::test]
async fn forks_are_bounded_in_number_and_memory() {
    let fixture = Fixture::with_few().await;
    for _ in 0..3 {
        assert_eq!(fixture.ask("POST", "", "").await.0, 201);
    }
    let (code, why) = fixture.ask("POST", "", "").await;
    assert_eq!(
        (code, why.as_str()),
        (429, "there are 3 forks already, as many as --max-forks says: drop some")
    );

    let limits = Limits { forks: 3, bytes: PLANE, retention: Duration::from_secs(300) };
    let fixture = Fixture::new(limits).await;
    fixture.ask("POST", "", r#"{"name":"a"}"#).await;
    assert_eq!(fixture.of("a", "/").await.1, "a 1");
    let (code, why) = fixture.ask("POST", "", "").await;
    assert!(code == 429 && why.contains("--forks-memory"), "{why}");
    fixture.ask("DELETE", "/a", "").await;
}

#[tokio::test]
async fn fork_that_cannot_be_assembled_says_why() {
    let fixture = Fixture::with_few().await;
    fixture.ask("POST", "", r#"{"name":"a","controllers":false}"#).await;
    let (code, why) = fixture.of("a", "/").await;
    assert_eq!((code, why.contains("the fork could not be started: it is to fail")), (500, true), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_holds_the_objects_of_the_fork() {
    let fixture = Fixture::with_few().await;
    fixture.ask("POST", "", r#"{"name":"a"}"#).await;
    fixture.of("a", "/add").await;
    let uri = "https://h:1/keelson/v1/forks/a/backup";
    let answered = fixture.forks.answer("/a/backup", &mut request("GET", uri, "")).await.unwrap();
    assert_eq!(answered.status(), StatusCode::OK);
    let mut body = answered.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) =
        std::future::poll_fn(|context| http_body::Body::poll_frame(std::pin::Pin::new(&mut body), context))
            .await
    {
        bytes.extend(frame.unwrap().into_data().unwrap());
    }
    let keys = |bytes: &[u8]| {
        let mut keys = Vec::new();
        let report = store::backup::read(&mut &*bytes, "x".as_ref(), &mut |entry| {
            keys.push(entry.unwrap().key.to_string());
            Ok(())
        });
        (keys, report.unwrap().revision.0)
    };
    assert_eq!(keys(&bytes), (vec!["pods/n/a".to_owned(), "pods/n/new".to_owned()], 2));
    let mut said = Vec::new();
    storage::control::Answer::answer(&*fixture.forks, "fork-backup a", &mut said).unwrap().unwrap();
    assert_eq!(said, [&b"ok\n"[..], &bytes].concat());
}

#[tokio::test]
async fn commands_are_answered_at_the_control_socket() {
    let fixture = Fixture::with_few().await;
    let ask = |request: &str| {
        let mut said = Vec::new();
        let answer = storage::control::Answer::answer(&*fixture.forks, request, &mut said);
        answer.map(|answer| answer.map(|()| String::from_utf8(said).unwrap()))
    };
    let made = ask(r#"fork {"name":"a"}"#).unwrap().unwrap();
    assert!(
        made.starts_with("ok\n{\"name\":\"a\",\"server\":\"https://127.0.0.1:1/keelson/v1/forks/a/server\""),
        "{made}"
    );
    assert_eq!(ask("forks").unwrap().unwrap(), made);
    let kubeconfig = ask("fork-kubeconfig a").unwrap().unwrap();
    let wanted = "ok\n    server: https://127.0.0.1:1/keelson/v1/forks/a/server\n    token: secret\n";
    assert_eq!(kubeconfig, wanted);
    let (code, over_http) = fixture.ask("GET", "/a/kubeconfig", "").await;
    assert!(
        code == 200
            && over_http.contains("https://h:1/keelson/v1/forks/a/server")
            && !over_http.contains("secret")
    );
    assert_eq!(ask("fork-reset a").unwrap().unwrap(), made);
    assert_eq!(ask("fork-drop a").unwrap().unwrap(), made);
    for gone in ["fork-reset a", "fork-drop a", "fork-kubeconfig a", "fork-backup a"] {
        assert_eq!(ask(gone).unwrap().unwrap_err(), "forks \"a\" not found");
    }
    assert!(ask("fork {").unwrap().is_err() && ask("other").is_none());
}
