use super::*;
use crate::Counters;
use crate::testing::Fixture;
use admission::{Attributes, Operation, Plugin};
use cache::Change;
use kinds::{ResourceType, Scope, Verb};
use registry::{Conversion, CustomKind, CustomVersion, DeleteOptions};
use schema::{Builder, GroupVersionKind};
use std::sync::atomic::{AtomicBool, Ordering};
use store::memory::Memory;
use tasks::Deferred;
use tasks::faults::{Fault, inject, running};
use tokio::time::{Instant, sleep};

const NAMESPACE: Address<'_> = Address::core("namespaces", "").named("n");

/// The conditions of a namespace that waits for nothing.
const ALL_WELL: [&str; 5] = [
    "NamespaceDeletionDiscoveryFailure False ResourcesDiscovered: All resources successfully discovered",
    "NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully parsed",
    "NamespaceDeletionContentFailure False ContentDeleted: All content successfully deleted, may be waiting on finalization",
    "NamespaceContentRemaining False ContentRemoved: All content successfully removed",
    "NamespaceFinalizersRemaining False ContentHasNoFinalizers: All content-preserving finalizers finished",
];

/// A fixture, with what these tests do with the namespace `n`.
struct Namespaced(Fixture);

impl std::ops::Deref for Namespaced {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.0
    }
}

impl Namespaced {
    async fn new() -> Self {
        Self(Fixture::new().await)
    }

    async fn put(&self, resource: &str, namespace: &str, text: &str) {
        self.create(Address::core(resource, namespace), text).await;
    }

    async fn config_map(&self, namespace: &str, name: &str, finalizers: &str) {
        let text = format!(r#"{{"metadata":{{"name":"{name}","finalizers":[{finalizers}]}}}}"#);
        self.put("configmaps", namespace, &text).await;
    }

    async fn delete_namespace(&self) {
        self.client.delete(NAMESPACE, &DeleteOptions::default()).await.unwrap();
    }

    async fn until_gone(&self) {
        self.until("the end of the namespace", async || self.lookup("namespaces", "", "n").is_none()).await;
        assert_eq!(self.left("n"), [""; 0]);
    }

    /// The keys of all objects in a namespace.
    fn left(&self, namespace: &str) -> Vec<String> {
        let all = registry::specs().unwrap().into_iter().map(|spec| spec.prefix().to_owned());
        let mut keys = Vec::new();
        for prefix in all.chain(["widgets.example.com".to_owned()]) {
            let Some(resource) = self.cache.resource(&prefix) else { continue };
            cache::Cursor::new(resource).advance(|update| {
                if let Update::Change { after: Some(entry), .. } = update
                    && entry.namespace() == namespace
                {
                    keys.push(format!("{prefix}/{}", entry.key()));
                }
            });
        }
        keys
    }

    /// The conditions of the namespace, a line each.
    async fn conditions(&self) -> Vec<String> {
        let namespace = self.client.get(NAMESPACE).await.unwrap();
        let status = v1::Namespace::of(namespace.as_map().unwrap()).status();
        assert_eq!(status.phase(), "Terminating");
        let line = |condition: v1::NamespaceCondition<'_>| {
            assert!(condition.map().get("lastTransitionTime").is_some());
            let (kind, status) = (condition.r#type(), condition.status());
            format!("{kind} {status} {}: {}", condition.reason(), condition.message())
        };
        status.conditions().iter().map(line).collect()
    }

    /// Waits for the conditions that the namespace has if these are not as usual.
    async fn until_conditions(&self, unusual: &[&str]) {
        let kind = |line: &str| line.split(' ').next().unwrap().to_owned();
        let wanted: Vec<&str> = ALL_WELL
            .iter()
            .map(|usual| *unusual.iter().find(|line| kind(line) == kind(usual)).unwrap_or(usual))
            .collect();
        self.until(&format!("{wanted:#?}"), async || self.conditions().await == wanted).await;
    }

    async fn release(&self, resource: &str, name: &str) {
        let free = |object: &mut Map| {
            map_at(object, "metadata").unwrap().remove("finalizers");
        };
        self.client.modify(Address::core(resource, "n").named(name), free).await.unwrap();
    }
}

fn pod(name: &str, node: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"nodeName":"{node}","containers":[{{"name":"c","image":"i"}}]}}}}"#
    )
}

