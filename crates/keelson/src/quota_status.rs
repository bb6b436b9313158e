//! The controller `resourcequota-controller`: keeps what resource quotas say is used of them true.
//!
//! Admission charges quotas, and never gives anything back. This loop counts what the objects of a namespace use, with the writes that
//! are under way, and corrects the quotas of the namespace: at the start, which repairs what a crash left; when a quota is made, is
//! removed or asks for other limits; when an object that a quota counts is removed, ends or uses something else; and some time after
//! a write was charged and given up. Between those it sleeps.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use admission::Write;
use admission::plugins::Quotas;
use cache::watch::{Request, Start};
use cache::{Cache, Cursor, Entry, Update};
use object::Text;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

/// Its name in `--controllers` and in managed fields.
pub(crate) const NAME: &str = "resourcequota-controller";
/// Its name in `--controllers` of old.
pub(crate) const ALIAS: &str = "resourcequota";

/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a write that was charged and given up stays charged: the time in which the reference counts all quotas again.
const SYNC_PERIOD: Duration = Duration::from_secs(300);
/// The least time between two rounds, in which changes are collected.
const COLLECT: Duration = Duration::from_millis(20);

/// Whether a change from one state to another makes a namespace due.
type IsDue = fn(&Quotas, Option<&Arc<Entry>>, Option<&Arc<Entry>>) -> bool;

/// Runs until the process ends.
pub(crate) async fn run(cache: Arc<Cache>, quotas: Quotas, writer: impl Write) {
    let due = Arc::new(Due::default());
    let redefined: IsDue =
        |_, before, after| Quotas::is_redefined(before.map(|entry| &**entry), after.map(|entry| &**entry));
    let replenished: IsDue = |quotas, before, after| {
        before.is_some_and(|before| quotas.is_replenished(before, after.map(|entry| &**entry)))
    };
    let follow = |prefix: &str, is_due: IsDue| {
        let mut cursor = Cursor::new(cache.resource(prefix)?);
        // From here on; what was before is counted after this.
        cursor.advance(|_| {});
        let followed = Followed { cursor, cache: cache.clone(), quotas: quotas.clone(), due: due.clone() };
        Some(Task(tokio::spawn(followed.follow(is_due))))
    };
    let _quotas = follow("resourcequotas", redefined);
    let _abandoned = Task(tokio::spawn(await_abandoned(quotas.clone(), due.clone())));
    let mut types: BTreeMap<String, Task> = BTreeMap::new();
    due.add_all(&quotas);
    loop {
        due.wait().await;
        let began = Instant::now();
        let namespaces = due.take(began);
        let counted = quotas.counted();
        types.retain(|prefix, task| counted.contains(prefix) && !task.0.is_finished());
        for prefix in counted {
            if !types.contains_key(&prefix)
                && let Some(task) = follow(&prefix, replenished)
            {
                types.insert(prefix, task);
            }
        }
        for namespace in namespaces {
            match quotas.recompute(&cache, &namespace, &writer).await {
                Ok(None) => {}
                Ok(Some(later)) => due.add(&namespace, Instant::now() + later),
                Err(_) if cache.is_closed() => return,
                Err(error) => {
                    log::error!(namespace = namespace.as_str(), error:% = error.message; "the quotas of a namespace could not be corrected");
                    due.add(&namespace, Instant::now() + PAUSE);
                }
            }
        }
        // Large namespaces that change all the time take a fifth of a processor at most.
        sleep(COLLECT.max(began.elapsed() * 4)).await;
    }
}

/// Makes namespaces due in which a write was charged and given up.
async fn await_abandoned(quotas: Quotas, due: Arc<Due>) {
    loop {
        for namespace in quotas.abandoned().await {
            due.add(&namespace, Instant::now() + SYNC_PERIOD);
        }
    }
}

/// The objects of a type, for the changes that make namespaces due.
struct Followed {
    cursor: Cursor,
    cache: Arc<Cache>,
    quotas: Quotas,
    due: Arc<Due>,
}

