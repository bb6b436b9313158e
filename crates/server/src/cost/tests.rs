use super::*;
use std::net::SocketAddr;
use std::time::Duration;

use auth::{Authenticated, SystemIdentity};
use bytes::Bytes;
use http_body_util::BodyExt;

use crate::Peer;
use crate::handler::Stacked;

/// Answers with a body of three bytes, or as its path says.
struct Answers;

impl Handler for Answers {
    async fn handle(&self, request: Request) -> Result<Response, Error> {
        match request.raw_path() {
            "/refused" => Err(Error::TooManyRequests("why".into())),
            "/slow" => {
                std::thread::sleep(Duration::from_millis(20));
                tokio::time::sleep(Duration::from_millis(50)).await;
                Ok(Response::new(Body::from("abc")))
            }
            "/stream" => {
                let frames = ["ab", "cde"].map(|text| Ok(http_body::Frame::data(Bytes::from(text))));
                Ok(Response::new(Body::Stream(Box::pin(Frames(frames.into())))))
            }
            _ => {
                request.context.meter.read(7);
                request.context.meter.delivered(2);
                Ok(Response::new(Body::from("abc")))
            }
        }
    }
}

type OneFrame = Result<http_body::Frame<Bytes>, crate::body::StreamError>;

/// A body of frames.
struct Frames(std::collections::VecDeque<OneFrame>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = crate::body::StreamError;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<OneFrame>> {
        std::task::Poll::Ready(self.0.pop_front())
    }
}

fn request(method: &str, path: &str) -> Request {
    let request = http::Request::builder().method(method).uri(path).header(USER_AGENT, "kubectl/v1 (x)");
    let peer = Arc::new(Peer::plain(SocketAddr::from(([127, 0, 0, 1], 1))));
    let mut request = Request::in_process(request.body(Bytes::new()).unwrap(), peer);
    request.head.extensions.insert(Authenticated::system(SystemIdentity::ControllerManager));
    request
}

/// The costs of the only row.
fn of(costs: &Costs) -> table::Sums {
    let rows = costs.rows();
    assert_eq!(rows.len(), 1);
    rows[0].total
}

#[tokio::test]
async fn whole_bodies_and_what_handlers_count_are_in_the_table_at_the_end() {
    let costs = Costs::default();
    let handler = Stacked::new(Answers).push(Cost(costs.clone()));
    for _ in 0..2 {
        handler.handle(request("GET", "/")).await.unwrap();
    }
    handler.handle(request("HEAD", "/")).await.unwrap();
    let sums = of(&costs);
    assert_eq!(
        (sums.requests, sums.sent_bytes, sums.read_objects, sums.delivered_events, sums.refusals),
        (3.0, 6.0, 21.0, 6.0, 0.0)
    );
    assert!(sums.busy > 0.0);
    let row = &costs.rows()[0];
    assert_eq!(&*row.key.user, "system:kube-controller-manager");
    assert_eq!((&*row.key.agent, &*row.key.resource), ("kubectl", ""));
}

#[tokio::test]
async fn refusals_are_counted_whoever_makes_them() {
    let costs = Costs::default();
    let handler = Stacked::new(Answers).push(Cost(costs.clone()));
    let response = handler.handle(request("GET", "/refused")).await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!((of(&costs).requests, of(&costs).refusals), (1.0, 1.0));
}

#[tokio::test]
async fn time_is_that_of_polls_and_not_of_waiting() {
    let costs = Costs::default();
    let handler = Stacked::new(Answers).push(Cost(costs.clone()));
    let begin = Instant::now();
    handler.handle(request("GET", "/slow")).await.unwrap();
    let whole = begin.elapsed().as_secs_f64();
    let busy = of(&costs).busy / 1e9;
    assert!(busy >= 0.02, "the thread slept within a poll");
    assert!(whole - busy >= 0.04, "the wait for the timer is not counted: {busy} of {whole}");
}

#[tokio::test]
async fn streams_are_in_the_table_while_they_are_sent() {
    let costs = Costs::default();
    let handler = Stacked::new(Answers).push(Cost(costs.clone()));
    let response = handler.handle(request("GET", "/stream")).await.unwrap();
    assert_eq!((of(&costs).requests, of(&costs).sent_bytes), (1.0, 0.0));
    let mut body = response.into_body();
    body.frame().await.unwrap().unwrap();
    assert_eq!(of(&costs).sent_bytes, 2.0);
    assert_eq!(costs.0.open().len(), 1);
    body.frame().await.unwrap().unwrap();
    drop(body);
    assert_eq!((of(&costs).requests, of(&costs).sent_bytes), (1.0, 5.0));
    assert!(costs.0.open().is_empty());
}

#[tokio::test]
async fn request_whose_client_leaves_is_counted() {
    let costs = Costs::default();
    let handler = Stacked::new(Answers).push(Cost(costs.clone()));
    let answer = handler.handle(request("GET", "/slow"));
    let left = tokio::time::timeout(Duration::from_millis(1), answer).await;
    assert!(left.is_err());
    assert_eq!(of(&costs).requests, 1.0);
}
