use super::*;
use crate::testing::Fixture;
use object::Value;
use registry::{DeleteOptions, Patch};
use std::time::Duration;

const CLAIMS: Address<'static> = Address::core("persistentvolumeclaims", "n");
const PODS: Address<'static> = Address::core("pods", "n");

impl Fixture {
    async fn claim(&self, name: &str, metadata: &str) {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","finalizers":["{FINALIZER}"]{metadata}}},"spec":{{"accessModes":["ReadWriteOnce"],
            "resources":{{"requests":{{"storage":"1Gi"}}}}}}}}"#
        );
        self.create(CLAIMS, &text).await;
    }

    /// A pod on a node, with a volume; its uid.
    async fn pod(&self, name: &str, node: &str, volume: &str) -> String {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{{node}"containers":[{{"name":"c","image":"i"}}],
            "volumes":[{{"name":"v",{volume}}}]}}}}"#
        );
        let pod = self.create(PODS, &text).await;
        object_meta::text(pod.as_map().unwrap(), "uid").to_owned()
    }

    async fn delete_claim(&self, name: &str) {
        self.client.delete(CLAIMS.named(name), &DeleteOptions::default()).await.unwrap();
    }

    async fn delete_pod(&self, name: &str) {
        let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        self.client.delete(PODS.named(name), &now).await.unwrap();
    }

    fn has_claim(&self, name: &str) -> bool {
        self.lookup("persistentvolumeclaims", "n", name).is_some()
    }

    async fn until_claim_is_gone(&self, name: &str) {
        self.until("an end", async || !self.has_claim(name)).await;
    }
}

fn of_claim(name: &str) -> String {
    format!(r#""persistentVolumeClaim":{{"claimName":"{name}"}}"#)
}

const EPHEMERAL: &str = r#""ephemeral":{"volumeClaimTemplate":{"spec":{"accessModes":["ReadWriteOnce"],
    "resources":{"requests":{"storage":"1Gi"}}}}}"#;
const NODE: &str = r#""nodeName":"node","#;

#[tokio::test(start_paused = true)]
async fn claims_stay_until_their_last_pod_is_gone() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    for name in ["used", "free", "early"] {
        fixture.claim(name, "").await;
    }
    fixture.pod("one", NODE, &of_claim("used")).await;
    fixture.pod("two", NODE, &of_claim("used")).await;
    fixture.pod("waiting", "", &of_claim("free")).await;
    fixture.delete_claim("early").await;
    let _running = fixture.start(&CONTROLLER);
    fixture.until_claim_is_gone("early").await;
    fixture.delete_claim("used").await;
    fixture.delete_claim("free").await;
    fixture.until_claim_is_gone("free").await;
    fixture.delete_pod("one").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(fixture.has_claim("used"));
    fixture.delete_pod("two").await;
    fixture.until_claim_is_gone("used").await;
}

#[tokio::test(start_paused = true)]
async fn claims_of_ephemeral_volumes_belong_to_the_pod_that_controls_them() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    for pod in ["mine", "other"] {
        let uid = fixture.pod(pod, NODE, EPHEMERAL).await;
        let uid = if pod == "mine" { uid } else { "somebody-else".to_owned() };
        let owner = format!(
            r#","ownerReferences":[{{"apiVersion":"v1","kind":"Pod","name":"{pod}","uid":"{uid}","controller":true}}]"#
        );
        fixture.claim(&format!("{pod}-v"), &owner).await;
    }
    let _running = fixture.start(&CONTROLLER);
    fixture.delete_claim("mine-v").await;
    fixture.delete_claim("other-v").await;
    fixture.until_claim_is_gone("other-v").await;
    assert!(fixture.has_claim("mine-v"));
    // A finalizer keeps the pod, but the kubelet is done with it.
    let keep = br#"{"metadata":{"finalizers":["a.b/c"]}}"#;
    fixture.client.patch(PODS.named("mine"), Patch::Merge, keep).await.unwrap();
    fixture.delete_pod("mine").await;
    fixture.until_claim_is_gone("mine-v").await;
    assert!(fixture.lookup("pods", "n", "mine").is_some());
}

#[tokio::test(start_paused = true)]
async fn claims_without_protection_get_it() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.claim("c", "").await;
    let bare = |claim: &mut Map| {
        claim.get_mut("metadata").and_then(Value::as_map_mut).unwrap().remove("finalizers");
    };
    fixture.client.modify(CLAIMS.named("c"), bare).await.unwrap();
    let protected = async || {
        let claim = fixture.client.get(CLAIMS.named("c")).await.unwrap();
        is_protected(claim.as_map().unwrap())
    };
    assert!(!protected().await);
    let _running = fixture.start(&CONTROLLER);
    fixture.until("a finalizer", protected).await;
}
