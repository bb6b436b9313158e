//! Which requests are handled now: priority and fairness, or plain limits of requests in flight.
//!
//! A request takes its seats after its user is known, as the one that it is made as, and before it is
//! authorized. It keeps them until its response is sent, or, for a watch, until the watch has begun: what
//! was there at its start is sent. Commands, forwarded ports, logs and proxied requests take none. The
//! server's own work does not come here.

mod debug;
mod plain;
mod refusal;
mod work;

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use auth::{Authenticated, Authorizer, User};
use flowcontrol::{
    Classified, Counted, Digest, FlowControl, Phase, Refusal, RequestKind, Seats, Watches, Watching,
};
use http::header::HeaderName;
use http::{HeaderValue, Method};
use kinds::Verb as KindVerb;
use object::field_selector;
use observe::Part;
use registry::Registry;

use crate::at_end::at_end;
use crate::count::{self, Filter};
use crate::handler::{Handler, Layer};
use crate::measure::InQueue;
use crate::request_info::{RequestInfo, Verb};
use crate::{Body, Error, Request, Response, cost, deadline, layers};

pub use debug::FlowControlDebug;
pub use plain::InFlight;
use plain::PlainLimits;
use refusal::Refused;
pub(crate) use refusal::flow;

const LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");
const SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");

/// The longest time that a request waits for its seats.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What flow control keeps of a request.
#[derive(Clone, Debug)]
pub struct Waiting {
    user: Arc<User>,
    method: Method,
    path: Arc<str>,
    query: Option<Box<str>>,
}

/// Flow control over the requests of a server.
pub type Flows = FlowControl<Waiting>;

/// Lets requests in.
#[derive(Clone)]
pub struct Fairness {
    limits: Limits,
    request_timeout: Duration,
}

impl fmt::Debug for Fairness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fairness").field("request_timeout", &self.request_timeout).finish_non_exhaustive()
    }
}

#[derive(Clone)]
enum Limits {
    Flows { flows: Flows, watches: Watches, registry: Arc<Registry>, authorizer: Authorizer },
    Plain(Arc<PlainLimits>),
}

impl Fairness {
    /// Priority and fairness. The authorizer decides who learns from a refusal who holds the seats.
    pub fn flows(
        flows: Flows,
        registry: Arc<Registry>,
        authorizer: Authorizer,
        request_timeout: Duration,
    ) -> Self {
        let watches = Watches::default();
        Self { limits: Limits::Flows { flows, watches, registry, authorizer }, request_timeout }
    }

    /// The same limits for the requests of a fork, which count together with all others. Its registry says
    /// what they cost.
    #[must_use]
    pub fn of_fork(&self, registry: Arc<Registry>, authorizer: Authorizer) -> Self {
        match &self.limits {
            Limits::Flows { flows, .. } => {
                Self::flows(flows.clone(), registry, authorizer, self.request_timeout)
            }
            Limits::Plain(_) => self.clone(),
        }
    }

    /// Plain limits of requests in flight.
    pub fn plain(limits: InFlight, request_timeout: Duration) -> Self {
        Self { limits: Limits::Plain(Arc::new(PlainLimits::new(limits))), request_timeout }
    }
}

/// The seats of a watch until it has begun. An extension of the request, and of the response of a watch
/// that runs: that one frees them.
#[derive(Clone, Debug)]
pub(crate) struct WatchSeats(Arc<Mutex<Option<Seats<Waiting>>>>);

impl WatchSeats {
    fn new(seats: Seats<Waiting>) -> Self {
        Self(Arc::new(Mutex::new(Some(seats))))
    }

