//! kube-rs: the typed and the dynamic API, the watcher, and a reflector under churn.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::discovery::{Discovery, Scope};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, reflector, watcher as watch};
use kube::{Client, Config, ResourceExt as _};
use serde_json::json;
use testkit::Server;

const PATIENCE: Duration = Duration::from_secs(20);

struct Kube {
    client: Client,
    namespace: String,
    _server: Server,
}

impl Kube {
    async fn start() -> Self {
        let server =
            Server::start(&testkit::release_binary(), &["--storage=memory", "--controllers=-*"]).unwrap();
        let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let namespace = testkit::unique("kube-rs");
        let object = Namespace {
            metadata: ObjectMeta { name: Some(namespace.clone()), ..Default::default() },
            ..Default::default()
        };
        Api::all(client.clone()).create(&PostParams::default(), &object).await.unwrap();
        Self { client, namespace, _server: server }
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": "test"}}, "data": {"x": value},
    }))
    .unwrap()
}

/// The code of the Status of a refused request.
fn refusal<T: std::fmt::Debug>(result: kube::Result<T>) -> (u16, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason),
        other => panic!("not refused by the server: {other:?}"),
    }
}

#[tokio::test]
async fn typed_objects_are_created_changed_listed_and_deleted() {
    let kube = Kube::start().await;
    let api = kube.config_maps();
    let post = PostParams::default();
    let made = api.create(&post, &config_map("a", "1")).await.unwrap();
    assert!(made.uid().is_some() && made.creation_timestamp().is_some());
    assert_eq!(refusal(api.create(&post, &made).await).0, 500, "a version cannot be given on creation");
    assert_eq!(refusal(api.create(&post, &config_map("a", "1")).await), (409, "AlreadyExists".into()));
    assert_eq!(api.get("a").await.unwrap(), made);
    assert_eq!(api.get_opt("none").await.unwrap(), None);

    let mut changed = made.clone();
    changed.data = Some([("x".to_owned(), "2".to_owned())].into());
    let written = api.replace("a", &post, &changed).await.unwrap();
    assert_ne!(written.resource_version(), made.resource_version());
    assert_eq!(refusal(api.replace("a", &post, &changed).await), (409, "Conflict".into()));

    let merge = Patch::Merge(json!({"data": {"y": "3"}}));
    let merged = api.patch("a", &PatchParams::default(), &merge).await.unwrap();
    assert_eq!(serde_json::to_value(merged.data).unwrap(), json!({"x": "2", "y": "3"}));

    for number in 0..7 {
        api.create(&post, &config_map(&format!("l{number}"), "")).await.unwrap();
    }
    let mut names = Vec::new();
    let mut page = ListParams::default().labels("app=test").limit(3);
    loop {
        let list = api.list(&page).await.unwrap();
        names.extend(list.items.iter().map(|item| item.name_any()));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(names, ["a", "l0", "l1", "l2", "l3", "l4", "l5", "l6"]);
    let metadata = api.list_metadata(&ListParams::default().fields("metadata.name=l3")).await.unwrap();
    assert_eq!(metadata.items.iter().map(|item| item.name_any()).collect::<Vec<_>>(), ["l3"]);

    let options = DeleteParams::default();
    assert!(api.delete("a", &options).await.unwrap().is_right(), "a config map is answered with a Status");
    assert_eq!(refusal(api.delete("a", &options).await), (404, "NotFound".into()));
    api.delete_collection(&options, &ListParams::default()).await.unwrap();
    assert!(api.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn applied_object_has_its_manager() {
    let kube = Kube::start().await;
    let api = kube.config_maps();
    api.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    let apply = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"z": "4"}});
    let applied = api.patch("a", &PatchParams::apply("kube-rs"), &Patch::Apply(&apply)).await.unwrap();
    assert_eq!(applied.data.as_ref().and_then(|data| data.get("z")).map(String::as_str), Some("4"));
    assert!(applied.managed_fields().iter().any(|entry| entry.manager.as_deref() == Some("kube-rs")));
}

