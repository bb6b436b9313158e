//! Addresses and networks as Go's `net/netip` reads them, with its error texts: no leading zeros, no bits
//! left over, zones where they may stand.
//!
//! Fields that predate these rules are read by [`crate::name::address`].

use crate::quote::Quoted;
use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address, with the zone that was written after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'t> {
    /// The address. One of IPv4 in the form of IPv6 is one of IPv6.
    pub ip: IpAddr,
    /// The zone; empty if there is none.
    pub zone: &'t str,
}

/// An address and the length of its network's prefix. Bits after the prefix may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The address.
    pub ip: IpAddr,
    /// The bits of the prefix.
    pub bits: u8,
}

/// Why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ParseAddr({}): {why}{}", Quoted(.text), At(.at))]
pub struct AddressError {
    text: String,
    why: &'static str,
    /// Where the fault was found; empty if that is not told.
    at: String,
}

/// Why a text is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("netip.ParsePrefix({}): {why}", Quoted(.text))]
pub struct PrefixError {
    text: String,
    why: Cow<'static, str>,
}

struct At<'t>(&'t str);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " (at {})", Quoted(self.0)) }
    }
}

/// Reads an address.
///
/// ```
/// use object::netip::parse_address;
/// assert_eq!(parse_address("fe80::1%eth0").unwrap().zone, "eth0");
/// let error = parse_address("1.2.3").unwrap_err().to_string();
/// assert_eq!(error, r#"ParseAddr("1.2.3"): IPv4 address too short"#);
/// ```
pub fn parse_address(text: &str) -> Result<Address<'_>, AddressError> {
    let refuse = |why, at: &str| AddressError { text: text.to_owned(), why, at: at.to_owned() };
    let parsed = match text.bytes().find(|byte| matches!(byte, b'.' | b':' | b'%')) {
        Some(b'.') => parse_v4(text).map(|ip| Address { ip: ip.into(), zone: "" }),
        Some(b':') => match text.split_once('%') {
            Some((_, "")) => Err(Fault::new("zone must be a non-empty string")),
            Some((address, zone)) => parse_v6(address).map(|ip| Address { ip: ip.into(), zone }),
            None => parse_v6(text).map(|ip| Address { ip: ip.into(), zone: "" }),
        },
        Some(_) => Err(Fault::new("missing IPv6 address")),
        None => Err(Fault::new("unable to parse IP")),
    };
    parsed.map_err(|fault| refuse(fault.why, fault.at))
}

/// Reads a network.
///
/// ```
/// use object::netip::parse_prefix;
/// assert_eq!(parse_prefix("10.0.0.7/8").unwrap().masked().to_string(), "10.0.0.0/8");
/// let error = parse_prefix("10.0.0.0/33").unwrap_err();
/// assert_eq!(error.to_string(), r#"netip.ParsePrefix("10.0.0.0/33"): prefix length out of range"#);
/// ```
pub fn parse_prefix(text: &str) -> Result<Prefix, PrefixError> {
    let refuse = |why: Cow<'static, str>| PrefixError { text: text.to_owned(), why };
    let (address, bits) = text.rsplit_once('/').ok_or_else(|| refuse("no '/'".into()))?;
    let address = parse_address(address).map_err(|error| refuse(error.to_string().into()))?;
    if !address.zone.is_empty() {
        return Err(refuse("IPv6 zones cannot be present in a prefix".into()));
    }
    let bad = || refuse(format!("bad bits after slash: {}", Quoted(bits)).into());
    if bits.len() > 1 && !bits.starts_with(|first: char| matches!(first, '1'..='9')) {
        return Err(bad());
    }
    if bits.is_empty() || !bits.bytes().all(|byte| byte.is_ascii_digit()) || bits.parse::<i64>().is_err() {
        return Err(bad());
    }
    match bits.parse::<u8>() {
        Ok(bits) if bits <= width(address.ip) => Ok(Prefix { ip: address.ip, bits }),
        _ => Err(refuse("prefix length out of range".into())),
    }
}

/// How many bits an address has.
fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

impl Prefix {
    /// The network with the bits after the prefix at zero.
    #[must_use]
    pub fn masked(self) -> Self {
        Self { ip: masked(self.ip, self.bits), bits: self.bits }
    }

    /// Whether an address is in the network. One of IPv4 in the form of IPv6 is in no network of IPv4.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.ip.is_ipv4() == ip.is_ipv4() && masked(self.ip, self.bits) == masked(ip, self.bits)
    }

    /// Whether an address is in both networks.
    pub fn overlaps(&self, other: &Self) -> bool {
        let bits = self.bits.min(other.bits);
        self.ip.is_ipv4() == other.ip.is_ipv4() && masked(self.ip, bits) == masked(other.ip, bits)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.bits)
    }
}

