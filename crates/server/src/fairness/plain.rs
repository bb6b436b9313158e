//! Plain limits: so many reads and so many writes are handled at the same time, whoever sends them.

use std::sync::Arc;

use auth::User;
use flowcontrol::{Counted, Phase, RequestKind, set_limit};
use kinds::Verb as KindVerb;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::refusal::too_many;
use crate::at_end::at_end;
use crate::handler::Handler;
use crate::request_info::{RequestInfo, Verb};
use crate::{Body, Error, Request, Response, layers};

/// How many requests are handled at the same time; zero stands for any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Reads.
    pub reading: u32,
    /// Writes.
    pub mutating: u32,
}

impl Default for InFlight {
    fn default() -> Self {
        Self { reading: 400, mutating: 200 }
    }
}

impl InFlight {
    /// Both together: the seats that priority levels share.
    pub fn total(self) -> u32 {
        self.reading.saturating_add(self.mutating)
    }
}

/// After how many seconds a refused client should come again.
const RETRY_SECONDS: u64 = 1;

/// The requests that may still be let in.
#[derive(Debug)]
pub(super) struct PlainLimits {
    reading: Option<Arc<Semaphore>>,
    mutating: Option<Arc<Semaphore>>,
}

impl PlainLimits {
    pub(super) fn new(limits: InFlight) -> Self {
        let places = |most: u32| (most > 0).then(|| Arc::new(Semaphore::new(most as usize)));
        set_limit(Phase::Executing, RequestKind::ReadOnly, limits.reading);
        set_limit(Phase::Executing, RequestKind::Mutating, limits.mutating);
        Self { reading: places(limits.reading), mutating: places(limits.mutating) }
    }

    /// Handles a request if there is a place for it. Members of `system:masters` are always let in:
    /// somebody has to be able to repair what fills the server.
    pub(super) async fn around<H: Handler>(
        &self,
        request: Request,
        info: &RequestInfo<'_>,
        next: &H,
    ) -> Result<Response, Error> {
        // A watch is long-running: these limits do not count it.
        let (limit, full) = match info.verb {
            Verb::Resource(KindVerb::Watch) => (None, ""),
            Verb::Resource(KindVerb::Get | KindVerb::List) | Verb::NonResource("get" | "head") => {
                (self.reading.as_ref(), "As many reads are handled as the server handles at the same time.\n")
            }
            _ => (
                self.mutating.as_ref(),
                "As many writes are handled as the server handles at the same time.\n",
            ),
        };
        let Some(limit) = limit else { return next.handle(request).await };
        let place: Option<OwnedSemaphorePermit> = match Arc::clone(limit).try_acquire_owned() {
            Ok(place) => Some(place),
            Err(_) if layers::caller(&request)?.user().is_in(User::MASTERS) => None,
            Err(_) => return Ok(too_many(RETRY_SECONDS, full)),
        };
        let executing = Counted::new(Phase::Executing, super::kind(info));
        let mut response = next.handle(request).await?;
        drop(executing);
        if let Body::Stream(_) = response.body() {
            at_end(&mut response, move |_| drop(place));
        }
        Ok(response)
    }
}
