//! What it costs to wake tasks as such: the shape of a fan-out without a cache.
//!
//! Writers hand their changes to one task, as they do to the store; it wakes the watchers, and answers the
//! writers. A watcher counts, and sleeps again: it reads nothing, looks at nothing that others change, and
//! takes no lock. A writer is busy for the time that a change takes in the cache, so that threads fall asleep
//! as they do there. What a fan-out costs beyond this is the cache; this is the runtime's part, and the
//! system's.

use super::{
    Failure, cost, micros,
    watchers::{Changes, Pace, REST, Seen, compare, end},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    runtime::Runtime,
    sync::{Notify, mpsc, oneshot},
    task::JoinHandle,
};

type Answer = oneshot::Sender<()>;

/// The additional processor time of so many watchers for one change, in microseconds, if a change takes
/// `busy` without any.
pub(super) fn wake_ups(
    runtime: &Runtime,
    changes: Changes,
    busy: Duration,
    fours: usize,
) -> Result<f64, Failure> {
    let compared = compare(fours, |watching| {
        let watchers = if watching { changes.watchers } else { 0 };
        let seen = Arc::<Seen>::default();
        let waiting: Vec<Arc<Waiting>> = (0..watchers).map(|_| Arc::default()).collect();
        let tasks = runtime.block_on(wait(&waiting, &seen));
        let work = changing(Changes { watchers, ..changes }, busy, seen, waiting);
        let cost = cost(|| runtime.block_on(runtime.spawn(work))?)?;
        runtime.block_on(end(tasks));
        Ok(micros(cost))
    })?;
    Ok(compared.more / changes.count as f64)
}

/// Starts the watchers, and waits until they wait.
async fn wait(waiting: &[Arc<Waiting>], seen: &Arc<Seen>) -> Vec<JoinHandle<()>> {
    let tasks = waiting.iter().enumerate().map(|(number, waiting)| {
        let (waiting, seen) = (waiting.clone(), seen.clone());
        tokio::spawn(async move {
            loop {
                waiting.woken.notified().await;
                seen.add(number, waiting.changes.swap(0, Ordering::Relaxed));
            }
        })
    });
    let tasks = tasks.collect();
    tokio::time::sleep(REST).await;
    tasks
}

/// A watcher that waits.
#[derive(Default)]
struct Waiting {
    changes: AtomicU64,
    woken: Notify,
}

async fn changing(
    changes: Changes,
    busy: Duration,
    seen: Arc<Seen>,
    waiting: Vec<Arc<Waiting>>,
) -> Result<(), Failure> {
    let (queue, received) = mpsc::unbounded_channel();
    tokio::spawn(tell(received, waiting));
    let Changes { count, watchers, pace } = changes;
    if pace == Pace::OneByOne {
        for number in 1..=count {
            change(&queue, busy).await?;
            tokio::time::sleep(Duration::from_millis(1)).await;
            seen.reach(number * watchers).await;
        }
        return Ok(());
    }
    let writers: Vec<_> = (0..pace.writers())
        .map(|writer| {
            let queue = queue.clone();
            tokio::spawn(async move {
                for _ in (writer..count).step_by(pace.writers() as usize) {
                    change(&queue, busy).await?;
                }
                Ok::<_, Failure>(())
            })
        })
        .collect();
    for writer in writers {
        writer.await??;
    }
    seen.reach(count * watchers).await;
    Ok(())
}

async fn change(queue: &mpsc::UnboundedSender<Answer>, busy: Duration) -> Result<(), Failure> {
    let begun = Instant::now();
    while begun.elapsed() < busy {
        std::hint::spin_loop();
    }
    let (answer, answered) = oneshot::channel();
    queue.send(answer)?;
    Ok(answered.await?)
}

/// The one task: takes all changes that there are, wakes the watchers, answers the writers.
async fn tell(mut queue: mpsc::UnboundedReceiver<Answer>, waiting: Vec<Arc<Waiting>>) {
    let mut answers = Vec::new();
    while queue.recv_many(&mut answers, 256).await > 0 {
        for watcher in &waiting {
            watcher.changes.fetch_add(answers.len() as u64, Ordering::Relaxed);
            watcher.woken.notify_one();
        }
        for answer in answers.drain(..) {
            answer.send(()).ok();
        }
    }
}
