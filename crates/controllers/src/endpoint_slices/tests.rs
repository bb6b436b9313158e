use super::*;
use crate::service_pods::tests::WEB;
use crate::testing::Fixture;
use object::Value;
use registry::Patch;

impl Fixture {
    /// The slices of the namespace `n`.
    pub(crate) async fn slices(&self) -> Vec<Map> {
        let objects = self.client.list_objects(slices_of("n")).await.unwrap();
        objects.into_iter().map(|object| object.as_map().unwrap().clone()).collect()
    }

    /// The endpoints of all slices: addresses, and `r`, `s` and `t` for the conditions that hold.
    async fn slice_endpoints(&self) -> Vec<String> {
        let mut shown = Vec::new();
        for slice in self.slices().await {
            for endpoint in EndpointSlice::of(&slice).endpoints().iter() {
                let conditions = endpoint.conditions();
                let marks =
                    [(conditions.ready(), "r"), (conditions.serving(), "s"), (conditions.terminating(), "t")];
                let marks: String =
                    marks.iter().filter(|(value, _)| *value == Some(true)).map(|(_, mark)| *mark).collect();
                shown.push(format!("{} {marks}", endpoint.addresses().iter().collect::<Vec<_>>().join(",")));
            }
        }
        shown.sort();
        shown
    }

    async fn until_slice_endpoints(&self, expected: &[&str]) {
        self.until(&format!("{expected:?}"), async || self.slice_endpoints().await == expected).await;
    }

    /// The zone of the hints of each endpoint, by address.
    async fn hints(&self) -> Vec<(String, String)> {
        let mut shown = Vec::new();
        for slice in self.slices().await {
            for endpoint in EndpointSlice::of(&slice).endpoints().iter() {
                let zones =
                    endpoint.hints().map(|hints| hints.for_zones().iter().map(|zone| zone.name()).collect());
                let zones: Vec<&str> = zones.unwrap_or_default();
                shown.push((endpoint.addresses().get(0).unwrap().to_owned(), zones.join(",")));
            }
        }
        shown.sort();
        shown
    }
}

#[tokio::test(start_paused = true)]
async fn slices_follow_services_and_their_pods() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.zone_node("node", "z1", "4").await;
    fixture.service("web", WEB).await;
    let _running = fixture.start(&CONTROLLER);
    fixture.until("a placeholder", async || fixture.slices().await.len() == 1).await;
    let placeholder = fixture.slices().await.remove(0);
    assert!(EndpointSlice::of(&placeholder).endpoints().is_empty());
    assert!(EndpointSlice::of(&placeholder).ports().is_empty());

    fixture.endpoint_pod("a", "10.1.0.1", true).await;
    fixture.endpoint_pod("b", "10.1.0.2", false).await;
    fixture.until_slice_endpoints(&["10.1.0.1 rs", "10.1.0.2 "]).await;
    let slices = fixture.slices().await;
    assert_eq!(slices.len(), 1, "the placeholder was taken");
    let slice = EndpointSlice::of(&slices[0]);
    let metadata = slice.metadata();
    assert!(metadata.name().starts_with("web-"), "{}", metadata.name());
    assert_eq!(metadata.name(), object_meta::text(&placeholder, "name"));
    assert_eq!(metadata.labels().get("team"), Some("a"));
    assert_eq!(metadata.labels().get(SERVICE_NAME), Some("web"));
    assert_eq!(metadata.labels().get(MANAGED_BY), Some(MANAGER));
    let owner = metadata.owner_references().get(0).unwrap();
    assert_eq!((owner.kind(), owner.name(), owner.controller()), ("Service", "web", Some(true)));
    let port = slice.ports().get(0).unwrap();
    assert_eq!((port.name(), port.port(), port.protocol()), (Some("http"), Some(8080), Some("TCP")));
    let endpoint = slice.endpoints().iter().find(|one| one.conditions().ready() == Some(true)).unwrap();
    assert_eq!((endpoint.node_name(), endpoint.zone()), (Some("node"), Some("z1")));
    assert_eq!(endpoint.target_ref().map(|target| target.name()), Some("a"));

    fixture.client.delete(Address::core("pods", "n").named("a"), &DeleteOptions::default()).await.unwrap();
    fixture.until_slice_endpoints(&["10.1.0.1 st", "10.1.0.2 "]).await;
    fixture.delete_pod_now("a").await;
    fixture.delete_pod_now("b").await;
    fixture.until_slice_endpoints(&[]).await;
    assert_eq!(fixture.slices().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn changes_by_others_are_undone() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.zone_node("node", "z1", "4").await;
    fixture.endpoint_pod("a", "10.1.0.1", true).await;
    fixture.service("web", WEB).await;
    let _running = fixture.start(&CONTROLLER);
    fixture.until_slice_endpoints(&["10.1.0.1 rs"]).await;
    let name = object_meta::text(&fixture.slices().await[0], "name").to_owned();
    fixture.client.delete(slices_of("n").named(&name), &DeleteOptions::default()).await.unwrap();
    fixture.until_slice_endpoints(&["10.1.0.1 rs"]).await;
    let name = object_meta::text(&fixture.slices().await[0], "name").to_owned();
    let empty = br#"{"endpoints":[]}"#;
    fixture.client.patch(slices_of("n").named(&name), Patch::Merge, empty).await.unwrap();
    fixture.until_slice_endpoints(&["10.1.0.1 rs"]).await;
}

