use std::sync::Arc;

use registry::{Components, Health};
use tasks::BoxFuture;

use super::Server;

struct Two;

impl Components for Two {
    fn names(&self) -> &[&'static str] {
        &["bad", "good"]
    }

    fn health<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Health> {
        let is_good = name == "good";
        let (message, error) = if is_good { ("ok", "") } else { ("", "lost") };
        let health =
            Health { is_healthy: Some(is_good), message: message.to_owned(), error: error.to_owned() };
        Box::pin(std::future::ready(health))
    }
}

const PATH: &str = "/api/v1/componentstatuses";

#[tokio::test]
async fn statuses_of_components_are_asked_for_when_they_are_read() {
    let server = Server::start_with(|config| config.components = Some(Arc::new(Two))).await;
    let bad = r#"{"metadata":{"name":"bad","creationTimestamp":null},"conditions":[{"type":"Healthy","status":"False","error":"lost"}]}"#;
    let good = r#"{"metadata":{"name":"good","creationTimestamp":null},"conditions":[{"type":"Healthy","status":"True","message":"ok"}]}"#;
    let list = |items: &str| {
        format!(r#"{{"kind":"ComponentStatusList","apiVersion":"v1","metadata":{{}},"items":[{items}]}}"#)
    };
    assert_eq!(server.get(PATH).await.text().trim_end(), list(&format!("{bad},{good}")));
    for (query, items) in [
        ("fieldSelector=metadata.name=good", good),
        ("fieldSelector=metadata.name!=good", bad),
        ("labelSelector=a", ""),
        ("labelSelector=!a&fieldSelector=metadata.name=bad", bad),
    ] {
        assert_eq!(server.get(&format!("{PATH}?{query}")).await.text().trim_end(), list(items), "{query}");
    }
    let one = server.get(&format!("{PATH}/good")).await;
    assert_eq!(
        one.text().trim_end(),
        good.replacen('{', r#"{"kind":"ComponentStatus","apiVersion":"v1","#, 1)
    );
    server.get(&format!("{PATH}/other")).await.says(404, r#"componentstatus \"other\" not found"#);
}

#[tokio::test]
async fn statuses_of_components_have_all_forms() {
    let server = Server::start_with(|config| config.components = Some(Arc::new(Two))).await;
    let form = |kind: &str| format!("application/json;as={kind};g=meta.k8s.io;v=v1");
    let table = server.get_as(&format!("{PATH}?includeObject=None"), &form("Table")).await;
    table.says(
        200,
        r#""rows":[{"cells":["bad","Unhealthy","","lost"],"object":null},{"cells":["good","Healthy","ok",""],"object":null}]}"#,
    );
    let one = server.get_as(&format!("{PATH}/good?includeObject=None"), &form("Table")).await;
    one.says(200, r#""rows":[{"cells":["good","Healthy","ok",""],"object":null}]}"#);
    let partial = server.get_as(PATH, &form("PartialObjectMetadataList")).await;
    partial.says(
        200,
        r#""items":[{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"bad","creationTimestamp":null}}"#,
    );
    server.get_as(PATH, &form("PartialObjectMetadata")).await.says(406, "the requested object is a list");
    let protobuf = server.get_as(PATH, "application/vnd.kubernetes.protobuf").await;
    let envelope = schema::protobuf::Envelope::read(&protobuf.body).unwrap();
    assert_eq!((envelope.kind, envelope.api_version), ("ComponentStatusList", "v1"));
    assert!(server.get_as(PATH, "application/yaml").await.text().contains("  - error: lost\n"));
}
