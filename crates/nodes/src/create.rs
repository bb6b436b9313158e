//! Makes the nodes that the server is to have.

use crate::ANNOTATION;
use crate::addresses::{self, Range};
use crate::node_status;
use crate::options::Options;
use object::Map;
use registry::{Address, Client};
use schema::status::Reason;
use std::sync::Arc;
use tokio::task::JoinSet;

/// How many nodes are made at the same time.
const AT_ONCE: usize = 64;
const PREFIX: &str = "node-";

/// Makes the nodes that are not there. A node that was deleted comes back with the next start of the server.
pub(crate) async fn create(client: &Client, options: &Options) {
    let options = Arc::new(options.clone());
    let mut running = JoinSet::new();
    for number in 0..options.count {
        if running.len() >= AT_ONCE {
            drop(running.join_next().await);
        }
        let (client, options) = (client.clone(), options.clone());
        running.spawn(async move {
            match client.create(Address::core("nodes", ""), node(number, &options).into()).await {
                Err(error) if error.reason != Reason::AlreadyExists => {
                    log::warn!(number, error:% = error.message; "a node could not be made");
                }
                _ => {}
            }
        });
    }
    while running.join_next().await.is_some() {}
}

/// The number in the name of a node that the server makes.
pub(crate) fn number(name: &str) -> Option<usize> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

fn node(number: usize, options: &Options) -> Map {
    let name = format!("{PREFIX}{number}");
    let labels = Map::from_iter([
        ("beta.kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/hostname", name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("type", "kwok"),
    ]);
    let annotations = Map::from_iter([(ANNOTATION.0, ANNOTATION.1), ("node.alpha.kubernetes.io/ttl", "0")]);
    let mut metadata = Map::new();
    metadata.insert("name", name.as_str());
    metadata.insert("labels", labels);
    metadata.insert("annotations", annotations);
    let mut node = Map::new();
    node.insert("metadata", metadata);
    if let Some(range) = Range::of_node(number, options.capacity.pods()).map(Range::text) {
        let mut spec = Map::new();
        spec.insert("podCIDRs", object::Value::from_iter([range.as_str()]));
        spec.insert("podCIDR", range);
        node.insert("spec", spec);
    }
    node_status::set(&mut node, &options.capacity, addresses::of_node(number));
    node
}
