//! The verbs on a store in memory: what each promises, for kinds that differ in scope, behaviour and version.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::sync::Arc;

use auth::{Attributes, Authenticated, Authorized, Authorizer, SystemIdentity, Target as Wanted};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cache::Cache;
use object::Value;
use registry::{
    Address, Answer, Client, Config, Content, DeleteOptions, Emulation, ListOptions, Patch, Registry,
    Selection, Target, WatchCaches, WriteOptions, specs,
};
use schema::{Limits, Status, json};
use store::memory::{self, Memory};

struct Api(Registry);

/// Where a request goes: `group/version/resource`, namespace, name, subresource.
#[derive(Clone, Copy)]
struct Place<'a> {
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
    subresource: &'a str,
}

const fn config_map(name: &str) -> Place<'_> {
    Place { resource: "/v1/configmaps", namespace: "default", name, subresource: "" }
}

const fn deployment(name: &str) -> Place<'_> {
    Place { resource: "apps/v1/deployments", namespace: "default", name, subresource: "" }
}

async fn proof(verb: &'static str, place: Place<'_>) -> Authorized {
    let mut parts = place.resource.split('/').map(str::to_owned);
    let mut next = || parts.next().unwrap();
    let target = Wanted::Resource {
        group: next(),
        version: next(),
        resource: next(),
        subresource: place.subresource.into(),
        namespace: place.namespace.into(),
        name: place.name.into(),
    };
    let caller = Authenticated::system(SystemIdentity::ApiServer);
    Authorizer::always_allow().authorize(caller, Attributes::new(verb, target)).await.unwrap()
}

impl Api {
    async fn start() -> Self {
        Self::selecting(&Selection::default()).await
    }

    async fn selecting(selection: &Selection) -> Self {
        Self::with(|config| config.selection = selection.clone()).await
    }

    /// With a change to the configuration.
    async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let store = Arc::new(Memory::new(memory::MemoryOptions::default()));
        let cache = Cache::open(store, specs().unwrap(), cache::CacheOptions::default()).await.unwrap();
        let mut config = Config::new(&cache).unwrap();
        change(&mut config);
        let api = Self(Registry::new(Arc::new(cache), config).unwrap());
        let namespaces = Place { resource: "/v1/namespaces", namespace: "", name: "", subresource: "" };
        api.create(namespaces, r#"{"metadata":{"name":"default"}}"#).await.unwrap();
        api
    }

    async fn tree(&self, place: Place<'_>, text: &str) -> Value {
        let proof = proof("get", place).await;
        let catalog = self.0.catalog();
        let target = Target::find(&proof, &catalog).unwrap();
        let ty = match place.subresource {
            "scale" => schema::builtin::by_kind("autoscaling", "v1", "Scale").unwrap().into(),
            _ => target.served().ty.clone(),
        };
        json::decode(ty, text.as_bytes(), &Limits::REQUEST).unwrap().value
    }

    async fn create(&self, place: Place<'_>, text: &str) -> Result<Value, Status> {
        let object = self.tree(place, text).await;
        let proof = proof("create", Place { name: "", ..place }).await;
        let catalog = self.0.catalog();
        let target = Target::find(&proof, &catalog)?;
        let answer = self.0.create(&target, object, &WriteOptions::default()).await?;
        assert_eq!(answer.code, 201);
        Ok(shown(&answer))
    }

    async fn update(&self, place: Place<'_>, text: &str) -> Result<Value, Status> {
        let object = self.tree(place, text).await;
        let proof = proof("update", place).await;
        let catalog = self.0.catalog();
        let target = Target::find(&proof, &catalog)?;
        self.0.update(&target, object, &WriteOptions::default()).await.map(|answer| shown(&answer))
    }

    async fn patch(&self, place: Place<'_>, patch: &str) -> Result<Value, Status> {
        let proof = proof("patch", place).await;
        let catalog = self.0.catalog();
        let target = Target::find(&proof, &catalog)?;
        let options = WriteOptions::default();
        self.0.patch(&target, Patch::Merge, patch.as_bytes(), &options).await.map(|answer| shown(&answer))
    }

