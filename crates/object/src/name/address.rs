//! IP addresses and networks as text: the current strict form, and what older fields still take.
//!
//! Older fields ignore leading zeros, accept IPv4-mapped IPv6 addresses, and accept networks with bits set
//! past their prefix. An update may keep a value of the old object that is no longer valid; whether it does
//! is for the caller.

use crate::field::{Error, List, Path};
use crate::quote::Quoted;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How a field that predates the strict rules is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Legacy {
    /// By the strict rules, though not necessarily in canonical form.
    Strict,
    /// By the rules of old.
    Lenient,
}

/// An address in canonical form.
///
/// ```
/// use object::{field::Path, name::address::ip};
/// let path = Path::new("ip");
/// assert!(ip(&path, "2001:db8::1").is_empty());
/// assert_eq!(ip(&path, "::01")[0].detail, r#"must be in canonical form ("::1")"#);
/// ```
pub fn ip(path: &Path<'_>, value: &str) -> List {
    let address = match checked_ip(path, value, Legacy::Strict) {
        Ok(address) => address,
        Err(errors) => return errors,
    };
    canonical(path, value, &address.ip.to_canonical().to_string())
}

/// An address in a field that predates the strict rules.
pub fn legacy_ip(path: &Path<'_>, value: &str, legacy: Legacy) -> List {
    checked_ip(path, value, legacy).err().unwrap_or_default()
}

/// Warnings about an address that [`legacy_ip`] accepts but that is not in strict form.
pub fn ip_warnings(path: &Path<'_>, value: &str) -> Vec<String> {
    let Some(address) = parse_ip(value) else { return Vec::new() };
    if address.stray_zeros || address.is_mapped() {
        return vec![format!(
            "{path}: non-standard IP address {} will be considered invalid in a future Kubernetes release: use \"{}\"",
            Quoted(value),
            address.ip.to_canonical()
        )];
    }
    if address.ip.is_ipv6() && address.ip.to_string() != value {
        return vec![format!(
            "{path}: IPv6 address {} should be in RFC 5952 canonical format (\"{}\")",
            Quoted(value),
            address.ip
        )];
    }
    Vec::new()
}

/// A network in canonical form: no bits are set past the prefix.
pub fn cidr(path: &Path<'_>, value: &str) -> List {
    match checked_cidr(path, value, Legacy::Strict) {
        Ok(network) => canonical(path, value, &network.to_text()),
        Err(errors) => errors,
    }
}

/// A network in a field that predates the strict rules.
pub fn legacy_cidr(path: &Path<'_>, value: &str, legacy: Legacy) -> List {
    checked_cidr(path, value, legacy).err().unwrap_or_default()
}

/// Warnings about a network that [`legacy_cidr`] accepts but that is not in strict form.
pub fn cidr_warnings(path: &Path<'_>, value: &str) -> Vec<String> {
    let Some(network) = parse_cidr(value) else { return Vec::new() };
    let mut warnings = Vec::new();
    if network.has_host_bits() {
        let single = format!("{}/{}", network.address.ip.to_canonical(), network.width());
        warnings.push(format!(
            "{path}: CIDR value {} is ambiguous in this context (should be \"{}\" or \"{single}\"?)",
            Quoted(value),
            network.to_text()
        ));
    }
    if network.stray_zeros() || network.address.is_mapped() {
        warnings.push(format!(
            "{path}: non-standard CIDR value {} will be considered invalid in a future Kubernetes release: use \"{}\"",
            Quoted(value),
            network.to_text()
        ));
    }
    let plain = format!("{}/{}", network.address.ip, network.prefix);
    if warnings.is_empty() && network.address.ip.is_ipv6() && plain != value {
        warnings.push(format!(
            "{path}: IPv6 CIDR value {} should be in RFC 5952 canonical format (\"{plain}\")",
            Quoted(value)
        ));
    }
    warnings
}

/// An address together with the length of its network's prefix, in canonical form.
pub fn interface_address(path: &Path<'_>, value: &str) -> List {
    let Some(network) = parse_cidr(value) else {
        let detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        return Error::invalid(path, value, detail).into();
    };
    let shown = network.address.ip.to_canonical();
    let surplus = if shown.is_ipv4() && network.prefix > 32 { 96 } else { 0 };
    canonical(path, value, &format!("{shown}/{}", i64::from(network.prefix) - surplus))
}

