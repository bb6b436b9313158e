//! The store on etcd, laid out as the reference lays it out: many servers may share one etcd, kube-apiserver
//! among them.
//!
//! Keys are etcd's own, such as `/registry/pods/default/web-1`, and values are opaque: a
//! [`Codec`](crate::Codec) translates above. `docs/store.md` says how each guarantee is kept, and what each
//! kind of failure leads to.
//!
//! All work is done by one thread with a runtime of its own, so that the blocking methods can be called from
//! anywhere, and the asynchronous ones by any runtime.
//!
//! | task | job |
//! |---|---|
//! | one for each commit | a transaction, then waits until the watch has delivered it |
//! | watch | feeds the window of recent events |
//! | compact | compacts once in an interval, and learns of compactions by others |
//! | health | asks the current member, and leaves it if it does not answer |

mod client;
mod commit;
mod compact;
mod connection;
mod failure;
mod health;
mod lease;
mod load;
mod messages;
mod shared;
mod target;
mod watch;

use crate::{
    BoxFuture, Change, Committed, Entry, Error, Follow, Follower, Health, Key, Revision, Store, Visitor,
    change::VALUE_LIMIT,
};
use bytes::Bytes;
use client::Client;
use commit::Gate;
use load::{Cursor, Page};
use shared::{Shared, revision};
use std::{
    future::Future,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use tasks::{Ended, Name};
use tokio::{runtime::Handle, sync::oneshot};
use watch::Past;

/// How long [`Etcd::close`] waits for commits, beyond the time that they have themselves.
const CLOSING: Duration = Duration::from_secs(1);

/// How an [`Etcd`] store behaves.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// The members, such as `https://127.0.0.1:2379`; the forms are those of the reference's
    /// `--etcd-servers`.
    pub endpoints: Vec<String>,
    /// The files for TLS.
    pub tls: Tls,
    /// Only keys that start with these bytes are part of the store.
    pub prefix: Bytes,
    /// How often history is compacted, and so for how long it is kept at least; zero for never.
    pub compaction_interval: Duration,
    /// How long it may take to open a connection.
    pub dial_timeout: Duration,
    /// How long a request may take, with all its attempts.
    pub request_timeout: Duration,
    /// How long a member may take to say that it works.
    pub health_timeout: Duration,
    /// The most bytes in one value. etcd has a limit of its own for requests, `--max-request-bytes`.
    pub value_limit: usize,
    /// The bytes of recent events that are kept in memory for followers; the others are read from etcd.
    pub window: usize,
    /// How much longer than needed a lease is granted at most, so that other entries can share it.
    pub lease_reuse: Duration,
    /// How many entries share a lease at most.
    pub lease_objects: usize,
}

impl Default for EtcdOptions {
    /// The values of the reference; its requests have the time of their callers, ours have ten seconds.
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            tls: Tls::default(),
            prefix: Bytes::from_static(b"/registry/"),
            compaction_interval: Duration::from_secs(300),
            dial_timeout: Duration::from_secs(20),
            request_timeout: Duration::from_secs(10),
            health_timeout: Duration::from_secs(2),
            value_limit: VALUE_LIMIT,
            window: 8 << 20,
            lease_reuse: Duration::from_secs(60),
            lease_objects: 1000,
        }
    }
}

/// The files for TLS, in PEM. They are read for each connection.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The authorities that sign the members' certificates; those of the host if there is none.
    pub ca: Option<PathBuf>,
    /// The certificate of the client.
    pub cert: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
}

/// A store on etcd.
pub struct Etcd {
    shared: Arc<Shared>,
    past: Arc<Past>,
    handle: Handle,
    thread: Mutex<Option<Thread>>,
}

/// The thread that does the work.
struct Thread {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Thread {
    fn start() -> std::io::Result<(Self, Handle)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let work = move || drop(runtime.block_on(stopped));
        let thread = thread::Builder::new().name("store-etcd".into()).spawn(work)?;
        Ok((Self { stop, thread }, handle))
    }

    /// Drops all tasks.
    fn end(self) {
        drop(self.stop);
        drop(self.thread.join());
    }
}

impl Etcd {
    /// Connects to a cluster, which has to answer within the time for dialing. Blocking.
    pub fn connect(options: EtcdOptions) -> Result<Self, Error> {
        let client = Client::new(&options).map_err(Error::read)?;
        let (thread, handle) = Thread::start().map_err(Error::read)?;
        let shared = match wait(&handle, first_contact(options, client)).recv() {
            Ok(Ok(shared)) => Arc::new(shared),
            failed => {
                thread.end();
                return Err(failed.map_or(Error::Closed, |failed| failed.err().unwrap_or(Error::Closed)));
            }
        };
        let entered = handle.enter();
        keep(Name::EtcdWatch, &shared, watch::run);
        keep(Name::EtcdCompact, &shared, compact::run);
        keep(Name::EtcdHealth, &shared, health::run);
        drop(entered);
        let past = Arc::new(Past { shared: shared.clone(), handle: handle.clone() });
        Ok(Self { shared, past, handle, thread: Mutex::new(Some(thread)) })
    }

    /// The id of the cluster.
    #[must_use]
    pub fn cluster(&self) -> u64 {
        self.shared.lineage().cluster
    }

