//! The room below the ceiling: what is taken, and who waits for the rest.
//!
//! 1. What is taken is the resident memory and all reservations, whether their requests have used them yet or
//!    not: too much rather than too little.
//! 2. Room is given in the order of arrival: a small request does not pass a large one that waits, which
//!    would otherwise wait for ever.
//! 3. The only reservation is granted up to the limit itself, so that a process that holds much for good
//!    still does one thing after another.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::{FILL_TO, WAITS};

/// The most requests that wait; a further one is refused at once.
const MOST_WAITING: usize = 256;

/// The room below a ceiling.
#[derive(Debug)]
pub(super) struct Room {
    /// Zero for none.
    limit: u64,
    resident: AtomicU64,
    /// How many reservations ended.
    ended: AtomicU64,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    reserved: u64,
    waiting: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    bytes: u64,
    grant: oneshot::Sender<Reservation>,
}

/// Bytes that a request may take. They are free again when it is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    room: Arc<Room>,
    bytes: u64,
}

/// There was no room in time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

impl Room {
    pub(super) fn new(limit: u64) -> Arc<Self> {
        let (resident, ended) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { limit, resident, ended, queue: Mutex::default() })
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn resident(&self) -> u64 {
        self.resident.load(Ordering::Relaxed)
    }

    pub(super) fn reserved(&self) -> u64 {
        self.queue().reserved
    }

    /// How many reservations ended so far.
    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// What is taken, as a part of the limit; zero without one.
    #[allow(clippy::cast_precision_loss, reason = "a part")]
    pub(super) fn pressure(&self) -> f64 {
        if self.limit == 0 {
            return 0.0;
        }
        (self.resident() + self.reserved()) as f64 / self.limit as f64
    }

    /// Notes the resident memory, and lets those in that have room now.
    pub(super) fn set_resident(self: &Arc<Self>, bytes: u64) {
        self.resident.store(bytes, Ordering::Relaxed);
        self.grant();
    }

    /// Waits for room, for at most `time`.
    pub(super) async fn reserve(self: &Arc<Self>, bytes: u64, time: Duration) -> Result<Reservation, NoRoom> {
        let granted = {
            let mut queue = self.queue();
            if queue.waiting.is_empty() && self.fits(&queue, bytes) {
                queue.reserved += bytes;
                return Ok(Reservation { room: Arc::clone(self), bytes });
            }
            if queue.waiting.len() >= MOST_WAITING {
                // Those whose clients have left make room for others.
                queue.waiting.retain(|waiter| !waiter.grant.is_closed());
            }
            if queue.waiting.len() >= MOST_WAITING {
                return Err(NoRoom);
            }
            let (grant, granted) = oneshot::channel();
            queue.waiting.push_back(Waiter { bytes, grant });
            granted
        };
        WAITS.with([]).inc();
        match tokio::time::timeout(time, granted).await {
            Ok(Ok(reservation)) => Ok(reservation),
            _ => {
                // The one behind it may have room.
                self.grant();
                Err(NoRoom)
            }
        }
    }