/// Reads an address as older fields take it; an IPv4 address in IPv6 clothes comes back as IPv4.
///
/// ```
/// use object::name::address::parse_lenient;
/// assert_eq!(parse_lenient("010.0.0.1"), Some([10, 0, 0, 1].into()));
/// assert_eq!(parse_lenient("10.0.0"), None);
/// ```
pub fn parse_lenient(text: &str) -> Option<IpAddr> {
    parse_ip(text).map(|address| address.ip.to_canonical())
}

/// Reads a network as older fields take it.
///
/// ```
/// use object::name::address::parse_cidr_lenient;
/// let network = parse_cidr_lenient("10.00.0.7/8").unwrap();
/// assert_eq!((network.base(), network.prefix()), ([10, 0, 0, 0].into(), 8));
/// assert!(network.contains([10, 9, 8, 7].into()) && !network.contains([11, 0, 0, 0].into()));
/// ```
pub fn parse_cidr_lenient(text: &str) -> Option<Network> {
    parse_cidr(text)
}

fn canonical(path: &Path<'_>, value: &str, canonical: &str) -> List {
    if value == canonical {
        return List::new();
    }
    Error::invalid(path, value, format!("must be in canonical form (\"{canonical}\")")).into()
}

fn checked_ip(path: &Path<'_>, value: &str, legacy: Legacy) -> Result<Address, List> {
    let Some(address) = parse_ip(value) else {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        return Err(Error::invalid(path, value, detail).into());
    };
    match legacy {
        Legacy::Strict if address.stray_zeros => {
            Err(Error::invalid(path, value, "must not have leading 0s").into())
        }
        Legacy::Strict if address.is_mapped() => {
            Err(Error::invalid(path, value, "must not be an IPv4-mapped IPv6 address").into())
        }
        _ => Ok(address),
    }
}

fn checked_cidr(path: &Path<'_>, value: &str, legacy: Legacy) -> Result<Network, List> {
    let Some(network) = parse_cidr(value) else {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        return Err(Error::invalid(path, value, detail).into());
    };
    let detail = match legacy {
        Legacy::Lenient => return Ok(network),
        Legacy::Strict if network.stray_zeros() => "must not have leading 0s in IP or prefix length",
        Legacy::Strict if network.address.is_mapped() => "must not have an IPv4-mapped IPv6 address",
        Legacy::Strict if network.has_host_bits() => "must not have bits set beyond the prefix length",
        Legacy::Strict => return Ok(network),
    };
    Err(Error::invalid(path, value, detail).into())
}

struct Address {
    /// As written: an IPv4 address in IPv6 clothes is an IPv6 address here.
    ip: IpAddr,
    /// Whether it has zeros that the strict form does not take.
    stray_zeros: bool,
}

impl Address {
    fn is_mapped(&self) -> bool {
        matches!(self.ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
    }
}

/// An address and the length of its network's prefix.
pub struct Network {
    address: Address,
    prefix: u32,
    zeros_in_prefix: bool,
}

impl Network {
    fn stray_zeros(&self) -> bool {
        self.address.stray_zeros || self.zeros_in_prefix
    }

    fn width(&self) -> u32 {
        if self.address.ip.is_ipv4() { 32 } else { 128 }
    }

    /// The length of the prefix, as written.
    pub fn prefix(&self) -> u32 {
        self.prefix
    }

    /// Whether an address is in the network. A network whose base is an IPv4-mapped IPv6 address has IPv4
    /// addresses.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.base().to_canonical(), ip.to_canonical()) {
            (IpAddr::V4(base), IpAddr::V4(ip)) => {
                base.to_bits() == ip.to_bits() & upper_bits_32(self.canonical_prefix())
            }
            (IpAddr::V6(base), IpAddr::V6(ip)) => {
                base.to_bits() == ip.to_bits() & upper_bits_128(self.prefix)
            }
            _ => false,
        }
    }

    /// The length of the prefix of an IPv4-mapped network as an IPv4 network.
    fn canonical_prefix(&self) -> u32 {
        let base = self.base();
        if base.is_ipv6() && base.to_canonical().is_ipv4() {
            self.prefix.saturating_sub(96)
        } else {
            self.prefix
        }
    }

    /// The first address of the network.
    pub fn base(&self) -> IpAddr {
        match self.address.ip {
            IpAddr::V4(ip) => Ipv4Addr::from_bits(ip.to_bits() & upper_bits_32(self.prefix)).into(),
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & upper_bits_128(self.prefix)).into(),
        }
    }

    fn has_host_bits(&self) -> bool {
        self.base() != self.address.ip
    }

    /// The network alone. One whose base is an IPv4-mapped IPv6 address is shown as IPv4.
    fn to_text(&self) -> String {
        format!("{}/{}", self.base().to_canonical(), self.canonical_prefix())
    }
}

