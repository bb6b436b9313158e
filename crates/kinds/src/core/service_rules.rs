//! The rules for services.

use super::service::is_reachable_from_outside;
use super::service_addresses::{self, is_headless};
use super::service_update::takes_health_check_port;
use crate::{Gates, addresses, checks, object_meta};
use object::field::{BadValue, Error, List, Path};
use object::int_or_string::IntOrString;
use object::name::{address, dns1123_subdomain, invalid, qualified_name};
use object::quote::Quoted;
use schema::view::View;
use schema::views::core::v1::{Service, ServicePort, ServiceSpec, SessionAffinityConfig};
use std::collections::HashSet;

const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
/// A day.
const LONGEST_AFFINITY_SECONDS: i64 = 86400;
const FOR_LOAD_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

/// The field errors of a service, without those of its metadata. Addresses of the old service may stay as
/// they are.
pub(super) fn validate(service: Service<'_>, old: Option<Service<'_>>, gates: Gates) -> List {
    let spec = service.spec();
    let path = Path::new("spec");
    let mut errors = List::new();
    errors.extend(topology(service));
    errors.append(of_type(spec, &path));
    errors.append(ports(spec, &path.child("ports")));
    errors.append(object_meta::label_entries(spec.selector().iter(), &path.child("selector")));
    errors.append(affinity(spec, &path));
    errors.append(service_addresses::validate(service.map(), old.map(|old| old.map())));
    errors.append(external_ips(spec, old, &path.child("externalIPs")));
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    errors.extend(checks::required_one_of(spec.r#type(), &types, &path.child("type")));
    errors.append(node_ports(spec, &path.child("ports")));
    errors.append(distinct_ports(spec, &path.child("ports")));
    errors.append(source_ranges(service, old, &path));
    let allocates = spec.allocate_load_balancer_node_ports().is_some();
    match spec.r#type() == "LoadBalancer" {
        true if !allocates => {
            errors.push(Error::required(&Path::new("allocateLoadBalancerNodePorts"), ""));
        }
        false if allocates => {
            errors.push(Error::forbidden(&path.child("allocateLoadBalancerNodePorts"), FOR_LOAD_BALANCERS));
        }
        _ => {}
    }
    errors.append(class(spec, &path.child("loadBalancerClass")));
    errors.append(traffic(spec, gates, &path));
    errors
}

/// The field errors of a change of a service, without those of its metadata and of its new state.
pub(super) fn validate_change(new: Service<'_>, old: Service<'_>) -> List {
    let (new, old) = (new.spec(), old.spec());
    let path = Path::new("spec");
    let mut errors = service_addresses::validate_update(new, old);
    let class_path = path.child("loadBalancerClass");
    let balanced = |spec: ServiceSpec<'_>| spec.r#type() == "LoadBalancer";
    if balanced(old) && balanced(new) && old.load_balancer_class() != new.load_balancer_class() {
        let shown = new.load_balancer_class().map_or(BadValue::Null, BadValue::from);
        errors.push(Error::invalid(&class_path, shown, "may not change once set"));
    }
    errors.append(class(new, &class_path));
    if [old, new].into_iter().all(takes_health_check_port)
        && old.health_check_node_port() != new.health_check_node_port()
    {
        errors.push(Error::forbidden(&path.child("healthCheckNodePort"), "field is immutable"));
    }
    errors
}

/// The older annotation for topology and the newer one agree.
fn topology(service: Service<'_>) -> Option<Error> {
    let annotations = service.metadata().annotations();
    let mode = annotations.get(TOPOLOGY_MODE)?;
    if annotations.get(TOPOLOGY_HINTS)? == mode {
        return None;
    }
    let path = Path::new("metadata");
    let path = path.child("annotations");
    let why = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
    Some(Error::invalid(&path.key(TOPOLOGY_MODE), mode, why))
}

/// What each type needs and does not take.
fn of_type(spec: ServiceSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let headless = is_headless(spec);
    if spec.ports().is_empty() && !headless && spec.r#type() != "ExternalName" {
        errors.push(Error::required(&path.child("ports"), ""));
    }
    let ips = path.child("clusterIPs");
    match spec.r#type() {
        "LoadBalancer" if headless => {
            let why = "may not be set to 'None' for LoadBalancer services";
            errors.push(Error::invalid(&ips.index(0), "None", why));
        }
        "NodePort" if headless => {
            let why = "may not be set to 'None' for NodePort services";
            errors.push(Error::invalid(&ips.index(0), "None", why));
        }
        "ExternalName" => {
            for (key, is_set) in [
                ("clusterIPs", !spec.cluster_ips().is_empty()),
                ("ipFamilies", !spec.ip_families().is_empty()),
                ("ipFamilyPolicy", spec.ip_family_policy().is_some()),
            ] {
                if is_set {
                    let why = "may not be set for ExternalName services";
                    errors.push(Error::forbidden(&path.child(key), why));
                }
            }
            let path = path.child("externalName");
            let name = spec.external_name();
            match name.strip_suffix('.').unwrap_or(name) {
                "" => errors.push(Error::required(&path, "")),
                name => errors.append(invalid(&path, name, dns1123_subdomain(name))),
            }
        }
        _ => {}
    }
    errors
}

