//! A way to a server that can fail: connections that are delayed, held and cut.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::Error;

/// What a proxy does to the bytes that pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They pass.
    Pass,
    /// They pass after a while.
    Delay(Duration),
    /// They wait until the mode is another.
    Hold,
}

/// Passes connections on to an address. It works in a thread of its own until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    cuts: watch::Sender<u64>,
}

impl Proxy {
    /// Listens on a free port for connections to `target`, which is `host:port`.
    pub fn start(target: &str) -> Result<Self, Error> {
        let system = |cause| Error::System { what: "starting a proxy", cause };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(system)?;
        listener.set_nonblocking(true).map_err(system)?;
        let address = listener.local_addr().map_err(system)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(system)?;
        let (mode, cuts) = (watch::Sender::new(Mode::Pass), watch::Sender::new(0));
        let accept = accept(listener, target.to_owned(), mode.subscribe(), cuts.subscribe());
        thread::spawn(move || runtime.block_on(accept));
        Ok(Self { address, mode, cuts })
    }

    /// Where it listens: `host:port`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// What it does to the bytes that pass from now on.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Ends all connections.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

/// Passes connections on until the proxy is dropped.
async fn accept(
    listener: std::net::TcpListener,
    target: String,
    modes: watch::Receiver<Mode>,
    cuts: watch::Receiver<u64>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let mut dropped = modes.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = async { while dropped.changed().await.is_ok() {} } => return,
        };
        let Ok((client, _)) = accepted else { return };
        let (target, modes, mut cuts) = (target.clone(), modes.clone(), cuts.clone());
        cuts.mark_unchanged();
        tokio::spawn(async move {
            let Ok(server) = TcpStream::connect(target).await else { return };
            client.set_nodelay(true).ok();
            server.set_nodelay(true).ok();
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::select! {
                () = pass(from_client, to_server, modes.clone()) => {}
                () = pass(from_server, to_client, modes) => {}
                _ = cuts.changed() => {}
            }
        });
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut mode: watch::Receiver<Mode>) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(count @ 1..) = from.read(&mut buffer).await else { return };
        let now = *mode.borrow_and_update();
        match now {
            Mode::Pass => {}
            Mode::Delay(delay) => tokio::time::sleep(delay).await,
            Mode::Hold => drop(mode.wait_for(|mode| *mode != Mode::Hold).await),
        }
        if to.write_all(buffer.get(..count).unwrap_or_default()).await.is_err() {
            return;
        }
    }
}
