use super::*;
use crate::testing::{Fixture, Running};
use crate::workloads::testing::text_at;
use registry::{Address, DeleteOptions};

const SETS: Address<'static> = Address::v1("apps", "statefulsets", "n");
const PODS: Address<'static> = Address::core("pods", "n");
const CLAIMS: Address<'static> = Address::core("persistentvolumeclaims", "n");
const REVISIONS: Address<'static> = Address::v1("apps", "controllerrevisions", "n");

const CLAIM: &str = r#""volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],
    "resources":{"requests":{"storage":"1Gi"}}}}],"#;

async fn fixture() -> (Fixture, Running) {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let running = fixture.start(&CONTROLLER);
    (fixture, running)
}

impl Fixture {
    async fn stateful_set(&self, replicas: i64, more: &str) -> Map {
        let text = format!(
            r#"{{"metadata":{{"name":"web"}},"spec":{{"replicas":{replicas},"serviceName":"svc",{more}
            "selector":{{"matchLabels":{{"app":"web"}}}},"template":{{"metadata":{{"labels":{{"app":"web"}}}},
            "spec":{{"containers":[{{"name":"c","image":"one"}}]}}}}}}}}"#
        );
        self.create(SETS, &text).await.as_map().cloned().unwrap()
    }

    async fn patch_set(&self, spec: &str) {
        self.merge(SETS.named("web"), &format!(r#"{{"spec":{spec}}}"#)).await;
    }

    /// The names and images of all pods.
    async fn images(&self) -> Vec<String> {
        let pods = self.pods().await;
        let image = |pod: &Map| {
            let image =
                schema::views::core::v1::Pod::of(pod).spec().containers().get(0).unwrap().image().to_owned();
            format!("{}={image}", object_meta::text(pod, "name"))
        };
        pods.iter().map(image).collect()
    }

    async fn until_images(&self, expected: &[&str]) {
        self.until(&format!("pods {expected:?}"), async || self.images().await == expected).await;
    }

    async fn until_names(&self, expected: &[&str]) {
        self.until(&format!("pods {expected:?}"), async || self.pod_names().await == expected).await;
    }

    async fn status(&self) -> Map {
        let set = self.read(SETS.named("web")).await;
        set.get("status").and_then(Value::as_map).cloned().unwrap_or_default()
    }

    async fn until_set_counts(&self, expected: [(&str, i64); 2]) {
        self.until(&format!("{expected:?}"), async || {
            let status = self.status().await;
            expected.iter().all(|(field, count)| number(&status, field) == *count)
        })
        .await;
    }

    /// Whether nothing changes for some time.
    async fn stays(&self, names: &[&str]) {
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        assert_eq!(self.pod_names().await, names);
    }

    /// The kinds of the owners of a claim.
    async fn claim_owners(&self, name: &str) -> Vec<String> {
        let claim = self.read(CLAIMS.named(name)).await;
        let owners = crate::workloads::dependents::owner_references(&claim);
        owners.iter().map(|owner| owner.get("kind").unwrap().as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn pods_come_one_after_another_with_identity_and_claims() {
    let (fixture, _running) = fixture().await;
    fixture.stateful_set(2, CLAIM).await;
    fixture.until_names(&["web-0"]).await;
    fixture.stays(&["web-0"]).await;
    fixture.make_unready("web-0").await;
    fixture.stays(&["web-0"]).await;
    fixture.make_ready("web-0", 1).await;
    fixture.until_names(&["web-0", "web-1"]).await;
    fixture.make_ready("web-1", 1).await;
    fixture.until_set_counts([("readyReplicas", 2), ("availableReplicas", 2)]).await;
    let pod = fixture.read(PODS.named("web-1")).await;
    assert_eq!(text_at(&pod, &["spec", "hostname"]), "web-1");
    assert_eq!(text_at(&pod, &["spec", "subdomain"]), "svc");
    assert_eq!(text_at(&pod, &["metadata", "labels", "statefulset.kubernetes.io/pod-name"]), "web-1");
    assert_eq!(text_at(&pod, &["metadata", "labels", "apps.kubernetes.io/pod-index"]), "1");
    let volumes = schema::views::core::v1::Pod::of(&pod).spec().volumes();
    let volume = volumes.get(0).unwrap();
    assert_eq!(
        (volume.name(), volume.persistent_volume_claim().unwrap().claim_name()),
        ("data", "data-web-1")
    );
    let claim = fixture.read(CLAIMS.named("data-web-1")).await;
    assert_eq!(text_at(&claim, &["metadata", "labels", "app"]), "web");
    assert!(fixture.claim_owners("data-web-1").await.is_empty());
    let status = fixture.status().await;
    let revision = super::super::status::text(&status, "currentRevision");
    assert_eq!(revision, super::super::status::text(&status, "updateRevision"));
    assert_eq!(text_at(&pod, &["metadata", "labels", "controller-revision-hash"]), revision);
    assert_eq!((number(&status, "currentReplicas"), number(&status, "updatedReplicas")), (2, 2));
    assert_eq!(status.get("collisionCount"), Some(&Value::Int(0)));
    let expected = [
        "SuccessfulCreate: create Claim data-web-0 Pod web-0 in StatefulSet web success",
        "SuccessfulCreate: create Pod web-0 in StatefulSet web successful",
        "SuccessfulCreate: create Claim data-web-1 Pod web-1 in StatefulSet web success",
        "SuccessfulCreate: create Pod web-1 in StatefulSet web successful",
    ];
    fixture.until("the events", async || fixture.events("StatefulSet").await == expected).await;
}

#[tokio::test(start_paused = true)]
async fn parallel_set_waits_for_no_pod_and_starts_at_its_ordinal() {
    let (fixture, _running) = fixture().await;
    fixture.stateful_set(3, r#""podManagementPolicy":"Parallel","ordinals":{"start":5},"#).await;
    fixture.until_names(&["web-5", "web-6", "web-7"]).await;
    fixture.until_set_counts([("replicas", 3), ("currentReplicas", 3)]).await;
    fixture.patch_set(r#"{"ordinals":{"start":6}}"#).await;
    fixture.until_names(&["web-6", "web-7", "web-8"]).await;
    fixture.patch_set(r#"{"replicas":0}"#).await;
    fixture.until_names(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn very_many_replicas_take_several_steps_and_no_memory_before() {
    let (fixture, _running) = fixture().await;
    fixture.stateful_set(2_000_000_000, "").await;
    fixture.until_names(&["web-0"]).await;
    fixture.client.delete(SETS.named("web"), &DeleteOptions::default()).await.unwrap();
    fixture.remove_pod("web-0").await;
    fixture.stateful_set(620, r#""podManagementPolicy":"Parallel","#).await;
    fixture.until("all pods", async || fixture.pod_count().await == 620).await;
}

#[tokio::test(start_paused = true)]
async fn scaling_down_takes_the_largest_ordinal_and_waits_for_unhealthy_pods() {
    let (fixture, _running) = fixture().await;
    fixture.stateful_set(3, "").await;
    for name in ["web-0", "web-1", "web-2"] {
        fixture.until(name, async || fixture.pod_names().await.iter().any(|own| own == name)).await;
        fixture.make_ready(name, 1).await;
    }
    fixture.until_set_counts([("readyReplicas", 3), ("replicas", 3)]).await;
    fixture.make_unready("web-1").await;
    fixture.until_set_counts([("readyReplicas", 2), ("replicas", 3)]).await;
    fixture.patch_set(r#"{"replicas":1}"#).await;
    // The ready one goes, and then the first that is not ready.
    fixture.until_names(&["web-0"]).await;
    fixture.make_unready("web-0").await;
    fixture.patch_set(r#"{"replicas":0}"#).await;
    fixture.until_names(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn failed_and_deleted_pods_are_made_again() {
    let (fixture, _running) = fixture().await;
    fixture.stateful_set(2, CLAIM).await;
    fixture.until_names(&["web-0"]).await;
    fixture.make_ready("web-0", 1).await;
    fixture.until_names(&["web-0", "web-1"]).await;
    let uid = |pod: &Map| object_meta::text(pod, "uid").to_owned();
    let before = uid(&fixture.read(PODS.named("web-0")).await);
    fixture.patch_pod_status("web-0", r#"{"phase":"Failed"}"#).await;
    fixture
        .until("another pod", async || {
            fixture
                .client
                .get(PODS.named("web-0"))
                .await
                .is_ok_and(|pod| uid(pod.as_map().unwrap()) != before)
        })
        .await;
    fixture.make_ready("web-0", 1).await;
    fixture.remove_pod("web-1").await;
    fixture.until_names(&["web-0", "web-1"]).await;
    // A claim that is gone is made again for a pod that waits.
    fixture.client.delete(CLAIMS.named("data-web-1"), &DeleteOptions::default()).await.unwrap();
    fixture.until("the claim", async || fixture.client.get(CLAIMS.named("data-web-1")).await.is_ok()).await;
}

#[tokio::test(start_paused = true)]
async fn update_goes_from_the_last_pod_to_the_partition() {
    let (fixture, _running) = fixture().await;
    let strategy = r#""podManagementPolicy":"Parallel","updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":1}},"#;
    fixture.stateful_set(3, strategy).await;
    fixture.until("pods", async || fixture.pod_count().await == 3).await;
    fixture.make_all_ready().await;
    fixture.until_set_counts([("readyReplicas", 3), ("currentReplicas", 3)]).await;
    fixture.set_template_image(SETS.named("web"), "two").await;
    fixture.until_images(&["web-0=one", "web-1=one", "web-2=two"]).await;
    fixture.make_all_ready().await;
    fixture.until_images(&["web-0=one", "web-1=two", "web-2=two"]).await;
    fixture.make_all_ready().await;
    fixture.until_set_counts([("currentReplicas", 1), ("updatedReplicas", 2)]).await;
    // A pod below the partition comes back in its old revision.
    fixture.remove_pod("web-0").await;
    fixture.until_images(&["web-0=one", "web-1=two", "web-2=two"]).await;
    fixture.make_all_ready().await;
    fixture.patch_set(r#"{"updateStrategy":{"rollingUpdate":{"partition":0}}}"#).await;
    fixture.until_images(&["web-0=two", "web-1=two", "web-2=two"]).await;
    fixture.make_all_ready().await;
    fixture.until_set_counts([("currentReplicas", 3), ("updatedReplicas", 3)]).await;
    let status = fixture.status().await;
    let revision = super::super::status::text(&status, "currentRevision");
    assert_eq!(revision, super::super::status::text(&status, "updateRevision"));
    // Back to the first template: the revision is that of the beginning, with a new number.
    fixture.set_template_image(SETS.named("web"), "one").await;
    fixture
        .until("a renumbered revision", async || {
            let revisions = fixture.all(REVISIONS).await;
            let mut numbers: Vec<_> =
                revisions.iter().map(|one| one.get("revision").unwrap().as_i64().unwrap()).collect();
            numbers.sort_unstable();
            numbers == [2, 3]
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_on_delete_sets_are_updated_when_they_are_deleted() {
    let (fixture, _running) = fixture().await;
    let strategy = r#""podManagementPolicy":"Parallel","updateStrategy":{"type":"OnDelete"},"#;
    fixture.stateful_set(2, strategy).await;
    fixture.until("pods", async || fixture.pod_count().await == 2).await;
    fixture.make_all_ready().await;
    fixture.set_template_image(SETS.named("web"), "two").await;
    fixture.until("two revisions", async || fixture.all(REVISIONS).await.len() == 2).await;
    fixture.stays(&["web-0", "web-1"]).await;
    fixture.remove_pod("web-0").await;
    fixture.until_images(&["web-0=two", "web-1=one"]).await;
}

#[tokio::test(start_paused = true)]
async fn several_pods_are_updated_at_once_with_max_unavailable() {
    let mut fixture =
        Fixture::configured(|config| config.objects.gates.max_unavailable_stateful_set = true).await;
    fixture.change_settings(|settings| settings.gates.max_unavailable_stateful_set = true);
    fixture.namespace("n").await;
    let _running = fixture.start(&CONTROLLER);
    let strategy = r#""podManagementPolicy":"Parallel","updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":2}},"#;
    fixture.stateful_set(4, strategy).await;
    fixture.until("pods", async || fixture.pod_count().await == 4).await;
    fixture.make_all_ready().await;
    fixture.until_set_counts([("readyReplicas", 4), ("currentReplicas", 4)]).await;
    fixture.set_template_image(SETS.named("web"), "two").await;
    fixture.until_images(&["web-0=one", "web-1=one", "web-2=two", "web-3=two"]).await;
}

#[tokio::test(start_paused = true)]
async fn claims_get_the_owners_with_which_they_are_deleted() {
    let (fixture, _running) = fixture().await;
    let policy = format!(
        r#"{CLAIM}"podManagementPolicy":"Parallel","persistentVolumeClaimRetentionPolicy":{{"whenDeleted":"Delete","whenScaled":"Delete"}},"#
    );
    fixture.stateful_set(2, &policy).await;
    fixture.until("pods", async || fixture.pod_count().await == 2).await;
    let owners = async |name: &str, kinds: &[&str]| {
        fixture
            .until(&format!("{name} of {kinds:?}"), async || fixture.claim_owners(name).await == kinds)
            .await;
    };
    owners("data-web-0", &["StatefulSet"]).await;
    owners("data-web-1", &["StatefulSet"]).await;
    fixture.make_all_ready().await;
    fixture.patch_set(r#"{"replicas":1}"#).await;
    owners("data-web-1", &["Pod"]).await;
    fixture.until_names(&["web-0"]).await;
    // The claim of the earlier pod has to go first.
    fixture.patch_set(r#"{"replicas":2}"#).await;
    fixture.stays(&["web-0"]).await;
    fixture.client.delete(CLAIMS.named("data-web-1"), &DeleteOptions::default()).await.unwrap();
    fixture.until_names(&["web-0", "web-1"]).await;
    fixture
        .patch_set(
            r#"{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Retain"}}"#,
        )
        .await;
    fixture.make_all_ready().await;
    owners("data-web-0", &[]).await;
}

#[tokio::test(start_paused = true)]
async fn orphans_with_the_name_of_the_set_are_adopted_and_others_left() {
    let (fixture, running) = fixture().await;
    drop(running);
    for name in ["web-0", "other-0"] {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{"app":"web"}}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}"#
        );
        fixture.create(PODS, &text).await;
        fixture.make_ready(name, 1).await;
    }
    let _running = fixture.start(&CONTROLLER);
    fixture.stateful_set(1, "").await;
    let is_owned = async |name: &str| {
        !crate::workloads::dependents::owner_references(&fixture.read(PODS.named(name)).await).is_empty()
    };
    // It is not of the newest revision, so it is replaced after it got its identity.
    fixture
        .until("a pod of the set", async || {
            fixture.client.get(PODS.named("web-0")).await.is_ok() && is_owned("web-0").await
        })
        .await;
    fixture
        .until("an event", async || {
            let events = fixture.events("StatefulSet").await;
            events
                .iter()
                .any(|event| event == "SuccessfulUpdate: update Pod web-0 in StatefulSet web successful")
        })
        .await;
    assert!(!is_owned("other-0").await);
}

#[tokio::test(start_paused = true)]
async fn history_of_revisions_is_bounded() {
    let (fixture, _running) = fixture().await;
    fixture.stateful_set(1, r#""revisionHistoryLimit":1,"#).await;
    for image in ["one", "two", "three", "four"] {
        fixture.set_template_image(SETS.named("web"), image).await;
        fixture.until_images(&[&format!("web-0={image}")]).await;
        fixture.make_all_ready().await;
        fixture.until_set_counts([("readyReplicas", 1), ("updatedReplicas", 1)]).await;
    }
    fixture.until("two revisions", async || fixture.all(REVISIONS).await.len() == 2).await;
}
