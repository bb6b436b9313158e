//! IP addresses: `ip`, `isIP`, `ip.isCanonical`, `family`, `isUnspecified`, `isLoopback`,
//! `isLinkLocalMulticast`, `isLinkLocalUnicast`, `isGlobalUnicast`, `string`.
//!
//! An address has no zone, and is not one of IPv4 in the form of IPv6.

use super::support::{function, made, member, opaque, overload, quoted, str, string};
use crate::value::{Native, Opaque, Value};
use crate::{Failure, Function, Outcome, Type};
use object::netip;
use std::any::Any;
use std::fmt;
use std::net::IpAddr;

/// The name of the type of addresses, which expressions can write.
pub(crate) const NAME: &str = "net.IP";

/// The type of addresses.
pub(super) fn ty() -> Type {
    Type::opaque(NAME, Vec::new())
}

/// The functions of the library.
pub(crate) fn functions() -> Vec<Function> {
    vec![
        function(
            "ip",
            [overload("string_to_ip", [Type::String], ty(), |args| {
                read(str(args, 0)?).map(|ip| made(Address(ip)))
            })],
        ),
        function(
            "family",
            [member("ip_family", [ty()], Type::Int, |args| {
                Ok(Value::Int(if of(args, 0)?.is_ipv4() { 4 } else { 6 }))
            })],
        ),
        function(
            "ip.isCanonical",
            [overload("ip_is_canonical", [Type::String], Type::Bool, |args| {
                let text = str(args, 0)?;
                Ok(Value::Bool(read(text)?.to_string() == text))
            })],
        ),
        test("isUnspecified", "ip_is_unspecified", |args| holds(args, |ip| ip.is_unspecified())),
        test("isLoopback", "ip_is_loopback", |args| holds(args, |ip| ip.is_loopback())),
        test("isLinkLocalMulticast", "ip_is_link_local_multicast", |args| {
            holds(args, netip::is_link_local_multicast)
        }),
        test("isLinkLocalUnicast", "ip_is_link_local_unicast", |args| {
            holds(args, netip::is_link_local_unicast)
        }),
        test("isGlobalUnicast", "ip_is_global_unicast", |args| holds(args, netip::is_global_unicast)),
        function(
            "isIP",
            [overload("is_ip", [Type::String], Type::Bool, |args| {
                Ok(Value::Bool(read(str(args, 0)?).is_ok()))
            })],
        ),
        function(
            "string",
            [overload("ip_to_string", [ty()], Type::String, |args| Ok(string(of(args, 0)?.to_string())))],
        ),
    ]
}

/// A function that says whether something holds for the address that it is called on.
fn test(name: &str, id: &'static str, call: for<'a> fn(&[Value<'a>]) -> Outcome<'a>) -> Function {
    function(name, [member(id, [ty()], Type::Bool, call)])
}

fn holds<'a>(args: &[Value<'a>], condition: impl Fn(IpAddr) -> bool) -> Outcome<'a> {
    of(args, 0).map(|ip| Value::Bool(condition(ip)))
}

/// An address.
pub(super) struct Address(pub(super) IpAddr);

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ip({})", self.0)
    }
}

impl Opaque for Address {
    fn type_of(&self) -> Type {
        ty()
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &Self = other.as_any().downcast_ref()?;
        Some(self.0 == other.0)
    }

    /// The bytes of the address.
    fn size(&self) -> Option<u64> {
        Some(if self.0.is_ipv4() { 4 } else { 16 })
    }

    fn native(&self) -> Option<Native> {
        Some(Native::of("netip.Addr", "IP", &self.0))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The address that an argument is.
pub(super) fn of(args: &[Value<'_>], at: usize) -> Result<IpAddr, Failure> {
    opaque::<Address>(args, at).map(|address| address.0)
}

/// Reads an address.
pub(super) fn read(text: &str) -> Result<IpAddr, Failure> {
    let refuse = |why: String| Failure::error(why);
    let shown = || quoted(text);
    let address = netip::parse_address(text).map_err(|why| {
        refuse(format!("IP Address {} parse error during conversion from string: {why}", shown()))
    })?;
    if !address.zone.is_empty() {
        return Err(refuse(format!("IP address {} with zone value is not allowed", shown())));
    }
    if is_mapped(address.ip) {
        return Err(refuse(format!("IPv4-mapped IPv6 address {} is not allowed", shown())));
    }
    Ok(address.ip)
}

/// Whether an address is one of IPv4 in the form of IPv6.
pub(super) fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}