fn ports(spec: ServiceSpec<'_>, path: &Path<'_>) -> List {
    let ports = spec.ports();
    let mut errors = List::new();
    let mut names = HashSet::new();
    for (at, port) in ports.iter().enumerate() {
        let path = path.index(at);
        let name_path = path.child("name");
        errors.append(checks::port_label(port.name(), ports.len(), &name_path));
        if !port.name().is_empty() && !names.insert(port.name()) {
            errors.push(Error::duplicate(&name_path, port.name()));
        }
        errors.append(checks::port_number(port.port(), &path.child("port")));
        errors.extend(checks::protocol(port.protocol(), &path.child("protocol")));
        errors.append(checks::port_number_or_name(port.target_port(), &path.child("targetPort")));
        if let Some(protocol) = port.app_protocol() {
            errors.append(invalid(&path.child("appProtocol"), protocol, qualified_name(protocol)));
        }
    }
    errors
}

fn affinity(spec: ServiceSpec<'_>, path: &Path<'_>) -> List {
    let affinity = spec.session_affinity();
    let mut errors = List::new();
    errors.extend(checks::required_one_of(affinity, &["ClientIP", "None"], &path.child("sessionAffinity")));
    let path = path.child("sessionAffinityConfig");
    match (affinity, spec.session_affinity_config()) {
        ("ClientIP", config) => errors.extend(client_ip(config, &path)),
        ("None", Some(_)) => {
            errors.push(Error::forbidden(&path, "must not be set when session affinity is None"));
        }
        _ => {}
    }
    errors
}

fn client_ip(config: Option<SessionAffinityConfig<'_>>, path: &Path<'_>) -> Option<Error> {
    let why = "when session affinity type is ClientIP";
    let Some(config) = config else { return Some(Error::required(path, why)) };
    let path = path.child("clientIP");
    let Some(config) = config.client_ip() else { return Some(Error::required(&path, why)) };
    let path = path.child("timeoutSeconds");
    let Some(seconds) = config.timeout_seconds() else { return Some(Error::required(&path, why)) };
    (!(1..=LONGEST_AFFINITY_SECONDS).contains(&seconds)).then(|| {
        let why = format!("must be greater than 0 and less than {LONGEST_AFFINITY_SECONDS}");
        Error::invalid(&path, seconds, why)
    })
}

fn external_ips(spec: ServiceSpec<'_>, old: Option<Service<'_>>, path: &Path<'_>) -> List {
    let before = old.into_iter().flat_map(|old| old.spec().external_ips().iter()).collect();
    let mut errors = List::new();
    for (at, ip) in spec.external_ips().iter().enumerate() {
        let path = path.index(at);
        match addresses::ip(ip, &before, &path) {
            wrong if !wrong.is_empty() => errors.append(wrong),
            _ => errors.append(addresses::endpoint_ip(ip, &path)),
        }
    }
    errors
}

/// A node port is not for a service of type `ClusterIP`, and only one port of a protocol has it.
fn node_ports(spec: ServiceSpec<'_>, path: &Path<'_>) -> List {
    let ports = || spec.ports().iter().enumerate().filter(|(_, port)| port.node_port() != 0);
    let mut errors = List::new();
    if spec.r#type() == "ClusterIP" {
        for (at, _) in ports() {
            let why = "may not be used when `type` is 'ClusterIP'";
            errors.push(Error::forbidden(&path.index(at).child("nodePort"), why));
        }
    }
    let mut seen = HashSet::new();
    for (at, port) in ports() {
        if !seen.insert((port.protocol(), port.node_port())) {
            errors.push(Error::duplicate(&path.index(at).child("nodePort"), port.node_port()));
        }
    }
    errors
}

fn distinct_ports(spec: ServiceSpec<'_>, path: &Path<'_>) -> List {
    let mut seen = HashSet::new();
    let mut errors = List::new();
    for (at, port) in spec.ports().iter().enumerate() {
        if !seen.insert((port.protocol(), port.port())) {
            errors.push_with(|| Error::duplicate(&path.index(at), shown_port(port)));
        }
    }
    errors
}

/// The protocol and the number of a port, as the reference shows them.
fn shown_port(port: ServicePort<'_>) -> BadValue {
    BadValue::Raw(format!(
        "core.ServicePort{{Name:\"\", Protocol:{}, AppProtocol:(*string)(nil), Port:{}, TargetPort:{}, NodePort:0}}",
        Quoted(port.protocol()),
        port.port(),
        BadValue::from(&IntOrString::Int(0))
    ))
}

