//! The rules for network policies.

use crate::label_selector::{self, Values};
use crate::{addresses, checks};
use object::Value;
use object::field::{Error, List, Path};
use object::name::address::{self, parse_cidr_lenient};
use object::name::{invalid, port_name};
use schema::view::Items;
use schema::views::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use std::collections::HashSet;

/// What an old policy has and a new one may not have.
#[derive(Clone, Copy)]
struct Kept<'a> {
    values: Values,
    networks: &'a HashSet<&'a str>,
}

/// The field errors of a new policy, without those of its metadata.
pub(super) fn validate(policy: NetworkPolicy<'_>) -> List {
    spec(policy.spec(), Kept { values: Values::Checked, networks: &HashSet::new() })
}

/// The field errors of a changed policy, without those of its metadata. `networks` may stay as they are.
pub(super) fn validate_after(
    policy: NetworkPolicy<'_>,
    old: NetworkPolicy<'_>,
    networks: &HashSet<&str>,
) -> List {
    let path = Path::new("spec");
    let before = label_selector::validate(old.spec().pod_selector(), Values::Checked, &path);
    let values = if before.is_empty() { Values::Checked } else { Values::Unchecked };
    spec(policy.spec(), Kept { values, networks })
}

/// The rules of one direction: their ports and peers.
type Rule<'a> = (Items<'a, NetworkPolicyPort<'a>>, Items<'a, NetworkPolicyPeer<'a>>);

/// The names of the fields of a direction, and its rules.
struct Direction<'a> {
    rules: &'static str,
    peers: &'static str,
    all: Vec<Rule<'a>>,
}

fn directions(spec: NetworkPolicySpec<'_>) -> [Direction<'_>; 2] {
    let ingress = spec.ingress().iter().map(|rule| (rule.ports(), rule.from())).collect();
    let egress = spec.egress().iter().map(|rule| (rule.ports(), rule.to())).collect();
    [
        Direction { rules: "ingress", peers: "from", all: ingress },
        Direction { rules: "egress", peers: "to", all: egress },
    ]
}

/// All networks of a policy.
pub(super) fn networks(policy: NetworkPolicy<'_>) -> HashSet<&str> {
    let peers = directions(policy.spec()).into_iter().flat_map(|direction| direction.all);
    let blocks = peers.flat_map(|(_, peers)| peers.iter()).filter_map(|peer| peer.ip_block());
    blocks.flat_map(|block| std::iter::once(block.cidr()).chain(block.except().iter())).collect()
}

fn spec(spec: NetworkPolicySpec<'_>, kept: Kept<'_>) -> List {
    let path = Path::new("spec");
    let mut errors = label_selector::validate(spec.pod_selector(), kept.values, &path.child("podSelector"));
    for direction in directions(spec) {
        let path = path.child(direction.rules);
        for (at, (ports, peers)) in direction.all.into_iter().enumerate() {
            let path = path.index(at);
            let place = path.child("ports");
            for (at, of) in ports.iter().enumerate() {
                errors.append(port(of, &place.index(at)));
            }
            let place = path.child(direction.peers);
            for (at, of) in peers.iter().enumerate() {
                errors.append(peer(of, kept, &place.index(at)));
            }
        }
    }
    let types = spec.policy_types();
    let path = path.child("policyTypes");
    if types.len() > 2 {
        let shown = checks::shown_texts("networking.PolicyType", types);
        errors.push(Error::invalid(&path, shown, "may not specify more than two policyTypes"));
        return errors;
    }
    for (at, text) in types.iter().enumerate() {
        errors.extend(checks::one_of(text, &["Ingress", "Egress"], &path.index(at)));
    }
    errors
}

fn port(port: NetworkPolicyPort<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if let Some(protocol) = port.protocol() {
        errors.extend(checks::one_of(protocol, &["TCP", "UDP", "SCTP"], &path.child("protocol")));
    }
    let (start, end) = (path.child("port"), path.child("endPort"));
    let number = port.port().and_then(Value::as_i64);
    match (port.port().and_then(Value::as_str), number, port.end_port()) {
        (Some(name), _, last) => {
            if let Some(last) = last {
                errors.push(Error::invalid(&end, last, "may not be specified when `port` is non-numeric"));
            }
            errors.append(invalid(&start, name, port_name(name)));
        }
        (None, Some(first), last) => {
            errors.append(checks::port_number(first, &start));
            if let Some(last) = last {
                if last < first {
                    errors.push(Error::invalid(&end, first, "must be greater than or equal to `port`"));
                }
                errors.append(checks::port_number(last, &end));
            }
        }
        (None, None, Some(last)) => {
            errors.push(Error::invalid(&end, last, "may not be specified when `port` is not specified"));
        }
        (None, None, None) => {}
    }
    errors
}

