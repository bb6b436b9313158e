use super::*;
use crate::testing::Fixture;
use registry::{Address, DeleteOptions, Patch};

static TESTED: Controller = Controller {
    run: |context| Box::pin(run(context, Settings { ended: 2, quarantine: Duration::from_secs(40) })),
    ..CONTROLLER
};

impl Fixture {
    async fn garbage_pod(&self, name: &str, node: &str, finalizers: &str) {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","finalizers":[{finalizers}]}},"spec":{{"nodeName":"{node}","containers":[{{"name":"c","image":"i"}}]}}}}"#
        );
        self.create(Address::core("pods", "n"), &text).await;
    }

    async fn set_pod_phase(&self, name: &str, status: &str) {
        let address = Address::core("pods", "n").named(name).subresource("status");
        let patch = format!(r#"{{"status":{status}}}"#);
        self.client.patch(address, Patch::Merge, patch.as_bytes()).await.unwrap();
    }

    async fn begin_delete(&self, name: &str) {
        self.client.delete(Address::core("pods", "n").named(name), &DeleteOptions::default()).await.unwrap();
    }

    fn is_there(&self, name: &str) -> bool {
        self.lookup("pods", "n", name).is_some()
    }
}

#[tokio::test(start_paused = true)]
async fn pods_of_missing_nodes_are_deleted_after_a_while() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.zone_node("here", "z", "1").await;
    fixture.garbage_pod("lost", "gone", r#""a.b/c""#).await;
    fixture.garbage_pod("kept", "here", "").await;
    fixture.garbage_pod("free", "", "").await;
    let _running = fixture.start(&TESTED);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!fixture.lookup("pods", "n", "lost").unwrap().is_deleting());
    let is_deleting = || fixture.lookup("pods", "n", "lost").is_some_and(|pod| pod.is_deleting());
    fixture.until("an end", async || is_deleting()).await;
    let pod = fixture.client.get(Address::core("pods", "n").named("lost")).await.unwrap();
    let status = Pod::of(pod.as_map().unwrap()).status();
    let condition = status.conditions().iter().find(|one| one.r#type() == "DisruptionTarget").unwrap();
    assert_eq!(status.phase(), "Failed");
    assert_eq!(
        (condition.reason(), condition.message()),
        ("DeletionByPodGC", "PodGC: node no longer exists")
    );
    assert!(fixture.is_there("kept") && fixture.is_there("free"));
    fixture.client.delete(Address::core("nodes", "").named("here"), &DeleteOptions::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(45)).await;
    fixture.until("another end", async || !fixture.is_there("kept")).await;
    assert!(fixture.is_there("free"));
}

#[tokio::test(start_paused = true)]
async fn pods_on_nodes_out_of_service_end_when_they_are_deleted() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.zone_node("node", "z", "1").await;
    fixture.garbage_pod("a", "node", "").await;
    fixture.garbage_pod("b", "node", "").await;
    let _running = fixture.start(&TESTED);
    fixture.begin_delete("a").await;
    let node = Address::core("nodes", "").named("node");
    let taint = br#"{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"}]}}"#;
    fixture.client.patch(node, Patch::Merge, taint).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(fixture.is_there("a"), "the node is ready");
    let unready = br#"{"status":{"conditions":[{"type":"Ready","status":"False"}]}}"#;
    fixture.client.patch(node.subresource("status"), Patch::Merge, unready).await.unwrap();
    fixture.until("an end", async || !fixture.is_there("a")).await;
    assert!(fixture.is_there("b"));
    fixture.begin_delete("b").await;
    fixture.until("another end", async || !fixture.is_there("b")).await;
}

#[tokio::test(start_paused = true)]
async fn oldest_of_too_many_ended_pods_go_evicted_ones_first() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    for name in ["a", "b", "c", "d"] {
        fixture.garbage_pod(name, "", "").await;
    }
    fixture.set_pod_phase("a", r#"{"phase":"Succeeded"}"#).await;
    fixture.set_pod_phase("b", r#"{"phase":"Failed"}"#).await;
    let _running = fixture.start(&TESTED);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(fixture.is_there("a") && fixture.is_there("b"));
    fixture.set_pod_phase("c", r#"{"phase":"Failed","reason":"Evicted"}"#).await;
    fixture.until("an end", async || !fixture.is_there("c")).await;
    assert!(fixture.is_there("a") && fixture.is_there("b") && fixture.is_there("d"));
    fixture.set_pod_phase("d", r#"{"phase":"Succeeded"}"#).await;
    fixture.until("another end", async || !fixture.is_there("a")).await;
    assert!(fixture.is_there("b") && fixture.is_there("d"));
}
