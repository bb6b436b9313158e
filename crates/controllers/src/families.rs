//! The families that work queues count in.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use metrics::{
    Counter, CounterVec, Gauge, GaugeVec, Histogram, HistogramVec, Kind, Observed, Samples, Stability,
};
use tokio::time::Instant;

metrics::families! {
    /// Certificates for a requested time, by the signer.
    pub(crate) static REQUESTED: CounterVec<1> = CounterVec::new(
        "apiserver_certificates_registry_csr_requested_duration_total",
        "Total number of issued CSRs with a requested duration, sliced by signer (only kubernetes.io signer names are specifically identified)",
        Stability::Alpha,
        ["signerName"],
    );
    /// Those that last about as long.
    pub(crate) static HONORED: CounterVec<1> = CounterVec::new(
        "apiserver_certificates_registry_csr_honored_duration_total",
        "Total number of issued CSRs with a requested duration that was honored, sliced by signer (only kubernetes.io signer names are specifically identified)",
        Stability::Alpha,
        ["signerName"],
    );
    /// Whether this server holds the Lease of the controllers.
    pub(crate) static LEADER: GaugeVec<1> = GaugeVec::new(
        "leader_election_master_status",
        "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
        Stability::Alpha,
        ["name"],
    );
    /// Keys that were added to queues.
    pub(crate) static ADDS: CounterVec<1> = CounterVec::new(
        "workqueue_adds_total",
        "Total number of adds handled by workqueue",
        Stability::Alpha,
        ["name"],
    );
    /// Keys that wait.
    pub(crate) static DEPTH: GaugeVec<1> = GaugeVec::new(
        "workqueue_depth",
        "Current depth of workqueue",
        Stability::Alpha,
        ["name"],
    );
    /// Keys that were added again after a failure.
    pub(crate) static RETRIES: CounterVec<1> = CounterVec::new(
        "workqueue_retries_total",
        "Total number of retries handled by workqueue",
        Stability::Alpha,
        ["name"],
    );
    /// How long keys that were due waited.
    pub(crate) static WAITS: HistogramVec<1> = HistogramVec::new(
        "workqueue_queue_duration_seconds",
        "How long in seconds an item stays in workqueue before being requested.",
        Stability::Alpha,
        ["name"],
        &[1e-08, 1e-07, 1e-06, 9.999999999999999e-06, 9.999999999999999e-05, 0.001, 0.01, 0.1, 1.0, 10.0],
    );
    /// How long keys took.
    pub(crate) static WORK: HistogramVec<1> = HistogramVec::new(
        "workqueue_work_duration_seconds",
        "How long in seconds processing an item from workqueue takes.",
        Stability::Alpha,
        ["name"],
        &[1e-08, 1e-07, 1e-06, 9.999999999999999e-06, 9.999999999999999e-05, 0.001, 0.01, 0.1, 1.0, 10.0],
    );
    /// How long the keys that are worked on took so far, of each queue together.
    static UNFINISHED: Observed = Observed::new(
        Kind::Gauge,
        "workqueue_unfinished_work_seconds",
        "How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.",
        Stability::Alpha,
        &["name"],
    );
    /// The longest of them.
    static LONGEST: Observed = Observed::new(
        Kind::Gauge,
        "workqueue_longest_running_processor_seconds",
        "How many seconds has the longest running processor for workqueue been running.",
        Stability::Alpha,
        &["name"],
    );
}

/// The queues whose work is counted.
static QUEUES: Mutex<Vec<(&'static str, Arc<Running>)>> = Mutex::new(Vec::new());

/// When the keys that are worked on were begun.
#[derive(Debug, Default)]
struct Running(Mutex<HashMap<u64, Instant>>);

/// What a queue counts in. Before its controller works, only additions are counted.
#[derive(Debug, Default)]
pub(crate) struct QueueCounts {
    cells: OnceLock<Cells>,
    added_before: AtomicU64,
}

#[derive(Debug)]
struct Cells {
    adds: Arc<Counter>,
    depth: Arc<Gauge>,
    retries: Arc<Counter>,
    waits: Arc<Histogram>,
    work: Arc<Histogram>,
    running: Arc<Running>,
}

impl QueueCounts {
    /// The controller of this name works on the queue.
    pub(crate) fn name(&self, name: &'static str) {
        let cells = self.cells.get_or_init(|| {
            let running = Arc::default();
            let mut queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
            queues.push((name, Arc::clone(&running)));
            Cells {
                adds: ADDS.with([name]),
                depth: DEPTH.with([name]),
                retries: RETRIES.with([name]),
                waits: WAITS.with([name]),
                work: WORK.with([name]),
                running,
            }
        });
        cells.adds.add(self.added_before.swap(0, Ordering::Relaxed));
    }

    /// A key was added; so many wait now.
    pub(crate) fn added(&self, waiting: usize) {
        match self.cells.get() {
            Some(cells) => {
                cells.adds.inc();
                cells.depth.set(number(waiting));
            }
            None => drop(self.added_before.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Work on a key begins: it was due for so long, and so many wait now. Returns the number of the work.
    pub(crate) fn begun(&self, due_for: Duration, waiting: usize) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let work = NEXT.fetch_add(1, Ordering::Relaxed);
        if let Some(cells) = self.cells.get() {
            cells.waits.observe_time(due_for);
            cells.depth.set(number(waiting));
            cells.running.0.lock().unwrap_or_else(PoisonError::into_inner).insert(work, Instant::now());
        }
        work
    }

    /// Work ended, and the key is tried again if it failed.
    pub(crate) fn ended(&self, work: u64, failed: bool) {
        if let Some(cells) = self.cells.get() {
            let begun = cells.running.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&work);
            cells.work.observe_time(begun.map(|begun| begun.elapsed()).unwrap_or_default());
            if failed {
                cells.retries.inc();
            }
        }
    }
}

fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

/// Shows something of the work of each queue.
fn show(samples: &mut Samples<'_, '_>, of: fn(f64, f64) -> f64) {
    let queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for (name, running) in queues {
        let running = running.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = running.values().map(|begun| begun.elapsed().as_secs_f64());
        samples.sample(&[name], seconds.fold(0.0, of));
    }
}

/// Serves the families of this crate.
pub fn register_families() {
    UNFINISHED.observe(|samples| show(samples, |sum, next| sum + next));
    LONGEST.observe(|samples| show(samples, f64::max));
    metrics::MAIN.register(FAMILIES);
}
