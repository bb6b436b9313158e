//! The task that keeps the table: it follows what is stored, and asks the servers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cache::watch::{self, Batch, Item, Start, WatchOptions, Watcher};
use object::Text;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::jobs::{About, Due, Job, Jobs, Outcome};
use crate::table::Table;
use crate::{Aggregation, families};

/// The most questions that are asked at the same time.
const AT_ONCE: usize = 16;
/// When a condition that was changed is looked at again: another server may have written it.
const ANOTHER_LOOK: Duration = Duration::from_secs(1);

impl Aggregation {
    /// Keeps what is known of the servers, until the process ends.
    pub async fn run(self: Arc<Self>) {
        while watch::resubscribe_after("API services", self.follow().await).await {}
    }

    /// Asks the servers, until changes cannot be followed from where they were.
    async fn follow(self: &Arc<Self>) -> Result<(), cache::Error> {
        let watch = async |resource: &Arc<cache::Resource>| {
            resource.watch(WatchOptions::new(Start::After(resource.revision()))).await
        };
        let mut objects = watch(&self.resource).await?;
        let mut services = watch(&self.services).await?;
        let mut endpoints = watch(&self.endpoints).await?;
        let mut jobs = Jobs::default();
        let mut asked: Arc<Table> = Arc::default();
        let mut running: JoinSet<(Job, Outcome)> = JoinSet::new();
        loop {
            self.refresh();
            asked = self.schedule(&mut jobs, &asked);
            let now = Instant::now();
            for due in jobs.take_due(now, AT_ONCE.saturating_sub(running.len())) {
                let aggregation = self.clone();
                running.spawn(async move {
                    let outcome = aggregation.ask(&due).await;
                    (due.job, outcome)
                });
            }
            let next = if running.len() < AT_ONCE { jobs.next() } else { None };
            let has_remotes = asked.has_remotes();
            tokio::select! {
                changed = objects.next() => drop(changed?),
                changed = next_of(&mut services), if has_remotes => check_again(&mut jobs, &asked, &changed?),
                changed = next_of(&mut endpoints), if has_remotes => check_again(&mut jobs, &asked, &changed?),
                Some(done) = running.join_next() => match done {
                    Ok((job, outcome)) => jobs.done(&job, outcome, Instant::now()),
                    // The supervisor of this task logs the panic, and starts it again.
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    Err(_) => {}
                },
                () = sleep_until(next.unwrap_or(now)), if next.is_some() => {}
            }
        }
    }

    /// Makes due what API services that are new or have changed since `before` need; forgets those that are
    /// gone. Returns the table of now.
    fn schedule(&self, jobs: &mut Jobs, before: &Table) -> Arc<Table> {
        let table = self.table();
        let now = Instant::now();
        for remote in table.remotes() {
            let known = before.remote(remote.name());
            if known.is_some_and(|known| Arc::ptr_eq(&known.registration, &remote.registration)) {
                continue;
            }
            let is_own_word = known
                .is_some_and(|known| known.registration.differs_in_availability_alone(&remote.registration));
            for about in About::ALL {
                let job = (about, remote.name().into());
                match about {
                    // Mostly this server wrote it, which asks again after a pause of its own.
                    About::Availability if is_own_word => jobs.add(job, now + ANOTHER_LOOK),
                    _ => jobs.renew(job, now),
                }
            }
        }
        let gone = before.remotes().iter().filter(|remote| table.remote(remote.name()).is_none());
        let mut is_any_gone = false;
        for remote in gone {
            families::forget_availability(remote.name());
            is_any_gone = true;
        }
        if is_any_gone {
            jobs.retain(|name| table.remote(name).is_some());
        }
        self.forget_discoveries();
        table
    }

    async fn ask(self: &Arc<Self>, due: &Due) -> Outcome {
        let (about, name) = &due.job;
        let table = self.table();
        let Some(remote) = table.remote(name) else { return Outcome::Nothing };
        match about {
            About::Availability => self.check(remote).await,
            About::Discovery => {
                self.discover(remote, due.since).await;
                Outcome::Succeeded
            }
            About::OpenApiV2 => self.load_v2(remote).await,
            About::OpenApiV3 => self.load_v3(remote).await,
        }
    }
}

/// The namespaces and names of the objects that change next.
async fn next_of(watcher: &mut Watcher) -> Result<HashSet<(Text, Text)>, cache::Error> {
    let batch: Batch = watcher.next().await?;
    let names = batch.iter().filter_map(|item| match item {
        Item::Event(event) => Some((event.entry.namespace().into(), event.entry.name().into())),
        Item::Bookmark { .. } => None,
    });
    Ok(names.collect())
}

/// Makes due whether the servers behind some services answer.
fn check_again(jobs: &mut Jobs, table: &Table, changed: &HashSet<(Text, Text)>) {
    for remote in table.remotes() {
        let Some(spec) = remote.remote_spec() else { continue };
        let key = (spec.service.namespace.as_str().into(), spec.service.name.as_str().into());
        if changed.contains(&key) {
            jobs.add((About::Availability, remote.name().into()), Instant::now());
        }
    }
}
