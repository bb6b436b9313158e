//! The controller `leader-election-controller`, with the feature gate `CoordinatedLeaderElection`: elects the
//! holder of a Lease among its LeaseCandidates.
//!
//! An election asks each candidate that has not renewed lately (`pingTime`), and waits until the candidate
//! has renewed, for at most [`ELECTION`]. The candidates that have renewed choose: by the strategy
//! `OldestEmulationVersion` the one with the oldest emulation version becomes the holder of the Lease. If
//! the Lease has another holder that is alive, the elected candidate becomes its `preferredHolder`, and the
//! holder makes room. Candidates that have not renewed for [`VALID`] are deleted.

use crate::follow::{StartFrom, follow};
use crate::objects::{decode, unless_changed};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller};
use auth::SystemIdentity;
use cache::{Entry, Update};
use kinds::{map_at, object_meta};
use object::semver::Version;
use object::time::{MicroTime, Time};
use object::{Map, Text, Value};
use registry::{Address, Client, DeleteOptions};
use schema::Status;
use schema::status::Reason;
use schema::view::View as _;
use schema::views::coordination::v1::Lease;
use schema::views::coordination::v1beta1::LeaseCandidate;
use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const CONTROLLER: Controller = Controller {
    name: NAME,
    alias: "leader-election",
    account: NAME,
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

const NAME: &str = "leader-election-controller";
const GROUP: &str = "coordination.k8s.io";
const OLDEST_EMULATION_VERSION: &str = "OldestEmulationVersion";

/// How long a candidate has to answer, and for how long its answer counts.
const ELECTION: Duration = Duration::from_secs(5);
/// How often a Lease with candidates is looked at, because its holder can expire.
const LOOK: Duration = Duration::from_secs(5);
/// How long a candidate counts after it has renewed.
const VALID: Duration = Duration::from_secs(30 * 60);
/// `leaseDurationSeconds` of a Lease with a new holder.
const LEASE_SECONDS: i64 = 5;

/// A Lease, by its namespace and name.
type Key = (Text, Text);

async fn run(context: Context) {
    let registry = context.client.registry();
    let is_on = registry.config().objects.gates.coordinated_leader_election;
    let leases = context.resource("leases.coordination.k8s.io");
    let candidates = context.resource("leasecandidates.coordination.k8s.io");
    let (Some(leases), Some(candidates), true) = (leases, candidates, is_on) else { return };
    if !context.client.serves(candidates_in("")) {
        return;
    }
    let queue: Arc<Queue<Key>> = Arc::default();
    let _leases = follow(leases, StartFrom::State, {
        let queue = queue.clone();
        move |update| {
            if let Update::Change { before, after } = update
                && let Some(lease) = after.or(before)
            {
                queue.add((lease.namespace().into(), lease.name().into()));
            }
        }
    });
    let _candidates = follow(candidates, StartFrom::State, {
        let queue = queue.clone();
        move |update| {
            if let Update::Change { before, after } = update {
                queue.extend(after.or(before).and_then(lease_of));
            }
        }
    });
    // The server itself elects, as in the reference: no role of a controller grants it.
    let client = Client::new(registry.clone(), SystemIdentity::ApiServer, "kube-apiserver");
    queue.work(&context, 5, Arc::new(Elections { client })).await;
}

/// The Lease of a candidate. A candidate that was asked and has not answered counts too: nothing else may
/// ever name its Lease again, and then it would never be deleted.
fn lease_of(entry: &Arc<Entry>) -> Option<Key> {
    let object = decode(LeaseCandidate::schema(), entry).ok()?;
    Some((entry.namespace().into(), Candidate::of(&object).lease.into()))
}

fn candidates_in(namespace: &str) -> Address<'_> {
    Address { version: "v1beta1", ..Address::v1(GROUP, "leasecandidates", namespace) }
}

struct Elections {
    client: Client,
}

impl Reconcile for Elections {
    type Key = Key;