/// A custom kind whose objects are deleted one by one.
fn widgets() -> CustomKind {
    let kind = GroupVersionKind { group: "example.com".into(), version: "v1".into(), kind: "Widget".into() };
    let ty = Builder::new("com.example.v1.Widget").kind(kind.clone()).object().build();
    let mut resource_type = ResourceType::custom(&kind, "widgets", Scope::Namespaced, ty);
    resource_type.verbs.retain(|verb| *verb != Verb::DeleteCollection);
    let version = CustomVersion { resource_type: Arc::new(resource_type), served: true };
    CustomKind { versions: vec![version], storage_version: "v1".into(), conversion: Conversion::None }
}

#[tokio::test]
async fn namespace_goes_with_everything_in_it() {
    let fixture = Namespaced::new().await;
    fixture.client.registry().install(widgets()).await.unwrap();
    for namespace in ["n", "other"] {
        fixture.namespace(namespace).await;
        for name in 0..150 {
            fixture.config_map(namespace, &format!("c{name}"), "").await;
        }
        fixture.put("secrets", namespace, r#"{"metadata":{"name":"s"}}"#).await;
        fixture.put("pods", namespace, &pod("p", "")).await;
        let event = r#"{"metadata":{"name":"e","namespace":"NS"},"involvedObject":{"namespace":"NS"},"type":"Normal"}"#;
        fixture.put("events", namespace, &event.replace("NS", namespace)).await;
        let widgets = Address::v1("example.com", "widgets", namespace);
        fixture.create(widgets, r#"{"metadata":{"name":"w"}}"#).await;
    }
    let _running = fixture.start(&CONTROLLER);
    assert_eq!(fixture.left("n").len(), 154);
    fixture.delete_namespace().await;
    fixture.until_gone().await;
    assert_eq!(fixture.left("other").len(), 154);
    assert!(!fixture.lookup("namespaces", "", "other").unwrap().is_deleting());
}

#[tokio::test(start_paused = true)]
async fn finalizers_of_objects_hold_the_namespace_until_they_are_removed() {
    let fixture = Namespaced::new().await;
    let _running = fixture.start(&CONTROLLER);
    fixture.namespace("n").await;
    fixture.config_map("n", "a", r#""example.com/x""#).await;
    fixture.config_map("n", "b", r#""example.com/x","example.com/y""#).await;
    fixture.config_map("n", "c", "").await;
    let event = r#"{"metadata":{"name":"e","finalizers":["example.com/z"]},"involvedObject":{"namespace":"n"},"type":"Normal"}"#;
    fixture.put("events", "n", event).await;
    fixture.delete_namespace().await;
    fixture
        .until_conditions(&[
            "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: \
             configmaps. has 2 resource instances, events. has 1 resource instances, \
             events.events.k8s.io has 1 resource instances",
            "NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: \
             example.com/x in 2 resource instances, example.com/y in 1 resource instances, \
             example.com/z in 2 resource instances",
        ])
        .await;
    assert_eq!(fixture.left("n"), ["configmaps/n/a", "configmaps/n/b", "events/n/e"]);
    fixture.release("events", "e").await;
    fixture.release("configmaps", "a").await;
    // The slow look shows it.
    fixture
        .until_conditions(&[
            "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: \
             configmaps. has 1 resource instances",
            "NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: \
             example.com/x in 1 resource instances, example.com/y in 1 resource instances",
        ])
        .await;
    let before = fixture.lookup("namespaces", "", "n").unwrap().mod_revision();
    sleep(Duration::from_secs(60)).await;
    let after = fixture.lookup("namespaces", "", "n").unwrap().mod_revision();
    assert_eq!(before, after, "conditions that are the same were written again");
    let began = Instant::now();
    fixture.release("configmaps", "b").await;
    fixture.until_gone().await;
    assert!(began.elapsed() < Duration::from_millis(100), "it took {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn wait_for_remaining_objects_is_started_again_after_a_panic() {
    let fixture = Namespaced::new().await;
    let _running = fixture.start(&CONTROLLER);
    fixture.namespace("n").await;
    fixture.config_map("n", "a", r#""example.com/x""#).await;
    fixture.delete_namespace().await;
    let waits = async || running(Name::NamespaceEmptied) == 1;
    for fault in [Fault::Panic, Fault::End] {
        fixture.until("the wait for the config map", waits).await;
        assert_eq!(inject(Name::NamespaceEmptied, fault), 1);
    }
    fixture.until("the wait for the config map", waits).await;
    let began = Instant::now();
    fixture.release("configmaps", "a").await;
    fixture.until_gone().await;
    assert!(began.elapsed() < Duration::from_secs(10), "it took {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn objects_stay_while_pods_end() {
    let fixture = Namespaced::new().await;
    let _running = fixture.start(&CONTROLLER);
    fixture.namespace("n").await;
    fixture.config_map("n", "a", "").await;
    fixture.put("pods", "n", &pod("p", "node")).await;
    fixture.put("pods", "n", &pod("q", "")).await;
    fixture.delete_namespace().await;
    fixture.until_conditions(&[]).await;
    assert_eq!(fixture.left("n"), ["configmaps/n/a", "pods/n/p"]);
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    let began = Instant::now();
    fixture.client.delete(Address::core("pods", "n").named("p"), &now).await.unwrap();
    fixture.until_gone().await;
    assert!(began.elapsed() < Duration::from_millis(100), "it took {:?}", began.elapsed());
}

/// Refuses the deletion of config maps that are called `guarded`, until it is told otherwise.
#[derive(Clone, Default)]
struct Guard(Arc<AtomicBool>);

impl Plugin for Guard {
    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Delete
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        _object: Option<&'a mut Value>,
    ) -> Deferred<'a, Result<(), Status>> {
        // In a deletecollection only the old object has the name.
        let metadata = attributes.old.and_then(|old| old.get("metadata"));
        let name = metadata.and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
        let is_open = name != Some("guarded") || self.0.load(Ordering::Relaxed);
        Deferred::Now(if is_open { Ok(()) } else { Err(attributes.forbidden(None, "it is guarded")) })
    }
}

#[tokio::test(start_paused = true)]
async fn refused_deletions_are_shown_and_tried_again() {
    let guard = Guard::default();
    let fixture = Namespaced(
        Fixture::with(
            Arc::new(Memory::default()),
            auth::Authorizer::always_allow(),
            vec![Box::new(guard.clone())],
        )
        .await,
    );
    let _running = fixture.start(&CONTROLLER);
    fixture.namespace("n").await;
    fixture.config_map("n", "guarded", "").await;
    fixture.put("secrets", "n", r#"{"metadata":{"name":"s","finalizers":["example.com/x"]}}"#).await;
    fixture.delete_namespace().await;
    fixture
        .until_conditions(&[
            "NamespaceDeletionContentFailure True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: \
             configmaps \"Unknown\" is forbidden: it is guarded",
            "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: secrets. has 1 resource instances",
            "NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: \
             example.com/x in 1 resource instances",
        ])
        .await;
    sleep(Duration::from_secs(600)).await;
    fixture.release("secrets", "s").await;
    guard.0.store(true, Ordering::Relaxed);
    sleep(Duration::from_secs(60)).await;
    fixture.until_gone().await;
}

#[tokio::test(start_paused = true)]
async fn other_finalizers_of_the_namespace_stay() {
    let fixture = Namespaced::new().await;
    let _running = fixture.start(&CONTROLLER);
    let text =
        r#"{"metadata":{"name":"n"},"spec":{"finalizers":["example.com/b","kubernetes","example.com/a"]}}"#;
    fixture.put("namespaces", "", text).await;
    fixture.config_map("n", "a", "").await;
    fixture.delete_namespace().await;
    let finalizers = async || {
        let namespace = fixture.client.get(NAMESPACE).await.unwrap();
        let namespace = v1::Namespace::of(namespace.as_map().unwrap());
        namespace.spec().finalizers().iter().map(str::to_owned).collect::<Vec<_>>()
    };
    fixture.until("the end of one", async || finalizers().await == ["example.com/a", "example.com/b"]).await;
    fixture.until_conditions(&[]).await;
    assert_eq!(fixture.left("n"), [""; 0]);
    let before = fixture.lookup("namespaces", "", "n").unwrap().mod_revision();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(fixture.lookup("namespaces", "", "n").unwrap().mod_revision(), before);
}

#[tokio::test(start_paused = true)]
async fn restart_in_the_middle_goes_on() {
    let store = Arc::new(Memory::default());
    let fixture = Namespaced(Fixture::over(store.clone()).await);
    let running = fixture.start(&CONTROLLER);
    fixture.namespace("n").await;
    fixture.config_map("n", "a", r#""example.com/x""#).await;
    fixture.delete_namespace().await;
    fixture.until("conditions", async || !fixture.conditions().await.is_empty()).await;
    drop((fixture, running));
    let fixture = Namespaced(Fixture::over(store).await);
    let _running = fixture.start(&CONTROLLER);
    fixture.release("configmaps", "a").await;
    fixture.until_gone().await;
}

#[tokio::test(start_paused = true)]
async fn objects_that_were_committed_late_go_and_those_of_a_new_namespace_stay() {
    let fixture = Namespaced::new().await;
    let _running = fixture.start(&CONTROLLER);
    let late = async |name: &str| {
        let maps = fixture.cache.resource("configmaps").unwrap();
        let json = format!(
            r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"n","uid":"{name}"}}}}"#
        );
        fixture.cache.commit(Change::put(&maps, "n", name, json)).await.unwrap();
    };
    for again in [false, true] {
        fixture.namespace("n").await;
        fixture.delete_namespace().await;
        fixture.until_gone().await;
        late("late").await;
        if again {
            fixture.namespace("n").await;
            fixture.config_map("n", "new", "").await;
        }
        sleep(Duration::from_secs(60 + 6)).await;
        let left: &[&str] = if again { &["configmaps/n/new"] } else { &[] };
        assert_eq!(fixture.left("n"), left);
    }
}

#[tokio::test(start_paused = true)]
async fn objects_are_looked_for_after_the_request_timeout_of_the_server() {
    let mut fixture = Fixture::new().await;
    fixture.change_settings(|settings| settings.request_timeout = Duration::from_secs(600));
    let fixture = Namespaced(fixture);
    let _running = fixture.start(&CONTROLLER);
    fixture.namespace("n").await;
    fixture.delete_namespace().await;
    fixture.until_gone().await;
    let maps = fixture.cache.resource("configmaps").unwrap();
    let late =
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"late","namespace":"n","uid":"late"}}"#;
    fixture.cache.commit(Change::put(&maps, "n", "late", late)).await.unwrap();
    sleep(Duration::from_secs(600)).await;
    assert_eq!(fixture.left("n"), ["configmaps/n/late"]);
    sleep(Duration::from_secs(6)).await;
    assert_eq!(fixture.left("n"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn custom_type_that_is_being_replaced_is_listed_again_with_growing_pauses() {
    let fixture = Namespaced::new().await;
    fixture.client.registry().install(widgets()).await.unwrap();
    fixture.namespace("n").await;
    // As while a type is installed anew: the catalog still has the type that the cache has removed.
    assert!(fixture.cache.remove("widgets.example.com").await.unwrap());
    let counters = Arc::<Counters>::default();
    let _running = fixture.start_counted(&CONTROLLER, counters.clone());
    fixture.delete_namespace().await;
    sleep(Duration::from_secs(10)).await;
    // From 5 ms on each pause is twice as long as the one before.
    assert!((8..=12).contains(&counters.failed()), "{} failures in ten seconds", counters.failed());
    assert!(fixture.lookup("namespaces", "", "n").unwrap().is_deleting());
    fixture.client.registry().install(widgets()).await.unwrap();
    fixture.until_gone().await;
}
