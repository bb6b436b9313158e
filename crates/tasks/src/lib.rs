//! Supervision of everything that runs beside requests: loops that follow changes, keep files, renew leases,
//! compact history.
//!
//! 1. **Failed tasks are restarted.** A task that panics, or ends before it is dropped, is logged by its name
//!    and started again after a pause that grows from one second to a minute. A run of a minute resets the
//!    count of failures.
//! 2. **Health shows failing tasks.** After [`FAILURES_SHOWN`] failures in a row, [`failing`] names the task
//!    until it has run for a minute again; the health endpoint of its row fails meanwhile ([`Counts`]).
//! 3. **One list.** A task has a [`Name`], and the names are one table. Tests go through it with the module
//!    of the feature `faults`, so that a new task is tried too.
//! 4. **A task ends with its owner**: with its [`Task`], with its [`Group`], or with the runtime.
//!
//! A restarted task begins from the newest state: it keeps nothing that it could not read again. Work that
//! belongs to one request or one connection, and ends with it, is run [once]: if it panics, its request
//! fails.

mod blocking;
mod deferred;
mod files;
mod group;
mod table;

#[cfg(feature = "faults")]
pub mod faults;

pub use blocking::off_worker;
pub use deferred::{BoxFuture, Deferred};
pub use files::{Contents, PolledFiles};
pub use group::Group;
pub use table::{Counts, Name};

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// The pause before a task is started again, the first time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause; a task that ran as long has recovered.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// After this many failures in a row, the health check fails.
pub const FAILURES_SHOWN: u32 = 3;

/// A supervised task. Dropping it ends the task.
#[derive(Debug)]
#[must_use = "a task ends when this is dropped; `detach` lets it run for as long as the runtime"]
pub struct Task(Option<JoinHandle<()>>);

/// How one run of a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The task has nothing left to do, and is not started again.
    Done,
    /// The task should have gone on, and is started again.
    Early,
}

/// The failures in a row of the runs of one name, by the number of the task.
type Failures = HashMap<u64, Failure>;

#[derive(Clone, Debug)]
struct Failure {
    name: Name,
    /// The number of the group of the task; 0 for a task of the process.
    group: u64,
    count: u32,
    cause: String,
}

static FAILURES: Mutex<Option<(u64, Failures)>> = Mutex::new(None);

/// Runs `work`, and runs it again whenever it panics or ends [early](Ended::Early). `work` is called for each
/// run. It belongs to the [`Group`] of the caller. Needs a runtime.
pub fn spawn<F>(name: Name, work: impl FnMut() -> F + Send + 'static) -> Task
where
    F: Future<Output = Ended> + Send + 'static,
{
    Task(Some(match Group::current() {
        Some(group) => {
            let supervised = supervise(name, group.number(), work);
            tokio::spawn(async move {
                let _ = group.within(group.until_end(supervised)).await;
            })
        }
        None => tokio::spawn(supervise(name, 0, work)),
    }))
}

/// Runs work that belongs to one request or one connection, and that should go on if its caller stops
/// waiting. It is not started again: the caller learns that it panicked. Needs a runtime.
pub fn once<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    once_on(&Handle::current(), work)
}

/// As [`once`], on this runtime.
pub fn once_on<T: Send + 'static>(
    runtime: &Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    runtime.spawn(work)
}

async fn supervise<F>(name: Name, group: u64, mut work: impl FnMut() -> F + Send + 'static)
where
    F: Future<Output = Ended> + Send + 'static,
{
    let record = Record::new(name, group);
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        // The state of the run is dropped before the pause.
        let ended = {
            let run = async { work().await };
            #[cfg(feature = "faults")]
            let run = faults::within(name, run);
            let mut run = std::pin::pin!(run);
            let caught = std::future::poll_fn(|context| {
                let polled = catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(context)));
                polled.map_or_else(|panic| Poll::Ready(Err(panic)), |polled| polled.map(Ok))
            });
            record.watch(caught).await
        };
        let cause = match ended {
            Ok(Ended::Done) => return,
            Ok(Ended::Early) => "it ended".to_owned(),
            Err(panic) => format!("it panicked: {}", message(&*panic)),
        };
        if began.elapsed() >= LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        record.failed(&cause);
        log::error!(task = name.as_str(), cause = cause.as_str(), seconds = pause.as_secs(); "a task failed and is started again");
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// A supervised thread. Dropping the handle does not end the thread.
#[derive(Debug)]
pub struct Thread {
    handle: std::thread::JoinHandle<()>,
    is_ending: Arc<AtomicBool>,
}

