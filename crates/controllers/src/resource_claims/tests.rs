use super::*;
use crate::testing::Fixture;
use kinds::object_meta;
use object::Value;
use registry::{DeleteOptions, Patch, Selection};

const POD: &str = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}],
    "resourceClaims":[{"name":"gpu","resourceClaimTemplateName":"t"},{"name":"shared","resourceClaimName":"s"}]}}"#;
const SPEC: &str = r#"{"devices":{"requests":[{"name":"r","deviceClassName":"d"}]}}"#;

impl Fixture {
    /// A registry that serves resource claims.
    async fn with_claims() -> Self {
        let mut selection = Selection::default();
        selection.set("resource.k8s.io/v1beta1", true);
        let mut fixture = Self::configured(|config| {
            config.selection = selection;
            config.objects.gates.dynamic_resource_allocation = true;
        })
        .await;
        fixture.change_settings(|settings| settings.gates.dynamic_resource_allocation = true);
        fixture.namespace("n").await;
        fixture
    }

    async fn claim_template(&self) {
        let text = format!(
            r#"{{"metadata":{{"name":"t"}},"spec":{{"metadata":{{"labels":{{"a":"b"}},"annotations":{{"c":"d"}}}},"spec":{SPEC}}}}}"#
        );
        let address = Address { version: VERSION, ..Address::v1(GROUP, "resourceclaimtemplates", "n") };
        self.create(address, &text).await;
    }

    async fn resource_claims(&self) -> Vec<Value> {
        self.client.list_objects(claim_address("n", "")).await.unwrap()
    }

    async fn resource_claim(&self, name: &str) -> Option<Map> {
        let found = self.client.get(claim_address("n", name)).await.ok();
        found.and_then(|claim| claim.as_map().cloned())
    }

    /// The names of the claims in the status of the pod.
    async fn named_claims(&self) -> Vec<String> {
        let pod = self.client.get(Address::core("pods", "n").named("p")).await.unwrap();
        let statuses = Pod::of(pod.as_map().unwrap()).status().resource_claim_statuses();
        statuses.iter().filter_map(|status| status.resource_claim_name()).map(str::to_owned).collect()
    }

    /// Allocates a claim, and reserves it for a pod, as a scheduler does.
    async fn allocate(&self, name: &str, uid: Option<&str>) {
        let finalizer = format!(r#"{{"metadata":{{"finalizers":["{FINALIZER}"]}}}}"#);
        self.client.patch(claim_address("n", name), Patch::Merge, finalizer.as_bytes()).await.unwrap();
        let user =
            uid.map(|uid| format!(r#","reservedFor":[{{"resource":"pods","name":"p","uid":"{uid}"}}]"#));
        let device = r#"{"request":"r","driver":"example.com","pool":"p","device":"x"}"#;
        let status = format!(
            r#"{{"status":{{"allocation":{{"devices":{{"results":[{device}]}}}}{}}}}}"#,
            user.unwrap_or_default()
        );
        let address = claim_address("n", name).subresource("status");
        self.client.patch(address, Patch::Merge, status.as_bytes()).await.unwrap();
    }
}

#[test]
fn long_names_are_cut_in_proportion() {
    assert_eq!(pod::name_start("web", "gpu"), "web-gpu-");
    let (pod, of) = ("p".repeat(80), "c".repeat(20));
    let start = pod::name_start(&pod, &of);
    assert_eq!(start, format!("{}-{}", "p".repeat(44), "c".repeat(11)));
}

#[tokio::test(start_paused = true)]
async fn claims_are_made_from_templates_and_named_in_the_status() {
    let fixture = Fixture::with_claims().await;
    let pod = fixture.create(Address::core("pods", "n"), POD).await;
    let _running = fixture.start(&CONTROLLER);
    let why = r#"PodResourceClaim gpu: resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found"#;
    fixture.until_event("n", "FailedResourceClaimCreation", why).await;
    fixture.claim_template().await;
    fixture.until("a claim", async || fixture.named_claims().await.len() == 1).await;
    let name = fixture.named_claims().await.remove(0);
    assert!(name.starts_with("p-gpu-"), "{name}");
    let claim = fixture.resource_claim(&name).await.unwrap();
    let uid = object_meta::text(pod.as_map().unwrap(), "uid");
    assert_eq!(owning_pod(&claim), Some((uid, "p")));
    assert_eq!(crate::objects::annotation(&claim, OF_POD_CLAIM), "gpu");
    assert_eq!(view(&claim).metadata().labels().get("a"), Some("b"));
    assert_eq!(view(&claim).spec().devices().requests().len(), 1);
    // One that is lost is made again.
    fixture.client.delete(claim_address("n", &name), &DeleteOptions::default()).await.unwrap();
    let has_other = async || fixture.named_claims().await.iter().any(|other| *other != name);
    fixture.until("another claim", has_other).await;
    assert_eq!(fixture.resource_claims().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn reservations_end_with_their_pods_and_allocations_with_the_last() {
    let fixture = Fixture::with_claims().await;
    fixture.claim_template().await;
    fixture.create(claim_address("n", ""), &format!(r#"{{"metadata":{{"name":"s"}},"spec":{SPEC}}}"#)).await;
    let pod = fixture.create(Address::core("pods", "n"), POD).await;
    let uid = object_meta::text(pod.as_map().unwrap(), "uid").to_owned();
    let _running = fixture.start(&CONTROLLER);
    fixture.until("a claim", async || fixture.named_claims().await.len() == 1).await;
    let own = fixture.named_claims().await.remove(0);
    fixture.allocate("s", Some(&uid)).await;
    let users = async |name: &str| {
        let claim = fixture.resource_claim(name).await;
        claim.map(|claim| view(&claim).status().reserved_for().len())
    };
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(users("s").await, Some(1), "the pod may still run");
    let done = br#"{"status":{"phase":"Succeeded"}}"#;
    let address = Address::core("pods", "n").named("p").subresource("status");
    fixture.client.patch(address, Patch::Merge, done).await.unwrap();
    fixture.until("an end of the reservation", async || users("s").await == Some(0)).await;
    let is_free = async || {
        let claim = fixture.resource_claim("s").await.unwrap();
        view(&claim).status().allocation().is_none() && object_meta::finalizers(&claim).is_empty()
    };
    fixture.until("an end of the allocation", is_free).await;
    fixture.until("an end of the claim", async || fixture.resource_claim(&own).await.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn allocated_claims_are_reserved_for_pods_on_nodes() {
    let fixture = Fixture::with_claims().await;
    fixture.create(claim_address("n", ""), &format!(r#"{{"metadata":{{"name":"s"}},"spec":{SPEC}}}"#)).await;
    let pod = POD
        .replace(r#""spec":{"#, r#""spec":{"nodeName":"node","#)
        .replace(r#"{"name":"gpu","resourceClaimTemplateName":"t"},"#, "");
    let made = fixture.create(Address::core("pods", "n"), &pod).await;
    let uid = object_meta::text(made.as_map().unwrap(), "uid").to_owned();
    let _running = fixture.start(&CONTROLLER);
    fixture.allocate("s", None).await;
    let is_reserved = async || {
        let claim = fixture.resource_claim("s").await.unwrap();
        let users = view(&claim).status().reserved_for();
        users.len() == 1 && users.iter().any(|user| user.uid() == uid && user.resource() == "pods")
    };
    fixture.until("a reservation", is_reserved).await;
}
