use bytes::Bytes;

use super::keeper::{next_share, resident};
use super::*;
use crate::api::testing::{Fixture, caller};
use crate::{Error, Handler, Layer, Peer, Request, Response};

#[test]
fn budgets_go_down_in_steps_under_pressure_and_come_back_below_it() {
    let mut share = 1.0;
    let mut steps = Vec::new();
    while share > 0.0 {
        share = next_share(share, SHRINK_FROM);
        steps.push(share);
    }
    assert_eq!(steps, [0.75, 0.5, 0.25, 0.0]);
    assert_eq!(next_share(0.0, 2.0), 0.0);
    assert_eq!(next_share(0.5, (SHRINK_FROM + RESTORE_BELOW) / 2.0), 0.5, "in between it stays");
    let up = next_share(0.5, RESTORE_BELOW - 0.01);
    assert!(up > 0.5 && up < 0.75);
    assert_eq!(next_share(1.0, 0.0), 1.0);
}

#[test]
fn the_system_says_what_is_resident() {
    let before = resident().unwrap();
    let bytes = vec![1u8; 64 << 20];
    let after = resident().unwrap();
    assert!(after >= before + (48 << 20), "{before} to {after} with {} more", bytes.len());
}

#[test]
fn every_part_is_accounted_for() {
    let ceiling = Ceiling::new(0);
    assert_eq!(ceiling.accounts(), Accounts::default());
    let limits = crate::Limits::default();
    let unsent = Arc::new(Unsent::new(&limits));
    ceiling.count_unsent(&unsent);
    assert_eq!(ceiling.accounts().parts().len(), 7);
    assert_eq!(ceiling.share(), 1.0);
}

/// Answers every request, with an empty body that is sent when the response is dropped.
struct Answers;

impl Handler for Answers {
    async fn handle(&self, _: Request) -> Result<Response, Error> {
        Ok(Response::default())
    }
}

/// The layer of a server with more than a megabyte of config maps in the namespace `n`.
async fn layer(ceiling: &Arc<Ceiling>) -> Option<MemoryLayer> {
    let fixture = Fixture::new().await;
    for at in 0..60 {
        fixture.config_map(&format!("m{at}"), &"x".repeat(20_000)).await;
    }
    Some(MemoryLayer::new(Arc::clone(ceiling), Arc::new(fixture.registry), Duration::from_secs(60)))
}

async fn ask(layer: &Option<MemoryLayer>, method: &str, path: &str, body: usize) -> Result<Response, Error> {
    let request = http::Request::builder().method(method).uri(path);
    let request = request.body(Bytes::from(vec![b' '; body])).unwrap();
    let peer = Arc::new(Peer::plain(([127, 0, 0, 1], 1).into()));
    let mut request = Request::in_process(request, peer);
    request.head.extensions.insert(caller().await);
    layer.around(request, &Answers).await
}

const MAPS: &str = "/api/v1/namespaces/n/configmaps";
const LIMIT: u64 = 100 << 20;

#[tokio::test(start_paused = true)]
async fn cheap_requests_pass_at_the_limit() {
    let ceiling = Ceiling::new(LIMIT);
    let layer = layer(&ceiling).await;
    ceiling.room.set_resident(2 * LIMIT);
    let begin = tokio::time::Instant::now();
    for (method, path, body) in [
        ("GET", "/api/v1/namespaces/n/configmaps/m1", 0),
        ("GET", "/api/v1/namespaces/n/configmaps?limit=20", 0),
        ("GET", "/api/v1/namespaces/n/configmaps?fieldSelector=metadata.name%3Dm1", 0),
        ("GET", "/api/v1/namespaces/other/configmaps", 0),
        ("GET", "/api/v1/configmaps?watch=true&resourceVersion=7", 0),
        ("GET", "/api/v1/namespaces", 0),
        ("POST", MAPS, 60 << 10),
        ("PATCH", "/api/v1/namespaces/n/configmaps/m1", 1000),
        ("DELETE", "/api/v1/namespaces/n/configmaps/m1", 0),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/n/leases/l", 100 << 10),
        ("GET", "/livez", 0),
        ("GET", "/readyz", 0),
        ("GET", "/metrics", 0),
        ("GET", "/openapi/v3", 0),
        ("GET", "/debug/pprof/heap", 0),
    ] {
        let answered = ask(&layer, method, path, body).await;
        assert!(answered.is_ok(), "{method} {path}");
    }
    assert!(begin.elapsed().is_zero(), "none waited");
    assert_eq!(ceiling.room.ended(), 0, "none reserved anything");
}

#[tokio::test(start_paused = true)]
async fn expensive_requests_wait_and_are_refused_with_the_reason() {
    let ceiling = Ceiling::new(LIMIT);
    let layer = layer(&ceiling).await;
    ceiling.room.set_resident(2 * LIMIT);
    for (method, path, body, seconds) in [
        ("GET", MAPS, 0, 5),
        ("GET", "/api/v1/configmaps?labelSelector=a%3Db", 0, 5),
        ("GET", "/api/v1/configmaps?watch=true", 0, 5),
        ("GET", "/api/v1/configmaps?watch=true&sendInitialEvents=true&resourceVersion=7", 0, 5),
        ("DELETE", MAPS, 0, 5),
        ("POST", MAPS, 100 << 10, 5),
        ("GET", "/openapi/v2", 0, 5),
        ("GET", "/api/v1/configmaps?timeout=4s", 0, 1),
    ] {
        let begin = tokio::time::Instant::now();
        let Err(error) = ask(&layer, method, path, body).await else { panic!("{method} {path} is let in") };
        assert_eq!(begin.elapsed().as_secs(), seconds, "{method} {path}");
        let Error::Status(status) = error else { panic!("{error}") };
        assert_eq!((status.code, status.details.unwrap().retry_after_seconds), (429, 5));
        assert!(status.message.contains("near its memory limit"), "{}", status.message);
    }
    ceiling.room.set_resident(LIMIT / 2);
    let mut response = ask(&layer, "GET", MAPS, 0).await.unwrap();
    assert!(ceiling.room.reserved() > 0, "until the response is sent");
    drop(crate::at_end::Ending::of(&mut response));
    assert_eq!(ceiling.room.reserved(), 0);
}
