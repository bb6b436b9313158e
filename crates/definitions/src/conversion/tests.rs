//! Conversion webhooks behind real connections: what they are asked, and what their answers do.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schema::Status;
use serde_json::json;
use testkit::https::{Authority, HttpsServer, Reply, Request};

/// A webhook that answers each review by what its path says.
struct Setup {
    authority: Authority,
    server: HttpsServer,
}

impl Setup {
    fn new() -> Self {
        let authority = Authority::new().unwrap();
        let serving = authority.issue(&["127.0.0.1", "hook.ns.svc"]).unwrap();
        let server = HttpsServer::start(&serving, None, answer).unwrap();
        Self { authority, server }
    }

    fn config(&self, path: &str) -> serde_json::Value {
        json!({"url": format!("{}/{path}", self.server.url()), "caBundle": self.bundle()})
    }

    fn bundle(&self) -> String {
        STANDARD.encode(&self.authority.certificate)
    }

    /// Converts widgets of `v1` to `v2` with a webhook at a path.
    async fn convert(
        &self,
        path: &str,
        versions: &[&str],
        widgets: Vec<Value>,
    ) -> Result<Vec<Value>, String> {
        self.convert_with(&self.config(path), versions, widgets).await
    }

    async fn convert_with(
        &self,
        config: &serde_json::Value,
        versions: &[&str],
        widgets: Vec<Value>,
    ) -> Result<Vec<Value>, String> {
        self.try_convert_with(config, versions, widgets).await.map_err(|error| {
            let status = Status::from(error);
            assert_eq!((status.code, status.reason), (500, schema::status::Reason::Unknown));
            status.message
        })
    }

    async fn try_convert_with(
        &self,
        config: &serde_json::Value,
        versions: &[&str],
        widgets: Vec<Value>,
    ) -> Result<Vec<Value>, ConvertError> {
        let address = self.server.url().replace("https://", "");
        let services: ResolveService = Arc::new(move |service| match service.name.as_str() {
            "hook" => Ok(address.clone()),
            name => Err(format!("service \"{name}\" not found")),
        });
        let webhook = json!({"clientConfig": config, "conversionReviewVersions": versions});
        let conversion = json!({"strategy": "Webhook", "webhook": webhook});
        let definition =
            json!({"metadata": {"name": "widgets.example.com"}, "spec": {"conversion": conversion}});
        let ty = CustomResourceDefinition::schema();
        let decoded = json::decode(ty, definition.to_string().as_bytes(), &Limits::REQUEST).unwrap().value;
        let definition = CustomResourceDefinition::of(decoded.as_map().unwrap());
        let Conversion::Custom(convert) = of(definition, &Clients::new(services)) else {
            panic!("no webhook")
        };
        convert.convert(widgets, "example.com/v2").await
    }

    fn reviews(&self) -> Vec<serde_json::Value> {
        let requests = self.server.requests();
        requests.iter().map(|request| serde_json::from_str(&request.body).unwrap()).collect()
    }
}

fn value(json: &serde_json::Value) -> Value {
    json::decode_shape(&Shape::Any, json.to_string().as_bytes(), &Limits::STORED).unwrap().value
}

fn text(value: &Value) -> serde_json::Value {
    let mut out = Vec::new();
    json::encode_shape(&Shape::Any, value, &mut out);
    serde_json::from_slice(&out).unwrap()
}

fn widget(name: &str) -> Value {
    value(&json!({
        "kind": "Widget", "apiVersion": "example.com/v1",
        "metadata": {
            "name": name, "namespace": "n", "uid": "u", "generation": 3, "labels": {"a": "b"},
            "annotations": {"c": "d"}
        },
        "spec": {"size": 1}
    }))
}

