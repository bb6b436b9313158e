//! Connections that stop being HTTP: a handler answers 101 and takes the connection over.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;

use crate::at_end::Ending;

/// The connection of a client after the response 101.
pub(crate) type Taken = TokioIo<Upgraded>;

type TakeoverFn = Box<dyn FnOnce(Taken) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// An extension of the response 101: the function that uses the connection afterwards. It runs in the task of
/// the connection, and ends when the connection is closed for another or when the server stops.
#[derive(Clone)]
pub(crate) struct Takeover(Arc<Mutex<Option<TakeoverFn>>>);

impl fmt::Debug for Takeover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Takeover")
    }
}

impl Takeover {
    pub(crate) fn new<F: Future<Output = ()> + Send + 'static>(
        run: impl FnOnce(Taken) -> F + Send + 'static,
    ) -> Self {
        let run: TakeoverFn = Box::new(|taken| Box::pin(run(taken)));
        Self(Arc::new(Mutex::new(Some(run))))
    }

    fn take(&self) -> Option<TakeoverFn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Holds the takeover of a connection until HTTP has ended on it.
#[derive(Debug, Default)]
pub(crate) struct TakeoverSlot(Mutex<Option<(OnUpgrade, Takeover, Ending)>>);

impl TakeoverSlot {
    /// Stores the takeover of a response 101, with what is done when it has ended.
    pub(crate) fn put(&self, upgrade: OnUpgrade, takeover: Takeover, ending: Ending) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((upgrade, takeover, ending));
    }

    /// Runs the takeover after HTTP has ended on the connection. `None` if there is none.
    pub(crate) fn run(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let (upgrade, takeover, mut ending) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let run = takeover.take()?;
        Some(async move {
            match upgrade.await {
                Ok(upgraded) => run(TokioIo::new(upgraded)).await,
                Err(error) => log::debug!(error:%; "a connection was not handed over"),
            }
            ending.sent.is_complete = true;
            drop(ending);
        })
    }
}
