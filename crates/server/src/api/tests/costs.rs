//! What requests cost, as the API counts it.

use http_body_util::BodyExt as _;

use super::*;
use crate::cost::Cost;
use crate::{Costs, Handler, Response, Stacked};

const MAPS: &str = "/api/v1/namespaces/n/configmaps";

/// A server with so many config maps, and its costs.
async fn server(objects: usize) -> (impl Handler, Costs) {
    let server = Server::start().await;
    for number in 0..objects {
        let object =
            format!(r#"{{"metadata":{{"name":"c{number}"}},"data":{{"k":"{}"}}}}"#, "x".repeat(3_000));
        assert_eq!(server.send("POST", MAPS, &object).await.code, 201);
    }
    let costs = Costs::default();
    (Stacked::new(server.0).push(Cost(costs.clone())), costs)
}

async fn get(handler: &impl Handler, path: &str, accept: &str) -> Response {
    let request = http::Request::get(path).header(ACCEPT, accept).header("user-agent", "kubectl/v1");
    let peer = Arc::new(Peer::plain(([127, 0, 0, 1], 1).into()));
    let mut request = Request::in_process(request.body(Bytes::new()).unwrap(), peer);
    request.head.extensions.insert(caller().await);
    let format = request.context.error_format;
    handler.handle(request).await.unwrap_or_else(|error| error.into_response(format))
}

/// What one kind has cost: requests, objects that were read, events that were delivered.
fn of(costs: &Costs, resource: &str) -> [f64; 3] {
    let rows = costs.rows();
    let row = rows.iter().find(|row| [&*row.key.user, &*row.key.resource] == ["admin", resource]);
    row.map(|row| [row.total.requests, row.total.read_objects, row.total.delivered_events])
        .unwrap_or_default()
}

#[tokio::test]
async fn gets_and_lists_in_every_form_count_their_objects() {
    let (handler, costs) = server(50).await;
    let first = get(&handler, &format!("{MAPS}/c0"), "application/json").await;
    assert_eq!(first.status(), 200);
    assert_eq!(of(&costs, "configmaps"), [1.0, 1.0, 0.0]);
    assert_eq!(get(&handler, &format!("{MAPS}/none"), "").await.status(), 404);
    assert_eq!(of(&costs, "configmaps"), [2.0, 1.0, 0.0]);
    let mut read = 1.0;
    for (query, accept, objects) in [
        ("", "application/json", 50.0),
        ("?limit=20", "application/json", 20.0),
        ("?fieldSelector=metadata.name%3Dc7", "application/json", 1.0),
        ("", "application/yaml", 50.0),
        ("", "application/vnd.kubernetes.protobuf", 50.0),
        ("", "application/json;as=Table;g=meta.k8s.io;v=v1", 50.0),
        ("", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", 50.0),
    ] {
        let response = get(&handler, &format!("{MAPS}{query}"), accept).await;
        assert_eq!(response.status(), 200, "{query} {accept}");
        let bytes = body(response).await.len() as f64;
        read += objects;
        assert_eq!(of(&costs, "configmaps")[1], read, "{query} {accept}");
        assert!(costs.rows()[0].total.sent_bytes >= bytes, "{query} {accept}");
    }
}

#[tokio::test]
async fn watches_count_their_events_while_they_run() {
    let (handler, costs) = server(3).await;
    let response = get(&handler, &format!("{MAPS}?watch=1&timeoutSeconds=20"), "application/json").await;
    let mut body = response.into_body();
    let mut lines = 0;
    while lines < 3 {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        lines += frame.iter().filter(|byte| **byte == b'\n').count();
    }
    assert_eq!(of(&costs, "configmaps"), [1.0, 0.0, 3.0]);
    drop(body);
    assert_eq!(of(&costs, "configmaps"), [1.0, 0.0, 3.0]);
}

#[tokio::test]
async fn names_that_are_not_served_make_no_rows() {
    let (handler, costs) = server(0).await;
    for number in 0..20 {
        for path in
            [format!("/apis/g{number}/v1/things"), format!("/api/v1/things{number}"), format!("/x{number}")]
        {
            assert_eq!(get(&handler, &path, "").await.status(), 404, "{path}");
        }
    }
    let rows = costs.rows();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&*rows[0].key.resource, rows[0].total.requests), ("", 60.0));
    // A kind of a named group.
    assert_eq!(get(&handler, "/apis/apps/v1/deployments", "").await.status(), 200);
    assert_eq!(of(&costs, "apps/deployments")[0], 1.0);
}
