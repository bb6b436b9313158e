//! The rules for addresses and networks that the kinds of networking share.
//!
//! Their fields predate the strict rules for addresses. What an old object has may stay.

use object::field::{Error, List, Path};
use object::name::address::{self, Legacy};
use object::name::{dns1123_subdomain, invalid};
use object::netip;
use std::collections::HashSet;

/// An address. One of `before` is taken as it is.
pub(crate) fn ip(text: &str, before: &HashSet<&str>, path: &Path<'_>) -> List {
    unless_before(text, before, address::legacy_ip(path, text, Legacy::Lenient))
}

/// A network. One of `before` is taken as it is.
pub(crate) fn cidr(text: &str, before: &HashSet<&str>, path: &Path<'_>) -> List {
    unless_before(text, before, address::legacy_cidr(path, text, Legacy::Lenient))
}

fn unless_before(text: &str, before: &HashSet<&str>, errors: List) -> List {
    if errors.is_empty() || before.contains(text) { List::new() } else { errors }
}

/// An address that clients outside of a node can send to.
pub(crate) fn endpoint_ip(text: &str, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let Some(ip) = address::parse_lenient(text) else {
        return Error::invalid(path, text, "must be a valid IP address").into();
    };
    if ip.is_unspecified() {
        errors.push(Error::invalid(path, text, format!("may not be unspecified ({text})")));
    }
    let mut refuse = |why: &'static str| errors.push(Error::invalid(path, text, why));
    if ip.is_loopback() {
        refuse("may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if netip::is_link_local_unicast(ip) {
        refuse("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if netip::is_link_local_multicast(ip) {
        refuse("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
    errors
}

/// The name of a host that a load balancer has; a domain name, if there is one.
pub(crate) fn balancer_hostname(text: &str, path: &Path<'_>) -> List {
    if text.is_empty() {
        return List::new();
    }
    let mut errors = invalid(path, text, dns1123_subdomain(text));
    errors.extend(not_an_address(text, path));
    errors
}

/// The name of a host that is not an address.
pub(crate) fn not_an_address(text: &str, path: &Path<'_>) -> Option<Error> {
    address::parse_lenient(text)?;
    Some(Error::invalid(path, text, "must be a DNS name, not an IP address"))
}

/// The warnings about the addresses of a load balancer in a status.
pub(crate) fn balancer_warnings<'a>(addresses: impl Iterator<Item = &'a str>) -> Vec<String> {
    let path = Path::new("status");
    let path = path.child("loadBalancer");
    let path = path.child("ingress");
    addresses.enumerate().flat_map(|(at, ip)| address::ip_warnings(&path.index(at), ip)).collect()
}
