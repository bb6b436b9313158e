//! The paths of custom kinds: the verb of a request decides, and subresources have few verbs. Scales and
//! generated names.

use super::custom_kinds::{TABLE, WIDGETS, converted_widgets, version, widget, widgets};
use super::*;
use kinds::{CustomStrategy, Generation, ScalePaths, Subresource};
use object::Text;
use registry::CustomKind;
use schema::Ref;

/// Widgets with the subresources `status` and `scale`; the replicas are `size`.
fn scaled() -> CustomKind {
    let mut kind = CustomKind { versions: vec![version("v1", "size")], ..widgets() };
    let resource_type = Arc::get_mut(&mut kind.versions[0].resource_type).unwrap();
    let path = |steps: [&str; 2]| steps.into_iter().map(Text::from).collect();
    let paths = Ref::Shared(Arc::new(ScalePaths {
        spec_replicas: path(["spec", "size"]),
        status_replicas: path(["status", "size"]),
        selector: path(["spec", "color"]),
        are_open: true,
    }));
    resource_type.subresources = vec![Subresource::STATUS, Subresource::scale(paths.clone())];
    resource_type.generation = Generation::Counted;
    let schema = resource_type.ty.custom.clone().unwrap();
    resource_type.strategy = Ref::Shared(Arc::new(CustomStrategy::new(schema, true, Some(paths))));
    kind
}

