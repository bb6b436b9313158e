//! Requests to a cluster of etcd: one connection to each member that is in use, failover, and a bound on
//! every wait.
//!
//! 1. All requests go to the current member. A failure that may be its own makes the next member the current
//!    one.
//! 2. A read is tried again, on the next member, until its time is up. A write is tried again only if it is
//!    certain that it did nothing.
//! 3. Every request asks for a leader: a member without one refuses it at once, before it does anything.

use super::{
    EtcdOptions, Tls,
    commit::Gate,
    connection::Connection,
    failure::{Cause, Failure},
    messages::{Answer as _, Call, WATCH, WatchCreateRequest, WatchRequest, WatchResponse},
    target::Target,
};
use futures_util::{StreamExt as _, stream};
use http::uri::PathAndQuery;
use std::{
    io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, timeout_at};
use tonic::{Request, Streaming, metadata::MetadataValue};
use tonic_prost::ProstCodec;

/// The pause after all members have failed once; it doubles up to [`PAUSE_LIMIT`].
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_LIMIT: Duration = Duration::from_millis(500);

/// The members of a cluster.
pub(super) struct Client {
    members: Vec<Member>,
    current: AtomicUsize,
    tls: Tls,
    dial_timeout: Duration,
    request_timeout: Duration,
    /// The newest revision in the header of an answer.
    seen: AtomicU64,
}

struct Member {
    target: Target,
    connection: Mutex<Option<Connection>>,
    dialing: tokio::sync::Mutex<()>,
}

impl Member {
    fn connection(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Option<Connection> {
        self.connection().clone().filter(|connection| !connection.is_closed())
    }

    fn failure(&self, cause: Cause) -> Failure {
        Failure { member: self.target.to_string(), cause }
    }
}

impl Client {
    /// A client of some members; connections are opened when they are needed.
    pub(super) fn new(options: &EtcdOptions) -> io::Result<Self> {
        let targets = options.endpoints.iter().map(|endpoint| Target::parse(endpoint));
        let members = targets.map(|target| {
            let target = target?;
            Ok(Member { target, connection: Mutex::new(None), dialing: tokio::sync::Mutex::new(()) })
        });
        let members: Vec<Member> = members.collect::<io::Result<_>>()?;
        if members.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no etcd server is given"));
        }
        Ok(Self {
            members,
            current: AtomicUsize::new(0),
            tls: options.tls.clone(),
            dial_timeout: options.dial_timeout,
            request_timeout: options.request_timeout,
            seen: AtomicU64::new(0),
        })
    }

    /// The newest revision in the header of an answer so far.
    pub(super) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Starts again with the revision that a quorum has answered.
    pub(super) fn set_seen(&self, revision: u64) {
        self.seen.store(revision, Ordering::Release);
    }

    /// The index of the current member.
    pub(super) fn current(&self) -> usize {
        self.current.load(Ordering::Acquire)
    }

    /// Makes the next member the current one, unless another task did.
    pub(super) fn leave(&self, index: usize) {
        let next = (index + 1) % self.members.len().max(1);
        self.current.compare_exchange(index, next, Ordering::AcqRel, Ordering::Acquire).ok();
    }

    /// Closes the connection to a member: its requests fail, and the next request dials again.
    pub(super) fn cut(&self, index: usize) {
        let connection = self.members.get(index).and_then(|member| member.connection().take());
        if let Some(connection) = connection {
            connection.close();
        }
    }

    /// Makes a request that changes nothing.
    pub(super) async fn read<C: Call>(&self, request: &C) -> Result<C::Answer, Failure> {
        self.call(request, Failure::is_transient, self.request_timeout, None).await
    }

    /// Like [`Client::read`], with another time limit.
    pub(super) async fn read_within<C: Call>(
        &self,
        request: &C,
        bound: Duration,
    ) -> Result<C::Answer, Failure> {
        self.call(request, Failure::is_transient, bound, None).await
    }

