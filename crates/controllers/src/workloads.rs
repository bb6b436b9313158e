//! What the controllers that keep pods share, and those of them that keep replicas: replica sets and
//! replication controllers, deployments, stateful sets, daemon sets.
//!
//! A controller follows its own objects and their dependents ([`following`]), both of which put keys into its
//! queue. A reconciliation asks the index of the dependents ([`dependents`]) what the object controls, adopts
//! and releases ([`claim`]), and writes.
//!
//! 1. **Nothing is expected.** The stock controllers read from informers, which lag behind their own writes,
//!    so they remember what they have written and wait until they see it. Here a write is in the cache
//!    before it is acknowledged, and the index is as new as the cache: the next reconciliation of an object
//!    sees all that the one before has done. A key is reconciled by one step at a time.
//! 2. **A new leader sees what the one before has written.** Each controller begins with a read of the store
//!    ([`catch_up`]).
//! 3. **Events cost no time.** They are written beside the work ([`crate::events::Reporter`]).
//!
//! What is left out of the reference: periodic rounds. What time alone changes, such as the availability of a
//! pod that has to be ready for some time, makes the key due when it changes.

pub(crate) mod claim;
pub(crate) mod daemon_set;
pub(crate) mod dependents;
pub(crate) mod deployment;
pub(crate) mod following;
mod hash;
mod history;
pub(crate) mod node_fit;
pub(crate) mod owner;
pub(crate) mod pod;
pub(crate) mod pods;
pub(crate) mod ranking;
pub(crate) mod replicas;
pub(crate) mod slow_start;
pub(crate) mod stateful_set;
pub(crate) mod status;
#[cfg(test)]
pub(crate) mod testing;

use cache::{Freshness, Resource};

/// Waits until the cache has everything that was written to the types before, by whatever server.
pub(crate) async fn catch_up(resources: &[&Resource]) {
    for resource in resources {
        // A store that cannot be asked makes the writes fail that would be wrong.
        if let Err(error) = resource.get("default", "none", Freshness::MostRecent).await {
            log::debug!(resource = resource.spec().prefix(), error:%; "the newest state is not known");
        }
    }
}
