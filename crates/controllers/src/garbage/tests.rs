use super::*;
use crate::testing::{Fixture, Running};
use kinds::{ResourceType, Scope};
use object::Value;
use registry::{Address, Conversion, CustomKind, CustomVersion, DeleteOptions, Patch};
use schema::{Builder, FieldBuilder, GroupVersionKind, Shape};
use std::fmt::Write as _;
use std::time::Duration;
use store::memory::Memory;

/// A control plane with the namespaces `n` and `m`, in which objects are config maps unless said otherwise.
struct Plane {
    fixture: Fixture,
    running: Option<Running>,
}

/// A reference to an owner.
#[derive(Clone)]
struct Owner {
    api_version: &'static str,
    kind: &'static str,
    name: String,
    uid: String,
    blocks: bool,
}

impl Owner {
    fn map(name: &str, uid: &str) -> Self {
        Self { api_version: "v1", kind: "ConfigMap", name: name.into(), uid: uid.into(), blocks: false }
    }

    fn blocked(self) -> Self {
        Self { blocks: true, ..self }
    }

    fn text(&self) -> String {
        let Self { api_version, kind, name, uid, blocks } = self;
        format!(
            r#"{{"apiVersion":"{api_version}","kind":"{kind}","name":"{name}","uid":"{uid}","blockOwnerDeletion":{blocks}}}"#
        )
    }
}

const NOWHERE: &str = "11111111-2222-3333-4444-555555555555";
const HOLD: &str = "example.com/hold";

