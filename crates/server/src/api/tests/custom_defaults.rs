//! Which defaults an object of a custom kind gets: those of the version of the request when it is sent, those
//! of the storage version when it is read, and none when it is written.

use super::custom_kinds::{WIDGETS, stored_widget, widget};
use super::*;
use kinds::{CustomStrategy, ResourceType, Scope, Subresource};
use registry::{Conversion, CustomKind, CustomVersion};
use schema::view::View;
use schema::views::apiextensions::v1::JSONSchemaProps;
use schema::{Builder, GroupVersionKind, Limits, Ref, Structural, json};
use serde_json::{Value, json};

/// A version whose spec and status have these texts, each with its default, if it has one.
fn version(name: &str, served: bool, fields: &[(&str, Option<&str>)]) -> CustomVersion {
    let properties = fields.iter().map(|(field, default)| {
        let schema = match default {
            Some(default) => json!({"type": "string", "default": default}),
            None => json!({"type": "string"}),
        };
        ((*field).to_owned(), schema)
    });
    let part = json!({"type": "object", "properties": properties.collect::<serde_json::Map<_, _>>()});
    let schema = json!({"type": "object", "properties": {"spec": part, "status": part}}).to_string();
    let decoded = json::decode(JSONSchemaProps::schema(), schema.as_bytes(), &Limits::default()).unwrap();
    let schema = Structural::compile(JSONSchemaProps::of(decoded.value.as_map().unwrap())).unwrap();
    let kind = GroupVersionKind { group: "example.com".into(), version: name.into(), kind: "Widget".into() };
    let ty = Builder::new(format!("com.example.{name}.Widget")).kind(kind.clone()).object();
    let resource_type = ResourceType {
        subresources: vec![Subresource::STATUS],
        strategy: Ref::Shared(Arc::new(CustomStrategy::new(schema.clone(), true, None))),
        ..ResourceType::custom(&kind, "widgets", Scope::Namespaced, ty.custom(schema).build())
    };
    CustomVersion { resource_type: Arc::new(resource_type), served }
}

/// Serves widgets in `v1`, and stores them in `v2`. The field `c` has a default in some of them.
async fn install(server: &Server, c_of_v1: Option<&str>, c_of_v2: Option<&str>) {
    let v1 = [("a", Some("A")), ("c", c_of_v1), ("one", Some("1")), ("two", None)];
    let v2 = [("a", Some("A")), ("c", c_of_v2), ("one", None), ("two", Some("2"))];
    let versions = vec![version("v1", true, &v1), version("v2", false, &v2)];
    let kind = CustomKind { versions, storage_version: "v2".into(), conversion: Conversion::None };
    server.0.registry.install(kind).await.unwrap();
}

fn parts(text: impl AsRef<str>) -> [Value; 2] {
    let object: Value = serde_json::from_str(text.as_ref()).unwrap();
    [object["spec"].clone(), object["status"].clone()]
}

async fn stored(server: &Server) -> [Value; 2] {
    parts(stored_widget(server, "w").await.unwrap())
}

#[tokio::test]
async fn each_path_has_its_defaults_and_a_write_adds_none() {
    let server = Server::start().await;
    install(&server, None, None).await;
    let (one, status) = (format!("{WIDGETS}/w"), format!("{WIDGETS}/w/status"));
    let whole = json!({"a": "A", "one": "1", "two": "2"});
    let body = widget("v1", r#""metadata":{"name":"w"},"spec":{},"status":{}"#);
    let dry = server.send("POST", &format!("{WIDGETS}?dryRun=All"), &body).await;
    assert_eq!(parts(dry.text()), [whole.clone(), Value::Null], "a dry run shows what would be read");
    let made = server.send("POST", WIDGETS, &body).await;
    assert_eq!(parts(made.text()), [whole.clone(), Value::Null]);
    assert_eq!(stored(&server).await, [json!({"a": "A", "one": "1"}), Value::Null]);

    let body = made.text().replace(r#""spec":"#, r#""status":{},"spec":"#);
    let dry = server.send("PUT", &format!("{status}?dryRun=All"), &body).await;
    assert_eq!(parts(dry.text()), [whole.clone(), whole.clone()]);
    let put = server.send("PUT", &status, &body).await;
    assert_eq!(parts(put.text()), [whole.clone(), whole.clone()]);
    // The spec is that of the stored object, as it was read.
    assert_eq!(stored(&server).await, [whole.clone(), json!({"a": "A", "one": "1"})]);

    let before = stored(&server).await;
    install(&server, None, Some("C")).await;
    let with_c = json!({"a": "A", "c": "C", "one": "1", "two": "2"});
    assert_eq!(parts(server.get(&one).await.text()), [with_c.clone(), with_c.clone()]);
    let list: Value = serde_json::from_str(&server.get(WIDGETS).await.text()).unwrap();
    assert_eq!(list["items"][0]["status"], with_c);
    let events = server.get(&format!("{WIDGETS}?watch=1&timeoutSeconds=1")).await;
    let event: Value = serde_json::from_str(events.text().lines().next().unwrap()).unwrap();
    assert_eq!(event["object"]["spec"], with_c);
    assert_eq!(stored(&server).await, before, "a read changes nothing");

    install(&server, Some("C"), None).await;
    let read = server.get(&one).await;
    assert_eq!(parts(read.text()), [whole.clone(), whole.clone()]);
    let put = server.send("PUT", &status, &read.text()).await;
    assert_eq!(parts(put.text()), [whole.clone(), with_c.clone()]);
    assert_eq!(stored(&server).await, [whole.clone(), with_c.clone()]);

    install(&server, None, None).await;
    assert_eq!(parts(server.get(&one).await.text()), [whole, with_c]);
}