    /// The watch has begun.
    pub(crate) fn free(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Layer for Option<Fairness> {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let Some(fairness) = self else { return next.handle(request).await };
        let Some(path) = request.context.path.clone() else { return next.handle(request).await };
        let Ok(info) = RequestInfo::parse(request.method(), &path, request.query()) else {
            return next.handle(request).await;
        };
        let is_watch = info.verb == Verb::Resource(KindVerb::Watch);
        let begin = Instant::now();
        if deadline::is_long_running(&info) && !is_watch {
            if let Limits::Flows { .. } = fairness.limits {
                count::filtered(Filter::Fairness, begin.elapsed());
            }
            return next.handle(request).await;
        }
        match &fairness.limits {
            Limits::Plain(limits) => limits.around(request, &info, next).await,
            Limits::Flows { flows, watches, registry, authorizer } => {
                let caller = layers::caller(&request)?.clone();
                let digest = digest(&info, caller.user());
                let Some(class) = flows.classify(&digest) else { return next.handle(request).await };
                let estimate = work::estimate(registry, watches, &request, &info, &digest, &class);
                let entered = fairness.enter(flows, &class, &caller, &request, &info, estimate).await;
                let seats = match entered {
                    Ok(seats) => seats,
                    Err(why) => {
                        cost::refused(registry, &request);
                        let names_holders = cost::may_see_holders(authorizer, caller.user());
                        let all = flows.seats();
                        let refused = Refused { class: &class, digest: &digest, all, why, names_holders };
                        return Ok(refused.response());
                    }
                };
                count::filtered(Filter::Fairness, begin.elapsed());
                let _executing = Counted::new(Phase::Executing, kind(&info));
                let watching = is_watch.then(|| watches.begin(&digest, selects_node(&request, &info)));
                let mut response = handle(request, next, seats, watching).await;
                set_headers(&mut response, &class);
                Ok(response)
            }
        }
    }
}

impl Fairness {
    /// Waits for the seats of a request.
    async fn enter(
        &self,
        flows: &Flows,
        class: &Classified<Waiting>,
        caller: &Authenticated,
        request: &Request,
        info: &RequestInfo<'_>,
        estimate: flowcontrol::WorkEstimate,
    ) -> Result<Seats<Waiting>, Refusal> {
        let waiting = Waiting {
            user: Arc::clone(caller.user()),
            method: request.method().clone(),
            path: request.context.path.clone().unwrap_or_default(),
            query: request.head.uri.query().map(Box::from),
        };
        let is_watch = info.verb == Verb::Resource(KindVerb::Watch);
        let kind = kind(info);
        let entered = async {
            let latest = self.latest(request, is_watch);
            let mut entered = pin!(flows.enter(class, waiting, estimate, latest, is_watch));
            // Who has to wait learns it the first time.
            if let Poll::Ready(entered) = poll_fn(|context| Poll::Ready(entered.as_mut().poll(context))).await
            {
                return entered;
            }
            let _waiting = InQueue::new(kind);
            entered.await
        };
        caller.observation().timed(Part::Queue, entered).await
    }

    /// Until when a request waits: a quarter of its time.
    fn latest(&self, request: &Request, is_watch: bool) -> Instant {
        let whole = match &request.context.timeout {
            Ok(Some(asked)) if !is_watch => (*asked).min(self.request_timeout),
            _ => self.request_timeout,
        };
        request.context.received.into_std() + (whole / 4).min(LONGEST_WAIT)
    }
}

/// Handles a request that has its seats.
async fn handle<H: Handler>(
    mut request: Request,
    next: &H,
    seats: Seats<Waiting>,
    watching: Option<Watching>,
) -> Response {
    let format = request.context.error_format;
    if let Some(watching) = watching {
        let seats = WatchSeats::new(seats);
        request.head.extensions.insert(seats.clone());
        let mut response = next.handle(request).await.unwrap_or_else(|error| error.into_response(format));
        if response.extensions_mut().remove::<WatchSeats>().is_none() {
            // No watch runs.
            seats.free();
        }
        at_end(&mut response, move |_| {
            seats.free();
            drop(watching);
        });
        return response;
    }
    let mut response = next.handle(request).await.unwrap_or_else(|error| error.into_response(format));
    match response.body() {
        // What is left to do is sending.
        Body::Empty | Body::Whole(_) | Body::Shared(_) => drop(seats),
        Body::Stream(_) => at_end(&mut response, move |_| drop(seats)),
    }
    response
}

/// Whether a request reads.
fn kind(info: &RequestInfo<'_>) -> RequestKind {
    match info.verb {
        Verb::Resource(KindVerb::Get | KindVerb::List | KindVerb::Watch)
        | Verb::NonResource("get" | "head") => RequestKind::ReadOnly,
        _ => RequestKind::Mutating,
    }
}

/// A request, as flow schemas see it.
fn digest<'a>(info: &'a RequestInfo<'_>, user: &'a User) -> Digest<'a> {
    Digest {
        user: &user.name,
        groups: &user.groups,
        is_resource_request: info.is_resource_request,
        verb: info.verb.as_str(),
        path: info.path,
        api_group: info.api_group,
        resource: info.resource,
        subresource: info.subresource,
        namespace: info.namespace.unwrap_or_default(),
        name: &info.name,
    }
}

/// Whether a watch selects the pods of one node: it costs a write nothing unless the pod is on that node.
fn selects_node(request: &Request, info: &RequestInfo<'_>) -> bool {
    if info.resource != "pods" || !info.api_group.is_empty() {
        return false;
    }
    let Some(text) = request.query().values("fieldSelector").next() else { return false };
    let Ok(selector) = field_selector::Selector::parse(&text) else { return false };
    selector.exact_value("spec.nodeName").is_some_and(|node| !node.is_empty())
}

/// Names the schema and the level of a request by their uids.
fn set_headers(response: &mut Response, class: &Classified<Waiting>) {
    for (name, uid) in [(LEVEL_UID, class.level_uid()), (SCHEMA_UID, class.schema_uid())] {
        if let Ok(uid) = HeaderValue::from_str(uid) {
            response.headers_mut().insert(name, uid);
        }
    }
}
