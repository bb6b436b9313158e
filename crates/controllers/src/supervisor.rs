//! Runs controllers, and starts those again that fail.

use crate::task::Task;
use crate::{CONTROLLERS, Context, Controller, Leadership, Selection, Settings};
use registry::Registry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The pause before a controller is started again, the first time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause; a controller that ran as long starts with the first one again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What became of a controller's work so far.
#[derive(Debug, Default)]
pub struct Counters {
    done: AtomicU64,
    failed: AtomicU64,
    restarts: AtomicU64,
}

impl Counters {
    /// The steps that were done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// The steps that failed.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// How often it was started again.
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
}

impl Supervisor {
    /// The selected controllers.
    pub fn new(registry: &Arc<Registry>, selection: &Selection, settings: Settings) -> Self {
        let settings = Arc::new(settings);
        let selected = CONTROLLERS.iter().filter(|controller| selection.runs(controller));
        let context = |controller: &'static Controller| {
            (controller, Context::new(registry, controller, settings.clone(), Arc::default()))
        };
        Self { controllers: selected.map(context).collect() }
    }

    /// What became of the work of each.
    pub fn counters(&self) -> Vec<(&'static str, Arc<Counters>)> {
        self.controllers
            .iter()
            .map(|(controller, context)| (controller.name, context.counters.clone()))
            .collect()
    }

    /// Runs them whenever this server leads, until `stop`.
    pub async fn run(mut self, leadership: Leadership, stop: impl Future<Output = ()>) {
        if self.controllers.is_empty() {
            return;
        }
        let term = leadership.term();
        self.controllers.iter_mut().for_each(|(_, context)| context.term = term.clone());
        let start = || {
            let tasks = self.controllers.iter();
            tasks
                .map(|(controller, context)| Task::spawn(keep(controller, context.clone())))
                .collect::<Vec<_>>()
        };
        leadership.lead(start, stop).await;
    }
}

/// Runs a controller, again and again if it fails.
async fn keep(controller: &'static Controller, context: Context) {
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        let Err(error) = Task::spawn((controller.run)(context.clone())).join().await else { return };
        if error.is_cancelled() {
            return;
        }
        if began.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        context.counters.restarts.fetch_add(1, Ordering::Relaxed);
        log::error!(controller = controller.name, error:%, seconds = pause.as_secs(); "a controller failed and is started again");
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