async fn server() -> Server {
    let server = Server::start().await;
    server.0.registry.install(scaled()).await.unwrap();
    let made = widget("v1", r#""metadata":{"name":"a"},"spec":{"size":1}"#);
    server.send("POST", WIDGETS, &made).await.says(201, "a");
    server
}

#[tokio::test]
async fn verb_decides_about_the_path_of_a_custom_kind() {
    let server = server().await;
    let a = widget("v1", r#""metadata":{"name":"a"}"#);
    let named = "name must be provided";
    server.send("PUT", WIDGETS, &a).await.says(400, named);
    server.send("PATCH", WIDGETS, "{}").await.says(400, named);
    let unknown_type = http::Request::patch(WIDGETS).header(CONTENT_TYPE, "text/plain");
    assert_eq!(server.ask(unknown_type, "{}").await.code, 415);
    let one = format!("{WIDGETS}/a");
    server.send("POST", &one, &a).await.says(409, r#"widgets.example.com \"a\" already exists"#);
    let b = widget("v1", r#""metadata":{"name":"b"}"#);
    server.send("POST", &one, &b).await.says(201, r#""name":"b""#);
    server.get(&format!("{one}/status/x")).await.says(200, r#""name":"a""#);
    let head = server.ask(http::Request::head(&one), "").await;
    assert_eq!((head.code, head.header("content-type")), (200, vec!["application/json"]));
    let all = "/apis/example.com/v1/widgets";
    server.get(all).await.says(200, "WidgetList");
    for method in ["POST", "DELETE", "PUT"] {
        server.send(method, all, &a).await.says(404, "404 page not found");
    }
    server.get(&format!("{all}/a")).await.says(404, "404 page not found");
}

#[tokio::test]
async fn unsupported_verb_of_a_custom_kind_is_named_in_the_accepted_format() {
    let server = server().await;
    for (method, path, verb) in [
        ("POST", format!("{WIDGETS}/a/status"), "create"),
        ("DELETE", format!("{WIDGETS}/a/status"), "delete"),
        ("DELETE", format!("{WIDGETS}/a/scale"), "delete"),
        ("GET", format!("{WIDGETS}//status"), "list"),
        ("OPTIONS", format!("{WIDGETS}/a"), ""),
        ("GET", "/apis/example.com/v1/watch/namespaces/n/widgets/a/status".to_owned(), "watch"),
        ("GET", "/apis/example.com/v1/proxy/namespaces/n/widgets/a".to_owned(), "proxy"),
    ] {
        let refused = server.send(method, &path, "").await;
        let message = format!(
            r#""message":"{verb} is not supported on resources of kind \"widgets.example.com\"","reason":"MethodNotAllowed","details":{{"group":"example.com","kind":"widgets"}}"#
        );
        refused.says(405, &message);
    }
    let path = format!("{WIDGETS}/a/status");
    let refused = server.ask(http::Request::delete(&path).header(ACCEPT, "application/yaml"), "").await;
    refused.says(405, "message: delete is not supported");
    server.get_as(&format!("{WIDGETS}/a/x"), "application/yaml").await.says(404, "reason: NotFound");
}

#[tokio::test]
async fn terminating_definition_refuses_creates_whatever_their_body() {
    let server = server().await;
    assert!(server.0.registry.terminate("example.com", "widgets").await);
    let why = "create not allowed while custom resource definition is terminating";
    server.send("POST", WIDGETS, "{").await.says(405, why);
    server.send("PATCH", &format!("{WIDGETS}/a"), r#"{"spec":{"color":"x"}}"#).await.says(200, "x");
}

#[tokio::test]
async fn custom_object_without_replicas_has_no_scale_until_they_are_set() {
    let server = server().await;
    let made = widget("v1", r#""metadata":{"name":"b"},"spec":{"color":"x=y"}"#);
    server.send("POST", WIDGETS, &made).await.says(201, "b");
    let scale = format!("{WIDGETS}/b/scale");
    let missing = server.get(&scale).await;
    missing.says(500, r#""message":"Internal error occurred: the spec replicas field \".spec.size\" does not exist","reason":"InternalError""#);
    let labelled = r#"{"metadata":{"labels":{"x":"y"}}}"#;
    server
        .send("PATCH", &scale, labelled)
        .await
        .says(400, r#"the spec replicas field \".spec.size\" cannot be empty"#);
    server
        .send("PATCH", &scale, r#"{"spec":{"replicas":-1}}"#)
        .await
        .says(422, r#"Widget.example.com \"b\" is invalid: .spec.size: Invalid value: -1: should be a non-negative integer"#);
    server.send("PATCH", &scale, r#"{"spec":{"replicas":0}}"#).await.says(200, r#""spec":{}"#);
    server.get(&scale).await.says(200, r#""selector":"x=y""#);
    server.get(&format!("{WIDGETS}/b")).await.says(200, r#""size":0"#);
    let wrong = r#"{"spec":{"replicas":"x"}}"#;
    assert_eq!(server.send("PATCH", &scale, wrong).await.code, 422);
}

#[tokio::test]
async fn scale_of_an_object_without_managed_fields_is_written_and_not_tracked() {
    let server = server().await;
    let one = format!("{WIDGETS}/a");
    let bare = server.send("PATCH", &one, r#"{"metadata":{"managedFields":[{}]}}"#).await;
    bare.says(200, r#""size":1"#);
    assert!(!bare.text().contains("managedFields"), "{}", bare.text());
    let scale = format!("{one}/scale");
    let scaled = server.send("PATCH", &format!("{scale}?fieldManager=m"), r#"{"spec":{"replicas":3}}"#).await;
    scaled.says(200, r#""spec":{"replicas":3}"#);
    let scaled = server.get(&one).await;
    scaled.says(200, r#""spec":{"size":3}"#);
    assert!(!scaled.text().contains("managedFields"), "{}", scaled.text());
    let put = r#"{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"a","namespace":"n"},"spec":{"replicas":4}}"#;
    server.send("PUT", &scale, put).await.says(200, r#""replicas":4"#);
    server.get(&one).await.says(200, r#""generation":3"#);
}

#[tokio::test]
async fn an_applied_null_is_refused_and_one_that_is_created_or_patched_is_not() {
    let server = server().await;
    let null = widget("v1", r#""metadata":{"name":"b"},"spec":{"size":null}"#);
    let apply = http::Request::patch(format!("{WIDGETS}/b?fieldManager=m"))
        .header(CONTENT_TYPE, "application/apply-patch+yaml");
    let refused =
        r#"spec.size: Invalid value: \"null\": spec.size in body must be of type integer: \"null\""#;
    server.ask(apply, &null).await.says(422, refused);
    server.send("POST", WIDGETS, &null).await.says(201, r#""spec":{}"#);
    server
        .send("PATCH", &format!("{WIDGETS}/a"), r#"{"spec":{"size":null}}"#)
        .await
        .says(200, r#""spec":{}"#);
}

#[tokio::test]
async fn names_of_custom_objects_are_generated() {
    let server = server().await;
    let body = widget("v1", r#""metadata":{"generateName":"w-"},"spec":{"size":1}"#);
    let mut names = std::collections::HashSet::new();
    for _ in 0..3 {
        let made = server.send("POST", WIDGETS, &body).await;
        made.says(201, r#""generateName":"w-""#);
        made.says(201, r#""f:generateName":{}"#);
        let (_, name) =
            made.text().split_once(r#""name":"w-"#).map(|(a, b)| (a.len(), b[..5].to_owned())).unwrap();
        server.get(&format!("{WIDGETS}/w-{name}")).await.says(200, &name);
        names.insert(name);
    }
    assert_eq!(names.len(), 3);
    server
        .send("POST", WIDGETS, &widget("v1", r#""metadata":{"generateName":"W_"}"#))
        .await
        .says(422, "metadata.generateName: Invalid value");
}

#[tokio::test]
async fn what_a_custom_group_does_not_have_is_an_unknown_path() {
    let server = Server::start().await;
    let mut kind = converted_widgets("v1");
    kind.versions[1].served = false;
    server.0.registry.install(kind).await.unwrap();
    for path in [
        "/apis/example.com/v2",
        "/apis/example.com/v2/",
        "/apis/example.com/v9",
        "/apis/example.com/v2/namespaces/n/widgets",
        "/apis/example.com/v2/namespaces/n/widgets/a",
        "/apis/example.com/v9/widgets",
        "/apis/example.com/v1/gadgets",
        "/apis/example.com/v1/proxy/gadgets/a",
        "/apis/example.com/v1/widgets/a",
        "/apis/unknown.example.com",
        "/apis/unknown.example.com/v1",
        "/apis/unknown.example.com/v1/widgets",
    ] {
        let missing = server.get(path).await;
        assert_eq!((missing.code, missing.text().as_str()), (404, "404 page not found\n"), "{path}");
    }
    for path in ["/apis/apps/v9", "/apis/apps/v1/gadgets", "/apis/apps/v9/deployments"] {
        server.get(path).await.says(404, "the server could not find the requested resource");
    }
    server.get(&format!("{WIDGETS}/a/none")).await.says(404, r#"widgets.example.com \"a\" not found"#);
}

#[tokio::test]
async fn scale_of_a_custom_kind_has_its_own_columns() {
    let server = server().await;
    let none = widget("v1", r#""metadata":{"name":"none"},"spec":{"size":0}"#);
    server.send("POST", WIDGETS, &none).await.says(201, "none");
    for (name, cells) in [("a", r#""cells":["a",1,0,""#), ("none", r#""cells":["none",null,0,""#)] {
        let table = server.get_as(&format!("{WIDGETS}/{name}/scale"), TABLE).await;
        table.says(200, r#"[{"name":"Name","type":"string","format":"name","#);
        table.says(200, r#"{"name":"Desired","type":"integer","format":"","description":"Number of desired replicas","priority":0}"#);
        table.says(200, r#"{"name":"Available","type":"integer","format":"","description":"Number of actual replicas","priority":0}"#);
        table.says(200, r#"{"name":"Age","type":"date","format":"","#);
        table.says(200, cells);
    }
}
