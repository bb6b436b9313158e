//! The reading thread: everything that asynchronous callers need from disk, so that they never block.

use super::shared::Shared;
use crate::{Batch, BoxFuture, Committed, Conflict, Error, Key, Revision, Value, feed::History};
use bytes::Bytes;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender},
    },
};
use tokio::sync::oneshot;

/// Where the outcome of a commit goes.
pub(super) type Reply = oneshot::Sender<Result<Committed, Error>>;

/// A read to do.
pub(super) enum Job {
    /// Answers a commit that asked for the value of the previous entry of this key.
    Committed { outcome: Committed, key: Key, reply: Reply },
    /// Answers a refused commit, with the value that was found.
    Refused { conflict: Box<Conflict>, reply: Reply },
    /// Closes `passed` once all jobs before it are done.
    Barrier { passed: Sender<()> },
    /// A batch of history.
    History { after: Revision, until: Revision, prefix: Bytes, reply: oneshot::Sender<Result<Batch, Error>> },
    /// Values that changes wrote.
    Values { wanted: Vec<(Key, Revision)>, reply: oneshot::Sender<Result<Vec<Value>, Error>> },
    /// The store closes.
    Close,
}

/// Does the jobs, one after the other.
pub(super) fn run(shared: &Shared, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        tasks::fault_point();
        match job {
            Job::Committed { mut outcome, key, reply } => {
                if let Some(previous) = &mut outcome.previous {
                    previous.value = shared.value(&key, previous.head.mod_revision).ok();
                }
                reply.send(Ok(outcome)).ok();
            }
            Job::Refused { mut conflict, reply } => {
                if let Some(found) = &mut conflict.found {
                    found.value = shared.value(&conflict.key, found.head.mod_revision).ok();
                }
                reply.send(Err(conflict.into())).ok();
            }
            Job::Barrier { passed } => drop(passed),
            Job::History { after, until, prefix, reply } => {
                if !reply.is_closed() {
                    reply.send(shared.history(after, until, &prefix)).ok();
                }
            }
            Job::Values { wanted, reply } => {
                if !reply.is_closed() {
                    reply.send(shared.values(&wanted)).ok();
                }
            }
            Job::Close => return,
        }
    }
}

/// Sends jobs to the reading thread.
pub(super) struct Reading {
    jobs: Sender<Job>,
    is_closed: Arc<AtomicBool>,
}

impl Reading {
    pub(super) fn new(jobs: Sender<Job>) -> Arc<Self> {
        Arc::new(Self { jobs, is_closed: Arc::default() })
    }

    /// Ends the thread after all jobs sent so far.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.jobs.send(Job::Close).ok();
    }

    fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Job,
    ) -> BoxFuture<'static, Result<T, Error>> {
        let (reply, answer) = oneshot::channel();
        // Without a thread the job is dropped, and its reply with it.
        self.jobs.send(job(reply)).ok();
        let is_closed = self.is_closed.clone();
        let unanswered = move || match is_closed.load(Ordering::Acquire) {
            true => Error::Closed,
            false => Error::read(io::Error::other("the reading thread panicked")),
        };
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(unanswered())) })
    }
}

impl History for Reading {
    fn read(
        &self,
        after: Revision,
        until: Revision,
        prefix: Bytes,
    ) -> BoxFuture<'static, Result<Batch, Error>> {
        self.ask(|reply| Job::History { after, until, prefix, reply })
    }

    fn values(&self, wanted: Vec<(Key, Revision)>) -> BoxFuture<'static, Result<Vec<Value>, Error>> {
        self.ask(|reply| Job::Values { wanted, reply })
    }
}
