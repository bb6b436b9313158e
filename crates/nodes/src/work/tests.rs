use super::*;
use auth::Authorizer;
use cache::CacheOptions;
use store::memory::Memory;

struct Fixture {
    client: Client,
    registry: Arc<Registry>,
}

impl Fixture {
    async fn new() -> Self {
        let store = Arc::new(Memory::default());
        let cache = Cache::open(store, registry::specs().unwrap(), CacheOptions::default()).await.unwrap();
        let cache = Arc::new(cache);
        let config = registry::Config {
            authorizer: Authorizer::always_allow(),
            ..registry::Config::new(&cache).unwrap()
        };
        let registry = Arc::new(Registry::new(cache, config).unwrap());
        let client = Client::new(registry.clone(), SystemIdentity::ApiServer, "test");
        let fixture = Self { client, registry };
        for namespace in ["ns", "kube-system", "kube-node-lease"] {
            let text = format!(r#"{{"metadata":{{"name":"{namespace}"}}}}"#);
            fixture.create(Address::core("namespaces", ""), &text).await;
        }
        fixture
    }

    async fn create(&self, address: Address<'_>, text: &str) {
        let object = self.client.decode(address, text).unwrap();
        self.client.create(address, object).await.unwrap();
    }

    async fn pod(&self, name: &str, node: &str) {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"nodeName":"{node}","containers":[{{"name":"c","image":"i"}}]}}}}"#
        );
        self.create(Address::core("pods", "ns"), &text).await;
    }

    async fn get(&self, address: Address<'_>) -> Option<Map> {
        self.client.get(address).await.ok()?.as_map().cloned()
    }

    async fn phase(&self, pod: &str) -> String {
        let pod = self.get(Address::core("pods", "ns").named(pod)).await;
        pod.map_or("gone".to_owned(), |pod| v1::Pod::of(&pod).status().phase().to_owned())
    }

    async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        for _ in 0..2_000 {
            if holds().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("there is never {what}");
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_are_made_and_pods_on_them_run_and_go() {
    let fixture = Fixture::new().await;
    fixture.pod("early", "node-1").await;
    fixture.pod("elsewhere", "real").await;
    let options = Options { count: 2, ..Options::default() };
    let playing = start(&fixture.registry, &options);
    fixture.until("a running pod", async || fixture.phase("early").await == "Running").await;
    let node = fixture.get(Address::core("nodes", "").named("node-1")).await.unwrap();
    assert_eq!(v1::Node::of(&node).spec().pod_cidr(), "10.128.1.0/24");
    let early = fixture.get(Address::core("pods", "ns").named("early")).await.unwrap();
    assert_eq!(v1::Pod::of(&early).status().pod_ip(), "10.128.1.1");
    fixture.pod("late", "node-1").await;
    fixture.until("a running pod", async || fixture.phase("late").await == "Running").await;
    let late = fixture.get(Address::core("pods", "ns").named("late")).await.unwrap();
    assert_eq!(v1::Pod::of(&late).status().pod_ip(), "10.128.1.2");
    assert_eq!(fixture.phase("elsewhere").await, "Pending");

    fixture
        .client
        .delete(Address::core("pods", "ns").named("early"), &DeleteOptions::default())
        .await
        .unwrap();
    fixture.until("an end", async || fixture.phase("early").await == "gone").await;
    playing.end().await;
    let _again = start(&fixture.registry, &options);
    fixture.pod("next", "node-1").await;
    fixture.until("a running pod", async || fixture.phase("next").await == "Running").await;
    let next = fixture.get(Address::core("pods", "ns").named("next")).await.unwrap();
    assert_eq!(
        v1::Pod::of(&next).status().pod_ip(),
        "10.128.1.1",
        "addresses in use are known after a restart"
    );
}

#[tokio::test(start_paused = true)]
async fn annotated_nodes_are_played_and_others_are_not() {
    let fixture = Fixture::new().await;
    let _playing = start(&fixture.registry, &Options::default());
    let taint = r#""spec":{"taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"}]}"#;
    for (name, annotations) in [("fake", r#""kwok.x-k8s.io/node":"fake""#), ("real", "")] {
        let text = format!(r#"{{"metadata":{{"name":"{name}","annotations":{{{annotations}}}}},{taint}}}"#);
        fixture.create(Address::core("nodes", ""), &text).await;
    }
    let is_ready = async |name: &str| {
        let node = fixture.get(Address::core("nodes", "").named(name)).await.unwrap();
        !node_status::is_tainted(&node)
            && v1::Node::of(&node).status().conditions().iter().any(|it| it.r#type() == "Ready")
    };
    fixture.until("a ready node", async || is_ready("fake").await).await;
    assert!(!is_ready("real").await);
    fixture.pod("p", "fake").await;
    fixture.until("a running pod", async || fixture.phase("p").await == "Running").await;
}

#[tokio::test(start_paused = true)]
async fn leases_are_renewed_often_only_while_a_stock_controller_manager_runs() {
    let fixture = Fixture::new().await;
    let _playing = start(&fixture.registry, &Options { count: 3, ..Options::default() });
    let leases = Address::v1("coordination.k8s.io", "leases", "kube-node-lease");
    fixture.until("leases", async || fixture.client.list_objects(leases).await.unwrap().len() == 3).await;
    let renewed_at = async || {
        let lease = fixture.get(leases.named("node-0")).await.unwrap();
        let lease = schema::views::coordination::v1::Lease::of(&lease).spec();
        assert_eq!(lease.lease_duration_seconds(), Some(3_600));
        lease.renew_time().unwrap_or_default().to_owned()
    };
    let first = renewed_at().await;
    tokio::time::sleep(Duration::from_secs(1_200)).await;
    assert_eq!(renewed_at().await, first);
    tokio::time::sleep(Duration::from_secs(700)).await;
    let second = renewed_at().await;
    assert_ne!(second, first, "it lasts for an hour, and is renewed in time");
    let renewed = object::time::MicroTime::now();
    let lease = format!(
        r#"{{"metadata":{{"name":"kube-controller-manager"}},"spec":{{"holderIdentity":"x","leaseDurationSeconds":15,"renewTime":"{renewed}"}}}}"#
    );
    fixture.create(Address::v1("coordination.k8s.io", "leases", "kube-system"), &lease).await;
    fixture.until("another renewal", async || renewed_at().await != second).await;
    let lease = fixture.get(leases.named("node-0")).await.unwrap();
    let view = schema::views::coordination::v1::Lease::of(&lease);
    assert_eq!(view.spec().holder_identity(), Some("node-0"));
    assert_eq!(view.metadata().owner_references().get(0).unwrap().kind(), "Node");
}
