use super::*;
use crate::testing::{Fixture, Running};
use crate::workloads::testing::{in_status, text_at};
use kinds::object_meta;
use registry::{Address, DeleteOptions};

const SETS: Address<'static> = Address::v1("apps", "daemonsets", "n");
const PODS: Address<'static> = Address::core("pods", "n");
const NODES: Address<'static> = Address::core("nodes", "");
const REVISIONS: Address<'static> = Address::v1("apps", "controllerrevisions", "n");

async fn fixture(nodes: &[&str]) -> (Fixture, Running) {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    for name in nodes {
        fixture.node(name, "", "").await;
    }
    let running = fixture.start(&CONTROLLER);
    (fixture, running)
}

impl Fixture {
    async fn node(&self, name: &str, labels: &str, taints: &str) {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{{labels}}}}},"spec":{{"taints":[{taints}]}}}}"#
        );
        self.create(NODES, &text).await;
    }

    async fn daemon_set(&self, more: &str, pod: &str) {
        let text = format!(
            r#"{{"metadata":{{"name":"d"}},"spec":{{{more}"selector":{{"matchLabels":{{"app":"d"}}}},
            "template":{{"metadata":{{"labels":{{"app":"d"}}}},"spec":{{{pod}"containers":[{{"name":"c","image":"one"}}]}}}}}}}}"#
        );
        self.create(SETS, &text).await;
    }

    /// `node=image` of the pods that are not being deleted, in order.
    async fn daemons(&self) -> Vec<String> {
        let pods = self.pods().await;
        let live = pods.iter().filter(|pod| !object_meta::is_deleting(pod));
        let mut daemons: Vec<_> = live
            .map(|pod| {
                let node = match text_at(pod, &["spec", "nodeName"]) {
                    "" => template::bound_to(pod).unwrap_or_default(),
                    node => node,
                };
                let image = Pod::of(pod).spec().containers().get(0).unwrap().image();
                format!("{node}={image}")
            })
            .collect();
        daemons.sort();
        daemons
    }

    async fn until_daemons(&self, expected: &[&str]) {
        self.until(&format!("daemons {expected:?}"), async || self.daemons().await == expected).await;
    }

    async fn until_daemon_counts(&self, expected: &[(&str, i64)]) {
        self.until(&format!("{expected:?}"), async || {
            let set = self.read(SETS.named("d")).await;
            expected.iter().all(|(field, count)| in_status(&set, field) == *count)
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_node_gets_a_pod_that_is_bound_to_it() {
    let (fixture, _running) = fixture(&["a", "b"]).await;
    fixture.daemon_set("", "").await;
    fixture.until_daemons(&["a=one", "b=one"]).await;
    fixture
        .until_daemon_counts(&[
            ("desiredNumberScheduled", 2),
            ("currentNumberScheduled", 2),
            ("updatedNumberScheduled", 2),
            ("numberUnavailable", 2),
        ])
        .await;
    let pod = fixture.pods().await.remove(0);
    let tolerations = Pod::of(&pod).spec().tolerations();
    let tolerated: Vec<_> =
        tolerations.iter().map(|one| format!("{}:{}:{}", one.key(), one.operator(), one.effect())).collect();
    assert_eq!(
        tolerated,
        [
            "node.kubernetes.io/not-ready:Exists:NoExecute",
            "node.kubernetes.io/unreachable:Exists:NoExecute",
            "node.kubernetes.io/disk-pressure:Exists:NoSchedule",
            "node.kubernetes.io/memory-pressure:Exists:NoSchedule",
            "node.kubernetes.io/pid-pressure:Exists:NoSchedule",
            "node.kubernetes.io/unschedulable:Exists:NoSchedule",
        ]
    );
    let revision = fixture.all(REVISIONS).await.remove(0);
    let hash = text_at(&revision, &["metadata", "labels", REVISION_LABEL]).to_owned();
    assert_eq!(text_at(&pod, &["metadata", "labels", REVISION_LABEL]), hash);
    assert_eq!(object_meta::text(&revision, "name"), format!("d-{hash}"));
    // A node that comes gets one too.
    fixture.node("c", "", "").await;
    fixture.until_daemons(&["a=one", "b=one", "c=one"]).await;
    fixture.make_all_ready().await;
    fixture
        .until_daemon_counts(&[("numberReady", 3), ("numberAvailable", 3), ("numberUnavailable", 0)])
        .await;
    // The pod of a node that goes waits for nothing any more.
    fixture.client.delete(NODES.named("c"), &DeleteOptions::default()).await.unwrap();
    fixture.until_daemons(&["a=one", "b=one"]).await;
    fixture.until("events of the controller", async || fixture.events("DaemonSet").await.len() == 4).await;
}

#[tokio::test(start_paused = true)]
async fn only_nodes_that_fit_have_pods() {
    let (fixture, _running) = fixture(&[]).await;
    let taint = |effect: &str| format!(r#"{{"key":"k","value":"v","effect":"{effect}"}}"#);
    fixture.node("plain", "", "").await;
    fixture.node("labelled", r#""disk":"ssd""#, "").await;
    fixture
        .node(
            "cordoned",
            r#""disk":"ssd""#,
            r#"{"key":"node.kubernetes.io/unschedulable","effect":"NoSchedule"}"#,
        )
        .await;
    fixture.node("tainted", r#""disk":"ssd""#, &taint("NoSchedule")).await;
    fixture.daemon_set("", r#""nodeSelector":{"disk":"ssd"},"#).await;
    fixture.until_daemons(&["cordoned=one", "labelled=one"]).await;
    // A label makes a node fit, and a taint drives no pod away unless its effect says so.
    fixture.merge(NODES.named("plain"), r#"{"metadata":{"labels":{"disk":"ssd"}}}"#).await;
    fixture.until_daemons(&["cordoned=one", "labelled=one", "plain=one"]).await;
    fixture
        .merge(NODES.named("labelled"), &format!(r#"{{"spec":{{"taints":[{}]}}}}"#, taint("NoSchedule")))
        .await;
    fixture.until_daemon_counts(&[("desiredNumberScheduled", 2), ("numberMisscheduled", 1)]).await;
    assert_eq!(fixture.daemons().await.len(), 3);
    fixture
        .merge(NODES.named("labelled"), &format!(r#"{{"spec":{{"taints":[{}]}}}}"#, taint("NoExecute")))
        .await;
    fixture.until_daemons(&["cordoned=one", "plain=one"]).await;
    fixture.merge(NODES.named("plain"), r#"{"metadata":{"labels":{"disk":null}}}"#).await;
    fixture.until_daemons(&["cordoned=one"]).await;
}

#[tokio::test(start_paused = true)]
async fn affinity_decides_by_labels_and_names() {
    let (fixture, _running) = fixture(&[]).await;
    fixture.node("a", r#""n":"3""#, "").await;
    fixture.node("b", r#""n":"7""#, "").await;
    fixture.node("c", "", "").await;
    let terms = r#"{"matchExpressions":[{"key":"n","operator":"Gt","values":["5"]}]},
        {"matchFields":[{"key":"metadata.name","operator":"In","values":["c"]}]}"#;
    let affinity = format!(
        r#""affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[{terms}]}}}}}},"#
    );
    fixture.daemon_set("", &affinity).await;
    fixture.until_daemons(&["b=one", "c=one"]).await;
}

#[tokio::test(start_paused = true)]
async fn rolling_update_replaces_as_many_pods_as_may_be_missing() {
    let (fixture, _running) = fixture(&["a", "b", "c"]).await;
    fixture.daemon_set("", "").await;
    fixture.until("pods", async || fixture.pod_count().await == 3).await;
    fixture.make_all_ready().await;
    fixture.until_daemon_counts(&[("numberAvailable", 3), ("observedGeneration", 1)]).await;
    fixture.set_template_image(SETS.named("d"), "two").await;
    for updated in 1..=3 {
        fixture
            .until("one more", async || {
                fixture.daemons().await.iter().filter(|daemon| daemon.ends_with("two")).count() == updated
            })
            .await;
        assert_eq!(fixture.pod_count().await, 3);
        fixture
            .until_daemon_counts(&[
                ("updatedNumberScheduled", updated.try_into().unwrap()),
                ("numberUnavailable", 1),
            ])
            .await;
        fixture.make_all_ready().await;
    }
    fixture.until_daemon_counts(&[("updatedNumberScheduled", 3), ("numberUnavailable", 0)]).await;
    let mut numbers: Vec<_> = fixture
        .all(REVISIONS)
        .await
        .iter()
        .map(|one| one.get("revision").unwrap().as_i64().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn surge_puts_the_new_pod_beside_the_old_one_until_it_is_available() {
    let (fixture, _running) = fixture(&["a", "b"]).await;
    let strategy =
        r#""updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1,"maxUnavailable":0}},"#;
    fixture.daemon_set(strategy, "").await;
    fixture.until("pods", async || fixture.pod_count().await == 2).await;
    fixture.make_all_ready().await;
    fixture.until_daemon_counts(&[("numberAvailable", 2)]).await;
    fixture.set_template_image(SETS.named("d"), "two").await;
    fixture.until_daemons(&["a=one", "a=two", "b=one"]).await;
    fixture.make_all_ready().await;
    fixture.until_daemons(&["a=two", "b=one", "b=two"]).await;
    fixture.make_all_ready().await;
    fixture.until_daemons(&["a=two", "b=two"]).await;
}

#[tokio::test(start_paused = true)]
async fn on_delete_sets_replace_only_what_is_deleted() {
    let (fixture, _running) = fixture(&["a", "b"]).await;
    fixture.daemon_set(r#""updateStrategy":{"type":"OnDelete"},"#, "").await;
    fixture.until_daemons(&["a=one", "b=one"]).await;
    fixture.make_all_ready().await;
    fixture.set_template_image(SETS.named("d"), "two").await;
    fixture.until_daemon_counts(&[("observedGeneration", 2), ("updatedNumberScheduled", 0)]).await;
    assert_eq!(fixture.daemons().await, ["a=one", "b=one"]);
    let pods = fixture.pods().await;
    let of_a = pods.iter().find(|pod| template::bound_to(pod) == Some("a")).unwrap();
    fixture.remove_pod(object_meta::text(of_a, "name")).await;
    fixture.until_daemons(&["a=two", "b=one"]).await;
}

#[tokio::test(start_paused = true)]
async fn failed_pods_are_replaced_with_growing_pauses_and_surplus_ones_deleted() {
    let (fixture, _running) = fixture(&["a"]).await;
    fixture.daemon_set("", r#""nodeName":"a","#).await;
    fixture.until_daemons(&["a=one"]).await;
    let mut names = Vec::new();
    for _ in 0..3 {
        let name = fixture.pod_names().await.remove(0);
        fixture.patch_pod_status(&name, r#"{"phase":"Failed"}"#).await;
        fixture.until("an end", async || fixture.pod_names().await.iter().all(|own| *own != name)).await;
        // On a node, a pod ends when its kubelet says so.
        if fixture.client.get(PODS.named(&name)).await.is_ok() {
            fixture.remove_pod(&name).await;
        }
        fixture.until("another", async || fixture.pod_count().await == 1).await;
        names.push(name);
    }
    let event =
        format!("FailedDaemonPod: Found failed daemon pod n/{} on node a, will try to kill it", names[2]);
    fixture.until("an event", async || fixture.events("DaemonSet").await.contains(&event)).await;
    // A second pod on the node that the set adopts is one too many.
    let text = r#"{"metadata":{"name":"late","labels":{"app":"d"}},"spec":{"nodeName":"a","containers":[{"name":"c","image":"one"}]}}"#;
    fixture.create(PODS, text).await;
    fixture.until("one less", async || fixture.pod_count().await == 1).await;
}

#[tokio::test(start_paused = true)]
async fn history_is_bounded_and_an_earlier_revision_comes_back() {
    let (fixture, _running) = fixture(&["a"]).await;
    fixture.daemon_set(r#""revisionHistoryLimit":1,"#, "").await;
    for image in ["one", "two", "three"] {
        fixture.set_template_image(SETS.named("d"), image).await;
        fixture.until_daemons(&[&format!("a={image}")]).await;
        fixture.make_all_ready().await;
    }
    fixture.until("two revisions", async || fixture.all(REVISIONS).await.len() == 2).await;
    fixture.set_template_image(SETS.named("d"), "two").await;
    fixture.until_daemons(&["a=two"]).await;
    fixture
        .until("a new number", async || {
            let revisions = fixture.all(REVISIONS).await;
            let mut numbers: Vec<_> =
                revisions.iter().map(|one| one.get("revision").unwrap().as_i64().unwrap()).collect();
            numbers.sort_unstable();
            numbers == [3, 4]
        })
        .await;
}
