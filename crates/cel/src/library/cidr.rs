//! Networks: `cidr`, `isCIDR`, `containsIP`, `containsCIDR`, `ip`, `masked`, `prefixLength`, `string`.
//!
//! Bits after the prefix may be set. An address is not one of IPv4 in the form of IPv6.

use super::ip::{self, Address};
use super::support::{function, made, member, no_such_overload, opaque, overload, quoted, str, string};
use crate::value::{Native, Opaque, Value};
use crate::{Failure, Function, Outcome, Type};
use object::netip::{self, Prefix};
use std::any::Any;
use std::fmt;

/// The name of the type of networks, which expressions can write.
pub(crate) const NAME: &str = "net.CIDR";

/// The type of networks.
fn ty() -> Type {
    Type::opaque(NAME, Vec::new())
}

/// The functions of the library.
pub(crate) fn functions() -> Vec<Function> {
    vec![
        function(
            "cidr",
            [overload("string_to_cidr", [Type::String], ty(), |args| {
                read(str(args, 0)?).map(|prefix| made(Network(prefix)))
            })],
        ),
        function(
            "containsIP",
            [
                member("cidr_contains_ip_string", [ty(), Type::String], Type::Bool, |args| {
                    // The reference does not tell why the text is no address.
                    let ip = match ip::read(str(args, 1)?) {
                        Err(Failure::Error(_)) => return Err(no_such_overload()),
                        read => read?,
                    };
                    Ok(Value::Bool(of(args, 0)?.contains(ip)))
                }),
                member("cidr_contains_ip_ip", [ty(), ip::ty()], Type::Bool, |args| {
                    Ok(Value::Bool(of(args, 0)?.contains(ip::of(args, 1)?)))
                }),
            ],
        ),
        function(
            "containsCIDR",
            [
                member("cidr_contains_cidr_string", [ty(), Type::String], Type::Bool, |args| {
                    contains(of(args, 0)?, &read(str(args, 1)?)?)
                }),
                member("cidr_contains_cidr", [ty(), ty()], Type::Bool, |args| {
                    contains(of(args, 0)?, of(args, 1)?)
                }),
            ],
        ),
        function("ip", [member("cidr_ip", [ty()], ip::ty(), |args| Ok(made(Address(of(args, 0)?.ip))))]),
        function(
            "prefixLength",
            [member("cidr_prefix_length", [ty()], Type::Int, |args| {
                Ok(Value::Int(of(args, 0)?.bits.into()))
            })],
        ),
        function(
            "masked",
            [member("cidr_masked", [ty()], ty(), |args| Ok(made(Network(of(args, 0)?.masked()))))],
        ),
        function(
            "isCIDR",
            [overload("is_cidr", [Type::String], Type::Bool, |args| {
                Ok(Value::Bool(read(str(args, 0)?).is_ok()))
            })],
        ),
        function(
            "string",
            [overload("cidr_to_string", [ty()], Type::String, |args| Ok(string(of(args, 0)?.to_string())))],
        ),
    ]
}

/// A network.
struct Network(Prefix);

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cidr({})", self.0)
    }
}

impl Opaque for Network {
    fn type_of(&self) -> Type {
        ty()
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &Self = other.as_any().downcast_ref()?;
        Some(self.0 == other.0)
    }

    /// The bytes that the prefix has bits of.
    fn size(&self) -> Option<u64> {
        Some(u64::from(self.0.bits).div_ceil(8))
    }

    fn native(&self) -> Option<Native> {
        Some(Native::of("netip.Prefix", "CIDR", &self.0))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn of<'v>(args: &'v [Value<'_>], at: usize) -> Result<&'v Prefix, Failure> {
    opaque::<Network>(args, at).map(|network| &network.0)
}

fn contains<'a>(network: &Prefix, other: &Prefix) -> Outcome<'a> {
    Ok(Value::Bool(network.overlaps(other) && network.bits <= other.bits))
}

fn read(text: &str) -> Result<Prefix, Failure> {
    // The reference says it twice of a text that is no network.
    const WHERE: &str = "network address parse error during conversion from string";
    let prefix =
        netip::parse_prefix(text).map_err(|why| Failure::error(format!("{WHERE}: {WHERE}: {why}")))?;
    if ip::is_mapped(prefix.ip) {
        let shown = quoted(text);
        return Err(Failure::error(format!("{WHERE}: IPv4-mapped IPv6 address {shown} is not allowed")));
    }
    Ok(prefix)
}
