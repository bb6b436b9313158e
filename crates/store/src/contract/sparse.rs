//! A store in memory whose revisions have gaps and are shared, as those of etcd: for the contract suite, and
//! for tests of what is built on stores.
//!
//! Commits that arrive at the same time share one revision. The next revision is some numbers larger. Now and
//! then the newest revision grows without a change, as when another client of etcd writes under another
//! prefix.

use crate::{
    BoxFuture, Change, Committed, Entry, Error, Follow, Follower, Health, Key, Revision, Store, Visitor,
    memory::Memory,
};
use fastrand::Rng;
use std::{
    collections::HashSet,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// A store whose revisions have gaps and are shared. Commits need a runtime.
pub struct Sparse {
    memory: Arc<Memory>,
    queue: Arc<Mutex<Queue>>,
}

struct Queue {
    waiting: Vec<Waiting>,
    /// Whether a task commits the waiting changes.
    is_taken: bool,
    rng: Rng,
}

struct Waiting {
    change: Change,
    reply: oneshot::Sender<Result<Committed, Error>>,
}

impl Sparse {
    /// A store on top of one in memory.
    #[must_use]
    pub fn new(memory: Memory, seed: u64) -> Self {
        let queue = Queue { waiting: Vec::new(), is_taken: false, rng: Rng::with_seed(seed) };
        Self { memory: Arc::new(memory), queue: Arc::new(Mutex::new(queue)) }
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Commits the waiting changes, and those that arrive meanwhile; changes of different keys share a revision.
async fn commit_waiting(memory: Arc<Memory>, queue: Arc<Mutex<Queue>>) {
    loop {
        let pauses = lock(&queue).rng.u8(..3);
        for _ in 0..pauses {
            tokio::task::yield_now().await;
        }
        let mut queue = lock(&queue);
        let mut keys = HashSet::new();
        queue.waiting.retain(|waiting| !waiting.reply.is_closed());
        let waiting = mem::take(&mut queue.waiting).into_iter();
        let (together, later) = waiting.partition(|waiting| keys.insert(waiting.change.key.clone()));
        queue.waiting = later;
        let gap = queue.rng.u64(..4);
        let (changes, replies): (Vec<_>, Vec<_>) =
            Vec::into_iter(together).map(|Waiting { change, reply }| (change, reply)).unzip();
        let outcomes = memory.commit_at(changes, |newest| Revision(newest.0 + 1 + gap));
        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            reply.send(outcome).ok();
        }
        if queue.waiting.is_empty() {
            queue.is_taken = false;
            return;
        }
    }
}

impl Store for Sparse {
    fn commit(&self, change: Change) -> BoxFuture<'static, Result<Committed, Error>> {
        let (reply, answer) = oneshot::channel();
        let mut queue = lock(&self.queue);
        queue.waiting.push(Waiting { change, reply });
        if !mem::replace(&mut queue.is_taken, true) {
            tokio::spawn(commit_waiting(self.memory.clone(), self.queue.clone()));
        }
        Box::pin(async move { answer.await.unwrap_or(Err(Error::Closed)) })
    }

    fn known_revision(&self) -> Revision {
        self.memory.known_revision()
    }

    /// The question takes a moment, and the newest revision may be one without a change.
    fn newest_revision(&self) -> BoxFuture<'static, Result<Revision, Error>> {
        let (memory, skipped) = (self.memory.clone(), lock(&self.queue).rng.u64(..3));
        Box::pin(async move {
            tokio::task::yield_now().await;
            if skipped > 0 {
                memory.skip(skipped);
            }
            memory.newest_revision().await
        })
    }

    fn changed(&self, after: Revision) -> BoxFuture<'static, Result<(), Error>> {
        self.memory.changed(after)
    }

    fn compacted(&self) -> Revision {
        self.memory.compacted()
    }

    fn get(&self, key: &Key) -> Result<Option<Entry>, Error> {
        self.memory.get(key)
    }

    fn load(&self, prefix: &[u8], at: Option<Revision>, visit: &mut Visitor<'_>) -> Result<Revision, Error> {
        self.memory.load(prefix, at, visit)
    }

    fn follow(&self, follow: Follow) -> Result<Box<dyn Follower>, Error> {
        self.memory.follow(follow)
    }

    fn compact(&self, to: Revision) -> BoxFuture<'static, Result<(), Error>> {
        self.memory.compact(to)
    }

    fn is_shared(&self) -> bool {
        self.memory.is_shared()
    }

    fn health(&self) -> Health {
        self.memory.health()
    }

    fn close(&self) {
        self.memory.close();
    }
}
