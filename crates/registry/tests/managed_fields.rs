//! Managed fields and server-side apply through the verbs, on a store in memory.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::sync::Arc;

use auth::{Attributes, Authenticated, Authorized, Authorizer, SystemIdentity, Target as Wanted};
use cache::Cache;
use object::Value;
use registry::{Answer, ApplyFormat, Config, Content, Force, Patch, Registry, Target, WriteOptions, specs};
use schema::{Limits, Shape, Status, builtin, json};
use store::memory::{self, Memory};

struct Api(Registry);

/// `group/version/resource/name/subresource` of something in the namespace `default`.
type Place = &'static str;

const MAP: Place = "/v1/configmaps/a/";
const DEPLOYMENT: Place = "apps/v1/deployments/a/";
const DEPLOYMENT_STATUS: Place = "apps/v1/deployments/a/status";
const SCALE: Place = "apps/v1/deployments/a/scale";

async fn proof(verb: &'static str, place: Place) -> Authorized {
    let mut parts = place.split('/').map(str::to_owned);
    let mut next = || parts.next().unwrap();
    let (group, version, resource, name, subresource) = (next(), next(), next(), next(), next());
    let namespace = if resource == "namespaces" { "" } else { "default" }.to_owned();
    let name = if verb == "create" { String::new() } else { name };
    let target = Wanted::Resource { group, version, resource, subresource, namespace, name };
    let caller = Authenticated::system(SystemIdentity::ApiServer);
    Authorizer::always_allow().authorize(caller, Attributes::new(verb, target)).await.unwrap()
}

fn by(manager: &str) -> WriteOptions {
    WriteOptions { field_manager: manager.into(), ..WriteOptions::default() }
}

fn forced(manager: &str) -> WriteOptions {
    WriteOptions { force: Force::Yes, ..by(manager) }
}

impl Api {
    async fn start() -> Self {
        Self::over(memory::MemoryOptions::default()).await
    }

    async fn over(options: memory::MemoryOptions) -> Self {
        let store = Arc::new(Memory::new(options));
        let cache = Cache::open(store, specs().unwrap(), cache::CacheOptions::default()).await.unwrap();
        let config = Config::new(&cache).unwrap();
        let api = Self(Registry::new(Arc::new(cache), config).unwrap());
        api.create("/v1/namespaces/default/", r#"{"metadata":{"name":"default"}}"#, "test").await;
        api
    }

    fn tree(target: &Target<'_>, text: &str) -> Value {
        let ty = match target.subresource().map(|subresource| subresource.name) {
            Some("scale") => builtin::by_kind("autoscaling", "v1", "Scale").unwrap().into(),
            _ => target.served().ty.clone(),
        };
        json::decode(ty, text.as_bytes(), &Limits::REQUEST).unwrap().value
    }

    async fn create(&self, place: Place, text: &str, manager: &str) -> Value {
        let proof = proof("create", place).await;
        let catalog = self.0.catalog();
        let target = Target::find(&proof, &catalog).unwrap();
        shown(&self.0.create(&target, Self::tree(&target, text), &by(manager)).await.unwrap())
    }

    async fn update(&self, place: Place, text: &str, manager: &str) -> Value {
        let proof = proof("update", place).await;
        let catalog = self.0.catalog();
        let target = Target::find(&proof, &catalog).unwrap();
        shown(&self.0.update(&target, Self::tree(&target, text), &by(manager)).await.unwrap())
    }

    async fn patch(&self, place: Place, patch: &str, manager: &str) -> Value {
        let proof = proof("patch", place).await;
        let catalog = self.0.catalog();
        let target = Target::find(&proof, &catalog).unwrap();
        shown(&self.0.patch(&target, Patch::Merge, patch.as_bytes(), &by(manager)).await.unwrap())
    }

    async fn apply(&self, place: Place, config: &str, options: &WriteOptions) -> Result<Answer, Status> {
        let proof = proof("patch", place).await;
        let catalog = self.0.catalog();
        let target = Target::find(&proof, &catalog)?;
        self.0.apply(&target, ApplyFormat::Yaml, config.as_bytes(), options).await
    }

    async fn applied(&self, place: Place, config: &str, options: &WriteOptions) -> Value {
        shown(&self.apply(place, config, options).await.unwrap())
    }

    async fn get(&self, place: Place) -> Value {
        let proof = proof("get", place).await;
        let catalog = self.0.catalog();
        let target = Target::find(&proof, &catalog).unwrap();
        shown(&Answer { code: 200, content: self.0.get(&target, "").await.unwrap() })
    }
}

fn shown(answer: &Answer) -> Value {
    let text = match &answer.content {
        Content::Entry(entry) => entry.bytes().to_vec(),
        Content::Tree(value) => return value.clone(),
        Content::Other { ty, value } => {
            let mut out = Vec::new();
            json::encode(ty, value, &mut out);
            out
        }
    };
    json::decode_shape(&Shape::Any, &text, &Limits::REQUEST).unwrap().value
}

/// The owners: `manager operation version subresource fields`.
fn owners(object: &Value) -> Vec<String> {
    let entries = object.get("metadata").and_then(|metadata| metadata.get("managedFields"));
    let word = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or("-").to_owned();
    let all = entries.and_then(Value::as_list).unwrap_or_default().iter().map(|entry| {
        let words = ["manager", "operation", "apiVersion", "subresource"].map(|key| word(entry, key));
        format!("{} {}", words.join(" "), fields(entry.get("fieldsV1").unwrap()))
    });
    all.collect()
}

fn fields(set: &Value) -> String {
    if let Value::Raw(raw) = set {
        return raw.as_str().to_owned();
    }
    let mut out = Vec::new();
    json::encode_shape(&Shape::Any, set, &mut out);
    String::from_utf8(out).unwrap()
}

fn version(object: &Value) -> &str {
    object.get("metadata").and_then(|metadata| metadata.get("resourceVersion")).unwrap().as_str().unwrap()
}

fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, key| value.get(key))
}

