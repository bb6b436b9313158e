use super::*;
use crate::testing::Fixture;
use registry::{DeleteOptions, Patch};

const CLAIMS: Address<'static> = Address::core("persistentvolumeclaims", "n");
const VOLUMES: Address<'static> = Address::core("persistentvolumes", "");
const CLASSES: Address<'static> = Address::v1("storage.k8s.io", "storageclasses", "");

impl Fixture {
    async fn binder_volume(&self, name: &str, size: &str, more: &str) {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"capacity":{{"storage":"{size}"}},"accessModes":["ReadWriteOnce"],
            "hostPath":{{"path":"/x"}}{more}}}}}"#
        );
        self.create(VOLUMES, &text).await;
    }

    async fn binder_claim(&self, name: &str, size: &str, more: &str) {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"{size}"}}}}{more}}}}}"#
        );
        self.create(CLAIMS, &text).await;
    }

    async fn storage_class(&self, name: &str, provisioner: &str, more: &str) {
        let text = format!(r#"{{"metadata":{{"name":"{name}"}},"provisioner":"{provisioner}"{more}}}"#);
        self.create(CLASSES, &text).await;
    }

    /// Phase of a volume, and the claim that it is for.
    async fn volume_state(&self, name: &str) -> String {
        let volume = self.client.get(VOLUMES.named(name)).await.unwrap();
        let volume = PersistentVolume::of(volume.as_map().unwrap());
        let claim = volume.spec().claim_ref().map(|claim| claim.name()).unwrap_or_default();
        format!("{} {claim}", volume.status().phase())
    }

    /// Phase of a claim, its volume and its capacity.
    async fn claim_state(&self, name: &str) -> String {
        let claim = self.client.get(CLAIMS.named(name)).await.unwrap();
        let claim = PersistentVolumeClaim::of(claim.as_map().unwrap());
        let capacity = claim.status().capacity().get("storage").unwrap_or_default();
        format!("{} {} {capacity}", claim.status().phase(), claim.spec().volume_name())
    }

    async fn until_volume(&self, name: &str, expected: &str) {
        self.until(&format!("{name} {expected}"), async || self.volume_state(name).await == expected).await;
    }

    async fn until_claim(&self, name: &str, expected: &str) {
        self.until(&format!("{name} {expected}"), async || self.claim_state(name).await == expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn claims_are_bound_to_the_smallest_volume_that_fits() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.binder_volume("large", "10Gi", "").await;
    fixture.binder_volume("small", "5Gi", "").await;
    fixture.binder_volume("tiny", "1Gi", "").await;
    fixture.binder_volume("classy", "5Gi", r#","storageClassName":"c""#).await;
    let _running = fixture.start(&CONTROLLER);
    fixture.until_volume("small", "Available ").await;
    fixture.until_volume("large", "Available ").await;
    fixture.binder_claim("a", "3Gi", "").await;
    fixture.until_claim("a", "Bound small 5Gi").await;
    fixture.until_volume("small", "Bound a").await;
    let claim = fixture.client.get(CLAIMS.named("a")).await.unwrap();
    let annotations = PersistentVolumeClaim::of(claim.as_map().unwrap()).metadata().annotations();
    assert_eq!(
        (annotations.get(BIND_COMPLETED), annotations.get(BOUND_BY_CONTROLLER)),
        (Some("yes"), Some("yes"))
    );
    fixture.binder_claim("b", "20Gi", "").await;
    let text = "no persistent volumes available for this claim and no storage class is set";
    fixture.until_event("n", "FailedBinding", text).await;
    fixture.until_claim("b", "Pending  ").await;
    fixture.binder_volume("huge", "20Gi", "").await;
    fixture.until_claim("b", "Bound huge 20Gi").await;
}

#[tokio::test(start_paused = true)]
async fn volumes_are_released_and_claims_lost() {
    let fixture = Fixture::new().await;
    fixture.namespace("default").await;
    fixture.namespace("n").await;
    fixture.binder_volume("v", "5Gi", "").await;
    fixture.binder_volume("w", "50Gi", r#","persistentVolumeReclaimPolicy":"Delete""#).await;
    fixture.binder_claim("a", "3Gi", "").await;
    fixture.binder_claim("b", "30Gi", "").await;
    let _running = fixture.start(&CONTROLLER);
    fixture.until_claim("a", "Bound v 5Gi").await;
    fixture.until_claim("b", "Bound w 50Gi").await;
    fixture.client.delete(CLAIMS.named("b"), &DeleteOptions::default()).await.unwrap();
    fixture.until_volume("w", "Failed b").await;
    let why = r#"error getting deleter volume plugin for volume "w": no deletable volume plugin matched"#;
    fixture.until_event("default", "VolumeFailedDelete", why).await;
    fixture.client.delete(VOLUMES.named("v"), &DeleteOptions::default()).await.unwrap();
    fixture.until_claim("a", "Lost v ").await;
    let lost = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
    fixture.until_event("n", "ClaimLost", lost).await;
}

#[tokio::test(start_paused = true)]
async fn retained_volumes_stay_released() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.binder_volume("v", "5Gi", "").await;
    fixture.binder_claim("a", "3Gi", "").await;
    let _running = fixture.start(&CONTROLLER);
    fixture.until_claim("a", "Bound v 5Gi").await;
    fixture.client.delete(CLAIMS.named("a"), &DeleteOptions::default()).await.unwrap();
    fixture.until_volume("v", "Released a").await;
    fixture.binder_claim("b", "3Gi", "").await;
    let text = "no persistent volumes available for this claim and no storage class is set";
    fixture.until_event("n", "FailedBinding", text).await;
    assert_eq!(fixture.volume_state("v").await, "Released a");
}

#[tokio::test(start_paused = true)]
async fn claims_and_volumes_that_name_each_other_are_bound() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.binder_volume("small", "1Gi", "").await;
    fixture.binder_volume("pre", "9Gi", r#","claimRef":{"name":"a","namespace":"n"}"#).await;
    let _running = fixture.start(&CONTROLLER);
    fixture.until_volume("pre", "Available a").await;
    fixture.binder_claim("a", "1Gi", "").await;
    fixture.until_claim("a", "Bound pre 9Gi").await;
    fixture.binder_claim("b", "5Gi", r#","volumeName":"small""#).await;
    fixture
        .until_event(
            "n",
            "VolumeMismatch",
            r#"Cannot bind to requested volume "small": requested PV is too small"#,
        )
        .await;
    fixture.binder_claim("c", "1Gi", r#","volumeName":"pre""#).await;
    fixture.until_event("n", "FailedBinding", r#"volume "pre" already bound to a different claim."#).await;
}

#[tokio::test(start_paused = true)]
async fn claims_of_a_class_wait_for_what_the_class_says() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.storage_class("external", "example.com/disks", "").await;
    fixture
        .storage_class(
            "local",
            "kubernetes.io/no-provisioner",
            r#","volumeBindingMode":"WaitForFirstConsumer""#,
        )
        .await;
    fixture.binder_volume("v", "5Gi", r#","storageClassName":"local""#).await;
    let _running = fixture.start(&CONTROLLER);
    fixture.until_volume("v", "Available ").await;
    fixture.binder_claim("a", "1Gi", r#","storageClassName":"external""#).await;
    let text = "Waiting for a volume to be created either by the external provisioner 'example.com/disks' or manually by the system \
        administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.";
    fixture.until_event("n", "ExternalProvisioning", text).await;
    let claim = fixture.client.get(CLAIMS.named("a")).await.unwrap();
    let annotations = PersistentVolumeClaim::of(claim.as_map().unwrap()).metadata().annotations();
    assert_eq!(annotations.get("volume.kubernetes.io/storage-provisioner"), Some("example.com/disks"));
    fixture.binder_claim("b", "1Gi", r#","storageClassName":"local""#).await;
    fixture
        .until_event("n", "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
        .await;
    let pod = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v",
        "persistentVolumeClaim":{"claimName":"b"}}]}}"#;
    fixture.create(Address::core("pods", "n"), pod).await;
    fixture.until_event("n", "WaitForPodScheduled", "waiting for pod p to be scheduled").await;
    // The scheduler chooses the volume.
    let chosen = br#"{"spec":{"claimRef":{"name":"b","namespace":"n"}}}"#;
    fixture.client.patch(VOLUMES.named("v"), Patch::Merge, chosen).await.unwrap();
    fixture.until_claim("b", "Bound v 5Gi").await;
    fixture.binder_claim("d", "1Gi", r#","storageClassName":"none""#).await;
    let missing = r#"storageclass.storage.k8s.io "none" not found"#;
    fixture.until_event("n", "ProvisioningFailed", missing).await;
}

#[tokio::test(start_paused = true)]
async fn claims_without_a_class_get_the_default_when_there_is_one() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let _running = fixture.start(&CONTROLLER);
    fixture.binder_claim("a", "1Gi", "").await;
    let text = "no persistent volumes available for this claim and no storage class is set";
    fixture.until_event("n", "FailedBinding", text).await;
    let class = r#"{"metadata":{"name":"d","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"example.com/d"}"#;
    fixture.create(CLASSES, class).await;
    let has_class = async || {
        let claim = fixture.client.get(CLAIMS.named("a")).await.unwrap();
        PersistentVolumeClaim::of(claim.as_map().unwrap()).spec().storage_class_name() == Some("d")
    };
    fixture.until("the default class", has_class).await;
}