    async fn get(&self, place: Place<'_>) -> Result<Value, Status> {
        let proof = proof("get", place).await;
        let catalog = self.0.catalog();
        let target = Target::find(&proof, &catalog)?;
        let content = self.0.get(&target, "").await?;
        Ok(shown(&Answer { code: 200, content }))
    }

    async fn delete(&self, place: Place<'_>, options: &DeleteOptions) -> Result<Value, Status> {
        let proof = proof("delete", place).await;
        let catalog = self.0.catalog();
        let target = Target::find(&proof, &catalog)?;
        self.0.delete(&target, options).await.map(|answer| shown(&answer))
    }
}

/// The answer as JSON, read back without types.
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
    json::decode_shape(&schema::Shape::Any, &text, &Limits::REQUEST).unwrap().value
}

fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, key| value.get(key))
}

fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, path: &str) -> Option<i64> {
    at(value, path)?.as_i64()
}

const WEB: &str = r#"{"metadata":{"name":"web"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},
    "template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;

#[tokio::test]
async fn created_object_is_read_back_with_uid_and_creation_timestamp() {
    let api = Api::start().await;
    let made = api
        .create(config_map("a"), r#"{"metadata":{"name":"a","uid":"mine","resourceVersion":""}}"#)
        .await
        .unwrap();
    assert_eq!(api.get(config_map("a")).await.unwrap(), made);
    assert_eq!(text(&made, "metadata.namespace"), "default");
    assert_ne!(text(&made, "metadata.uid"), "mine");
    assert!(!text(&made, "metadata.creationTimestamp").is_empty());
    assert!(text(&made, "metadata.resourceVersion").parse::<u64>().unwrap() > 0);
}

#[tokio::test]
async fn create_of_a_taken_name_is_already_exists() {
    let api = Api::start().await;
    api.create(config_map("a"), r#"{"metadata":{"name":"a"}}"#).await.unwrap();
    let refused = api.create(config_map("a"), r#"{"metadata":{"name":"a"}}"#).await.unwrap_err();
    assert_eq!((refused.code, refused.message.as_str()), (409, "configmaps \"a\" already exists"));
}

#[tokio::test]
async fn create_in_a_missing_namespace_is_not_found() {
    let api = Api::start().await;
    let elsewhere = Place { namespace: "nowhere", ..config_map("a") };
    let refused = api.create(elsewhere, r#"{"metadata":{"name":"a"}}"#).await.unwrap_err();
    assert_eq!((refused.code, refused.message.as_str()), (404, "namespaces \"nowhere\" not found"));
}

#[tokio::test]
async fn put_with_a_stale_resource_version_is_a_conflict_and_without_one_overwrites() {
    let api = Api::start().await;
    let first = api.create(config_map("a"), r#"{"metadata":{"name":"a"},"data":{"k":"1"}}"#).await.unwrap();
    let put = |version: &str, value: &str| {
        format!(r#"{{"metadata":{{"name":"a","resourceVersion":"{version}"}},"data":{{"k":"{value}"}}}}"#)
    };
    let version = text(&first, "metadata.resourceVersion").to_owned();
    api.update(config_map("a"), &put(&version, "2")).await.unwrap();
    let refused = api.update(config_map("a"), &put(&version, "3")).await.unwrap_err();
    assert_eq!(refused.code, 409);
    assert!(refused.message.ends_with("please apply your changes to the latest version and try again"));
    let last = api.update(config_map("a"), &put("", "4")).await.unwrap();
    assert_eq!(text(&last, "data.k"), "4");
    assert_eq!(text(&last, "metadata.uid"), text(&first, "metadata.uid"));
}

#[tokio::test]
async fn wrong_uid_is_a_conflict_in_a_put_and_invalid_in_a_patch() {
    let api = Api::start().await;
    let created = api.create(config_map("a"), r#"{"metadata":{"name":"a","uid":"mine"}}"#).await.unwrap();
    let uid = text(&created, "metadata.uid").to_owned();
    assert_ne!(uid, "mine");
    let refused =
        api.update(config_map("a"), r#"{"metadata":{"name":"a","uid":"other"}}"#).await.unwrap_err();
    assert_eq!(refused.code, 409);
    assert_eq!(
        refused.message,
        format!(
            "Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, Code: 4, Key: \
             /registry/configmaps/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in \
             precondition: other, UID in object meta: {uid}"
        )
    );
    let missing =
        api.update(config_map("b"), r#"{"metadata":{"name":"b","uid":"other"}}"#).await.unwrap_err();
    assert!(missing.code == 409 && missing.message.ends_with("UID in object meta: "), "{missing:?}");
    let patched = api.patch(config_map("a"), r#"{"metadata":{"uid":"other"}}"#).await.unwrap_err();
    assert!(patched.code == 422 && patched.message.contains("field is immutable"), "{patched:?}");
}

#[tokio::test]
async fn create_with_a_resource_version_is_refused() {
    let api = Api::start().await;
    let create = async |version: &str| {
        let text = format!(
            r#"{{"metadata":{{"name":"v-{version}","resourceVersion":"{version}","generation":7,"selfLink":"/x"}}}}"#
        );
        api.create(config_map(""), &text).await
    };
    let refused = create("5").await.unwrap_err();
    assert_eq!(
        (refused.code, &*refused.message),
        (500, "resourceVersion should not be set on objects to be created")
    );
    for version in ["0", "abc"] {
        let created = create(version).await.unwrap();
        assert_ne!(text(&created, "metadata.resourceVersion"), version);
        assert_eq!(
            number(&created, "metadata.generation"),
            Some(7),
            "a kind that does not count leaves it alone"
        );
        assert_eq!(at(&created, "metadata.selfLink"), None);
    }
    let broken = r#"{"metadata":{"name":"v-0","resourceVersion":"abc"}}"#;
    let refused = api.update(config_map("v-0"), broken).await.unwrap_err();
    assert_eq!(
        (refused.code, &*refused.message),
        (500, "strconv.ParseUint: parsing \"abc\": invalid syntax")
    );
}

#[tokio::test]
async fn update_that_changes_nothing_is_not_written() {
    let api = Api::start().await;
    let first = api.create(config_map("a"), r#"{"metadata":{"name":"a"},"data":{"k":"1"}}"#).await.unwrap();
    let again = api.patch(config_map("a"), r#"{"data":{"k":"1"}}"#).await.unwrap();
    assert_eq!(text(&again, "metadata.resourceVersion"), text(&first, "metadata.resourceVersion"));
}

#[tokio::test]
async fn generation_counts_changes_of_spec_and_not_of_status() {
    let api = Api::start().await;
    let made = api.create(deployment("web"), WEB).await.unwrap();
    assert_eq!(number(&made, "metadata.generation"), Some(1));
    let scaled = api.patch(deployment("web"), r#"{"spec":{"replicas":2}}"#).await.unwrap();
    assert_eq!(number(&scaled, "metadata.generation"), Some(2));
    let status = Place { subresource: "status", ..deployment("web") };
    let patch = r#"{"spec":{"replicas":9},"status":{"replicas":2}}"#;
    let reported = api.patch(status, patch).await.unwrap();
    assert_eq!(number(&reported, "metadata.generation"), Some(2));
    assert_eq!(
        (number(&reported, "spec.replicas"), number(&reported, "status.replicas")),
        (Some(2), Some(2))
    );
    let patch = r#"{"status":{"replicas":7}}"#;
    let ignored = api.patch(deployment("web"), patch).await.unwrap();
    assert_eq!(number(&ignored, "status.replicas"), Some(2));
}

#[tokio::test]
async fn scale_reads_and_writes_replicas() {
    let api = Api::start().await;
    api.create(deployment("web"), WEB).await.unwrap();
    let scale = Place { subresource: "scale", ..deployment("web") };
    let read = api.get(scale).await.unwrap();
    assert_eq!((text(&read, "kind"), number(&read, "spec.replicas")), ("Scale", Some(1)));
    assert_eq!(text(&read, "status.selector"), "a=b");
    let written = api.update(scale, r#"{"metadata":{"name":"web"},"spec":{"replicas":5}}"#).await.unwrap();
    assert_eq!(number(&written, "spec.replicas"), Some(5));
    assert_eq!(number(&api.get(deployment("web")).await.unwrap(), "spec.replicas"), Some(5));
    let patched = api.patch(scale, r#"{"spec":{"replicas":0}}"#).await.unwrap();
    assert_eq!(number(&patched, "spec.replicas").unwrap_or_default(), 0);
    let refused = api.patch(scale, r#"{"spec":{"replicas":-1}}"#).await.unwrap_err();
    assert_eq!(refused.code, 422);
}

#[tokio::test]
async fn deleted_object_waits_for_its_finalizers() {
    let api = Api::start().await;
    let object = r#"{"metadata":{"name":"a","finalizers":["example.com/hold"]}}"#;
    api.create(config_map("a"), object).await.unwrap();
    let marked = api.delete(config_map("a"), &DeleteOptions::default()).await.unwrap();
    assert!(!text(&marked, "metadata.deletionTimestamp").is_empty());
    let refused = api.patch(config_map("a"), r#"{"metadata":{"finalizers":["example.com/other"]}}"#).await;
    assert_eq!(refused.unwrap_err().code, 422);
    api.patch(config_map("a"), r#"{"metadata":{"finalizers":null}}"#).await.unwrap();
    assert_eq!(api.get(config_map("a")).await.unwrap_err().code, 404);
}

#[tokio::test]
async fn delete_with_a_failed_precondition_keeps_the_object() {
    let api = Api::start().await;
    api.create(config_map("a"), r#"{"metadata":{"name":"a"}}"#).await.unwrap();
    let options = DeleteOptions { uid: Some("another".into()), ..DeleteOptions::default() };
    assert_eq!(api.delete(config_map("a"), &options).await.unwrap_err().code, 409);
    let gone = api.delete(config_map("a"), &DeleteOptions::default()).await.unwrap();
    assert_eq!((text(&gone, "kind"), text(&gone, "status")), ("Status", "Success"));
}

#[tokio::test]
async fn dry_run_answers_and_stores_nothing() {
    let api = Api::start().await;
    let dry = WriteOptions { dry_run: true, ..WriteOptions::default() };
    let proof = proof("create", config_map("")).await;
    let catalog = api.0.catalog();
    let target = Target::find(&proof, &catalog).unwrap();
    let object = api.tree(config_map(""), r#"{"metadata":{"name":"a"}}"#).await;
    let answer = api.0.create(&target, object, &dry).await.unwrap();
    assert_eq!(text(&shown(&answer), "metadata.name"), "a");
    assert_eq!(api.get(config_map("a")).await.unwrap_err().code, 404);
}

#[tokio::test]
async fn continued_list_shows_the_revision_of_its_first_page() {
    let api = Api::start().await;
    for name in ["a", "b", "c"] {
        api.create(config_map(name), &format!(r#"{{"metadata":{{"name":"{name}"}}}}"#)).await.unwrap();
    }
    let proof = proof("list", config_map("")).await;
    let catalog = api.0.catalog();
    let target = Target::find(&proof, &catalog).unwrap();
    let first = ListOptions { limit: 2, ..ListOptions::default() };
    let page = api.0.list(&target, &first).await.unwrap();
    let (token, remaining) = (page.token.clone(), page.remaining);
    let names: Vec<_> = page.objects.map(|entry| entry.name().to_owned()).collect();
    assert_eq!((names, remaining), (vec!["a".to_owned(), "b".to_owned()], Some(1)));
    api.create(config_map("d"), r#"{"metadata":{"name":"d"}}"#).await.unwrap();
    let rest = ListOptions { limit: 2, token, ..ListOptions::default() };
    let page = api.0.list(&target, &rest).await.unwrap();
    assert_eq!(page.token, "");
    assert_eq!(page.objects.map(|entry| entry.name().to_owned()).collect::<Vec<_>>(), ["c"]);
}

#[tokio::test]
async fn list_at_revision_zero_honours_its_limit_without_a_watch_cache_only() {
    const EVENTS: Place<'_> =
        Place { resource: "/v1/events", namespace: "default", name: "", subresource: "" };
    let mut off = WatchCaches::default();
    off.enabled = false;
    let with_sizes = |texts: &str| {
        let mut caches = WatchCaches::default();
        caches.add_sizes(texts).unwrap();
        caches
    };
    for (caches, place, shown) in [
        (WatchCaches::default(), config_map(""), 3),
        (off.clone(), config_map(""), 2),
        (with_sizes("secrets#9,configmaps#0"), config_map(""), 2),
        (with_sizes("configmaps#9,configmaps.apps#0"), config_map(""), 3),
        // Events have no watch cache by default.
        (WatchCaches::default(), EVENTS, 2),
        (with_sizes("events#9"), EVENTS, 3),
        (off, EVENTS, 2),
    ] {
        let api = Api::with(|config| config.watch_caches = caches.clone()).await;
        for name in ["a", "b", "c"] {
            let object = format!(
                r#"{{"metadata":{{"name":"{name}","namespace":"default"}}{}}}"#,
                if place.resource == EVENTS.resource {
                    r#","involvedObject":{"namespace":"default"}"#
                } else {
                    ""
                }
            );
            api.create(place, &object).await.unwrap();
        }
        let proof = proof("list", place).await;
        let catalog = api.0.catalog();
        let target = Target::find(&proof, &catalog).unwrap();
        for resource_version_match in ["", "NotOlderThan"] {
            let options = ListOptions {
                limit: 2,
                resource_version: "0".to_owned(),
                resource_version_match: resource_version_match.to_owned(),
                ..ListOptions::default()
            };
            let page = api.0.list(&target, &options).await.unwrap();
            let is_whole = page.token.is_empty();
            assert_eq!(
                (page.objects.count(), is_whole),
                (shown, shown == 3),
                "{caches:?} {}",
                place.resource
            );
        }
    }
}

#[tokio::test]
async fn list_that_continues_at_the_newest_state_stays_there() {
    let api = Api::start().await;
    for name in ["a", "b", "c", "d"] {
        api.create(config_map(name), &format!(r#"{{"metadata":{{"name":"{name}"}}}}"#)).await.unwrap();
    }
    let proof = proof("list", config_map("")).await;
    let catalog = api.0.catalog();
    let target = Target::find(&proof, &catalog).unwrap();
    let page = async |token: &str, limit: i64| {
        let options = ListOptions { limit, token: token.to_owned(), ..ListOptions::default() };
        let page = api.0.list(&target, &options).await.unwrap();
        let (token, revision) = (page.token.clone(), page.objects.revision);
        (page.objects.map(|entry| entry.name().to_owned()).collect::<Vec<_>>(), token, revision)
    };
    let (_, token, first) = page("", 1).await;
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).unwrap()).unwrap();
    let newest = URL_SAFE_NO_PAD.encode(text.replace(&format!(r#""rv":{}"#, first.0), r#""rv":-1"#));
    api.create(config_map("b2"), r#"{"metadata":{"name":"b2"}}"#).await.unwrap();
    let (names, token, second) = page(&newest, 2).await;
    assert_eq!(names, ["b", "b2"]);
    assert!(second > first);
    api.create(config_map("c2"), r#"{"metadata":{"name":"c2"}}"#).await.unwrap();
    let (names, token, third) = page(&token, 2).await;
    assert_eq!((names, third), (vec!["c".to_owned(), "d".to_owned()], second));
    assert_eq!(token, "");
}

#[tokio::test]
async fn deletecollection_deletes_what_the_selector_picks() {
    let api = Api::start().await;
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let text = format!(r#"{{"metadata":{{"name":"{name}","labels":{{"app":"{app}"}}}}}}"#);
        api.create(config_map(name), &text).await.unwrap();
    }
    let proof = proof("deletecollection", config_map("")).await;
    let catalog = api.0.catalog();
    let target = Target::find(&proof, &catalog).unwrap();
    let labels = object::label::Selector::parse("app=x").unwrap();
    let options = ListOptions { labels, ..ListOptions::default() };
    let gone = api.0.delete_collection(&target, &options, &DeleteOptions::default()).await.unwrap();
    assert_eq!(gone.objects.map(|entry| entry.name().to_owned()).collect::<Vec<_>>(), ["a", "c"]);
    assert!(api.get(config_map("b")).await.is_ok());
    assert_eq!(api.get(config_map("c")).await.unwrap_err().code, 404);
}

#[tokio::test]
async fn object_written_in_one_version_is_read_in_another() {
    let api = Api::start().await;
    let version = |version| Place { resource: version, namespace: "default", name: "h", subresource: "" };
    let object = r#"{"metadata":{"name":"h"},"spec":{"maxReplicas":3,"targetCPUUtilizationPercentage":50,
        "scaleTargetRef":{"kind":"Deployment","name":"web","apiVersion":"apps/v1"}}}"#;
    api.create(version("autoscaling/v1/horizontalpodautoscalers"), object).await.unwrap();
    let stored = api.get(version("autoscaling/v2/horizontalpodautoscalers")).await.unwrap();
    assert_eq!(
        (text(&stored, "apiVersion"), number(&stored, "spec.maxReplicas")),
        ("autoscaling/v2", Some(3))
    );
    let metric = at(&stored, "spec.metrics").and_then(Value::as_list).and_then(|list| list.first()).unwrap();
    assert_eq!(number(metric, "resource.target.averageUtilization"), Some(50));
}

#[tokio::test]
async fn permission_is_refused_for_another_verb() {
    let api = Api::start().await;
    api.create(config_map("a"), r#"{"metadata":{"name":"a"}}"#).await.unwrap();
    let proof = proof("get", config_map("a")).await;
    let catalog = api.0.catalog();
    let target = Target::find(&proof, &catalog).unwrap();
    let refused = api.0.delete(&target, &DeleteOptions::default()).await.unwrap_err();
    assert_eq!(refused.code, 500);
    assert!(api.get(config_map("a")).await.is_ok());
}

#[tokio::test]
async fn runtime_config_selects_what_is_served() {
    let mut selection = Selection::default();
    selection.set("api/alpha", true);
    selection.set("batch/v1", false);
    selection.set("apps/v1/daemonsets", false);
    let api = Api::selecting(&selection).await;
    let serves = |group, version, resource| api.0.catalog().find(group, version, resource).is_some();
    assert!(serves("internal.apiserver.k8s.io", "v1alpha1", "storageversions"));
    assert!(!serves("batch", "v1", "jobs"));
    assert!(serves("apps", "v1", "deployments") && !serves("apps", "v1", "daemonsets"));
    assert!(!serves("resource.k8s.io", "v1beta1", "resourceslices"));
}

#[tokio::test]
async fn running_pods_are_resized_only_with_the_gate() {
    for on in [true, false] {
        let api = Api::with(|config| config.objects.gates.in_place_pod_vertical_scaling = on).await;
        let catalog = api.0.catalog();
        let pods = catalog.find("", "v1", "pods").unwrap();
        assert_eq!((pods.subresource("resize").is_some(), pods.subresource("status").is_some()), (on, true));
    }
}

#[tokio::test]
async fn server_writes_addresses_that_its_release_does_not_serve() {
    let emulation = Emulation { release: kinds::Release(32), ..Emulation::default() };
    let api = Api::selecting(&Selection::of(emulation)).await;
    let resource = Address::v1("networking.k8s.io", "ipaddresses", "");
    assert!(api.0.catalog().find("networking.k8s.io", "v1", "ipaddresses").is_none());
    let registry = Arc::new(api.0);
    let client = Client::new(registry, SystemIdentity::ApiServer, "test");
    let text = r#"{"metadata":{"name":"10.0.0.1"},"spec":{"parentRef":{"resource":"services","namespace":"a","name":"b"}}}"#;
    let object = client.decode(resource, text).unwrap();
    client.create(resource, object).await.unwrap();
    assert!(client.get(resource.named("10.0.0.1")).await.is_ok());
    // Others that are not served are not there for the server either.
    assert!(client.list(Address { version: "v1beta1", ..resource }).await.is_err());
}
