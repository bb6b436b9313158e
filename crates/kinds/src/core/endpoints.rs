//! `endpoints`.

use crate::defaults::{each, fill_text};
use crate::{About, Cell, Column, Kind, Rules, Strategy, Version, addresses, checks, columns};
use object::Map;
use object::field::{Error, List, Path};
use object::name::{address, dns1123_label, dns1123_subdomain, invalid, qualified_name};
use schema::view::{Items, View};
use schema::views::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints};
use std::collections::HashSet;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "endpoints",
    singular: "endpoints",
    kind: "Endpoints",
    versions: &[Version::V1.introduced(0).deprecated(33).replaced_by("discovery.k8s.io/v1", "EndpointSlice")],
    short_names: &["ep"],
    columns: columns!(|object| [
        Column::NAME => Cell::name(object),
        Column::text("Endpoints", About::Field("core.v1.Endpoints", "subsets"))
            => Cell::Text(addresses(object)),
        Column::AGE => Cell::age(object),
    ]),
    key_prefix: Some("services/endpoints"),
    strategy: &EndpointsStrategy,
    ..Kind::PLAIN
};

/// The number of addresses that a cell shows; of the remaining ones it shows the count.
const SHOWN: usize = 3;

fn addresses(object: &Map) -> String {
    let subsets = Endpoints::of(object).subsets();
    if subsets.is_empty() {
        return "<none>".into();
    }
    let (mut shown, mut count) = (Vec::with_capacity(SHOWN), 0usize);
    for subset in subsets.iter() {
        let addresses = subset.addresses();
        let mut add = |text: &dyn Fn(&str) -> String| {
            count = count.saturating_add(addresses.len());
            let room = SHOWN - shown.len();
            shown.extend(addresses.iter().take(room).map(|address| text(address.ip())));
        };
        if subset.ports().is_empty() {
            add(&str::to_owned);
        }
        for port in subset.ports().iter() {
            add(&|ip| host_and_port(ip, port.port()));
        }
    }
    let text = shown.join(",");
    if count > SHOWN { format!("{text} + {} more...", count - SHOWN) } else { text }
}

fn host_and_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

struct EndpointsStrategy;

impl Strategy for EndpointsStrategy {
    fn default(&self, object: &mut Map) {
        each(object, "subsets", |subset| each(subset, "ports", |port| fill_text(port, "protocol", "TCP")));
    }

    /// Subsets that are as they were are not checked again: the rules may be newer than they are.
    fn validate_object(&self, object: &Map, old: Option<&Map>, _rules: &Rules<'_>) -> List {
        let is_checked = old.is_none_or(|old| object.get("subsets") != old.get("subsets"));
        if is_checked { validate(object) } else { List::new() }
    }

