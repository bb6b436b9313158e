//! The part of a service that is about addresses and node ports, as plain data.

use crate::Family;
use object::{Key, Map, Value};
use schema::view::View as _;
use schema::views::core::v1::{Service, ServiceSpec};
use std::collections::BTreeSet;

/// The cluster IP of services that have none.
pub(crate) const NONE: &str = "None";
pub(crate) const SINGLE: &str = "SingleStack";
pub(crate) const PREFER_DUAL: &str = "PreferDualStack";
pub(crate) const REQUIRE_DUAL: &str = "RequireDualStack";

/// The fields of a service about addresses and node ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) kind: String,
    pub(crate) cluster_ip: String,
    pub(crate) cluster_ips: Vec<String>,
    pub(crate) families: Vec<String>,
    pub(crate) policy: Option<String>,
    pub(crate) has_selector: bool,
    pub(crate) ports: Vec<Port>,
    pub(crate) allocates_ports: bool,
    pub(crate) is_local: bool,
    pub(crate) health_port: i64,
}

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) protocol: String,
    pub(crate) number: i64,
    pub(crate) node_port: i64,
}

impl Spec {
    /// Reads a service.
    pub(crate) fn read(service: &Map) -> Self {
        let spec = Service::of(service).spec();
        let owned = |texts: schema::view::Items<'_, &str>| texts.iter().map(str::to_owned).collect();
        Self {
            kind: spec.r#type().to_owned(),
            cluster_ip: spec.cluster_ip().to_owned(),
            cluster_ips: owned(spec.cluster_ips()),
            families: owned(spec.ip_families()),
            policy: spec.ip_family_policy().map(str::to_owned),
            has_selector: !spec.selector().is_empty(),
            ports: ports(spec),
            allocates_ports: match spec.r#type() {
                "NodePort" => true,
                "LoadBalancer" => spec.allocate_load_balancer_node_ports().unwrap_or(true),
                _ => false,
            },
            is_local: spec.external_traffic_policy() == "Local",
            health_port: spec.health_check_node_port(),
        }
    }

    /// Reads a service that is stored. One from a time before families gets those of its addresses.
    pub(crate) fn read_stored(service: &Map, default: Family) -> Self {
        let mut spec = Self::read(service);
        spec.fill_cluster_ips();
        if spec.is_external_name() || !spec.families.is_empty() {
            return spec;
        }
        let (families, policy): (Vec<Family>, _) = match (spec.cluster_ip == NONE, spec.has_selector) {
            (true, false) => (vec![default, default.other()], REQUIRE_DUAL),
            (true, true) => (vec![default], SINGLE),
            (false, _) => {
                let of = |ip: &String| if ip.contains(':') { Family::V6 } else { Family::V4 };
                let families: Vec<_> = spec.cluster_ips.iter().map(of).collect();
                let policy = if families.len() == 2 { REQUIRE_DUAL } else { SINGLE };
                (families, policy)
            }
        };
        if !families.is_empty() {
            spec.policy = Some(policy.to_owned());
        }
        spec.families = families.into_iter().map(|family| family.name().to_owned()).collect();
        spec
    }

    /// Fills the list of addresses of a service from a time when it had one.
    pub(crate) fn fill_cluster_ips(&mut self) {
        if self.cluster_ips.is_empty() && !self.cluster_ip.is_empty() {
            self.cluster_ips = vec![self.cluster_ip.clone()];
        }
    }

    /// Writes the fields that differ from `before`, the current state of the service.
    pub(crate) fn write(&self, before: &Self, service: &mut Map) {
        let spec = service.get_or_insert_with(Key::known("spec"), || Map::new().into());
        let Some(spec) = spec.as_map_mut() else { return };
        if self.cluster_ip != before.cluster_ip {
            set(spec, "clusterIP", !self.cluster_ip.is_empty(), || self.cluster_ip.as_str().into());
        }
        if self.cluster_ips != before.cluster_ips {
            set(spec, "clusterIPs", !self.cluster_ips.is_empty(), || list(&self.cluster_ips));
        }
        if self.families != before.families {
            set(spec, "ipFamilies", !self.families.is_empty(), || list(&self.families));
        }
        if self.policy != before.policy {
            let policy = self.policy.as_deref();
            set(spec, "ipFamilyPolicy", policy.is_some(), || policy.unwrap_or_default().into());
        }
        if self.health_port != before.health_port {
            set(spec, "healthCheckNodePort", self.health_port != 0, || self.health_port.into());
        }
        let listed = spec.get_mut("ports").and_then(Value::as_list_mut).into_iter().flatten();
        for (place, port) in listed.enumerate() {
            if let (Some(now), Some(port)) = (self.ports.get(place), port.as_map_mut())
                && before.ports.get(place).is_none_or(|before| before.node_port != now.node_port)
            {
                set(port, "nodePort", now.node_port != 0, || now.node_port.into());
            }
        }
    }

    pub(crate) fn is_external_name(&self) -> bool {
        self.kind == "ExternalName"
    }

    /// Whether the service is headless.
    pub(crate) fn is_headless(&self) -> bool {
        self.cluster_ips.first().is_some_and(|first| first == NONE)
    }

    /// Whether the service is headless and has no selector.
    pub(crate) fn is_headless_without_selector(&self) -> bool {
        self.cluster_ip == NONE && !self.has_selector
    }

    /// Whether its ports can be node ports.
    pub(crate) fn may_have_node_ports(&self) -> bool {
        matches!(self.kind.as_str(), "NodePort" | "LoadBalancer")
    }

    pub(crate) fn needs_health_port(&self) -> bool {
        self.kind == "LoadBalancer" && self.is_local
    }

    /// Its node ports, that of the health check among them.
    pub(crate) fn node_ports(&self) -> BTreeSet<u16> {
        let ports = self.ports.iter().map(|port| port.node_port).chain([self.health_port]);
        let ports = ports.filter(|port| self.may_have_node_ports() && *port != 0);
        ports.filter_map(|port| u16::try_from(port).ok()).collect()
    }

    pub(crate) fn is_single_stack(&self) -> bool {
        self.policy.as_deref() == Some(SINGLE)
    }

    /// Its addresses, if it has any.
    pub(crate) fn addresses(&self) -> &[String] {
        if self.is_external_name() || self.is_headless() { &[] } else { &self.cluster_ips }
    }
}