    /// Lets those in that have room, in order.
    fn grant(self: &Arc<Self>) {
        // What nobody waits for any more is dropped, and thereby free, outside of the lock.
        let mut given = Vec::new();
        let mut queue = self.queue();
        while let Some(first) = queue.waiting.front() {
            if first.grant.is_closed() {
                queue.waiting.pop_front();
                continue;
            }
            if !self.fits(&queue, first.bytes) {
                break;
            }
            if let Some(Waiter { bytes, grant }) = queue.waiting.pop_front() {
                queue.reserved += bytes;
                given.push((grant, Reservation { room: Arc::clone(self), bytes }));
            }
        }
        drop(queue);
        for (grant, reservation) in given {
            drop(grant.send(reservation));
        }
    }

    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of the limit"
    )]
    fn fits(&self, queue: &Queue, bytes: u64) -> bool {
        if self.limit == 0 {
            return true;
        }
        let taken = self.resident().saturating_add(queue.reserved).saturating_add(bytes);
        let most = if queue.reserved == 0 { self.limit } else { (self.limit as f64 * FILL_TO) as u64 };
        taken <= most
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        {
            let mut queue = self.room.queue();
            queue.reserved = queue.reserved.saturating_sub(self.bytes);
        }
        self.room.ended.fetch_add(1, Ordering::Relaxed);
        self.room.grant();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SECOND: Duration = Duration::from_secs(1);

    fn waiting(room: &Arc<Room>, bytes: u64) -> tokio::task::JoinHandle<Result<Reservation, NoRoom>> {
        let room = Arc::clone(room);
        tokio::spawn(async move { room.reserve(bytes, SECOND).await })
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_everything_has_room() {
        let room = Room::new(0);
        room.set_resident(u64::MAX);
        assert!(room.reserve(u64::MAX, SECOND).await.is_ok());
        assert_eq!(room.pressure(), 0.0);
    }

    #[tokio::test(start_paused = true)]
    async fn resident_memory_and_reservations_count_together() {
        let room = Room::new(100 * MIB);
        room.set_resident(80 * MIB);
        let first = room.reserve(10 * MIB, SECOND).await.unwrap();
        assert_eq!(room.pressure(), 0.9);
        let begin = tokio::time::Instant::now();
        assert_eq!(room.reserve(6 * MIB, SECOND).await.unwrap_err(), NoRoom);
        assert_eq!(begin.elapsed(), SECOND, "it waited");
        let second = room.reserve(5 * MIB, SECOND).await.unwrap();
        drop((first, second));
        assert_eq!((room.reserved(), room.ended()), (0, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_wait_are_let_in_in_order() {
        let room = Room::new(100 * MIB);
        room.set_resident(50 * MIB);
        let held = room.reserve(40 * MIB, SECOND).await.unwrap();
        let large = waiting(&room, 30 * MIB);
        tokio::task::yield_now().await;
        let small = waiting(&room, MIB);
        tokio::task::yield_now().await;
        assert!(!large.is_finished() && !small.is_finished(), "the small one does not pass the large one");
        drop(held);
        let (large, small) = (large.await.unwrap().unwrap(), small.await.unwrap().unwrap());
        assert_eq!(room.reserved(), 31 * MIB);
        drop((large, small));
    }

    #[tokio::test(start_paused = true)]
    async fn memory_that_the_system_got_back_is_room() {
        let room = Room::new(100 * MIB);
        room.set_resident(120 * MIB);
        let one = waiting(&room, MIB);
        tokio::task::yield_now().await;
        assert!(!one.is_finished());
        room.set_resident(60 * MIB);
        assert!(one.await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_left_leaves_its_room_to_the_next() {
        let room = Room::new(100 * MIB);
        room.set_resident(10 * MIB);
        let held = room.reserve(80 * MIB, SECOND).await.unwrap();
        let gone = waiting(&room, 60 * MIB);
        tokio::task::yield_now().await;
        let next = waiting(&room, 2 * MIB);
        tokio::task::yield_now().await;
        gone.abort();
        assert!(gone.await.is_err());
        room.set_resident(10 * MIB);
        assert!(next.await.unwrap().is_ok());
        drop(held);
        assert_eq!(room.reserved(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_alone_may_fill_the_limit_itself() {
        let room = Room::new(100 * MIB);
        room.set_resident(97 * MIB);
        let alone = room.reserve(2 * MIB, SECOND).await.unwrap();
        assert!(room.reserve(MIB, SECOND).await.is_err());
        drop(alone);
        room.set_resident(101 * MIB);
        assert!(room.reserve(MIB, SECOND).await.is_err(), "past the limit, nothing has room");
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_wait_and_no_more() {
        let room = Room::new(100 * MIB);
        room.set_resident(100 * MIB);
        let all: Vec<_> = (0..MOST_WAITING).map(|_| waiting(&room, MIB)).collect();
        while room.queue().waiting.len() < MOST_WAITING {
            tokio::task::yield_now().await;
        }
        let begin = tokio::time::Instant::now();
        assert_eq!(room.reserve(MIB, SECOND).await.unwrap_err(), NoRoom);
        assert!(begin.elapsed().is_zero(), "it is refused at once");
        all.iter().for_each(tokio::task::JoinHandle::abort);
        room.set_resident(0);
        assert!(room.reserve(MIB, SECOND).await.is_ok());
    }
}
