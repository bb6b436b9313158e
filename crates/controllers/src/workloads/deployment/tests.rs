use super::*;
use crate::testing::{Fixture, Running};
use crate::workloads::replicas::REPLICA_SETS;
use crate::workloads::testing::{in_status, text_at};
use kinds::object_meta;
use registry::Address;
use std::time::Duration;

const DEPLOYMENTS: Address<'static> = Address::v1("apps", "deployments", "n");
const SETS: Address<'static> = Address::v1("apps", "replicasets", "n");

fn text(name: &str, replicas: i64, image: &str, more: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","annotations":{{"team":"a"}}}},"spec":{{"replicas":{replicas},{more}
        "selector":{{"matchLabels":{{"app":"{name}"}}}},"template":{{"metadata":{{"labels":{{"app":"{name}"}}}},
        "spec":{{"containers":[{{"name":"c","image":"{image}"}}]}}}}}}}}"#
    )
}

/// A namespace, and the controllers of deployments and of replica sets.
async fn fixture() -> (Fixture, [Running; 2]) {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let running = [fixture.start(&REPLICA_SETS), fixture.start(&CONTROLLER)];
    (fixture, running)
}

impl Fixture {
    async fn deployment(&self, name: &str, replicas: i64, more: &str) {
        self.create(DEPLOYMENTS, &text(name, replicas, "one", more)).await;
    }

    /// `image=spec.replicas` of the replica sets, by revision.
    async fn sizes(&self) -> Vec<String> {
        let mut sets = self.all(SETS).await;
        sets.sort_by_key(revision);
        let size = |set: &Map| {
            let set = Set { object: set.clone() };
            let template = set.template();
            let pod = schema::views::core::v1::PodTemplateSpec::of(&template);
            format!("{}={}", pod.spec().containers().get(0).unwrap().image(), set.replicas())
        };
        sets.iter().map(size).collect()
    }

    async fn until_sizes(&self, expected: &[&str]) {
        self.until(&format!("replica sets {expected:?}"), async || self.sizes().await == expected).await;
    }

    /// A condition as `status reason message`.
    async fn condition(&self, kind: &str) -> String {
        let deployment = self.read(DEPLOYMENTS.named("web")).await;
        let status = deployment.get("status").and_then(Value::as_map).cloned().unwrap_or_default();
        let Some(found) = status::find(&status, kind) else { return String::new() };
        ["status", "reason", "message"].map(|field| status::text(found, field)).join(" ")
    }

    async fn until_condition(&self, kind: &str, starts: &str) {
        self.until(starts, async || self.condition(kind).await.starts_with(starts)).await;
    }

    /// Makes pods ready until the deployment has rolled out.
    async fn roll_out(&self) {
        self.until("a complete deployment", async || {
            self.make_all_ready().await;
            let deployment = self.read(DEPLOYMENTS.named("web")).await;
            let replicas = Deployment::of(&deployment).spec().replicas().unwrap();
            let counts = ["updatedReplicas", "replicas", "availableReplicas"];
            counts.iter().all(|count| in_status(&deployment, count) == replicas)
                && in_status(&deployment, "observedGeneration")
                    == object_meta::number(&deployment, "generation").unwrap()
        })
        .await;
        self.until_condition(PROGRESSING, "True NewReplicaSetAvailable").await;
    }
}