fn ports(spec: ServiceSpec<'_>) -> Vec<Port> {
    let read = spec.ports().iter().map(|port| Port {
        protocol: port.protocol().to_owned(),
        number: port.port(),
        node_port: port.node_port(),
    });
    read.collect()
}

fn set(map: &mut Map, key: &'static str, is_set: bool, value: impl FnOnce() -> Value) {
    if is_set {
        map.insert(Key::known(key), value());
    } else {
        map.remove(key);
    }
}

fn list(texts: &[String]) -> Value {
    texts.iter().map(|text| Value::from(text.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::{Limits, json};

    fn service(spec: &str) -> Value {
        let text = format!(r#"{{"metadata":{{"name":"s"}},"spec":{spec}}}"#);
        json::decode(Service::schema(), text.as_bytes(), &Limits::REQUEST).unwrap().value
    }

    #[test]
    fn update_writes_changed_ports_only() {
        let mut object = service(
            r#"{"type":"NodePort","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1","fd00::1"],"ports":[{"port":1,"nodePort":30000},{"port":2}]}"#,
        );
        let map = object.as_map_mut().unwrap();
        let before = Spec::read(map);
        let mut after = before.clone();
        after.cluster_ips.pop();
        after.families = vec!["IPv4".into()];
        after.policy = Some(SINGLE.into());
        after.ports[0].node_port = 0;
        after.ports[1].node_port = 30001;
        after.write(&before, map);
        assert_eq!(Spec::read(map), after);
        let expected = service(
            r#"{"type":"NodePort","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","ports":[{"port":1},{"port":2,"nodePort":30001}]}"#,
        );
        assert_eq!(object, expected);
    }

    #[test]
    fn stored_services_without_families_get_them() {
        for (spec, families, policy) in [
            (r#"{"type":"ClusterIP","clusterIP":"fd00::1"}"#, &["IPv6"][..], Some(SINGLE)),
            (
                r#"{"type":"ClusterIP","clusterIP":"None","clusterIPs":["None"]}"#,
                &["IPv6", "IPv4"],
                Some(REQUIRE_DUAL),
            ),
            (
                r#"{"type":"ClusterIP","clusterIP":"None","clusterIPs":["None"],"selector":{"a":"b"}}"#,
                &["IPv6"],
                Some(SINGLE),
            ),
            (r#"{"type":"ExternalName","externalName":"x"}"#, &[], None),
        ] {
            let read = Spec::read_stored(service(spec).as_map().unwrap(), Family::V6);
            assert_eq!(
                (read.families.iter().map(String::as_str).collect::<Vec<_>>(), read.policy.as_deref()),
                (families.to_vec(), policy),
                "{spec}"
            );
        }
    }
}
