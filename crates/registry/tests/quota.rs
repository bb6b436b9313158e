//! Resource quotas under concurrency: what lives never exceeds them, and nothing stays charged.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use admission::plugins::{
    Builtin, Gates, NamespaceLifecycle, Parts, PluginSettings, Quotas, ResourceQuota, Shared,
};
use admission::{Attributes, Chain, Operation, Plugin, Reservation};
use auth::{Authorizer, SystemIdentity};
use cache::{Cache, Cursor, Entry, Filter, Freshness, Query, Update};
use object::Value;
use registry::{Address, Client, Config, DeleteOptions, PluginWriter, Registry, specs};
use schema::Status;
use store::memory::Memory;
use tasks::Deferred;

const CREATORS: usize = 64;
const PODS: usize = 12;
const CPUS: usize = 24;

/// A plugin that comes after the charge: it takes some time, and refuses one write in five.
struct Moody;

impl Plugin for Moody {
    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Create
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        _object: Option<&'a Value>,
    ) -> Deferred<'a, Result<Option<Reservation>, Status>> {
        if !attributes.is_about("", "pods") {
            return Deferred::Now(Ok(None));
        }
        Deferred::later(async move {
            // Long enough for the namespace to be counted in between.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..8))).await;
            match fastrand::usize(..5) {
                0 => Err(attributes.forbidden(None, "moody")),
                _ => Ok(None),
            }
        })
    }
}

#[derive(Clone)]
struct Server {
    client: Client,
    quotas: Quotas,
}

/// How the requests of all creators ended.
#[derive(Default)]
struct Outcomes {
    created: AtomicUsize,
    exceeded: AtomicUsize,
    moody: AtomicUsize,
    dropped: AtomicUsize,
}

impl Server {
    async fn open(store: Arc<Memory>) -> Self {
        let cache = Cache::open(store, specs().unwrap(), cache::CacheOptions::default());
        let cache = Arc::new(cache.await.unwrap());
        let shared = Shared::new(&cache, Gates::default()).unwrap();
        let quota = ResourceQuota::make(&Parts {
            cache: &cache,
            authorizer: &Authorizer::always_allow(),
            shared: &shared,
            settings: PluginSettings::default(),
            configuration: None,
        });
        let plugins: [Box<dyn Plugin>; 3] = [
            Box::new(NamespaceLifecycle::new(cache.resource("namespaces").unwrap())),
            Box::new(quota.unwrap()),
            Box::new(Moody),
        ];
        let config = Config { admission: Chain::new(plugins), ..Config::new(&cache).unwrap() };
        let registry = Arc::new(Registry::new(cache, config).unwrap());
        shared.writer.connect(Arc::new(PluginWriter::new(&registry)));
        Self { client: Client::new(registry, SystemIdentity::ApiServer, "test"), quotas: shared.quotas }
    }

    async fn create(&self, resource: &str, namespace: &str, text: &str) -> Result<Value, Status> {
        let address = Address::core(resource, namespace);
        let object = self.client.decode(address, text).unwrap();
        self.client.create(address, object).await
    }