    /// Makes a request that may change something, at most once.
    pub(super) async fn write<C: Call>(&self, request: &C) -> Result<C::Answer, Failure> {
        self.call(request, Failure::is_harmless, self.request_timeout, None).await
    }

    /// Like [`Client::write`], unless the caller withdraws the request before it is sent.
    pub(super) async fn write_through<C: Call>(
        &self,
        gate: &Gate,
        request: &C,
    ) -> Result<C::Answer, Failure> {
        self.call(request, Failure::is_harmless, self.request_timeout, Some(gate)).await
    }

    /// Makes a request to one member, without another attempt.
    pub(super) async fn ask<C: Call>(
        &self,
        index: usize,
        request: &C,
        bound: Duration,
    ) -> Result<C::Answer, Failure> {
        self.attempt(index, request, Instant::now() + bound, None).await
    }

    async fn call<C: Call>(
        &self,
        request: &C,
        again: fn(&Failure) -> bool,
        bound: Duration,
        gate: Option<&Gate>,
    ) -> Result<C::Answer, Failure> {
        let deadline = Instant::now() + bound;
        let (mut tried, mut pause) = (0, PAUSE);
        loop {
            let index = self.current();
            let failure = match self.attempt(index, request, deadline, gate).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if failure.is_transient() {
                self.leave(index);
            }
            if !again(&failure) {
                return Err(failure);
            }
            tried += 1;
            if tried >= self.members.len() {
                tried = 0;
                if Instant::now() + pause >= deadline {
                    return Err(failure);
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_LIMIT);
            } else if Instant::now() >= deadline {
                return Err(failure);
            }
        }
    }

    async fn attempt<C: Call>(
        &self,
        index: usize,
        request: &C,
        deadline: Instant,
        gate: Option<&Gate>,
    ) -> Result<C::Answer, Failure> {
        let member = self.member(index)?;
        let connection = self.connect(member, deadline).await?;
        let mut grpc = connection.grpc();
        let call = async {
            grpc.ready().await.map_err(|error| Cause::Unsent(error.to_string()))?;
            if gate.is_some_and(|gate| !gate.begin()) {
                return Err(Cause::Unsent("nobody waits for it any more".into()));
            }
            let path = PathAndQuery::from_static(C::PATH);
            let answer = grpc.unary(with_leader(request.clone()), path, ProstCodec::default()).await;
            answer.map_err(|status| Cause::of(&status))
        };
        match timeout_at(deadline, call).await {
            Ok(Ok(answer)) => {
                let answer: C::Answer = answer.into_inner();
                if let Some(header) = answer.header() {
                    self.seen.fetch_max(header.revision.unsigned_abs(), Ordering::AcqRel);
                }
                Ok(answer)
            }
            Ok(Err(cause)) => Err(member.failure(cause)),
            Err(_) => Err(member.failure(Cause::TimedOut)),
        }
    }

