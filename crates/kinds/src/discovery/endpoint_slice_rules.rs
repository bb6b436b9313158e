//! The rules for endpoint slices.

use crate::{addresses, checks, object_meta};
use object::field::{Error, List, Path};
use object::name::domain::fully_qualified_domain_name;
use object::name::{
    Messages, address, dns1123_label, dns1123_subdomain, invalid, label_value, qualified_name,
};
use schema::view::{Items, View};
use schema::views::discovery::v1::{Endpoint, EndpointHints, EndpointPort, EndpointSlice};
use std::collections::HashSet;
use std::net::IpAddr;

const MOST_ENDPOINTS: usize = 1000;
const MOST_PORTS: usize = 20_000;
const MOST_ADDRESSES: usize = 100;
const MOST_TOPOLOGY_LABELS: usize = 16;
const MOST_HINTS: usize = 8;
const ZONE: &str = "topology.kubernetes.io/zone";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// The field errors of a slice, without those of its metadata. The type of addresses stays. Endpoints that
/// are as they were are not checked again: the rules may be newer than they are.
pub(super) fn validate(slice: EndpointSlice<'_>, old: Option<EndpointSlice<'_>>) -> List {
    let mut errors = List::new();
    let path = Path::new("addressType");
    errors.extend(checks::required_one_of(slice.address_type(), &["FQDN", "IPv4", "IPv6"], &path));
    errors.append(ports(slice.ports(), &Path::new("ports")));
    if old.is_none_or(|old| old.map().get("endpoints") != slice.map().get("endpoints")) {
        errors.append(endpoints(slice, &Path::new("endpoints")));
    }
    if old.is_some_and(|old| old.address_type() != slice.address_type()) {
        errors.push(Error::invalid(&path, slice.address_type(), "field is immutable"));
    }
    errors
}

fn too_many(count: usize, most: usize, path: &Path<'_>) -> Option<Error> {
    (count > most).then(|| Error::too_many(path, Some(count), Some(most)))
}

fn ports(ports: Items<'_, EndpointPort<'_>>, path: &Path<'_>) -> List {
    if let Some(error) = too_many(ports.len(), MOST_PORTS, path) {
        return error.into();
    }
    let mut errors = List::new();
    let mut names = HashSet::new();
    for (at, port) in ports.iter().enumerate() {
        let path = path.index(at);
        let name_path = path.child("name");
        let name = port.name().unwrap_or_default();
        errors.append(checks::port_label(name, 1, &name_path));
        if !names.insert(name) {
            errors.push(Error::duplicate(&name_path, name));
        }
        let protocol_path = path.child("protocol");
        errors.extend(match port.protocol() {
            None => Some(Error::required(&protocol_path, "")),
            Some(protocol) => checks::one_of(protocol, &checks::PROTOCOLS, &protocol_path),
        });
        if let Some(protocol) = port.app_protocol() {
            errors.append(invalid(&path.child("appProtocol"), protocol, qualified_name(protocol)));
        }
    }
    errors
}

fn endpoints(slice: EndpointSlice<'_>, path: &Path<'_>) -> List {
    let endpoints = slice.endpoints();
    match too_many(endpoints.len(), MOST_ENDPOINTS, path) {
        Some(error) => error.into(),
        None => {
            let rules = |(at, of)| endpoint(of, slice.address_type(), &path.index(at));
            endpoints.iter().enumerate().map(rules).collect()
        }
    }
}

fn endpoint(endpoint: Endpoint<'_>, address_type: &str, path: &Path<'_>) -> List {
    let addresses = endpoint.addresses();
    let mut errors = List::new();
    let address_path = path.child("addresses");
    if addresses.is_empty() {
        errors.push(Error::required(&address_path, "must contain at least 1 address"));
    }
    errors.extend(too_many(addresses.len(), MOST_ADDRESSES, &address_path));
    for (at, text) in addresses.iter().enumerate() {
        errors.append(endpoint_address(text, address_type, &address_path, at));
    }
    if let Some(node) = endpoint.node_name() {
        errors.append(invalid(&path.child("nodeName"), node, dns1123_subdomain(node)));
    }
    errors.append(topology(endpoint, &path.child("deprecatedTopology")));
    if let Some(hostname) = endpoint.hostname() {
        errors.append(invalid(&path.child("hostname"), hostname, dns1123_label(hostname)));
    }
    if let Some(of) = endpoint.hints() {
        errors.append(hints(of, &path.child("hints")));
    }
    errors
}

