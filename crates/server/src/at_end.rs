//! What is done when a response has been sent, or will not be sent any more: metrics, audit, traces.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Response;

/// How the sending of a response ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The bytes of the body that were given to the connection.
    pub(crate) bytes: u64,
    /// Whether the body was given to the connection as a whole. A connection that was taken over has no body.
    pub(crate) is_complete: bool,
    /// Whether the server ended it before it was complete.
    pub(crate) is_aborted: bool,
}

type Run = Box<dyn FnOnce(Sent) + Send>;

/// An extension of a response: what is done when it has been sent.
#[derive(Clone, Default)]
pub(crate) struct AtEnd(Arc<Mutex<Vec<Run>>>);

impl fmt::Debug for AtEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AtEnd")
    }
}

/// Runs `run` when a response has been sent, or its connection has ended; after a takeover, when that ends.
/// What was added first is run first. It must not block.
pub(crate) fn at_end(response: &mut Response, run: impl FnOnce(Sent) + Send + 'static) {
    let end = response.extensions_mut().get_or_insert_default::<AtEnd>();
    end.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(run));
}

/// Runs what is to be done at the end of a response when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    at_end: Option<AtEnd>,
    /// What has been sent so far.
    pub(crate) sent: Sent,
}

impl Ending {
    /// Takes what is to be done at the end of a response.
    pub(crate) fn of(response: &mut Response) -> Self {
        Self { at_end: response.extensions_mut().remove(), sent: Sent::default() }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(AtEnd(all)) = self.at_end.take() else { return };
        let all = std::mem::take(&mut *all.lock().unwrap_or_else(PoisonError::into_inner));
        for run in all {
            run(self.sent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Body;

    #[test]
    fn each_runs_once_in_order_when_the_response_is_done() {
        let mut response = Response::new(Body::Empty);
        let seen: Arc<Mutex<Vec<(u8, u64)>>> = Arc::default();
        for number in [1, 2] {
            let seen = Arc::clone(&seen);
            at_end(&mut response, move |sent| seen.lock().unwrap().push((number, sent.bytes)));
        }
        let mut ending = Ending::of(&mut response);
        drop(response);
        ending.sent.bytes = 7;
        assert!(seen.lock().unwrap().is_empty());
        drop(ending);
        assert_eq!(*seen.lock().unwrap(), [(1, 7), (2, 7)]);
    }
}
