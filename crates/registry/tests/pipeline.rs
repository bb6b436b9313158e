//! The write pipeline: where admission, permissions and reservations stand in every way of writing.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use admission::plugins::NamespaceLifecycle;
use admission::{Attributes, Chain, Operation, Plugin, Reservation};
use auth::{
    Authenticated, Authenticators, Authorize, Authorizer, Credentials, Reason, Rules, SystemIdentity, User,
    Verdict,
};
use cache::{Cache, Change, Entry, Freshness};
use http::HeaderMap;
use object::Value;
use registry::{
    Address, Answer, ApplyFormat, Config, Content, DeleteOptions, ListOptions, Patch, Registry, Target,
    WriteHook, WriteHooks, WriteOptions, specs,
};
use schema::{Limits, Shape, Status, json};
use store::memory::Memory;
use tasks::{BoxFuture, Deferred};

/// What the test plugin does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Nothing,
    /// Sets a label.
    Mutates,
    /// Refuses in the mutating step.
    RefusesEarly,
    /// Refuses in the validating step.
    RefusesLate,
    /// Waits in both steps.
    Waits,
}

/// One call of the test plugin.
#[derive(Clone, Debug, PartialEq)]
struct Call {
    step: &'static str,
    operation: Operation,
    subresource: String,
    name: String,
    dry_run: bool,
    /// The kinds of the old and the new object.
    old: Option<String>,
    new: Option<String>,
    /// Whether the new object has its uid.
    has_uid: bool,
    options: Value,
}

struct Recorder {
    does: Mutex<Does>,
    /// Only calls for this resource are recorded.
    resource: &'static str,
    calls: Mutex<Vec<Call>>,
}

impl Recorder {
    fn record(&self, step: &'static str, attributes: &Attributes<'_>, new: Option<&Value>) -> bool {
        if attributes.resource.resource != self.resource {
            return false;
        }
        let kind = |object: &Value| object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let uid = new.and_then(|new| new.get("metadata")).and_then(|metadata| metadata.get("uid"));
        self.calls.lock().unwrap().push(Call {
            step,
            operation: attributes.operation,
            subresource: attributes.subresource.to_owned(),
            name: attributes.name.to_owned(),
            dry_run: attributes.dry_run,
            old: attributes.old.map(kind),
            new: new.map(kind),
            has_uid: uid.is_some(),
            options: attributes.request.options(attributes.operation),
        });
        true
    }

    fn does(&self) -> Does {
        *self.does.lock().unwrap()
    }

    fn take(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }
}

struct Shared(Arc<Recorder>);

impl Plugin for Shared {
    fn handles(&self, _operation: Operation) -> bool {
        true
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a mut Value>,
    ) -> Deferred<'a, Result<(), Status>> {
        if !self.0.record("mutate", attributes, object.as_deref()) {
            return Deferred::Now(Ok(()));
        }
        Deferred::later(async move {
            match self.0.does() {
                Does::Mutates => {
                    if let Some(map) = object.and_then(Value::as_map_mut) {
                        let metadata = map.get_mut("metadata").and_then(Value::as_map_mut).unwrap();
                        let labels = metadata.get_or_insert_with("labels", || object::Map::new().into());
                        labels.as_map_mut().unwrap().insert("admitted", "yes");
                    }
                }
                Does::RefusesEarly => return Err(attributes.forbidden(None, "early")),
                Does::Waits => tokio::time::sleep(Duration::from_millis(5)).await,
                Does::Nothing | Does::RefusesLate => {}
            }
            Ok(())
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a Value>,
    ) -> Deferred<'a, Result<Option<Reservation>, Status>> {
        if !self.0.record("validate", attributes, object) {
            return Deferred::Now(Ok(None));
        }
        Deferred::later(async move {
            match self.0.does() {
                Does::RefusesLate => return Err(attributes.forbidden(None, "late")),
                Does::Waits => tokio::time::sleep(Duration::from_millis(5)).await,
                _ => {}
            }
            Ok(None)
        })
    }
}

struct Api {
    registry: Arc<Registry>,
    recorder: Arc<Recorder>,
}