#[tokio::test]
async fn dynamic_kind_from_discovery_works_like_a_typed_one() {
    let kube = Kube::start().await;
    let discovery = Discovery::new(kube.client.clone()).run().await.unwrap();
    let group = discovery.groups().find(|group| group.name() == "apps").expect("the group apps");
    let (resource, capabilities) = group.recommended_kind("Deployment").expect("deployments");
    assert_eq!(capabilities.scope, Scope::Namespaced);
    assert_eq!((resource.version.as_str(), resource.plural.as_str()), ("v1", "deployments"));
    let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    for verb in verbs {
        assert!(capabilities.supports_operation(verb), "{verb}");
    }

    let api: Api<DynamicObject> = Api::namespaced_with(kube.client.clone(), &kube.namespace, &resource);
    let object = DynamicObject::new("web", &resource).data(json!({"spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]},
        },
    }}));
    let made = api.create(&PostParams::default(), &object).await.unwrap();
    assert_eq!(made.data["spec"]["replicas"], 1, "defaults are set");
    let strategic = Patch::Strategic(
        json!({"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "b"}]}}}}),
    );
    let patched = api.patch("web", &PatchParams::default(), &strategic).await.unwrap();
    assert_eq!(patched.data["spec"]["template"]["spec"]["containers"][1]["name"], "web");

    let typed: Api<Deployment> = Api::namespaced(kube.client.clone(), &kube.namespace);
    let scale = json!({"spec": {"replicas": 4}});
    let scale = typed.patch_scale("web", &PatchParams::default(), &Patch::Merge(&scale)).await.unwrap();
    assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(4));
    assert_eq!(typed.get("web").await.unwrap().spec.and_then(|spec| spec.replicas), Some(4));
    let status = json!({"status": {"replicas": 4, "observedGeneration": 3}});
    let status = typed.patch_status("web", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    assert_eq!(status.status.and_then(|status| status.replicas), Some(4));
}

#[tokio::test]
async fn watcher_gets_existing_objects_and_then_changes() {
    let kube = Kube::start().await;
    let api = kube.config_maps();
    api.create(&PostParams::default(), &config_map("before", "1")).await.unwrap();
    let mut events = watch(api.clone(), watcher::Config::default().labels("app=test")).boxed();
    let mut next = async || {
        let event = tokio::time::timeout(PATIENCE, events.try_next()).await.expect("an event in time");
        match event.unwrap().expect("a stream without an end") {
            Event::Init => "init".to_owned(),
            Event::InitApply(object) => format!("there {}", object.name_any()),
            Event::InitDone => "done".to_owned(),
            Event::Apply(object) => {
                format!("applied {} {}", object.name_any(), object.data.unwrap_or_default()["x"])
            }
            Event::Delete(object) => format!("deleted {}", object.name_any()),
        }
    };
    assert_eq!(next().await, "init");
    assert_eq!(next().await, "there before");
    assert_eq!(next().await, "done");
    api.create(&PostParams::default(), &config_map("after", "1")).await.unwrap();
    assert_eq!(next().await, "applied after 1");
    let patch = Patch::Merge(json!({"data": {"x": "2"}}));
    api.patch("before", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(next().await, "applied before 2");
    let hide = Patch::Merge(json!({"metadata": {"labels": null}}));
    api.patch("before", &PatchParams::default(), &hide).await.unwrap();
    assert_eq!(next().await, "deleted before");
    api.delete("after", &DeleteParams::default()).await.unwrap();
    assert_eq!(next().await, "deleted after");
}

/// The writes of the writers, and the events of the watcher.
#[derive(Default)]
struct Churn {
    stop: AtomicBool,
    deleted: AtomicUsize,
}

const WRITERS: usize = 4;
const NAMES: usize = 40;

/// Creates, changes and deletes its own objects until `stop`; returns the version of every write.
async fn write(api: Api<ConfigMap>, writer: usize, churn: Arc<Churn>) -> Vec<u64> {
    let mut rng = fastrand::Rng::with_seed(writer as u64);
    let mut there = BTreeSet::new();
    let mut versions = Vec::new();
    let version = |object: ConfigMap| object.resource_version().unwrap().parse::<u64>().unwrap();
    while !churn.stop.load(Ordering::Relaxed) {
        let name = format!("w{writer}-{}", rng.usize(..NAMES));
        if there.insert(name.clone()) {
            versions
                .push(version(api.create(&PostParams::default(), &config_map(&name, "0")).await.unwrap()));
        } else if rng.u8(..) < 80 {
            api.delete(&name, &DeleteParams::default()).await.unwrap();
            churn.deleted.fetch_add(1, Ordering::Relaxed);
            there.remove(&name);
        } else {
            let patch = Patch::Merge(json!({"data": {"x": rng.u64(..).to_string()}}));
            versions.push(version(api.patch(&name, &PatchParams::default(), &patch).await.unwrap()));
        }
    }
    versions
}

/// Name and version of every object.
fn state<'a>(objects: impl Iterator<Item = &'a ConfigMap>) -> BTreeMap<String, String> {
    objects.map(|object| (object.name_any(), object.resource_version().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_reflector_misses_nothing_in_a_minute_of_churn() {
    let kube = Kube::start().await;
    let api = kube.config_maps();
    let seconds = std::env::var("KEELSON_TEST_SECONDS").map_or(60, |text| text.parse().unwrap());
    let churn = Arc::new(Churn::default());

    // The server ends the watch every few seconds; each time the next watch must continue where the last one
    // ended.
    let config = watcher::Config::default().timeout(5);
    let (store, writer) = reflector::store::<ConfigMap>();
    let seen: Arc<std::sync::Mutex<Vec<Event<ConfigMap>>>> = Arc::default();
    let reflecting = tokio::spawn({
        let (seen, api) = (seen.clone(), api.clone());
        async move {
            reflector(writer, watch(api, config).default_backoff())
                .for_each(|event| {
                    let event = event.expect("the watch goes on without an error");
                    seen.lock().unwrap().push(event);
                    std::future::ready(())
                })
                .await;
        }
    });
    tokio::time::timeout(PATIENCE, store.wait_until_ready()).await.expect("a first list").unwrap();

    let writers: Vec<_> =
        (0..WRITERS).map(|number| tokio::spawn(write(api.clone(), number, churn.clone()))).collect();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    churn.stop.store(true, Ordering::Relaxed);
    let mut written = Vec::new();
    for writer in writers {
        written.extend(writer.await.unwrap());
    }

    let wanted = state(api.list(&ListParams::default()).await.unwrap().items.iter());
    let begin = Instant::now();
    while state(store.state().iter().map(AsRef::as_ref)) != wanted && begin.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(
        state(store.state().iter().map(AsRef::as_ref)),
        wanted,
        "the store is not what the server has"
    );
    reflecting.abort();

    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let (mut applied, mut deleted, mut lists) = (Vec::new(), 0, 0);
    let mut last = 0;
    for event in &seen {
        let object = match event {
            Event::Apply(object) | Event::Delete(object) => object,
            Event::Init => {
                lists += 1;
                continue;
            }
            Event::InitApply(_) | Event::InitDone => continue,
        };
        let version: u64 = object.resource_version().unwrap().parse().unwrap();
        assert!(version > last, "{version} came after {last}");
        last = version;
        match event {
            Event::Delete(_) => deleted += 1,
            _ => applied.push(version),
        }
    }
    println!("{} writes, {deleted} deletions, {lists} list", written.len());
    written.sort_unstable();
    assert_eq!(lists, 1, "the watch went on without listing again");
    assert_eq!(applied, written, "every write is seen once, in order");
    assert_eq!(deleted, churn.deleted.load(Ordering::Relaxed), "every deletion is seen once");
    assert!(written.len() > 50 * seconds as usize, "that was no churn: {} writes", written.len());
}