/// The networks that a load balancer serves: in the field, or in the annotation from before there was the
/// field.
fn source_ranges(service: Service<'_>, old: Option<Service<'_>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let balanced = service.spec().r#type() == "LoadBalancer";
    let ranges = service.spec().load_balancer_source_ranges();
    if !ranges.is_empty() {
        let path = path.child("LoadBalancerSourceRanges");
        if !balanced {
            errors.push(Error::forbidden(&path, FOR_LOAD_BALANCERS));
        }
        let before = old.into_iter().flat_map(|old| old.spec().load_balancer_source_ranges().iter());
        let before = before.map(str::trim).collect();
        for (at, range) in ranges.iter().enumerate() {
            errors.append(addresses::cidr(range.trim(), &before, &path.index(at)));
        }
        return errors;
    }
    let Some(ranges) = annotated_ranges(service) else { return errors };
    let path = Path::new("metadata");
    let path = path.child("annotations");
    let path = path.key(SOURCE_RANGES);
    if !balanced {
        errors.push(Error::forbidden(&path, FOR_LOAD_BALANCERS));
    }
    let is_new = old.is_none_or(|old| annotated_ranges(old).unwrap_or_default() != ranges);
    if is_new && !ranges.trim().is_empty() {
        for range in ranges.split(',') {
            errors.append(addresses::cidr(range.trim(), &HashSet::new(), &path));
        }
    }
    errors
}

fn annotated_ranges(service: Service<'_>) -> Option<&str> {
    service.metadata().annotations().get(SOURCE_RANGES)
}

fn class(spec: ServiceSpec<'_>, path: &Path<'_>) -> List {
    match spec.load_balancer_class() {
        None => List::new(),
        Some(class) if spec.r#type() == "LoadBalancer" => invalid(path, class, qualified_name(class)),
        Some(_) => Error::forbidden(path, FOR_LOAD_BALANCERS).into(),
    }
}

/// Where traffic from outside and from inside may go.
fn traffic(spec: ServiceSpec<'_>, gates: Gates, path: &Path<'_>) -> List {
    const POLICIES: [&str; 2] = ["Cluster", "Local"];
    let mut errors = List::new();
    let external = spec.external_traffic_policy();
    let policy = path.child("externalTrafficPolicy");
    if is_reachable_from_outside(spec) {
        errors.extend(checks::required_one_of(external, &POLICIES, &policy));
    } else if !external.is_empty() {
        let why = "may only be set for externally-accessible services";
        errors.push(Error::invalid(&policy, external, why));
    }
    let health_check = spec.health_check_node_port();
    let port = path.child("healthCheckNodePort");
    match (takes_health_check_port(spec), health_check) {
        (true, 0) => errors.push(Error::required(&port, "")),
        (true, number) => errors.append(checks::port_number(number, &port)),
        (false, 0) => {}
        (false, number) => {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.push(Error::invalid(&port, number, why));
        }
    }
    let internal = path.child("internalTrafficPolicy");
    match spec.internal_traffic_policy() {
        Some(policy) => errors.extend(checks::one_of(policy, &POLICIES, &internal)),
        None if matches!(spec.r#type(), "NodePort" | "LoadBalancer" | "ClusterIP") => {
            errors.push(Error::required(&internal, ""));
        }
        None => {}
    }
    if let Some(distribution) = spec.traffic_distribution() {
        let path = path.child("trafficDistribution");
        let known: &[_] = match gates.prefer_same_traffic_distribution {
            true => &["PreferClose", "PreferSameZone", "PreferSameNode"],
            false => &["PreferClose"],
        };
        errors.extend(checks::one_of(distribution, known, &path));
    }
    errors
}

/// The warnings for a service.
pub(super) fn warnings(service: Service<'_>) -> Vec<String> {
    let spec = service.spec();
    let path = Path::new("spec");
    let mut warnings = Vec::new();
    if service.metadata().annotations().get(TOPOLOGY_HINTS).is_some() {
        warnings
            .push(format!("annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"));
    }
    if !matches!(spec.cluster_ip(), "" | "None") {
        let path = path.child("clusterIPs");
        for (at, ip) in spec.cluster_ips().iter().enumerate() {
            warnings.extend(address::ip_warnings(&path.index(at), ip));
        }
    }
    let external = path.child("externalIPs");
    for (at, ip) in spec.external_ips().iter().enumerate() {
        warnings.extend(address::ip_warnings(&external.index(at), ip));
    }
    warnings.extend(address::ip_warnings(&path.child("loadBalancerIP"), spec.load_balancer_ip()));
    let ranges = path.child("loadBalancerSourceRanges");
    for (at, range) in spec.load_balancer_source_ranges().iter().enumerate() {
        warnings.extend(address::cidr_warnings(&ranges.index(at), range));
    }
    match spec.r#type() == "ExternalName" {
        true if !spec.external_ips().is_empty() => {
            warnings.push(r#"spec.externalIPs is ignored when spec.type is "ExternalName""#.into());
        }
        false if !spec.external_name().is_empty() => {
            warnings.push(r#"spec.externalName is ignored when spec.type is not "ExternalName""#.into());
        }
        _ => {}
    }
    warnings
}