    /// Opens a watch at the current member, which is left if that fails.
    pub(super) async fn watch(&self, create: WatchCreateRequest) -> Result<Watch<'_>, Failure> {
        let (index, deadline) = (self.current(), Instant::now() + self.request_timeout);
        let member = self.member(index)?;
        let opened = match self.connect(member, deadline).await {
            Ok(connection) => Self::open_watch(member, index, &connection, create, deadline).await,
            Err(failure) => Err(failure),
        };
        if opened.is_err() {
            self.leave(index);
        }
        opened
    }

    /// Opens a watch over a connection of its own, which is closed with the watch. A watch that is dropped
    /// while etcd sends must not share a connection: hyper counts the small frames that still arrive for it
    /// as excessive load, and in the end closes the connection.
    pub(super) async fn watch_apart(&self, create: WatchCreateRequest) -> Result<Watch<'_>, Failure> {
        let (index, deadline) = (self.current(), Instant::now() + self.request_timeout);
        let member = self.member(index)?;
        let opened = match self.dial(member, deadline).await {
            Ok(connection) => {
                let watch = Self::open_watch(member, index, &connection, create, deadline).await;
                watch.map(|watch| Watch { own: Some(Own(connection)), ..watch })
            }
            Err(failure) => Err(failure),
        };
        if opened.is_err() {
            self.leave(index);
        }
        opened
    }

    async fn open_watch<'a>(
        member: &'a Member,
        index: usize,
        connection: &Connection,
        create: WatchCreateRequest,
        deadline: Instant,
    ) -> Result<Watch<'a>, Failure> {
        let mut grpc = connection.grpc();
        // The stream of requests stays open: its end would end the watch.
        let requests = stream::iter([WatchRequest { create: Some(create) }]).chain(stream::pending());
        let open = async {
            grpc.ready().await.map_err(|error| Cause::Unsent(error.to_string()))?;
            let path = PathAndQuery::from_static(WATCH);
            let opened = grpc.streaming(with_leader(requests), path, ProstCodec::default()).await;
            opened.map_err(|status| Cause::of(&status))
        };
        let opened = timeout_at(deadline, open).await.unwrap_or(Err(Cause::TimedOut));
        match opened {
            Ok(opened) => Ok(Watch { member, index, stream: opened.into_inner(), own: None }),
            Err(cause) => Err(member.failure(cause)),
        }
    }

    fn member(&self, index: usize) -> Result<&Member, Failure> {
        let none = || Failure { member: "-".into(), cause: Cause::Unsent("there is no such member".into()) };
        self.members.get(index).ok_or_else(none)
    }

    /// The connection to a member; opens one if there is none.
    async fn connect(&self, member: &Member, deadline: Instant) -> Result<Connection, Failure> {
        if let Some(open) = member.open() {
            return Ok(open);
        }
        let late = |_| member.failure(Cause::Unsent("it could not be reached in time".into()));
        let _dialing = timeout_at(deadline, member.dialing.lock()).await.map_err(late)?;
        if let Some(open) = member.open() {
            return Ok(open);
        }
        let connection = self.dial(member, deadline).await?;
        *member.connection() = Some(connection.clone());
        Ok(connection)
    }

    /// Opens a connection to a member. With several members, one that does not answer is given a part of the
    /// time.
    async fn dial(&self, member: &Member, deadline: Instant) -> Result<Connection, Failure> {
        let patience = match self.members.len() {
            1 => self.dial_timeout,
            _ => self.dial_timeout.min(self.request_timeout / 4),
        };
        let open = Connection::open(&member.target, &self.tls);
        match timeout_at(deadline.min(Instant::now() + patience), open).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(member.failure(Cause::Unsent(error.to_string()))),
            Err(_) => Err(member.failure(Cause::Unsent("it could not be reached in time".into()))),
        }
    }
}

/// A watch that is open.
pub(super) struct Watch<'a> {
    member: &'a Member,
    /// The index of the member that it is at.
    pub(super) index: usize,
    stream: Streaming<WatchResponse>,
    #[allow(dead_code, reason = "it closes the connection when it is dropped")]
    own: Option<Own>,
}

/// A connection that only one watch uses.
struct Own(Connection);

impl Drop for Own {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Watch<'_> {
    /// The next response, with its fragments joined. Safe to drop and call again only while `partial` is
    /// kept.
    pub(super) async fn next(
        &mut self,
        partial: &mut Vec<super::messages::WatchEvent>,
    ) -> Result<WatchResponse, Failure> {
        loop {
            let message =
                self.stream.message().await.map_err(|status| self.member.failure(Cause::of(&status)))?;
            let ended = || self.member.failure(Cause::Lost("the watch was ended".into()));
            let mut response = message.ok_or_else(ended)?;
            if response.fragment {
                partial.append(&mut response.events);
                continue;
            }
            if !partial.is_empty() {
                partial.append(&mut response.events);
                response.events = std::mem::take(partial);
            }
            if response.canceled && response.compact_revision == 0 {
                let why = format!("the watch was canceled: {}", response.cancel_reason);
                return Err(self.member.failure(Cause::Lost(why)));
            }
            return Ok(response);
        }
    }
}

/// A request that a member without a leader refuses.
fn with_leader<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    request
}
