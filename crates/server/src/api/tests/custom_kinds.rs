//! Kinds that are registered at run time: served like built-in ones, changed and removed while requests and watches run.

use super::*;
use auth::BoxFuture;
use http_body_util::BodyExt;
use kinds::{Column, ColumnDefinition, ResourceType, RowFn, Scope};
use object::{Map, Text, Value};
use registry::{Conversion, Convert, CustomKind, CustomVersion};
use schema::{Builder, FieldBuilder, GroupVersionKind, Ref, Shape, Status, Type};

/// The type of widgets: `spec` with one number, called `field`.
fn ty(version: &str, field: &str) -> (GroupVersionKind, Ref<Type>) {
    let kind =
        GroupVersionKind { group: "example.com".into(), version: version.into(), kind: "Widget".into() };
    let spec = Builder::new(format!("com.example.{version}.WidgetSpec"))
        .field(field, FieldBuilder::new(Shape::Int64))
        .field("color", FieldBuilder::new(Shape::String))
        .build();
    let widget = Builder::new(format!("com.example.{version}.Widget")).kind(kind.clone()).object();
    (kind, widget.field("spec", FieldBuilder::new(Shape::Struct(spec))).build())
}

fn version(name: &str, field: &str, conversion: Conversion) -> CustomVersion {
    let (kind, ty) = ty(name, field);
    let resource_type = ResourceType::custom(&kind, "widgets", Scope::Namespaced, ty);
    CustomVersion { resource_type, served: true, conversion }
}

/// Widgets in `v1` alone.
fn widgets() -> CustomKind {
    CustomKind { versions: vec![version("v1", "size", Conversion::None)], storage_version: "v1".into() }
}

/// Renames `size` to `extent` for `v2`, after a while; refuses what is red.
struct Slow;

impl Convert for Slow {
    fn convert<'a>(
        &'a self,
        objects: Vec<Value>,
        api_version: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            objects.into_iter().map(|object| rename(object, api_version)).collect()
        })
    }
}

fn rename(mut object: Value, api_version: &str) -> Result<Value, Status> {
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
fn converted_widgets(storage: &str) -> CustomKind {
    let conversion = |name: &str| match name == storage {
        true => Conversion::None,
        false => Conversion::Custom(Arc::new(Slow)),
    };
    CustomKind {
        versions: vec![version("v1", "size", conversion("v1")), version("v2", "extent", conversion("v2"))],
        storage_version: storage.into(),
    }
}

const WIDGETS: &str = "/apis/example.com/v1/namespaces/n/widgets";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

#[tokio::test]
async fn a_registered_kind_is_served_by_every_verb() {
    let server = Server::start().await;
    assert_eq!(server.get(WIDGETS).await.code, 404);
    server.0.registry.install(widgets()).await.unwrap();
    let made = server.send("POST", WIDGETS, r#"{"metadata":{"name":"a"},"spec":{"size":1,"nope":2}}"#).await;
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
    server.send("PUT", &one, r#"{"metadata":{"name":"a"},"spec":{"size":5}}"#).await.says(200, r#""size":5"#);
    let list = server.get(WIDGETS).await;
    list.says(200, r#"{"kind":"WidgetList","apiVersion":"example.com/v1","#);
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
    all.says(200, r#""resource":"widgets","responseKind":{"group":"","version":"","kind":"Widget"}"#);
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
    let before = server.0.registry.catalog();
    let (apps, core) = (documents.v3(&before, "apis/apps/v1"), documents.v3(&before, "api/v1"));
    server.0.registry.install(widgets()).await.unwrap();
    let after = server.0.registry.catalog();
    assert!(after.generation() > before.generation());
    for (path, made) in [("apis/apps/v1", &apps), ("api/v1", &core)] {
        let now = documents.v3(&after, path);
        assert!(Arc::ptr_eq(now.as_ref().unwrap(), made.as_ref().unwrap()), "{path}");
    }
    // The document of all groups is made anew for a new catalog, and once.
    let aggregated = |catalog| documents.aggregated(catalog, openapi::discovery::Root::Apis);
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
    server.send("POST", WIDGETS, r#"{"metadata":{"name":"a"},"spec":{"size":1}}"#).await.says(201, "a");
    server.get_as(WIDGETS, TABLE).await.says(200, r#""cells":["a","#);
    let mut widgets_watch = watch(&server, WIDGETS).await.into_body();
    let other_watch = watch(&server, "/api/v1/namespaces/n/configmaps").await;
    let first = widgets_watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(br#"{"type":"ADDED""#));
    let mut changed = widgets();
    let resource_type = &mut changed.versions[0].resource_type;
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
    let goes_on = tokio::time::timeout(Duration::from_millis(50), other_watch.into_body().collect());
    assert!(goes_on.await.is_err(), "a watch of another kind goes on");
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
    server.send("POST", WIDGETS, r#"{"metadata":{"name":"a"},"spec":{"size":1}}"#).await.says(201, "a");
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
            let body = format!(r#"{{"metadata":{{"name":"w{number}"}},"spec":{{"size":1}}}}"#);
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
        let body = format!(r#"{{"metadata":{{"name":"w{number:03}"}},"spec":{{"extent":{number}}}}}"#);
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
    patched.says(200, r#""spec":{"size":8,"color":"blue"}"#);
    patched.says(200, r#""apiVersion":"example.com/v2""#);
    let dry = server.send("PATCH", &format!("{v2}/w007?dryRun=All"), r#"{"spec":{"extent":9}}"#).await;
    dry.says(200, r#""extent":9"#);
    let events = server.get(&format!("{v2}?watch=1&timeoutSeconds=1")).await;
    assert_eq!(events.text().matches(r#""extent":"#).count(), 150);
    // What cannot be converted is an error, and not a false answer.
    let red = r#"{"metadata":{"name":"red"},"spec":{"size":1,"color":"red"}}"#;
    server.send("POST", WIDGETS, red).await.says(201, "red");
    server.get(&format!("{v2}/red")).await.says(500, "red is not converted");
    server.get(&format!("{WIDGETS}/red")).await.says(200, r#""color":"red""#);
}

#[tokio::test]
async fn objects_stay_readable_in_all_versions_when_the_storage_version_flips() {
    let server = Server::start().await;
    server.0.registry.install(converted_widgets("v1")).await.unwrap();
    let v2 = WIDGETS.replace("v1", "v2");
    server.send("POST", WIDGETS, r#"{"metadata":{"name":"a"},"spec":{"size":1}}"#).await.says(201, "a");
    server.0.registry.install(converted_widgets("v2")).await.unwrap();
    server.send("POST", &v2, r#"{"metadata":{"name":"b"},"spec":{"extent":2}}"#).await.says(201, "b");
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