/// An address of the type that the slice has. A type that does not exist has no rule.
fn endpoint_address(text: &str, address_type: &str, path: &Path<'_>, at: usize) -> List {
    let place = path.index(at);
    let (errors, is_of_type, why): (List, fn(&IpAddr) -> bool, _) = match address_type {
        "FQDN" => return fully_qualified_domain_name(&place, text),
        "IPv4" => (addresses::ip(text, &HashSet::new(), &place), IpAddr::is_ipv4, "must be an IPv4 address"),
        "IPv6" => (address::ip(&place, text), IpAddr::is_ipv6, "must be an IPv6 address"),
        _ => return List::new(),
    };
    if !errors.is_empty() {
        return errors;
    }
    let mut errors = List::new();
    if !address::parse_lenient(text).is_some_and(|ip| is_of_type(&ip)) {
        errors.push(Error::invalid(path, text, why));
    }
    errors.append(addresses::endpoint_ip(text, &place));
    errors
}

/// What was the topology before there were fields for it: labels, but not of the zone.
fn topology(endpoint: Endpoint<'_>, path: &Path<'_>) -> List {
    let labels = endpoint.deprecated_topology();
    let mut errors = List::new();
    errors.extend(too_many(labels.len(), MOST_TOPOLOGY_LABELS, path));
    errors.append(object_meta::label_entries(labels.iter(), path));
    if labels.get(ZONE).is_some() {
        errors.push(Error::internal(&path.key(ZONE), "reserved key was not removed in conversion"));
    }
    errors
}

/// The zones and nodes that an endpoint should serve. After too many of one kind nothing more is checked.
fn hints(hints: EndpointHints<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let zones = path.child("forZones");
    if let Some(error) = too_many(hints.for_zones().len(), MOST_HINTS, &zones) {
        return error.into();
    }
    errors.append(hinted(hints.for_zones().iter().map(|zone| zone.name()), label_value, &zones));
    let nodes = path.child("forNodes");
    match too_many(hints.for_nodes().len(), MOST_HINTS, &nodes) {
        Some(error) => errors.push(error),
        None => {
            let names = hints.for_nodes().iter().map(|node| node.name());
            errors.append(hinted(names, dns1123_subdomain, &nodes));
        }
    }
    errors
}

fn hinted<'a>(names: impl Iterator<Item = &'a str>, rule: fn(&str) -> Messages, path: &Path<'_>) -> List {
    let mut seen = HashSet::new();
    let mut errors = List::new();
    for (at, name) in names.enumerate() {
        let path = path.index(at);
        let path = path.child("name");
        if !seen.insert(name) {
            errors.push(Error::duplicate(&path, name));
        }
        errors.append(invalid(&path, name, rule(name)));
    }
    errors
}

