//! All open connections: their limits, and which of them are closed for a new one or because they are
//! overdue.
//!
//! 1. There are at most [`Limits::connections`] of them, and at most seven eighths of these from one network.
//! 2. A new connection above that takes the place of another: one without an authenticated request so far,
//!    otherwise one whose peer does not take what it is sent, otherwise an idle one; of these, one of the
//!    network with the most connections, and the oldest. Of the first sort, some go at once. A connection
//!    that is in use by an authenticated peer is not closed for another: the new one is refused.
//! 3. Connections to backends that are opened for clients take places too, and count for the networks of
//!    these clients: at most half of all places, and only while a network has less than three quarters of
//!    them. So whatever clients do with backends, there are places for further connections.
//! 4. A connection whose socket takes no data for [`Limits::stalled`], unless it carries a stream whose
//!    client may pause, and every response that is overdue ([`sending`](crate::sending)), ends within a
//!    second.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::families::{CONNECTIONS, CONNECTIONS_CLOSED, CONNECTIONS_REFUSED, RESPONSES_ENDED};
use crate::sending::{Sending, Stamp};
use crate::{Limits, Peer};

/// A connection whose peer has not read for this long is closed before an idle one.
const NO_PROGRESS: Duration = Duration::from_secs(1);

/// The longest interval of sweeps.
const SWEEP: Duration = Duration::from_secs(1);

/// The open connections of a server.
pub(crate) struct Connections {
    most: usize,
    most_of_network: usize,
    most_backends: usize,
    /// A network with this many places gets none for a further backend.
    most_for_backend: usize,
    /// The number of unauthenticated connections that are closed at once, so that the search for them is
    /// rare.
    batch: usize,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// The client connections, in the order in which they were accepted.
    open: BTreeMap<u64, Arc<Link>>,
    /// The number of connections to backends.
    backends: usize,
    /// The number of places of each network, those for backends included.
    of_network: HashMap<IpAddr, usize>,
    next: u64,
}

/// The place of a connection among the open ones, until it is dropped.
pub(crate) struct Place {
    connections: Arc<Connections>,
    number: u64,
    pub(crate) link: Arc<Link>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.table().remove(self.number);
    }
}

impl Connections {
    pub(crate) fn new(limits: &Limits) -> Self {
        let most = limits.connections;
        Self {
            most,
            most_of_network: (most - most / 8).max(1),
            most_backends: (most / 2).max(1),
            most_for_backend: (most - most / 4).max(2),
            batch: (most / 64).max(1),
            table: Mutex::default(),
        }
    }

    /// A place for a connection from `address`, if need be that of another connection, which is closed.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let place = self.place(address);
        match place {
            Some(_) => CONNECTIONS.with(["client"]).inc(),
            None => CONNECTIONS_REFUSED.with(["client"]).inc(),
        }
        place
    }

    fn place(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let network = network(address);
        let mut table = self.table();
        let is_full_for = |of: &usize| *of >= self.most_of_network;
        let of_network = table.of_network.get(&network).is_some_and(is_full_for).then_some(network);
        if of_network.is_some() || table.taken() >= self.most {
            table.make_room(of_network, self.batch)?;
        }
        let number = table.next;
        table.next += 1;
        let link = Arc::new(Link::new(network));
        table.open.insert(number, Arc::clone(&link));
        *table.of_network.entry(network).or_default() += 1;
        Some(Place { connections: Arc::clone(self), number, link })
    }

    /// A place for a connection to a backend, for a client at `address`.
    pub(crate) fn admit_backend(self: &Arc<Self>, address: IpAddr) -> Option<BackendPlace> {
        let place = self.backend_place(address);
        match place {
            Some(_) => CONNECTIONS.with(["backend"]).inc(),
            None => CONNECTIONS_REFUSED.with(["backend"]).inc(),
        }
        place
    }

    fn backend_place(self: &Arc<Self>, address: IpAddr) -> Option<BackendPlace> {
        let network = network(address);
        let mut table = self.table();
        if table.backends >= self.most_backends {
            return None;
        }
        let is_full_for = |of: &usize| *of >= self.most_for_backend;
        let of_network = table.of_network.get(&network).is_some_and(is_full_for).then_some(network);
        if of_network.is_some() || table.taken() >= self.most {
            table.make_room(of_network, self.batch)?;
        }
        table.backends += 1;
        *table.of_network.entry(network).or_default() += 1;
        Some(BackendPlace { connections: Arc::clone(self), network })
    }

    /// Closes the connection that is needed least, if one may be closed: a resource such as file descriptors
    /// is exhausted.
    pub(crate) fn relieve(&self) {
        self.table().make_room(None, 1);
    }

    /// Ends responses that are overdue, and connections whose sockets take no data.
    pub(crate) fn sweep(&self, limits: &Limits) {
        let now = Instant::now();
        let mut table = self.table();
        let ended =
            |(number, link): (&u64, &Arc<Link>)| link.sweep(now, limits).is_break().then_some(*number);
        let ended: Vec<u64> = table.open.iter().filter_map(ended).collect();
        for number in ended {
            table.close(number);
        }
    }

    /// The time between two sweeps.
    pub(crate) fn sweep_interval(limits: &Limits) -> Duration {
        (limits.stalled.min(limits.request) / 4).clamp(Duration::from_millis(20), SWEEP)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a connection to a backend, until it is dropped.
pub(crate) struct BackendPlace {
    connections: Arc<Connections>,
    /// The network of the client.
    network: IpAddr,
}

impl Drop for BackendPlace {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        table.backends -= 1;
        table.leave(self.network);
        CONNECTIONS.with(["backend"]).dec();
    }
}

