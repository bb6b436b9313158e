use super::*;
use crate::testing::Fixture;
use crate::workloads::testing::{in_status, text_at};
use kinds::object_meta;
use registry::{Address, DeleteOptions};
use std::time::Duration;

const SETS: Address<'static> = Address::v1("apps", "replicasets", "n");
const PODS: Address<'static> = Address::core("pods", "n");

fn set_text(name: &str, replicas: i64, more: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"replicas":{replicas},{more}"selector":{{"matchLabels":{{"app":"{name}"}}}},
        "template":{{"metadata":{{"labels":{{"app":"{name}","tier":"web"}},"annotations":{{"note":"x"}},"finalizers":["a/b"]}},
        "spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}}}}}"#
    )
}

fn pod_text(name: &str, labels: &str, more: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","labels":{{{labels}}}{more}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}"#
    )
}

impl Fixture {
    async fn replica_set(&self, name: &str, replicas: i64, more: &str) -> Map {
        self.create(SETS, &set_text(name, replicas, more)).await.as_map().cloned().unwrap()
    }

    async fn scale(&self, name: &str, replicas: i64) {
        self.merge(SETS.named(name), &format!(r#"{{"spec":{{"replicas":{replicas}}}}}"#)).await;
    }

    async fn until_pods(&self, count: usize) {
        self.until("that many pods", async || self.pod_count().await == count).await;
    }

    async fn until_status(&self, name: &str, counts: [i64; 4]) {
        self.until("the status", async || {
            let set = self.read(SETS.named(name)).await;
            let fields = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
            fields.map(|field| in_status(&set, field)) == counts
                && in_status(&set, "observedGeneration") == object_meta::number(&set, "generation").unwrap()
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn pods_are_made_of_the_template_and_counted_in_the_status() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let _running = fixture.start(&REPLICA_SETS);
    let set = fixture.replica_set("web", 3, "").await;
    fixture.until_pods(3).await;
    fixture.until_status("web", [3, 3, 0, 0]).await;
    for pod in fixture.pods().await {
        assert!(text_at(&pod, &["metadata", "name"]).starts_with("web-"));
        assert_eq!(text_at(&pod, &["metadata", "generateName"]), "web-");
        assert_eq!(text_at(&pod, &["metadata", "labels", "tier"]), "web");
        assert_eq!(text_at(&pod, &["metadata", "annotations", "note"]), "x");
        assert_eq!(object_meta::finalizers(&pod), ["a/b"]);
        let owner = crate::workloads::dependents::owner_references(&pod)[0].as_map().unwrap().clone();
        assert_eq!(owner.get("kind").unwrap().as_str(), Some("ReplicaSet"));
        assert_eq!(owner.get("apiVersion").unwrap().as_str(), Some("apps/v1"));
        assert_eq!(owner.get("uid").unwrap().as_str(), Some(object_meta::text(&set, "uid")));
        assert_eq!(owner.get("controller").unwrap().as_bool(), Some(true));
        assert_eq!(owner.get("blockOwnerDeletion").unwrap().as_bool(), Some(true));
    }
    let names = fixture.pod_names().await;
    fixture.make_ready(&names[0], 0).await;
    fixture.until_status("web", [3, 3, 1, 1]).await;
    let mut expected: Vec<_> =
        names.iter().map(|name| format!("SuccessfulCreate: Created pod: {name}")).collect();
    expected.sort();
    fixture
        .until("the events", async || {
            let mut events = fixture.events("ReplicaSet").await;
            events.sort();
            events == expected
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_end_are_replaced_and_those_too_many_are_deleted() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let _running = fixture.start(&REPLICA_SETS);
    let set = set_text("web", 4, "").replace(r#","finalizers":["a/b"]"#, "");
    fixture.create(SETS, &set).await;
    fixture.until_pods(4).await;
    let names = fixture.pod_names().await;
    // A failed pod does not count, and is kept.
    fixture.patch_pod_status(&names[0], r#"{"phase":"Failed"}"#).await;
    fixture.remove_pod(&names[1]).await;
    fixture.until_pods(5).await;
    fixture.until_status("web", [4, 4, 0, 0]).await;
    assert!(fixture.pod_names().await.contains(&names[0]));
    // The ready ones stay.
    fixture.make_ready(&names[2], 10).await;
    fixture.make_ready(&names[3], 10).await;
    fixture.scale("web", 2).await;
    fixture.until_status("web", [2, 2, 2, 2]).await;
    let left = fixture.pod_names().await;
    assert!(left.contains(&names[2]) && left.contains(&names[3]), "{left:?}");
    fixture
        .until("an event for each", async || {
            let events = fixture.events("ReplicaSet").await;
            events.iter().filter(|event| event.starts_with("SuccessfulDelete: Deleted pod: web-")).count()
                == 2
        })
        .await;
    fixture.scale("web", 0).await;
    fixture.until_status("web", [0; 4]).await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_available_after_having_been_ready_long_enough() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let _running = fixture.start(&REPLICA_SETS);
    fixture.replica_set("web", 2, r#""minReadySeconds":1,"#).await;
    fixture.until_pods(2).await;
    let names = fixture.pod_names().await;
    fixture.make_ready(&names[0], 60).await;
    fixture.until_status("web", [2, 2, 1, 1]).await;
    // In the future by the clock of its node.
    fixture.make_ready(&names[1], -1).await;
    fixture.until_status("web", [2, 2, 2, 1]).await;
    // Nothing but time passes.
    while in_status(&fixture.read(SETS.named("web")).await, "availableReplicas") < 2 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test(start_paused = true)]
async fn orphans_that_match_are_adopted_and_pods_that_do_not_are_released() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.create(PODS, &pod_text("early", r#""app":"web""#, "")).await;
    let other =
        r#","ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"x","uid":"u","controller":true}]"#;
    fixture.create(PODS, &pod_text("taken", r#""app":"web""#, other)).await;
    let plain = other.replace(r#","controller":true"#, "");
    fixture.create(PODS, &pod_text("owned", r#""app":"web""#, &plain)).await;
    let _running = fixture.start(&REPLICA_SETS);
    let set = fixture.replica_set("web", 3, "").await;
    fixture.until_status("web", [3, 1, 0, 0]).await;
    let uid = object_meta::text(&set, "uid");
    let is_own = |pod: &Map| {
        let owners = crate::workloads::dependents::owner_references(pod);
        owners.iter().any(|owner| owner.get("uid").and_then(Value::as_str) == Some(uid))
    };
    let own = async |name: &str| is_own(&fixture.read(PODS.named(name)).await);
    assert!(own("early").await && own("owned").await && !own("taken").await);

    // A pod that comes later is too many, and goes again: it is adopted first.
    fixture.create(PODS, &pod_text("late", r#""app":"web","tier":"web""#, "")).await;
    fixture.until("one less", async || fixture.pod_count().await == 4).await;

    // A pod whose labels change is released, and replaced.
    let released = fixture.pod_names().await.into_iter().find(|name| name != "taken").unwrap();
    fixture.merge(PODS.named(&released), r#"{"metadata":{"labels":{"app":"other"}}}"#).await;
    fixture.until("a release", async || !own(&released).await).await;
    fixture.until_pods(5).await;
    // And adopted again when they change back, so that one is too many.
    fixture.merge(PODS.named(&released), r#"{"metadata":{"labels":{"app":"web"}}}"#).await;
    fixture.until_pods(4).await;
}

#[tokio::test(start_paused = true)]
async fn set_that_is_being_deleted_makes_and_adopts_nothing() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let text = set_text("web", 2, "").replace(r#""name":"web"}"#, r#""name":"web","finalizers":["x/y"]}"#);
    fixture.create(SETS, &text).await;
    fixture.client.delete(SETS.named("web"), &DeleteOptions::default()).await.unwrap();
    fixture.create(PODS, &pod_text("early", r#""app":"web""#, "")).await;
    let counters = Arc::<crate::Counters>::default();
    let _running = fixture.start_counted(&REPLICA_SETS, counters.clone());
    fixture.until("a look", async || counters.done() > 0).await;
    assert_eq!(fixture.pod_names().await, ["early"]);
    assert_eq!(
        object_meta::metadata(&fixture.read(PODS.named("early")).await).unwrap().get("ownerReferences"),
        None
    );
}

#[tokio::test(start_paused = true)]
async fn failures_show_in_a_condition_and_an_event_until_they_end() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let quota = Address::core("resourcequotas", "n");
    fixture.create(quota, r#"{"metadata":{"name":"q"},"spec":{"hard":{"pods":"2"}}}"#).await;
    let spec = r#"{"status":{"hard":{"pods":"2"},"used":{"pods":"0"}}}"#;
    fixture.merge(quota.named("q").subresource("status"), spec).await;
    let _running = fixture.start(&REPLICA_SETS);
    fixture.replica_set("web", 5, "").await;
    let failure = async || {
        let set = fixture.read(SETS.named("web")).await;
        let status = set.get("status").and_then(Value::as_map).cloned().unwrap_or_default();
        let failure = status::find(&status, REPLICA_FAILURE)?;
        Some([status::text(failure, "reason").to_owned(), status::text(failure, "message").to_owned()])
    };
    fixture.until("a failure", async || failure().await.is_some()).await;
    let [reason, message] = failure().await.unwrap();
    assert_eq!(reason, "FailedCreate");
    assert!(
        message.contains("exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"),
        "{message}"
    );
    fixture
        .until("an event", async || {
            let events = fixture.events("ReplicaSet").await;
            events.iter().any(|event| event.starts_with("FailedCreate: Error creating: pods \"web-"))
        })
        .await;
    assert_eq!(fixture.pod_count().await, 2);
    fixture.client.delete(quota.named("q"), &DeleteOptions::default()).await.unwrap();
    fixture.until_pods(5).await;
    fixture.until("an end of the failure", async || failure().await.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn many_replicas_come_in_bursts_and_none_is_too_many() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let _running = fixture.start(&REPLICA_SETS);
    fixture.replica_set("web", 1100, "").await;
    fixture.until_status("web", [1100, 1100, 0, 0]).await;
    assert_eq!(fixture.pod_count().await, 1100);
}

#[tokio::test(start_paused = true)]
async fn replication_controllers_are_kept_alike() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let _running = fixture.start(&REPLICATION_CONTROLLERS);
    let address = Address::core("replicationcontrollers", "n");
    let text = set_text("web", 2, "").replace(r#"{"matchLabels":{"app":"web"}}"#, r#"{"app":"web"}"#);
    fixture.create(address, &text).await;
    fixture.create(PODS, &pod_text("early", r#""app":"web""#, "")).await;
    fixture
        .until("the status", async || in_status(&fixture.read(address.named("web")).await, "replicas") == 2)
        .await;
    fixture.until("one event", async || !fixture.events("ReplicationController").await.is_empty()).await;
    let pods = fixture.pods().await;
    let owner = crate::workloads::dependents::owner_references(&pods[0])[0].as_map().unwrap().clone();
    assert_eq!(owner.get("kind").unwrap().as_str(), Some("ReplicationController"));
    assert_eq!(owner.get("apiVersion").unwrap().as_str(), Some("v1"));
}