fn peer(peer: NetworkPolicyPeer<'_>, kept: Kept<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let selectors = [("podSelector", peer.pod_selector()), ("namespaceSelector", peer.namespace_selector())];
    let mut selects = false;
    for (key, selector) in selectors {
        if let Some(selector) = selector {
            selects = true;
            errors.append(label_selector::validate(selector, kept.values, &path.child(key)));
        }
    }
    match peer.ip_block() {
        Some(block) => {
            errors.append(ip_block(block, kept, &path.child("ipBlock")));
            if selects {
                errors.push(Error::forbidden(path, "may not specify both ipBlock and another peer"));
            }
        }
        None if !selects => errors.push(Error::required(path, "must specify a peer")),
        None => {}
    }
    errors
}

/// A network, and smaller ones in it that it does without.
fn ip_block(block: IPBlock<'_>, kept: Kept<'_>, path: &Path<'_>) -> List {
    let cidr = path.child("cidr");
    if block.cidr().is_empty() {
        return Error::required(&cidr, "").into();
    }
    let mut errors = addresses::cidr(block.cidr(), kept.networks, &cidr);
    let Some(network) = parse_cidr_lenient(block.cidr()) else { return errors };
    let path = path.child("except");
    for (at, text) in block.except().iter().enumerate() {
        let path = path.index(at);
        errors.append(addresses::cidr(text, kept.networks, &path));
        if let Some(except) = parse_cidr_lenient(text)
            && !(network.contains(except.base()) && network.prefix() < except.prefix())
        {
            errors.push(Error::invalid(&path, text, "must be a strict subset of `cidr`"));
        }
    }
    errors
}