/// The warnings for a slice. The controllers of slices write addresses as they should be.
pub(super) fn warnings(slice: EndpointSlice<'_>, old: Option<EndpointSlice<'_>>) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none() && slice.address_type() == "FQDN" {
        warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    if let Some("endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io") =
        slice.metadata().labels().get(MANAGED_BY)
    {
        return warnings;
    }
    let path = Path::new("endpoints");
    for (at, endpoint) in slice.endpoints().iter().enumerate() {
        let path = path.index(at);
        let path = path.child("addresses");
        for (at, ip) in endpoint.addresses().iter().enumerate() {
            warnings.extend(address::ip_warnings(&path.index(at), ip));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gates;
    use crate::testing::{create, created_with, update, warnings};

    fn slice(fields: &str) -> String {
        format!(r#"{{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice",{fields}}}"#)
    }

    fn of_type(address_type: &str, addresses: &str) -> String {
        slice(&format!(r#""addressType":"{address_type}","endpoints":[{{"addresses":[{addresses}]}}]"#))
    }

    const VALID: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

    #[test]
    fn addresses_are_of_the_type_of_the_slice() {
        let cases: [(&str, &str, &[&str]); 7] = [
            (
                "IPX",
                r#""x""#,
                &[r#"addressType: Unsupported value: "IPX": supported values: "FQDN", "IPv4", "IPv6""#],
            ),
            (
                "",
                "",
                &[
                    "addressType: Required value",
                    "endpoints[0].addresses: Required value: must contain at least 1 address",
                ],
            ),
            ("IPv4", r#""x""#, &[&format!(r#"endpoints[0].addresses[0]: Invalid value: "x": {VALID}"#)]),
            (
                "IPv4",
                r#""010.0.0.1","::1""#,
                &[
                    r#"endpoints[0].addresses: Invalid value: "::1": must be an IPv4 address"#,
                    r#"endpoints[0].addresses[1]: Invalid value: "::1": may not be in the loopback range (127.0.0.0/8, ::1/128)"#,
                ],
            ),
            (
                "IPv6",
                r#""10.0.0.1","2001:DB8::1""#,
                &[
                    r#"endpoints[0].addresses: Invalid value: "10.0.0.1": must be an IPv6 address"#,
                    r#"endpoints[0].addresses[1]: Invalid value: "2001:DB8::1": must be in canonical form ("2001:db8::1")"#,
                ],
            ),
            (
                "FQDN",
                r#""a.example","nodots""#,
                &[
                    r#"endpoints[0].addresses[1]: Invalid value: "nodots": should be a domain with at least two segments separated by dots"#,
                ],
            ),
            ("FQDN", r#""a.example""#, &[]),
        ];
        for (address_type, addresses, expected) in cases {
            assert_eq!(create(&of_type(address_type, addresses)), expected, "{address_type} {addresses}");
        }
    }

    #[test]
    fn ports_have_distinct_names() {
        let ports = r#"{"port":1},{"name":"","protocol":"tcp"},{"name":"a","appProtocol":"b d"}"#;
        let errors = create(&slice(&format!(r#""addressType":"IPv4","ports":[{ports}]"#)));
        assert_eq!(errors.len(), 3, "{errors:?}");
        assert_eq!(errors[0], r#"ports[1].name: Duplicate value: """#);
        assert_eq!(
            errors[1],
            r#"ports[1].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP""#
        );
        assert!(errors[2].starts_with(r#"ports[2].appProtocol: Invalid value: "b d": name part must"#));
    }

    #[test]
    fn lists_are_bounded() {
        let many = |of: &str, count: usize| vec![of; count].join(",");
        let with = |fields: &str| create(&slice(&format!(r#""addressType":"IPv4",{fields}"#)));
        let hints = |zones: usize| {
            let zones = many(r#"{"name":"x y"}"#, zones);
            with(&format!(r#""endpoints":[{{"addresses":["1.2.3.4"],"hints":{{"forZones":[{zones}]}}}}]"#))
        };
        assert_eq!(hints(9), ["endpoints[0].hints.forZones: Too many: 9: must have at most 8 items"]);
        let two = hints(2);
        assert_eq!(two.len(), 3, "{two:?}");
        assert_eq!(two[1], r#"endpoints[0].hints.forZones[1].name: Duplicate value: "x y""#);
        assert_eq!(
            with(&format!(r#""endpoints":[{}]"#, many("{}", 1001))),
            ["endpoints: Too many: 1001: must have at most 1000 items"]
        );
        assert_eq!(
            create(&of_type("IPv4", &many(r#""1.2.3.4""#, 101))),
            ["endpoints[0].addresses: Too many: 101: must have at most 100 items"]
        );
    }

    #[test]
    fn hints_for_nodes_stay_only_with_the_gate() {
        let slice = r#"{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","addressType":"IPv4","endpoints":[
            {"addresses":["1.2.3.4"],"hints":{"forZones":[{"name":"z"}],"forNodes":[{"name":"n"}]}}]}"#;
        let nodes = |gates: Gates| {
            let created = created_with(gates, slice).unwrap();
            let hints = EndpointSlice::of(&created).endpoints().iter().find_map(|endpoint| endpoint.hints());
            hints.unwrap().for_nodes().len()
        };
        assert_eq!(nodes(Gates::DEFAULT), 0);
        assert_eq!(nodes(Gates { prefer_same_traffic_distribution: true, ..Gates::DEFAULT }), 1);
    }

    #[test]
    fn the_type_stays_and_endpoints_from_before_the_rules_stay() {
        let odd = of_type("IPv4", r#""x""#);
        assert!(update(&odd, &odd).is_empty());
        assert_eq!(
            update(&of_type("FQDN", r#""a.b""#), &odd),
            [r#"addressType: Invalid value: "FQDN": field is immutable"#]
        );
    }

    #[test]
    fn odd_addresses_and_new_slices_of_names_give_warnings() {
        let names = of_type("FQDN", r#""a.b""#);
        assert_eq!(warnings(&names, None), ["spec.addressType: FQDN endpoints are deprecated"]);
        assert!(warnings(&names, Some(&names)).is_empty());
        let odd = of_type("IPv4", r#""010.9.0.1""#);
        let future = "will be considered invalid in a future Kubernetes release";
        assert_eq!(
            warnings(&odd, Some(&odd)),
            [format!(
                r#"endpoints[0].addresses[0]: non-standard IP address "010.9.0.1" {future}: use "10.9.0.1""#
            )]
        );
    }
}