fn masked(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
            Ipv4Addr::from_bits(ip.to_bits() & mask).into()
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
            Ipv6Addr::from_bits(ip.to_bits() & mask).into()
        }
    }
}

/// Whether an address is for one link: `169.254.0.0/16` or `fe80::/10`.
pub fn is_link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Whether an address is of a group of one link: `224.0.0.0/24`, or one of `ff00::/8` whose scope is the
/// link.
pub fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => matches!(ip.octets(), [224, 0, 0, _]),
        IpAddr::V6(ip) => matches!(ip.octets(), [0xff, flags, ..] if flags & 0x0f == 0x02),
    }
}

/// Whether an address is for one host, beyond its link: also those of private networks.
pub fn is_global_unicast(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !(ip.is_unspecified()
        || is_broadcast
        || ip.is_loopback()
        || ip.is_multicast()
        || is_link_local_unicast(ip))
}

struct Fault<'t> {
    why: &'static str,
    at: &'t str,
}

impl<'t> Fault<'t> {
    fn new(why: &'static str) -> Self {
        Self { why, at: "" }
    }

    fn at(why: &'static str, at: &'t str) -> Self {
        Self { why, at }
    }
}

fn parse_v4(text: &str) -> Result<Ipv4Addr, Fault<'_>> {
    let mut octets = [0_u8; 4];
    let mut field = 0;
    let (mut value, mut digits) = (0_u32, 0);
    let mut before = None;
    for (at, byte) in text.bytes().enumerate() {
        let rest = || text.get(at..).unwrap_or_default();
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(Fault::new("IPv4 field has octet with leading zero"));
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Err(Fault::new("IPv4 field has value >255"));
                }
            }
            b'.' => {
                if matches!(before, None | Some(b'.')) || at + 1 == text.len() {
                    return Err(Fault::at("IPv4 field must have at least one digit", rest()));
                }
                if field == 3 {
                    return Err(Fault::new("IPv4 address too long"));
                }
                if let Some(octet) = octets.get_mut(field) {
                    *octet = value as u8;
                }
                field += 1;
                (value, digits) = (0, 0);
            }
            _ => return Err(Fault::at("unexpected character", rest())),
        }
        before = Some(byte);
    }
    if field < 3 {
        return Err(Fault::new("IPv4 address too short"));
    }
    let [a, b, c, _] = octets;
    Ok(Ipv4Addr::new(a, b, c, value as u8))
}

fn parse_v6(text: &str) -> Result<Ipv6Addr, Fault<'_>> {
    let mut groups: Vec<u16> = Vec::with_capacity(8);
    let mut gap = None;
    let mut rest = text;
    if let Some(after) = rest.strip_prefix("::") {
        gap = Some(0);
        rest = after;
        if rest.is_empty() {
            return Ok(Ipv6Addr::UNSPECIFIED);
        }
    }
    while groups.len() < 8 {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return Err(Fault::at("each group must have 4 or less digits", rest));
        }
        let (group, after) = rest.split_at_checked(digits).unwrap_or((rest, ""));
        let Ok(group) = u16::from_str_radix(group, 16) else {
            return Err(Fault::at("each colon-separated field must have at least one digit", rest));
        };
        if after.starts_with('.') {
            if gap.is_none() && groups.len() != 6 {
                let why = "embedded IPv4 address must replace the final 2 fields of the address";
                return Err(Fault::at(why, rest));
            }
            if groups.len() > 6 {
                let why = "too many hex fields to fit an embedded IPv4 at the end of the address";
                return Err(Fault::at(why, rest));
            }
            let bits = parse_v4(rest)?.to_bits();
            groups.extend([(bits >> 16) as u16, bits as u16]);
            rest = "";
            break;
        }
        groups.push(group);
        if after.is_empty() {
            rest = after;
            break;
        }
        let Some(next) = after.strip_prefix(':') else {
            return Err(Fault::at("unexpected character, want colon", after));
        };
        if next.is_empty() {
            return Err(Fault::at("colon must be followed by more characters", after));
        }
        rest = next;
        if let Some(after_gap) = next.strip_prefix(':') {
            if gap.is_some() {
                return Err(Fault::at("multiple :: in address", next));
            }
            gap = Some(groups.len());
            rest = after_gap;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return Err(Fault::at("trailing garbage after address", rest));
    }
    match gap {
        None if groups.len() < 8 => return Err(Fault::new("address string too short")),
        Some(_) if groups.len() == 8 => {
            return Err(Fault::new("the :: must expand to at least one field of zeros"));
        }
        Some(at) => drop(groups.splice(at..at, std::iter::repeat_n(0, 8 - groups.len()))),
        None => {}
    }
    <[u16; 8]>::try_from(groups).map(Ipv6Addr::from).map_err(|_| Fault::new("address string too short"))
}

#[cfg(test)]
mod tests;
