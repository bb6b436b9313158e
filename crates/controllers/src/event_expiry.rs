//! Removes events some time after they were written last: `--event-ttl`.
//!
//! Where objects are in etcd, etcd does this, by a lease of each event, so that it is no request: nothing is
//! asked for permission, admission or finalizers, and watchers see the events go.
//!
//! All events live equally long, so they expire in the order of their revisions. What is kept is which
//! revisions were written until when, in slices of time: a slice begins with a change, and ends after a
//! twentieth of the time to live, at most a minute. An event lives that much longer, as with the leases of
//! the reference, which events share. Between changes this sleeps.
//!
//! While a process runs, the clock of the system plays no part, and that of the server only if a client moves
//! it: the events of a slice that was open then expire by the times in them. Those that are there at
//! its start are as old as the times in them say, compared with the newest of them: the time in which nothing was written does not
//! count, as it does not for the leases of an etcd that starts. So a clock that is wrong at the start, or was
//! when they were written, does not end them all; and none lives for longer than the time to live and a slice
//! after the start.

use clock::{Instant, sleep_until};
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use cache::watch::{Start, WatchOptions};
use cache::{Cache, Change, Entry, Error, Filter, Freshness, Query, Resource};
use object::time::Time;
use schema::stored;
use schema::view::View as _;
use schema::views::core::v1::Event;
use schema::{Builder, Part, Ref, Type};
use store::Revision;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The prefix of the keys of events.
pub const EVENTS: &str = "events";
/// The shortest slice.
const SHORTEST: Duration = Duration::from_millis(100);
/// The longest slice, unless there would be more than [`SLICES`].
const LONGEST: Duration = Duration::from_secs(60);
/// The most slices.
const SLICES: u32 = 1_000;
/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// The most events that are removed at the same time.
const AT_ONCE: usize = 64;

const METADATA: &[Part] = &[Part("creationTimestamp", &[]), Part("managedFields", &[Part("time", &[])])];

/// The fields that are decoded of the events that exist at the start.
static PART: LazyLock<Ref<Type>> =
    LazyLock::new(|| Builder::part_of(Event::schema(), &[Part("metadata", METADATA)]).build());

/// Runs until the process ends.
pub async fn run(cache: Arc<Cache>, time_to_live: Duration) {
    let Some(events) = cache.resource(EVENTS).filter(|_| !time_to_live.is_zero()) else { return };
    let length = (time_to_live / 20).clamp(SHORTEST, LONGEST).max(time_to_live / SLICES);
    let seen = cache.revision();
    let mut expiry =
        Expiry { cache, events, time_to_live, length, seen, open: None, slices: VecDeque::new() };
    let mut outcome = expiry.begin().await;
    loop {
        match outcome {
            Ok(()) => {}
            Err(Error::Closed | Error::Removed { .. }) => return,
            Err(error) => {
                log::error!(error:%; "events could not be removed in time");
                sleep(PAUSE).await;
            }
        }
        outcome = expiry.step().await;
    }
}

/// The events up to a revision, less those of the slices before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    last: Revision,
    expires: Instant,
    /// Whether the clock was moved while the slice was open: the times in the events tell then which of them
    /// have expired.
    is_mixed: bool,
}

struct Expiry {
    cache: Arc<Cache>,
    events: Arc<Resource>,
    time_to_live: Duration,
    /// How long a slice is open.
    length: Duration,
    /// Every event up to here is in a slice.
    seen: Revision,
    /// When the open slice ends.
    open: Option<Instant>,
    /// The slices that have ended, in the order of both revisions and times.
    slices: VecDeque<Slice>,
}

impl Expiry {
    /// Puts the events that are there into slices, by the times in them.
    async fn begin(&mut self) -> Result<(), Error> {
        let mut written = Vec::new();
        for (place, entry) in self.events.list(all()).await?.enumerate() {
            if place % AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
            written.push((entry.mod_revision(), time_of(&entry)));
        }
        written.sort_unstable();
        let now = Time::now().unix();
        let newest = written.iter().map(|(_, time)| time.unix()).max().unwrap_or(now).min(now);
        let mut latest = i64::MIN;
        for (revision, time) in written {
            // A later revision was not written earlier, and none in the future.
            latest = latest.max(time.unix().min(now));
            let age = Duration::from_secs(u64::try_from(newest.saturating_sub(latest)).unwrap_or_default());
            let expires = Instant::now() + self.time_to_live.saturating_sub(age);
            match self.slices.back_mut().filter(|slice| expires <= slice.expires) {
                Some(slice) => slice.last = revision,
                None => self.slices.push_back(Slice {
                    last: revision,
                    expires: expires + self.length,
                    is_mixed: false,
                }),
            }
        }
        Ok(())
    }