#[tokio::test(start_paused = true)]
async fn pods_on_nodes_that_do_not_exist_are_passed_over_until_the_node_comes() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.endpoint_pod("a", "10.1.0.1", true).await;
    fixture.service("web", WEB).await;
    let _running = fixture.start(&CONTROLLER);
    let why = "Error updating Endpoint Slices for Service n/web: skipping Pod a for Service n/web: Node node Not Found";
    fixture.until_event("n", "FailedToUpdateEndpointSlices", why).await;
    fixture.zone_node("node", "z1", "4").await;
    fixture.until_slice_endpoints(&["10.1.0.1 rs"]).await;
}

#[tokio::test(start_paused = true)]
async fn traffic_distribution_gives_each_endpoint_its_own_zone() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.zone_node("node", "z1", "4").await;
    fixture.endpoint_pod("a", "10.1.0.1", true).await;
    fixture.service("web", &format!(r#"{WEB},"trafficDistribution":"PreferClose""#)).await;
    let _running = fixture.start(&CONTROLLER);
    let hinted = |zone: &str| vec![("10.1.0.1".to_owned(), zone.to_owned())];
    fixture.until("a hint", async || fixture.hints().await == hinted("z1")).await;
    let none = br#"{"spec":{"trafficDistribution":null}}"#;
    fixture.client.patch(Address::core("services", "n").named("web"), Patch::Merge, none).await.unwrap();
    fixture.until("no hint", async || fixture.hints().await == hinted("")).await;
}

#[tokio::test(start_paused = true)]
async fn topology_hints_need_zones_and_enough_endpoints() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.zone_node("node", "z1", "4").await;
    fixture.endpoint_pod("a", "10.1.0.1", true).await;
    fixture.service("web", WEB).await;
    let mode = br#"{"metadata":{"annotations":{"service.kubernetes.io/topology-mode":"Auto"}}}"#;
    fixture.client.patch(Address::core("services", "n").named("web"), Patch::Merge, mode).await.unwrap();
    let _running = fixture.start(&CONTROLLER);
    let why = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes, addressType: IPv4";
    fixture.until_event("n", "TopologyAwareHintsDisabled", why).await;
    fixture.zone_node("other", "z2", "4").await;
    fixture.endpoint_pod("b", "10.1.0.2", true).await;
    fixture.endpoint_pod("c", "10.1.0.3", true).await;
    fixture.endpoint_pod("d", "10.1.0.4", true).await;
    let enabled = "Topology Aware Hints has been enabled, addressType: IPv4";
    fixture.until_event("n", "TopologyAwareHintsEnabled", enabled).await;
    let zones: Vec<String> = fixture.hints().await.into_iter().map(|(_, zone)| zone).collect();
    assert!(zones.contains(&"z1".to_owned()) && zones.contains(&"z2".to_owned()), "{zones:?}");
}

const ADDRESS: &str = r#""clusterIP":"10.0.0.1""#;

fn service(fields: &str) -> Map {
    let json = format!(
        r#"{{"kind":"Service","apiVersion":"v1","metadata":{{"name":"web","namespace":"n","uid":"u","labels":{{"team":"a"}}}},"spec":{{{fields}}}}}"#
    );
    let decoded = schema::json::decode(Service::schema(), json.as_bytes(), &schema::Limits::STORED);
    decoded.unwrap().value.as_map().unwrap().clone()
}

