//! A range of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Addresses of 32 bits.
    V4,
    /// Addresses of 128 bits.
    V6,
}

impl Family {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The name in the API: `IPv4`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }

    fn width(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    fn address(self, bits: u128) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(u32::try_from(bits).unwrap_or(u32::MAX).into()),
            Self::V6 => IpAddr::V6(bits.into()),
        }
    }
}

/// The range of addresses that share a prefix, such as `10.0.0.0/16`.
///
/// The first address and, of IPv4, the last one are not given to services. The lower part of a range is for
/// addresses that clients ask for: others come from it only when the rest is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressRange {
    base: IpAddr,
    prefix: u8,
}

impl AddressRange {
    /// The range of `prefix` leading bits of an address; `None` if the address does not have as many.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let family = Family::of(address);
        let hosts = family.width().checked_sub(prefix)?;
        let base = family.address(bits(address) & !mask(hosts));
        Some(Self { base, prefix })
    }

    /// The IPv4 range of `prefix` leading bits, which are at most 32. The address is that of the network.
    pub const fn v4(network: Ipv4Addr, prefix: u8) -> Self {
        Self { base: IpAddr::V4(network), prefix }
    }

    /// Reads `10.0.0.0/16`.
    ///
    /// ```
    /// use allocation::AddressRange;
    /// assert_eq!(AddressRange::parse("10.1.2.3/16").unwrap().to_string(), "10.1.0.0/16");
    /// assert!(AddressRange::parse("10.0.0.0/33").is_none());
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        Self::new(address.parse().ok()?, prefix.parse().ok()?)
    }

    /// The family of its addresses.
    pub fn family(&self) -> Family {
        Family::of(self.base)
    }

    /// The address of the network itself, which no service has.
    pub fn base(&self) -> IpAddr {
        self.base
    }

    /// How many bits are not part of the prefix.
    pub fn host_bits(&self) -> u8 {
        self.family().width().saturating_sub(self.prefix)
    }

    /// The first address that a service can have.
    pub fn first(&self) -> IpAddr {
        self.family().address(bits(self.base).saturating_add(1))
    }

    /// Whether services can have an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let usable = self.usable();
        Family::of(address) == self.family()
            && (usable.from..usable.from.saturating_add(usable.count)).contains(&bits(address))
    }

    /// Whether all addresses of another range are in this one.
    pub fn covers(&self, other: &Self) -> bool {
        self.prefix <= other.prefix && Self::new(other.base, self.prefix).as_ref() == Some(self)
    }

    /// The addresses that services can have, each once, beginning at random places in the upper part and then
    /// in the lower part. `random` gives a number below another.
    pub(crate) fn candidates(&self, mut random: impl FnMut(u64) -> u64) -> impl Iterator<Item = IpAddr> {
        let family = self.family();
        let Addresses { from, count } = self.usable();
        let lower = self.reserved().min(count);
        let upper = Addresses { from: from.saturating_add(lower), count: count.saturating_sub(lower) };
        let lower = Addresses { from, count: lower };
        let begins =
            [upper, lower].map(|part| (part, random(u64::try_from(part.count.max(1)).unwrap_or(u64::MAX))));
        begins
            .into_iter()
            .flat_map(|(part, begin)| part.beginning_at(begin.into()))
            .map(move |bits| family.address(bits))
    }

    /// How many addresses the lower part has.
    fn reserved(&self) -> u128 {
        const LEAST: u128 = 16;
        const MOST: u128 = 256;
        const SHARE: u128 = 16;
        let all = mask(self.host_bits()).saturating_add(1);
        if all <= LEAST { 0 } else { (all / SHARE).clamp(LEAST, MOST) }
    }

    /// How many addresses services can have.
    #[allow(clippy::cast_precision_loss, reason = "for metrics")]
    pub(crate) fn usable_addresses(&self) -> f64 {
        self.usable().count as f64
    }

    fn usable(&self) -> Addresses {
        let unused = match self.family() {
            Family::V4 => 2,
            Family::V6 => 1,
        };
        let all = mask(self.host_bits()).saturating_add(1);
        Addresses { from: bits(self.base).saturating_add(1), count: all.saturating_sub(unused) }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

/// Addresses in a row.
#[derive(Clone, Copy)]
struct Addresses {
    from: u128,
    count: u128,
}

impl Addresses {
    /// Each once, beginning at a place.
    fn beginning_at(self, place: u128) -> impl Iterator<Item = u128> {
        let Self { from, count } = self;
        let place = place.min(count);
        (place..count).chain(0..place).map(move |place| from.saturating_add(place))
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The lowest `count` bits.
fn mask(count: u8) -> u128 {
    u128::MAX.checked_shr(128 - u32::from(count.min(128))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn range(text: &str) -> AddressRange {
        AddressRange::parse(text).unwrap()
    }

    fn candidates(text: &str, begin: u64) -> Vec<String> {
        let random = |below: u64| begin.min(below - 1);
        range(text).candidates(random).map(|address| address.to_string()).collect()
    }

    #[test]
    fn ranges_are_read_and_shown_by_their_network() {
        for (text, shown) in
            [("10.96.7.9/12", "10.96.0.0/12"), ("fd00::7/108", "fd00::/108"), ("0.0.0.0/0", "0.0.0.0/0")]
        {
            assert_eq!(range(text).to_string(), shown);
        }
        for bad in ["", "10.0.0.0", "10.0.0.0/33", "x/8", "10.0.0.0/-1", "fd00::/129", "10.0.0.0/8/9"] {
            assert!(AddressRange::parse(bad).is_none(), "{bad}");
        }
        assert_eq!(range("10.96.7.9/12").first().to_string(), "10.96.0.1");
    }

    #[test]
    fn network_and_broadcast_addresses_are_not_for_services() {
        let has = |text: &str, address: &str| range(text).contains(address.parse().unwrap());
        for address in ["10.0.0.1", "10.0.0.254"] {
            assert!(has("10.0.0.0/24", address), "{address}");
        }
        for address in ["10.0.0.0", "10.0.0.255", "10.0.1.1", "::1"] {
            assert!(!has("10.0.0.0/24", address), "{address}");
        }
        assert!(has("fd00::/112", "fd00::ffff") && !has("fd00::/112", "fd00::"));
        assert!(!has("10.0.0.0/31", "10.0.0.1") && !has("10.0.0.0/32", "10.0.0.0"));
        assert!(has("255.255.255.0/24", "255.255.255.254") && !has("255.255.255.0/24", "255.255.255.255"));
    }

    #[test]
    fn ranges_cover_those_with_longer_prefixes_in_them() {
        let covers = |one: &str, other: &str| range(one).covers(&range(other));
        assert!(covers("10.0.0.0/8", "10.1.0.0/16") && covers("10.0.0.0/8", "10.0.0.0/8"));
        assert!(covers("0.0.0.0/0", "10.0.0.0/8") && covers("fd00::/8", "fd12::/64"));
        assert!(!covers("10.1.0.0/16", "10.0.0.0/8") && !covers("10.0.0.0/16", "10.1.0.0/16"));
        assert!(!covers("0.0.0.0/0", "fd00::/64") && !covers("::/0", "10.0.0.0/8"));
    }

    #[test]
    fn upper_part_comes_before_the_lower_one() {
        // 32 addresses: 30 are usable, the first 16 of them in the lower part.
        let all = candidates("10.0.0.0/27", 3);
        assert_eq!(all.len(), 30);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 30);
        let (upper, lower) = all.split_at(14);
        assert_eq!(
            (upper[0].as_str(), upper[10].as_str(), upper[11].as_str()),
            ("10.0.0.20", "10.0.0.30", "10.0.0.17")
        );
        assert_eq!(
            (lower[0].as_str(), lower[12].as_str(), lower[13].as_str()),
            ("10.0.0.4", "10.0.0.16", "10.0.0.1")
        );
    }

    #[test]
    fn lower_part_grows_with_the_range() {
        // What is tried first, if the random number is zero.
        for (text, first) in [
            ("10.0.0.0/28", "10.0.0.1"),
            ("10.0.0.0/27", "10.0.0.17"),
            ("10.0.0.0/24", "10.0.0.17"),
            ("10.0.0.0/22", "10.0.0.65"),
            ("10.0.0.0/16", "10.0.1.1"),
            ("fd00::/120", "fd00::11"),
            ("fd00::/64", "fd00::101"),
        ] {
            let tried = range(text).candidates(|_| 0).next().unwrap();
            assert_eq!(tried.to_string(), first, "{text}");
        }
        assert!(candidates("10.0.0.0/31", 0).is_empty());
        assert!(candidates("10.0.0.0/32", 0).is_empty());
    }
}
