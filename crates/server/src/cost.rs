//! Who costs what: the time on workers, the bytes sent, the objects read, the events delivered and the
//! refusals of each user, user agent and resource.
//!
//! A layer gives each request a [`Meter`], which the handlers and the body of the response count on. What is
//! on it goes into one table ([`table`]) when the response has been sent, and every few seconds of a long
//! one. `/debug/cost` shows the table ([`page`]), and metrics the rows that cost most ([`families`]).
//!
//! 1. Time is that in which the future of a request or the body of its response is polled, by the clock: a
//!    read of the thread's CPU clock is a system call. Work in sections that may block is done within such a
//!    poll. What other tasks do (the store, the cache, TLS) is not counted, nor are connections that were
//!    taken over.
//! 2. A request costs the meter, two reads of the clock for each poll, and one change of the table.
//! 3. The names in the table are those of users, of the products of user agents, cut to a length, and of
//!    kinds that are served. Its size is bounded, whatever clients send.

pub(crate) mod families;
mod meter;
mod page;
mod table;

use std::collections::HashMap;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use http::header::USER_AGENT;
use http::{Method, StatusCode};
use http_body::Body as _;
use registry::Registry;

use crate::handler::{Handler, Layer};
use crate::request_info::RequestInfo;
use crate::{Body, Error, Request, Response, layers};

pub(crate) use meter::Meter;
use meter::{Counts, MeteredBody};
pub(crate) use page::{CostPage, may_see_holders};
use table::{Row, Shown, Table};

/// The costs of all requests of a server. Clones share them.
#[derive(Clone, Debug)]
pub struct Costs(Arc<Shared>);

/// The table, and the meters of responses that are being sent.
#[derive(Debug)]
pub(crate) struct Shared {
    table: Mutex<Table>,
    /// By their addresses.
    open: Mutex<HashMap<usize, Weak<Counts>>>,
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<usize, Weak<Counts>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Costs {
    fn default() -> Self {
        Self(Arc::new(Shared { table: Mutex::new(Table::new(Instant::now())), open: Mutex::default() }))
    }
}

impl Costs {
    /// Has the metrics of costs show these.
    pub fn observe(&self) {
        families::observe(self);
    }

    /// Puts what long responses cost so far into the table.
    fn settle(&self, now: Instant) {
        // The lock is free again before meters are dropped, which may need it.
        let open: Vec<Arc<Counts>> = self.0.open().values().filter_map(Weak::upgrade).collect();
        open.iter().for_each(|counts| counts.settle(now));
    }

    /// The rows that cost most of late.
    fn top(&self, most: usize) -> Vec<Row> {
        let now = Instant::now();
        self.settle(now);
        self.0.table().top(most, now)
    }

    /// The rows of the table.
    #[cfg(test)]
    pub(crate) fn rows(&self) -> Vec<Row> {
        self.shown().rows
    }

    fn shown(&self) -> Shown {
        let now = Instant::now();
        self.settle(now);
        self.0.table().shown(now)
    }
}

/// Counts what each request costs.
#[derive(Clone, Debug)]
pub(crate) struct Cost(pub(crate) Costs);

impl Layer for Cost {
    async fn around<H: Handler>(&self, mut request: Request, next: &H) -> Result<Response, Error> {
        let Ok(caller) = layers::caller(&request) else { return next.handle(request).await };
        let meter = Meter::new(&self.0.0, caller.user(), request.headers().get(USER_AGENT));
        request.context.meter = meter.clone();
        let (format, is_head) = (request.context.error_format, *request.method() == Method::HEAD);
        let mut answer = pin!(next.handle(request));
        let outcome = poll_fn(|cx| meter.busy(|| answer.as_mut().poll(cx))).await;
        let mut response = outcome.unwrap_or_else(|error| error.into_response(format));
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            meter.refused();
        }
        if is_head {
            return Ok(response);
        }
        match response.body_mut() {
            Body::Stream(_) => Ok(response.map(|body| match body {
                Body::Stream(stream) => Body::Stream(Box::pin(MeteredBody::new(stream, meter))),
                other => other,
            })),
            whole => {
                let bytes = whole.size_hint().exact().unwrap_or_default();
                meter.sent(usize::try_from(bytes).unwrap_or_default());
                Ok(response)
            }
        }
    }
}

/// Has the refusal of a request, before its route was looked for, count for the kind that it asks for.
pub(crate) fn refused(registry: &Registry, request: &Request) {
    let Some(path) = request.context.path.as_deref() else { return };
    let Ok(info) = RequestInfo::parse(request.method(), path, request.query()) else { return };
    let catalog = registry.catalog();
    if let Some(served) = catalog.find(info.api_group, info.api_version, info.resource) {
        request.context.meter.asks_for(served);
    }
}

#[cfg(test)]
mod tests;
