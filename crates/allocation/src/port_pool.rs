//! Which node ports are taken.

use crate::PortRange;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;

/// The node ports: those of services that are committed, and those that writes under way are about to take.
#[derive(Debug)]
pub(crate) struct PortPool {
    range: PortRange,
    /// How many services have a port.
    committed: HashMap<u16, u32>,
    reserved: HashSet<u16>,
}

/// Why there is no port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortError {
    /// All ports are taken.
    Full,
    /// The port is taken.
    Taken,
    /// The port is not in the range.
    NotInRange(PortRange),
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("range is full"),
            Self::Taken => f.write_str("provided port is already allocated"),
            Self::NotInRange(range) => {
                write!(f, "provided port is not in the valid range. The range of valid ports is {range}")
            }
        }
    }
}

/// What is wrong with a node port that a service has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortFault {
    /// The port is not in the range.
    OutOfRange(PortRange),
    /// Other services have the port too.
    Shared,
}

impl PortPool {
    pub(crate) fn new(range: PortRange) -> Self {
        Self { range, committed: HashMap::new(), reserved: HashSet::new() }
    }

    pub(crate) fn range(&self) -> PortRange {
        self.range
    }

    /// The ports of services that are committed, as far as they are in the range.
    pub(crate) fn committed(&self) -> BTreeSet<u16> {
        self.committed.keys().copied().filter(|port| self.range.contains(*port)).collect()
    }

    /// How many ports of the range services have.
    pub(crate) fn taken(&self) -> u32 {
        let taken = self.committed.keys().filter(|port| self.range.contains(**port)).count();
        u32::try_from(taken).unwrap_or(u32::MAX)
    }

    pub(crate) fn is_committed(&self, port: u16) -> bool {
        self.committed.contains_key(&port)
    }

    pub(crate) fn is_taken(&self, port: u16) -> bool {
        self.is_committed(port) || self.reserved.contains(&port)
    }

    /// What is wrong with a port that a service has.
    pub(crate) fn fault(&self, port: u16) -> Option<PortFault> {
        if !self.range.contains(port) {
            return Some(PortFault::OutOfRange(self.range));
        }
        self.committed.get(&port).is_some_and(|count| *count > 1).then_some(PortFault::Shared)
    }

    /// Reserves a port, unless others have it.
    pub(crate) fn reserve(&mut self, port: i64, others: &BTreeSet<u16>) -> Result<u16, PortError> {
        let port = u16::try_from(port).ok().filter(|port| self.range.contains(*port));
        let port = port.ok_or(PortError::NotInRange(self.range))?;
        if self.is_taken(port) || others.contains(&port) {
            return Err(PortError::Taken);
        }
        self.reserved.insert(port);
        Ok(port)
    }

    /// Reserves any port that others do not have. `random` gives a number below another.
    pub(crate) fn reserve_any(
        &mut self,
        others: &BTreeSet<u16>,
        random: impl FnMut(u32) -> u32,
    ) -> Result<u16, PortError> {
        let is_free = |port: &u16| !self.is_taken(*port) && !others.contains(port);
        let free = self.range.candidates(random).find(is_free);
        let port = free.ok_or(PortError::Full)?;
        self.reserved.insert(port);
        Ok(port)
    }

    /// Gives back a port that was reserved, or leaves it to the service that has it now.
    pub(crate) fn release(&mut self, port: u16) {
        self.reserved.remove(&port);
    }

    /// A service has a port.
    pub(crate) fn add(&mut self, port: u16) {
        *self.committed.entry(port).or_default() += 1;
    }

    /// A service does not have a port any more.
    pub(crate) fn remove(&mut self, port: u16) {
        if let Some(count) = self.committed.get_mut(&port) {
            *count -= 1;
            if *count == 0 {
                self.committed.remove(&port);
            }
        }
    }

    /// Forgets the ports of services.
    pub(crate) fn reset(&mut self) {
        self.committed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: BTreeSet<u16> = BTreeSet::new();

    fn pool(range: &str) -> PortPool {
        PortPool::new(PortRange::parse(range).unwrap())
    }

    #[test]
    fn ports_are_given_once() {
        let mut pool = pool("30000-30003");
        assert_eq!(pool.reserve(30001, &NONE), Ok(30001));
        assert_eq!(pool.reserve(30001, &NONE), Err(PortError::Taken));
        pool.add(30002);
        assert_eq!(pool.reserve(30002, &NONE), Err(PortError::Taken));
        for port in [-1, 80, 30004, 99999] {
            let refused = pool.reserve(port, &NONE).unwrap_err();
            assert_eq!(
                refused.to_string(),
                "provided port is not in the valid range. The range of valid ports is 30000-30003"
            );
        }
        assert_eq!(pool.reserve(30000, &[30000].into()), Err(PortError::Taken));
        assert_eq!(pool.reserve_any(&[30000, 30003].into(), |_| 0), Err(PortError::Full));
        let mut rest = [pool.reserve_any(&NONE, |_| 0).unwrap(), pool.reserve_any(&NONE, |_| 0).unwrap()];
        rest.sort_unstable();
        assert_eq!(rest, [30000, 30003]);
        assert_eq!(pool.reserve_any(&NONE, |_| 0), Err(PortError::Full));
    }

    #[test]
    fn port_of_a_committed_write_stays_taken_after_its_reservation() {
        let mut pool = pool("30000-30003");
        assert_eq!(pool.reserve(30000, &NONE), Ok(30000));
        pool.add(30000);
        pool.release(30000);
        assert!(pool.is_taken(30000));
        pool.add(30000);
        pool.remove(30000);
        assert!(pool.is_taken(30000), "two services had it");
        pool.remove(30000);
        assert!(!pool.is_taken(30000));
        pool.remove(30000);
        pool.add(30001);
        assert_eq!(pool.fault(30001), None);
        pool.add(30001);
        assert_eq!(pool.fault(30001), Some(PortFault::Shared));
        assert_eq!(pool.fault(80), Some(PortFault::OutOfRange(pool.range)));
        assert_eq!(pool.reserve(30002, &NONE), Ok(30002));
        pool.reset();
        assert!(!pool.is_taken(30001) && pool.is_taken(30002));
    }
}
