//! Ordered shutdown.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{PATIENCE, closed, request, start, start_with_layers, whole};
use http::Method;
use server::tls::TlsConfig;
use server::{
    Body, Error, Handler, Lifecycle, Limits, OptionalLayers, Phase, PortUse, Request, Response, RetryAfter,
    Server, Unserved,
};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Answers each request after a permit; signals when a request arrives.
struct Gate {
    arrived: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    fn new() -> (Self, Arc<Semaphore>, Arc<Semaphore>) {
        let (arrived, open) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        (Self { arrived: Arc::clone(&arrived), open: Arc::clone(&open) }, arrived, open)
    }
}

impl Handler for Gate {
    async fn handle(&self, _request: Request) -> Result<Response, Error> {
        self.arrived.add_permits(1);
        self.open.acquire().await.unwrap().forget();
        Ok(Response::new(Body::from("done")))
    }
}

async fn refused(address: std::net::SocketAddr) -> bool {
    timeout(PATIENCE, TcpStream::connect(address)).await.unwrap().is_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_fails_and_requests_are_served_during_the_shutdown_delay() {
    let delay = Duration::from_millis(600);
    let server = start(Unserved, Limits::default(), delay);
    let mut client = server.http1().await;
    assert_eq!(client.ask(Method::GET, "/readyz").await.status, 200);

    let begin = Instant::now();
    server.lifecycle.request_stop();
    let ready = client.ask(Method::GET, "/readyz").await;
    assert_eq!(ready.status, 500);
    assert_eq!(ready.body, "[+]ping ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n");
    assert_eq!(
        server.http2().await.ask(Method::GET, "/livez").await.status,
        200,
        "new connections still work"
    );

    closed(client.ended).await.unwrap();
    assert!(begin.elapsed() >= delay);
    assert!(refused(server.address).await);
    assert_eq!(timeout(PATIENCE, server.ended).await.unwrap().unwrap().cut_off, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_flight_finish() {
    let (gate, arrived, open) = Gate::new();
    let server = start(gate, Limits::default(), Duration::ZERO);
    let mut http1 = server.http1().await;
    let mut http2 = server.http2().await;
    let first = tokio::spawn(http1.sender.send_request(request(Method::GET, "/x")));
    let second = tokio::spawn(http2.sender.send_request(common::request2(Method::GET, "/x")));
    timeout(PATIENCE, arrived.acquire_many(2)).await.unwrap().unwrap().forget();

    server.lifecycle.request_stop();
    timeout(PATIENCE, server.lifecycle.reached(Phase::Draining)).await.unwrap();
    while !refused(server.address).await {
        tokio::task::yield_now().await;
    }
    open.add_permits(2);
    assert_eq!(whole(first.await.unwrap().unwrap()).await.body, "done");
    assert_eq!(whole(second.await.unwrap().unwrap()).await.body, "done");
    assert_eq!(timeout(PATIENCE, server.ended).await.unwrap().unwrap().cut_off, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_requests_are_closed_after_the_drain_limit() {
    let (gate, arrived, _open) = Gate::new();
    let limits = Limits { drain: Duration::from_millis(300), ..Limits::default() };
    let server = start(gate, limits, Duration::ZERO);
    let mut client = server.http1().await;
    let answer = tokio::spawn(client.sender.send_request(request(Method::GET, "/x")));
    timeout(PATIENCE, arrived.acquire()).await.unwrap().unwrap().forget();
    assert_eq!(server.stop().await.cut_off, 1);
    assert!(answer.await.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn second_stop_request_closes_connections_at_once() {
    let (gate, arrived, _open) = Gate::new();
    let server = start(gate, Limits::default(), Duration::from_secs(3600));
    let mut client = server.http1().await;
    let answer = tokio::spawn(client.sender.send_request(request(Method::GET, "/x")));
    timeout(PATIENCE, arrived.acquire()).await.unwrap().unwrap().forget();
    server.lifecycle.request_stop();
    assert_eq!(server.stop().await.cut_off, 1);
    assert!(answer.await.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn open_handshake_does_not_delay_shutdown() {
    let server = start(Unserved, Limits::default(), Duration::ZERO);
    let _silent = TcpStream::connect(server.address).await.unwrap();
    let begin = Instant::now();
    server.stop().await;
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn port_in_use_has_a_clear_error() {
    let taken = start(Unserved, Limits::default(), Duration::ZERO);
    let listen = |port_use| Server::listen(taken.address, port_use, Limits::default(), Lifecycle::new());
    let error = listen(PortUse::Exclusive).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen on {}: the port is in use, perhaps by another server; choose another with --secure-port",
            taken.address
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_can_share_a_port_if_both_permit_it() {
    let listen = |address| Server::listen(address, PortUse::Shared, Limits::default(), Lifecycle::new());
    let first = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    assert_eq!(listen(first.address()).unwrap().address(), first.address());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_refused_with_429_until_those_in_flight_are_answered() {
    let (gate, arrived, open) = Gate::new();
    let layers = |lifecycle: &Lifecycle| OptionalLayers {
        retry_after: Some(RetryAfter(lifecycle.clone())),
        ..OptionalLayers::default()
    };
    let server = start_with_layers(gate, Limits::default(), Duration::ZERO, TlsConfig::default(), layers);
    let mut early = server.http1().await;
    let in_flight = tokio::spawn(async move { early.ask(Method::GET, "/early").await });
    arrived.acquire().await.unwrap().forget();

    server.lifecycle.request_stop();
    timeout(PATIENCE, server.lifecycle.reached(Phase::Refusing)).await.unwrap();
    let mut late = server.http1().await;
    let refused = late.ask(Method::GET, "/late").await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.body, "The apiserver is shutting down, please try again later.\n");
    assert_eq!(
        (&refused.headers["retry-after"], &refused.headers["connection"]),
        (&"5".parse().unwrap(), &"close".parse().unwrap())
    );
    closed(late.ended).await.unwrap();
    let mut http2 = server.http2().await;
    let refused = http2.ask(Method::GET, "/late").await;
    assert_eq!((refused.status, refused.headers.get("connection")), (429, None));
    closed(http2.ended).await.unwrap();
    assert_eq!(server.http1().await.ask(Method::GET, "/livez").await.status, 200, "probes are answered");

    open.add_permits(1);
    assert_eq!(in_flight.await.unwrap().status, 200);
    timeout(PATIENCE, server.lifecycle.reached(Phase::Draining)).await.unwrap();
    assert_eq!(timeout(PATIENCE, server.ended).await.unwrap().unwrap().cut_off, 0);
}
