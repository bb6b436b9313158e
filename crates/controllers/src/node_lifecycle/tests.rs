use super::*;
use crate::testing::Fixture;

const NODES: Address<'static> = Address::core("nodes", "");

impl Fixture {
    async fn node_now(&self, name: &str) -> Map {
        self.client.get(NODES.named(name)).await.unwrap().as_map().unwrap().clone()
    }

    async fn patch_node(&self, name: &str, part: &str, patch: &str) {
        let address = NODES.named(name).subresource(part);
        self.client.patch(address, Patch::Merge, patch.as_bytes()).await.unwrap();
    }

    /// The taints of a node: key and effect.
    async fn taints_of(&self, name: &str) -> Vec<String> {
        let node = self.node_now(name).await;
        let taints = Node::of(&node).spec().taints().iter().map(|taint| {
            let key = taint.key().strip_prefix("node.kubernetes.io/").unwrap_or(taint.key()).to_owned();
            format!("{key} {}", taint.effect())
        });
        let mut taints: Vec<String> = taints.collect();
        taints.sort();
        taints
    }

    async fn until_taints(&self, name: &str, expected: &[&str]) {
        self.until(&format!("{name} {expected:?}"), async || self.taints_of(name).await == expected).await;
    }

    async fn ready_of(&self, name: &str) -> (String, String) {
        let node = self.node_now(name).await;
        let condition = ready(&node).unwrap();
        (condition.status().to_owned(), condition.reason().to_owned())
    }

    /// The node reports that it is ready, or not.
    async fn beat(&self, name: &str, count: i64, value: &str) {
        let at = Time::from_unix(1_700_000_000 + count);
        let status = format!(
            r#"{{"status":{{"conditions":[{{"type":"Ready","status":"{value}","lastHeartbeatTime":"{at}"}}]}}}}"#
        );
        self.patch_node(name, "status", &status).await;
    }
}

#[tokio::test(start_paused = true)]
async fn silent_nodes_are_unknown_and_their_pods_are_not_ready() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.namespace("default").await;
    for name in ["node", "other"] {
        fixture.zone_node(name, "z", "1").await;
    }
    fixture.endpoint_pod("p", "10.1.0.1", true).await;
    let _running = fixture.start(&CONTROLLER);
    fixture
        .until_event("default", "RegisteredNode", "Node node event: Registered Node node in Controller")
        .await;
    for count in 0..4 {
        tokio::time::sleep(Duration::from_secs(30)).await;
        fixture.beat("other", count, "True").await;
    }
    let unknown = ("Unknown".to_owned(), "NodeStatusUnknown".to_owned());
    assert_eq!(fixture.ready_of("node").await, unknown);
    fixture.until_event("default", "NodeNotReady", "Node node status is now: NodeNotReady").await;
    fixture.until_event("n", "NodeNotReady", "Node is not ready").await;
    let pod = fixture.client.get(Address::core("pods", "n").named("p")).await.unwrap();
    let conditions = Pod::of(pod.as_map().unwrap()).status().conditions();
    assert_eq!(conditions.iter().find(|one| one.r#type() == "Ready").map(|one| one.status()), Some("False"));
    fixture.until_taints("node", &["unreachable NoExecute", "unreachable NoSchedule"]).await;
    assert_eq!(fixture.ready_of("other").await.0, "True");
    // It reports again.
    fixture.beat("node", 1, "True").await;
    fixture.until_taints("node", &[]).await;
    fixture.client.delete(NODES.named("node"), &registry::DeleteOptions::default()).await.unwrap();
    fixture
        .until_event("default", "RemovingNode", "Node node event: Removing Node node from Controller")
        .await;
}

#[tokio::test(start_paused = true)]
async fn leases_keep_nodes_alive_for_as_long_as_they_last() {
    let fixture = Fixture::new().await;
    fixture.namespace("kube-node-lease").await;
    fixture.zone_node("node", "z", "1").await;
    let lease = format!(
        r#"{{"metadata":{{"name":"node"}},"spec":{{"holderIdentity":"node","leaseDurationSeconds":3600,"renewTime":"{}"}}}}"#,
        MicroTime::now()
    );
    fixture.create(Address::v1("coordination.k8s.io", "leases", "kube-node-lease"), &lease).await;
    let _running = fixture.start(&CONTROLLER);
    tokio::time::sleep(Duration::from_secs(3000)).await;
    assert_eq!(fixture.ready_of("node").await.0, "True");
    tokio::time::sleep(Duration::from_secs(700)).await;
    let is_unknown = async || fixture.ready_of("node").await.0 == "Unknown";
    fixture.until("an unknown node", is_unknown).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_that_never_reported_are_said_to_be_so() {
    let fixture = Fixture::new().await;
    fixture.create(NODES, r#"{"metadata":{"name":"node"}}"#).await;
    let _running = fixture.start(&CONTROLLER);
    tokio::time::sleep(Duration::from_secs(70)).await;
    let node = fixture.node_now("node").await;
    let conditions = Node::of(&node).status().conditions();
    let said: Vec<_> = conditions.iter().map(|one| (one.r#type(), one.status(), one.reason())).collect();
    let never = |kind| (kind, "Unknown", "NodeStatusNeverUpdated");
    assert_eq!(said, ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"].map(never));
}

#[tokio::test(start_paused = true)]
async fn conditions_and_labels_of_nodes_are_followed() {
    let fixture = Fixture::new().await;
    for name in ["node", "other"] {
        fixture.zone_node(name, "z", "1").await;
    }
    let _running = fixture.start(&CONTROLLER);
    let status = r#"{"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"DiskPressure","status":"True"}]}}"#;
    fixture.patch_node("node", "status", status).await;
    fixture.until_taints("node", &["disk-pressure NoSchedule"]).await;
    fixture
        .patch_node(
            "node",
            "",
            r#"{"spec":{"unschedulable":true},"metadata":{"labels":{"kubernetes.io/os":"linux"}}}"#,
        )
        .await;
    fixture.until_taints("node", &["disk-pressure NoSchedule", "unschedulable NoSchedule"]).await;
    let labelled = async || {
        let node = fixture.node_now("node").await;
        Node::of(&node).metadata().labels().get("beta.kubernetes.io/os") == Some("linux")
    };
    fixture.until("the older label", labelled).await;
    fixture.patch_node("node", "", r#"{"spec":{"unschedulable":null}}"#).await;
    fixture.beat("node", 1, "False").await;
    fixture.until_taints("node", &["not-ready NoExecute", "not-ready NoSchedule"]).await;
    fixture.beat("node", 2, "Unknown").await;
    fixture.until_taints("node", &["unreachable NoExecute", "unreachable NoSchedule"]).await;
}

#[tokio::test(start_paused = true)]
async fn no_node_loses_its_pods_when_all_are_silent() {
    let fixture = Fixture::new().await;
    for name in ["node", "other"] {
        fixture.zone_node(name, "z", "1").await;
    }
    let _running = fixture.start(&CONTROLLER);
    tokio::time::sleep(Duration::from_secs(200)).await;
    for name in ["node", "other"] {
        assert_eq!(fixture.ready_of(name).await.0, "Unknown");
        fixture.until_taints(name, &["unreachable NoSchedule"]).await;
    }
}
