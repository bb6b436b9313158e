//! Whether a stock component runs: it holds a Lease in `kube-system`. What this server does in its place
//! gives way to it.

use cache::{Entry, Update};
use object::time::MicroTime;
use schema::stored;
use schema::view::View as _;
use schema::views::coordination::v1::Lease;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Where the Leases of stock components are.
pub(crate) const NAMESPACE: &str = "kube-system";
/// How long a Lease without a duration is valid.
const USUAL_DURATION: Duration = Duration::from_secs(15);

/// The Lease of a stock component, as far as it is known. Renewals are timed by the clock of this process,
/// because clocks of machines need not agree. It is the clock that nobody moves: another process does not
/// follow this server's.
#[derive(Debug)]
pub struct StockLease {
    name: &'static str,
    renewed: Option<MicroTime>,
    until: Option<Instant>,
}

impl StockLease {
    /// The Lease with a name, such as `kube-scheduler`, which nobody is known to hold.
    pub fn new(name: &'static str) -> Self {
        Self { name, renewed: None, until: None }
    }

    /// Notes a change of Leases; returns whether it is about this one.
    pub fn update(&mut self, update: &Update<'_>) -> bool {
        let is_this = |entry: &&Arc<Entry>| entry.namespace() == NAMESPACE && entry.name() == self.name;
        match update {
            Update::Reset => *self = Self::new(self.name),
            Update::Change { before, after } if before.iter().chain(after).any(is_this) => {
                self.set(*after);
            }
            Update::Change { .. } => return false,
        }
        true
    }

    /// Notes the newest state of the Lease.
    pub(crate) fn set(&mut self, lease: Option<&Arc<Entry>>) {
        let Some(entry) = lease else {
            *self = Self::new(self.name);
            return;
        };
        let Some(map) = stored::logged(entry, stored::decode(Lease::schema(), entry.bytes())) else { return };
        let spec = Lease::of(&map).spec();
        let renewed: Option<MicroTime> = spec.renew_time().and_then(|time| time.parse().ok());
        if spec.holder_identity().unwrap_or_default().is_empty() {
            *self = Self { renewed, ..Self::new(self.name) };
            return;
        }
        let seconds = spec.lease_duration_seconds().and_then(|seconds| u64::try_from(seconds).ok());
        let duration = seconds.map_or(USUAL_DURATION, Duration::from_secs);
        let is_first = self.renewed.is_none();
        if self.renewed == renewed && !is_first {
            return;
        }
        self.renewed = renewed;
        // A Lease that was left behind by a component of an earlier time has ended already.
        let has_ended = |renewed: MicroTime| {
            let age = MicroTime::from(clock::system()).since(renewed).as_nanos();
            u128::try_from(age).is_ok_and(|age| age > duration.as_nanos())
        };
        let is_old = is_first && renewed.is_none_or(has_ended);
        self.until = (!is_old).then(|| Instant::now() + duration);
    }

    /// Until when the component holds the Lease without another renewal, if it holds it now.
    pub fn held_until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }
}