fn endpoint(number: usize) -> Map {
    let mut endpoint = Map::new();
    endpoint.insert(
        "addresses",
        object::List::of([Value::from(format!("10.{}.0.{}", 100 + number / 100, 100 + number % 100))]),
    );
    endpoint.insert("conditions", [("ready", true)].into_iter().collect::<Map>());
    endpoint
}

fn wanted(numbers: impl IntoIterator<Item = usize>) -> Wanted {
    let mut wanted = Wanted::default();
    let group = wanted.group(Vec::new());
    for number in numbers {
        let endpoint = endpoint(number);
        group.insert(endpoint::key(&endpoint), endpoint);
    }
    wanted
}

fn plan(numbers: impl IntoIterator<Item = usize>, existing: Vec<Slice>) -> Plan {
    Plan::make(&service(ADDRESS), AddressType::Ipv4, MANAGER, wanted(numbers), existing)
}

/// The slices of a plan that created them, as if they were stored.
fn stored(plan: Plan) -> Vec<Slice> {
    let named = |(at, mut slice): (usize, Slice)| {
        slice.set_metadata("name", format!("web-{at}"));
        slice
    };
    plan.create.into_iter().enumerate().map(named).collect()
}

fn sizes(slices: &[Slice]) -> Vec<usize> {
    slices.iter().map(|slice| slice.endpoints.len()).collect()
}

#[test]
fn slices_have_at_most_a_hundred_endpoints() {
    assert_eq!(sizes(&plan(0..250, Vec::new()).create), [100, 100, 50]);
    assert_eq!(sizes(&plan(0..0, Vec::new()).create), [0]);
}

#[test]
fn endpoints_stay_where_they_are_and_new_ones_fill_what_changes() {
    let existing = || stored(plan(0..250, Vec::new()));
    let same = plan(0..250, existing());
    assert_eq!((same.create.len(), same.update.len(), same.delete.len(), same.unchanged.len()), (0, 0, 0, 3));
    let more = plan(0..251, existing());
    assert_eq!((sizes(&more.update), more.create.len(), more.unchanged.len()), (vec![51], 0, 2));
    // One of the first slice goes; its place is filled.
    let moved = plan((1..250).chain([999]), existing());
    assert_eq!((sizes(&moved.update), moved.unchanged.len()), (vec![100], 2));
    // Too many for the room that is left.
    let many = plan(0..310, existing());
    assert_eq!((sizes(&many.create), many.update.len(), many.unchanged.len()), (vec![60], 0, 3));
    let few = plan(0..100, existing());
    assert_eq!((few.delete.len(), few.unchanged.len(), few.update.len()), (2, 1, 0));
}

#[test]
fn slices_that_would_be_deleted_are_taken_for_new_ones() {
    let mut plan = plan(0..1, Vec::new());
    let mut old =
        stored(Plan::make(&service(ADDRESS), AddressType::Ipv4, MANAGER, Wanted::default(), Vec::new()));
    plan.delete.append(&mut old);
    plan.reuse_slices(&service(ADDRESS));
    assert_eq!((plan.create.len(), plan.delete.len()), (0, 0));
    assert_eq!(plan.update[0].name(), "web-0");
}

#[test]
fn labels_of_the_service_are_copied_and_reserved_ones_are_not() {
    let existing = stored(plan(0..1, Vec::new()));
    let mut relabelled = service(ADDRESS);
    crate::objects::edit(&mut relabelled, "metadata", |metadata| {
        let labels: Map = [("team", "b"), (MANAGED_BY, "somebody")].into_iter().collect();
        metadata.insert("labels", labels)
    });
    let plan = Plan::make(&relabelled, AddressType::Ipv4, MANAGER, wanted(0..1), existing);
    let labels = plan.update[0].view().metadata().labels();
    assert_eq!((labels.get("team"), labels.get(MANAGED_BY)), (Some("b"), Some(MANAGER)));
}

#[test]
fn services_have_slices_of_their_families() {
    use AddressType::{Ipv4, Ipv6};
    assert_eq!(AddressType::of_service(&service(r#""ipFamilies":["IPv6","IPv4"]"#)), [Ipv4, Ipv6]);
    assert_eq!(AddressType::of_service(&service(ADDRESS)), [Ipv4]);
    assert_eq!(AddressType::of_service(&service(r#""clusterIP":"fd00::1""#)), [Ipv6]);
    assert_eq!(AddressType::of_service(&service(r#""clusterIP":"None""#)), [Ipv4, Ipv6]);
}