    /// Runs work in the store's own thread, and waits for it. Blocking.
    fn block<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        self.shared.check_open()?;
        wait(&self.handle, work).recv().unwrap_or(Err(Error::Closed))
    }

    /// Runs work in the store's own thread, also if the future is dropped.
    fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Error>> {
        let work = tasks::once_on(&self.handle, work);
        Box::pin(async move { work.await.unwrap_or(Err(Error::Closed)) })
    }

    fn page(&self, cursor: Cursor) -> Receiver<Result<Page, Error>> {
        let shared = self.shared.clone();
        wait(&self.handle, async move { shared.page(cursor).await })
    }
}

/// A commit that a caller waits for. Dropped before anything was sent, it is withdrawn.
struct Withdrawing {
    task: tokio::task::JoinHandle<Result<Committed, Error>>,
    gate: Arc<Gate>,
}

impl Drop for Withdrawing {
    fn drop(&mut self) {
        if self.gate.withdraw() {
            self.task.abort();
        }
    }
}

/// Runs a loop of a store until the runtime of its thread ends.
fn keep<F>(name: Name, shared: &Arc<Shared>, run: fn(Arc<Shared>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let shared = shared.clone();
    let work = move || {
        let run = run(shared.clone());
        async move {
            run.await;
            Ended::Early
        }
    };
    tasks::spawn(name, work).detach();
}

/// Spawns work, whose outcome can be waited for in any thread.
fn wait<T: Send + 'static>(handle: &Handle, work: impl Future<Output = T> + Send + 'static) -> Receiver<T> {
    let (send, outcome) = mpsc::sync_channel(1);
    tasks::once_on(handle, async move { send.send(work.await).ok() });
    outcome
}

/// Asks the cluster for its id and its newest revision.
async fn first_contact(options: EtcdOptions, client: Client) -> Result<Shared, Error> {
    let probe =
        messages::RangeRequest { key: options.prefix.clone(), count_only: true, ..Default::default() };
    let answer =
        client.read_within(&probe, options.dial_timeout).await.map_err(|failure| failure.of_read())?;
    let shared = Shared::new(options, client, &answer.header.unwrap_or_default());
    shared.refresh_compacted().await.map_err(|failure| failure.of_read())?;
    Ok(shared)
}

impl Store for Etcd {
    fn commit(&self, change: Change) -> BoxFuture<'static, Result<Committed, Error>> {
        let sized = change.check_size(self.shared.options.value_limit);
        let underway = match sized.and_then(|()| self.shared.begin(&change)) {
            Ok(underway) => underway,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let (shared, gate) = (self.shared.clone(), Arc::new(Gate::default()));
        let task = tasks::once_on(&self.handle, {
            let gate = gate.clone();
            async move {
                let outcome = commit::run(shared, change, &gate).await;
                drop(underway);
                outcome
            }
        });
        let mut commit = Withdrawing { task, gate };
        Box::pin(async move { (&mut commit.task).await.unwrap_or(Err(Error::Closed)) })
    }

    fn known_revision(&self) -> Revision {
        self.shared.known_revision()
    }

    fn newest_revision(&self) -> BoxFuture<'static, Result<Revision, Error>> {
        let shared = self.shared.clone();
        self.spawn(async move {
            shared.check_open()?;
            let before = shared.position();
            let header = shared.newest().await.map_err(|failure| failure.of_read())?;
            let newest = revision(header.revision);
            if newest < before.delivered {
                shared.start_of_lineage(before).await?;
            }
            Ok(newest)
        })
    }

    fn lineage(&self) -> u64 {
        self.shared.feed.generation()
    }

    fn changed(&self, after: Revision) -> BoxFuture<'static, Result<(), Error>> {
        self.shared.feed.changed(after)
    }

    fn compacted(&self) -> Revision {
        self.shared.compacted()
    }

    fn get(&self, key: &Key) -> Result<Option<Entry>, Error> {
        let (shared, key) = (self.shared.clone(), key.clone());
        self.block(async move { shared.get(&key).await })
    }

    fn load(&self, prefix: &[u8], at: Option<Revision>, visit: &mut Visitor<'_>) -> Result<Revision, Error> {
        let at = at.unwrap_or_else(|| self.known_revision());
        let shared = self.shared.clone();
        self.block(async move { shared.check_load(at).await })?;
        // To etcd, revision zero means the newest.
        let within = self.shared.within(prefix).filter(|_| at > Revision::ZERO);
        let mut next = within.map(|prefix| self.page(Cursor::start(prefix, at)));
        while let Some(page) = next {
            let Page { entries, next: cursor } = page.recv().unwrap_or(Err(Error::Closed))?;
            next = cursor.map(|cursor| self.page(cursor));
            for entry in entries {
                if visit(Ok(entry)).is_break() {
                    return Ok(at);
                }
            }
        }
        Ok(at)
    }

    fn follow(&self, follow: Follow) -> Result<Box<dyn Follower>, Error> {
        self.shared.check_open()?;
        self.shared.check_reach(follow.from)?;
        Ok(self.shared.feed.follow(follow, self.past.clone()))
    }

    fn compact(&self, to: Revision) -> BoxFuture<'static, Result<(), Error>> {
        let shared = self.shared.clone();
        self.spawn(async move {
            shared.check_open()?;
            shared.compact(to).await
        })
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn expires(&self) -> bool {
        true
    }

    fn health(&self) -> Health {
        self.shared.health()
    }

    fn close(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            self.shared.finish(2 * self.shared.options.request_timeout + CLOSING);
            thread.end();
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.close();
    }
}
