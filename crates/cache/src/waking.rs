//! The task that wakes watchers where they are more than a few, or have just been woken, so that who applies changes, and the
//! writers who wait for that, need not.
//!
//! A runtime keeps the task that was woken last for the thread that woke it, and offers those before it to threads that have
//! nothing to do. Were all watchers woken by the task that follows the store, the writers would be taken to another thread with
//! them, and back. So the follower wakes one task, whoever has nothing to do takes that, and the watchers run where it is.
//!
//! 1. What was handed over before the task ends is woken by it, however it ends; afterwards the follower wakes by itself.
//! 2. A few watchers that are rested are woken at once by whoever has a change for them: that costs less than to wake someone to
//!    do it.
//! 3. The task looks after a type that was handed over until it has found nothing due for the time of a rest.

use crate::Resource;
use std::{sync::Arc, time::Instant};
use tokio::{sync::mpsc, time::timeout_at};

/// Where types are handed over whose watchers have something to read.
pub(crate) struct Waking {
    queue: mpsc::UnboundedSender<Arc<Resource>>,
}

impl Waking {
    /// Starts the task; it ends when this is dropped.
    pub(crate) fn start() -> Self {
        let (queue, received) = mpsc::unbounded_channel();
        tokio::spawn(run(Received { queue: received, resources: Vec::new() }));
        Self { queue }
    }

    /// Has the watchers of a type woken, after what there is to read for them was announced.
    pub(crate) fn wake(&self, resource: Arc<Resource>, now: Instant) {
        if resource.watcher_index().announced(now)
            && let Err(refused) = self.queue.send(resource)
        {
            refused.0.watcher_index().wake_pending_now();
        }
    }
}

async fn run(mut received: Received) {
    loop {
        let handed_over = match received.wake(Instant::now()) {
            Some(next) => timeout_at(next.into(), received.queue.recv()).await,
            None => Ok(received.queue.recv().await),
        };
        match handed_over {
            Ok(Some(resource)) => received.add(resource),
            Ok(None) => break,
            Err(_) => {}
        }
    }
}

/// The task's end of the queue, and the types that it looks after. Both are seen to when the task ends.
struct Received {
    queue: mpsc::UnboundedReceiver<Arc<Resource>>,
    resources: Vec<Arc<Resource>>,
}

impl Received {
    fn add(&mut self, resource: Arc<Resource>) {
        if !self.resources.iter().any(|own| Arc::ptr_eq(own, &resource)) {
            self.resources.push(resource);
        }
    }

