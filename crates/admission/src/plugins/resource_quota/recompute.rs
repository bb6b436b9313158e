//! What is really used of the quotas of a namespace, counted from its objects.
//!
//! Writes that are under way count as well: for their objects, the most that any of the states uses that they
//! are in or may come to. Only what is left by writes that were given up, and by objects that are gone, is
//! taken away.

use super::super::resource_list::{ResourceList, count};
use super::evaluator::Evaluator;
use super::quota::Quota;
use super::quotas::{Namespace, Pending, Quotas};
use crate::Write;
use cache::{Cache, Entry, Filter, Freshness, Query, Scoped};
use object::time::MicroTime;
use object::{Map, Text};
use schema::Status;
use schema::stored;
use schema::view::View as _;
use schema::views::core::v1::ResourceQuota;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// How often a correction is tried if other writers are faster.
const ATTEMPTS: usize = 4;
/// How long it takes at most until a type is found that was not there before.
const TYPES: Duration = Duration::from_secs(300);
/// After how many objects other tasks may run.
const OBJECTS: usize = 64;

impl Quotas {
    /// The namespaces that have quotas.
    pub fn namespaces(&self) -> BTreeSet<Text> {
        self.shared().known.all().iter().map(|quota| quota.namespace.as_str().into()).collect()
    }

    /// Where the objects that quotas count are in the cache: `pods`, `deployments.apps`.
    pub fn counted(&self) -> BTreeSet<String> {
        let quotas = self.shared().known.all();
        let names: BTreeSet<&str> = quotas.iter().flat_map(|quota| quota.wanted.names()).collect();
        let evaluators = Evaluator::counting(&names, self.gates());
        evaluators.iter().map(|evaluator| evaluator.prefix().to_owned()).collect()
    }

    /// Whether a change of a quota makes a correction necessary: it is new, is gone, or asks for other
    /// limits.
    pub fn is_redefined(before: Option<&Entry>, after: Option<&Entry>) -> bool {
        let limits = |entry: &Entry| {
            let object = stored::logged(entry, stored::decode(ResourceQuota::schema(), entry.bytes()))?;
            Some(Quota::read(&object).wanted)
        };
        match (before, after) {
            (Some(before), Some(after)) => limits(before) != limits(after),
            _ => true,
        }
    }

    /// Whether a quota of a namespace counts objects of another API server (`widgets.example.com`) by their
    /// number.
    pub fn counts_elsewhere(&self, prefix: &str, namespace: &str) -> bool {
        let (resource, group) = prefix.split_once('.').unwrap_or((prefix, ""));
        let Some(evaluator) = Evaluator::of(group, resource, self.gates()) else { return false };
        self.shared().known.in_namespace(namespace).iter().any(|quota| is_counting(quota, &evaluator))
    }

    /// Whether a change of an object changes what is used of quotas, other than by what was charged for it.
    pub fn is_replenished(&self, before: &Entry, after: Option<&Entry>) -> bool {
        let prefix = before.spec().prefix();
        let (resource, group) = prefix.split_once('.').unwrap_or((prefix, ""));
        let Some(evaluator) = Evaluator::of(group, resource, self.gates()) else { return false };
        let quotas = self.shared().known.in_namespace(before.namespace());
        let mut quotas = quotas.iter().filter(|quota| is_counting(quota, &evaluator)).peekable();
        if quotas.peek().is_none() {
            return false;
        }
        let (Some(ty), Some(after)) = (evaluator.ty(), after) else { return after.is_none() };
        let read = |entry: &Entry| stored::logged(entry, stored::decode(ty, entry.bytes()));
        let (Some(old), Some(new)) = (read(before), read(after)) else { return true };
        evaluator.ends_at(&old) != evaluator.ends_at(&new)
            || evaluator.usage(&old) != evaluator.usage(&new)
            || quotas.any(|quota| {
                evaluator.is_in_all(&old, &quota.scopes) != evaluator.is_in_all(&new, &quota.scopes)
            })
    }

    /// Corrects what the quotas of a namespace say is used of them, and the limits that hold. Tells when to
    /// do so again, if that is necessary without a change.
    pub async fn recompute(
        &self,
        cache: &Cache,
        namespace: &str,
        writer: &dyn Write,
    ) -> Result<Option<Duration>, Status> {
        let charging = self.namespace(namespace);
        let _turn = charging.turn().await;
        let mut outcome = Ok(None);
        for _ in 0..ATTEMPTS {
            outcome = self.correct(cache, namespace, &charging, writer).await;
            if !outcome.as_ref().is_err_and(|error| error.code == 409) {
                break;
            }
        }
        outcome
    }

