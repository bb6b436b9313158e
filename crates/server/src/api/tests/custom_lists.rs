//! Lists and watches of custom kinds: conversions before the first byte, defaults that came later, bookmarks
//! and initial events.

use super::custom_kinds::{TABLE, WIDGETS, converted_widgets, rename, version, widget, widgets};
use super::*;
use kinds::ResourceType;
use object::Value;
use registry::{Conversion, Convert, ConvertError, CustomKind};
use schema::view::View as _;
use schema::views::apiextensions::v1::JSONSchemaProps;
use schema::{Builder, Limits, Status, Structural, json};
use std::sync::Mutex;
use tasks::BoxFuture;

/// Renames a field, refuses what is red, and notes how many objects it was asked about.
#[derive(Default)]
struct Counting(Mutex<Vec<usize>>);

impl Counting {
    /// The sizes of the reviews since the last call.
    fn reviews(&self) -> Vec<usize> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Convert for Counting {
    fn convert<'a>(
        &'a self,
        objects: Vec<Value>,
        api_version: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Value>, ConvertError>> {
        self.0.lock().unwrap().push(objects.len());
        Box::pin(async move {
            Ok(objects
                .into_iter()
                .map(|object| rename(object, api_version))
                .collect::<Result<_, Status>>()?)
        })
    }
}

/// So many widgets, kept in `v1` and also served as `v2`.
async fn counted(count: usize) -> (Server, Arc<Counting>, String) {
    let server = Server::start().await;
    let counting = Arc::new(Counting::default());
    let conversion = Conversion::Custom(counting.clone());
    server.0.registry.install(CustomKind { conversion, ..converted_widgets("v1") }).await.unwrap();
    for number in 0..count {
        let body =
            widget("v1", &format!(r#""metadata":{{"name":"w{number:03}"}},"spec":{{"size":{number}}}"#));
        server.send("POST", WIDGETS, &body).await.says(201, "w");
    }
    assert_eq!(counting.reviews(), [0; 0]);
    (server, counting, WIDGETS.replace("v1", "v2"))
}

#[tokio::test]
async fn objects_whose_conversion_is_cached_are_not_converted_again() {
    let (server, counting, v2) = counted(150).await;
    for accept in ["", "application/yaml", TABLE] {
        let list = server.get_as(&v2, accept).await;
        assert_eq!((list.code, list.text().matches("w1").count() >= 50), (200, true), "{}", list.text());
    }
    assert_eq!(counting.reviews(), [64, 64, 22]);
    let events = server.get(&format!("{v2}?watch=1&timeoutSeconds=1")).await;
    assert_eq!(events.text().matches(r#""extent":"#).count(), 150);
    assert_eq!(counting.reviews(), [0; 0]);
    server.get(&format!("{v2}/w003")).await.says(200, r#""extent":3"#);
    assert_eq!(counting.reviews(), [1], "a get asks, as in the reference");
    server.send("PATCH", &format!("{WIDGETS}/w003"), r#"{"spec":{"size":4}}"#).await.says(200, "w003");
    counting.reviews();
    assert_eq!(server.get(&v2).await.text().matches(r#""extent":4"#).count(), 12);
    assert_eq!(counting.reviews(), [1], "only what has changed");
}

#[tokio::test]
async fn list_with_a_failing_later_review_is_500() {
    let (server, counting, v2) = counted(150).await;
    let red = widget("v1", r#""metadata":{"name":"x-last"},"spec":{"color":"red"}"#);
    server.send("POST", WIDGETS, &red).await.says(201, "red");
    for accept in ["", "application/yaml", TABLE] {
        let refused = server.get_as(&v2, accept).await;
        assert!(refused.code == 500 && refused.text().contains("red is not converted"), "{}", refused.text());
    }
    assert_eq!(counting.reviews(), [64, 64, 23, 23, 23], "the last review is sent again, the others are not");
    let first = server.get(&format!("{v2}?limit=100")).await;
    assert_eq!(first.text().matches(r#""extent":"#).count(), 100);
}

/// Gives embedded objects metadata that is none.
struct Malformed;

impl Convert for Malformed {
    fn convert<'a>(
        &'a self,
        objects: Vec<Value>,
        api_version: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Value>, ConvertError>> {
        Box::pin(async move {
            let spoil = |object| {
                let mut object = rename(object, api_version)?;
                let spec =
                    object.as_map_mut().and_then(|map| map.get_mut("spec")).and_then(Value::as_map_mut);
                if let Some(embedded) =
                    spec.and_then(|spec| spec.get_mut("object")).and_then(Value::as_map_mut)
                {
                    embedded.insert("metadata", 7);
                }
                Ok(object)
            };
            Ok(objects.into_iter().map(spoil).collect::<Result<_, Status>>()?)
        })
    }
}

#[tokio::test]
async fn malformed_metadata_from_a_conversion_is_an_error() {
    let server = Server::start().await;
    let conversion = Conversion::Custom(Arc::new(Malformed));
    server.0.registry.install(CustomKind { conversion, ..converted_widgets("v1") }).await.unwrap();
    let body = widget("v1", r#""metadata":{"name":"a"},"spec":{"object":{"kind":"K","apiVersion":"v1"}}"#);
    server.send("POST", WIDGETS, &body).await.says(201, "a");
    let v2 = WIDGETS.replace("v1", "v2");
    for path in [v2.clone(), format!("{v2}/a")] {
        server.get(&path).await.says(500, "spec.object.metadata: Invalid value: 7");
    }
    let body = body.replace("v1\",\"m", "v2\",\"m").replace(r#""a""#, r#""b""#);
    server.send("POST", &v2, &body).await.says(500, "spec.object.metadata: Invalid value: 7");
}

/// Widgets whose items have a default of so many bytes; none for no bytes.
fn with_default(bytes: usize) -> CustomKind {
    let default = match bytes {
        0 => String::new(),
        bytes => format!(r#","default":"{}""#, "x".repeat(bytes)),
    };
    let schema = format!(
        r#"{{"type":"object","properties":{{"spec":{{"type":"object","properties":{{"items":{{"type":"array","items":{{
        "type":"object","properties":{{"text":{{"type":"string"{default}}}}}}}}}}}}}}}}}"#
    );
    with_schema(&schema)
}

/// Widgets with another schema.
fn with_schema(schema: &str) -> CustomKind {
    let decoded =
        json::decode(JSONSchemaProps::schema(), schema.as_bytes(), &Limits::default()).unwrap().value;
    let compiled = Structural::compile(JSONSchemaProps::of(decoded.as_map().unwrap())).unwrap();
    let mut version = version("v1", "size");
    let resource_type = Arc::get_mut(&mut version.resource_type).unwrap();
    let kind = resource_type.kind_of("");
    let ty = Builder::new("com.example.v1.Widget").kind(kind.clone()).object().custom(compiled).build();
    *resource_type = ResourceType::custom(&kind, "widgets", kinds::Scope::Namespaced, ty);
    CustomKind { versions: vec![version], ..widgets() }
}

#[tokio::test]
async fn object_is_pruned_and_completed_by_the_schema_of_today() {
    let server = Server::start().await;
    server.0.registry.install(widgets()).await.unwrap();
    let body = widget("v1", r#""metadata":{"name":"a"},"spec":{"size":1,"color":"red"}"#);
    server.send("POST", WIDGETS, &body).await.says(201, "red");
    let schema = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"},
        "shape":{"type":"string","default":"round"}}}}}"#;
    server.0.registry.install(with_schema(schema)).await.unwrap();
    for path in [WIDGETS.to_owned(), format!("{WIDGETS}/a")] {
        server.get(&path).await.says(200, r#""spec":{"shape":"round","size":1}"#);
    }
}

#[tokio::test]
async fn object_that_defaults_make_too_large_is_refused_and_a_stored_one_is_shown_without_them() {
    let server = Server::start().await;
    server.0.registry.install(with_default(1 << 20)).await.unwrap();
    let why = "limit is 3145728";
    let items = vec!["{}"; 100_000].join(",");
    let body = |name: &str, items: &str| {
        widget("v1", &format!(r#""metadata":{{"name":"{name}"}},"spec":{{"items":[{items}]}}"#))
    };
    server.send("POST", WIDGETS, &body("a", &items)).await.says(413, why);
    server.send("POST", WIDGETS, &body("a", "{},{}")).await.says(201, "xxx");
    let grown = format!(r#"{{"spec":{{"items":[{items}]}}}}"#);
    server.send("PATCH", &format!("{WIDGETS}/a"), &grown).await.says(413, why);
    // Defaults that come later do it to objects that are stored.
    server.0.registry.install(with_default(0)).await.unwrap();
    server.send("POST", WIDGETS, &body("b", &items)).await.says(201, "b");
    server.0.registry.install(with_default(1 << 20)).await.unwrap();
    server.get(&format!("{WIDGETS}/b")).await.says(200, r#""spec":{"items":[{},{},"#);
    server.get(WIDGETS).await.says(200, r#""spec":{"items":[{},{},"#);
}

#[tokio::test]
async fn initial_events_of_a_custom_kind_end_with_a_bookmark() {
    let server = Server::start_with(|config| config.watch_list = true).await;
    server.0.registry.install(widgets()).await.unwrap();
    for name in ["a", "b"] {
        let body = widget("v1", &format!(r#""metadata":{{"name":"{name}"}},"spec":{{"size":1}}"#));
        server.send("POST", WIDGETS, &body).await.says(201, name);
    }
    let options = "watch=1&timeoutSeconds=1&allowWatchBookmarks=true";
    let initial = format!("{WIDGETS}?{options}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let events = server.get(&initial).await.text();
    let lines: Vec<&str> = events.lines().collect();
    assert!(lines.len() >= 3, "{events}");
    for (line, name) in lines.iter().zip(["a", "b"]) {
        let start = format!(
            r#"{{"type":"ADDED","object":{{"kind":"Widget","apiVersion":"example.com/v1","metadata":{{"name":"{name}""#
        );
        assert!(line.starts_with(&start), "{line}");
    }
    let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"resourceVersion":""#;
    assert!(
        lines[2].starts_with(bookmark) && lines[2].contains(r#""k8s.io/initial-events-end":"true""#),
        "{}",
        lines[2]
    );
    // Without initial events, and without changes, the end of a watch is a bookmark.
    let newest = server.get(WIDGETS).await.text();
    let (_, revision) = newest.split_once(r#""resourceVersion":""#).unwrap();
    let (revision, _) = revision.split_once('"').unwrap();
    let only = server.get(&format!("{WIDGETS}?{options}&resourceVersion={revision}")).await.text();
    assert!(only.lines().all(|line| line.starts_with(bookmark)), "{only}");
}
