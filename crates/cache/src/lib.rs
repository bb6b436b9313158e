//! Entries, log, indexes, snapshots and watch fan-out on top of any store.
//!
//! The store keeps bytes; this crate keeps what the API reads: for each resource type the objects in the
//! order of their keys, the recent changes, and the watchers. Everything is served as the canonical bytes
//! that were committed: no read decodes an object.
//!
//! # Invariants
//!
//! 1. **Bytes first.** An [`Entry`] is canonical bytes and the places of the few values in them that readers
//!    select by. Other encodings are made once and kept while they are hot ([`Encodings`]).
//! 2. **One log.** A change of a type is in its log once, in the order of revisions; each [`watch::Watcher`]
//!    reads it with its own cursor. There is no queue per watcher.
//! 3. **Committed before visible.** Changes are applied after the store committed them, in its order, under
//!    one lock; a writer is answered after that.
//! 4. **One time for all types.** A revision is announced when every change up to it is applied, whichever
//!    type it belongs to: a quiet type serves the newest revision too.
//! 5. **Readers hold nothing up.** A reader takes a pointer to an immutable state; the writers go on.
//! 6. **Memory is bounded** by the objects themselves, the budget of the logs, the number and age of states
//!    of the past, and the budget of encodings; these budgets can be lowered while it runs.
//! 7. **Damage stays where it is.** An object whose bytes cannot be read is reported by its key; all others
//!    are served. A type whose changes cannot be decrypted without waiting lags alone.
//!
//! # What it leaves to others
//!
//! Kinds, versions and their conversion, continue tokens, the JSON of lists and bookmarks, and which modes of
//! reading a request means: the layers above.

mod apply;
mod cache;
mod commit;
mod cursor;
mod encodings;
mod entry;
mod error;
mod families;
mod filter;
mod follow;
mod fork;
pub mod frame;
mod lag;
mod list;
mod load;
mod log;
mod memory;
mod open;
mod options;
mod progress;
mod record;
mod resource;
mod scan;
mod snapshots;
mod spec;
#[cfg(test)]
mod testing;
mod tree;
mod view;
mod waking;
pub mod watch;

pub use cache::Cache;
pub use commit::{Change, Committed};
pub use cursor::{Cursor, Update};
pub use encodings::{Encoding, EncodingStats, Encodings};
pub use entry::{Entry, Fit, Form};
pub use error::{Conflict, Error, Invalid};
pub use families::register_families;
pub use filter::Filter;
pub use fork::Snapshot;
pub use list::{Freshness, List, Mode, Query};
pub use memory::CacheMemory;
pub use options::CacheOptions;
pub use resource::{Resource, Stats};
pub use spec::{Field, InvalidPrefix, Scoped, Spec};
