//! The frames that wait to be written to one side of a connection.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::Error;

/// The most bytes of control frames that wait.
const MOST_CONTROL: usize = 4 << 10;

/// An outbox, and the part that writes what is put into it. The writer ends when all outboxes are dropped.
pub(crate) fn channel() -> (Outbox, Writer) {
    // One frame waits while another one is written.
    let (items, receiver) = mpsc::channel(1);
    let control = Arc::new(Control::default());
    (Outbox { items, control: control.clone() }, Writer { items: receiver, control })
}

/// Takes frames for one side of a connection.
#[derive(Clone)]
pub(crate) struct Outbox {
    items: mpsc::Sender<Item>,
    control: Arc<Control>,
}

enum Item {
    Frame(Vec<u8>),
    Written(oneshot::Sender<()>),
}

#[derive(Default)]
struct Control {
    waiting: Mutex<Vec<u8>>,
    added: Notify,
}

impl Control {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Outbox {
    /// Queues a frame, when the one before is being written.
    pub(crate) async fn send(&self, frame: Vec<u8>) -> Result<(), Error> {
        self.items.send(Item::Frame(frame)).await.map_err(|_| gone())
    }

    /// Queues a frame, when the one before is being written. If the peer no longer reads, the frame is
    /// dropped: the session ends when the peer has sent everything.
    pub(crate) async fn offer(&self, frame: Vec<u8>) {
        let _ = self.send(frame).await;
    }

    /// Queues a control frame, which does not wait for data. It is dropped if many are waiting.
    pub(crate) fn send_control(&self, frame: &[u8]) {
        let mut waiting = self.control.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() + frame.len() <= MOST_CONTROL {
            waiting.extend_from_slice(frame);
        }
        drop(waiting);
        self.control.added.notify_one();
    }

    /// Waits until all queued frames are written.
    pub(crate) async fn written(&self) -> Result<(), Error> {
        let (done, written) = oneshot::channel();
        self.items.send(Item::Written(done)).await.map_err(|_| gone())?;
        written.await.map_err(|_| gone())
    }
}

fn gone() -> Error {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}

/// Writes the frames of an outbox.
pub(crate) struct Writer {
    items: mpsc::Receiver<Item>,
    control: Arc<Control>,
}

impl Writer {
    /// Writes until all outboxes are dropped.
    pub(crate) async fn write_to(mut self, mut to: impl AsyncWrite + Unpin) -> Result<(), Error> {
        loop {
            tokio::select! {
                item = self.items.recv() => match item {
                    Some(Item::Frame(frame)) => to.write_all(&frame).await?,
                    Some(Item::Written(done)) => {
                        to.flush().await?;
                        // Sending fails if the caller no longer waits.
                        let _ = done.send(());
                    }
                    None => {
                        to.flush().await?;
                        return Ok(());
                    }
                },
                () = self.control.added.notified() => {}
            }
            to.write_all(&self.control.take()).await?;
            to.flush().await?;
        }
    }

    /// Writes until the peer no longer reads; then waits forever.
    pub(crate) async fn write_until_broken(self, to: impl AsyncWrite + Unpin) -> std::convert::Infallible {
        let _ = self.write_to(to).await;
        std::future::pending().await
    }
}