    /// A namespace with a quota that holds.
    async fn prepare(&self) {
        self.create("namespaces", "", r#"{"metadata":{"name":"n"}}"#).await.unwrap();
        let quota = format!(
            r#"{{"metadata":{{"name":"q"}},"spec":{{"hard":{{"pods":"{PODS}","requests.cpu":"{CPUS}"}}}}}}"#
        );
        self.create("resourcequotas", "n", &quota).await.unwrap();
        self.recompute().await;
    }

    fn cache(&self) -> &Arc<Cache> {
        self.client.registry().cache()
    }

    async fn recompute(&self) {
        let writer = PluginWriter::new(self.client.registry());
        self.quotas.recompute(self.cache(), "n", &writer).await.unwrap();
    }

    /// Makes and deletes pods, of which some have the names of others, and drops some requests.
    async fn work(self, creator: usize, rounds: usize, outcomes: Arc<Outcomes>) {
        for round in 0..rounds {
            let name = match fastrand::usize(..4) {
                0 => format!("shared-{}", fastrand::usize(..8)),
                _ => format!("pod-{creator}-{round}"),
            };
            let cpus = fastrand::usize(1..=3);
            let pod = format!(
                r#"{{"metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"name":"c","image":"i","resources":{{"requests":{{"cpu":"{cpus}"}}}}}}]}}}}"#
            );
            let server = self.clone();
            let request = tokio::spawn(async move { server.create("pods", "n", &pod).await });
            let abort = request.abort_handle();
            if fastrand::usize(..4) == 0 {
                for _ in 0..fastrand::usize(..12) {
                    tokio::task::yield_now().await;
                }
                abort.abort();
            }
            let outcome = request.await;
            let is_full = matches!(&outcome, Ok(Err(refused)) if refused.message.contains("exceeded quota"));
            match outcome {
                Err(_) => outcomes.dropped.fetch_add(1, Ordering::Relaxed),
                Ok(Ok(_)) => outcomes.created.fetch_add(1, Ordering::Relaxed),
                Ok(Err(refused)) if refused.message.contains("exceeded quota: q") => {
                    outcomes.exceeded.fetch_add(1, Ordering::Relaxed)
                }
                Ok(Err(refused)) if refused.message.ends_with("moody") => {
                    outcomes.moody.fetch_add(1, Ordering::Relaxed)
                }
                Ok(Err(refused)) => {
                    assert!(refused.message.contains("already exists"), "{}", refused.message);
                    0
                }
            };
            // As full as it can be, and never stuck.
            let name = match (is_full, fastrand::usize(..8)) {
                (true, 0) => self.any_pod().await,
                (false, 0) => Some(name),
                _ => None,
            };
            if let Some(name) = name {
                let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
                let deleted = self.client.delete(Address::core("pods", "n").named(&name), &now).await;
                // It may be gone already, and so may the server.
                let code = deleted.as_ref().map_or_else(|error| error.code, |()| 200);
                assert!([200, 404, 503].contains(&code), "{deleted:?}");
            }
        }
    }

    async fn any_pod(&self) -> Option<String> {
        let query = Query::new(Freshness::Any, Filter::namespace("n"));
        let pods: Vec<_> = self.cache().resource("pods").unwrap().list(query).await.unwrap().collect();
        fastrand::choice(&pods).map(|pod| pod.name().to_owned())
    }

    /// Counts again and again, and writes to the quota as another client does.
    async fn disturb(self, ended: Arc<AtomicBool>) {
        let mut round = 0;
        while !ended.load(Ordering::Relaxed) {
            self.recompute().await;
            round += 1;
            let label = |quota: &mut object::Map| {
                let metadata = quota.get_mut("metadata").and_then(Value::as_map_mut).unwrap();
                let labels = metadata.get_or_insert_with("labels", || object::Map::new().into());
                labels.as_map_mut().unwrap().insert("round", round.to_string());
            };
            let labelled = self.client.modify(Address::core("resourcequotas", "n").named("q"), label).await;
            assert!(labelled.as_ref().map_or_else(|error| error.code == 409, |()| true), "{labelled:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until nothing is committed any more.
    async fn settle(&self) {
        let mut quiet = 0;
        let mut last = self.cache().committed();
        while quiet < 20 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let now = self.cache().committed();
            quiet = if now == last { quiet + 1 } else { 0 };
            last = now;
        }
    }

    /// What the quota says is used.
    async fn used(&self) -> (usize, usize) {
        let quota = self.client.get(Address::core("resourcequotas", "n").named("q")).await.unwrap();
        let used = quota.get("status").and_then(|status| status.get("used")).unwrap();
        let amount = |name: &str| used.get(name).and_then(Value::as_str).unwrap().parse().unwrap();
        (amount("pods"), amount("requests.cpu"))
    }
}

/// The pods that count, change by change: those that are on their way out do not.
struct Living {
    cursor: Cursor,
    cpus: HashMap<String, usize>,
    changes: usize,
    resets: usize,
}

impl Living {
    fn new(cache: &Cache) -> Self {
        let cursor = Cursor::new(cache.resource("pods").unwrap());
        Self { cursor, cpus: HashMap::new(), changes: 0, resets: 0 }
    }

    /// Follows the changes, after each of which the pods that live fit into the quota.
    fn check(&mut self) -> (usize, usize) {
        let Self { cursor, cpus, changes, resets } = self;
        cursor.advance(|update| match update {
            Update::Reset => {
                cpus.clear();
                *resets += 1;
            }
            Update::Change { before, after } => {
                *changes += 1;
                match (before, after.filter(|after| !after.is_deleting())) {
                    (_, Some(after)) => {
                        cpus.insert(after.name().to_owned(), cpu(after));
                    }
                    (Some(before), None) => {
                        cpus.remove(before.name());
                    }
                    (None, None) => {}
                }
                let used = cpus.values().sum::<usize>();
                assert!(cpus.len() <= PODS && used <= CPUS, "{} pods with {used} processors", cpus.len());
            }
        });
        (cpus.len(), cpus.values().sum())
    }
}

fn cpu(pod: &Entry) -> usize {
    let pod: serde_json::Value = serde_json::from_slice(pod.bytes()).unwrap();
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].as_str().unwrap().parse().unwrap()
}

/// All creators at once, beside what disturbs them.
async fn storm(server: &Server, rounds: usize) -> (Arc<Outcomes>, Living) {
    let outcomes = Arc::<Outcomes>::default();
    let ended = Arc::<AtomicBool>::default();
    let mut living = Living::new(server.cache());
    living.check();
    let disturber = tokio::spawn(server.clone().disturb(ended.clone()));
    let creators: Vec<_> = (0..CREATORS)
        .map(|creator| tokio::spawn(server.clone().work(creator, rounds, outcomes.clone())))
        .collect();
    for creator in creators {
        while !creator.is_finished() {
            living.check();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        creator.await.unwrap();
    }
    ended.store(true, Ordering::Relaxed);
    disturber.await.unwrap();
    (outcomes, living)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_lives_never_exceeds_the_quota_and_nothing_stays_charged() {
    let server = Server::open(Arc::default()).await;
    server.prepare().await;
    let (outcomes, mut living) = storm(&server, 12).await;
    server.settle().await;
    let live = living.check();
    // The first look at all pods is the only one: every change was seen.
    assert_eq!(living.resets, 1);
    assert!(living.changes > 3 * PODS, "{}", living.changes);
    for (what, number) in [
        ("created", &outcomes.created),
        ("exceeded", &outcomes.exceeded),
        ("refused after the charge", &outcomes.moody),
        ("dropped", &outcomes.dropped),
    ] {
        assert!(number.load(Ordering::Relaxed) > 0, "none were {what}");
    }
    let used = server.used().await;
    assert!(used.0 >= live.0 && used.1 >= live.1, "{used:?} of {live:?}");
    server.recompute().await;
    assert_eq!(server.used().await, live);
}

#[test]
fn what_a_crash_leaves_charged_is_given_back_after_the_restart() {
    let store = Arc::new(Memory::default());
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let first = runtime();
    first.block_on(async {
        let server = Server::open(store.clone()).await;
        server.prepare().await;
        let outcomes = Arc::<Outcomes>::default();
        for creator in 0..CREATORS {
            tokio::spawn(server.clone().work(creator, 1_000, outcomes.clone()));
        }
        while outcomes.created.load(Ordering::Relaxed) < PODS
            || outcomes.moody.load(Ordering::Relaxed) + outcomes.dropped.load(Ordering::Relaxed) < 4
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if outcomes.exceeded.load(Ordering::Relaxed) > CREATORS {
                // Room for more: deletes alone give nothing back.
                server.recompute().await;
            }
        }
    });
    // In the middle of everything.
    first.shutdown_timeout(Duration::from_secs(10));
    runtime().block_on(async {
        let server = Server::open(store).await;
        let mut living = Living::new(server.cache());
        let live = living.check();
        server.recompute().await;
        assert_eq!(server.used().await, live);
        let (_, mut living) = storm(&server, 2).await;
        server.settle().await;
        let live = living.check();
        server.recompute().await;
        assert_eq!(server.used().await, live);
    });
}