impl Table {
    /// The number of taken places.
    fn taken(&self) -> usize {
        self.open.len() + self.backends
    }

    /// Closes the connection that is needed least, of a network or of all, or some of those that are not
    /// authenticated. `None` if none may be closed.
    fn make_room(&mut self, network: Option<IpAddr>, batch: usize) -> Option<()> {
        let now = Instant::now();
        let candidates = self.open.iter().filter(|(_, link)| network.is_none_or(|it| it == link.network));
        let ranked = candidates.filter_map(|(number, link)| {
            let (need, since) = link.need(now)?;
            let neighbours = self.of_network.get(&link.network).copied().unwrap_or_default();
            Some((need, Reverse(neighbours), since, *number))
        });
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_unstable();
        let (first, _, _, _) = *ranked.first()?;
        let most = if first == Need::Unauthenticated { batch } else { 1 };
        for (_, _, _, number) in ranked.into_iter().take_while(|(need, ..)| *need == first).take(most) {
            self.close(number);
            CONNECTIONS_CLOSED.with(["replaced"]).inc();
        }
        Some(())
    }

    /// Ends the task of a connection, and gives up its place at once.
    fn close(&mut self, number: u64) {
        if let Some(link) = self.remove(number) {
            link.close();
        }
    }

    fn remove(&mut self, number: u64) -> Option<Arc<Link>> {
        let link = self.open.remove(&number)?;
        self.leave(link.network);
        CONNECTIONS.with(["client"]).dec();
        Some(link)
    }

    /// Counts a place of a network as free.
    fn leave(&mut self, network: IpAddr) {
        if let Some(of) = self.of_network.get_mut(&network) {
            *of -= 1;
            if *of == 0 {
                self.of_network.remove(&network);
            }
        }
    }
}

/// The part of an address that one peer has: an IPv4 address, or the first 64 bits of an IPv6 address.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// The reasons to close a connection for another, the first to be closed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    Unauthenticated,
    NoProgress,
    Idle,
}

/// The state of a connection.
pub(crate) struct Link {
    network: IpAddr,
    /// When the connection was accepted.
    accepted: Instant,
    /// Since when the socket accepts no data: the peer does not read.
    pub(crate) blocked: Stamp,
    /// The peer, after the TLS handshake.
    peer: OnceLock<Arc<Peer>>,
    in_flight: AtomicUsize,
    any_request: AtomicBool,
    /// Whether a handler took the connection over after 101.
    taken_over: AtomicBool,
    /// The end of the last request. Valid if no request is in flight.
    idle_since: Stamp,
    sending: Mutex<Vec<Arc<Sending>>>,
    task: OnceLock<AbortHandle>,
    /// The connection takes no further requests.
    retirement: Notify,
}

impl Link {
    fn new(network: IpAddr) -> Self {
        let accepted = Instant::now();
        let idle_since = Stamp::unset(accepted);
        idle_since.set();
        Self {
            network,
            accepted,
            blocked: Stamp::unset(accepted),
            peer: OnceLock::new(),
            in_flight: AtomicUsize::new(0),
            any_request: AtomicBool::new(false),
            taken_over: AtomicBool::new(false),
            idle_since,
            sending: Mutex::default(),
            task: OnceLock::new(),
            retirement: Notify::new(),
        }
    }