    /// Wakes those who are due and rested, and tells when to look again.
    fn wake(&mut self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        self.resources.retain(|resource| {
            let again = resource.watcher_index().wake(now);
            next = next.into_iter().chain(again).min();
            again.is_some()
        });
        next
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        self.queue.close();
        while let Ok(resource) = self.queue.try_recv() {
            self.add(resource);
        }
        for resource in &self.resources {
            resource.watcher_index().wake_pending_now();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::{
        Cache, Filter, Options, Spec,
        filter::Selection,
        log::{Slot, Transition},
        watch::{Subscription, Waiter},
    };
    use std::{
        task::{Context, Waker},
        time::Duration,
    };
    use store::{Revision, memory::Memory};

    const QUIET: Duration = Duration::from_millis(50);

    /// A type with watchers of everything, to whom nothing has happened.
    struct Watched {
        resource: Arc<Resource>,
        subscriptions: Vec<Subscription>,
        /// Everyone is woken when it is gone.
        _cache: Cache,
    }

    async fn watched(watchers: usize) -> Watched {
        let specs = [Spec::cluster("nodes").unwrap()];
        let options = Options { wake_coalescing: QUIET, ..Options::default() };
        let cache = Cache::open(Arc::new(Memory::default()), specs, options).await.unwrap();
        let resource = cache.resource("nodes").unwrap();
        let everything = Selection::new(resource.spec(), Filter::all());
        let subscriptions = (0..watchers)
            .map(|_| resource.watcher_index().subscribe(&everything, || Revision::ZERO))
            .collect();
        Watched { resource, subscriptions, _cache: cache }
    }

    /// A change that was announced.
    fn change(waking: &Waking, resource: &Arc<Resource>, at: Instant) {
        note(resource);
        waking.wake(resource.clone(), at);
    }

    fn note(resource: &Resource) {
        let change = Transition::new(Revision(1), "a".into(), Slot::Absent, Slot::Absent);
        resource.watcher_index().note(&[change], Revision::ZERO);
    }

    /// How many were signaled since this was asked last.
    fn signaled(subscriptions: &[Subscription]) -> usize {
        let is_signaled = |waiter: &Waiter| waiter.poll(&mut Context::from_waker(Waker::noop())).is_ready();
        let count = subscriptions.iter().filter(|subscription| is_signaled(&subscription.waiter)).count();
        subscriptions.iter().for_each(|subscription| subscription.waiter.clear());
        count
    }

    /// Without the task: what is handed over stays in the queue.
    fn unattended() -> (Waking, mpsc::UnboundedReceiver<Arc<Resource>>) {
        let (queue, received) = mpsc::unbounded_channel();
        (Waking { queue }, received)
    }

    #[tokio::test]
    async fn up_to_four_watchers_are_woken_directly_and_more_by_the_task() {
        for (watchers, at_once) in [(1, 1), (4, 4), (5, 0), (1000, 0)] {
            let Watched { resource, subscriptions, _cache } = watched(watchers).await;
            let waking = Waking::start();
            change(&waking, &resource, Instant::now());
            assert_eq!(signaled(&subscriptions), at_once);
            tokio::task::yield_now().await;
            assert_eq!(signaled(&subscriptions), watchers - at_once);
        }
    }

    #[tokio::test]
    async fn changes_within_the_quiet_time_cause_one_wake_up_after_it() {
        for watchers in [1, 10] {
            let Watched { resource, subscriptions, _cache } = watched(watchers).await;
            let waking = Waking::start();
            let begun = Instant::now();
            change(&waking, &resource, begun);
            tokio::task::yield_now().await;
            assert_eq!(signaled(&subscriptions), watchers);
            for _ in 0..3 {
                change(&waking, &resource, begun);
            }
            while signaled(&subscriptions) == 0 {
                tokio::time::sleep(QUIET / 10).await;
            }
            assert!(begun.elapsed() >= QUIET, "{:?}", begun.elapsed());
            assert_eq!(resource.watcher_index().woken(), 2 * watchers as u64);
        }
    }

    #[tokio::test]
    async fn a_change_after_the_quiet_time_wakes_few_watchers_directly() {
        let Watched { resource, subscriptions, _cache } = watched(1).await;
        let (waking, mut received) = unattended();
        let begun = Instant::now();
        change(&waking, &resource, begun);
        assert_eq!((received.len(), signaled(&subscriptions)), (0, 1));
        change(&waking, &resource, begun + QUIET / 2);
        assert_eq!((received.len(), signaled(&subscriptions)), (1, 0), "it rests");
        change(&waking, &resource, begun + QUIET);
        assert_eq!(signaled(&subscriptions), 1);
        assert_eq!(received.try_recv().unwrap().watcher_index().wake(begun + QUIET), None);
        assert_eq!(signaled(&subscriptions), 0, "nothing is left for the task");
        change(&waking, &resource, begun + QUIET);
        assert_eq!(
            (received.len(), signaled(&subscriptions)),
            (1, 0),
            "it rests again, and no one looks after it"
        );
        assert_eq!(resource.watcher_index().wake(begun + QUIET), Some(begun + 2 * QUIET));
        assert_eq!(resource.watcher_index().wake(begun + 2 * QUIET), Some(begun + 3 * QUIET));
        assert_eq!(signaled(&subscriptions), 1);
    }

    #[tokio::test]
    async fn a_type_is_queued_once_while_the_task_watches_over_it() {
        let Watched { resource, subscriptions, _cache } = watched(10).await;
        let (waking, mut received) = unattended();
        let begun = Instant::now();
        for _ in 0..3 {
            change(&waking, &resource, begun);
        }
        assert_eq!((received.len(), signaled(&subscriptions)), (1, 0));
        let again = received.try_recv().unwrap().watcher_index().wake(begun);
        assert_eq!((again, signaled(&subscriptions)), (Some(begun + QUIET), 10));
        change(&waking, &resource, begun + QUIET / 2);
        assert_eq!(resource.watcher_index().wake(begun + QUIET / 2), Some(begun + QUIET));
        assert_eq!((received.len(), signaled(&subscriptions)), (0, 0), "it rests, and is looked after");
        assert_eq!(resource.watcher_index().wake(begun + QUIET), Some(begun + 2 * QUIET));
        assert_eq!(signaled(&subscriptions), 10);
        assert_eq!(resource.watcher_index().wake(begun + 2 * QUIET), None);
        assert_eq!((received.len(), signaled(&subscriptions)), (0, 0), "nothing was due");
        change(&waking, &resource, begun + 2 * QUIET);
        assert_eq!(received.len(), 1, "no one looks after it any more");
    }

    /// A watcher that looks between the note of a change and its announcement may not see it.
    #[tokio::test]
    async fn a_watcher_woken_before_an_announcement_is_woken_again_after_it() {
        let Watched { resource, subscriptions, _cache } = watched(10).await;
        let (waking, _received) = unattended();
        let begun = Instant::now();
        change(&waking, &resource, begun);
        note(&resource);
        resource.watcher_index().wake(begun);
        assert_eq!(signaled(&subscriptions), 10);
        waking.wake(resource.clone(), begun + QUIET);
        resource.watcher_index().wake(begun + QUIET);
        assert_eq!(signaled(&subscriptions), 10);
    }

    #[tokio::test]
    async fn all_watchers_are_woken_after_the_task_has_ended() {
        for watchers in [1, 10] {
            let Watched { resource, subscriptions, _cache } = watched(watchers).await;
            let (waking, received) = unattended();
            let begun = Instant::now();
            change(&waking, &resource, begun);
            change(&waking, &resource, begun);
            drop(Received { queue: received, resources: Vec::new() });
            assert_eq!(signaled(&subscriptions), watchers);
            for _ in 0..2 {
                change(&waking, &resource, begun);
                assert_eq!(signaled(&subscriptions), watchers);
            }
        }
    }
}