#[tokio::test(start_paused = true)]
async fn deployment_makes_a_replica_set_and_completes() {
    let (fixture, _running) = fixture().await;
    fixture.deployment("web", 2, "").await;
    fixture.until("pods", async || fixture.pod_count().await == 2).await;
    fixture
        .until_condition("Available", "False MinimumReplicasUnavailable Deployment does not have minimum")
        .await;
    fixture.roll_out().await;
    let set = fixture.all(SETS).await.remove(0);
    let hash = text_at(&set, &["metadata", "labels", "pod-template-hash"]).to_owned();
    let name = format!("web-{hash}");
    assert_eq!(object_meta::text(&set, "name"), name);
    assert_eq!(text_at(&set, &["spec", "selector", "matchLabels", "pod-template-hash"]), hash);
    assert_eq!(text_at(&set, &["spec", "template", "metadata", "labels", "pod-template-hash"]), hash);
    for (key, value) in [
        ("team", "a"),
        (annotations::REVISION, "1"),
        (annotations::DESIRED, "2"),
        (annotations::MAXIMUM, "3"),
    ] {
        assert_eq!(annotation(&set, key), value, "{key}");
    }
    let deployment = fixture.read(DEPLOYMENTS.named("web")).await;
    assert_eq!(annotation(&deployment, annotations::REVISION), "1");
    assert_eq!(
        fixture.condition(PROGRESSING).await,
        format!("True NewReplicaSetAvailable ReplicaSet \"{name}\" has successfully progressed.")
    );
    assert_eq!(
        fixture.condition("Available").await,
        "True MinimumReplicasAvailable Deployment has minimum availability."
    );
    let expected = [format!("ScalingReplicaSet: Scaled up replica set {name} from 0 to 2")];
    fixture.until("an event", async || fixture.events("Deployment").await == expected).await;
}

