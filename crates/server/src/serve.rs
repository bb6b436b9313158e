//! Accepts connections, and stops in order.
//!
//! 1. No error of a connection, or of accepting one, ends the loop.
//! 2. A stop goes through the phases of [`Phase`]: after the first request to stop, everything is still
//!    served for the configured delay; then, if so configured, new requests are answered with 429 until those
//!    in flight are answered; then the listening socket is closed and connections finish their
//!    requests, for at most [`Limits::drain`]; the remaining connections are closed. A second request to stop
//!    closes them at once.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{JoinError, JoinSet};
use tokio::time::MissedTickBehavior;

use crate::connection::{self, Shared};
use crate::connections::Connections;
use crate::handler::Handler;
use crate::tls::Acceptor;
use crate::unsent::Unsent;
use crate::{Ceiling, Lifecycle, Limits, Phase};

/// The length of the kernel's queue of connections that are not accepted yet.
const BACKLOG: u32 = 4096;

/// The pause after accepting failed for lack of a resource such as file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The least time between two log lines about it.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Why serving could not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {}", explain(.cause))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        cause: io::Error,
    },
}

fn explain(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::AddrInUse => {
            "the port is in use, perhaps by another server; choose another with --secure-port".into()
        }
        io::ErrorKind::AddrNotAvailable => "this host does not have that address".into(),
        io::ErrorKind::PermissionDenied => "not permitted; ports below 1024 need a privilege".into(),
        _ => cause.to_string(),
    }
}

/// A listening socket, ready to serve.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
    lifecycle: Lifecycle,
    shutdown_delay: Duration,
    refuses_first: bool,
    ceiling: Option<Arc<Ceiling>>,
}

/// Whether other processes may listen on the same address and port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PortUse {
    /// No.
    #[default]
    Exclusive,
    /// Yes, if they permit it too (`SO_REUSEPORT`): the system spreads connections among them.
    Shared,
}

/// The outcome of serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The connections that were closed before they had finished.
    pub cut_off: usize,
}

impl Server {
    /// Listens on `address`. Connections wait until [`Server::run`] takes them.
    pub fn listen(
        address: SocketAddr,
        port_use: PortUse,
        limits: Limits,
        lifecycle: Lifecycle,
    ) -> Result<Self, StartError> {
        let listener = listener(address, port_use).map_err(|cause| StartError::Listen { address, cause })?;
        let address = listener.local_addr().map_err(|cause| StartError::Listen { address, cause })?;
        let shutdown_delay = Duration::ZERO;
        Ok(Self { listener, address, limits, lifecycle, shutdown_delay, refuses_first: false, ceiling: None })
    }

    /// Answers new requests with 429 after the delay, until those in flight are answered.
    pub fn refusing_first(mut self) -> Self {
        self.refuses_first = true;
        self
    }

    /// Keeps serving for `delay` after the first request to stop, with readiness failing.
    pub fn with_shutdown_delay(mut self, delay: Duration) -> Self {
        self.shutdown_delay = delay;
        self
    }

    /// Counts what responses under way hold with the memory of the process.
    pub fn counted_by(mut self, ceiling: &Arc<Ceiling>) -> Self {
        self.ceiling = Some(Arc::clone(ceiling));
        self
    }

    /// The address it listens on, with the port that the system chose if it was 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it has stopped.
    pub async fn run<H: Handler>(self, tls: Arc<Acceptor>, handler: H) -> Outcome {
        let Self { listener, limits, lifecycle, shutdown_delay, refuses_first, ceiling, .. } = self;
        let drain = limits.drain.max(lifecycle.watch_grace());
        let answered = limits.request;
        let open = Arc::new(Connections::new(&limits));
        let mut sweeps = tokio::time::interval(Connections::sweep_interval(&limits));
        sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let unsent = Arc::new(Unsent::new(&limits));
        if let Some(ceiling) = ceiling {
            ceiling.count_unsent(&unsent);
        }
        let shared = Arc::new(Shared {
            handler,
            tls,
            limits,
            lifecycle: lifecycle.clone(),
            unsent,
            connections: Arc::clone(&open),
        });
        let mut connections = JoinSet::new();
        let mut failures = Failures::default();

        let mut until_draining = std::pin::pin!(async {
            lifecycle.reached(Phase::ShuttingDown).await;
            log::info!(delay:? = shutdown_delay; "asked to stop: readiness fails from now on");
            tokio::select! {
                () = tokio::time::sleep(shutdown_delay) => {}
                () = lifecycle.reached(Phase::Stopping) => {}
            }
            if refuses_first {
                lifecycle.advance(Phase::Refusing);
                log::info!("requests are answered with 429 until those that came before are answered");
                let watches = tokio::time::timeout(lifecycle.watch_grace(), lifecycle.watches.ended());
                let finished = async { tokio::join!(lifecycle.requests.ended(), watches) };
                tokio::select! {
                    _ = finished => {}
                    () = tokio::time::sleep(answered) => {}
                    () = lifecycle.reached(Phase::Stopping) => {}
                }
            }
            lifecycle.advance(Phase::Draining);
        });
        loop {
            tokio::select! {
                () = &mut until_draining => break,
                Some(ended) = connections.join_next() => report(ended),
                _ = sweeps.tick() => open.sweep(&shared.limits),
                accepted = listener.accept() => match accepted {
                    Ok((socket, address)) => match open.admit(address.ip()) {
                        Some(place) => {
                            let link = Arc::clone(&place.link);
                            let serving = connection::serve(Arc::clone(&shared), socket, address, Arc::clone(&link));
                            link.served_by(connections.spawn(async move {
                                serving.await;
                                drop(place);
                            }));
                        }
                        None => failures.refused(),
                    },
                    Err(error) => failures.after(&error, &open).await,
                },
            }
        }
        drop(listener);
        log::info!(connections = connections.len(); "no new connections are taken; those that are open finish");
        tokio::select! {
            () = async { while let Some(ended) = connections.join_next().await { report(ended); } } => {}
            () = tokio::time::sleep(drain) => {}
            () = lifecycle.reached(Phase::Stopping) => {}
        }
        let cut_off = connections.len();
        connections.shutdown().await;
        lifecycle.advance(Phase::Stopping);
        Outcome { cut_off }
    }
}

fn listener(address: SocketAddr, port_use: PortUse) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(port_use == PortUse::Shared)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Handles failures to accept: none ends the loop, and repeated ones do not fill the log.
#[derive(Default)]
struct Failures {
    last_logged: Option<Instant>,
}

impl Failures {
    /// Ignores a connection that was closed before it was accepted. Any other error is a lack of resources:
    /// logs it, closes the connection that is needed least, and pauses, because the next attempt would fail
    /// at once.
    async fn after(&mut self, error: &io::Error, open: &Connections) {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
        if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted) {
            return;
        }
        if self.is_due() {
            log::warn!(error:% = error; "connections cannot be accepted");
        }
        open.relieve();
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }

    /// A connection was closed because all others are in use.
    fn refused(&mut self) {
        if self.is_due() {
            log::warn!("a connection was refused: all that there may be are in use");
        }
    }

    fn is_due(&mut self) -> bool {
        let is_due = self.last_logged.is_none_or(|last| last.elapsed() > LOG_INTERVAL);
        if is_due {
            self.last_logged = Some(Instant::now());
        }
        is_due
    }
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        log::error!("a connection ended with a panic");
    }
}