#[tokio::test]
async fn creator_owns_its_fields_and_updater_those_it_changed() {
    let api = Api::start().await;
    let made = api.create(MAP, r#"{"metadata":{"name":"a"},"data":{"x":"1","z":"2"}}"#, "one").await;
    assert_eq!(owners(&made), [r#"one Update v1 - {"f:data":{".":{},"f:x":{},"f:z":{}}}"#]);
    let changed = api.update(MAP, r#"{"metadata":{"name":"a"},"data":{"x":"1","z":"3"}}"#, "two").await;
    assert_eq!(
        owners(&changed),
        [r#"one Update v1 - {"f:data":{".":{},"f:x":{}}}"#, r#"two Update v1 - {"f:data":{"f:z":{}}}"#]
    );
    let patched = api.patch(MAP, r#"{"data":{"x":null},"metadata":{"labels":{"l":"m"}}}"#, "").await;
    assert_eq!(
        owners(&patched),
        [
            r#"one Update v1 - {"f:data":{}}"#,
            r#"two Update v1 - {"f:data":{"f:z":{}}}"#,
            r#"unknown Update v1 - {"f:metadata":{"f:labels":{".":{},"f:l":{}}}}"#
        ]
    );
}

#[tokio::test]
async fn status_is_owned_through_its_subresource_only() {
    let api = Api::start().await;
    let spec = r#""spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}"#;
    let text = format!(r#"{{"metadata":{{"name":"a"}},{spec},"status":{{"replicas":1}}}}"#);
    let made = api.create(DEPLOYMENT, &text, "one").await;
    assert!(!owners(&made)[0].contains("f:status"), "{:?}", owners(&made));
    assert!(
        owners(&made)[0].contains("f:progressDeadlineSeconds"),
        "defaults are the writer's: {:?}",
        owners(&made)
    );
    let text =
        format!(r#"{{"metadata":{{"name":"a","labels":{{"l":"m"}}}},{spec},"status":{{"replicas":1}}}}"#);
    let text = text.replace(r#""image":"i""#, r#""image":"j""#);
    let changed = api.update(DEPLOYMENT_STATUS, &text, "two").await;
    assert_eq!(owners(&changed)[1], r#"two Update apps/v1 status {"f:status":{"f:replicas":{}}}"#);
    let missing =
        api.apply("apps/v1/deployments/z/status", "{apiVersion: apps/v1, kind: Deployment}", &by("x")).await;
    assert_eq!(missing.unwrap_err().code, 404);
}

#[tokio::test]
async fn update_that_changes_only_entry_times_is_not_written() {
    let api = Api::start().await;
    let made = api.create(MAP, r#"{"metadata":{"name":"a"},"data":{"x":"1"}}"#, "one").await;
    let text = r#"{"metadata":{"name":"a","managedFields":[{"manager":"one","operation":"Update","apiVersion":"v1","time":"2020-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:x":{}}}}]},"data":{"x":"1"}}"#;
    assert_eq!(version(&api.update(MAP, text, "one").await), version(&made));
    let config = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: '1'}}";
    let applied = api.applied(MAP, config, &by("two")).await;
    assert_ne!(version(&applied), version(&made), "there is a new owner");
    assert_eq!(version(&api.applied(MAP, config, &by("two")).await), version(&applied));
}

#[tokio::test]
async fn apply_creates_the_object_and_removes_fields_it_no_longer_lists() {
    let api = Api::start().await;
    let config = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: '1', z: '2'}}";
    let made = api.apply(MAP, config, &by("one")).await.unwrap();
    assert_eq!(made.code, 201);
    assert_eq!(owners(&shown(&made)), [r#"one Apply v1 - {"f:data":{"f:x":{},"f:z":{}}}"#]);
    assert!(at(&shown(&made), "metadata.uid").is_some());
    let config = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {z: '2'}}";
    let again = api.apply(MAP, config, &by("one")).await.unwrap();
    assert_eq!(again.code, 200);
    assert_eq!(at(&shown(&again), "data").and_then(Value::as_map).unwrap().len(), 1);
    assert_eq!(owners(&shown(&again)), [r#"one Apply v1 - {"f:data":{"f:z":{}}}"#]);
}

#[tokio::test]
async fn apply_of_fields_of_another_manager_conflicts_unless_forced() {
    let api = Api::start().await;
    api.create(MAP, r#"{"metadata":{"name":"a"},"data":{"x":"1","z":"2"}}"#, "one").await;
    let config = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: '3', z: '2'}}";
    let refused = api.apply(MAP, config, &by("two")).await.unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (409, "Conflict"));
    assert_eq!(refused.message, r#"Apply failed with 1 conflict: conflict with "one" using v1: .data.x"#);
    let causes = refused.details.unwrap().causes;
    assert_eq!((causes[0].reason.as_str(), causes[0].field.as_str()), ("FieldManagerConflict", ".data.x"));
    assert_eq!(causes[0].message, r#"conflict with "one" using v1"#);
    let dry = WriteOptions { dry_run: true, ..forced("two") };
    assert_eq!(at(&api.applied(MAP, config, &dry).await, "data.x"), Some(&"3".into()));
    assert_eq!(at(&api.get(MAP).await, "data.x"), Some(&"1".into()), "nothing is kept of a dry run");
    assert_eq!(
        owners(&api.applied(MAP, config, &forced("two")).await),
        [
            r#"two Apply v1 - {"f:data":{"f:x":{},"f:z":{}}}"#,
            r#"one Update v1 - {"f:data":{".":{},"f:z":{}}}"#
        ]
    );
}

#[tokio::test]
async fn invalid_apply_configuration_is_refused() {
    let api = Api::start().await;
    for (config, code, message) in [
        ("[", 400, "error decoding YAML: "),
        (
            "[a]",
            400,
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array",
        ),
        ("", 400, "invalid object type: /, Kind="),
        ("{apiVersion: v2, kind: ConfigMap}", 400, "invalid object type: /v2, Kind=ConfigMap"),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {managedFields: []}}",
            400,
            "metadata.managedFields must be nil",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, spec: 1}",
            500,
            "failed to create typed patch object (/; /v1, Kind=ConfigMap): .spec: field not declared in schema",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}",
            400,
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap}",
            400,
            "the name of the object (a based on URL) was undeterminable",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, uid: u}}",
            409,
            "Operation cannot be fulfilled on configmaps \"a\": uid mismatch: the provided object specified uid u, and no existing object was found",
        ),
    ] {
        let refused = api.apply(MAP, config, &by("one")).await.unwrap_err();
        assert!(refused.code == code && refused.message.starts_with(message), "{config}: {refused:?}");
    }
}

#[tokio::test]
async fn replicas_change_owner_through_scale() {
    let api = Api::start().await;
    let config = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}";
    api.applied(DEPLOYMENT, config, &by("one")).await;
    api.update(SCALE, r#"{"metadata":{"name":"a"},"spec":{"replicas":3}}"#, "two").await;
    let scaled = api.get(DEPLOYMENT).await;
    assert_eq!(at(&scaled, "spec.replicas"), Some(&3.into()));
    assert_eq!(owners(&scaled)[1], r#"two Update apps/v1 scale {"f:spec":{"f:replicas":{}}}"#);
    assert!(!owners(&scaled)[0].contains("replicas"), "{:?}", owners(&scaled));
    let config = "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: a}, spec: {replicas: 5}}";
    let refused = api.apply(SCALE, config, &by("three")).await.unwrap_err();
    assert_eq!(
        refused.message,
        r#"Apply failed with 1 conflict: conflict with "two" with subresource "scale" using autoscaling/v1: .spec.replicas"#
    );
    api.applied(SCALE, config, &forced("three")).await;
    let scaled = api.get(DEPLOYMENT).await;
    assert_eq!(at(&scaled, "spec.replicas"), Some(&5.into()));
    assert!(
        owners(&scaled).contains(&r#"three Apply apps/v1 scale {"f:spec":{"f:replicas":{}}}"#.into()),
        "{:?}",
        owners(&scaled)
    );
}

#[tokio::test]
async fn single_empty_managed_fields_entry_resets_them() {
    let api = Api::start().await;
    api.create(MAP, r#"{"metadata":{"name":"a"},"data":{"x":"1"}}"#, "one").await;
    let kept = api.patch(MAP, r#"{"metadata":{"managedFields":[]}}"#, "two").await;
    assert_eq!(owners(&kept).len(), 1);
    let forgotten = api.patch(MAP, r#"{"metadata":{"managedFields":[{}]}}"#, "two").await;
    assert!(owners(&forgotten).is_empty());
    let config = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {z: '1'}}";
    assert_eq!(
        owners(&api.applied(MAP, config, &by("two")).await),
        [
            r#"two Apply v1 - {"f:data":{"f:z":{}}}"#,
            r#"before-first-apply Update v1 - {"f:data":{".":{},"f:x":{}}}"#
        ]
    );
}

#[tokio::test]
async fn owned_fields_are_kept_across_versions() {
    let api = Api::start().await;
    let v2: Place = "autoscaling/v2/horizontalpodautoscalers/a/";
    let v1: Place = "autoscaling/v1/horizontalpodautoscalers/a/";
    let spec = "scaleTargetRef: {kind: Deployment, name: d, apiVersion: apps/v1}, maxReplicas: 3";
    let config = format!(
        "{{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {{name: a}}, spec: {{{spec}}}}}"
    );
    api.applied(v2, &config, &by("one")).await;
    let patched =
        api.patch(v1, r#"{"spec":{"maxReplicas":5,"targetCPUUtilizationPercentage":50}}"#, "two").await;
    let all = owners(&patched);
    assert_eq!(
        all[0],
        r#"one Apply autoscaling/v2 - {"f:spec":{"f:scaleTargetRef":{"f:apiVersion":{},"f:kind":{},"f:name":{}}}}"#
    );
    assert!(
        all[1].starts_with("two Update autoscaling/v1 - ") && all[1].contains(r#""f:maxReplicas":{}"#),
        "{all:?}"
    );
    let refused = api.apply(v2, &config, &by("one")).await.unwrap_err();
    assert_eq!(
        refused.message,
        r#"Apply failed with 1 conflict: conflict with "two" using autoscaling/v1: .spec.maxReplicas"#
    );
}

/// The store takes the object, but not with the managed fields of a writer. A write without them is what the
/// reference does.
#[tokio::test]
async fn managed_fields_that_are_too_large_for_the_store_are_dropped_but_by_an_apply() {
    let api = Api::over(memory::MemoryOptions { value_limit: 150_000, ..Default::default() }).await;
    let data: Vec<String> = (0..1_000)
        .map(|number| {
            format!(r#""a-key-that-is-long-so-that-the-fields-are-large-as-well-{number:040}":"A""#)
        })
        .collect();
    let large =
        format!(r#"{{"metadata":{{"name":"a","namespace":"default"}},"data":{{{}}}}}"#, data.join(","));
    let written = api.create(MAP, &large, "one").await;
    assert!(owners(&written).is_empty() && owners(&api.get(MAP).await).is_empty());
    assert_eq!(at(&api.get(MAP).await, "data").unwrap().as_map().unwrap().len(), 1_000);

    let config = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"a":"b"}}}"#;
    assert_eq!(api.apply(MAP, config, &by("two")).await.unwrap_err().code, 413);

    for (place, name) in [("/v1/configmaps/b/", "b"), ("/v1/configmaps/c/", "c")] {
        let named = |text: &str| text.replacen(r#""name":"a""#, &format!(r#""name":"{name}""#), 1);
        let small = named(r#"{"metadata":{"name":"a","namespace":"default"},"data":{"k":"v"}}"#);
        assert!(!owners(&api.create(place, &small, "three").await).is_empty());
        let written = match name {
            "b" => api.update(place, &named(&large), "three").await,
            _ => api.patch(place, &format!(r#"{{"data":{{{}}}}}"#, data.join(",")), "three").await,
        };
        assert!(owners(&written).is_empty());
    }
}
