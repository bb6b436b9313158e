//! The task that wakes watchers, so that the writer that applies a change does not.
//!
//! 1. Watchers are woken after the changes they are woken for were announced.
//! 2. A type is in the queue once. Changes that come before the task gets to it are covered by the same
//!    wake-up.
//! 3. After the task has ended, with its runtime, the caller wakes the watchers itself.

use crate::{Resource, cache::Routes};
use std::sync::{Arc, PoisonError};
use tasks::{Ended, Name, Task};
use tokio::sync::{Mutex, mpsc};

/// The queue of types whose watchers have to be woken.
pub(crate) struct Waking {
    queue: mpsc::UnboundedSender<Arc<Resource>>,
    _task: Option<Task>,
}

impl Waking {
    /// Starts the task; it ends when this is dropped.
    pub(crate) fn start(routes: Arc<Routes>) -> Self {
        let (queue, received) = mpsc::unbounded_channel();
        let received = Arc::new(Mutex::new(received));
        let task = tasks::spawn(Name::CacheWake, move || {
            let (received, routes) = (received.clone(), routes.clone());
            async move { run(&mut *received.lock().await, &routes).await }
        });
        Self { queue, _task: Some(task) }
    }

    /// Queues the watchers of a type to be woken. To be called after the changes of the type are announced.
    pub(crate) fn wake(&self, resource: Arc<Resource>) {
        if resource.watcher_index().schedule_waking()
            && let Err(refused) = self.queue.send(resource)
        {
            refused.0.watcher_index().wake();
        }
    }
}

async fn run(queue: &mut mpsc::UnboundedReceiver<Arc<Resource>>, routes: &Routes) -> Ended {
    // An earlier run of the task may have ended with types in its queue.
    for resource in routes.read().unwrap_or_else(PoisonError::into_inner).values() {
        resource.watcher_index().wake();
        resource.watcher_index().wake_all();
    }
    while let Some(resource) = queue.recv().await {
        resource.watcher_index().wake();
    }
    Ended::Done
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::{
        Cache, CacheOptions, Filter, Spec,
        filter::Selection,
        log::{KeyState, Transition},
        watch::{Subscription, Waiter},
    };
    use std::task::{Context, Waker};
    use store::{Revision, memory::Memory};

    /// A type with watchers of everything.
    struct Watched {
        resource: Arc<Resource>,
        subscriptions: Vec<Subscription>,
        /// All watchers are woken when it is dropped.
        _cache: Cache,
    }

    async fn watched(watchers: usize) -> Watched {
        let specs = [Spec::cluster("nodes").unwrap()];
        let cache = Cache::open(Arc::new(Memory::default()), specs, CacheOptions::default()).await.unwrap();
        let resource = cache.resource("nodes").unwrap();
        let everything = Selection::new(resource.spec(), Filter::all());
        let subscribe = |_| resource.watcher_index().subscribe(&everything, || Revision::ZERO);
        let subscriptions = (0..watchers).map(subscribe).collect();
        Watched { resource, subscriptions, _cache: cache }
    }

    fn note(resource: &Resource) {
        let change = Transition::new(Revision(1), "a".into(), KeyState::Absent, KeyState::Absent);
        resource.watcher_index().note(&[change], Revision::ZERO);
    }

    /// A change that was announced.
    fn change(waking: &Waking, resource: &Arc<Resource>) {
        note(resource);
        waking.wake(resource.clone());
    }

    /// How many watchers were signaled since the last call.
    fn signaled(subscriptions: &[Subscription]) -> usize {
        let is_signaled = |waiter: &Waiter| waiter.poll(&mut Context::from_waker(Waker::noop())).is_ready();
        let count = subscriptions.iter().filter(|subscription| is_signaled(&subscription.waiter)).count();
        subscriptions.iter().for_each(|subscription| subscription.waiter.clear());
        count
    }

    #[tokio::test]
    async fn changes_before_the_task_runs_cause_one_wake_up() {
        let Watched { resource, subscriptions, _cache } = watched(10).await;
        let waking = Waking::start(Arc::default());
        for round in 1..4 {
            for _ in 0..3 {
                change(&waking, &resource);
            }
            assert_eq!(signaled(&subscriptions), 0);
            tokio::task::yield_now().await;
            assert_eq!(signaled(&subscriptions), 10);
            assert_eq!(resource.watcher_index().woken(), 10 * round);
        }
    }

    #[tokio::test]
    async fn a_type_is_queued_once_until_its_watchers_are_woken() {
        let Watched { resource, subscriptions, _cache } = watched(3).await;
        let (queue, mut received) = mpsc::unbounded_channel();
        let waking = Waking { queue, _task: None };
        for _ in 0..3 {
            change(&waking, &resource);
        }
        assert_eq!((received.len(), signaled(&subscriptions)), (1, 0));
        received.try_recv().unwrap().watcher_index().wake();
        assert_eq!((received.len(), signaled(&subscriptions)), (0, 3));
        change(&waking, &resource);
        assert_eq!(received.len(), 1);
    }

    /// A watcher that reads between the note of a change and its announcement may not see it.
    #[tokio::test]
    async fn a_watcher_woken_before_an_announcement_is_woken_again_after_it() {
        let Watched { resource, subscriptions, _cache } = watched(3).await;
        let (queue, _received) = mpsc::unbounded_channel();
        let waking = Waking { queue, _task: None };
        change(&waking, &resource);
        note(&resource);
        resource.watcher_index().wake();
        assert_eq!(signaled(&subscriptions), 3);
        waking.wake(resource.clone());
        resource.watcher_index().wake();
        assert_eq!(signaled(&subscriptions), 3);
    }

    #[tokio::test]
    async fn all_watchers_are_woken_after_the_task_has_ended() {
        let Watched { resource, subscriptions, _cache } = watched(3).await;
        let (queue, received) = mpsc::unbounded_channel();
        drop(received);
        for _ in 0..2 {
            change(&Waking { queue: queue.clone(), _task: None }, &resource);
            assert_eq!(signaled(&subscriptions), 3);
        }
    }
}