    /// Does the next step of the election of a Lease, if the Lease needs one.
    async fn reconcile(&self, (namespace, name): &Key) -> Result<RequeueAfter, Status> {
        let now = MicroTime::now();
        let objects = self.client.list_objects(candidates_in(namespace)).await?;
        let of_lease = objects.iter().filter_map(Value::as_map).map(Candidate::of);
        let of_lease = of_lease.filter(|candidate| candidate.lease == name.as_str());
        let (old, others): (Vec<_>, Vec<_>) = of_lease.partition(|candidate| candidate.is_old(now));
        for candidate in &old {
            self.delete(candidate).await?;
        }
        let is_empty = others.is_empty();
        let valid: Vec<_> = others.into_iter().filter(|candidate| candidate.renewed.is_some()).collect();
        if valid.is_empty() {
            return Ok((!is_empty).then_some(VALID));
        }
        let address = Address::v1(GROUP, "leases", namespace).named(name);
        let lease = match self.client.get(address).await {
            Err(error) if error.reason == Reason::NotFound => None,
            lease => Some(lease?),
        };
        let lease = lease.as_ref().and_then(Value::as_map);
        match step(&valid, lease, now) {
            Step::Wait => {}
            Step::Ask(candidates) => {
                for candidate in candidates {
                    self.ask(candidate, now).await?;
                }
            }
            Step::Elect { strategy, holder } if lease.is_none() => {
                let mut new = Map::new();
                new.insert(
                    "metadata",
                    Map::from_iter([("name", name.clone()), ("namespace", namespace.clone())]),
                );
                set_holder(&mut new, strategy, holder, now);
                self.client.create(address, new.into()).await?;
            }
            Step::Elect { strategy, holder } => {
                let change = self.client.modify(address, |lease| set_holder(lease, strategy, holder, now));
                unless_changed(change.await)?;
            }
        }
        Ok(Some(LOOK))
    }
}

impl Elections {
    /// Asks a candidate to renew.
    async fn ask(&self, candidate: &Candidate<'_>, now: MicroTime) -> Result<(), Status> {
        let mut object = candidate.object.clone();
        if let Some(spec) = map_at(&mut object, "spec") {
            spec.insert("pingTime", now.to_string());
        }
        let namespace = object_meta::text(candidate.object, "namespace");
        let address = candidates_in(namespace).named(candidate.name);
        unless_changed(self.client.update(address, object.into()).await)
    }

    async fn delete(&self, candidate: &Candidate<'_>) -> Result<(), Status> {
        let namespace = object_meta::text(candidate.object, "namespace");
        let options = DeleteOptions {
            resource_version: Some(object_meta::text(candidate.object, "resourceVersion").to_owned()),
            ..DeleteOptions::default()
        };
        let address = candidates_in(namespace).named(candidate.name);
        unless_changed(self.client.delete(address, &options).await)
    }
}

/// A LeaseCandidate.
struct Candidate<'a> {
    object: &'a Map,
    name: &'a str,
    lease: &'a str,
    strategy: &'a str,
    pinged: Option<MicroTime>,
    renewed: Option<MicroTime>,
    /// None if it is not valid.
    emulation: Option<Version>,
    binary: Option<Version>,
}

impl<'a> Candidate<'a> {
    fn of(object: &'a Map) -> Self {
        let spec = LeaseCandidate::of(object).spec();
        let time = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        Self {
            object,
            name: object_meta::text(object, "name"),
            lease: spec.lease_name(),
            strategy: spec.strategy(),
            pinged: time(spec.ping_time()),
            renewed: time(spec.renew_time()),
            emulation: Version::parse(spec.emulation_version()).ok(),
            binary: Version::parse(spec.binary_version()).ok(),
        }
    }

    /// Whether it has not renewed, or if it never has was not created, within [`VALID`].
    fn is_old(&self, now: MicroTime) -> bool {
        let created = || {
            let time: Time = object_meta::text(self.object, "creationTimestamp").parse().ok()?;
            Some(MicroTime::from_unix(time.unix(), 0))
        };
        self.renewed.or_else(created).is_none_or(|time| is_over(time, VALID, now))
    }

    /// Whether it has renewed within [`ELECTION`].
    fn has_answered(&self, now: MicroTime) -> bool {
        self.renewed.is_some_and(|renewed| !is_over(renewed, ELECTION, now))
    }

    /// The order of election: the best first.
    fn compare(&self, other: &Self) -> Ordering {
        let by = |one: &Option<Version>, other: &Option<Version>| {
            one.partial_cmp(other).unwrap_or(Ordering::Equal)
        };
        let created = |of: &Self| object_meta::text(of.object, "creationTimestamp").to_owned();
        by(&self.emulation, &other.emulation)
            .then(by(&self.binary, &other.binary))
            .then_with(|| created(self).cmp(&created(other)))
    }
}

/// Whether a time span that began is over.
fn is_over(begin: MicroTime, span: Duration, now: MicroTime) -> bool {
    begin.checked_add(span.into()).is_some_and(|end| end <= now)
}

/// What an election does next.
enum Step<'a> {
    /// Nothing: no election is needed, or it waits for answers.
    Wait,
    /// Asks candidates.
    Ask(Vec<&'a Candidate<'a>>),
    /// Sets the holder; none if the strategy is not that of this controller.
    Elect { strategy: &'a str, holder: Option<&'a str> },
}