    /// Waits for the next thing to do, and does it.
    async fn step(&mut self) -> Result<(), Error> {
        let expires = self.slices.front().map(|slice| slice.expires);
        tokio::select! {
            changed = changed(&self.events, self.seen), if self.open.is_none() => {
                changed?;
                self.open = Some(Instant::now() + self.length);
            }
            () = wait([self.open, expires].into_iter().flatten().min()) => {}
        }
        let now = Instant::now();
        if let Some(end) = self.open.filter(|end| *end <= now) {
            self.open = None;
            // What was applied until now was written until now.
            self.seen = self.cache.revision();
            let is_mixed = now - end > self.length;
            let written = if is_mixed { end } else { now };
            self.slices.push_back(Slice { last: self.seen, expires: written + self.time_to_live, is_mixed });
        }
        if expires.is_some_and(|at| at <= now) {
            self.expire().await?;
        }
        Ok(())
    }

    /// Removes the events of the first slice. Those that were written again meanwhile are in a later one.
    async fn expire(&mut self) -> Result<(), Error> {
        let Some(slice) = self.slices.front().copied() else { return Ok(()) };
        let found = self.events.list(all()).await?.filter(|entry| entry.mod_revision() <= slice.last);
        let now = Time::now();
        let lives = i64::try_from(self.time_to_live.as_secs()).unwrap_or(i64::MAX);
        let is_young =
            |entry: &Arc<Entry>| slice.is_mixed && time_of(entry).unix().saturating_add(lives) > now.unix();
        let (young, expired): (Vec<_>, Vec<_>) = found.partition(is_young);
        let mut removals = JoinSet::new();
        let mut outcome = Ok(());
        for entry in expired {
            if removals.len() >= AT_ONCE
                && let Some(Ok(Err(error))) = removals.join_next().await
            {
                outcome = Err(error);
                break;
            }
            let (cache, events) = (self.cache.clone(), self.events.clone());
            removals.spawn(async move { remove(&cache, &events, &entry).await });
        }
        while let Some(removed) = removals.join_next().await {
            if let Ok(Err(error)) = removed {
                outcome = Err(error);
            }
        }
        if outcome.is_ok() {
            self.slices.pop_front();
            // They belong to the slice after this one.
            if !young.is_empty() && self.slices.is_empty() {
                let expires = Instant::now() + self.time_to_live;
                self.slices.push_back(Slice { last: slice.last, expires, is_mixed: false });
            }
        }
        outcome
    }
}

/// Waits until an event was written after a revision. Changes that are too many to be told one by one are
/// changes.
async fn changed(events: &Arc<Resource>, seen: Revision) -> Result<(), Error> {
    let wait = async { events.watch(WatchOptions::new(Start::After(seen))).await?.next().await.map(drop) };
    match wait.await {
        Err(Error::TooOld { .. }) => Ok(()),
        outcome => outcome,
    }
}

/// Waits until the deadline; forever without one.
async fn wait(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Removes an event that has not changed.
async fn remove(cache: &Cache, events: &Arc<Resource>, entry: &Entry) -> Result<(), Error> {
    let change =
        Change::delete(events, entry.namespace(), entry.name()).expect_revision(entry.mod_revision());
    match cache.commit(change).await {
        Ok(_) | Err(Error::Conflict(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// When an event was written, by what the server noted in it.
fn time_of(entry: &Entry) -> Time {
    let event = stored::decode_part(&PART, entry.bytes()).unwrap_or_default();
    let metadata = Event::of(&event).metadata();
    let managed = metadata.managed_fields();
    let times = managed.iter().filter_map(|fields| fields.time()).chain(metadata.creation_timestamp());
    times.filter_map(|text| text.parse().ok()).max().unwrap_or(Time::ZERO)
}

fn all() -> Query {
    Query::new(Freshness::Any, Filter::all())
}

#[cfg(test)]
mod tests;
