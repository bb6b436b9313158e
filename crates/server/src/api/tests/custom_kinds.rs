//! Kinds that are registered at run time: served like built-in ones, changed and removed while requests and
//! watches run.

use super::*;
use http_body_util::BodyExt;
use kinds::{Column, ColumnDefinition, ResourceType, RowFn, Scope};
use object::{Map, Text, Value};
use registry::{Conversion, Convert, ConvertError, CustomKind, CustomVersion};
use schema::view::View;
use schema::views::apiextensions::v1::JSONSchemaProps;
use schema::{Builder, GroupVersionKind, Limits, Ref, Status, Structural, Type, json};
use tasks::BoxFuture;

/// The type of widgets: `spec` with one number, called `field`.
fn ty(version: &str, field: &str) -> (GroupVersionKind, Ref<Type>) {
    let spec = format!(
        r#"{{"type":"object","properties":{{"{field}":{{"type":"integer"}},"color":{{"type":"string"}},
        "tags":{{"type":"array","items":{{"type":"string"}},"x-kubernetes-list-type":"set"}},
        "object":{{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}}}}"#
    );
    let schema = format!(r#"{{"type":"object","properties":{{"spec":{spec}}}}}"#);
    let decoded =
        json::decode(JSONSchemaProps::schema(), schema.as_bytes(), &Limits::default()).unwrap().value;
    let compiled = Structural::compile(JSONSchemaProps::of(decoded.as_map().unwrap())).unwrap();
    let kind =
        GroupVersionKind { group: "example.com".into(), version: version.into(), kind: "Widget".into() };
    let widget = Builder::new(format!("com.example.{version}.Widget")).kind(kind.clone()).object();
    (kind, widget.custom(compiled).build())
}

pub(super) fn version(name: &str, field: &str) -> CustomVersion {
    let (kind, ty) = ty(name, field);
    let resource_type = ResourceType::custom(&kind, "widgets", Scope::Namespaced, ty);
    CustomVersion { resource_type: Arc::new(resource_type), served: true }
}

/// Widgets in `v1` alone.
pub(super) fn widgets() -> CustomKind {
    CustomKind {
        versions: vec![version("v1", "size")],
        storage_version: "v1".into(),
        conversion: Conversion::None,
    }
}

/// Renames `size` to `extent` for `v2`, after a while; refuses what is red.
struct Slow;

impl Convert for Slow {
    fn convert<'a>(
        &'a self,
        objects: Vec<Value>,
        api_version: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Value>, ConvertError>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(objects
                .into_iter()
                .map(|object| rename(object, api_version))
                .collect::<Result<_, Status>>()?)
        })
    }
}

pub(super) fn rename(mut object: Value, api_version: &str) -> Result<Value, Status> {
    let map = object.as_map_mut().unwrap();
    let (from, to) = match api_version {
        "example.com/v1" => ("extent", "size"),
        _ => ("size", "extent"),
    };
    map.insert("apiVersion", api_version.to_owned());
    if let Some(spec) = map.get_mut("spec").and_then(Value::as_map_mut) {
        if spec.get("color").and_then(Value::as_str) == Some("red") {
            return Err(Status::internal_error("red is not converted"));
        }
        if let Some(number) = spec.remove(from) {
            spec.insert(to, number);
        }
    }
    Ok(object)
}

/// Widgets in `v1` and `v2`, with a conversion that waits.
pub(super) fn converted_widgets(storage: &str) -> CustomKind {
    CustomKind {
        versions: vec![version("v1", "size"), version("v2", "extent")],
        storage_version: storage.into(),
        conversion: Conversion::Custom(Arc::new(Slow)),
    }
}

