//! The layer at which expensive requests wait for memory.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use observe::Part;
use registry::Registry;
use schema::status::Details;

use super::room::{NoRoom, Reservation};
use super::{Ceiling, LONGEST_WAIT, REFUSALS, expense};
use crate::at_end::at_end;
use crate::cost;
use crate::handler::{Handler, Layer};
use crate::request_info::RequestInfo;
use crate::{Error, Request, Response, Status, layers};

/// After how many seconds a refused client should come again.
const RETRY_SECONDS: u32 = 5;

/// Lets expensive requests wait for memory, and refuses them if there is none in time.
#[derive(Clone)]
pub struct MemoryLayer {
    ceiling: Arc<Ceiling>,
    registry: Arc<Registry>,
    request_timeout: Duration,
}

impl fmt::Debug for MemoryLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLayer").field("ceiling", &self.ceiling).finish_non_exhaustive()
    }
}

impl MemoryLayer {
    /// The layer of a ceiling.
    pub fn new(ceiling: Arc<Ceiling>, registry: Arc<Registry>, request_timeout: Duration) -> Self {
        Self { ceiling, registry, request_timeout }
    }

    /// The layer of the same ceiling for the requests of a fork.
    #[must_use]
    pub fn of_fork(&self, registry: Arc<Registry>) -> Self {
        Self { registry, ..self.clone() }
    }

    /// How long a request waits: a part of its time.
    fn wait(&self, request: &Request) -> Duration {
        let whole = match &request.context.timeout {
            Ok(Some(asked)) => (*asked).min(self.request_timeout),
            _ => self.request_timeout,
        };
        LONGEST_WAIT.min(whole / 4)
    }
}

/// The reservation of a request, as an extension of it: a watch gives it back when it has begun.
#[derive(Clone, Debug)]
pub(crate) struct Reserved(Arc<Mutex<Option<Reservation>>>);

impl Reserved {
    /// The memory is no longer needed.
    pub(crate) fn free(&self) {
        let reservation = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(reservation);
    }
}

impl Layer for Option<MemoryLayer> {
    async fn around<H: Handler>(&self, mut request: Request, next: &H) -> Result<Response, Error> {
        let Some(layer) = self else { return next.handle(request).await };
        let Some(path) = request.context.path.clone() else { return next.handle(request).await };
        let bytes = match RequestInfo::parse(request.method(), &path, request.query()) {
            Ok(info) => expense::of(&layer.registry, &request, &info),
            Err(_) => None,
        };
        let Some(bytes) = bytes else { return next.handle(request).await };
        let reserving = layer.ceiling.room.reserve(bytes, layer.wait(&request));
        let reserved = layers::caller(&request)?.observation().timed(Part::Queue, reserving).await;
        let reserved = reserved.map_err(|NoRoom| {
            cost::refused(&layer.registry, &request);
            refusal()
        })?;
        let reserved = Reserved(Arc::new(Mutex::new(Some(reserved))));
        request.head.extensions.insert(reserved.clone());
        let format = request.context.error_format;
        let mut response = next.handle(request).await.unwrap_or_else(|error| error.into_response(format));
        at_end(&mut response, move |_| reserved.free());
        Ok(response)
    }
}

/// The 429 of a request that got no memory.
fn refusal() -> Error {
    REFUSALS.with([]).inc();
    let why = "the server is near its memory limit, please try again later";
    let details = Details { retry_after_seconds: RETRY_SECONDS, ..Details::default() };
    Status { details: Some(details.into()), ..Status::too_many_requests(why) }.into()
}
