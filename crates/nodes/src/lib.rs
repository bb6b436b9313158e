//! Nodes that exist on paper ("fake nodes"): the server plays their kubelets.
//!
//! A node with the annotation `kwok.x-k8s.io/node: fake` gets a status as if a kubelet had registered it.
//! Pods that are bound to such a node run there without containers: they become `Running` and `Ready`, pods
//! of jobs succeed, and pods that are deleted go. The server can make such nodes itself
//! ([`Options::count`]).
//!
//! 1. **One state at a time.** What is next for a pod follows from its newest state, so a restart goes on
//!    where the server before had stopped.
//! 2. **Nothing is polled.** Pods and nodes are looked at when they change, or when a delay that they ask for
//!    is over.
//! 3. **Heartbeats by need.** The Lease of a node lasts for an hour. While a stock controller manager runs,
//!    which would take the node for dead, it is renewed every 20 s.
//! 4. **Addresses are unique.** A pod has an address from the range of its node, which no other pod there
//!    has.
//!
//! | annotation of a pod | meaning |
//! |---|---|
//! | `pod-ready.stage.kwok.x-k8s.io/delay` | how long the pod takes to become ready: `2s` |
//! | `pod-complete.stage.kwok.x-k8s.io/delay` | how long a pod runs that ends by itself |
//! | `pod-delete.stage.kwok.x-k8s.io/delay` | how long a pod takes to go, at most its grace period |
//! | `kwok.x-k8s.io/usage-cpu`, `kwok.x-k8s.io/usage-memory` | what each of its containers uses |
//! | `keelson.io/exit-code` | the code that its containers end with; other pods than those of jobs end too then |
//!
//! As long as there are such nodes, the server serves `metrics.k8s.io` about them.
//!
//! Where `Stage` objects of KWOK exist for nodes or pods, these live by them instead; other kinds can too.
//!
//! A node can say in `keelson.io/capacity` what it has: `cpu=4,memory=16Gi,pods=110`.

mod addresses;
mod create;
mod heartbeat;
mod metrics_api;
mod node_status;
mod options;
mod pod_end;
mod pod_status;
mod schedule;
mod stage_objects;
mod staged;
#[cfg(test)]
mod testing;
mod usage;
mod work;

pub use options::{Capacity, Options};
pub use work::start;

use cache::Entry;
use object::{Map, Value};

/// The annotation of nodes that exist on paper, and its value.
pub const ANNOTATION: (&str, &str) = ("kwok.x-k8s.io/node", "fake");

/// Whether a node exists on paper.
pub fn is_fake(node: &Map) -> bool {
    annotation(node, ANNOTATION.0) == Some(ANNOTATION.1)
}

/// An annotation of an object.
fn annotation<'a>(object: &'a Map, key: &str) -> Option<&'a str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    annotations.get(key).and_then(Value::as_str)
}

/// Whether the bytes of a node may have the annotation: a cheap question before they are decoded.
fn may_be_fake(node: &Entry) -> bool {
    let bytes = node.bytes();
    bytes.windows(ANNOTATION.0.len()).any(|window| window == ANNOTATION.0.as_bytes())
}
