//! The contract as tests: one suite that every store runs, and a model checker for concurrent histories.
//!
//! A store supplies a [`Harness`]; [`contract_tests!`](crate::contract_tests) makes a test of each guarantee.
//! Nothing here knows how a store lays out its data.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this module is test code")]

mod intercepted;
pub mod model;
mod sparse;
pub mod suite;

pub use intercepted::Intercepted;
pub use sparse::Sparse;

use crate::{
    Batch, Change, ChangeKind, Entry, Error, Event, Follow, Follower, Health, Key, Previous, Revision, Store,
    Unreadable, backup, embedded::Filling, waiting,
};
use bytes::Bytes;
use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// What the suite asks of the store under test.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// For how long history is kept.
    pub retention: Duration,
    /// Whether the window of recent events is as small as it can be, so that followers need history.
    pub window: Window,
}

/// How many recent events a store should keep in memory for followers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// What it keeps by default.
    Usual,
    /// As few as possible.
    Tiny,
}

impl Default for Setup {
    fn default() -> Self {
        Self { retention: Duration::from_secs(3600), window: Window::Usual }
    }
}

/// A store under test, with the operations of its environment.
pub trait Harness: Send {
    /// The running store.
    fn store(&self) -> Arc<dyn Store>;

    /// Ends the store and starts it again on the same data; `false` if the store does not keep data.
    fn restart(&mut self) -> bool;

    /// Starts another store from a backup.
    fn restore(&mut self, backup: &Path) -> Result<Arc<dyn Store>, Error>;

    /// Whether the store makes revisions without a commit, such as those of notes about its compactions.
    fn has_revisions_of_its_own(&self) -> bool {
        false
    }

    /// A directory for files of the test.
    fn scratch(&self) -> PathBuf;
}

/// Makes one `#[tokio::test]` for each guarantee; the argument is a function from [`Setup`] to `Box<dyn
/// Harness>`.
#[macro_export]
macro_rules! contract_tests {
    ($factory:path) => {
        $crate::contract_tests!(@each $factory:
            increasing, consistent, atomic, ordered, reliable, resumable, resumable_from_any_revision, resumable_after_restart,
            bookmarkable, filtered, create_only_refuses_an_existing_key, expected_revision_is_compared,
            one_of_many_conditional_writes_wins, a_delete_of_an_absent_key_is_a_conflict, a_conflict_carries_the_current_entry,
            an_entry_remembers_its_creation, outcomes_and_events_carry_the_previous_entry, loads_are_exact,
            loads_during_writes_are_exact, loads_of_many_are_exact, loads_can_be_stopped, gets_are_current,
            revisions_after_the_newest_are_refused, compaction_ends_history, history_expires_after_the_retention,
            a_follower_older_than_history_gets_compacted, backups_restore, backups_do_not_overwrite, oversize_is_refused,
            a_restart_keeps_everything, a_closed_store_says_so, a_dropped_commit_happens_or_never_does,
            changed_resolves_when_there_is_more_to_follow, try_next_returns_changes_that_are_in_memory,
            try_next_loses_nothing_that_has_to_be_read,
        );
    };
    (@each $factory:path: $($name:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::contract::suite::$name(&|setup| $factory(setup)).await;
            }
        )*
    };
}

/// Makes a harness.
pub type Factory<'a> = &'a (dyn Fn(Setup) -> Box<dyn Harness> + Sync);

/// A key for a test.
#[must_use]
pub fn key(text: &str) -> Key {
    Key::try_from(text).expect("a test's key is valid")
}

/// Commits many changes, as many at once as every store takes.
pub async fn commit_all(store: &Arc<dyn Store>, changes: impl IntoIterator<Item = Change>) {
    let (mut commits, mut bytes) = (Vec::new(), 0);
    let mut changes = changes.into_iter().peekable();
    while let Some(change) = changes.next() {
        bytes += waiting::size(&change);
        commits.push(store.commit(change));
        if bytes > waiting::MOST_BYTES / 8
            || commits.len() > waiting::MOST_CHANGES / 8
            || changes.peek().is_none()
        {
            for commit in commits.drain(..) {
                commit.await.expect("a commit works");
            }
            bytes = 0;
        }
    }
}

/// Makes an embedded store of a backup; its history starts at the backup's revision.
pub fn restore(backup: &Path, path: &Path) -> Result<Revision, Error> {
    let mut filling = Filling::begin(path, &backup.to_string_lossy())?;
    let report = backup::read_file(backup, &mut |entry| filling.add(entry?))?;
    filling.finish(report.revision)?;
    Ok(report.revision)
}

/// Puts a text under a key and returns the revision.
pub async fn put(store: &Arc<dyn Store>, key_text: &str, value: &str) -> Revision {
    store.commit(Change::put(key(key_text), value.to_owned())).await.expect("a put works").revision
}

/// Deletes a key and returns the revision.
pub async fn delete(store: &Arc<dyn Store>, key_text: &str) -> Revision {
    store.commit(Change::delete(key(key_text))).await.expect("the key exists").revision
}

/// Everything under a prefix at a revision.
pub fn load(store: &Arc<dyn Store>, prefix: &str, at: Option<Revision>) -> Result<Loaded, Error> {
    let mut entries = Vec::new();
    let revision = store.load(prefix.as_bytes(), at, &mut |entry| {
        entries.push(entry.expect("nothing is damaged"));
        ControlFlow::Continue(())
    })?;
    Ok(Loaded { entries, revision })
}

/// The answer of [`load`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The entries, in the order they were visited.
    pub entries: Vec<Entry>,
    /// The revision they belong to.
    pub revision: Revision,
}

impl Loaded {
    /// `key=value` for each entry.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        self.entries.iter().map(|e| format!("{}={}", e.key, String::from_utf8_lossy(&e.value))).collect()
    }
}

/// The next batch of a follower, which must come soon.
pub async fn next(follower: &mut Box<dyn Follower>) -> Result<Batch, Error> {
    tokio::time::timeout(Duration::from_secs(20), follower.next()).await.expect("a batch is due")
}

/// All events after `from` and up to `until`, by a new follower.
pub async fn events(store: &Arc<dyn Store>, follow: Follow, until: Revision) -> Vec<Event> {
    let mut at = follow.from;
    let mut follower = store.follow(follow).expect("history reaches");
    let mut events = Vec::new();
    while at < until {
        let batch = next(&mut follower).await.expect("the follower goes on");
        assert!(batch.revision > at, "a batch makes progress");
        at = batch.revision;
        events.extend(batch.events);
    }
    events
}
