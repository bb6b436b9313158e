//! Which of several servers runs the controllers: the one that holds a Lease.
//!
//! The holder renews the Lease every few seconds. Another server takes it when it is released, or when it has
//! seen no renewal for the Lease's duration, by its own clock: clocks of servers need not agree. A holder
//! that cannot renew ends its controllers before that.
//!
//! 1. Controllers run only within [`DEADLINE`] of the beginning of a successful renewal.
//! 2. Another server waits for [`DURATION`] after it has seen a renewal, which is later than its beginning.
//! 3. A write of the Lease succeeds only if it is as it was read.
//! 4. No step of a controller begins after its [`Term`], also in a process that did not run for a while.

use crate::families::LEADER;
use crate::{EventType, Recorder, Subject};
use auth::SystemIdentity;
use cache::Filter;
use cache::watch::{Start, WatchOptions, Watcher};
use kinds::map_at;
use object::time::MicroTime;
use object::{Map, Value};
use registry::{Address, Client, Registry};
use schema::Status;
use schema::status::Reason;
use schema::view::View as _;
use schema::views::coordination::v1::{Lease, LeaseSpec};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tasks::Task;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// The name of the Lease, in `kube-system`.
const NAME: &str = "keelson-controllers";
const NAMESPACE: &str = "kube-system";
const LEASE: Address<'static> = Address::v1("coordination.k8s.io", "leases", NAMESPACE).named(NAME);
/// Where leases are in the store.
const PREFIX: &str = "leases.coordination.k8s.io";

/// How long a Lease is valid after a renewal.
const DURATION: Duration = Duration::from_secs(15);
/// The time that a holder has for a renewal.
const DEADLINE: Duration = Duration::from_secs(10);
/// The pause between two attempts.
const RETRY: Duration = Duration::from_secs(2);
/// Pauses of servers without the Lease are up to this much longer, so that not all of them ask at the same
/// time.
const JITTER: f64 = 1.2;
/// The duration of a released Lease, in seconds.
const RELEASED: i64 = 1;

/// Whether the controllers of this server run.
pub enum Leadership {
    /// The controllers always run: no other server uses the store.
    Alone,
    /// The controllers run while this server holds the Lease.
    Elected(Box<Election>),
}

/// The election among several servers.
pub struct Election {
    client: Client,
    recorder: Recorder,
    term: Term,
    /// `HOST_UUID`.
    identity: String,
}

/// The time in which this server may run controllers; without an end if it is alone.
#[derive(Clone, Debug, Default)]
pub struct Term(Arc<Mutex<Option<Instant>>>);

