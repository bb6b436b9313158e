//! Faults for tests: a [`Media`] that fails, delays or holds chosen writes and syncs.

use crate::embedded::Media;
use std::{
    io,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// A fault that the next operations meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The write fails before anything reaches the disk.
    Write(Cause),
    /// The write reaches the disk, or its buffers, but the sync fails.
    Sync(Cause),
    /// The sync takes this much longer.
    SlowSync(Duration),
    /// The sync does not return before [`Faults::clear`], or another fault: a file system that is frozen, a
    /// disk that does not answer.
    HeldSync,
    /// No more space can be set aside.
    Reserve(Cause),
}

/// Why an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No space left (`ENOSPC`).
    Full,
    /// The device does not answer (`EIO`).
    Broken,
}

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// This many operations.
    Times(u32),
    /// Until [`Faults::clear`].
    UntilCleared,
}

/// A disk that misbehaves on demand.
#[derive(Debug, Default)]
pub struct Faults {
    plan: Mutex<Plan>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Plan {
    fault: Option<(Fault, Lasting)>,
    skip: u32,
    hits: u64,
}

impl Faults {
    /// Applies `fault` from now on, for as long as it lasts; replaces an earlier fault.
    pub fn inject(&self, fault: Fault, lasting: Lasting) {
        self.inject_after(0, fault, lasting);
    }

    /// Like [`Faults::inject`], but lets `skip` matching operations pass first.
    pub fn inject_after(&self, skip: u32, fault: Fault, lasting: Lasting) {
        let mut plan = self.plan();
        plan.fault = Some((fault, lasting));
        plan.skip = skip;
        drop(plan);
        self.changed.notify_all();
    }

    /// Ends the fault.
    pub fn clear(&self) {
        self.plan().fault = None;
        self.changed.notify_all();
    }

    /// How many operations a fault has hit so far.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.plan().hits
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hit(&self, matching: impl Fn(&Fault) -> bool) -> Option<Fault> {
        let mut plan = self.plan();
        let (fault, lasting) = plan.fault.filter(|(fault, _)| matching(fault))?;
        if plan.skip > 0 {
            plan.skip -= 1;
            return None;
        }
        plan.hits += 1;
        plan.fault = match lasting {
            Lasting::UntilCleared => Some((fault, lasting)),
            Lasting::Times(times) => times.checked_sub(2).map(|left| (fault, Lasting::Times(left + 1))),
        };
        Some(fault)
    }
}

impl Media for Faults {
    fn write(&self, _: usize) -> io::Result<()> {
        match self.hit(|fault| matches!(fault, Fault::Write(_))) {
            Some(Fault::Write(cause)) => Err(cause.into()),
            _ => Ok(()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        match self.hit(|fault| matches!(fault, Fault::Sync(_) | Fault::SlowSync(_) | Fault::HeldSync)) {
            Some(Fault::Sync(cause)) => Err(cause.into()),
            Some(Fault::SlowSync(delay)) => {
                thread::sleep(delay);
                Ok(())
            }
            Some(Fault::HeldSync) => {
                let is_held = |plan: &mut Plan| matches!(plan.fault, Some((Fault::HeldSync, _)));
                drop(self.changed.wait_while(self.plan(), is_held));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        match self.hit(|fault| matches!(fault, Fault::Reserve(_))) {
            Some(Fault::Reserve(cause)) => Err(cause.into()),
            _ => Ok(()),
        }
    }
}

impl From<Cause> for io::Error {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Full => Self::new(io::ErrorKind::StorageFull, "no space left on device (injected)"),
            Cause::Broken => Self::other("input/output error (injected)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_skips_hits_and_ends() {
        let faults = Faults::default();
        faults.inject_after(1, Fault::Sync(Cause::Full), Lasting::Times(2));
        let syncs: Vec<bool> = (0..5).map(|_| faults.sync().is_ok()).collect();
        assert_eq!(syncs, [true, false, false, true, true]);
        assert!(faults.write(1).is_ok());
        assert_eq!(faults.hits(), 2);
    }

    #[test]
    fn a_lasting_fault_ends_when_cleared() {
        let faults = Faults::default();
        faults.inject(Fault::Write(Cause::Broken), Lasting::UntilCleared);
        assert!(faults.write(1).is_err());
        assert!(faults.write(1).is_err());
        faults.clear();
        assert!(faults.write(1).is_ok());
    }
}
