use super::*;
use crate::service_pods::tests::WEB;
use crate::testing::Fixture;
use object::time::Time;
use registry::Patch;

impl Fixture {
    /// The subsets of Endpoints: ready addresses, addresses that are not, and ports.
    async fn subsets(&self, name: &str) -> Vec<String> {
        let address = Address::core("endpoints", "n").named(name);
        let Ok(endpoints) = self.client.get(address).await else { return vec!["none".to_owned()] };
        let shown = Endpoints::of(endpoints.as_map().unwrap()).subsets().iter().map(|subset| {
            let ips = |list: schema::view::Items<'_, schema::views::core::v1::EndpointAddress<'_>>| {
                list.iter().map(|address| address.ip().to_owned()).collect::<Vec<_>>().join(" ")
            };
            let ports = subset.ports().iter().map(|port| format!("{}:{}", port.name(), port.port()));
            let ports = ports.collect::<Vec<_>>().join(" ");
            format!("{}|{}|{ports}", ips(subset.addresses()), ips(subset.not_ready_addresses()))
        });
        shown.collect()
    }

    async fn until_subsets(&self, name: &str, expected: &[&str]) {
        self.until(&format!("{expected:?}"), async || self.subsets(name).await == expected).await;
    }

    async fn endpoints(&self, name: &str) -> Map {
        let address = Address::core("endpoints", "n").named(name);
        self.client.get(address).await.unwrap().as_map().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn endpoints_follow_services_and_their_pods() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let stale = r#"{"metadata":{"name":"gone"},"subsets":[{"addresses":[{"ip":"10.1.0.9"}]}]}"#;
    fixture.create(Address::core("endpoints", "n"), stale).await;
    let leader =
        r#"{"metadata":{"name":"leader","annotations":{"control-plane.alpha.kubernetes.io/leader":"{}"}}}"#;
    fixture.create(Address::core("endpoints", "n"), leader).await;
    fixture.endpoint_pod("a", "10.1.0.1", true).await;
    fixture.service("web", WEB).await;
    fixture.service("by-hand", r#""ports":[{"port":80}]"#).await;
    let _running = fixture.start(&CONTROLLER);
    fixture.until_subsets("web", &["10.1.0.1||http:8080"]).await;
    fixture.until_subsets("gone", &["none"]).await;
    assert!(fixture.subsets("leader").await.is_empty());
    assert_eq!(fixture.subsets("by-hand").await, ["none"]);

    fixture.endpoint_pod("b", "10.1.0.2", false).await;
    fixture.until_subsets("web", &["10.1.0.1|10.1.0.2|http:8080"]).await;
    fixture.set_readiness("b", "10.1.0.2", true).await;
    fixture.until_subsets("web", &["10.1.0.1 10.1.0.2||http:8080"]).await;
    fixture.delete_pod_now("a").await;
    fixture.until_subsets("web", &["10.1.0.2||http:8080"]).await;
    let other = br#"{"metadata":{"labels":{"app":"other"}}}"#;
    fixture.client.patch(Address::core("pods", "n").named("b"), Patch::Merge, other).await.unwrap();
    fixture.until_subsets("web", &[]).await;

    let address = Address::core("endpoints", "n").named("web");
    fixture.client.delete(address, &DeleteOptions::default()).await.unwrap();
    fixture.until_subsets("web", &[]).await;
    fixture
        .client
        .delete(Address::core("services", "n").named("web"), &DeleteOptions::default())
        .await
        .unwrap();
    fixture.until_subsets("web", &["none"]).await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_have_the_labels_of_the_service_and_say_what_they_are_of() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.endpoint_pod("a", "10.1.0.1", true).await;
    fixture.service("web", WEB).await;
    let _running = fixture.start(&CONTROLLER);
    fixture.until_subsets("web", &["10.1.0.1||http:8080"]).await;
    let endpoints = fixture.endpoints("web").await;
    let metadata = Endpoints::of(&endpoints).metadata();
    assert_eq!((metadata.labels().get("team"), metadata.labels().get(MANAGED_BY)), (Some("a"), Some(NAME)));
    assert_eq!(metadata.labels().get(HEADLESS), None);
    let created: Time = fixture
        .client
        .get(Address::core("services", "n").named("web"))
        .await
        .unwrap()
        .as_map()
        .map(|service| crate::service_pods::created(service).unwrap())
        .unwrap();
    assert_eq!(metadata.annotations().get(crate::service_pods::TRIGGER_TIME), Some(created.text().as_str()));
    let address = Endpoints::of(&endpoints).subsets().get(0).unwrap().addresses().get(0).unwrap();
    assert_eq!(address.node_name(), Some("node"));
    assert_eq!(address.target_ref().map(|target| (target.kind(), target.name())), Some(("Pod", "a")));

    let relabel = br#"{"metadata":{"labels":{"team":"b"}}}"#;
    fixture.client.patch(Address::core("services", "n").named("web"), Patch::Merge, relabel).await.unwrap();
    let team = async || {
        let endpoints = fixture.endpoints("web").await;
        Endpoints::of(&endpoints).metadata().labels().get("team") == Some("b")
    };
    fixture.until("the new label", team).await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_published_before_they_are_ready_if_the_service_asks_for_that() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.endpoint_pod("a", "10.1.0.1", false).await;
    let headless = r#"{"metadata":{"name":"web"},"spec":{"ipFamilies":["IPv4"],"clusterIP":"None","clusterIPs":["None"],
        "selector":{"app":"web"},"publishNotReadyAddresses":true}}"#;
    fixture.create(Address::core("services", "n"), headless).await;
    let _running = fixture.start(&CONTROLLER);
    fixture.until_subsets("web", &["10.1.0.1||"]).await;
    let endpoints = fixture.endpoints("web").await;
    assert_eq!(Endpoints::of(&endpoints).metadata().labels().get(HEADLESS), Some(""));
}

