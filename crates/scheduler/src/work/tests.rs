use super::*;
use crate::testing::Fixture;
use object::Map;
use registry::{Address, DeleteOptions, Patch};
use schema::view::View as _;
use schema::views::core::v1;
use schema::views::events::v1::Event;

const ROOM: &str = r#""cpu":"4","memory":"8Gi","pods":"10""#;

fn cpu(amount: &str, more: &str) -> String {
    format!(
        r#""containers":[{{"name":"c","image":"i","resources":{{"requests":{{"cpu":"{amount}"}}}}}}]{more}"#
    )
}

impl Fixture {
    fn start(&self) -> Task {
        start(self.client.registry(), "host")
    }

    async fn delete(&self, name: &str) {
        let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        self.client.delete(Address::core("pods", "ns").named(name), &options).await.unwrap();
    }

    /// The events about a pod: reason, action, type, note and count.
    async fn events(&self, pod: &str) -> Vec<String> {
        let events = self.client.list_objects(Address::v1("events.k8s.io", "events", "ns")).await.unwrap();
        let shown = |event: &Map| {
            let event = Event::of(event);
            let count = event.series().map_or(1, |series| series.count());
            (event.regarding().name() == pod).then(|| {
                format!("{} {} {} {count}: {}", event.r#type(), event.reason(), event.action(), event.note())
            })
        };
        events.iter().filter_map(|event| shown(event.as_map().unwrap())).collect()
    }

    async fn has_event(&self, pod: &str, event: &str) {
        let has = async || self.events(pod).await.iter().any(|known| known == event);
        for _ in 0..500 {
            if has().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{event} is not among {:?}", self.events(pod).await);
    }
}

#[tokio::test(start_paused = true)]
async fn pods_are_bound_to_nodes_that_have_room_and_others_when_there_is_some() {
    let fixture = Fixture::new().await;
    let _scheduler = fixture.start();
    fixture.pod("early", "", &cpu("3", "")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.message("early").await, "", "without nodes, nothing is said");
    fixture.node("a", "", "", ROOM).await;
    assert_eq!(fixture.scheduled("early").await, "a");
    fixture.has_event("early", "Normal Scheduled Binding 1: Successfully assigned ns/early to a").await;

    fixture.pod("late", "", &cpu("2", "")).await;
    const MESSAGE: &str = "0/1 nodes are available: 1 Insufficient cpu. preemption: \
                           0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    assert_eq!(fixture.rejected("late").await, MESSAGE);
    fixture.has_event("late", &format!("Warning FailedScheduling Scheduling 1: {MESSAGE}")).await;
    let pod = fixture.get("late").await.unwrap();
    let condition = v1::Pod::of(&pod).status().conditions().get(0).unwrap();
    assert_eq!((condition.status(), condition.reason()), ("False", "Unschedulable"));

    fixture.delete("early").await;
    assert_eq!(fixture.scheduled("late").await, "a");
    fixture.pod("other", "", r#""schedulerName":"other""#).await;
    fixture.pod("gated", "", r#""schedulingGates":[{"name":"wait"}]"#).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.node_of("other").await, "");
    assert_eq!(fixture.node_of("gated").await, "");
    let open = br#"{"spec":{"schedulingGates":null}}"#;
    fixture.client.patch(Address::core("pods", "ns").named("gated"), Patch::Merge, open).await.unwrap();
    assert_eq!(fixture.scheduled("gated").await, "a");
}

#[tokio::test(start_paused = true)]
async fn the_least_used_node_is_chosen_and_owners_are_spread() {
    let fixture = Fixture::new().await;
    for name in ["a", "b", "c"] {
        fixture.node(name, "", "", ROOM).await;
    }
    let _scheduler = fixture.start();
    fixture.pod("big", "", &cpu("2", "")).await;
    let first = fixture.scheduled("big").await;
    let mut nodes = vec![first.clone()];
    for name in ["p", "q"] {
        fixture.pod(name, "", &cpu("1", "")).await;
        nodes.push(fixture.scheduled(name).await);
    }
    nodes.sort();
    assert_eq!(nodes, ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn pods_of_lower_priority_make_way() {
    let fixture = Fixture::new().await;
    fixture.node("a", "", "", ROOM).await;
    let _scheduler = fixture.start();
    fixture.pod("low", "", &cpu("1", r#","priority":1"#)).await;
    fixture.pod("middle", "", &cpu("2", r#","priority":2"#)).await;
    fixture.scheduled("low").await;
    fixture.scheduled("middle").await;
    // A pod that goes slowly can be seen while it goes.
    let grace = r#""terminationGracePeriodSeconds":30"#;
    let text =
        format!(r#"{{"metadata":{{"name":"slow"}},"spec":{{{},{grace}}}}}"#, cpu("1", r#","priority":1"#));
    fixture.create(Address::core("pods", "ns"), &text).await;
    fixture.scheduled("slow").await;

    fixture.pod("never", "", &cpu("2", r#","priority":9,"preemptionPolicy":"Never""#)).await;
    assert_eq!(
        fixture.rejected("never").await,
        "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
    );
    fixture.delete("never").await;
    fixture.pod("high", "", &cpu("2", r#","priority":9"#)).await;
    fixture
        .until("a nomination", async || {
            let pod = fixture.get("high").await.unwrap();
            v1::Pod::of(&pod).status().nominated_node_name() == "a"
        })
        .await;
    assert!(fixture.message("high").await.starts_with("0/1 nodes are available: 1 Insufficient cpu."));
    fixture.until("the end of a pod", async || fixture.get("low").await.is_none()).await;
    let slow = fixture.get("slow").await.unwrap();
    let slow = v1::Pod::of(&slow);
    assert!(slow.metadata().deletion_timestamp().is_some());
    let target = slow.status().conditions().iter().find(|it| it.r#type() == "DisruptionTarget").unwrap();
    assert_eq!(
        (target.status(), target.reason(), target.message()),
        (
            "True",
            "PreemptionByScheduler",
            "default-scheduler: preempting to accommodate a higher priority pod"
        )
    );
    let high = fixture.get("high").await.unwrap();
    let uid = v1::Pod::of(&high).metadata().uid().to_owned();
    fixture
        .has_event("slow", &format!("Normal Preempted Preempting 1: Preempted by pod {uid} on node a"))
        .await;
    assert_eq!(fixture.node_of("high").await, "");
    fixture.delete("slow").await;
    assert_eq!(fixture.scheduled("high").await, "a");
    assert_eq!(fixture.node_of("middle").await, "a", "it did not have to go");
}

#[tokio::test(start_paused = true)]
async fn budgets_protect_pods_where_others_can_make_way() {
    let fixture = Fixture::new().await;
    fixture.node("a", "", "", ROOM).await;
    fixture.node("b", "", "", ROOM).await;
    let budget =
        r#"{"metadata":{"name":"b"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"kept"}}}}"#;
    fixture.create(Address::v1("policy", "poddisruptionbudgets", "ns"), budget).await;
    let low = |node: &str| cpu("3", &format!(r#","priority":1,"nodeName":"{node}""#));
    fixture.pod("kept", r#""app":"kept""#, &low("a")).await;
    fixture.pod("spare", r#""app":"spare""#, &low("b")).await;
    let _scheduler = fixture.start();
    fixture.pod("high", "", &cpu("3", r#","priority":9"#)).await;
    assert_eq!(fixture.scheduled("high").await, "b");
    assert!(fixture.get("kept").await.is_some());
    assert!(fixture.get("spare").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stock_scheduler_that_holds_its_lease_comes_first() {
    let fixture = Fixture::new().await;
    fixture.create(Address::core("namespaces", ""), r#"{"metadata":{"name":"kube-system"}}"#).await;
    fixture.node("a", "", "", ROOM).await;
    let now = object::time::MicroTime::now();
    let lease = format!(
        r#"{{"metadata":{{"name":"kube-scheduler"}},"spec":{{"holderIdentity":"x","leaseDurationSeconds":15,"renewTime":"{now}"}}}}"#
    );
    let leases = Address::v1("coordination.k8s.io", "leases", "kube-system");
    fixture.create(leases, &lease).await;
    let _scheduler = fixture.start();
    fixture.pod("p", "", "").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(fixture.node_of("p").await, "");
    let released = br#"{"spec":{"holderIdentity":""}}"#;
    fixture.client.patch(leases.named("kube-scheduler"), Patch::Merge, released).await.unwrap();
    assert_eq!(fixture.scheduled("p").await, "a");
}

#[tokio::test(start_paused = true)]
async fn claims_are_bound_before_their_pod() {
    let fixture = Fixture::new().await;
    fixture.node("a", "", "", ROOM).await;
    let class = r#"{"metadata":{"name":"late"},"provisioner":"kubernetes.io/no-provisioner","volumeBindingMode":"WaitForFirstConsumer"}"#;
    fixture.create(Address::v1("storage.k8s.io", "storageclasses", ""), class).await;
    let claim = r#"{"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"late","resources":{"requests":{"storage":"1Gi"}}}}"#;
    fixture.create(Address::core("persistentvolumeclaims", "ns"), claim).await;
    let volume = r#"{"metadata":{"name":"v"},"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"storageClassName":"late","hostPath":{"path":"/x"}}}"#;
    let volumes = Address::core("persistentvolumes", "");
    fixture.create(volumes, volume).await;
    let status = volumes.named("v").subresource("status");
    fixture.client.patch(status, Patch::Merge, br#"{"status":{"phase":"Available"}}"#).await.unwrap();
    let _scheduler = fixture.start();
    fixture.pod("p", "", r#""volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]"#).await;
    fixture
        .until("a bound volume", async || {
            let volume = fixture.client.get(volumes.named("v")).await.unwrap();
            let claim = v1::PersistentVolume::of(volume.as_map().unwrap()).spec().claim_ref();
            claim.is_some_and(|claim| (claim.name(), claim.namespace()) == ("c", "ns"))
        })
        .await;
    assert_eq!(fixture.node_of("p").await, "", "the claim is not bound yet");
    // What the controller of volumes does then.
    let bound = br#"{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes"}},"spec":{"volumeName":"v"}}"#;
    let claims = Address::core("persistentvolumeclaims", "ns").named("c");
    fixture.client.patch(claims, Patch::Merge, bound).await.unwrap();
    assert_eq!(fixture.scheduled("p").await, "a");
}