/// The next step for a Lease, which may not be there yet, with candidates that have all renewed once.
fn step<'a>(candidates: &'a [Candidate<'a>], lease: Option<&Map>, now: MicroTime) -> Step<'a> {
    if !is_needed(candidates, lease, now) {
        return Step::Wait;
    }
    let has_renewed_since = |candidate: &Candidate<'_>| candidate.renewed >= candidate.pinged;
    let silent = candidates.iter().filter(|candidate| !candidate.has_answered(now));
    let is_asked = |candidate: &&Candidate<'_>| {
        let is_recent = candidate.pinged.is_some_and(|pinged| !is_over(pinged, ELECTION, now));
        is_recent && !has_renewed_since(candidate)
    };
    let (asked, silent): (Vec<_>, Vec<_>) = silent.partition(is_asked);
    // A candidate that did not answer when it was asked before is not asked again.
    let ask: Vec<_> = silent.into_iter().filter(|candidate| has_renewed_since(candidate)).collect();
    if !ask.is_empty() {
        return Step::Ask(ask);
    }
    let answered: Vec<_> = candidates.iter().filter(|candidate| candidate.has_answered(now)).collect();
    match strategy_of(&answered) {
        Some(strategy) if asked.is_empty() => {
            let is_own = strategy == OLDEST_EMULATION_VERSION;
            let holder = best(&answered).filter(|_| is_own).map(|candidate| candidate.name);
            Step::Elect { strategy, holder }
        }
        _ => Step::Wait,
    }
}

/// Whether a Lease has no holder that is alive, its candidates have to show that they are, or another
/// candidate would be elected.
fn is_needed(candidates: &[Candidate<'_>], lease: Option<&Map>, now: MicroTime) -> bool {
    let Some(lease) = lease else { return true };
    let holder = Lease::of(lease).spec().holder_identity().unwrap_or_default();
    if holder.is_empty() || is_expired(lease, now) {
        return true;
    }
    let all: Vec<_> = candidates.iter().collect();
    let is_stale = |candidate: &&&Candidate<'_>| {
        candidate.renewed.is_some_and(|renewed| is_over(renewed, VALID / 2, now))
    };
    all.iter().any(|candidate| is_stale(&candidate))
        || strategy_of(&all) == Some(OLDEST_EMULATION_VERSION)
            && best(&all).is_some_and(|best| best.name != holder)
}

fn is_expired(lease: &Map, now: MicroTime) -> bool {
    let spec = Lease::of(lease).spec();
    let renewed = spec.renew_time().and_then(|time| time.parse().ok());
    let seconds = spec.lease_duration_seconds().and_then(|seconds| u64::try_from(seconds).ok());
    renewed.zip(seconds).is_none_or(|(renewed, seconds)| is_over(renewed, Duration::from_secs(seconds), now))
}

/// The strategy of the candidates with the newest binary. None if they differ: nobody is elected then.
fn strategy_of<'a>(candidates: &[&'a Candidate<'a>]) -> Option<&'a str> {
    let (first, rest) = candidates.split_first()?;
    let mut newest = *first;
    for candidate in rest {
        match newest.binary.partial_cmp(&candidate.binary) {
            Some(Ordering::Less) => newest = candidate,
            Some(Ordering::Equal) if newest.strategy != candidate.strategy => {
                log::warn!(lease = newest.lease, candidate = newest.name, other = candidate.name; "candidates of one binary version have different strategies of election");
                return None;
            }
            _ => {}
        }
    }
    Some(newest.strategy)
}

/// The candidate with the oldest emulation version, among those with valid versions.
fn best<'a>(candidates: &[&'a Candidate<'a>]) -> Option<&'a Candidate<'a>> {
    let valid = candidates.iter().filter(|one| one.emulation.is_some() && one.binary.is_some());
    valid.copied().min_by(|one, other| one.compare(other))
}

/// Sets the strategy and the holder of a Lease; the preferred holder, if another holder is alive.
fn set_holder(lease: &mut Map, strategy: &str, holder: Option<&str>, now: MicroTime) {
    let before = Lease::of(lease).spec().holder_identity().unwrap_or_default().to_owned();
    let is_free = before.is_empty() || is_expired(lease, now) && holder != Some(before.as_str());
    let is_new = object_meta::text(lease, "uid").is_empty();
    let spec = lease.get_or_insert_with("spec", || Map::new().into());
    let Some(spec) = spec.as_map_mut() else { return };
    spec.insert("strategy", strategy);
    match holder {
        Some(holder) if is_free => {
            spec.remove("preferredHolder");
            spec.remove("acquireTime");
            spec.insert("holderIdentity", holder);
        }
        Some(holder) if holder != before => drop(spec.insert("preferredHolder", holder)),
        _ => {}
    }
    if is_new || is_free && holder.is_some() {
        spec.insert("renewTime", now.to_string());
        spec.insert("leaseDurationSeconds", LEASE_SECONDS);
    }
}

#[cfg(test)]
mod tests;
