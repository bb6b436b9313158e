//! The task that wakes watchers where there are many, so that who applies changes, and the writers who wait for that, need
//! not.
//!
//! A runtime keeps the task that was woken last for the thread that woke it, and offers those before it to threads that have
//! nothing to do. Were all watchers woken by the task that follows the store, the writers would be taken to another thread with
//! them, and back. So the follower wakes one task, whoever has nothing to do takes that, and the watchers run where it is.
//!
//! 1. What was handed over before the task ends is woken by it, however it ends; afterwards the follower wakes by itself.
//! 2. A type is handed over once until the task turns to it: the queue is never longer than there are types.
//! 3. A few watchers are woken at once: that costs less than to wake someone to do it.
//! 4. A crowd is left to the follower: what it takes to wake thousands holds the next changes back, so that watchers stay near
//!    each other, where most find that one of them has written what they are to send.

use crate::{Resource, watch::Left};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Where types are handed over whose watchers have something to read.
pub(crate) struct Waking {
    queue: mpsc::UnboundedSender<Arc<Resource>>,
}

impl Waking {
    /// Starts the task; it ends when this is dropped.
    pub(crate) fn start() -> Self {
        let (queue, received) = mpsc::unbounded_channel();
        tokio::spawn(run(Received { queue: received }));
        Self { queue }
    }

    /// Has the watchers of a type woken, after what there is to read for them was announced. If they are a crowd the type is given
    /// back: the caller has to wake them, and should wake the writers before.
    pub(crate) fn wake(&self, resource: Arc<Resource>) -> Option<Arc<Resource>> {
        match resource.interest().announced() {
            Left::Nobody => None,
            Left::Many => self.queue.send(resource).err().map(|refused| refused.0),
            Left::Crowd => Some(resource),
        }
    }
}

async fn run(mut received: Received) {
    while let Some(resource) = received.queue.recv().await {
        resource.interest().wake();
    }
}

/// The task's end of the queue. What is still in it when the task ends is seen to.
struct Received {
    queue: mpsc::UnboundedReceiver<Arc<Resource>>,
}

impl Drop for Received {
    fn drop(&mut self) {
        self.queue.close();
        while let Ok(resource) = self.queue.try_recv() {
            resource.interest().wake();
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
        watch::{Seat, Waiter},
    };
    use std::task::{Context, Waker};
    use store::{Revision, memory::Memory};

    /// A type with as many watchers of everything, to whom nothing has happened.
    async fn watched(watchers: usize) -> (Arc<Resource>, Vec<Seat>) {
        let specs = [Spec::cluster("nodes").unwrap()];
        let cache = Cache::open(Arc::new(Memory::default()), specs, Options::default()).await.unwrap();
        let resource = cache.resource("nodes").unwrap();
        let everything = Selection::new(resource.spec(), Filter::all());
        let seats = (0..watchers).map(|_| resource.interest().sit(&everything, || Revision::ZERO)).collect();
        (resource, seats)
    }

    fn change(resource: &Resource) {
        let change = Transition::new(Revision(1), "a", Slot::Absent, Slot::Absent);
        resource.interest().note(&[Arc::new(change)], Revision::ZERO);
    }

    fn signaled(seats: &[Seat]) -> usize {
        let is_signaled = |waiter: &Waiter| waiter.poll(&mut Context::from_waker(Waker::noop())).is_ready();
        seats.iter().filter(|seat| is_signaled(&seat.waiter)).count()
    }

    #[tokio::test]
    async fn many_are_woken_by_the_task_and_few_at_once() {
        for (watchers, at_once) in [(1, 1), (4, 4), (5, 0), (256, 0)] {
            let (resource, seats) = watched(watchers).await;
            let waking = Waking::start();
            change(&resource);
            assert!(waking.wake(resource).is_none());
            assert_eq!(signaled(&seats), at_once);
            tokio::task::yield_now().await;
            assert_eq!(signaled(&seats), watchers);
        }
    }

    #[tokio::test]
    async fn a_crowd_is_left_to_who_asks() {
        let (resource, seats) = watched(257).await;
        let (queue, mut received) = mpsc::unbounded_channel();
        let waking = Waking { queue };
        for _ in 0..2 {
            change(&resource);
            waking.wake(resource.clone()).unwrap().interest().wake();
            assert_eq!((signaled(&seats), received.try_recv().is_err()), (257, true));
            seats.iter().for_each(|seat| seat.waiter.clear());
        }
    }

    #[tokio::test]
    async fn a_type_is_handed_over_once_until_the_task_turns_to_it() {
        let (resource, seats) = watched(10).await;
        let (queue, mut received) = mpsc::unbounded_channel();
        let waking = Waking { queue };
        for _ in 0..3 {
            change(&resource);
            assert!(waking.wake(resource.clone()).is_none());
        }
        assert_eq!(received.len(), 1);
        received.try_recv().unwrap().interest().wake();
        assert_eq!(signaled(&seats), 10);
        assert!(waking.wake(resource.clone()).is_none());
        assert_eq!(received.len(), 0, "there is no change");
        change(&resource);
        assert!(waking.wake(resource).is_none());
        assert_eq!(received.len(), 1);
    }

    /// A watcher that looks between the note of a change and its announcement may not see it.
    #[tokio::test]
    async fn who_was_woken_before_an_announcement_is_woken_after_it_again() {
        let (resource, seats) = watched(10).await;
        let (queue, mut received) = mpsc::unbounded_channel();
        let waking = Waking { queue };
        change(&resource);
        assert!(waking.wake(resource.clone()).is_none());
        change(&resource);
        received.try_recv().unwrap().interest().wake();
        assert_eq!(signaled(&seats), 10);
        seats.iter().for_each(|seat| seat.waiter.clear());
        assert!(waking.wake(resource).is_none());
        received.try_recv().unwrap().interest().wake();
        assert_eq!(signaled(&seats), 10);
    }

    #[tokio::test]
    async fn without_the_task_everyone_is_woken_all_the_same() {
        let (resource, seats) = watched(10).await;
        let (queue, received) = mpsc::unbounded_channel();
        let waking = Waking { queue };
        change(&resource);
        assert!(waking.wake(resource.clone()).is_none());
        assert_eq!(signaled(&seats), 0);
        drop(Received { queue: received });
        assert_eq!(signaled(&seats), 10);
        seats.iter().for_each(|seat| seat.waiter.clear());
        change(&resource);
        waking.wake(resource).unwrap().interest().wake();
        assert_eq!(signaled(&seats), 10);
    }
}
