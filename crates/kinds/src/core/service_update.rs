//! The addresses and ports of a service on update.
//!
//! A client may send the object that it created, without the addresses and ports that the server allocated:
//! the update keeps them ([`keep_allocated`], before others are allocated). A client that changes the type of
//! a service does not have to clear the fields of the old type: the update drops them ([`prepare`]).

use super::service::is_reachable_from_outside;
use crate::defaults::{each, update_map};
use crate::keep;
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::core::v1::{Service, ServiceSpec};
use std::collections::{HashMap, HashSet};

/// Keeps the addresses and ports of a service that an update leaves out. Runs before new ones are allocated.
pub fn keep_allocated(new: &mut Map, old: &Map) {
    let old = Service::of(old).spec();
    update_map(new, "spec", |spec| {
        take_over(spec, old);
        settle_addresses(spec, old);
    });
}

/// Prepares an update of a service that has its addresses and ports.
pub(super) fn prepare(new: &mut Map, old: &Map) {
    update_map(new, "spec", |spec| drop_what_does_not_apply(spec, Service::of(old).spec()));
    if Service::of(new).spec().r#type() != "LoadBalancer" {
        update_map(new, "status", |status| drop(status.remove("loadBalancer")));
        if new.get("status").and_then(Value::as_map).is_some_and(Map::is_empty) {
            new.remove("status");
        }
    }
}

/// Restores allocated addresses and ports that the new object leaves out.
fn take_over(spec: &mut Map, old: ServiceSpec<'_>) {
    let new = ServiceSpec::of(spec);
    let (node_ports, health_port) = (
        takes_node_ports(old) && takes_node_ports(new),
        takes_health_check_port(old) && takes_health_check_port(new),
    );
    if has_address(old) && has_address(new) {
        keep_if_unset(spec, old.map(), "clusterIP");
        keep_if_unset(spec, old.map(), "clusterIPs");
    }
    if node_ports {
        take_over_node_ports(spec, old);
    }
    if health_port {
        keep_if_unset(spec, old.map(), "healthCheckNodePort");
    }
}

/// Restores the node ports of ports by name, unless another port requests them.
fn take_over_node_ports(spec: &mut Map, old: ServiceSpec<'_>) {
    let before = node_ports(old);
    let used: HashSet<i64> = node_ports(ServiceSpec::of(spec)).intersection(&before).copied().collect();
    let by_name: HashMap<&str, i64> =
        old.ports().iter().map(|port| (port.name(), port.node_port())).collect();
    each(spec, "ports", |port| {
        let name = port.get("name").and_then(Value::as_str).unwrap_or_default();
        let number = by_name.get(name).copied().unwrap_or_default();
        if number != 0 && !port.contains_key("nodePort") && !used.contains(&number) {
            port.insert(Key::known("nodePort"), number);
        }
    });
}

/// Updates `clusterIPs` if the client changed only `clusterIP`.
fn settle_addresses(spec: &mut Map, old: ServiceSpec<'_>) {
    let new = ServiceSpec::of(spec);
    if old.cluster_ip() == new.cluster_ip() {
        keep_if_unset(spec, old.map(), "clusterIPs");
    } else if new.cluster_ips().iter().eq(old.cluster_ips().iter()) {
        match spec.get("clusterIP").cloned() {
            Some(address) => drop(spec.insert(Key::known("clusterIPs"), Value::from_iter([address]))),
            None => drop(spec.remove("clusterIPs")),
        }
    }
}

/// Drops the fields that the new type does not use, unless the client changed them too.
fn drop_what_does_not_apply(spec: &mut Map, old: ServiceSpec<'_>) {
    let same = |spec: &Map, key: &str| spec.get(key) == old.map().get(key);
    let new = ServiceSpec::of(spec);
    let mut drops: Vec<&str> = Vec::new();
    if has_address(old) && !has_address(new) {
        if same(spec, "clusterIP") && same(spec, "clusterIPs") {
            drops.extend(["clusterIP", "clusterIPs"]);
        }
        if same(spec, "ipFamilies") {
            drops.push("ipFamilies");
        }
        if new.ip_family_policy().unwrap_or_default() == old.ip_family_policy().unwrap_or_default() {
            drops.push("ipFamilyPolicy");
        }
    }
    let drops_node_ports = may_have_node_ports(old)
        && !may_have_node_ports(new)
        && node_ports(old).is_superset(&node_ports(new));
    if takes_health_check_port(old) && !takes_health_check_port(new) && same(spec, "healthCheckNodePort") {
        drops.push("healthCheckNodePort");
    }
    if old.r#type() == "LoadBalancer" && new.r#type() != "LoadBalancer" {
        if same(spec, "allocateLoadBalancerNodePorts") {
            drops.push("allocateLoadBalancerNodePorts");
        }
        if same(spec, "loadBalancerClass") {
            drops.push("loadBalancerClass");
        }
    }
    if is_reachable_from_outside(old)
        && !is_reachable_from_outside(new)
        && same(spec, "externalTrafficPolicy")
    {
        drops.push("externalTrafficPolicy");
    }
    spec.retain(|key, _| !drops.contains(&key.as_str()));
    if drops_node_ports {
        each(spec, "ports", |port| drop(port.remove("nodePort")));
    }
}

fn keep_if_unset(new: &mut Map, old: &Map, key: &'static str) {
    if !new.contains_key(key) {
        keep(new, old, key);
    }
}

fn has_address(spec: ServiceSpec<'_>) -> bool {
    spec.r#type() != "ExternalName"
}

/// Whether the server allocates node ports for a service.
fn takes_node_ports(spec: ServiceSpec<'_>) -> bool {
    match spec.r#type() {
        "NodePort" => true,
        "LoadBalancer" => spec.allocate_load_balancer_node_ports().unwrap_or(true),
        _ => false,
    }
}

/// Whether a service can have node ports, allocated or requested.
fn may_have_node_ports(spec: ServiceSpec<'_>) -> bool {
    matches!(spec.r#type(), "NodePort" | "LoadBalancer")
}

/// Whether the load balancer of a service asks its nodes whether they are healthy.
pub(super) fn takes_health_check_port(spec: ServiceSpec<'_>) -> bool {
    spec.r#type() == "LoadBalancer" && spec.external_traffic_policy() == "Local"
}

fn node_ports(spec: ServiceSpec<'_>) -> HashSet<i64> {
    spec.ports().iter().map(|port| port.node_port()).filter(|number| *number != 0).collect()
}
