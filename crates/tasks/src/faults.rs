//! Faults for tests: a task is made to panic, to end, or to pause, by its name.

use crate::{Ended, Name};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// What happens to the tasks of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// They panic.
    Panic,
    /// They end early.
    End,
    /// They are not polled for a time.
    Pause(Duration),
}

/// The last fault of each name, with a number that tells it from those before.
type Faults = HashMap<Name, watch::Sender<(u64, Option<Fault>)>>;

static FAULTS: Mutex<Option<Faults>> = Mutex::new(None);

fn faults() -> MutexGuard<'static, Option<Faults>> {
    FAULTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the tasks of a name that run now fail, once each. How many there are.
pub fn inject(name: Name, fault: Fault) -> usize {
    let mut faults = faults();
    let sender = faults.get_or_insert_default().entry(name).or_insert_with(|| watch::Sender::new((0, None)));
    sender.send_modify(|(number, last)| {
        *number += 1;
        *last = Some(fault);
    });
    sender.receiver_count()
}

/// Runs a task until it ends, or meets a fault.
#[allow(clippy::panic, reason = "the fault that a test asked for")]
pub(crate) async fn within(name: Name, run: impl Future<Output = Ended>) -> Ended {
    let mut injected = {
        let mut faults = faults();
        let sender =
            faults.get_or_insert_default().entry(name).or_insert_with(|| watch::Sender::new((0, None)));
        sender.subscribe()
    };
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
