use super::*;
use crate::testing::Fixture;
use registry::{Address, Patch};
use schema::views::discovery::v1::EndpointSlice;

const SERVICE: &str =
    r#"{"metadata":{"name":"web"},"spec":{"clusterIP":"None","clusterIPs":["None"],"ipFamilies":["IPv4"]}}"#;
const ENDPOINTS: &str = r#"{"metadata":{"name":"web","labels":{"a":"b"},"annotations":{"x/y":"z",
    "kubectl.kubernetes.io/last-applied-configuration":"{}"}},"subsets":[{"addresses":[{"ip":"10.1.0.1"},{"ip":"fd00::1"}],
    "notReadyAddresses":[{"ip":"10.1.0.2"}],"ports":[{"name":"http","port":80}]}]}"#;

impl Fixture {
    /// The mirrored slices: type, addresses with `!` for those that are not ready, and ports.
    async fn mirrored(&self) -> Vec<String> {
        let mut shown = Vec::new();
        for slice in self.slices().await {
            let slice = EndpointSlice::of(&slice);
            let endpoints = slice.endpoints().iter().map(|endpoint| {
                let mark = if endpoint.conditions().ready() == Some(true) { "" } else { "!" };
                format!("{}{mark}", endpoint.addresses().get(0).unwrap_or_default())
            });
            let endpoints: Vec<String> = endpoints.collect();
            let ports: Vec<String> =
                slice.ports().iter().map(|port| port.port().unwrap_or_default().to_string()).collect();
            shown.push(format!("{} {} {}", slice.address_type(), endpoints.join(","), ports.join(",")));
        }
        shown.sort();
        shown
    }

    async fn until_mirrored(&self, expected: &[&str]) {
        self.until(&format!("{expected:?}"), async || self.mirrored().await == expected).await;
    }

    async fn merge_into(&self, resource: &str, patch: &str) {
        let address = Address::core(resource, "n").named("web");
        self.client.patch(address, Patch::Merge, patch.as_bytes()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn endpoints_of_services_without_selector_are_mirrored() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.create(Address::core("services", "n"), SERVICE).await;
    let _running = fixture.start(&CONTROLLER);
    fixture.create(Address::core("endpoints", "n"), ENDPOINTS).await;
    fixture.until_mirrored(&["IPv4 10.1.0.1,10.1.0.2! 80", "IPv6 fd00::1 80"]).await;
    for slice in fixture.slices().await {
        let metadata = EndpointSlice::of(&slice).metadata();
        assert_eq!(metadata.labels().get("a"), Some("b"));
        assert_eq!(metadata.labels().get(MANAGED_BY), Some(MANAGER));
        assert_eq!(metadata.labels().get(SERVICE_NAME), Some("web"));
        assert_eq!((metadata.annotations().get("x/y"), metadata.annotations().len()), (Some("z"), 1));
        assert_eq!(metadata.owner_references().get(0).map(|owner| owner.kind()), Some("Endpoints"));
    }
    fixture
        .merge_into("endpoints", r#"{"subsets":[{"addresses":[{"ip":"10.1.0.2"}],"ports":[{"port":80}]}]}"#)
        .await;
    fixture.until_mirrored(&["IPv4 10.1.0.2 80"]).await;
    fixture.merge_into("services", r#"{"spec":{"selector":{"a":"b"}}}"#).await;
    fixture.until_mirrored(&[]).await;
    fixture.merge_into("services", r#"{"spec":{"selector":null}}"#).await;
    fixture.until_mirrored(&["IPv4 10.1.0.2 80"]).await;
    fixture
        .merge_into(
            "endpoints",
            r#"{"metadata":{"labels":{"endpointslice.kubernetes.io/skip-mirror":"true"}}}"#,
        )
        .await;
    fixture.until_mirrored(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_was_changed_or_deleted_is_put_right() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.create(Address::core("services", "n"), SERVICE).await;
    fixture.create(Address::core("endpoints", "n"), ENDPOINTS).await;
    let _running = fixture.start(&CONTROLLER);
    let all = ["IPv4 10.1.0.1,10.1.0.2! 80", "IPv6 fd00::1 80"];
    fixture.until_mirrored(&all).await;
    let name = object_meta::text(&fixture.slices().await[0], "name").to_owned();
    fixture.client.delete(slices_of("n").named(&name), &DeleteOptions::default()).await.unwrap();
    fixture.until_mirrored(&all).await;
}

#[test]
fn subsets_with_too_many_addresses_are_mirrored_in_part() {
    let addresses: Vec<String> =
        (0..1100).map(|at| format!(r#"{{"ip":"10.1.{}.{}"}}"#, at / 256, at % 256)).collect();
    let json = format!(
        r#"{{"kind":"Endpoints","apiVersion":"v1","metadata":{{"name":"web"}},"subsets":[{{"addresses":[{},{{"ip":"zz"}}]}}]}}"#,
        addresses.join(",")
    );
    let decoded =
        schema::json::decode(Endpoints::schema(), json.as_bytes(), &schema::Limits::STORED).unwrap();
    let (wanted, skipped) = wanted(decoded.value.as_map().unwrap());
    assert_eq!(wanted.values().map(BTreeMap::len).sum::<usize>(), MOST_ADDRESSES);
    assert_eq!(skipped, Skipped { invalid: 0, all: 101 });
}