/// The body of a widget in a version.
pub(super) fn widget(version: &str, rest: &str) -> String {
    format!(r#"{{"kind":"Widget","apiVersion":"example.com/{version}",{rest}}}"#)
}

pub(super) const WIDGETS: &str = "/apis/example.com/v1/namespaces/n/widgets";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
pub(super) const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

#[tokio::test]
async fn a_registered_kind_is_served_by_every_verb() {
    let server = Server::start().await;
    assert_eq!(server.get(WIDGETS).await.code, 404);
    server.0.registry.install(widgets()).await.unwrap();
    let made = server
        .send("POST", WIDGETS, &widget("v1", r#""metadata":{"name":"a"},"spec":{"size":1,"nope":2}"#))
        .await;
    made.says(201, r#""spec":{"size":1}"#);
    assert_eq!(made.header("warning"), [r#"299 - "unknown field \"spec.nope\"""#]);
    let one = format!("{WIDGETS}/a");
    server
        .get(&one)
        .await
        .says(200, r#"{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"a""#);
    server.send("PATCH", &one, r#"{"spec":{"size":2}}"#).await.says(200, r#""size":2"#);
    let json_patch = http::Request::patch(&one).header(CONTENT_TYPE, "application/json-patch+json");
    server
        .ask(json_patch, r#"[{"op":"replace","path":"/spec/size","value":3}]"#)
        .await
        .says(200, r#""size":3"#);
    let apply = http::Request::patch(format!("{WIDGETS}/b?fieldManager=m"))
        .header(CONTENT_TYPE, "application/apply-patch+yaml");
    let config = "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: b\nspec:\n  size: 4\n";
    server.ask(apply, config).await.says(201, r#""operation":"Apply""#);
    server
        .send("PUT", &one, &widget("v1", r#""metadata":{"name":"a"},"spec":{"size":5}"#))
        .await
        .says(200, r#""size":5"#);
    let list = server.get(WIDGETS).await;
    list.says(200, r#"{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"continue":"","#);
    list.says(200, r#""items":[{"kind":"Widget","apiVersion":"example.com/v1","metadata":"#);
    list.says(200, r#""spec":{"size":4}"#);
    server.get("/apis/example.com/v1/widgets?labelSelector=a%3Db").await.says(200, r#""items":[]"#);
    server.get_as(WIDGETS, TABLE).await.says(200, r#""name":"Created At""#);
    server.get_as(&one, "application/yaml").await.says(200, "size: 5");
    let watch = server.get(&format!("{WIDGETS}?watch=1&timeoutSeconds=1")).await;
    watch.says(200, r#"{"type":"ADDED","object":{"kind":"Widget""#);
    server.send("DELETE", &one, "").await.says(200, r#""status":"Success""#);
    server.send("DELETE", WIDGETS, "").await.says(200, r#""name":"b""#);
    server.get(WIDGETS).await.says(200, r#""items":[]"#);
}

#[tokio::test]
async fn a_registered_kind_is_in_discovery_and_openapi() {
    let server = Server::start().await;
    server.0.registry.install(widgets()).await.unwrap();
    server.get("/").await.says(200, "/apis/example.com/v1");
    server
        .get("/apis")
        .await
        .says(200, r#"{"name":"example.com","versions":[{"groupVersion":"example.com/v1","#);
    server.get("/apis/example.com").await.says(200, r#""preferredVersion""#);
    let resources = server.get("/apis/example.com/v1").await;
    resources.says(200, r#"{"name":"widgets","singularName":"widget","namespaced":true,"kind":"Widget","#);
    let all = server.get_as("/apis", AGGREGATED).await;
    all.says(
        200,
        r#""resource":"widgets","responseKind":{"group":"example.com","version":"v1","kind":"Widget"}"#,
    );
    let tag = all.header("etag")[0].to_owned();
    let known = [(ACCEPT, AGGREGATED), (http::header::IF_NONE_MATCH, tag.as_str())];
    assert_eq!(server.get_with("/apis", &known).await.code, 304);
    server.get("/openapi/v3").await.says(200, r#""apis/example.com/v1":"#);
    let document = server.get("/openapi/v3/apis/example.com/v1").await;
    document.says(200, "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}");
    server.get("/openapi/v2").await.says(200, "/apis/example.com/v1/namespaces/{namespace}/widgets");
    server.0.registry.uninstall("example.com", "widgets").await.unwrap();
    assert_ne!(server.get_with("/apis", &known).await.code, 304);
    assert_eq!(server.get("/apis/example.com/v1").await.code, 404);
    assert_eq!(server.get("/openapi/v3/apis/example.com/v1").await.code, 404);
}

#[tokio::test]
async fn documents_of_other_groups_are_not_made_again() {
    let server = Server::start().await;
    let documents = &server.0.documents;
    let none = aggregation::Table::default();
    let before = server.0.registry.catalog();
    let (apps, core) = (documents.v3(&before, "apis/apps/v1"), documents.v3(&before, "api/v1"));
    server.0.registry.install(widgets()).await.unwrap();
    let after = server.0.registry.catalog();
    assert!(after.generation() > before.generation());
    for (path, made) in [("apis/apps/v1", &apps), ("api/v1", &core)] {
        let now = documents.v3(&after, path);
        assert!(Arc::ptr_eq(now.as_ref().unwrap(), made.as_ref().unwrap()), "{path}");
    }
    // The parts of OpenAPI v2 are made once, and kept for as long as what they describe is served.
    let json = openapi::v2::Encoding::Json;
    documents.v2(&before, &none, json);
    let parts = documents.v2_kept();
    documents.v2(&after, &none, json);
    assert_eq!(documents.v2_kept() - parts, 1);
    documents.v2(&before, &none, json);
    assert_eq!(documents.v2_kept(), parts);
    // The document of all groups is made anew for a new catalog, and once.
    let aggregated = |catalog| documents.aggregated(catalog, &none, openapi::discovery::Root::Apis);
    assert_ne!(aggregated(&before).etag, aggregated(&after).etag);
    assert!(Arc::ptr_eq(&aggregated(&after), &aggregated(&after)));
    let apps = |catalog: &registry::Catalog| catalog.group_version("apps", "v1").unwrap().clone();
    assert!(Arc::ptr_eq(&apps(&before), &apps(&after)));
    // What is encoded for one form of a kind is not used for another.
    let id = |catalog: &registry::Catalog| catalog.find("example.com", "v1", "widgets").unwrap().id;
    server.0.registry.install(widgets()).await.unwrap();
    assert_ne!(id(&after), id(&server.0.registry.catalog()));
}

/// A watch that goes on until it ends by itself.
async fn watch(server: &Server, path: &str) -> crate::Response {
    let request =
        http::Request::get(format!("{path}?watch=1&timeoutSeconds=600")).body(Bytes::new()).unwrap();
    let peer = Arc::new(Peer::plain(([127, 0, 0, 1], 1).into()));
    let mut request = Request::in_process(request, peer);
    request.head.extensions.insert(caller().await);
    server.0.handle(request).await.unwrap()
}

#[tokio::test]
async fn a_changed_kind_is_shown_as_it_is_now_and_its_watches_end() {
    let server = Server::start().await;
    server.0.registry.install(widgets()).await.unwrap();
    server
        .send("POST", WIDGETS, &widget("v1", r#""metadata":{"name":"a"},"spec":{"size":1}"#))
        .await
        .says(201, "a");
    server.get_as(WIDGETS, TABLE).await.says(200, r#""cells":["a","#);
    let mut widgets_watch = watch(&server, WIDGETS).await.into_body();
    let other_watch = watch(&server, "/api/v1/namespaces/n/configmaps").await;
    let first = widgets_watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(br#"{"type":"ADDED""#));
    let mut changed = widgets();
    let resource_type = Arc::get_mut(&mut changed.versions[0].resource_type).unwrap();
    resource_type.short_names = vec![Text::known("wd")];
    resource_type.columns =
        vec![ColumnDefinition { name: Text::known("Size"), ..ColumnDefinition::from(&Column::NAME) }];
    resource_type.row = RowFn::Custom(Arc::new(|widget: &Map| {
        let size = widget.get("spec").and_then(|spec| spec.get("size")).and_then(Value::as_i64);
        vec![kinds::Cell::Integer(size.unwrap_or_default())].into()
    }));
    server.0.registry.install(changed).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), widgets_watch.collect());
    let events = ended.await.expect("the watch ends").unwrap().to_bytes();
    assert!(events.is_empty(), "{}", String::from_utf8_lossy(&events));
    let next_event = tokio::time::timeout(Duration::from_millis(50), other_watch.into_body().collect());
    assert!(next_event.await.is_err(), "a watch of another kind goes on");
    let table = server.get_as(WIDGETS, TABLE).await;
    table.says(200, r#""name":"Size""#);
    table.says(200, r#""cells":[1]"#);
    server.get("/apis/example.com/v1").await.says(200, r#""shortNames":["wd"]"#);
}

#[tokio::test]
async fn a_removed_kind_leaves_nothing_behind_but_what_is_stored() {
    let server = Server::start().await;
    let ask = async |group: &str| {
        server.get_as("/apis", AGGREGATED).await.says(200, group);
        server.get("/openapi/v3").await.says(200, group);
        server.0.documents.kept()
    };
    let documents = ask("apps").await;
    server.0.registry.install(widgets()).await.unwrap();
    let [parts, v3] = ask("example.com").await;
    assert!(parts > documents[0] && v3 > documents[1]);
    server
        .send("POST", WIDGETS, &widget("v1", r#""metadata":{"name":"a"},"spec":{"size":1}"#))
        .await
        .says(201, "a");
    server.get_as(WIDGETS, TABLE).await.says(200, "a");
    let catalog = server.0.registry.catalog();
    let served = Arc::downgrade(catalog.find("example.com", "v1", "widgets").unwrap());
    let old = Arc::downgrade(&catalog);
    drop(catalog);
    let open = watch(&server, WIDGETS).await;
    assert!(server.0.registry.uninstall("example.com", "widgets").await.unwrap());
    let ended = tokio::time::timeout(Duration::from_secs(5), open.into_body().collect());
    let events = ended.await.expect("the watch ends").unwrap().to_bytes();
    assert!(!String::from_utf8_lossy(&events).contains("ERROR"));
    assert_eq!(server.get(WIDGETS).await.code, 404);
    assert!(server.0.registry.cache().resource("widgets.example.com").is_none());
    // Documents are made anew when they are asked for, and keep nothing of a kind that is gone.
    server.get("/apis").await.says(200, "apps");
    assert_eq!(ask("apps").await, documents, "documents of the kind are still in memory");
    assert!(served.upgrade().is_none(), "the kind is still in memory");
    assert!(old.upgrade().is_none(), "the catalog is still in memory");
    server.0.registry.install(widgets()).await.unwrap();
    server.get(&format!("{WIDGETS}/a")).await.says(200, r#""size":1"#);
    assert!(!server.0.registry.uninstall("example.com", "gadgets").await.unwrap());
    assert!(server.0.registry.uninstall("apps", "deployments").await.is_err());
}

#[tokio::test]
async fn requests_during_changes_of_a_kind_see_it_whole_or_not_at_all() {
    let server = Arc::new(Server::start().await);
    let changing = async {
        for round in 0..40 {
            server.0.registry.install(widgets()).await.unwrap();
            tokio::task::yield_now().await;
            if round % 2 == 0 {
                server.0.registry.uninstall("example.com", "widgets").await.unwrap();
            }
        }
    };
    let asking = async {
        for number in 0..200 {
            let body = widget("v1", &format!(r#""metadata":{{"name":"w{number}"}},"spec":{{"size":1}}"#));
            let made = server.send("POST", WIDGETS, &body).await;
            assert!(matches!(made.code, 201 | 404), "{}: {}", made.code, made.text());
            let list = server.get(WIDGETS).await;
            assert!(matches!(list.code, 200 | 404), "{}: {}", list.code, list.text());
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(changing, asking);
    server.get(WIDGETS).await.says(200, "WidgetList");
}

#[tokio::test]
async fn a_conversion_that_waits_is_used_by_reads_and_writes() {
    let server = Server::start().await;
    server.0.registry.install(converted_widgets("v1")).await.unwrap();
    let v2 = WIDGETS.replace("v1", "v2");
    for number in 0..150 {
        let body =
            widget("v2", &format!(r#""metadata":{{"name":"w{number:03}"}},"spec":{{"extent":{number}}}"#));
        server.send("POST", &v2, &body).await.says(201, &format!(r#""extent":{number}"#));
    }
    server.get(&format!("{WIDGETS}/w007")).await.says(200, r#""spec":{"size":7}"#);
    server.get(&format!("{v2}/w007")).await.says(200, r#""spec":{"extent":7}"#);
    server.get_as(&format!("{v2}/w007"), "application/yaml").await.says(200, "extent: 7");
    let list = server.get(&v2).await;
    list.says(200, r#""apiVersion":"example.com/v2""#);
    assert_eq!(list.text().matches(r#""extent":"#).count(), 150);
    assert_eq!(server.get_as(&v2, TABLE).await.text().matches(r#""cells":"#).count(), 150);
    server.send("PATCH", &format!("{v2}/w007"), r#"{"spec":{"extent":8}}"#).await.says(200, r#""extent":8"#);
    // The owners of both versions are kept.
    let patched = server.send("PATCH", &format!("{WIDGETS}/w007"), r#"{"spec":{"color":"blue"}}"#).await;
    patched.says(200, r#""spec":{"color":"blue","size":8}"#);
    patched.says(200, r#""apiVersion":"example.com/v2""#);
    let dry = server.send("PATCH", &format!("{v2}/w007?dryRun=All"), r#"{"spec":{"extent":9}}"#).await;
    dry.says(200, r#""extent":9"#);
    let events = server.get(&format!("{v2}?watch=1&timeoutSeconds=1")).await;
    assert_eq!(events.text().matches(r#""extent":"#).count(), 150);
    // What cannot be converted is an error, and not a false answer.
    let red = widget("v1", r#""metadata":{"name":"red"},"spec":{"size":1,"color":"red"}"#);
    server.send("POST", WIDGETS, &red).await.says(201, "red");
    server.get(&format!("{v2}/red")).await.says(500, "red is not converted");
    server.get(&format!("{WIDGETS}/red")).await.says(200, r#""color":"red""#);
}

#[tokio::test]
async fn objects_stay_readable_in_all_versions_when_the_storage_version_flips() {
    let server = Server::start().await;
    server.0.registry.install(converted_widgets("v1")).await.unwrap();
    let v2 = WIDGETS.replace("v1", "v2");
    server
        .send("POST", WIDGETS, &widget("v1", r#""metadata":{"name":"a"},"spec":{"size":1}"#))
        .await
        .says(201, "a");
    server.0.registry.install(converted_widgets("v2")).await.unwrap();
    server
        .send("POST", &v2, &widget("v2", r#""metadata":{"name":"b"},"spec":{"extent":2}"#))
        .await
        .says(201, "b");
    for (path, field) in [(WIDGETS, "size"), (v2.as_str(), "extent")] {
        for (name, number) in [("a", 1), ("b", 2)] {
            server
                .get(&format!("{path}/{name}"))
                .await
                .says(200, &format!(r#""spec":{{"{field}":{number}}}"#));
        }
        let list = server.get(path).await;
        assert_eq!(list.text().matches(&format!(r#""{field}":"#)).count(), 2, "{}", list.text());
    }
    // A write moves the object to the storage version.
    server.send("PATCH", &format!("{v2}/a"), "{}").await.says(200, r#""extent":1"#);
    let widgets = server.0.registry.cache().resource("widgets.example.com").unwrap();
    let stored = widgets.get("n", "a", cache::Freshness::Any).await.unwrap().unwrap();
    assert!(stored.bytes().starts_with(br#"{"kind":"Widget","apiVersion":"example.com/v2""#));
}

#[tokio::test]
async fn custom_kinds_are_negotiated_without_protobuf_and_strategic_patches() {
    let server = Server::start().await;
    server.0.registry.install(widgets()).await.unwrap();
    let one = format!("{WIDGETS}/a");
    let made = widget("v1", r#""metadata":{"name":"a"},"spec":{"size":1}"#);
    server.send("POST", WIDGETS, &made).await.says(201, "a");
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let all = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
    for path in [one.as_str(), WIDGETS] {
        let refused = server.get_as(path, PROTOBUF).await;
        assert_eq!((refused.code, refused.header("content-type")), (406, vec![PROTOBUF]));
        assert!(refused.text().contains(all), "{}", refused.text());
        for other in ["application/json", "*/*"] {
            let answer = server.get_as(path, &format!("{PROTOBUF},{other}")).await;
            assert_eq!((answer.code, answer.header("content-type")), (200, vec!["application/json"]));
        }
    }
    server.get_as(&one, "text/html").await.says(406, all);
    server.get(&format!("{one}/nothing")).await.says(404, r#"widgets.example.com \"a\" not found"#);
    let partial = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    assert_eq!(server.get_as(&one, &partial).await.header("content-type"), [PROTOBUF]);
    let patch_types = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml\"";
    for patch in ["application/strategic-merge-patch+json", "application/json"] {
        let request = http::Request::patch(&one).header(CONTENT_TYPE, patch);
        server.ask(request, "{}").await.says(415, patch_types);
    }
    let text = http::Request::post(WIDGETS).header(CONTENT_TYPE, "text/plain");
    server
        .ask(text, &made)
        .await
        .says(415, "application/json, application/yaml, application/vnd.kubernetes.protobuf");
}

#[tokio::test]
async fn custom_objects_say_what_they_are() {
    let server = Server::start().await;
    server.0.registry.install(widgets()).await.unwrap();
    let made = server.send("POST", WIDGETS, &widget("v1", r#""metadata":{"name":"a"}"#)).await;
    made.says(201, "a");
    let other = server
        .send("PUT", &format!("{WIDGETS}/a"), &widget("v9", r#""metadata":{"name":"a"},"spec":{}"#))
        .await;
    other.says(400, "the API version in the data (example.com/v9) does not match the expected API version (example.com/v1)");
    assert_eq!(other.header("warning"), [r#"299 - "unknown field \"spec\"""#]);
    let one = format!("{WIDGETS}/a");
    server.send("PATCH", &one, r#"{"kind":null}"#).await.says(422, "Object 'Kind' is missing in ");
    let patched = server.send("PATCH", &one, r#"{"spec":{"size":2,"bogus":1},"metadata":{"bogus":1}}"#).await;
    patched.says(200, r#""spec":{"size":2}"#);
    assert_eq!(
        patched.header("warning"),
        [r#"299 - "unknown field \"metadata.bogus\"""#, r#"299 - "unknown field \"spec.bogus\"""#]
    );
    server
        .send("PATCH", &format!("{one}?fieldValidation=Strict"), r#"{"spec":{"bogus":1}}"#)
        .await
        .says(422, r#"strict decoding error: unknown field \"spec.bogus\""#);
    server
        .send("PATCH", &one, r#"{"spec":{"object":{"kind":1}}}"#)
        .await
        .says(422, "spec.object.kind: Invalid value: 1: must be a string");
}

#[tokio::test]
async fn custom_objects_are_applied_by_their_schema() {
    let server = Server::start().await;
    server.0.registry.install(widgets()).await.unwrap();
    let apply = async |manager: &str, rest: &str| {
        let request = http::Request::patch(format!("{WIDGETS}/a?fieldManager={manager}"))
            .header(CONTENT_TYPE, "application/apply-patch+yaml");
        server.ask(request, &widget("v1", &format!(r#""metadata":{{"name":"a"}},{rest}"#))).await
    };
    apply("one", r#""spec":{"size":1,"tags":["x"]}"#).await.says(201, r#""f:tags":{"v:\"x\"":{}}"#);
    apply("two", r#""spec":{"tags":["y"]}"#).await.says(200, r#""tags":["x","y"]"#);
    apply("two", r#""spec":{"size":2}"#).await.says(409, r#"conflict with \"one\": .spec.size"#);
    apply("two", r#""spec":{"bogus":2}"#).await.says(
        500,
        "failed to create typed patch object (/a; example.com/v1, Kind=Widget): .spec.bogus: field not declared in schema",
    );
    apply("one", r#""spec":{"size":1}"#).await.says(200, r#""spec":{"size":1,"tags":["y"]}"#);
}

/// A conversion whose webhook is dead, and how often it was asked.
#[derive(Default)]
struct Dead(std::sync::atomic::AtomicUsize);

impl Dead {
    fn asked(&self) -> usize {
        self.0.load(std::sync::atomic::Ordering::SeqCst)
    }
}

impl Convert for Dead {
    fn convert<'a>(
        &'a self,
        _objects: Vec<Value>,
        _api_version: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Value>, ConvertError>> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let dead = registry::unknown_reason_500("the webhook is dead");
        Box::pin(async { Err(ConvertError::Unreachable(dead)) })
    }
}

const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Widgets that are kept in `v1`, which is not served any more, while the conversion to `v2` is dead.
async fn with_dead_conversion(server: &Server) -> Arc<Dead> {
    server.0.registry.install(converted_widgets("v1")).await.unwrap();
    for (name, finalizers) in [("a", "[]"), ("b", r#"["example.com/f"]"#), ("c", r#"["example.com/f"]"#)] {
        let body = format!(
            r#"{{"kind":"Widget","apiVersion":"example.com/v1","metadata":{{"name":"{name}","labels":{{"name":"{name}"}},"finalizers":{finalizers}}},"spec":{{"size":1}}}}"#
        );
        server.send("POST", WIDGETS, &body).await.says(201, name);
    }
    // An owner in another version.
    server.send("PATCH", &format!("{}/c", WIDGETS.replace("v1", "v2")), r#"{"spec":{"extent":2}}"#).await;
    let dead = Arc::new(Dead::default());
    let mut kind = converted_widgets("v2");
    kind.versions[0].served = false;
    kind.conversion = Conversion::Custom(dead.clone());
    server.0.registry.install(kind).await.unwrap();
    dead
}

pub(super) async fn stored_widget(server: &Server, name: &str) -> Option<String> {
    let widgets = server.0.registry.cache().resource("widgets.example.com").unwrap();
    let entry = widgets.get("n", name, cache::Freshness::Any).await.unwrap();
    entry.map(|entry| String::from_utf8(entry.bytes().to_vec()).unwrap())
}

#[tokio::test]
async fn metadata_is_read_without_a_conversion() {
    let server = Server::start().await;
    let dead = with_dead_conversion(&server).await;
    let v2 = WIDGETS.replace("v1", "v2");
    server.get_as(&format!("{v2}/a"), PARTIAL).await.says(200, r#""labels":{"name":"a"}"#);
    let list = server.get_as(&v2, PARTIAL_LIST).await;
    assert_eq!(list.text().matches(r#""uid":"#).count(), 3, "{}", list.text());
    let events = server.get_as(&format!("{v2}?watch=1&timeoutSeconds=1"), PARTIAL).await;
    assert_eq!(events.text().matches(r#""type":"ADDED""#).count(), 3, "{}", events.text());
    server.get(&format!("{v2}?labelSelector=name%3Dnone")).await.says(200, r#""items":[]"#);
    server.get(&format!("{v2}?fieldSelector=metadata.name%3Dnone")).await.says(200, r#""items":[]"#);
    assert_eq!(dead.asked(), 0);
    server.get(&v2).await.says(500, "the webhook is dead");
    let events = server.get(&format!("{v2}?watch=1&timeoutSeconds=1")).await;
    events.says(200, r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the webhook is dead","code":500}}"#);
}

#[tokio::test]
async fn dead_conversion_does_not_stop_deletes_and_metadata_patches() {
    let server = Server::start().await;
    let dead = with_dead_conversion(&server).await;
    let v2 = WIDGETS.replace("v1", "v2");
    server.send("DELETE", &format!("{v2}/a"), "").await.says(200, r#""status":"Success""#);
    assert_eq!(stored_widget(&server, "a").await, None);
    assert_eq!(dead.asked(), 1);
    // What is shown to a client is converted, after it was marked.
    server.send("DELETE", &format!("{v2}/b"), "").await.says(500, "the webhook is dead");
    let marked = stored_widget(&server, "b").await.unwrap();
    assert!(marked.starts_with(r#"{"kind":"Widget","apiVersion":"example.com/v1""#), "{marked}");
    assert!(marked.contains("deletionTimestamp") && marked.contains(r#""spec":{"size":1}"#), "{marked}");
    let asked = dead.asked();
    let client = registry::Client::new(server.0.registry.clone(), auth::SystemIdentity::ApiServer, "test");
    let address = registry::Address::v1("example.com", "widgets", "n");
    let address = registry::Address { version: "v2", ..address };
    let (pick, options) = (registry::ListOptions::default(), registry::DeleteOptions::default());
    client.delete_collection(address, &pick, &options).await.unwrap();
    assert!(stored_widget(&server, "c").await.unwrap().contains("deletionTimestamp"));
    let labelled = br#"{"metadata":{"labels":{"more":"labels"}}}"#;
    client.patch_metadata(address.named("c"), labelled).await.unwrap();
    let labelled = stored_widget(&server, "c").await.unwrap();
    assert!(labelled.starts_with(r#"{"kind":"Widget","apiVersion":"example.com/v1""#), "{labelled}");
    assert!(
        labelled.contains(r#""more":"labels""#) && labelled.contains(r#""spec":{"size":2}"#),
        "{labelled}"
    );
    // The owner in the other version is kept.
    assert!(labelled.contains(r#""f:extent":{}"#), "{labelled}");
    for name in ["b", "c"] {
        client.patch_metadata(address.named(name), br#"{"metadata":{"finalizers":null}}"#).await.unwrap();
        assert_eq!(stored_widget(&server, name).await, None);
    }
    assert_eq!(client.patch_metadata(address.named("b"), b"{}").await.unwrap_err().code, 404);
    assert_eq!(dead.asked(), asked);
}

#[tokio::test]
async fn delete_of_what_the_conversion_refuses_is_refused_to_clients_only() {
    let server = Server::start().await;
    server.0.registry.install(converted_widgets("v1")).await.unwrap();
    for name in ["a", "b"] {
        let body = widget("v1", &format!(r#""metadata":{{"name":"{name}"}},"spec":{{"color":"red"}}"#));
        server.send("POST", WIDGETS, &body).await.says(201, name);
    }
    let v2 = WIDGETS.replace("v1", "v2");
    for path in [format!("{v2}/a"), v2.clone(), format!("{v2}/a?dryRun=All")] {
        server.send("DELETE", &path, "").await.says(500, "red is not converted");
    }
    for name in ["a", "b"] {
        assert!(!stored_widget(&server, name).await.unwrap().contains("deletionTimestamp"));
    }
    let client = registry::Client::new(server.0.registry.clone(), auth::SystemIdentity::ApiServer, "test");
    let address = registry::Address::v1("example.com", "widgets", "n");
    let address = registry::Address { version: "v2", ..address };
    client.delete(address.named("a"), &registry::DeleteOptions::default()).await.unwrap();
    assert_eq!(stored_widget(&server, "a").await, None);
    // The storage version needs no conversion.
    server.send("DELETE", &format!("{WIDGETS}/b"), "").await.says(200, r#""status":"Success""#);
}

#[tokio::test]
async fn dead_conversion_does_not_stop_the_storage_version() {
    let server = Server::start().await;
    let dead = with_dead_conversion(&server).await;
    let mut kind = converted_widgets("v1");
    kind.conversion = Conversion::Custom(dead.clone());
    server.0.registry.install(kind).await.unwrap();
    server.get(&format!("{WIDGETS}/a")).await.says(200, r#""size":1"#);
    assert_eq!(server.get(WIDGETS).await.text().matches(r#""size":"#).count(), 3);
    server
        .send("POST", WIDGETS, &widget("v1", r#""metadata":{"name":"d"},"spec":{"size":4}"#))
        .await
        .says(201, "d");
    server.send("PATCH", &format!("{WIDGETS}/a"), r#"{"spec":{"size":5}}"#).await.says(200, r#""size":5"#);
    assert_eq!(dead.asked(), 0);
    // What the owners of another version own is not known.
    let patched = server.send("PATCH", &format!("{WIDGETS}/c"), r#"{"spec":{"size":6}}"#).await;
    patched.says(200, r#""size":6"#);
    assert!(!patched.text().contains("managedFields"), "{}", patched.text());
    server
        .send("POST", &WIDGETS.replace("v1", "v2"), &widget("v2", r#""metadata":{"name":"e"}"#))
        .await
        .says(500, "dead");
    assert_eq!(stored_widget(&server, "e").await, None);
}

#[tokio::test]
async fn unchanged_put_moves_an_object_to_the_storage_version() {
    let server = Server::start().await;
    server.0.registry.install(converted_widgets("v1")).await.unwrap();
    let v2 = format!("{}/a", WIDGETS.replace("v1", "v2"));
    server
        .send("POST", WIDGETS, &widget("v1", r#""metadata":{"name":"a"},"spec":{"size":1}"#))
        .await
        .says(201, "a");
    server.0.registry.install(converted_widgets("v2")).await.unwrap();
    let before = stored_widget(&server, "a").await.unwrap();
    let same = server.get(&v2).await.text().to_owned();
    server.send("PUT", &v2, &same).await.says(200, r#""extent":1"#);
    let after = stored_widget(&server, "a").await.unwrap();
    assert!(before.starts_with(r#"{"kind":"Widget","apiVersion":"example.com/v1""#), "{before}");
    assert!(after.starts_with(r#"{"kind":"Widget","apiVersion":"example.com/v2""#), "{after}");
    // Another one is not written.
    let same = server.get(&v2).await.text().to_owned();
    assert_eq!(server.send("PUT", &v2, &same).await.text(), same);
    let dry = server.send("DELETE", &format!("{WIDGETS}/a?dryRun=All"), "").await;
    dry.says(200, "");
    assert!(stored_widget(&server, "a").await.is_some());
}
