//! Gives way to a stock controller manager: the controllers of workloads do not run while one holds its
//! Lease, because two that make the same pods would make too many.

use crate::Context;
use crate::stock::{NAMESPACE, StockLease};
use cache::watch::{Start, WatchOptions, resubscribe_after};
use cache::{Error, Filter, Resource};
use std::sync::{Arc, Mutex, PoisonError};
use tasks::{BoxFuture, Ended, Name, Task};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The Lease of the stock controller manager.
const NAME: &str = "kube-controller-manager";
const PREFIX: &str = "leases.coordination.k8s.io";

/// Whether a stock controller manager is at work.
#[derive(Clone)]
pub(crate) struct StockManager {
    is_active: watch::Receiver<bool>,
    /// Ends with the last clone.
    _task: Option<Arc<Task>>,
}

impl StockManager {
    /// Watches the Lease.
    pub(crate) fn watch(context: &Context) -> Self {
        let (sender, is_active) = watch::channel(false);
        let Some(leases) = context.resource(PREFIX) else { return Self { is_active, _task: None } };
        let seen = Arc::new(Mutex::new(StockLease::new(NAME)));
        look(&leases, &seen, &sender);
        let sender = Arc::new(sender);
        let task = tasks::spawn(Name::ControllerGiveWay, move || {
            let (leases, seen, sender) = (leases.clone(), seen.clone(), sender.clone());
            async move {
                while resubscribe_after(PREFIX, follow(&leases, &seen, &sender).await).await {}
                Ended::Done
            }
        });
        Self { is_active, _task: Some(Arc::new(task)) }
    }

    /// Runs a controller whenever no stock controller manager is at work, until the controller ends by
    /// itself.
    pub(crate) async fn give_way(self, run: impl Fn() -> BoxFuture<'static, ()>) {
        let mut is_active = self.is_active.clone();
        loop {
            // Without a sender nothing changes any more.
            if is_active.wait_for(|is_active| !is_active).await.is_err() {
                return run().await;
            }
            tokio::select! {
                () = run() => return,
                Ok(_) = is_active.wait_for(|is_active| *is_active) => {}
            }
        }
    }
}

async fn follow(
    leases: &Arc<Resource>,
    seen: &Mutex<StockLease>,
    sender: &watch::Sender<bool>,
) -> Result<(), Error> {
    let filter = Filter { name: Some(NAME.to_owned()), ..Filter::namespace(NAMESPACE) };
    let options = WatchOptions::new(Start::After(leases.revision())).filter(filter);
    let mut watcher = leases.watch(options).await?;
    loop {
        match look(leases, seen, sender) {
            None => drop(watcher.next().await?),
            Some(end) => tokio::select! {
                changed = watcher.next() => drop(changed?),
                () = sleep_until(end) => {}
            },
        }
    }
}

/// Looks at the Lease. Gives the time at which it ends, if it is held.
fn look(leases: &Resource, seen: &Mutex<StockLease>, sender: &watch::Sender<bool>) -> Option<Instant> {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.set(leases.lookup(NAMESPACE, NAME).ok().flatten().as_ref());
    let until = seen.held_until(Instant::now());
    sender.send_if_modified(|is_active| {
        let was_active = std::mem::replace(is_active, until.is_some());
        if was_active != *is_active {
            log::info!(is_active = *is_active; "the controllers of workloads give way to a stock controller manager while it holds its lease");
        }
        was_active != *is_active
    });
    until
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use object::time::MicroTime;
    use registry::Address;
    use std::time::Duration;

    const LEASE: Address<'static> = Address::v1("coordination.k8s.io", "leases", NAMESPACE);

    impl Fixture {
        async fn renew(&self, holder: &str, ago: i64) {
            let renewed = MicroTime::from_unix(MicroTime::now().unix() - ago, 0);
            let text = format!(
                r#"{{"metadata":{{"name":"{NAME}"}},"spec":{{"holderIdentity":"{holder}","leaseDurationSeconds":15,"renewTime":"{renewed}"}}}}"#
            );
            match self.lookup(PREFIX, NAMESPACE, NAME) {
                None => drop(self.create(LEASE, &text).await),
                Some(_) => drop(self.merge(LEASE.named(NAME), &text).await),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn controllers_run_while_no_manager_holds_its_lease() {
        let fixture = Fixture::new().await;
        fixture.namespace(NAMESPACE).await;
        // A manager that ended long ago.
        fixture.renew("old", 3600).await;
        let context = fixture.context(&crate::GARBAGE_COLLECTOR, Arc::default());
        let manager = StockManager::watch(&context);
        let (running, runs) = watch::channel(false);
        let running = Arc::new(running);
        let controller = tokio::spawn(manager.clone().give_way(move || {
            struct Run(Arc<watch::Sender<bool>>);
            impl Drop for Run {
                fn drop(&mut self) {
                    self.0.send_replace(false);
                }
            }
            let run = Run(running.clone());
            Box::pin(async move {
                run.0.send_replace(true);
                std::future::pending().await
            })
        }));
        let is_running = async |expected: bool| {
            fixture.until(&format!("running: {expected}"), async || *runs.borrow() == expected).await;
        };
        is_running(true).await;
        fixture.renew("manager", 0).await;
        is_running(false).await;
        for second in 1..=3 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            fixture.renew("manager", second).await;
            assert!(!*runs.borrow());
        }
        // It ends without a word.
        tokio::time::sleep(Duration::from_secs(14)).await;
        assert!(!*runs.borrow());
        is_running(true).await;
        // It comes back, and releases the lease.
        fixture.renew("manager", 0).await;
        is_running(false).await;
        fixture.renew("", 0).await;
        is_running(true).await;
        controller.abort();
        // A server that starts meanwhile sees the one that is there.
        fixture.renew("manager", 1).await;
        assert!(*StockManager::watch(&context).is_active.borrow());
    }
}