fn upper_bits_32(count: u32) -> u32 {
    u32::MAX.checked_shl(32 - count.min(32)).unwrap_or(0)
}

fn upper_bits_128(count: u32) -> u128 {
    u128::MAX.checked_shl(128 - count.min(128)).unwrap_or(0)
}

fn parse_ip(text: &str) -> Option<Address> {
    match text.bytes().find(|byte| matches!(byte, b'.' | b':'))? {
        b'.' => parse_v4(text),
        _ => parse_v6(text),
    }
}

fn parse_cidr(text: &str) -> Option<Network> {
    let (address, prefix) = text.split_once('/')?;
    let address = parse_v4(address).or_else(|| parse_v6(address))?;
    let number = Number::read(prefix, 10)?;
    let width = if address.ip.is_ipv4() { 32 } else { 128 };
    if !number.rest.is_empty() || number.value > width {
        return None;
    }
    let zeros_in_prefix = number.length > 1 && prefix.starts_with('0');
    Some(Network { address, prefix: number.value, zeros_in_prefix })
}

fn parse_v4(text: &str) -> Option<Address> {
    let mut octets = [0; 4];
    let mut stray_zeros = false;
    let mut rest = text;
    for (index, octet) in octets.iter_mut().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('.')?;
        }
        let number = Number::read(rest, 10)?;
        *octet = u8::try_from(number.value).ok()?;
        stray_zeros |= number.length > 1 && rest.starts_with('0');
        rest = number.rest;
    }
    rest.is_empty().then_some(Address { ip: Ipv4Addr::from(octets).into(), stray_zeros })
}

fn parse_v6(text: &str) -> Option<Address> {
    let mut groups = Vec::with_capacity(8);
    let mut stray_zeros = false;
    let mut gap = None;
    let mut rest = text;
    if let Some(after) = rest.strip_prefix("::") {
        gap = Some(0);
        rest = after;
    }
    while groups.len() < 8 && !(rest.is_empty() && gap.is_some() && groups.is_empty()) {
        let number = Number::read(rest, 16)?;
        let group = u16::try_from(number.value).ok()?;
        stray_zeros |= number.length > 4;
        if number.rest.starts_with('.') {
            if (gap.is_none() && groups.len() != 6) || groups.len() > 6 {
                return None;
            }
            let tail = parse_v4(rest)?;
            let IpAddr::V4(ip) = tail.ip else { return None };
            stray_zeros |= tail.stray_zeros;
            groups.extend([(ip.to_bits() >> 16) as u16, ip.to_bits() as u16]);
            rest = "";
            break;
        }
        groups.push(group);
        rest = number.rest;
        if rest.is_empty() {
            break;
        }
        rest = rest.strip_prefix(':').filter(|rest| !rest.is_empty())?;
        if let Some(after) = rest.strip_prefix(':') {
            if gap.is_some() {
                return None;
            }
            gap = Some(groups.len());
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    let missing = 8 - groups.len().min(8);
    match gap {
        _ if !rest.is_empty() => return None,
        Some(at) if missing > 0 => drop(groups.splice(at..at, std::iter::repeat_n(0, missing))),
        None if missing == 0 => {}
        _ => return None,
    }
    let groups: [u16; 8] = groups.try_into().ok()?;
    Some(Address { ip: Ipv6Addr::from(groups).into(), stray_zeros })
}

/// Digits at the start of a text.
struct Number<'a> {
    value: u32,
    length: usize,
    rest: &'a str,
}

impl<'a> Number<'a> {
    fn read(text: &'a str, radix: u32) -> Option<Self> {
        let mut value: u32 = 0;
        let mut length = 0;
        for digit in text.chars().map_while(|character| character.to_digit(radix)) {
            value = value * radix + digit;
            length += 1;
            if value >= 0xff_ffff {
                return None;
            }
        }
        (length > 0).then(|| Self { value, length, rest: text.get(length..).unwrap_or_default() })
    }
}