/// The warnings for a policy: networks that are not written as they should be.
pub(super) fn warnings(policy: NetworkPolicy<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let path = Path::new("spec");
    for direction in directions(policy.spec()) {
        let path = path.child(direction.rules);
        for (at, (_, peers)) in direction.all.into_iter().enumerate() {
            let path = path.index(at);
            let path = path.child(direction.peers);
            for (at, peer) in peers.iter().enumerate() {
                let Some(block) = peer.ip_block() else { continue };
                let path = path.index(at);
                let path = path.child("ipBlock");
                warnings.extend(address::cidr_warnings(&path.child("cidr"), block.cidr()));
                let path = path.child("except");
                for (at, text) in block.except().iter().enumerate() {
                    warnings.extend(address::cidr_warnings(&path.index(at), text));
                }
            }
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update, warnings};

    fn policy(spec: &str) -> String {
        format!(r#"{{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","spec":{{{spec}}}}}"#)
    }

    const CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

    #[test]
    fn ports_are_numbers_ranges_or_names() {
        let ports = r#"{"port":0},{"port":70000,"protocol":"ICMP"},{"port":9,"endPort":8},{"port":1,"endPort":70000},
            {"port":"a","endPort":5},{"port":"B"},{"endPort":6},{}"#;
        let range = "must be between 1 and 65535, inclusive";
        let at = |text: &str| format!("spec.ingress[0].ports{text}");
        assert_eq!(
            create(&policy(&format!(r#""ingress":[{{"ports":[{ports}]}}]"#))),
            [
                at(&format!("[0].port: Invalid value: 0: {range}")),
                at(r#"[1].protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP""#),
                at(&format!("[1].port: Invalid value: 70000: {range}")),
                at("[2].endPort: Invalid value: 9: must be greater than or equal to `port`"),
                at(&format!("[3].endPort: Invalid value: 70000: {range}")),
                at("[4].endPort: Invalid value: 5: may not be specified when `port` is non-numeric"),
                at(
                    r#"[5].port: Invalid value: "B": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"#
                ),
                at(r#"[5].port: Invalid value: "B": must contain at least one letter (a-z)"#),
                at("[6].endPort: Invalid value: 6: may not be specified when `port` is not specified"),
            ]
        );
    }

    #[test]
    fn a_peer_is_a_network_or_is_selected() {
        let peers = r#"{},{"ipBlock":{"cidr":"10.0.0.0/8"},"podSelector":{}},{"ipBlock":{}},
            {"ipBlock":{"cidr":"x","except":["y"]}},{"ipBlock":{"cidr":"10.0.0.0/8","except":["11.0.0.0/16","x","10.0.0.0/8","10.1.2.3/9"]}},
            {"namespaceSelector":{"matchExpressions":[{"key":"a","operator":"Foo"}]}},
            {"ipBlock":{"cidr":"::ffff:10.0.0.0/104","except":["10.1.0.0/16","::ffff:10.1.0.0/112"]}}"#;
        let at = |text: &str| format!("spec.egress[0].to{text}");
        let subset = "must be a strict subset of `cidr`";
        assert_eq!(
            create(&policy(&format!(r#""egress":[{{"to":[{peers}]}}]"#))),
            [
                at("[0]: Required value: must specify a peer"),
                at("[1]: Forbidden: may not specify both ipBlock and another peer"),
                at("[2].ipBlock.cidr: Required value"),
                at(&format!(r#"[3].ipBlock.cidr: Invalid value: "x": {CIDR}"#)),
                at(&format!(r#"[4].ipBlock.except[0]: Invalid value: "11.0.0.0/16": {subset}"#)),
                at(&format!(r#"[4].ipBlock.except[1]: Invalid value: "x": {CIDR}"#)),
                at(&format!(r#"[4].ipBlock.except[2]: Invalid value: "10.0.0.0/8": {subset}"#)),
                at(
                    r#"[5].namespaceSelector.matchExpressions[0].operator: Invalid value: "Foo": not a valid selector operator"#
                ),
                at(&format!(r#"[6].ipBlock.except[0]: Invalid value: "10.1.0.0/16": {subset}"#)),
            ]
        );
    }

    #[test]
    fn there_are_two_types_of_policies() {
        assert_eq!(
            create(&policy(r#""policyTypes":["Both"]"#)),
            [r#"spec.policyTypes[0]: Unsupported value: "Both": supported values: "Ingress", "Egress""#]
        );
        assert_eq!(
            create(&policy(r#""policyTypes":["Ingress","Egress","Ingress"]"#)),
            [
                r#"spec.policyTypes: Invalid value: []networking.PolicyType{"Ingress", "Egress", "Ingress"}: may not specify more than two policyTypes"#
            ]
        );
    }

    #[test]
    fn an_update_is_checked_twice_and_keeps_values_of_selectors() {
        let odd = policy(r#""egress":[{"to":[{"ipBlock":{"cidr":"x"}}]}]"#);
        let error = format!(r#"spec.egress[0].to[0].ipBlock.cidr: Invalid value: "x": {CIDR}"#);
        assert_eq!(update(&odd, &policy("")), [error.clone(), error.clone()]);
        assert_eq!(update(&odd, &odd), [error]);
        let value = |value: &str| {
            let expression = format!(r#"{{"key":"a","operator":"In","values":["{value}"]}}"#);
            policy(&format!(r#""podSelector":{{"matchExpressions":[{expression}]}}"#))
        };
        assert_eq!(update(&value("x y"), &policy("")).len(), 2);
        assert!(update(&value("y z"), &value("x y")).is_empty());
    }

    #[test]
    fn odd_networks_give_warnings() {
        let to = r#"{"podSelector":{}},{"ipBlock":{"cidr":"10.0.0.1/8","except":["10.01.0.0/16"]}}"#;
        let at = "spec.egress[0].to[1].ipBlock";
        let ambiguous = "is ambiguous in this context";
        let future = "will be considered invalid in a future Kubernetes release";
        assert_eq!(
            warnings(&policy(&format!(r#""egress":[{{"to":[{to}]}}]"#)), None),
            [
                format!(
                    r#"{at}.cidr: CIDR value "10.0.0.1/8" {ambiguous} (should be "10.0.0.0/8" or "10.0.0.1/32"?)"#
                ),
                format!(
                    r#"{at}.except[0]: non-standard CIDR value "10.01.0.0/16" {future}: use "10.1.0.0/16""#
                ),
            ]
        );
    }
}
