//! The controller `resourcequota-controller`: keeps what resource quotas say is used of them true.
//!
//! Admission charges quotas, and never gives anything back. This loop counts what the objects of a namespace
//! use, with the writes that are under way, and corrects the quotas of the namespace: at the start, which
//! repairs what a crash left; when a quota is made, is removed or asks for other limits; when an object that
//! a quota counts is removed, ends or uses something else; and some time after a write was charged and given
//! up. Between those it sleeps.
//!
//! Objects of other API servers are counted too, by their number. Nothing is charged for them here, so that
//! they count a moment after they were made, as far as the mirror of them knows.

use crate::context::FIELD_MANAGER;
use crate::follow::{StartFrom, follow};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller};
use admission::plugins::Quotas;
use aggregation::{Mirror, MirrorChange, Subscription};
use auth::SystemIdentity;
use cache::{Cache, Entry, Update};
use object::Text;
use registry::PluginWriter;
use schema::Status;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tasks::{Name, Task};
use tokio::time::{Instant, sleep};

pub(crate) const CONTROLLER: Controller = Controller {
    name: NAME,
    alias: "resourcequota",
    account: NAME,
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

const NAME: &str = "resourcequota-controller";
/// How long a write that was charged and given up stays charged: the time in which the reference counts all
/// quotas again.
const SYNC_PERIOD: Duration = Duration::from_secs(300);
/// How long changes of a namespace are collected.
const COLLECT: Duration = Duration::from_millis(20);

/// Whether a change from one state to another makes a namespace due.
type IsDue = fn(&Quotas, Option<&Arc<Entry>>, Option<&Arc<Entry>>) -> bool;

async fn run(context: Context) {
    let Some(resource) = context.resource("resourcequotas") else { return };
    let quotas = context.settings.quotas.clone();
    let worker = Arc::new(QuotaStatus {
        cache: context.cache().clone(),
        writer: PluginWriter::named(
            context.client.registry(),
            SystemIdentity::Controller(NAME),
            FIELD_MANAGER,
        ),
        quotas: quotas.clone(),
        queue: Arc::default(),
        types: Mutex::default(),
    });
    let redefined: IsDue =
        |_, before, after| Quotas::is_redefined(before.map(|entry| &**entry), after.map(|entry| &**entry));
    // What was before is counted after this.
    let _quotas = follow(resource, StartFrom::Now, worker.report(redefined));
    let _abandoned = follow_abandoned(&quotas, &worker.queue);
    worker.follow_counted();
    let mirror = context.settings.aggregation.as_ref().map(|servers| servers.mirror(&context.client));
    let _mirrored = mirror.map(|mirror| worker.follow_mirror(&mirror));
    add_all(&worker.queue, &quotas);
    worker.queue.clone().work(&context, 1, worker).await;
}

/// Makes the namespaces due in which a write was charged and given up.
fn follow_abandoned(quotas: &Quotas, queue: &Arc<Queue<Text>>) -> Task {
    let (quotas, queue) = (quotas.clone(), queue.clone());
    let mut is_again = false;
    tasks::spawn(Name::QuotaAbandoned, move || {
        let (quotas, queue) = (quotas.clone(), queue.clone());
        // A run that failed may have taken some namespaces, and not made them due.
        if std::mem::replace(&mut is_again, true) {
            add_all(&queue, &quotas);
        }
        async move {
            loop {
                let abandoned = quotas.abandoned().await;
                abandoned.into_iter().for_each(|namespace| queue.add_after(namespace, SYNC_PERIOD));
            }
        }
    })
}

struct QuotaStatus {
    cache: Arc<Cache>,
    writer: PluginWriter,
    quotas: Quotas,
    /// The namespaces whose quotas are to be corrected.
    queue: Arc<Queue<Text>>,
    /// The types that quotas count, by their prefixes.
    types: Mutex<BTreeMap<String, Task>>,
}

impl QuotaStatus {
    /// The function that adds a namespace to the queue for each change of a type for which `is_due` is true.
    fn report(&self, is_due: IsDue) -> impl FnMut(Update<'_>) + Send + use<> {
        let (quotas, queue) = (self.quotas.clone(), self.queue.clone());
        move |update| match update {
            Update::Reset => add_all(&queue, &quotas),
            Update::Change { before, after } => {
                if let Some(entry) = before.or(after)
                    && is_due(&quotas, before, after)
                {
                    queue.add_after(entry.namespace().into(), COLLECT);
                }
            }
        }
    }

    /// Counts the objects of other API servers, and follows them.
    fn follow_mirror(&self, mirror: &Arc<Mirror>) -> Subscription {
        let known = Arc::downgrade(mirror);
        self.quotas
            .count_elsewhere(Arc::new(move |prefix, namespace| known.upgrade()?.count(prefix, namespace)));
        let (quotas, queue) = (self.quotas.clone(), self.queue.clone());
        mirror.subscribe(move |change| match change {
            MirrorChange::Object { prefix, before, after } if before.is_some() != after.is_some() => {
                let namespace = before.or(after).map(|object| object.names().0).unwrap_or_default();
                if quotas.counts_elsewhere(prefix, namespace) {
                    queue.add_after(namespace.into(), COLLECT);
                }
            }
            MirrorChange::Synced { .. } => add_all(&queue, &quotas),
            MirrorChange::Object { .. } | MirrorChange::Gone { .. } | MirrorChange::Kinds => {}
        })
    }

    /// Follows the types that quotas count now.
    fn follow_counted(&self) {
        let replenished: IsDue = |quotas, before, after| {
            before.is_some_and(|before| quotas.is_replenished(before, after.map(|entry| &**entry)))
        };
        let counted = self.quotas.counted();
        let mut types = self.types.lock().unwrap_or_else(PoisonError::into_inner);
        types.retain(|prefix, task| counted.contains(prefix) && !task.is_finished());
        for prefix in counted {
            if !types.contains_key(&prefix)
                && let Some(resource) = self.cache.resource(&prefix)
            {
                types.insert(prefix, follow(resource, StartFrom::Now, self.report(replenished)));
            }
        }
    }
}

impl Reconcile for QuotaStatus {
    type Key = Text;

    async fn reconcile(&self, namespace: &Text) -> Result<RequeueAfter, Status> {
        self.follow_counted();
        let began = Instant::now();
        let again = self.quotas.recompute(&self.cache, namespace, &self.writer).await?;
        // Large namespaces that change all the time take a fifth of a processor at most.
        sleep(began.elapsed() * 4).await;
        Ok(again)
    }
}

fn add_all(queue: &Queue<Text>, quotas: &Quotas) {
    quotas.namespaces().into_iter().for_each(|namespace| queue.add(namespace));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Running};
    use object::Value;
    use registry::{Address, DeleteOptions};
    use store::memory::Memory;

    async fn start(store: Arc<Memory>) -> (Fixture, Running) {
        let fixture = Fixture::over(store).await;
        let running = fixture.start(&CONTROLLER);
        (fixture, running)
    }

    impl Fixture {
        async fn make(&self, resource: &str, text: &str) {
            self.create(Address::core(resource, "n"), text).await;
        }

        async fn delete(&self, resource: &str, name: &str) {
            let address = Address::core(resource, "n").named(name);
            let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
            self.client.delete(address, &now).await.unwrap();
        }

        /// Waits until the status of the quota says that so much is used.
        async fn until_used(&self, amounts: &[(&str, &str)]) {
            let used: object::Map = amounts.iter().copied().collect();
            let used = format!("{:?}", Value::from(used));
            self.until(&used, async || {
                let quota = self.client.get(Address::core("resourcequotas", "n").named("q")).await.unwrap();
                format!("{:?}", quota.get("status").unwrap_or(&Value::Null)).contains(&used)
            })
            .await;
        }

        /// Waits until a time, and then for what is used.
        async fn until_used_after(&self, at: Instant, amounts: &[(&str, &str)]) {
            tokio::time::sleep_until(at).await;
            self.until_used(amounts).await;
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
        let (fixture, _running) = start(Arc::default()).await;
        fixture.namespace("n").await;
        fixture.make("pods", &pod("old")).await;
        fixture.make("resourcequotas", QUOTA).await;
        fixture.until_used(&[("pods", "1"), ("requests.cpu", "1")]).await;
        for name in ["a", "b"] {
            fixture.make("pods", &pod(name)).await;
        }
        fixture.until_used(&[("pods", "3"), ("requests.cpu", "3")]).await;
        fixture.delete("pods", "a").await;
        fixture.until_used(&[("pods", "2"), ("requests.cpu", "2")]).await;
        let ended = Address::core("pods", "n").named("b").subresource("status");
        let end = |pod: &mut object::Map| {
            let status = pod.get_mut("status").and_then(Value::as_map_mut).unwrap();
            status.insert("phase", "Succeeded");
        };
        fixture.client.modify(ended, end).await.unwrap();
        fixture.until_used(&[("pods", "1"), ("requests.cpu", "1")]).await;
        // A type that the quota counts from now on.
        let quota = Address::core("resourcequotas", "n").named("q");
        let count = |quota: &mut object::Map| {
            let spec = quota.get_mut("spec").and_then(Value::as_map_mut).unwrap();
            let hard = spec.get_mut("hard").and_then(Value::as_map_mut).unwrap();
            hard.insert("secrets", "3");
        };
        fixture.make("secrets", r#"{"metadata":{"name":"s"}}"#).await;
        fixture.client.modify(quota, count).await.unwrap();
        fixture.until_used(&[("pods", "1"), ("requests.cpu", "1"), ("secrets", "1")]).await;
        fixture.delete("secrets", "s").await;
        fixture.until_used(&[("pods", "1"), ("requests.cpu", "1"), ("secrets", "0")]).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_charged_in_vain_is_given_back_in_the_end_and_at_the_start() {
        let store = Arc::new(Memory::default());
        let (fixture, running) = start(store.clone()).await;
        fixture.namespace("n").await;
        fixture.make("resourcequotas", QUOTA).await;
        fixture.until_used(&[("pods", "0"), ("requests.cpu", "0")]).await;
        fixture.make("pods", &pod("a")).await;
        let began = Instant::now();
        let address = Address::core("pods", "n");
        let again = fixture.client.decode(address, &pod("a")).unwrap();
        assert_eq!(fixture.client.create(address, again).await.unwrap_err().code, 409);
        fixture.until_used(&[("pods", "2"), ("requests.cpu", "2")]).await;
        fixture.until_used_after(began + SYNC_PERIOD / 2, &[("pods", "2"), ("requests.cpu", "2")]).await;
        fixture.until_used_after(began + SYNC_PERIOD * 2, &[("pods", "1"), ("requests.cpu", "1")]).await;

        let wrong = |quota: &mut object::Map| {
            let status = quota.get_mut("status").and_then(Value::as_map_mut).unwrap();
            let used = status.get_mut("used").and_then(Value::as_map_mut).unwrap();
            used.insert("pods", "4");
        };
        let quota = Address::core("resourcequotas", "n").named("q").subresource("status");
        fixture.client.modify(quota, wrong).await.unwrap();
        drop((fixture, running));
        let (restarted, _running) = start(store).await;
        restarted.until_used(&[("pods", "1"), ("requests.cpu", "1")]).await;
    }
}
