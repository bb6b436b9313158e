//! The DNS names and IP addresses of a serving certificate.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nix::ifaddrs::getifaddrs;

/// Names and addresses, each once and in order: two sets can be compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// DNS names.
    pub dns: BTreeSet<String>,
    /// IP addresses.
    pub addresses: BTreeSet<IpAddr>,
}

impl Names {
    /// The names of the API server inside the cluster, the first address of the service range, and the
    /// current names and addresses of this host.
    pub fn of_this_host(first_service_address: IpAddr) -> Self {
        let mut names = Self::default();
        for name in [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ] {
            names.dns.insert(name.to_owned());
        }
        if let Some(host) = host_name() {
            names.dns.insert(host);
        }
        names.addresses.extend([
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
            first_service_address,
        ]);
        names.addresses.extend(host_addresses());
        names
    }

    /// Adds an address of the server, unless it is unspecified (`0.0.0.0`, `::`).
    pub fn with_address(mut self, address: IpAddr) -> Self {
        if !address.is_unspecified() {
            self.addresses.insert(address);
        }
        self
    }
}

/// The host's name, if it is a valid DNS name.
fn host_name() -> Option<String> {
    let name = nix::unistd::gethostname().ok()?.into_string().ok()?.to_ascii_lowercase();
    let label = |part: &str| {
        (1..=63).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    (name.len() <= 253 && name.split('.').all(label)).then_some(name)
}

/// The addresses of the host's interfaces, without link-local ones.
fn host_addresses() -> Vec<IpAddr> {
    let Ok(interfaces) = getifaddrs() else { return Vec::new() };
    interfaces
        .filter_map(|interface| interface.address)
        .filter_map(|address| {
            let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
        })
        .filter(|address| match address {
            IpAddr::V4(v4) => !v4.is_link_local(),
            IpAddr::V6(v6) => !v6.is_unicast_link_local(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_include_loopback_and_service_names() {
        let service = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
        let names = Names::of_this_host(service);
        assert!(names.dns.contains("kubernetes.default.svc.cluster.local"));
        assert!(names.addresses.contains(&service));
        assert!(names.addresses.contains(&"::1".parse().unwrap()));
    }

    #[test]
    fn unspecified_address_is_not_added() {
        let names = Names::default().with_address(Ipv4Addr::UNSPECIFIED.into());
        assert!(names.addresses.is_empty());
    }
}