#[tokio::test(start_paused = true)]
async fn rolling_update_goes_step_by_step_within_its_bounds() {
    let (fixture, _running) = fixture().await;
    fixture.deployment("web", 4, r#""strategy":{"rollingUpdate":{"maxSurge":1,"maxUnavailable":1}},"#).await;
    fixture.roll_out().await;
    fixture.set_template_image(DEPLOYMENTS.named("web"), "two").await;
    // Five pods at most, of which three are available at least.
    fixture.until_sizes(&["one=3", "two=2"]).await;
    fixture.until("the old pod gone", async || fixture.pod_count().await == 5).await;
    // Each that becomes ready lets an old one go, and that a new one in.
    fixture.make_all_ready().await;
    fixture.until_sizes(&["one=1", "two=4"]).await;
    fixture.make_all_ready().await;
    fixture.until_sizes(&["one=0", "two=4"]).await;
    fixture.roll_out().await;
    assert_eq!(fixture.pod_count().await, 4);
    let deployment = fixture.read(DEPLOYMENTS.named("web")).await;
    assert_eq!(annotation(&deployment, annotations::REVISION), "2");
}

#[tokio::test(start_paused = true)]
async fn pods_that_never_were_ready_go_first() {
    let (fixture, _running) = fixture().await;
    fixture.deployment("web", 4, r#""strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":2}},"#).await;
    fixture.until("pods", async || fixture.pod_count().await == 4).await;
    for name in fixture.pod_names().await.iter().skip(1) {
        fixture.make_ready(name, 1).await;
    }
    fixture
        .until("three available", async || {
            in_status(&fixture.read(DEPLOYMENTS.named("web")).await, "availableReplicas") == 3
        })
        .await;
    fixture.set_template_image(DEPLOYMENTS.named("web"), "two").await;
    fixture.until_sizes(&["one=2", "two=2"]).await;
    fixture
        .until("only ready ones of the old", async || {
            let pods = fixture.pods().await;
            let is_ready = |pod: &&Map| text_at(pod, &["status", "phase"]) == "Running";
            pods.len() == 4 && pods.iter().filter(is_ready).count() == 2
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn recreate_waits_for_the_end_of_old_pods() {
    let (fixture, _running) = fixture().await;
    // On a node, pods take time to end.
    let on_node = text("web", 2, "one", r#""strategy":{"type":"Recreate"},"#)
        .replace(r#""spec":{"containers""#, r#""spec":{"nodeName":"node","containers""#);
    fixture.create(DEPLOYMENTS, &on_node).await;
    fixture.roll_out().await;
    let old = fixture.pod_names().await;
    fixture.set_template_image(DEPLOYMENTS.named("web"), "two").await;
    fixture.until_sizes(&["one=0"]).await;
    fixture.until("terminating pods", async || fixture.pod_count().await == 0).await;
    fixture.until("an observed set", async || in_status(&fixture.all(SETS).await[0], "replicas") == 0).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(fixture.sizes().await, ["one=0"]);
    fixture.remove_pod(&old[0]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(fixture.sizes().await, ["one=0"]);
    fixture.remove_pod(&old[1]).await;
    fixture.until_sizes(&["one=0", "two=2"]).await;
    fixture.roll_out().await;
}

#[tokio::test(start_paused = true)]
async fn paused_deployment_scales_and_does_not_roll_out() {
    let (fixture, _running) = fixture().await;
    fixture.deployment("web", 2, "").await;
    fixture.roll_out().await;
    let address = DEPLOYMENTS.named("web");
    fixture.merge(address, r#"{"spec":{"paused":true}}"#).await;
    fixture.until_condition(PROGRESSING, "Unknown DeploymentPaused Deployment is paused").await;
    fixture.set_template_image(DEPLOYMENTS.named("web"), "two").await;
    fixture.merge(address, r#"{"spec":{"replicas":3}}"#).await;
    fixture.until_sizes(&["one=3"]).await;
    fixture.merge(address, r#"{"spec":{"paused":false}}"#).await;
    fixture.until("a new set", async || fixture.sizes().await.len() == 2).await;
    fixture.roll_out().await;
    assert_eq!(fixture.sizes().await, ["one=0", "two=3"]);
}

#[tokio::test(start_paused = true)]
async fn replica_sets_are_scaled_in_proportion_in_the_middle_of_a_rollout() {
    let (fixture, _running) = fixture().await;
    fixture.deployment("web", 10, r#""strategy":{"rollingUpdate":{"maxSurge":3,"maxUnavailable":2}},"#).await;
    fixture.roll_out().await;
    fixture.set_template_image(DEPLOYMENTS.named("web"), "two").await;
    fixture.until_sizes(&["one=8", "two=5"]).await;
    fixture.merge(DEPLOYMENTS.named("web"), r#"{"spec":{"replicas":15}}"#).await;
    // Of five more pods, the share of 8 in 13 goes to the old set, and the rest to the other.
    fixture.until_sizes(&["one=11", "two=7"]).await;
    for set in fixture.all(SETS).await {
        assert_eq!(
            (annotation(&set, annotations::DESIRED), annotation(&set, annotations::MAXIMUM)),
            ("15", "18")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn history_is_bounded_and_an_earlier_template_comes_back_with_its_set() {
    let (fixture, _running) = fixture().await;
    fixture.deployment("web", 1, r#""revisionHistoryLimit":1,"#).await;
    fixture.roll_out().await;
    for image in ["two", "three"] {
        fixture.set_template_image(DEPLOYMENTS.named("web"), image).await;
        fixture
            .until("the new set", async || {
                fixture.sizes().await.iter().any(|size| size.starts_with(&format!("{image}=1")))
            })
            .await;
        fixture.roll_out().await;
    }
    fixture.until_sizes(&["two=0", "three=1"]).await;
    fixture.set_template_image(DEPLOYMENTS.named("web"), "two").await;
    fixture.until_sizes(&["three=1", "two=1"]).await;
    fixture.roll_out().await;
    let sets = fixture.all(SETS).await;
    let set = sets.iter().find(|set| annotation(set, annotations::REVISION) == "4").unwrap();
    assert_eq!(annotation(set, "deployment.kubernetes.io/revision-history"), "2");
}

#[tokio::test(start_paused = true)]
async fn rollback_by_annotation_restores_a_template_or_says_why_not() {
    let (fixture, _running) = fixture().await;
    fixture.deployment("web", 1, "").await;
    fixture.roll_out().await;
    let address = DEPLOYMENTS.named("web");
    let roll_back = async |revision: &str| {
        let patch =
            format!(r#"{{"metadata":{{"annotations":{{"{}":"{revision}"}}}}}}"#, annotations::ROLLBACK_TO);
        fixture.merge(address, &patch).await;
        fixture
            .until("an end of the rollback", async || {
                rollback::wanted(&fixture.read(address).await).is_none()
            })
            .await;
    };
    roll_back("0").await;
    roll_back("7").await;
    roll_back("1").await;
    fixture.set_template_image(DEPLOYMENTS.named("web"), "two").await;
    fixture.until("the second", async || fixture.sizes().await.len() == 2).await;
    fixture.roll_out().await;
    roll_back("0").await;
    fixture
        .until("the first again", async || fixture.sizes().await.last().unwrap().starts_with("one="))
        .await;
    fixture.roll_out().await;
    assert_eq!(fixture.sizes().await, ["two=0", "one=1"]);
    let expected = [
        "DeploymentRollbackRevisionNotFound: Unable to find last revision.",
        "DeploymentRollbackRevisionNotFound: Unable to find the revision to rollback to.",
        "DeploymentRollbackTemplateUnchanged: The rollback revision contains the same template as current deployment \"web\"",
        "DeploymentRollback: Rolled back deployment \"web\" to revision 1",
    ];
    fixture
        .until("the events", async || {
            let events = fixture.events("Deployment").await;
            expected.iter().all(|event| events.iter().any(|found| found == event))
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn deadline_without_progress_is_noted_and_progress_ends_that() {
    let (fixture, _running) = fixture().await;
    fixture.deployment("web", 1, r#""progressDeadlineSeconds":1,"#).await;
    // The time of the deadline is that of the wall.
    for _ in 0..200 {
        if fixture.condition(PROGRESSING).await.starts_with("False") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        std::thread::sleep(Duration::from_millis(20));
    }
    let condition = fixture.condition(PROGRESSING).await;
    assert!(condition.starts_with("False ProgressDeadlineExceeded ReplicaSet \"web-"), "{condition}");
    assert!(condition.ends_with("\" has timed out progressing."), "{condition}");
    fixture.roll_out().await;
}

#[tokio::test(start_paused = true)]
async fn failures_of_a_replica_set_show_in_its_deployment() {
    let (fixture, _running) = fixture().await;
    let quota = Address::core("resourcequotas", "n");
    fixture.create(quota, r#"{"metadata":{"name":"q"},"spec":{"hard":{"pods":"0"}}}"#).await;
    let status = r#"{"status":{"hard":{"pods":"0"},"used":{"pods":"0"}}}"#;
    fixture.merge(quota.named("q").subresource("status"), status).await;
    fixture.deployment("web", 1, "").await;
    fixture.until_condition("ReplicaFailure", "True FailedCreate pods \"web-").await;
    fixture.client.delete(quota.named("q"), &registry::DeleteOptions::default()).await.unwrap();
    fixture
        .until("an end of the failure", async || fixture.condition("ReplicaFailure").await.is_empty())
        .await;
    fixture.roll_out().await;
}

#[tokio::test(start_paused = true)]
async fn name_that_another_replica_set_has_counts_as_a_collision() {
    let (fixture, running) = fixture().await;
    fixture.deployment("web", 1, "").await;
    fixture.roll_out().await;
    let set = fixture.all(SETS).await.remove(0);
    let name = object_meta::text(&set, "name").to_owned();
    drop(running);
    // The set of another template, without owner, under the name.
    let orphan = registry::DeleteOptions { propagation_policy: Some("Orphan".into()), ..Default::default() };
    fixture.client.delete(DEPLOYMENTS.named("web"), &orphan).await.unwrap();
    let finalize = r#"{"metadata":{"finalizers":null}}"#;
    if fixture.client.get(DEPLOYMENTS.named("web")).await.is_ok() {
        fixture.merge(DEPLOYMENTS.named("web"), finalize).await;
    }
    fixture.client.delete(SETS.named(&name), &registry::DeleteOptions::default()).await.unwrap();
    fixture.create(SETS, &text(&name, 0, "other", "")).await;
    let _running = [fixture.start(&REPLICA_SETS), fixture.start(&CONTROLLER)];
    fixture.deployment("web", 1, "").await;
    fixture
        .until("a collision", async || {
            in_status(&fixture.read(DEPLOYMENTS.named("web")).await, "collisionCount") == 1
        })
        .await;
    fixture.until("another name", async || fixture.all(SETS).await.len() == 2).await;
    fixture.roll_out().await;
}

#[tokio::test(start_paused = true)]
async fn replica_set_with_the_template_is_adopted() {
    let (fixture, _running) = fixture().await;
    fixture
        .create(
            SETS,
            &text("web", 1, "one", "")
                .replace(r#""name":"web","#, r#""name":"early","labels":{"app":"web"},"#),
        )
        .await;
    fixture.deployment("web", 1, "").await;
    fixture.roll_out().await;
    assert_eq!(fixture.sizes().await, ["one=1"]);
    assert_eq!(object_meta::text(&fixture.all(SETS).await[0], "name"), "early");
}