impl Term {
    /// Whether the term has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_some_and(|end| Instant::now() >= end)
    }

    /// Extends the term by [`DEADLINE`] from the start of a renewal, and returns the new end.
    pub(crate) fn renew(&self, renewed: Instant) -> Instant {
        let end = renewed + DEADLINE;
        *self.lock() = Some(end);
        end
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last change of the Lease that this server has seen, and when.
#[derive(Default)]
struct Seen {
    spec: Map,
    at: Option<Instant>,
}

/// How a term ended.
enum Ended {
    Stopped,
    Lost,
}

impl Leadership {
    /// The leadership of a server with this host name, over the store of a registry.
    pub fn new(registry: &Arc<Registry>, host: &str) -> Self {
        match registry.cache().store().is_shared() {
            true => Self::Elected(Box::new(Election::new(registry, host))),
            false => Self::Alone,
        }
    }

    /// The term in which this server leads.
    pub(crate) fn term(&self) -> Term {
        match self {
            Self::Alone => Term::default(),
            Self::Elected(election) => election.term.clone(),
        }
    }

    /// Keeps the tasks of `start` for as long as this server leads, until `stop`.
    pub(crate) async fn lead(&self, start: impl Fn() -> Vec<Task>, stop: impl Future<Output = ()>) {
        match self {
            Self::Alone => {
                let tasks = start();
                stop.await;
                end(tasks).await;
            }
            Self::Elected(election) => election.lead(start, stop).await,
        }
    }
}

impl Election {
    fn new(registry: &Arc<Registry>, host: &str) -> Self {
        let client = Client::new(registry.clone(), SystemIdentity::ApiServer, NAME);
        let recorder = Recorder::new(client.clone(), NAME);
        Self {
            client,
            recorder,
            term: Term::default(),
            identity: format!("{host}_{}", object::name::random_uid()),
        }
    }

    async fn lead(&self, start: impl Fn() -> Vec<Task>, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut seen = Seen::default();
        let leads = LEADER.with([NAME]);
        loop {
            leads.set(0.0);
            let renewed = tokio::select! {
                () = &mut stop => return,
                renewed = self.acquire(&mut seen) => renewed,
            };
            log::info!(identity = self.identity.as_str(); "this server runs the controllers");
            self.term.renew(renewed);
            leads.set(1.0);
            let tasks = start();
            let ended = {
                let term = async {
                    self.record("became leader").await;
                    std::future::pending::<()>().await;
                };
                tokio::select! {
                    () = &mut stop => Ended::Stopped,
                    () = self.keep(&mut seen, renewed) => Ended::Lost,
                    () = term => Ended::Lost,
                }
            };
            end(tasks).await;
            leads.set(0.0);
            match ended {
                Ended::Stopped => return self.release().await,
                Ended::Lost => {
                    log::warn!(identity = self.identity.as_str(); "another server may run the controllers from now on");
                    // The store may be the reason, so this is not waited for long.
                    let _ = timeout(RETRY, self.record("stopped leading")).await;
                }
            }
        }
    }

    /// Waits until the Lease is this server's, and answers with the beginning of that write.
    async fn acquire(&self, seen: &mut Seen) -> Instant {
        loop {
            let changed = self.changed().await;
            match self.take(seen).await {
                Ok(Some(renewed)) if renewed.elapsed() < DEADLINE => return renewed,
                Ok(_) => {}
                Err(error) => self.log(&error),
            }
            // A Lease that is released changes.
            let pause = RETRY.mul_f64(1.0 + JITTER * fastrand::f64());
            match changed {
                Some(mut changed) => drop(timeout(pause, changed.next()).await),
                None => sleep(pause).await,
            }
        }
    }

    /// Renews the Lease until that does not work any more.
    async fn keep(&self, seen: &mut Seen, mut renewed: Instant) {
        loop {
            let deadline = self.term.renew(renewed);
            let renewal = async {
                loop {
                    sleep(RETRY).await;
                    // After a time in which nothing ran, it is too late.
                    if Instant::now() >= deadline {
                        return None;
                    }
                    match self.take(seen).await {
                        Ok(outcome) => return outcome,
                        Err(error) => self.log(&error),
                    }
                }
            };
            match timeout_at(deadline, renewal).await {
                Ok(Some(again)) if again < deadline => renewed = again,
                _ => return,
            }
        }
    }

    /// Takes or renews the Lease. Answers with the time before the write; `None` if another server has it.
    async fn take(&self, seen: &mut Seen) -> Result<Option<Instant>, Status> {
        let found = match self.client.get(LEASE).await {
            Ok(found) => Some(found),
            Err(error) if error.reason == Reason::NotFound => None,
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        let Some(found) = found else {
            let metadata: Map = [("name", NAME), ("namespace", NAMESPACE)].into_iter().collect();
            let mut lease = Map::new();
            lease.insert("metadata", metadata);
            lease.insert("spec", self.spec(None));
            self.client.create(LEASE, lease.into()).await?;
            return Ok(Some(now));
        };
        let mut lease = found.as_map().cloned().unwrap_or_default();
        let old = lease.get("spec").and_then(Value::as_map).cloned().unwrap_or_default();
        let since = seen.look(&old, now);
        let spec = LeaseSpec::of(&old);
        let holder = spec.holder_identity().unwrap_or_default();
        let seconds = u64::try_from(spec.lease_duration_seconds().unwrap_or_default()).unwrap_or_default();
        let is_valid = since < Duration::from_secs(seconds);
        if !holder.is_empty() && holder != self.identity && is_valid {
            return Ok(None);
        }
        lease.insert("spec", self.spec(Some(spec)));
        self.client.update(LEASE, lease.into()).await?;
        Ok(Some(now))
    }

    /// The spec of the Lease after this server has taken or renewed it.
    fn spec(&self, old: Option<LeaseSpec<'_>>) -> Map {
        let now = MicroTime::from(clock::system()).to_string();
        let transitions = old.and_then(LeaseSpec::lease_transitions).unwrap_or_default();
        let own = old.filter(|old| old.holder_identity() == Some(&self.identity));
        let acquired = own.and_then(LeaseSpec::acquire_time).unwrap_or(&now);
        let is_taken = old.is_some() && own.is_none();
        let mut spec = Map::new();
        spec.insert("holderIdentity", self.identity.as_str());
        spec.insert("leaseDurationSeconds", i64::try_from(DURATION.as_secs()).unwrap_or_default());
        spec.insert("acquireTime", acquired);
        spec.insert("renewTime", now.as_str());
        spec.insert("leaseTransitions", transitions.saturating_add(i64::from(is_taken)));
        spec
    }

    /// Gives the Lease to whichever server asks next.
    async fn release(&self) {
        let free = |lease: &mut Map| {
            let Some(spec) = map_at(lease, "spec") else { return };
            if LeaseSpec::of(spec).holder_identity() != Some(&self.identity) {
                return;
            }
            let now = MicroTime::from(clock::system()).to_string();
            spec.insert("holderIdentity", "");
            spec.insert("leaseDurationSeconds", RELEASED);
            spec.insert("acquireTime", now.as_str());
            spec.insert("renewTime", now.as_str());
        };
        match timeout(RETRY, self.client.modify(LEASE, free)).await {
            Ok(Ok(())) => self.record("stopped leading").await,
            Ok(Err(error)) => self.log(&error),
            Err(_) => {}
        }
    }

    /// Ends with the next change of the Lease; `None` if that cannot be followed.
    async fn changed(&self) -> Option<Watcher> {
        let cache = self.client.registry().cache();
        let filter = Filter { name: Some(NAME.to_owned()), ..Filter::namespace(NAMESPACE) };
        let leases = cache.resource(PREFIX)?;
        leases.watch(WatchOptions::new(Start::After(leases.revision())).filter(filter)).await.ok()
    }

    async fn record(&self, what: &str) {
        let Ok(lease) = self.client.get(LEASE).await else { return };
        let Some(metadata) = lease.as_map().map(|lease| Lease::of(lease).metadata()) else { return };
        let subject = Subject {
            api_version: "coordination.k8s.io/v1".to_owned(),
            kind: "Lease".to_owned(),
            namespace: NAMESPACE.to_owned(),
            name: NAME.to_owned(),
            uid: metadata.uid().to_owned(),
            resource_version: metadata.resource_version().to_owned(),
        };
        let message = format!("{} {what}", self.identity);
        self.recorder.record(&subject, EventType::Normal, "LeaderElection", &message).await;
    }

    fn log(&self, error: &Status) {
        // Several servers that try at the same time are no fault.
        if !matches!(error.reason, Reason::Conflict | Reason::AlreadyExists) {
            log::warn!(error:% = error.message; "the lease of the controllers cannot be taken or renewed");
        }
    }
}

impl Seen {
    /// How long ago the Lease was first seen as it is.
    fn look(&mut self, spec: &Map, now: Instant) -> Duration {
        let at = match self.at {
            Some(at) if self.spec == *spec => at,
            _ => now,
        };
        *self = Self { spec: spec.clone(), at: Some(at) };
        now.duration_since(at)
    }
}

/// Ends tasks, and waits until none of them runs.
async fn end(tasks: Vec<Task>) {
    for task in tasks {
        task.end().await;
    }
}

#[cfg(test)]
mod tests;