    /// The controller of endpoints writes addresses as they should be.
    fn warnings(&self, new: &Map, _old: Option<&Map>) -> Vec<String> {
        let endpoints = Endpoints::of(new);
        let labels = endpoints.metadata().labels();
        match labels.get("endpoints.kubernetes.io/managed-by") {
            Some("endpoint-controller") => Vec::new(),
            _ => {
                endpoints.subsets().iter().enumerate().flat_map(|(at, of)| subset_warnings(of, at)).collect()
            }
        }
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

fn validate(object: &Map) -> List {
    let path = Path::new("subsets");
    Endpoints::of(object).subsets().iter().enumerate().map(|(at, of)| subset(of, &path.index(at))).collect()
}

fn subset(subset: EndpointSubset<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if subset.addresses().is_empty() && subset.not_ready_addresses().is_empty() {
        errors.push(Error::required(path, "must specify `addresses` or `notReadyAddresses`"));
    }
    for (key, addresses) in by_readiness(subset) {
        let path = path.child(key);
        for (at, of) in addresses.iter().enumerate() {
            errors.append(address(of, &path.index(at)));
        }
    }
    let path = path.child("ports");
    let ports = subset.ports();
    for (at, of) in ports.iter().enumerate() {
        errors.append(port(of, ports.len(), &path.index(at)));
    }
    errors
}

fn by_readiness(subset: EndpointSubset<'_>) -> [(&'static str, Items<'_, EndpointAddress<'_>>); 2] {
    [("addresses", subset.addresses()), ("notReadyAddresses", subset.not_ready_addresses())]
}

fn address(address: EndpointAddress<'_>, path: &Path<'_>) -> List {
    let ip = path.child("ip");
    let mut errors = addresses::ip(address.ip(), &HashSet::new(), &ip);
    let hostname = address.hostname();
    if !hostname.is_empty() {
        errors.append(invalid(&path.child("hostname"), hostname, dns1123_label(hostname)));
    }
    if let Some(node) = address.node_name() {
        errors.append(invalid(&path.child("nodeName"), node, dns1123_subdomain(node)));
    }
    errors.append(addresses::endpoint_ip(address.ip(), &ip));
    errors
}

fn port(port: EndpointPort<'_>, among: usize, path: &Path<'_>) -> List {
    let mut errors = checks::port_label(port.name(), among, &path.child("name"));
    errors.append(checks::port_number(port.port(), &path.child("port")));
    errors.extend(checks::protocol(port.protocol(), &path.child("protocol")));
    if let Some(protocol) = port.app_protocol() {
        errors.append(invalid(&path.child("appProtocol"), protocol, qualified_name(protocol)));
    }
    errors
}

fn subset_warnings(subset: EndpointSubset<'_>, at: usize) -> Vec<String> {
    let path = Path::new("subsets");
    let path = path.index(at);
    let mut warnings = Vec::new();
    for (key, addresses) in by_readiness(subset) {
        let path = path.child(key);
        for (at, of) in addresses.iter().enumerate() {
            warnings.extend(address::ip_warnings(&path.index(at).child("ip"), of.ip()));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update, warnings};

    fn endpoints(subsets: &str) -> String {
        format!(r#"{{"apiVersion":"v1","kind":"Endpoints","subsets":[{subsets}]}}"#)
    }

    #[test]
    fn addresses_can_be_reached_from_other_nodes() {
        let subset = r#"{"notReadyAddresses":[{"ip":""},{"ip":"127.0.0.1"},{"ip":"169.254.1.1"},{"ip":"0.0.0.0"},{"ip":"224.0.0.5"},
            {"ip":"ff12::1"},{"ip":"239.0.0.1","nodeName":"node.a","hostname":"h"}]},{}"#;
        let at = |index: usize, why: &str| {
            format!("subsets[0].notReadyAddresses[{index}].ip: Invalid value: {why}")
        };
        let multicast = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        assert_eq!(
            create(&endpoints(subset)),
            [
                at(0, r#""": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#),
                at(0, r#""": must be a valid IP address"#),
                at(1, r#""127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)"#),
                at(2, r#""169.254.1.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)"#),
                at(3, r#""0.0.0.0": may not be unspecified (0.0.0.0)"#),
                at(4, &format!(r#""224.0.0.5": {multicast}"#)),
                at(5, &format!(r#""ff12::1": {multicast}"#)),
                "subsets[1]: Required value: must specify `addresses` or `notReadyAddresses`".to_owned(),
            ]
        );
    }

    #[test]
    fn names_and_ports_are_checked() {
        let subset = r#"{"addresses":[{"ip":"1.2.3.4","hostname":"UP","nodeName":"B_"}],
            "ports":[{"port":0},{"port":1,"name":"a","protocol":"X","appProtocol":"a b"}]}"#;
        let errors = create(&endpoints(subset));
        let starts = [
            r#"subsets[0].addresses[0].hostname: Invalid value: "UP": a lowercase RFC 1123 label must"#,
            r#"subsets[0].addresses[0].nodeName: Invalid value: "B_": a lowercase RFC 1123 subdomain must"#,
            "subsets[0].ports[0].name: Required value",
            "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            r#"subsets[0].ports[1].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP""#,
            r#"subsets[0].ports[1].appProtocol: Invalid value: "a b": name part must"#,
        ];
        assert_eq!(errors.len(), starts.len(), "{errors:?}");
        assert!(errors.iter().zip(starts).all(|(error, start)| error.starts_with(start)), "{errors:?}");
    }

    #[test]
    fn subsets_from_before_the_rules_stay() {
        let (odd, other) = (endpoints(r#"{"addresses":[{"ip":"x"}]}"#), endpoints("{}"));
        assert!(update(&odd, &odd).is_empty());
        assert_eq!(update(&odd, &other).len(), 2);
    }

    #[test]
    fn odd_addresses_give_warnings_unless_the_controller_wrote_them() {
        let subsets = r#""subsets":[{"addresses":[{"ip":"010.1.2.3"}]}]"#;
        let with = |labels: &str| {
            let metadata = format!(r#""metadata":{{"labels":{{{labels}}}}}"#);
            warnings(&format!(r#"{{"apiVersion":"v1","kind":"Endpoints",{metadata},{subsets}}}"#), None)
        };
        let future = "will be considered invalid in a future Kubernetes release";
        assert_eq!(
            with(""),
            [format!(
                r#"subsets[0].addresses[0].ip: non-standard IP address "010.1.2.3" {future}: use "10.1.2.3""#
            )]
        );
        assert!(with(r#""endpoints.kubernetes.io/managed-by":"endpoint-controller""#).is_empty());
    }
}