impl Followed {
    /// Follows them until the type is gone or the cache closed.
    async fn follow(mut self, is_due: IsDue) {
        loop {
            let ended = self.watch(is_due).await;
            match ended {
                Ok(()) | Err(cache::Error::TooOld { .. }) => {}
                Err(cache::Error::Closed | cache::Error::Removed { .. }) => return,
                Err(error) => {
                    log::error!(error:%; "objects that quotas count cannot be followed");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn watch(&mut self, is_due: IsDue) -> Result<(), cache::Error> {
        let resource = self.cursor.resource().clone();
        let mut watcher = resource.watch(Request::new(Start::After(self.cache.revision()))).await?;
        loop {
            self.advance(is_due);
            watcher.next().await?;
        }
    }

    fn advance(&mut self, is_due: IsDue) {
        let Self { cursor, quotas, due, .. } = self;
        let now = Instant::now();
        cursor.advance(|update| match update {
            Update::Reset => due.add_all(quotas),
            Update::Change { before, after } => {
                if let Some(entry) = before.or(after)
                    && is_due(quotas, before, after)
                {
                    due.add(entry.namespace(), now);
                }
            }
        });
    }
}

/// A task that ends with its owner.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The namespaces whose quotas are to be corrected, and when.
#[derive(Default)]
struct Due {
    namespaces: Mutex<HashMap<Text, Instant>>,
    added: Notify,
}

impl Due {
    fn add(&self, namespace: &str, at: Instant) {
        let mut namespaces = self.lock();
        let known = namespaces.entry(namespace.into()).or_insert(at);
        *known = at.min(*known);
        self.added.notify_one();
    }

    fn add_all(&self, quotas: &Quotas) {
        let now = Instant::now();
        quotas.namespaces().iter().for_each(|namespace| self.add(namespace, now));
    }

    /// Those whose time has come.
    fn take(&self, now: Instant) -> Vec<Text> {
        self.lock().extract_if(|_, at| *at <= now).map(|(namespace, _)| namespace).collect()
    }

    /// Waits until the time of one has come.
    async fn wait(&self) {
        loop {
            let first = self.lock().values().min().copied();
            match first {
                Some(at) if at <= Instant::now() => return,
                // Either outcome leads to another look.
                Some(at) => drop(timeout_at(at, self.added.notified()).await),
                None => self.added.notified().await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Text, Instant>> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use admission::plugins::{Builtin, Gates, NamespaceLifecycle, Parts, ResourceQuota, Settings, Shared};
    use admission::{Chain, Plugin};
    use auth::{Authorizer, SystemIdentity};
    use object::Value;
    use registry::{Address, Client, DeleteOptions, PluginWriter, Registry};
    use store::memory::Memory;

    struct Fixture {
        client: Client,
        quotas: Quotas,
        _task: Task,
    }

    impl Fixture {
        async fn new(store: Arc<Memory>) -> Self {
            let cache = Cache::open(store, registry::specs().unwrap(), cache::Options::default());
            let cache = Arc::new(cache.await.unwrap());
            let shared = Shared::new(&cache, Gates::default()).unwrap();
            let plugin = ResourceQuota::make(&Parts {
                cache: &cache,
                authorizer: &Authorizer::always_allow(),
                shared: &shared,
                settings: Settings::default(),
                configuration: None,
            });
            let plugins: [Box<dyn Plugin>; 2] = [
                Box::new(NamespaceLifecycle::new(cache.resource("namespaces").unwrap())),
                Box::new(plugin.unwrap()),
            ];
            let config =
                registry::Config { admission: Chain::new(plugins), ..registry::Config::new(&cache).unwrap() };
            let registry = Arc::new(Registry::new(cache.clone(), config).unwrap());
            shared.writer.connect(Arc::new(PluginWriter::new(&registry)));
            let own = PluginWriter::named(&registry, NAME);
            let task = Task(tokio::spawn(run(cache, shared.quotas.clone(), own)));
            Self {
                client: Client::new(registry, SystemIdentity::ApiServer, "test"),
                quotas: shared.quotas,
                _task: task,
            }
        }

        async fn create(&self, resource: &str, text: &str) {
            let namespace = if resource == "namespaces" { "" } else { "n" };
            let address = Address::core(resource, namespace);
            let object = self.client.decode(address, text).unwrap();
            self.client.create(address, object).await.unwrap();
        }

        async fn delete(&self, resource: &str, name: &str) {
            let address = Address::core(resource, "n").named(name);
            let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
            self.client.delete(address, &now).await.unwrap();
        }

        /// Waits until the status of the quota has this text in it.
        async fn until(&self, text: &str) {
            let shown = async || {
                let quota = self.client.get(Address::core("resourcequotas", "n").named("q")).await.unwrap();
                format!("{:?}", quota.get("status").unwrap_or(&Value::Null))
            };
            for _ in 0..1_000 {
                if shown().await.contains(text) {
                    return;
                }
                sleep(Duration::from_millis(50)).await;
            }
            panic!("{} has no {text}", shown().await);
        }

        fn used(&self, amounts: &[(&str, &str)]) -> String {
            let used: object::Map = amounts.iter().copied().collect();
            format!("{:?}", Value::from(used))
        }
    }

    fn pod(name: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"name":"c","image":"i","resources":{{"requests":{{"cpu":"1"}}}}}}]}}}}"#
        )
    }

    const QUOTA: &str = r#"{"metadata":{"name":"q"},"spec":{"hard":{"pods":"4","requests.cpu":"4"}}}"#;

    #[tokio::test(start_paused = true)]
    async fn quotas_are_corrected_when_they_are_made_and_objects_end() {
        let fixture = Fixture::new(Arc::default()).await;
        fixture.create("namespaces", r#"{"metadata":{"name":"n"}}"#).await;
        fixture.create("pods", &pod("old")).await;
        fixture.create("resourcequotas", QUOTA).await;
        fixture.until(&fixture.used(&[("pods", "1"), ("requests.cpu", "1")])).await;
        for name in ["a", "b"] {
            fixture.create("pods", &pod(name)).await;
        }
        fixture.until(&fixture.used(&[("pods", "3"), ("requests.cpu", "3")])).await;
        fixture.delete("pods", "a").await;
        fixture.until(&fixture.used(&[("pods", "2"), ("requests.cpu", "2")])).await;
        let ended = Address::core("pods", "n").named("b").subresource("status");
        let end = |pod: &mut object::Map| {
            let status = pod.get_mut("status").and_then(Value::as_map_mut).unwrap();
            status.insert("phase", "Succeeded");
        };
        fixture.client.modify(ended, end).await.unwrap();
        fixture.until(&fixture.used(&[("pods", "1"), ("requests.cpu", "1")])).await;
        // A type that the quota counts from now on.
        let quota = Address::core("resourcequotas", "n").named("q");
        let count = |quota: &mut object::Map| {
            let spec = quota.get_mut("spec").and_then(Value::as_map_mut).unwrap();
            let hard = spec.get_mut("hard").and_then(Value::as_map_mut).unwrap();
            hard.insert("secrets", "3");
        };
        fixture.create("secrets", r#"{"metadata":{"name":"s"}}"#).await;
        fixture.client.modify(quota, count).await.unwrap();
        fixture.until(&fixture.used(&[("pods", "1"), ("requests.cpu", "1"), ("secrets", "1")])).await;
        fixture.delete("secrets", "s").await;
        fixture.until(&fixture.used(&[("pods", "1"), ("requests.cpu", "1"), ("secrets", "0")])).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_charged_in_vain_is_given_back_in_the_end_and_at_the_start() {
        let store = Arc::new(Memory::default());
        let fixture = Fixture::new(store.clone()).await;
        fixture.create("namespaces", r#"{"metadata":{"name":"n"}}"#).await;
        fixture.create("resourcequotas", QUOTA).await;
        fixture.until(&fixture.used(&[("pods", "0"), ("requests.cpu", "0")])).await;
        fixture.create("pods", &pod("a")).await;
        let began = Instant::now();
        let address = Address::core("pods", "n");
        let again = fixture.client.decode(address, &pod("a")).unwrap();
        assert_eq!(fixture.client.create(address, again).await.unwrap_err().code, 409);
        fixture.until(&fixture.used(&[("pods", "2"), ("requests.cpu", "2")])).await;
        fixture.until_after(began + SYNC_PERIOD / 2, &[("pods", "2"), ("requests.cpu", "2")]).await;
        fixture.until_after(began + SYNC_PERIOD * 2, &[("pods", "1"), ("requests.cpu", "1")]).await;

        let wrong = |quota: &mut object::Map| {
            let status = quota.get_mut("status").and_then(Value::as_map_mut).unwrap();
            let used = status.get_mut("used").and_then(Value::as_map_mut).unwrap();
            used.insert("pods", "4");
        };
        let quota = Address::core("resourcequotas", "n").named("q").subresource("status");
        fixture.client.modify(quota, wrong).await.unwrap();
        assert_eq!(fixture.quotas.namespaces().len(), 1);
        drop(fixture);
        let restarted = Fixture::new(store).await;
        restarted.until(&restarted.used(&[("pods", "1"), ("requests.cpu", "1")])).await;
    }

    impl Fixture {
        /// Waits until a time, and then for what is used.
        async fn until_after(&self, at: Instant, amounts: &[(&str, &str)]) {
            tokio::time::sleep_until(at).await;
            self.until(&self.used(amounts)).await;
        }
    }
}
