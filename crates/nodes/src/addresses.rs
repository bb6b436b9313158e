//! Addresses of nodes and pods. Nothing can be reached there; they only have to be valid and unique.

use std::collections::HashMap;
use std::net::Ipv4Addr;

/// Where the ranges of nodes that the server makes begin: `10.128.0.0/9`.
const RANGES: u32 = u32::from_be_bytes([10, 128, 0, 0]);
const RANGES_SIZE: u32 = 1 << 23;
/// Where addresses of pods are from whose node has no range: `10.64.0.0/10`.
const SHARED: Range = Range { first: u32::from_be_bytes([10, 64, 0, 0]), size: 1 << 22 };
/// Where the addresses of nodes begin: `172.16.0.0/12`.
const NODES: u32 = u32::from_be_bytes([172, 16, 0, 0]);
const NODES_SIZE: u32 = 1 << 20;

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    first: u32,
    size: u32,
}

impl Range {
    /// The range with a number, for nodes with so many pods; `None` if there are not as many ranges.
    pub(crate) fn of_node(number: usize, pods: u32) -> Option<Self> {
        // The first and the last address of a range are nobody's.
        let size = pods.checked_add(2)?.checked_next_power_of_two()?.max(256);
        let offset = u32::try_from(number).ok()?.checked_mul(size)?;
        let fits = offset.checked_add(size)? <= RANGES_SIZE;
        fits.then_some(Self { first: RANGES + offset, size })
    }

    /// Reads `10.0.0.0/24`; `None` for anything else, such as a range of IPv6.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let (address, length): (Ipv4Addr, u32) = (address.parse().ok()?, length.parse().ok()?);
        let size = 1_u32.checked_shl(32_u32.checked_sub(length)?)?;
        let first = u32::from(address) & !(size - 1);
        (size > 2).then_some(Self { first, size })
    }

    /// The range as it is written in a node.
    pub(crate) fn text(self) -> String {
        format!("{}/{}", Ipv4Addr::from(self.first), 32 - self.size.trailing_zeros())
    }
}

/// The address of a node that the server plays, by the place of its name among all.
pub(crate) fn of_node(number: usize) -> Ipv4Addr {
    let number = u32::try_from(number).unwrap_or_default() % (NODES_SIZE - 2);
    Ipv4Addr::from(NODES + 1 + number)
}

/// The addresses of pods.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// The addresses that are taken, with the uids of the pods.
    taken: HashMap<Ipv4Addr, String>,
    /// Where to look next in each range.
    next: HashMap<u32, u32>,
    /// The addresses by the uids of the pods.
    by_pod: HashMap<String, Ipv4Addr>,
}

impl Pool {
    /// Notes that a pod has an address.
    pub(crate) fn note(&mut self, uid: &str, address: Ipv4Addr) {
        self.taken.insert(address, uid.to_owned());
        self.by_pod.insert(uid.to_owned(), address);
    }

    /// The address of a pod, or a free one of a range; of the shared range if the node has none or it is
    /// full.
    pub(crate) fn take(&mut self, uid: &str, range: Option<Range>) -> Option<Ipv4Addr> {
        if let Some(known) = self.by_pod.get(uid) {
            return Some(*known);
        }
        let address = range.and_then(|range| self.free(range)).or_else(|| self.free(SHARED))?;
        self.note(uid, address);
        Some(address)
    }

    /// Frees the address of a pod that is gone.
    pub(crate) fn release(&mut self, uid: &str) {
        if let Some(address) = self.by_pod.remove(uid) {
            self.taken.remove(&address);
        }
    }

    fn free(&mut self, range: Range) -> Option<Ipv4Addr> {
        let usable = range.size - 2;
        let start = self.next.get(&range.first).copied().unwrap_or_default();
        for step in 0..usable {
            let offset = (start + step) % usable;
            let address = Ipv4Addr::from(range.first + 1 + offset);
            if !self.taken.contains_key(&address) {
                self.next.insert(range.first, offset + 1);
                return Some(address);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_ranges_that_do_not_meet() {
        let text = |number, pods| Range::of_node(number, pods).map(Range::text);
        assert_eq!(text(0, 250).as_deref(), Some("10.128.0.0/24"));
        assert_eq!(text(1, 250).as_deref(), Some("10.128.1.0/24"));
        assert_eq!(text(1, 1_000).as_deref(), Some("10.128.4.0/22"));
        assert_eq!(text(32_767, 250).as_deref(), Some("10.255.255.0/24"));
        assert_eq!(text(32_768, 250), None);
        assert_eq!(text(0, u32::MAX), None);
        assert_eq!(Range::parse("10.128.1.0/24"), Range::of_node(1, 250));
        assert_eq!(Range::parse("10.1.2.3/24").map(Range::text).as_deref(), Some("10.1.2.0/24"));
        for wrong in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/32", "10.0.0.0/0", "fd00::/64"] {
            assert_eq!(Range::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn pods_have_addresses_that_nobody_else_has() {
        let mut pool = Pool::default();
        let range = Range::parse("10.0.0.0/30");
        assert_eq!(pool.take("a", range), Some([10, 0, 0, 1].into()));
        assert_eq!(pool.take("a", range), Some([10, 0, 0, 1].into()));
        assert_eq!(pool.take("b", range), Some([10, 0, 0, 2].into()));
        assert_eq!(pool.take("c", range), Some([10, 64, 0, 1].into()), "the range is full");
        pool.release("a");
        assert_eq!(pool.take("d", range), Some([10, 0, 0, 1].into()));
        assert_eq!(pool.take("e", None), Some([10, 64, 0, 2].into()));
    }
}
