//! Faults for tests: a task is made to panic, to end, or to pause, by its name. A thread meets them at its
//! [fault points](crate::fault_point), and panics where a task ends.

use crate::{Ended, Name};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// A fault of the tasks of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The tasks panic.
    Panic,
    /// The tasks end early.
    End,
    /// The tasks are not polled for a time.
    Pause(Duration),
}

/// The last fault of each name, with a number that distinguishes it from earlier faults.
type Faults = HashMap<Name, watch::Sender<(u64, Option<Fault>)>>;
type Injected = watch::Receiver<(u64, Option<Fault>)>;

static FAULTS: Mutex<Option<Faults>> = Mutex::new(None);

fn faults() -> MutexGuard<'static, Option<Faults>> {
    FAULTS.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The faults of the supervised thread that this is.
    static OF_THREAD: RefCell<Option<Injected>> = const { RefCell::new(None) };
}

/// Makes the running tasks of a name fail, once each; returns the number of tasks.
pub fn inject(name: Name, fault: Fault) -> usize {
    let mut faults = faults();
    let sender = faults.get_or_insert_default().entry(name).or_insert_with(|| watch::Sender::new((0, None)));
    // Counted first: a task that fails at once does not count any more.
    let running = sender.receiver_count();
    sender.send_modify(|(number, last)| {
        *number += 1;
        *last = Some(fault);
    });
    running
}

/// How many tasks of a name run now, and are not in the pause after a failure.
pub fn running(name: Name) -> usize {
    faults().get_or_insert_default().get(&name).map_or(0, watch::Sender::receiver_count)
}

/// The faults of a name from now on.
fn subscribe(name: Name) -> Injected {
    let mut faults = faults();
    let sender = faults.get_or_insert_default().entry(name).or_insert_with(|| watch::Sender::new((0, None)));
    sender.subscribe()
}

/// Subscribes this thread to the faults of a name, until [`end`].
pub(crate) fn begin(name: Name) {
    OF_THREAD.set(Some(subscribe(name)));
}

pub(crate) fn end() {
    OF_THREAD.set(None);
}

/// Applies a fault that a test has injected for this thread.
#[allow(clippy::panic, reason = "the fault that a test asked for")]
pub(crate) fn meet() {
    let fault = OF_THREAD.with_borrow_mut(|injected| {
        let injected = injected.as_mut().filter(|injected| injected.has_changed().unwrap_or_default());
        injected.and_then(|injected| injected.borrow_and_update().1)
    });
    match fault {
        Some(Fault::Panic | Fault::End) => panic!("a fault was injected"),
        Some(Fault::Pause(time)) => std::thread::sleep(time),
        None => {}
    }
}

/// Runs a task until it ends, or a fault is injected.
#[allow(clippy::panic, reason = "the fault that a test asked for")]
pub(crate) async fn within(name: Name, run: impl Future<Output = Ended>) -> Ended {
    let mut injected = subscribe(name);
    let mut run = std::pin::pin!(run);
    loop {
        tokio::select! {
            biased;
            Ok(()) = injected.changed() => {
                let fault = injected.borrow_and_update().1;
                match fault {
                    Some(Fault::Panic) => panic!("a fault was injected"),
                    Some(Fault::End) => return Ended::Early,
                    Some(Fault::Pause(time)) => sleep(time).await,
                    None => {}
                }
            }
            ended = &mut run => return ended,
        }
    }
}