/// A way of writing: what is asked for, and with what.
#[derive(Clone, Copy)]
enum Way {
    Create(&'static str),
    Update(&'static str),
    Patch(Patch, &'static str),
    Apply(&'static str),
    Delete,
    DeleteCollection,
}

impl Api {
    async fn start(resource: &'static str) -> Self {
        Self::with(resource, |config| config).await
    }

    async fn with(resource: &'static str, change: impl FnOnce(Config) -> Config) -> Self {
        let cache =
            Cache::open(Arc::new(Memory::default()), specs().unwrap(), cache::CacheOptions::default());
        let cache = Arc::new(cache.await.unwrap());
        let recorder =
            Arc::new(Recorder { does: Mutex::new(Does::Nothing), resource, calls: Mutex::default() });
        let plugins: [Box<dyn Plugin>; 2] = [
            Box::new(NamespaceLifecycle::new(cache.resource("namespaces").unwrap())),
            Box::new(Shared(recorder.clone())),
        ];
        let config = change(Config { admission: Chain::new(plugins), ..Config::new(&cache).unwrap() });
        let registry = Arc::new(Registry::new(cache, config).unwrap());
        let api = Self { registry, recorder };
        let namespaces = Address::core("namespaces", "");
        api.write(namespaces, Way::Create(r#"{"metadata":{"name":"default"}}"#), false).await.unwrap();
        api.recorder.take();
        api
    }

    async fn write(&self, address: Address<'_>, way: Way, dry_run: bool) -> Result<Option<Answer>, Status> {
        let verb = match way {
            Way::Create(_) => "create",
            Way::Update(_) => "update",
            Way::Patch(..) | Way::Apply(_) => "patch",
            Way::Delete => "delete",
            Way::DeleteCollection => "deletecollection",
        };
        let target = auth::Target::Resource {
            group: address.group.into(),
            version: address.version.into(),
            resource: address.resource.into(),
            subresource: address.subresource.into(),
            namespace: address.namespace.into(),
            name: address.name.into(),
        };
        let attributes = auth::Attributes::new(verb, target);
        // No part of the server: those may do everything.
        let credentials = Credentials { headers: &HeaderMap::new(), path: "/", certified: None };
        let caller = Authenticators::default().authenticate(&credentials).await.unwrap();
        let proof = Authorizer::always_allow().authorize(caller, attributes).await.unwrap();
        let catalog = self.registry.catalog();
        let target = Target::find(&proof, &catalog).unwrap();
        let tree = |text: &str| {
            let ty = match target.subresource().map(|subresource| &subresource.body) {
                Some(kinds::SubresourceBody::Kind(ty)) => schema::Ref::Static(ty()),
                _ => target.served().ty.clone(),
            };
            json::decode(&ty, text.as_bytes(), &Limits::REQUEST).unwrap().value
        };
        let options = WriteOptions { dry_run, field_manager: "test".into(), ..WriteOptions::default() };
        let deletion = DeleteOptions {
            dry_run: if dry_run { vec!["All".into()] } else { Vec::new() },
            ..DeleteOptions::default()
        };
        let registry = &self.registry;
        let answer = match way {
            Way::Create(text) => registry.create(&target, tree(text), &options).await?,
            Way::Update(text) => registry.update(&target, tree(text), &options).await?,
            Way::Patch(format, text) => registry.patch(&target, format, text.as_bytes(), &options).await?,
            Way::Apply(text) => registry.apply(&target, ApplyFormat::Yaml, text.as_bytes(), &options).await?,
            Way::Delete => registry.delete(&target, &deletion).await?,
            Way::DeleteCollection => {
                registry.delete_collection(&target, &ListOptions::default(), &deletion).await?;
                return Ok(None);
            }
        };
        Ok(Some(answer))
    }

    /// The stored JSON of an object in the namespace `default`.
    async fn stored(&self, prefix: &str, name: &str) -> Option<String> {
        let resource = self.registry.cache().resource(prefix).unwrap();
        let entry = resource.get("default", name, Freshness::MostRecent).await.unwrap()?;
        Some(String::from_utf8(entry.bytes().to_vec()).unwrap())
    }
}

const DEPLOYMENTS: Address<'static> = Address::v1("apps", "deployments", "default");
const DEPLOYMENT: &str = r#"{"metadata":{"name":"a"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
const PODS: Address<'static> = Address::core("pods", "default");
const POD: &str =
    r#"{"metadata":{"name":"a","finalizers":["x/y"]},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
const MAPS: Address<'static> = Address::core("configmaps", "default");
const LEASES: Address<'static> = Address::v1("coordination.k8s.io", "leases", "default");

struct Case {
    what: &'static str,
    /// What is made first, and then not counted.
    before: &'static [(Address<'static>, &'static str)],
    address: Address<'static>,
    way: Way,
    operation: Operation,
    old: Option<&'static str>,
    new: Option<&'static str>,
}

const CASES: &[Case] = &[
    Case {
        what: "POST",
        before: &[],
        address: DEPLOYMENTS,
        way: Way::Create(DEPLOYMENT),
        operation: Operation::Create,
        old: None,
        new: Some("Deployment"),
    },
    Case {
        what: "PUT",
        before: &[(DEPLOYMENTS, DEPLOYMENT)],
        address: DEPLOYMENTS.named("a"),
        way: Way::Update(DEPLOYMENT),
        operation: Operation::Update,
        old: Some("Deployment"),
        new: Some("Deployment"),
    },
    Case {
        what: "PUT that creates",
        before: &[],
        address: LEASES.named("a"),
        way: Way::Update(r#"{"metadata":{"name":"a"}}"#),
        operation: Operation::Create,
        old: None,
        new: Some("Lease"),
    },
    Case {
        what: "JSON patch",
        before: &[(DEPLOYMENTS, DEPLOYMENT)],
        address: DEPLOYMENTS.named("a"),
        way: Way::Patch(Patch::Json, r#"[{"op":"replace","path":"/spec/replicas","value":2}]"#),
        operation: Operation::Update,
        old: Some("Deployment"),
        new: Some("Deployment"),
    },
    Case {
        what: "merge patch",
        before: &[(DEPLOYMENTS, DEPLOYMENT)],
        address: DEPLOYMENTS.named("a"),
        way: Way::Patch(Patch::Merge, r#"{"spec":{"replicas":2}}"#),
        operation: Operation::Update,
        old: Some("Deployment"),
        new: Some("Deployment"),
    },
    Case {
        what: "strategic merge patch",
        before: &[(DEPLOYMENTS, DEPLOYMENT)],
        address: DEPLOYMENTS.named("a"),
        way: Way::Patch(Patch::Strategic, r#"{"spec":{"replicas":2}}"#),
        operation: Operation::Update,
        old: Some("Deployment"),
        new: Some("Deployment"),
    },
    Case {
        what: "apply",
        before: &[(DEPLOYMENTS, DEPLOYMENT)],
        address: DEPLOYMENTS.named("a"),
        way: Way::Apply(
            r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"paused":true}}"#,
        ),
        operation: Operation::Update,
        old: Some("Deployment"),
        new: Some("Deployment"),
    },
    Case {
        what: "apply that creates",
        before: &[],
        address: MAPS.named("a"),
        way: Way::Apply(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#),
        operation: Operation::Create,
        old: None,
        new: Some("ConfigMap"),
    },
    Case {
        what: "PUT of the status",
        before: &[(DEPLOYMENTS, DEPLOYMENT)],
        address: DEPLOYMENTS.named("a").subresource("status"),
        way: Way::Update(r#"{"metadata":{"name":"a"},"status":{"replicas":3}}"#),
        operation: Operation::Update,
        old: Some("Deployment"),
        new: Some("Deployment"),
    },
    Case {
        what: "PUT of the scale",
        before: &[(DEPLOYMENTS, DEPLOYMENT)],
        address: DEPLOYMENTS.named("a").subresource("scale"),
        way: Way::Update(
            r#"{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"a"},"spec":{"replicas":3}}"#,
        ),
        operation: Operation::Update,
        old: Some("Scale"),
        new: Some("Scale"),
    },
    Case {
        what: "patch of the scale",
        before: &[(DEPLOYMENTS, DEPLOYMENT)],
        address: DEPLOYMENTS.named("a").subresource("scale"),
        way: Way::Patch(Patch::Merge, r#"{"spec":{"replicas":3}}"#),
        operation: Operation::Update,
        old: Some("Scale"),
        new: Some("Scale"),
    },
    Case {
        what: "binding",
        before: &[(PODS, POD)],
        address: PODS.named("a").subresource("binding"),
        way: Way::Create(
            r#"{"kind":"Binding","apiVersion":"v1","metadata":{"name":"a"},"target":{"kind":"Node","name":"n"}}"#,
        ),
        operation: Operation::Create,
        old: None,
        new: Some("Binding"),
    },
    Case {
        what: "eviction",
        before: &[(PODS, POD)],
        address: PODS.named("a").subresource("eviction"),
        way: Way::Create(r#"{"kind":"Eviction","apiVersion":"policy/v1","metadata":{"name":"a"}}"#),
        operation: Operation::Create,
        old: None,
        new: Some("Eviction"),
    },
    Case {
        what: "finalize",
        before: &[(
            Address::core("namespaces", ""),
            r#"{"metadata":{"name":"a"},"spec":{"finalizers":["x/y"]}}"#,
        )],
        address: Address::core("namespaces", "").named("a").subresource("finalize"),
        way: Way::Update(r#"{"metadata":{"name":"a"},"spec":{"finalizers":["kubernetes"]}}"#),
        operation: Operation::Update,
        old: Some("Namespace"),
        new: Some("Namespace"),
    },
    Case {
        what: "delete of an object that waits for finalizers",
        before: &[(PODS, POD)],
        address: PODS.named("a"),
        way: Way::Delete,
        operation: Operation::Delete,
        old: Some("Pod"),
        new: None,
    },
    Case {
        what: "delete of an object that goes at once",
        before: &[(MAPS, r#"{"metadata":{"name":"a"}}"#)],
        address: MAPS.named("a"),
        way: Way::Delete,
        operation: Operation::Delete,
        old: Some("ConfigMap"),
        new: None,
    },
    Case {
        what: "delete of an object that is marked and goes",
        before: &[(PODS, r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#)],
        address: PODS.named("a"),
        way: Way::Delete,
        operation: Operation::Delete,
        old: Some("Pod"),
        new: None,
    },
    Case {
        what: "deletecollection",
        before: &[(MAPS, r#"{"metadata":{"name":"a"}}"#)],
        address: MAPS,
        way: Way::DeleteCollection,
        operation: Operation::Delete,
        old: Some("ConfigMap"),
        new: None,
    },
];

async fn prepared(case: &Case, does: Does) -> Api {
    let api = Api::start(case.address.resource).await;
    for (address, text) in case.before {
        api.write(*address, Way::Create(text), false).await.unwrap();
    }
    api.recorder.take();
    *api.recorder.does.lock().unwrap() = does;
    api
}

fn prefix(case: &Case) -> String {
    match case.address.group {
        "" => case.address.resource.to_owned(),
        group => format!("{}.{group}", case.address.resource),
    }
}

#[tokio::test]
async fn every_way_of_writing_asks_both_steps_of_admission_once() {
    for case in CASES {
        for (does, dry_run) in
            [(Does::Nothing, false), (Does::Nothing, true), (Does::Waits, false), (Does::Mutates, true)]
        {
            let api = prepared(case, does).await;
            let outcome = api.write(case.address, case.way, dry_run).await;
            assert!(outcome.is_ok(), "{}: {:?}", case.what, outcome.err());
            let calls = api.recorder.take();
            let steps: Vec<_> = calls.iter().map(|call| call.step).collect();
            assert_eq!(steps, ["mutate", "validate"], "{}", case.what);
            for call in &calls {
                assert_eq!(call.operation, case.operation, "{}", case.what);
                assert_eq!(call.subresource, case.address.subresource, "{}", case.what);
                // In a deletecollection only the old object has the name.
                let name = if matches!(case.way, Way::DeleteCollection) { "" } else { "a" };
                assert_eq!(call.name, name, "{}", case.what);
                assert_eq!(call.dry_run, dry_run, "{}", case.what);
                assert_eq!(call.old.as_deref(), case.old, "{}", case.what);
                assert_eq!(call.new.as_deref(), case.new, "{}", case.what);
            }
            // A new object gets its uid between the two steps.
            if case.operation == Operation::Create && !matches!(case.new, Some("Binding" | "Eviction")) {
                assert_eq!(calls.iter().map(|call| call.has_uid).collect::<Vec<_>>(), [false, true]);
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_by_either_step_of_admission_leaves_the_object_as_it_was() {
    for case in CASES {
        for (does, steps) in
            [(Does::RefusesEarly, &["mutate"][..]), (Does::RefusesLate, &["mutate", "validate"][..])]
        {
            let api = prepared(case, does).await;
            let before = api.stored(&prefix(case), "a").await;
            let refused = api.write(case.address, case.way, false).await.map(drop).unwrap_err();
            assert_eq!(refused.code, 403, "{}: {}", case.what, refused.message);
            assert_eq!(api.stored(&prefix(case), "a").await, before, "{}", case.what);
            let calls: Vec<_> = api.recorder.take().iter().map(|call| call.step).collect();
            assert_eq!(calls, steps, "{}", case.what);
        }
    }
}

#[tokio::test]
async fn what_mutating_admission_sets_is_stored_and_a_dry_run_only_shows_it() {
    for case in CASES.iter().filter(|case| {
        // A label of a scale, a binding or an eviction belongs to no object.
        !matches!(case.new, None | Some("Scale" | "Binding" | "Eviction"))
            && case.address.subresource != "status"
    }) {
        let api = prepared(case, Does::Mutates).await;
        if case.address.resource != "namespaces" {
            let before = api.stored(&prefix(case), "a").await;
            let Answer { content, .. } = api.write(case.address, case.way, true).await.unwrap().unwrap();
            let Content::Tree(shown) = content else { panic!("{}: a dry run was stored", case.what) };
            let label = shown.get("metadata").and_then(|metadata| metadata.get("labels"));
            assert!(label.and_then(|labels| labels.get("admitted")).is_some(), "{}", case.what);
            assert_eq!(api.stored(&prefix(case), "a").await, before, "{}", case.what);
        }
        let Answer { content, .. } = api.write(case.address, case.way, false).await.unwrap().unwrap();
        let Content::Entry(entry) = content else { panic!("{}: nothing was stored", case.what) };
        assert_eq!(entry.labels().find(|(key, _)| *key == "admitted"), Some(("admitted", "yes")));
    }
}

#[tokio::test]
async fn generated_names_are_empty_before_they_are_made_and_admission_sees_the_name_after() {
    let api = Api::start("configmaps").await;
    let made = Way::Create(r#"{"metadata":{"generateName":"a-"}}"#);
    api.write(MAPS, made, false).await.unwrap();
    let calls = api.recorder.take();
    assert_eq!(calls[0].name, "");
    assert!(calls[1].name.starts_with("a-") && calls[1].name.len() == 7, "{:?}", calls[1].name);
}

#[tokio::test]
async fn pods_get_the_labels_of_their_binding_behind_the_gate() {
    let bind = Way::Create(
        r#"{"kind":"Binding","apiVersion":"v1","metadata":{"name":"a","labels":{"zone":"z"},"annotations":{"by":"x"}},"target":{"name":"n"}}"#,
    );
    for is_on in [false, true] {
        let api = Api::with("pods", |config| Config { binding_labels: is_on, ..config }).await;
        api.write(PODS, Way::Create(POD), false).await.unwrap();
        api.write(PODS.named("a").subresource("binding"), bind, false).await.unwrap();
        let pod = api.stored("pods", "a").await.unwrap();
        assert!(pod.contains(r#""annotations":{"by":"x"}"#), "{pod}");
        assert_eq!(pod.contains(r#""labels":{"zone":"z"}"#), is_on, "{pod}");
    }
}

/// Changes the object behind the back of the first attempt.
struct Meddler {
    registry: Mutex<Option<Arc<Registry>>>,
    calls: AtomicUsize,
}

impl WriteHook for Meddler {
    fn before_write<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _authorizer: &'a Authorizer,
        _object: &'a mut Value,
    ) -> BoxFuture<'a, Result<Option<Reservation>, Status>> {
        Box::pin(async move {
            let registry = self.registry.lock().unwrap().clone();
            if let (Some(registry), Some(_)) = (registry, attributes.old)
                && self.calls.fetch_add(1, Ordering::Relaxed) < 2
            {
                let resource = registry.cache().resource("configmaps").unwrap();
                let entry = resource.get("default", "a", Freshness::MostRecent).await.unwrap().unwrap();
                let any = json::decode_shape(&Shape::Any, entry.bytes(), &Limits::STORED).unwrap().value;
                let mut any = any.as_map().unwrap().clone();
                let count = self.calls.load(Ordering::Relaxed).to_string();
                any.insert("data", object::Map::from_iter([(object::Key::known("meddled"), count)]));
                let mut text = Vec::new();
                json::encode_shape(&Shape::Any, &any.into(), &mut text);
                registry.cache().commit(Change::put(&resource, "default", "a", text)).await.unwrap();
            }
            Ok(None)
        })
    }
}

#[tokio::test]
async fn a_patch_after_a_conflict_runs_all_steps_again_on_the_newer_state() {
    let meddler = Arc::new(Meddler { registry: Mutex::default(), calls: AtomicUsize::new(0) });
    let hook = meddler.clone();
    let api = Api::with("configmaps", |config| Config {
        hooks: WriteHooks::default().with("", "configmaps", hook),
        ..config
    })
    .await;
    api.write(MAPS, Way::Create(r#"{"metadata":{"name":"a"}}"#), false).await.unwrap();
    api.recorder.take();
    *meddler.registry.lock().unwrap() = Some(api.registry.clone());
    let patch = Way::Patch(Patch::Merge, r#"{"data":{"patched":"yes"}}"#);
    api.write(MAPS.named("a"), patch, false).await.unwrap();
    let steps: Vec<_> = api.recorder.take().iter().map(|call| call.step).collect();
    assert_eq!(steps, ["mutate", "validate", "mutate", "validate", "mutate", "validate"]);
    let stored = api.stored("configmaps", "a").await.unwrap();
    assert!(stored.contains(r#""meddled":"2""#) && stored.contains(r#""patched":"yes""#), "{stored}");
    *meddler.registry.lock().unwrap() = None;
}

/// Removes pods that are marked before the server does, as a kubelet may.
struct Faster(Mutex<Option<Arc<Registry>>>);

impl WriteHook for Faster {
    fn before_remove(&self, _entry: &Entry) -> Option<Reservation> {
        if let Some(registry) = self.0.lock().unwrap().take() {
            let change = store::Change::delete(store::Key::try_from("pods/default/a").unwrap());
            // The store in memory commits before its future is waited for.
            drop(registry.cache().store().commit(change));
        }
        None
    }
}

#[tokio::test]
async fn a_pod_that_its_kubelet_removes_first_was_deleted_all_the_same() {
    let kubelet = Arc::new(Faster(Mutex::default()));
    let hook = kubelet.clone();
    let api =
        Api::with("pods", |config| Config { hooks: WriteHooks::default().with("", "pods", hook), ..config })
            .await;
    let pod = r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    api.write(PODS, Way::Create(pod), false).await.unwrap();
    *kubelet.0.lock().unwrap() = Some(api.registry.clone());
    let answer = api.write(PODS.named("a"), Way::Delete, false).await.unwrap().unwrap();
    let Content::Entry(last) = answer.content else { panic!("the answer is the pod") };
    assert_eq!(answer.code, 200);
    assert!(str::from_utf8(last.bytes()).unwrap().contains("deletionTimestamp"));
    assert!(api.stored("pods", "a").await.is_none());
    assert!(kubelet.0.lock().unwrap().is_none(), "nobody was faster");
    assert_eq!(api.write(PODS.named("a"), Way::Delete, false).await.unwrap_err().code, 404);
}

/// Reserves something for every write.
struct Reserves(Arc<AtomicUsize>);

impl WriteHook for Reserves {
    fn before_write<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        _authorizer: &'a Authorizer,
        _object: &'a mut Value,
    ) -> BoxFuture<'a, Result<Option<Reservation>, Status>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let held = self.0.clone();
        let release = move || {
            held.fetch_sub(1, Ordering::Relaxed);
        };
        Box::pin(std::future::ready(Ok(Some(Reservation::new(release)))))
    }
}

#[tokio::test]
async fn a_reservation_is_kept_by_a_commit_and_released_by_whatever_else_happens() {
    let held = Arc::new(AtomicUsize::new(0));
    let hook = Arc::new(Reserves(held.clone()));
    let api = Api::with("configmaps", |config| Config {
        hooks: WriteHooks::default().with("", "configmaps", hook),
        ..config
    })
    .await;
    let count = || held.load(Ordering::Relaxed);
    let create = Way::Create(r#"{"metadata":{"name":"a"}}"#);
    api.write(MAPS, create, true).await.unwrap();
    assert_eq!(count(), 0, "dry run");
    *api.recorder.does.lock().unwrap() = Does::RefusesLate;
    api.write(MAPS, create, false).await.map(drop).unwrap_err();
    assert_eq!(count(), 0, "refused by admission");
    *api.recorder.does.lock().unwrap() = Does::Nothing;
    let invalid = Way::Create(r#"{"metadata":{"name":"A b"}}"#);
    api.write(MAPS, invalid, false).await.map(drop).unwrap_err();
    assert_eq!(count(), 0, "refused by validation");
    api.write(MAPS, create, false).await.unwrap();
    assert_eq!(count(), 1, "committed");
    api.write(MAPS, create, false).await.map(drop).unwrap_err();
    assert_eq!(count(), 1, "the name is taken");
}

/// Allows everything but one verb on config maps and leases.
struct DeniesCreate;

impl Authorize for DeniesCreate {
    fn decide<'a>(&'a self, _user: &'a User, asked: &'a auth::Attributes) -> Deferred<'a, Verdict> {
        let is_theirs =
            matches!(&asked.target, auth::Target::Resource { resource, .. } if resource != "namespaces");
        Deferred::Now(match &*asked.verb {
            "create" if is_theirs => Verdict::no_opinion("ask an administrator"),
            _ => Verdict::allow(Reason::NONE),
        })
    }

    fn rules(&self, _user: &User, _namespace: &str) -> Rules {
        Rules::default()
    }
}

#[tokio::test]
async fn put_and_apply_that_create_need_permission_to_create() {
    let api = Api::with("configmaps", |config| Config {
        authorizer: Authorizer::new([Arc::new(DeniesCreate) as Arc<dyn Authorize>]),
        ..config
    })
    .await;
    let apply = Way::Apply(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#);
    let refused = api.write(MAPS.named("a"), apply, false).await.map(drop).unwrap_err();
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (
            403,
            r#"configmaps "a" is forbidden: User "system:anonymous" cannot create resource "configmaps" in API group "" in the namespace "default": ask an administrator"#
        )
    );
    let put = Way::Update(r#"{"metadata":{"name":"a"}}"#);
    let refused = api.write(LEASES.named("a"), put, false).await.map(drop).unwrap_err();
    assert_eq!(refused.code, 403);
    assert!(api.stored("leases.coordination.k8s.io", "a").await.is_none());
    // Admission is asked after the permission.
    assert_eq!(api.recorder.take().iter().map(|call| call.step).collect::<Vec<_>>(), ["mutate"]);
}

#[tokio::test]
async fn namespace_uid_precondition_has_its_own_words() {
    let api = Api::start("namespaces").await;
    let caller = Authenticated::system(SystemIdentity::ApiServer);
    let target = auth::Target::Resource {
        group: String::new(),
        version: "v1".into(),
        resource: "namespaces".into(),
        subresource: String::new(),
        namespace: "default".into(),
        name: "default".into(),
    };
    let attributes = auth::Attributes::new("delete", target);
    let proof = Authorizer::always_allow().authorize(caller, attributes).await.unwrap();
    let catalog = api.registry.catalog();
    let target = Target::find(&proof, &catalog).unwrap();
    let options = DeleteOptions { uid: Some("other".into()), ..DeleteOptions::default() };
    let refused = api.registry.delete(&target, &options).await.unwrap_err();
    let expected = r#"Operation cannot be fulfilled on namespaces "default": Precondition failed: UID in precondition: other, UID in object meta: "#;
    assert!(refused.code == 409 && refused.message.starts_with(expected), "{}", refused.message);
}

#[tokio::test]
async fn admission_sees_the_names_of_objects_that_are_not_stored() {
    let binding =
        r#"{"kind":"Binding","apiVersion":"v1","metadata":{"name":"a"},"target":{"kind":"Node","name":"n"}}"#;
    let review = r#"{"metadata":{"name":"r"}}"#;
    for (address, text, name) in [
        (Address::core("bindings", "default"), binding, "a"),
        (Address::v1("authentication.k8s.io", "selfsubjectreviews", ""), review, "r"),
    ] {
        let api = Api::start(address.resource).await;
        api.write(PODS, Way::Create(POD), false).await.unwrap();
        api.write(address, Way::Create(text), false).await.unwrap();
        let names: Vec<_> = api.recorder.take().into_iter().map(|call| call.name).collect();
        assert_eq!(names, [name, name], "{}", address.resource);
    }
}

#[tokio::test]
async fn admission_sees_completed_options_of_a_delete_by_name_and_those_sent_for_a_collection() {
    for (address, way, seconds) in
        [(PODS.named("a"), Way::Delete, Some(0)), (PODS, Way::DeleteCollection, None)]
    {
        let api = Api::start("pods").await;
        api.write(PODS, Way::Create(POD), false).await.unwrap();
        api.recorder.take();
        api.write(address, way, false).await.unwrap();
        let calls = api.recorder.take();
        assert_eq!(calls.len(), 2);
        for call in calls {
            assert_eq!(call.options.get("kind").and_then(Value::as_str), Some("DeleteOptions"));
            assert_eq!(call.options.get("gracePeriodSeconds").and_then(Value::as_i64), seconds);
        }
    }
    let api = Api::start("namespaces").await;
    api.write(Address::core("namespaces", "").named("default"), Way::Delete, false)
        .await
        .map(drop)
        .unwrap_err();
    api.write(Address::core("namespaces", ""), Way::Create(r#"{"metadata":{"name":"x"}}"#), false)
        .await
        .unwrap();
    api.recorder.take();
    api.write(Address::core("namespaces", "").named("x"), Way::Delete, false).await.unwrap();
    for call in api.recorder.take() {
        let uid = call.options.get("preconditions").and_then(|preconditions| preconditions.get("uid"));
        assert!(uid.is_some(), "{:?}", call.options);
    }
}

#[tokio::test]
async fn bad_finalizer_of_a_lease_is_reported_once() {
    let api = Api::start("leases").await;
    let causes = |status: &Status| status.details.as_ref().unwrap().causes.len();
    let bad = Way::Create(r#"{"metadata":{"name":"a","finalizers":["a b"]}}"#);
    let refused = api.write(LEASES, bad, false).await.map(drop).unwrap_err();
    assert_eq!(causes(&refused), 1, "{}", refused.message);
    api.write(LEASES, Way::Create(r#"{"metadata":{"name":"a"}}"#), false).await.unwrap();
    let bad = Way::Patch(Patch::Merge, r#"{"metadata":{"finalizers":["a b"]}}"#);
    let refused = api.write(LEASES.named("a"), bad, false).await.map(drop).unwrap_err();
    assert_eq!(causes(&refused), 1, "{}", refused.message);
    // An unqualified name is one that only the core kinds refuse.
    api.write(LEASES, Way::Create(r#"{"metadata":{"name":"b","finalizers":["unqualified"]}}"#), false)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_object_in_an_old_storage_version_is_read_and_rewritten_in_the_new_one() {
    let api = Api::start("horizontalpodautoscalers").await;
    // As a server would have stored it whose storage version was v1.
    let old = r#"{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1","metadata":{"name":"a","namespace":"default","uid":"u"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d"},"maxReplicas":3,"targetCPUUtilizationPercentage":50},"status":{"currentReplicas":0,"desiredReplicas":0}}"#;
    let cache = api.registry.cache();
    let resource = cache.resource("horizontalpodautoscalers.autoscaling").unwrap();
    cache.commit(Change::put(&resource, "default", "a", old.to_owned())).await.unwrap();
    let client = registry::Client::new(api.registry.clone(), SystemIdentity::ApiServer, "test");
    let autoscalers = Address::v1("autoscaling", "horizontalpodautoscalers", "default").named("a");
    let v1 = client.get(autoscalers).await.unwrap();
    let at = |value: &Value, path: &[&str]| {
        path.iter().try_fold(value.clone(), |value, name| value.get(name).cloned())
    };
    assert_eq!(at(&v1, &["spec", "targetCPUUtilizationPercentage"]).unwrap().as_i64(), Some(50));
    let v2 = client.get(Address { version: "v2", ..autoscalers }).await.unwrap();
    assert_eq!(at(&v2, &["apiVersion"]).unwrap().as_str(), Some("autoscaling/v2"));
    let metrics = at(&v2, &["spec", "metrics"]).unwrap();
    let cpu = metrics.as_list().unwrap()[0].clone();
    assert_eq!(at(&cpu, &["resource", "name"]).unwrap().as_str(), Some("cpu"));
    // A write that changes nothing moves it to the storage version.
    let patch = Way::Patch(Patch::Merge, "{}");
    api.write(Address { version: "v2", ..autoscalers }, patch, false).await.unwrap();
    let stored = api.stored("horizontalpodautoscalers.autoscaling", "a").await.unwrap();
    assert!(
        stored.starts_with(r#"{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v2","#),
        "{stored}"
    );
}

#[tokio::test]
async fn what_v2_says_of_an_autoscaler_survives_writes_through_v1() {
    let api = Api::start("horizontalpodautoscalers").await;
    let autoscalers = Address::v1("autoscaling", "horizontalpodautoscalers", "default");
    let v2 = r#"{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v2","metadata":{"name":"a"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d"},"maxReplicas":3,"metrics":[{"type":"Pods","pods":{"metric":{"name":"q"},"target":{"type":"AverageValue","averageValue":"2"}}}],"behavior":{"scaleDown":{"stabilizationWindowSeconds":10}}}}"#;
    api.write(Address { version: "v2", ..autoscalers }, Way::Create(v2), false).await.unwrap();
    let patch = Way::Patch(Patch::Merge, r#"{"spec":{"targetCPUUtilizationPercentage":63}}"#);
    api.write(autoscalers.named("a"), patch, false).await.unwrap();
    let stored = api.stored("horizontalpodautoscalers.autoscaling", "a").await.unwrap();
    for part in [
        r#""pods":{"metric":{"name":"q"},"target":{"type":"AverageValue","averageValue":"2"}}"#,
        r#""target":{"type":"Utilization","averageUtilization":63}"#,
        r#""scaleDown":{"stabilizationWindowSeconds":10,"#,
    ] {
        assert!(stored.contains(part), "{part} {stored}");
    }
    // What is created through v1 has the defaults of v2 when it is stored.
    let v1 = r#"{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1","metadata":{"name":"b","annotations":{"autoscaling.alpha.kubernetes.io/behavior":"{\"ScaleUp\":{\"Policies\":[{\"Type\":\"Pods\",\"Value\":1,\"PeriodSeconds\":5}]}}"}},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d"},"maxReplicas":3}}"#;
    api.write(autoscalers, Way::Create(v1), false).await.unwrap();
    let stored = api.stored("horizontalpodautoscalers.autoscaling", "b").await.unwrap();
    assert!(stored.contains(r#""minReplicas":1"#) && stored.contains(r#""selectPolicy":"Max""#), "{stored}");
}