/// Runs `work` on a thread of its own, and runs it again whenever it panics, as [`spawn`] does with a task.
/// It ends for good when `work` returns.
pub fn thread(name: Name, mut work: impl FnMut() + Send + 'static) -> std::io::Result<Thread> {
    let is_ending = Arc::new(AtomicBool::new(false));
    let run = {
        let is_ending = is_ending.clone();
        move || {
            let record = Record::new(name, 0);
            let mut pause = FIRST_PAUSE;
            loop {
                #[cfg(feature = "faults")]
                faults::begin(name);
                let began = std::time::Instant::now();
                let Err(panic) = catch_unwind(AssertUnwindSafe(&mut work)) else { return };
                let cause = format!("it panicked: {}", message(&*panic));
                #[cfg(feature = "faults")]
                faults::end();
                if began.elapsed() >= LONGEST_PAUSE {
                    record.recovered();
                    pause = FIRST_PAUSE;
                }
                record.failed(&cause);
                log::error!(task = name.as_str(), cause = cause.as_str(), seconds = pause.as_secs(); "a thread failed and is started again");
                if pause_unless(&is_ending, pause) {
                    return;
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    };
    let handle = std::thread::Builder::new().name(name.as_str().into()).spawn(run)?;
    Ok(Thread { handle, is_ending })
}

/// Pauses this thread, at most until it is asked to end; returns whether it was.
fn pause_unless(is_ending: &AtomicBool, pause: Duration) -> bool {
    let until = std::time::Instant::now() + pause;
    while !is_ending.load(Ordering::Acquire) {
        let left = until.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::park_timeout(left);
    }
    true
}

impl Thread {
    /// Waits until `work`, which was asked to return, has done so. It is not run again if it panics.
    pub fn end(self) {
        self.is_ending.store(true, Ordering::Release);
        self.handle.thread().unpark();
        // Panics are caught, and logged, in the thread.
        let _ = self.handle.join();
    }
}

/// A place where a test can make a supervised thread fail; nothing otherwise.
#[inline]
pub fn fault_point() {
    #[cfg(feature = "faults")]
    faults::meet();
}

impl Task {
    /// Lets the task run until its runtime ends.
    pub fn detach(mut self) {
        self.0 = None;
    }

    /// Ends the task, and waits until it does not run any more.
    pub async fn end(mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
            // The task was aborted above, so its error is expected.
            let _ = task.await;
        }
    }

    /// Waits until the task is [done](Ended::Done).
    pub async fn join(mut self) {
        if let Some(task) = &mut self.0 {
            let _ = task.await;
        }
    }

    /// Whether the task is done.
    pub fn is_finished(&self) -> bool {
        self.0.as_ref().is_some_and(JoinHandle::is_finished)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// The tasks of the process that do not recover, with the cause of the last failure of each. Of several tasks
/// of one name, one is named. Those of a [`Group`] are told by [`Group::failing`].
pub fn failing(counts: Counts) -> Vec<String> {
    failing_of(0, counts)
}

fn failing_of(group: u64, counts: Counts) -> Vec<String> {
    let mut found: Vec<Failure> = failures()
        .get_or_insert_default()
        .1
        .values()
        .filter(|failure| failure.group == group)
        .filter(|failure| failure.name.counts() == counts && failure.count >= FAILURES_SHOWN)
        .cloned()
        .collect();
    found.sort_by_key(|failure| failure.name);
    found.dedup_by_key(|failure| failure.name);
    let shown = |Failure { name, count, cause, .. }| format!("{name} failed {count} times in a row: {cause}");
    found.into_iter().map(shown).collect()
}

fn failures() -> MutexGuard<'static, Option<(u64, Failures)>> {
    FAILURES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The supervision record of one task.
struct Record {
    name: Name,
    group: u64,
    number: u64,
}

impl Record {
    fn new(name: Name, group: u64) -> Self {
        let mut failures = failures();
        let (next, _) = failures.get_or_insert_default();
        *next += 1;
        Self { name, group, number: *next }
    }

    fn failed(&self, cause: &str) {
        let mut failures = failures();
        let known = failures.get_or_insert_default().1.entry(self.number);
        let (name, group) = (self.name, self.group);
        let known = known.or_insert_with(|| Failure { name, group, count: 0, cause: String::new() });
        known.count = known.count.saturating_add(1);
        known.cause = cause.to_owned();
    }

    fn recovered(&self) {
        failures().get_or_insert_default().1.remove(&self.number);
    }

    fn has_failed(&self) -> bool {
        failures().get_or_insert_default().1.contains_key(&self.number)
    }

    /// Polls a run; a run that goes on for long enough resets the failures.
    async fn watch<T>(&self, mut run: impl Future<Output = T> + Unpin) -> T {
        if self.has_failed() {
            tokio::select! {
                biased;
                ended = &mut run => return ended,
                () = sleep(LONGEST_PAUSE) => self.recovered(),
            }
        }
        run.await
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.recovered();
    }
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests;
