//! The options about services, as the flags of a server give them.

use std::net::Ipv4Addr;

use allocation::{AddressRange, Family, PortRange};

/// The flags about what services are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceOptions {
    /// The addresses of the default family.
    pub range: AddressRange,
    /// The addresses of the other family, if services can have two.
    pub secondary_range: Option<AddressRange>,
    /// The node ports.
    pub node_ports: PortRange,
    /// The node port of the service `kubernetes`; zero for none.
    pub own_node_port: u16,
    /// Whether the endpoints of the service `kubernetes` are kept.
    pub keeps_endpoints: bool,
    /// Whether the ranges may have any number of addresses: the gate `DisableAllocatorDualWrite`.
    pub has_ranges_of_any_size: bool,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            range: ServiceOptions::RANGE,
            secondary_range: None,
            node_ports: PortRange::default(),
            own_node_port: 0,
            keeps_endpoints: true,
            has_ranges_of_any_size: false,
        }
    }
}

impl ServiceOptions {
    /// The addresses if none are given.
    const RANGE: AddressRange = AddressRange::v4(Ipv4Addr::new(10, 0, 0, 0), 24);
    /// The most bits that the addresses of a range may differ in, unless ranges may have any size.
    const MOST_BITS: u8 = 20;
    /// The least bits: eight addresses.
    const LEAST_BITS: u8 = 3;

    /// The names of the address families, that of the default addresses first.
    pub fn families(&self) -> [&'static str; 2] {
        let first = Family::of(self.range.base());
        [first.name(), first.other().name()]
    }

    /// Reads one range, or two of different families, as in `10.0.0.0/16,fd00::/112`.
    pub fn set_ranges(&mut self, text: &str) -> Result<(), String> {
        let mut ranges = Vec::new();
        for text in text.split(',') {
            let range = AddressRange::parse(text.trim())
                .filter(|range| range.host_bits() >= Self::LEAST_BITS)
                .ok_or("not a range of at least eight addresses, such as 10.0.0.0/16")?;
            ranges.push(range);
        }
        (self.range, self.secondary_range) = match ranges.as_slice() {
            [range] => (*range, None),
            [first, second] if first.family() != second.family() => (*first, Some(*second)),
            [_, _] => {
                return Err("--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family".into());
            }
            _ => return Err("--service-cluster-ip-range must not contain more than two entries".into()),
        };
        Ok(())
    }

    /// All ranges.
    pub fn ranges(&self) -> impl Iterator<Item = AddressRange> {
        [Some(self.range), self.secondary_range].into_iter().flatten()
    }

    /// Checks values that depend on each other; the errors are those of the reference.
    pub fn check(&self) -> Result<(), String> {
        let is_too_large = |range: &AddressRange| range.host_bits() > Self::MOST_BITS;
        let too_large = self.ranges().zip(["", "[1]"]).find(|(range, _)| is_too_large(range));
        if let (Some((range, flag)), false) = (too_large, self.has_ranges_of_any_size) {
            let width = if range.base().is_ipv4() { 32 } else { 128 };
            let least = width - Self::MOST_BITS;
            return Err(format!(
                "specified --service-cluster-ip-range{flag} is too large; for {width}-bit addresses, the mask must be >= {least}"
            ));
        }
        let port = self.own_node_port;
        if port != 0 && !self.node_ports.contains(port) {
            return Err(format!(
                "kubernetes service node port range {} doesn't contain {port}",
                self.node_ports
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_ranges_are_one_or_two_of_different_families() {
        let read = |text: &str| {
            let mut options = ServiceOptions::default();
            options
                .set_ranges(text)
                .map(|()| options.ranges().map(|range| range.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(read("10.96.7.9/12,fd00::/108").unwrap(), ["10.96.0.0/12", "fd00::/108"]);
        assert_eq!(read("fd00::7/108").unwrap(), ["fd00::/108"]);
        for bad in ["", "10.0.0.0", "10.0.0.0/31", "x/8", "10.0.0.0/40", "fd00::/127"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        for (bad, why) in [
            (
                "10.0.0.0/16,10.1.0.0/16",
                "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family",
            ),
            (
                "10.0.0.0/16,fd00::/112,10.1.0.0/16",
                "--service-cluster-ip-range must not contain more than two entries",
            ),
        ] {
            assert_eq!(read(bad).unwrap_err(), why);
        }
    }

    #[test]
    fn service_ranges_have_twenty_bits_unless_they_may_have_any_size() {
        let check = |text: &str, has_ranges_of_any_size| {
            let mut options = ServiceOptions { has_ranges_of_any_size, ..ServiceOptions::default() };
            options.set_ranges(text)?;
            options.check()
        };
        for (text, why) in [
            (
                "10.0.0.0/8",
                "specified --service-cluster-ip-range is too large; for 32-bit addresses, the mask must be >= 12",
            ),
            (
                "2001:db8::/64",
                "specified --service-cluster-ip-range is too large; for 128-bit addresses, the mask must be >= 108",
            ),
            (
                "10.0.0.0/16,fd00::/64",
                "specified --service-cluster-ip-range[1] is too large; for 128-bit addresses, the mask must be >= 108",
            ),
        ] {
            assert_eq!(check(text, false).unwrap_err(), why);
            assert_eq!(check(text, true), Ok(()), "{text}");
        }
    }

    #[test]
    fn own_node_port_is_in_the_range_of_node_ports() {
        let port = ServiceOptions { own_node_port: 80, ..ServiceOptions::default() };
        assert_eq!(
            port.check().unwrap_err(),
            "kubernetes service node port range 30000-32767 doesn't contain 80"
        );
    }
}