    async fn correct(
        &self,
        cache: &Cache,
        namespace: &str,
        charging: &Namespace,
        writer: &dyn Write,
    ) -> Result<Option<Duration>, Status> {
        let quotas = self.shared().known.in_namespace(namespace);
        let names: BTreeSet<&str> = quotas.iter().flat_map(|quota| quota.wanted.names()).collect();
        let evaluators = Evaluator::counting(&names, self.gates());
        let mut counting = Counting {
            // Before the objects are looked at: what is committed meanwhile is in both.
            under_way: charging.under_way(),
            used: quotas.iter().map(|_| ResourceList::default()).collect(),
            quotas,
            again: None,
        };
        for evaluator in &evaluators {
            match self.counted_elsewhere(evaluator.prefix(), namespace) {
                Some(number) if cache.resource(evaluator.prefix()).is_none() => {
                    counting.add_elsewhere(evaluator, number);
                }
                _ => counting.count(cache, namespace, evaluator).await?,
            }
        }
        let Counting { quotas, used, again, .. } = counting;
        for (quota, counted) in quotas.iter().zip(used) {
            // What cannot be counted stays as it is.
            let mut used = quota.used.only(|name| quota.wanted.get(name).is_some());
            for (name, amount) in counted.iter().filter(|(name, _)| quota.wanted.get(name).is_some()) {
                used.set(name, amount.clone());
            }
            if quota.hard != quota.wanted || quota.used != used {
                writer.update_quota_status(quota.with_status(&quota.wanted, &used)).await?;
            }
        }
        Ok(again.map(|at| {
            Duration::from_nanos(u64::try_from(at.since(MicroTime::now()).as_nanos()).unwrap_or(0))
        }))
    }
}

fn is_counting(quota: &Quota, evaluator: &Evaluator) -> bool {
    quota.wanted.names().any(|name| evaluator.counts(name))
}

/// A count of everything that the quotas of a namespace count.
struct Counting {
    quotas: Vec<Arc<Quota>>,
    under_way: Vec<Arc<Pending>>,
    /// For each quota.
    used: Vec<ResourceList>,
    /// When the outcome changes without a write.
    again: Option<MicroTime>,
}

impl Counting {
    /// Adds what the objects of a type use. What cannot be counted is left out.
    async fn count(&mut self, cache: &Cache, namespace: &str, evaluator: &Evaluator) -> Result<(), Status> {
        let resource = cache.resource(evaluator.prefix());
        let Some(resource) = resource.filter(|resource| resource.spec().scoped() == Scoped::Namespaced)
        else {
            self.wake_in(TYPES);
            return Ok(());
        };
        let under_way = self.under_way.clone();
        let mut pending: HashMap<&str, Vec<&Map>> = HashMap::new();
        for write in under_way.iter().filter(|write| write.prefix == evaluator.prefix()) {
            pending.entry(&write.name).or_default().extend(write.object.as_map());
        }
        let query = Query::new(Freshness::Any, Filter::namespace(namespace));
        let list = match resource.list(query).await {
            Ok(list) if list.damaged.is_empty() => list,
            Ok(_) | Err(cache::Error::Removed { .. }) => {
                self.wake_in(TYPES);
                return Ok(());
            }
            Err(error) => return Err(Status::internal_error(&error.to_string())),
        };
        self.begin(evaluator);
        let Some(ty) = evaluator.ty() else {
            let there = list.map(|entry| pending.remove(entry.name())).count();
            self.add_count(evaluator, there + pending.len());
            return Ok(());
        };
        for (at, entry) in list.enumerate() {
            if at % OBJECTS == OBJECTS - 1 {
                tokio::task::yield_now().await;
            }
            let object = stored::decode(ty, entry.bytes()).map_err(|error| {
                Status::internal_error(&format!("unable to decode {}: {error}", entry.key()))
            })?;
            let states = pending.remove(entry.name()).into_iter().flatten();
            let states: Vec<&Map> = states.chain([&object]).collect();
            self.add(evaluator, &states);
        }
        for states in pending.values() {
            self.add(evaluator, states);
        }
        Ok(())
    }

    /// Adds the objects that another API server has.
    fn add_elsewhere(&mut self, evaluator: &Evaluator, number: usize) {
        self.begin(evaluator);
        self.add_count(evaluator, number);
    }

    /// Notes that a type is counted: what is not used of it is zero.
    fn begin(&mut self, evaluator: &Evaluator) {
        for (quota, used) in
            self.quotas.iter().zip(&mut self.used).filter(|(quota, _)| is_counting(quota, evaluator))
        {
            for name in quota.wanted.names().filter(|name| evaluator.counts(name)) {
                used.add_one(name, &count(0));
            }
        }
    }

    /// Adds objects by their number. Quotas with scopes do not count them.
    fn add_count(&mut self, evaluator: &Evaluator, number: usize) {
        for (quota, used) in self.quotas.iter().zip(&mut self.used) {
            if quota.scopes.is_empty() && is_counting(quota, evaluator) {
                used.add(&evaluator.usage_of(number));
            }
        }
    }

    /// Adds the most that an object uses in one of these states.
    fn add(&mut self, evaluator: &Evaluator, states: &[&Map]) {
        let usages: Vec<ResourceList> = states.iter().map(|state| evaluator.usage(state)).collect();
        for (quota, used) in self.quotas.iter().zip(&mut self.used) {
            if !is_counting(quota, evaluator) {
                continue;
            }
            let mut most = ResourceList::default();
            for (state, usage) in states.iter().zip(&usages) {
                if evaluator.is_in_all(state, &quota.scopes) == Ok(true) {
                    most.raise(usage);
                }
            }
            used.add(&most);
        }
        let now = MicroTime::now();
        for end in states.iter().filter_map(|state| evaluator.ends_at(state)).filter(|end| *end >= now) {
            self.wake_at(end);
        }
    }

    fn wake_in(&mut self, time: Duration) {
        let nanos = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        if let Some(at) = MicroTime::now().checked_add(object::duration::Duration::from_nanos(nanos)) {
            self.wake_at(at);
        }
    }

    fn wake_at(&mut self, at: MicroTime) {
        self.again = Some(self.again.map_or(at, |again| again.min(at)));
    }
}