fn offer(ip: &str, port: i64, is_ready: bool) -> Offer {
    let address: Map = [("ip", ip)].into_iter().collect();
    let port: Map = [("port", port)].into_iter().collect();
    Offer { address, is_ready, port: Some(port) }
}

#[test]
fn addresses_with_the_same_ports_share_a_subset() {
    let mut packed = subsets::packed(&[
        offer("10.0.0.2", 80, true),
        offer("10.0.0.1", 80, true),
        offer("10.0.0.1", 90, true),
        offer("10.0.0.2", 90, true),
        offer("10.0.0.3", 90, false),
        offer("10.0.0.1", 70, true),
        offer("10.0.0.2", 70, true),
    ]);
    subsets::sort(&mut packed);
    let shown: Vec<_> = packed
        .iter()
        .map(|subset| {
            let subset = schema::views::core::v1::EndpointSubset::of(subset);
            let ips: Vec<_> = subset.addresses().iter().map(|one| one.ip()).collect();
            let ports: Vec<_> = subset.ports().iter().map(|one| one.port()).collect();
            (ips, subset.not_ready_addresses().len(), ports)
        })
        .collect();
    let both = vec!["10.0.0.1", "10.0.0.2"];
    assert_eq!(shown, [(both.clone(), 0, vec![70, 80]), (both, 1, vec![90])]);
}

#[test]
fn a_port_that_is_offered_twice_is_ready_if_both_are() {
    let packed = subsets::packed(&[offer("10.0.0.1", 80, true), offer("10.0.0.1", 80, false)]);
    let subset = schema::views::core::v1::EndpointSubset::of(&packed[0]);
    assert_eq!((subset.addresses().len(), subset.not_ready_addresses().len()), (0, 1));
}

#[test]
fn endpoints_are_truncated_ready_addresses_first() {
    let many = |ready: usize, not_ready: usize| {
        let all = (0..ready + not_ready).map(|at| {
            offer(
                &format!("10.{}.{}.{}", at / 65536, at / 256 % 256, at % 256),
                80 + (at % 2) as i64,
                at < ready,
            )
        });
        let (subsets, is_truncated) = subsets::truncated(subsets::packed(&all.collect::<Vec<_>>()));
        let count = |key: &str| -> usize {
            subsets.iter().filter_map(|one| one.get(key)).filter_map(Value::as_list).map(<[Value]>::len).sum()
        };
        (count("addresses"), count("notReadyAddresses"), is_truncated)
    };
    assert_eq!(many(1000, 0), (1000, 0, false));
    assert_eq!(many(1500, 10), (1000, 0, true));
    assert_eq!(many(600, 1000), (600, 400, true));
}
