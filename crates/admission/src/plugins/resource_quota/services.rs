//! What services use: themselves, node ports and load balancers.

use super::super::resource_list::{ResourceList, count};
use schema::views::core::v1::Service;

const NAMES: [&str; 4] = ["count/services", "services", "services.nodeports", "services.loadbalancers"];

pub(super) fn counts(name: &str) -> bool {
    NAMES.contains(&name)
}

pub(super) fn usage(service: Service<'_>) -> ResourceList {
    let spec = service.spec();
    let ports = spec.ports();
    // Node ports are not allocated yet: what counts is the intent.
    let (node_ports, balancers) = match spec.r#type() {
        "NodePort" => (ports.len(), 0),
        "LoadBalancer" if spec.allocate_load_balancer_node_ports() == Some(false) => {
            (ports.iter().filter(|port| port.node_port() != 0).count(), 1)
        }
        "LoadBalancer" => (ports.len(), 1),
        _ => (0, 0),
    };
    let amounts = [1, 1, node_ports, balancers];
    NAMES.into_iter().zip(amounts).map(|(name, number)| (name.into(), count(number))).collect()
}