fn metadata(name: &str, owners: &[Owner], finalizers: &[&str]) -> String {
    let owners: Vec<_> = owners.iter().map(Owner::text).collect();
    let finalizers: Vec<_> = finalizers.iter().map(|name| format!(r#""{name}""#)).collect();
    format!(
        r#"{{"metadata":{{"name":"{name}","ownerReferences":[{}],"finalizers":[{}]}}}}"#,
        owners.join(","),
        finalizers.join(",")
    )
}

impl Plane {
    /// One without a collector.
    async fn new(store: Arc<Memory>) -> Self {
        let fixture = Fixture::over(store).await;
        for namespace in ["n", "m", "default"] {
            if fixture.lookup("namespaces", "", namespace).is_none() {
                fixture.namespace(namespace).await;
            }
        }
        Self { fixture, running: None }
    }

    async fn started() -> Self {
        let mut plane = Self::new(Arc::default()).await;
        plane.start();
        plane
    }

    fn start(&mut self) {
        self.running = Some(self.fixture.start(&CONTROLLER));
    }

    /// Makes an object; its uid.
    async fn make(&self, address: Address<'_>, text: &str) -> String {
        let made = self.fixture.create(address, text).await;
        made.get("metadata")
            .and_then(|metadata| metadata.get("uid"))
            .and_then(Value::as_str)
            .unwrap()
            .to_owned()
    }

    /// Makes a config map in `n`.
    async fn map(&self, name: &str, owners: &[Owner], finalizers: &[&str]) -> Owner {
        let uid = self.make(Address::core("configmaps", "n"), &metadata(name, owners, finalizers)).await;
        Owner::map(name, &uid)
    }

    async fn delete(&self, address: Address<'_>, policy: &str) {
        let options =
            DeleteOptions { propagation_policy: Some(policy.to_owned()), ..DeleteOptions::default() };
        self.fixture.client.delete(address, &options).await.unwrap();
    }

    async fn delete_map(&self, name: &str, policy: &str) {
        self.delete(Address::core("configmaps", "n").named(name), policy).await;
    }

    async fn patch_map(&self, name: &str, metadata: &str) {
        let address = Address::core("configmaps", "n").named(name);
        let patch = format!(r#"{{"metadata":{metadata}}}"#);
        self.fixture.client.patch(address, Patch::Merge, patch.as_bytes()).await.unwrap();
    }

    /// Waits until nothing happens any more.
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(5)).await;
    }

    /// The config maps in `n` that are there: a name with the names of owners, `-` if it is being deleted,
    /// and its finalizers.
    async fn maps(&self) -> String {
        self.settle().await;
        let maps = self.fixture.client.list_objects(Address::core("configmaps", "n")).await.unwrap();
        let mut out = String::new();
        for map in &maps {
            let metadata = map.get("metadata").unwrap();
            let texts = |list: &str, pick: &dyn Fn(&Value) -> String| {
                let list = metadata.get(list).and_then(Value::as_list).unwrap_or_default();
                list.iter().map(pick).collect::<Vec<_>>().join(",")
            };
            let name = metadata.get("name").and_then(Value::as_str).unwrap();
            let mark = if metadata.get("deletionTimestamp").is_some() { "-" } else { "" };
            let owners =
                texts("ownerReferences", &|owner| owner.get("name").and_then(Value::as_str).unwrap().into());
            let finalizers = texts("finalizers", &|name| name.as_str().unwrap().into());
            write!(out, "{mark}{name}({owners})[{finalizers}] ").unwrap();
        }
        out.trim_end().to_owned()
    }

    /// The events about invalid owners in a namespace.
    async fn events(&self, namespace: &str) -> Vec<Value> {
        self.settle().await;
        self.fixture.client.list_objects(Address::core("events", namespace)).await.unwrap()
    }

    /// A graph of its objects, which nobody works on.
    fn graph(&self) -> (Graph, Arc<Queue<graph::Item>>) {
        let queue = Arc::new(Queue::default());
        let mut graph = Graph::new(queue.clone(), None);
        for (prefix, (served, resource)) in followable(&self.fixture.client.registry().catalog()) {
            graph.add(&prefix, served, resource);
        }
        (graph, queue)
    }

    async fn install_widgets(&self) {
        let kind =
            GroupVersionKind { group: "example.com".into(), version: "v1".into(), kind: "Widget".into() };
        let ty = Builder::new("com.example.v1.Widget").kind(kind.clone()).object();
        let ty = ty.field("size", FieldBuilder::new(Shape::Int64)).build();
        let resource_type = ResourceType::custom(&kind, "widgets", Scope::Namespaced, ty);
        let version = CustomVersion { resource_type: Arc::new(resource_type), served: true };
        let kind = CustomKind {
            versions: vec![version],
            storage_version: "v1".into(),
            conversion: Conversion::None,
        };
        self.fixture.client.registry().install(kind).await.unwrap();
    }
}

const WIDGETS: Address<'static> = Address::v1("example.com", "widgets", "n");

fn widget(name: &str, uid: &str) -> Owner {
    Owner { api_version: "example.com/v1", kind: "Widget", ..Owner::map(name, uid) }
}

#[tokio::test(start_paused = true)]
async fn dependents_of_absent_owners_are_deleted() {
    let plane = Plane::started().await;
    let owner = plane.map("owner", &[], &[]).await;
    let child = plane.map("child", std::slice::from_ref(&owner), &[]).await;
    plane.map("grandchild", &[child], &[]).await;
    plane.map("never", &[Owner::map("never-was", NOWHERE)], &[]).await;
    plane.map("renewed", &[Owner { uid: NOWHERE.into(), ..owner }], &[]).await;
    plane.map("odd", &[Owner::map("never-was", "no usual uid")], &[]).await;
    assert_eq!(plane.maps().await, "child(owner)[] grandchild(child)[] owner()[]");
    plane.delete_map("owner", "Background").await;
    assert_eq!(plane.maps().await, "");
}

#[tokio::test(start_paused = true)]
async fn object_stays_for_its_last_owner_and_loses_the_others() {
    let plane = Plane::started().await;
    let owners = [plane.map("a", &[], &[]).await, plane.map("b", &[], &[]).await];
    plane.map("child", &owners, &[]).await;
    plane.delete_map("a", "Background").await;
    assert_eq!(plane.maps().await, "b()[] child(b)[]");
    plane.map("other", &[owners[1].clone(), Owner::map("gone", NOWHERE)], &[]).await;
    assert_eq!(plane.maps().await, "b()[] child(b)[] other(b)[]");
    plane.delete_map("b", "Background").await;
    assert_eq!(plane.maps().await, "");
}

#[tokio::test(start_paused = true)]
async fn owner_that_is_added_later_counts() {
    let plane = Plane::started().await;
    plane.map("child", &[], &[]).await;
    let gone = Owner::map("gone", NOWHERE).text();
    plane.patch_map("child", &format!(r#"{{"ownerReferences":[{gone}]}}"#)).await;
    assert_eq!(plane.maps().await, "");
}

#[tokio::test(start_paused = true)]
async fn foreground_waits_for_blocking_dependents_alone() {
    let plane = Plane::started().await;
    let owner = plane.map("owner", &[], &[]).await;
    plane.map("blocks", &[owner.clone().blocked()], &[HOLD]).await;
    plane.map("free", std::slice::from_ref(&owner), &[HOLD]).await;
    let other = plane.map("other", &[], &[]).await;
    plane.map("shared", &[owner.blocked(), other], &[]).await;
    plane.delete_map("owner", "Foreground").await;
    let held = "-blocks(owner)[example.com/hold] -free(owner)[example.com/hold] other()[] \
                -owner()[foregroundDeletion] shared(other)[]";
    assert_eq!(plane.maps().await, held);
    plane.patch_map("blocks", r#"{"finalizers":[]}"#).await;
    assert_eq!(plane.maps().await, "-free(owner)[example.com/hold] other()[] shared(other)[]");
}

#[tokio::test(start_paused = true)]
async fn foreground_ends_when_a_dependent_blocks_no_more() {
    let plane = Plane::started().await;
    let owner = plane.map("owner", &[], &[]).await;
    plane.map("child", &[owner.clone().blocked()], &[HOLD]).await;
    plane.delete_map("owner", "Foreground").await;
    assert_eq!(plane.maps().await, "-child(owner)[example.com/hold] -owner()[foregroundDeletion]");
    plane.patch_map("child", &format!(r#"{{"ownerReferences":[{}]}}"#, owner.text())).await;
    assert_eq!(plane.maps().await, "-child(owner)[example.com/hold]");
}

#[tokio::test(start_paused = true)]
async fn foreground_goes_down_a_chain_and_up_again() {
    let plane = Plane::started().await;
    let a = plane.map("a", &[], &[]).await;
    let b = plane.map("b", &[a.blocked()], &[]).await;
    plane.map("c", &[b.blocked()], &[HOLD]).await;
    plane.delete_map("a", "Foreground").await;
    let held = "-a()[foregroundDeletion] -b(a)[foregroundDeletion] -c(b)[example.com/hold]";
    assert_eq!(plane.maps().await, held);
    plane.patch_map("c", r#"{"finalizers":[]}"#).await;
    assert_eq!(plane.maps().await, "");
}

#[tokio::test(start_paused = true)]
async fn cycle_of_blocking_owners_is_deleted_in_the_foreground() {
    let plane = Plane::started().await;
    let a = plane.map("a", &[], &[]).await;
    let b = plane.map("b", &[a.blocked()], &[]).await;
    plane.patch_map("a", &format!(r#"{{"ownerReferences":[{}]}}"#, b.blocked().text())).await;
    assert_eq!(plane.maps().await, "a(b)[] b(a)[]");
    plane.delete_map("a", "Foreground").await;
    assert_eq!(plane.maps().await, "");
}

#[tokio::test(start_paused = true)]
async fn orphans_stay() {
    let plane = Plane::started().await;
    let owner = plane.map("owner", &[], &[]).await;
    let other = plane.map("other", &[], &[]).await;
    plane.map("alone", &[owner.clone().blocked()], &[]).await;
    plane.map("deleted", std::slice::from_ref(&owner), &[HOLD]).await;
    plane.delete_map("deleted", "Background").await;
    plane.map("shared", &[owner.clone(), other], &[]).await;
    let unknown = Owner { kind: "Unknown", ..owner };
    plane.map("unknown", &[unknown], &[]).await;
    plane.delete_map("owner", "Orphan").await;
    let orphans = "alone()[] -deleted()[example.com/hold] other()[] shared(other)[] unknown()[]";
    assert_eq!(plane.maps().await, orphans);
}

#[tokio::test(start_paused = true)]
async fn finalizers_of_a_dependent_choose_what_becomes_of_its_own() {
    let plane = Plane::started().await;
    let owner = plane.map("owner", &[], &[]).await;
    let orphans = plane.map("orphans", std::slice::from_ref(&owner), &["orphan"]).await;
    let foreground = plane.map("waits", &[owner], &["foregroundDeletion"]).await;
    plane.map("kept", &[orphans], &[]).await;
    plane.map("deleted", &[foreground.blocked()], &[HOLD]).await;
    plane.delete_map("owner", "Background").await;
    let after = "-deleted(waits)[example.com/hold] kept()[] -waits(owner)[foregroundDeletion]";
    assert_eq!(plane.maps().await, after);
}

#[tokio::test(start_paused = true)]
async fn owner_in_another_namespace_is_absent_and_reported() {
    let plane = Plane::started().await;
    let owner = plane.map("owner", &[], &[]).await;
    let maps = Address::core("configmaps", "m");
    let uid = plane.make(maps, &metadata("child", std::slice::from_ref(&owner), &[])).await;
    plane.make(maps, &metadata("nowhere", &[Owner::map("gone", NOWHERE)], &[])).await;
    let events = plane.events("m").await;
    assert!(plane.fixture.lookup("configmaps", "m", "child").is_none());
    assert!(plane.fixture.lookup("configmaps", "m", "nowhere").is_none());
    assert_eq!(events.len(), 1);
    let text = |key: &str| events[0].get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let message = format!(
        r#"ownerRef [v1/ConfigMap, namespace: m, name: owner, uid: {}] does not exist in namespace "m""#,
        owner.uid
    );
    assert_eq!((text("type"), text("reason")), ("Warning".into(), "OwnerRefInvalidNamespace".into()));
    assert_eq!((text("message"), text("reportingComponent")), (message, NAME.into()));
    let about = events[0].get("involvedObject").unwrap();
    assert_eq!(about.get("uid").and_then(Value::as_str), Some(uid.as_str()));
    assert_eq!(about.get("resourceVersion"), None);
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_object_with_a_namespaced_owner_stays_and_is_reported() {
    let plane = Plane::started().await;
    let owner = plane.map("owner", &[], &[]).await;
    let roles = Address::v1("rbac.authorization.k8s.io", "clusterroles", "");
    plane.make(roles, &metadata("present", &[owner], &[])).await;
    plane.make(roles, &metadata("absent", &[Owner::map("gone", NOWHERE)], &[])).await;
    let role = Owner {
        api_version: "rbac.authorization.k8s.io/v1",
        kind: "ClusterRole",
        ..Owner::map("gone", NOWHERE)
    };
    plane.make(roles, &metadata("collected", &[role], &[])).await;
    let events = plane.events("default").await;
    let messages: Vec<_> =
        events.iter().map(|event| event.get("message").and_then(Value::as_str).unwrap()).collect();
    assert_eq!(messages.len(), 1);
    assert!(messages[0].ends_with(r#"does not exist in namespace """#), "{messages:?}");
    let is_there = |name| plane.fixture.lookup("clusterroles.rbac.authorization.k8s.io", "", name).is_some();
    assert!(is_there("present") && is_there("absent") && !is_there("collected"));
}

#[tokio::test(start_paused = true)]
async fn object_with_an_owner_of_an_unknown_kind_stays_until_the_kind_is_served() {
    let plane = Plane::started().await;
    plane.map("child", &[widget("w", NOWHERE), Owner::map("gone", NOWHERE)], &[]).await;
    plane.map("version", &[Owner { api_version: "v2", ..Owner::map("gone", NOWHERE) }], &[]).await;
    assert_eq!(plane.maps().await, "child(w,gone)[] version(gone)[]");
    plane.install_widgets().await;
    assert_eq!(plane.maps().await, "version(gone)[]");
}

#[tokio::test(start_paused = true)]
async fn custom_kinds_are_owners_and_dependents() {
    let plane = Plane::started().await;
    plane.install_widgets().await;
    let owner = plane.map("owner", &[], &[]).await;
    let uid = plane.make(WIDGETS, &metadata("w", &[owner.clone(), Owner::map("gone", NOWHERE)], &[])).await;
    plane.map("child", &[widget("w", &uid)], &[]).await;
    assert_eq!(plane.maps().await, "child(w)[] owner()[]");
    let widget = plane.fixture.client.get(WIDGETS.named("w")).await.unwrap();
    let owners = widget.get("metadata").and_then(|metadata| metadata.get("ownerReferences"));
    assert_eq!(owners.and_then(Value::as_list).unwrap().len(), 1);

    // A kind that goes takes nothing with it; what is missing when it comes back is collected.
    plane.fixture.client.registry().uninstall("example.com", "widgets").await.unwrap();
    plane.delete_map("owner", "Background").await;
    assert_eq!(plane.maps().await, "child(w)[]");
    plane.install_widgets().await;
    assert_eq!(plane.maps().await, "");
    assert_eq!(plane.fixture.client.get(WIDGETS.named("w")).await.unwrap_err().code, 404);
}

#[tokio::test(start_paused = true)]
async fn owner_counts_in_every_version_of_its_kind() {
    let plane = Plane::started().await;
    let autoscalers =
        Address { version: "v2", ..Address::v1("autoscaling", "horizontalpodautoscalers", "n") };
    let spec = r#"{"metadata":{"name":"h"},"spec":{"maxReplicas":2,"scaleTargetRef":{"kind":"Deployment","name":"d"}}}"#;
    let uid = plane.make(autoscalers, spec).await;
    for (name, api_version) in [("a", "autoscaling/v1"), ("b", "autoscaling/v2")] {
        let owner = Owner { api_version, kind: "HorizontalPodAutoscaler", ..Owner::map("h", &uid) };
        plane.map(name, &[owner], &[]).await;
    }
    assert_eq!(plane.maps().await, "a(h)[] b(h)[]");
    plane.delete(autoscalers.named("h"), "Background").await;
    assert_eq!(plane.maps().await, "");
}

#[tokio::test(start_paused = true)]
async fn restart_finishes_what_was_begun() {
    let store = Arc::new(Memory::default());
    let plane = Plane::new(store.clone()).await;
    for policy in ["Background", "Foreground", "Orphan"] {
        let name = policy.to_lowercase();
        let owner = plane.map(&name, &[], &[]).await;
        plane.map(&format!("{name}-child"), &[owner.blocked()], &[]).await;
        plane.delete_map(&name, policy).await;
    }
    drop(plane);
    let mut plane = Plane::new(store).await;
    plane.start();
    assert_eq!(plane.maps().await, "orphan-child()[]");
}

#[tokio::test(start_paused = true)]
async fn objects_without_owners_take_no_place() {
    let plane = Plane::new(Arc::default()).await;
    let owner = plane.map("owner", &[], &[]).await;
    plane.map("child", &[owner.clone(), owner.clone().blocked()], &[]).await;
    let (mut graph, queue) = plane.graph();
    assert_eq!((graph.len(), queue.len()), (1, 1));
    assert!(graph.served("pods").is_some() && graph.served("events").is_none());
    plane.delete_map("child", "Background").await;
    graph.advance_all();
    assert_eq!(graph.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn objects_whose_owners_are_there_are_not_due() {
    let plane = Plane::new(Arc::default()).await;
    let (mut graph, queue) = plane.graph();
    graph.set_catalog(plane.fixture.client.registry().catalog());
    let owner = plane.map("owner", &[], &[]).await;
    let held = plane.map("held", &[], &[HOLD]).await;
    plane.map("child", &[owner.clone(), held.clone()], &[]).await;
    graph.advance_all();
    assert_eq!((graph.len(), queue.len()), (2, 0));

    plane.map("other-name", &[Owner { name: "other".into(), ..owner.clone() }], &[]).await;
    graph.advance_all();
    assert_eq!((graph.len(), queue.len()), (3, 1));
    plane.map("half", &[owner, Owner::map("gone", NOWHERE)], &[]).await;
    graph.advance_all();
    assert_eq!((graph.len(), queue.len()), (5, 2));
    plane.delete_map("held", "Foreground").await;
    plane.map("late", &[held], &[]).await;
    graph.advance_all();
    assert_eq!((graph.len(), queue.len()), (6, 5), "the owner, its dependent and the new one");
}

#[tokio::test(start_paused = true)]
async fn owner_of_a_type_that_is_not_followed_is_asked_for_now_and_then() {
    let plane = Plane::started().await;
    let events = Address::core("events", "n");
    let uid = plane.make(events, r#"{"metadata":{"name":"e"},"involvedObject":{"namespace":"n"}}"#).await;
    let owner = Owner { api_version: "events.k8s.io/v1", kind: "Event", ..Owner::map("e", &uid) };
    plane.map("child", &[owner], &[]).await;
    assert_eq!(plane.maps().await, "child(e)[]");
    plane.delete(events.named("e"), "Background").await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(plane.maps().await, "");
}

#[tokio::test(start_paused = true)]
async fn graph_starts_anew_when_changes_were_lost() {
    let plane = Plane::new(Arc::default()).await;
    let owner = plane.map("owner", &[], &[]).await;
    let roles = Address::v1("rbac.authorization.k8s.io", "roles", "n");
    plane.map("gone", std::slice::from_ref(&owner), &[]).await;
    let (mut graph, queue) = plane.graph();
    plane.make(roles, &metadata("role", std::slice::from_ref(&owner), &[])).await;
    graph.advance_all();
    assert_eq!((graph.len(), queue.len()), (2, 2));
    plane.delete_map("gone", "Background").await;
    plane.map("late", std::slice::from_ref(&owner), &[]).await;
    plane.delete_map("owner", "Background").await;
    plane.fixture.cache.forget(plane.fixture.cache.committed()).await.unwrap();
    graph.advance_all();
    assert_eq!((graph.len(), queue.len()), (2, 3));
    assert!(graph.has_dependents(&owner.uid.as_str().into()));
}

#[tokio::test(start_paused = true)]
async fn thousands_of_absent_owners_cost_little() {
    let plane = Plane::started().await;
    let owners: Vec<_> = (0..5_000).map(|number| Owner::map("gone", &format!("uid-{number}"))).collect();
    plane.map("child", &owners, &[]).await;
    let kept = plane.map("kept", &[], &[]).await;
    plane.map("other", &[&[kept], &*owners].concat(), &[]).await;
    assert_eq!(plane.maps().await, "kept()[] other(kept)[]");
}
