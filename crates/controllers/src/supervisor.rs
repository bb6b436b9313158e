//! Runs controllers, and starts those again that fail.

use crate::give_way::StockManager;
use crate::{CONTROLLERS, Context, Controller, ControllerSettings, Leadership, Selection, Stores};
use registry::Registry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tasks::{Ended, Name, Task};
use tokio::sync::watch;

/// How many reconciliations of a controller succeeded and failed, and how often the controller was restarted.
#[derive(Debug, Default)]
pub struct Counters {
    done: AtomicU64,
    failed: AtomicU64,
    restarts: AtomicU64,
}

impl Counters {
    /// The reconciliations that succeeded.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// The reconciliations that failed.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// How often the controller was started again after a panic.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    pub(crate) fn count_done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }
}

/// The controllers of a server.
pub struct Supervisor {
    controllers: Vec<(&'static Controller, Context)>,
    others: Vec<Start>,
}

/// Starts something that runs until its task is dropped.
type Start = Box<dyn Fn() -> Task + Send + Sync>;

impl Supervisor {
    /// The selected controllers.
    pub fn new(registry: &Arc<Registry>, selection: &Selection, settings: ControllerSettings) -> Self {
        let settings = Arc::new(settings);
        let store = registry.cache().store().clone();
        let selected = CONTROLLERS.iter().filter(|controller| selection.runs_over(controller, &*store));
        let context = |controller: &'static Controller| {
            (controller, Context::new(registry, controller, settings.clone(), Arc::default()))
        };
        Self { controllers: selected.map(context).collect(), others: Vec::new() }
    }

    /// Something else that only one of several servers runs, such as a scheduler.
    #[must_use]
    pub fn and(mut self, start: impl Fn() -> Task + Send + Sync + 'static) -> Self {
        self.others.push(Box::new(start));
        self
    }

    /// The counters of each controller, by its name.
    pub fn counters(&self) -> Vec<(&'static str, Arc<Counters>)> {
        self.controllers
            .iter()
            .map(|(controller, context)| (controller.name, context.counters.clone()))
            .collect()
    }

    /// Runs the controllers while this server leads, until `stop`.
    pub async fn run(mut self, leadership: Leadership, stop: impl Future<Output = ()>) {
        if self.controllers.is_empty() && self.others.is_empty() {
            return;
        }
        let term = leadership.term();
        self.controllers.iter_mut().for_each(|(_, context)| context.term = term.clone());
        let (leadership, controllers) = (Arc::new(leadership), Arc::new(self.controllers));
        let others = Arc::new(self.others);
        let (stopping, stopped) = watch::channel(());
        let leading = tasks::spawn(Name::ControllerLeadership, move || {
            let (leadership, controllers) = (leadership.clone(), controllers.clone());
            let others = others.clone();
            let mut stopped = stopped.clone();
            async move {
                let start = || {
                    let manager = controllers.first().map(|(_, context)| StockManager::watch(context));
                    let controllers =
                        controllers.iter().map(|(it, context)| keep(it, context.clone(), manager.clone()));
                    controllers.chain(others.iter().map(|start| start())).collect()
                };
                leadership.lead(start, async { drop(stopped.changed().await) }).await;
                Ended::Done
            }
        });
        stop.await;
        drop(stopping);
        leading.join().await;
    }
}

/// Runs a controller, again and again if it fails.
fn keep(controller: &'static Controller, context: Context, manager: Option<StockManager>) -> Task {
    let mut is_again = false;
    tasks::spawn(Name::Controller, move || {
        if std::mem::replace(&mut is_again, true) {
            context.counters.restarts.fetch_add(1, Ordering::Relaxed);
            log::error!(controller = controller.name; "a controller failed and is started again");
        }
        let (context, manager) = (context.clone(), manager.clone());
        async move {
            match manager.filter(|_| controller.stores == Stores::Own) {
                Some(manager) => manager.give_way(|| (controller.run)(context.clone())).await,
                None => (controller.run)(context).await,
            }
            Ended::Done
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use std::time::Duration;
    use tasks::faults::{Fault, inject};
    use tokio::sync::oneshot;
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn controllers_and_their_leadership_go_on_after_a_panic_and_end_when_they_should() {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        static ENDED: AtomicU64 = AtomicU64::new(0);
        struct Ending;
        impl Drop for Ending {
            fn drop(&mut self) {
                ENDED.fetch_add(1, Ordering::SeqCst);
            }
        }
        static CONTROLLER: Controller = Controller {
            name: "a",
            alias: "b",
            account: "c",
            stores: crate::Stores::All,
            run: |_| {
                Box::pin(async {
                    RUNS.fetch_add(1, Ordering::SeqCst);
                    let _ending = Ending;
                    std::future::pending().await
                })
            },
        };
        let ran = || (RUNS.load(Ordering::SeqCst), ENDED.load(Ordering::SeqCst));
        let fixture = Fixture::new().await;
        let counters = Arc::<Counters>::default();
        let context = fixture.context(&CONTROLLER, counters.clone());
        let supervisor = Supervisor { controllers: vec![(&CONTROLLER, context)], others: Vec::new() };
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(supervisor.run(Leadership::Alone, async { drop(stopped.await) }));
        sleep(Duration::from_millis(1)).await;
        assert_eq!((ran(), counters.restarts()), ((1, 0), 0));

        assert_eq!(inject(Name::Controller, Fault::Panic), 1);
        sleep(Duration::from_secs(2)).await;
        assert_eq!((ran(), counters.restarts()), ((2, 1), 1));

        assert_eq!(inject(Name::ControllerLeadership, Fault::Panic), 1);
        sleep(Duration::from_secs(2)).await;
        assert_eq!(ran(), (3, 2), "a leadership that failed takes its controllers with it");

        stop.send(()).unwrap();
        running.await.unwrap();
        assert_eq!(ran(), (3, 3));
    }
}
