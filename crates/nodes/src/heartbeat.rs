//! Leases of nodes that exist on paper: heartbeats by need.
//!
//! The controller of this server takes a node for alive until its Lease ends, however long it lasts. So the
//! Lease of a node lasts for [`DURATION`], and is renewed every [`RENEWAL`]. A stock controller manager looks
//! only at how long ago a Lease was renewed: while one holds its own Lease, those of nodes are renewed every
//! [`PERIOD`], which is well before the nodes would be taken for dead. The renewals are spread over the
//! period.

use crate::work::Shared;
use controllers::StockLease;
use object::time::MicroTime;
use object::{Map, Text};
use registry::{Address, Client};
use schema::Status;
use schema::status::Reason;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// How long a Lease of a node lasts.
const DURATION: Duration = Duration::from_secs(3_600);
/// How often a Lease is renewed.
pub(crate) const RENEWAL: Duration = Duration::from_secs(1_800);
/// How often a Lease is renewed for a stock controller manager, which waits for 50 s.
const PERIOD: Duration = Duration::from_secs(20);
/// Into how many parts the renewals of a period are split.
const PARTS: usize = 100;
const NAMESPACE: &str = "kube-node-lease";

/// The Lease of a stock controller manager, which nobody is known to hold.
pub(crate) fn stock_lease() -> StockLease {
    StockLease::new("kube-controller-manager")
}

/// Renews Leases while a stock controller manager runs.
pub(crate) async fn run(shared: Arc<Shared>, client: Client) {
    loop {
        let Some(until) = shared.lock().stock.held_until(Instant::now()) else {
            shared.stock_changed.notified().await;
            continue;
        };
        let mut names: Vec<Text> = shared.lock().nodes.keys().cloned().collect();
        names.sort();
        let begin = Instant::now();
        for (part, names) in names.chunks(names.len().div_ceil(PARTS).max(1)).enumerate() {
            let mut running = JoinSet::new();
            for name in names {
                let (client, name) = (client.clone(), name.clone());
                running.spawn(async move { renew(&client, &name).await });
            }
            while running.join_next().await.is_some() {}
            let part = u32::try_from(part).unwrap_or_default() + 1;
            sleep_until(begin + PERIOD * part / PARTS as u32).await;
        }
        let rest = (begin + PERIOD).min(until.max(begin + Duration::from_secs(1)));
        sleep(rest.saturating_duration_since(Instant::now())).await;
    }
}

/// Renews the Lease of a node, or makes it; returns whether that was possible.
pub(crate) async fn renew(client: &Client, node: &str) -> bool {
    let address = Address::v1("coordination.k8s.io", "leases", NAMESPACE).named(node);
    let set = |lease: &mut Map| {
        let spec = lease.get_or_insert_with("spec", || Map::new().into());
        let Some(spec) = spec.as_map_mut() else { return };
        spec.insert("holderIdentity", node);
        spec.insert("leaseDurationSeconds", i64::try_from(DURATION.as_secs()).unwrap_or(i64::MAX));
        spec.insert("renewTime", MicroTime::now().to_string());
    };
    let outcome = match client.modify(address, set).await {
        Err(error) if error.reason == Reason::NotFound => create(client, address, set).await,
        outcome => outcome,
    };
    if let Err(error) = &outcome {
        log::debug!(node, error:% = error.message; "the Lease of a node could not be renewed");
    }
    outcome.is_ok()
}

async fn create(client: &Client, address: Address<'_>, set: impl Fn(&mut Map)) -> Result<(), Status> {
    let node = client.get(Address::core("nodes", "").named(address.name)).await?;
    let uid = node.as_map().map(|node| kinds::object_meta::text(node, "uid").to_owned()).unwrap_or_default();
    let owner = Map::from_iter([
        ("apiVersion", "v1"),
        ("kind", "Node"),
        ("name", address.name),
        ("uid", uid.as_str()),
    ]);
    let mut metadata = Map::from_iter([("name", address.name), ("namespace", NAMESPACE)]);
    metadata.insert("ownerReferences", object::Value::from_iter([owner]));
    let mut lease = Map::new();
    lease.insert("metadata", metadata);
    set(&mut lease);
    client.create(address, lease.into()).await.map(drop)
}