    /// Has the connection end after its requests in flight.
    pub(crate) fn retire(&self) {
        self.retirement.notify_one();
    }

    /// Waits until the connection has to end after its requests in flight.
    pub(crate) async fn retired(&self) {
        self.retirement.notified().await;
    }

    /// The task that serves the connection.
    pub(crate) fn served_by(&self, task: AbortHandle) {
        // Called once.
        let _ = self.task.set(task);
    }

    /// The TLS handshake is done. The time for the first request begins.
    pub(crate) fn connected(&self, peer: &Arc<Peer>) {
        self.idle_since.set();
        // Called once.
        let _ = self.peer.set(Arc::clone(peer));
    }

    /// Ends the connection in the middle of everything.
    pub(crate) fn close(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    /// Counts a request as in flight.
    pub(crate) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        self.any_request.store(true, Ordering::Release);
        InFlight(Arc::clone(self))
    }

    /// Counts a connection that is not HTTP any more as in use. Its peer may take its time.
    pub(crate) fn begin_takeover(self: &Arc<Self>) -> InFlight {
        self.taken_over.store(true, Ordering::Release);
        self.begin()
    }

    /// Whether its peer may stop reading for as long as it wants: it holds nothing but its own stream.
    fn may_pause(&self) -> bool {
        self.taken_over.load(Ordering::Acquire) || self.sending().iter().any(|sending| sending.may_pause())
    }

    /// Whether the connection has had a request.
    pub(crate) fn any_request(&self) -> bool {
        self.any_request.load(Ordering::Acquire)
    }

    /// Since when there is no request in flight.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        if self.in_flight.load(Ordering::Acquire) > 0 {
            return None;
        }
        self.idle_since.get()
    }

    pub(crate) fn begin_sending(&self, sending: &Arc<Sending>) {
        self.sending().push(Arc::clone(sending));
    }

    pub(crate) fn end_sending(&self, sending: &Arc<Sending>) {
        let mut all = self.sending();
        if let Some(at) = all.iter().position(|one| Arc::ptr_eq(one, sending)) {
            all.swap_remove(at);
        }
    }

    /// The responses that are being sent.
    fn sending(&self) -> MutexGuard<'_, Vec<Arc<Sending>>> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much the connection is needed, and since when; `None` if it may not be closed for another.
    fn need(&self, now: Instant) -> Option<(Need, Instant)> {
        if !self.peer.get().is_some_and(|peer| peer.is_authenticated()) {
            return Some((Need::Unauthenticated, self.accepted));
        }
        let waiting = self.sending().iter().filter_map(|sending| sending.waiting()).min();
        let stuck = waiting.into_iter().chain(self.blocked.get()).min();
        match stuck.filter(|since| now.saturating_duration_since(*since) >= NO_PROGRESS) {
            Some(since) => Some((Need::NoProgress, since)),
            None => self.idle_since().map(|since| (Need::Idle, since)),
        }
    }

    /// Ends the responses that are overdue. Breaks if the connection must end.
    fn sweep(&self, now: Instant, limits: &Limits) -> std::ops::ControlFlow<()> {
        use std::ops::ControlFlow::{Break, Continue};
        if self.blocked.elapsed(now).is_some_and(|blocked| blocked >= limits.stalled) && !self.may_pause() {
            log::debug!(network:% = self.network; "a connection was closed: its peer does not read");
            CONNECTIONS_CLOSED.with(["stalled"]).inc();
            return Break(());
        }
        for sending in &*self.sending() {
            let Some(overdue) = sending.overdue(now, limits) else { continue };
            log::debug!(network:% = self.network; "{}", overdue.reason());
            RESPONSES_ENDED.with([overdue.label()]).inc();
            sending.abort();
            match sending.stream() {
                Some(stream) => stream.reset(),
                None => return Break(()),
            }
        }
        Continue(())
    }
}

/// Counts a request as in flight until it is dropped.
pub(crate) struct InFlight(Arc<Link>);

impl InFlight {
    pub(crate) fn link(&self) -> &Link {
        &self.0
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.idle_since.set();
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests;