/// Renames `size` to `extent`; then does what the path says.
fn answer(request: &Request) -> Reply {
    let review: serde_json::Value = serde_json::from_str(&request.body).unwrap();
    let path = request.path.split(['/', '?']).nth(1).unwrap();
    let mut objects = review["request"]["objects"].as_array().unwrap().clone();
    for object in &mut objects {
        object["apiVersion"] = review["request"]["desiredAPIVersion"].clone();
        object["spec"] = json!({"extent": object["spec"]["size"], "none": null});
    }
    let last = objects.len() - 1;
    let metadata = |objects: &mut Vec<serde_json::Value>, field: &str, value: serde_json::Value| {
        objects[last]["metadata"][field] = value;
    };
    let mut result = json!({"status": "Success"});
    let mut uid = review["request"]["uid"].clone();
    let (mut kind, mut api_version) = (json!("ConversionReview"), review["apiVersion"].clone());
    match path {
        "convert" => {
            metadata(&mut objects, "labels", json!({"new": "label"}));
            metadata(&mut objects, "generation", json!(99));
            objects[last]["metadata"].as_object_mut().unwrap().remove("annotations");
        }
        "uid" => uid = json!("other"),
        "refuse" => result = json!({"status": "Failure", "message": "too round"}),
        "mute" => result = json!({"status": "Failure"}),
        "missing" => drop(objects.pop()),
        "version" => objects[last]["apiVersion"] = json!("example.com/v3"),
        "kind" => objects[last]["kind"] = json!("Gadget"),
        "no-kind" => drop(objects[last].as_object_mut().unwrap().remove("kind")),
        "name" => metadata(&mut objects, "name", json!("other")),
        "namespace" => metadata(&mut objects, "namespace", json!("other")),
        "object-uid" => metadata(&mut objects, "uid", json!("other")),
        "label-type" => metadata(&mut objects, "labels", json!({"a": 1})),
        "labels-type" => metadata(&mut objects, "labels", json!([])),
        "label" => metadata(&mut objects, "labels", json!({"a": "not valid!"})),
        "annotation" => metadata(&mut objects, "annotations", json!({"!": ""})),
        "review-kind" => (kind, api_version) = (json!(null), json!(null)),
        "review-version" => api_version = json!("apiextensions.k8s.io/v2"),
        "no-response" => {
            return Reply::ok(json!({"kind": kind, "apiVersion": api_version}).to_string());
        }
        "nonsense" => return Reply::ok("nonsense"),
        "error" => return Reply::Json(500, "broken".into()),
        "close" => return Reply::Close,
        "endless" => return Reply::Endless,
        other => panic!("{other}"),
    }
    let response = json!({"uid": uid, "convertedObjects": objects, "result": result});
    Reply::ok(json!({"kind": kind, "apiVersion": api_version, "response": response}).to_string())
}

#[tokio::test]
async fn objects_are_converted_with_their_own_metadata_but_for_labels_and_annotations() {
    let setup = Setup::new();
    for version in ["v1", "v1beta1"] {
        let converted = setup.convert("convert", &["v0", version, "v1"], vec![widget("a")]).await.unwrap();
        let expected = json!({
            "kind": "Widget", "apiVersion": "example.com/v2",
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u", "generation": 3, "labels": {"new": "label"}
            },
            "spec": {"extent": 1, "none": null}
        });
        assert_eq!(text(&converted[0]), expected);
        let review = setup.reviews().pop().unwrap();
        assert_eq!(review["apiVersion"], format!("apiextensions.k8s.io/{version}"));
        assert_eq!(review["kind"], "ConversionReview");
        assert_eq!(review["request"]["desiredAPIVersion"], "example.com/v2");
        assert_eq!(review["request"]["objects"], json!([text(&widget("a"))]));
    }
    assert!(setup.server.requests()[0].path.starts_with("/convert?timeout=30s"));
    let versions = setup.convert("convert", &["v2"], vec![widget("a")]).await;
    assert_eq!(versions, Err("no supported conversion review versions".to_owned()));
}

#[tokio::test]
async fn webhook_behind_a_service_is_found() {
    let setup = Setup::new();
    let service = |name: &str| json!({"service": {"namespace": "ns", "name": name, "path": "/convert"}, "caBundle": setup.bundle()});
    let converted = setup.convert_with(&service("hook"), &["v1"], vec![widget("a")]).await.unwrap();
    assert_eq!(text(&converted[0])["spec"]["extent"], 1);
    let missing = setup.convert_with(&service("other"), &["v1"], vec![widget("a")]).await.unwrap_err();
    assert_eq!(
        missing,
        "conversion webhook for example.com/v1, Kind=Widget failed: \
         Post \"https://other.ns.svc:443/convert?timeout=30s\": service \"other\" not found"
    );
}

