//! Ports of nodes that containers take.

use crate::resources::is_sidecar;
use object::Text;
use schema::views::core::v1::{Container, PodSpec};

const ALL_ADDRESSES: &str = "0.0.0.0";

/// A port of a node: an address, a protocol and a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    address: Text,
    protocol: Text,
    number: i64,
}

impl HostPort {
    /// The ports that the containers of a pod take for as long as it runs.
    pub(crate) fn all(spec: PodSpec<'_>) -> Vec<Self> {
        let sidecars = spec.init_containers().iter().filter(|container| is_sidecar(*container));
        sidecars.chain(spec.containers().iter()).flat_map(Self::of_container).collect()
    }

    fn of_container(container: Container<'_>) -> impl Iterator<Item = Self> {
        container.ports().iter().filter(|port| port.host_port() > 0).map(|port| Self {
            address: match port.host_ip() {
                "" => ALL_ADDRESSES.into(),
                address => address.into(),
            },
            protocol: match port.protocol() {
                "" => "TCP".into(),
                protocol => protocol.into(),
            },
            number: port.host_port(),
        })
    }

    /// Whether two pods of one node cannot have these ports.
    pub(crate) fn conflicts(&self, other: &Self) -> bool {
        self.number == other.number
            && self.protocol == other.protocol
            && (self.address == other.address
                || self.address == ALL_ADDRESSES
                || other.address == ALL_ADDRESSES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_conflict_by_number_protocol_and_address() {
        let port = |text: &str| {
            let (protocol, rest) = text.split_once('/').unwrap();
            let (address, number) = rest.rsplit_once('/').unwrap();
            HostPort { address: address.into(), protocol: protocol.into(), number: number.parse().unwrap() }
        };
        let cases = [
            ("UDP/127.0.0.1/8080", "UDP/127.0.0.1/9090", false),
            ("UDP/127.0.0.1/8080", "UDP/127.0.0.1/8080", true),
            ("TCP/127.0.0.1/8080", "UDP/127.0.0.1/8080", false),
            ("TCP/127.0.0.1/8080", "TCP/127.0.0.2/8080", false),
            ("TCP/0.0.0.0/8080", "TCP/127.0.0.1/8080", true),
            ("TCP/127.0.0.1/8080", "TCP/0.0.0.0/8080", true),
            ("TCP/0.0.0.0/8080", "UDP/127.0.0.1/8080", false),
        ];
        for (one, other, expected) in cases {
            assert_eq!(port(one).conflicts(&port(other)), expected, "{one} {other}");
        }
    }
}
