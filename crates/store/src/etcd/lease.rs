//! Leases for entries with a lifetime, shared as the reference shares them.
//!
//! A lease is granted for the lifetime and a twentieth more, at most
//! [`EtcdOptions::lease_reuse`](super::Options::lease_reuse). For as long as what is left of it covers the
//! lifetime of a change, the change takes it too, up to
//! [`EtcdOptions::lease_objects`](super::Options::lease_objects) changes. So an entry lives for its lifetime
//! at least.

use super::{failure::Failure, messages::LeaseGrantRequest, shared::Shared};
use std::time::Duration;
use tokio::{sync::Mutex, time::Instant};

/// The lease that was granted last.
#[derive(Default)]
pub(super) struct Leases(Mutex<Option<Lease>>);

struct Lease {
    id: i64,
    expires: Instant,
    objects: usize,
}

impl Leases {
    /// A lease for an entry that is to live for some time.
    pub(super) async fn lease(&self, shared: &Shared, lifetime: Duration) -> Result<i64, Failure> {
        let seconds = (lifetime.as_secs() + u64::from(lifetime.subsec_nanos() > 0)).max(1);
        let lifetime = Duration::from_secs(seconds);
        let extra = Duration::from_secs(seconds / 20).min(shared.options.lease_reuse);
        let mut current = self.0.lock().await;
        let now = Instant::now();
        if let Some(lease) = current.as_mut()
            && lease.covers(now, lifetime, extra)
            && lease.objects < shared.options.lease_objects
        {
            lease.objects += 1;
            return Ok(lease.id);
        }
        let granted = lifetime + extra;
        let request = LeaseGrantRequest { ttl: i64::try_from(granted.as_secs()).unwrap_or(i64::MAX) };
        // A lease without entries ends by itself, so a grant may be made twice.
        let id = shared.client.read(&request).await?.id;
        *current = Some(Lease { id, expires: now + granted, objects: 1 });
        Ok(id)
    }

    /// Forgets a lease that has ended.
    pub(super) async fn forget(&self, id: i64) {
        let mut current = self.0.lock().await;
        if current.as_ref().is_some_and(|lease| lease.id == id) {
            *current = None;
        }
    }
}

impl Lease {
    /// Whether it ends after the lifetime of an entry that is written now, and not much later.
    fn covers(&self, now: Instant, lifetime: Duration, extra: Duration) -> bool {
        now + lifetime < self.expires && self.expires <= now + lifetime + extra
    }
}