#[tokio::test]
async fn many_objects_go_together_in_reviews_of_bounded_size() {
    let setup = Setup::new();
    let widgets: Vec<Value> = (0..50).map(|number| widget(&format!("w{number}"))).collect();
    let converted = setup.convert("convert", &["v1"], widgets).await.unwrap();
    let names: Vec<_> = converted.iter().map(|object| text(object)["metadata"]["name"].clone()).collect();
    assert_eq!(names, (0..50).map(|number| json!(format!("w{number}"))).collect::<Vec<_>>());
    assert_eq!(setup.reviews().len(), 1);
    let large = |number: usize| {
        let mut large = text(&widget(&format!("w{number}")));
        large["spec"]["size"] = json!("x".repeat(900_000));
        value(&large)
    };
    assert_eq!(setup.convert("convert", &["v1"], (0..5).map(large).collect()).await.unwrap().len(), 5);
    let sizes: Vec<_> = setup.reviews()[1..]
        .iter()
        .map(|review| review["request"]["objects"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes, [2, 2, 1]);
}

#[tokio::test]
async fn faults_of_answers_are_named_in_the_words_of_the_reference() {
    let setup = Setup::new();
    let of = "conversion webhook for example.com/v1, Kind=Widget";
    for (path, expected) in [
        ("refuse", "failed: too round"),
        ("mute", "failed: response.result.status was 'Failure', not 'Success'"),
        ("no-response", "failed: no response provided"),
        ("missing", "returned 0 objects, expected 1"),
        (
            "review-kind",
            "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=",
        ),
        (
            "version",
            "returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v3)",
        ),
        ("kind", "returned invalid object at index 0: invalid kind (expected Widget, received Gadget)"),
        ("name", "returned invalid object: must have the same name: a != other"),
        ("namespace", "returned invalid object: must have the same namespace: n != other"),
        ("object-uid", "returned invalid object: must have the same UID: u != other"),
        (
            "label-type",
            "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object",
        ),
        (
            "labels-type",
            "returned invalid metadata: invalid metadata.labels of type []interface {} in converted object",
        ),
    ] {
        let error = setup.convert(path, &["v1"], vec![widget("a")]).await.unwrap_err();
        assert_eq!(error, format!("{of} {expected}"), "{path}");
    }
    for (path, part) in [
        ("uid", "failed: expected response.uid=\""),
        ("review-version", "failed: "),
        ("label", "returned invalid metadata: metadata.labels: Invalid value: \"not valid!\": "),
        ("annotation", "returned invalid metadata: metadata.annotation: Invalid value: \"!\": "),
        ("nonsense", "failed: "),
        ("error", "failed: an error on the server (\"broken\") has prevented the request from succeeding"),
        ("close", "failed: Post \"https://127.0.0.1:"),
        ("endless", "failed: Post \"https://127.0.0.1:"),
    ] {
        let error = setup.convert(path, &["v1"], vec![widget("a")]).await.unwrap_err();
        assert!(error.starts_with(&format!("{of} {part}")), "{path}: {error}");
        let error = setup.try_convert_with(&setup.config(path), &["v1"], vec![widget("a")]).await;
        let is_answered = path != "close";
        assert_eq!(matches!(error, Err(ConvertError::Failed(_))), is_answered, "{path}: {error:?}");
    }
    let error = setup.convert("no-kind", &["v1"], vec![widget("a")]).await.unwrap_err();
    assert!(error.starts_with("Object 'Kind' is missing in '{"), "{error}");
    // The older version is not checked for these.
    for path in ["uid", "review-kind"] {
        assert!(setup.convert(path, &["v1beta1"], vec![widget("a")]).await.is_ok(), "{path}");
    }
    for (path, expected) in [
        ("missing", "returned 1 objects, expected 2"),
        ("name", "returned invalid converted object at index 1: must have the same name: b != other"),
        (
            "label-type",
            "returned invalid metadata in object at index 1: metadata.labels[a] must be a string, but is int64 in converted object",
        ),
    ] {
        let error = setup.convert(path, &["v1"], vec![widget("a"), widget("b")]).await.unwrap_err();
        assert_eq!(error, format!("{of} {expected}"), "{path}");
    }
    let counted = |failure: &str| {
        let result = if failure.is_empty() { "success" } else { "failure" };
        families::REQUESTS.with([failure, result]).value()
    };
    assert_eq!(counted(""), 2);
    assert_eq!(counted("conversion_webhook_partial_response_failure"), 2);
    for failure in ["call", "malformed_response", "invalid_converted_object"] {
        assert!(counted(&format!("conversion_webhook_{failure}_failure")) > 1, "{failure}");
    }
}

#[tokio::test]
async fn webhook_that_is_not_trusted_or_not_there_fails() {
    let setup = Setup::new();
    let of = "conversion webhook for example.com/v1, Kind=Widget failed: ";
    let other = Authority::new().unwrap();
    let untrusted = json!({
        "url": format!("{}/convert", setup.server.url()), "caBundle": STANDARD.encode(&other.certificate)
    });
    let dead = json!({"url": "https://127.0.0.1:1/convert"});
    for config in [untrusted, dead, json!({})] {
        let error = setup.convert_with(&config, &["v1"], vec![widget("a")]).await.unwrap_err();
        assert!(error.starts_with(of), "{error}");
        let error = setup.try_convert_with(&config, &["v1"], vec![widget("a")]).await;
        assert!(matches!(error, Err(ConvertError::Unreachable(_))), "{error:?}");
    }
    assert!(setup.server.requests().is_empty());
}
