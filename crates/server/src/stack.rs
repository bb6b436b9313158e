//! The layers that a request passes through, as one list.

use std::fmt;
use std::sync::Arc;

use auth::{Authenticators, Authorizer};
use spans::Tracer;

use crate::cost::{Cost, CostPage, Costs};
use crate::deadline::TimeoutIsDuration;
use crate::debug::{Debug, DebugEndpoints};
use crate::fairness::{Fairness, FlowControlDebug};
use crate::forks::{ForkTable, Forks, WithinForks};
use crate::handler::{Handler, OnHeap, Stacked};
use crate::health::Checks;
use crate::layers::{
    Audit, AuditId, Authentication, CatchPanics, Cors, ErrorsToResponses, Goaway, HeadHasNoBody, Health,
    Impersonation, ResponseHeaders, RetryAfter, TransportSecurity, UnwantedBody, Version,
};
use crate::measure::{CountInFlight, Metrics};
use crate::memory::MemoryLayer;
use crate::observed::{Observed, Tracing};
use crate::version::Info;

/// The parts of layers that a server has by its options.
#[derive(Clone, Default)]
pub struct OptionalLayers {
    /// `--cors-allowed-origins`.
    pub cors: Option<Cors>,
    /// `--goaway-chance`.
    pub goaway: Option<Goaway>,
    /// `--strict-transport-security-directives`.
    pub transport_security: Option<TransportSecurity>,
    /// `--enable-priority-and-fairness`, or the limits of requests in flight.
    pub fairness: Option<Fairness>,
    /// `--memory-limit`.
    pub memory: Option<MemoryLayer>,
    /// What is shown of priority and fairness.
    pub flow_control_debug: Option<FlowControlDebug>,
    /// `--shutdown-send-retry-after`.
    pub retry_after: Option<RetryAfter>,
    /// `--tracing-config-file`.
    pub tracer: Option<Arc<Tracer>>,
    /// What requests cost.
    pub costs: Costs,
    /// What can be seen of the process.
    pub debug: DebugEndpoints,
    /// `--audit-policy-file`.
    pub audit: Option<Audit>,
    /// The forks of the server.
    pub forks: Option<Arc<dyn Forks>>,
}

impl fmt::Debug for OptionalLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OptionalLayers").field("forks", &self.forks.is_some()).finish_non_exhaustive()
    }
}

/// The parts of layers that a fork shares with its server, or has instead of those of its server.
#[derive(Debug, Clone)]
pub struct ForkLayers {
    /// The limits of requests in flight, which hold for the server and all its forks together.
    pub fairness: Option<Fairness>,
    /// `--memory-limit`.
    pub memory: Option<MemoryLayer>,
    /// `--tracing-config-file`.
    pub tracer: Option<Arc<Tracer>>,
    /// What requests cost.
    pub costs: Costs,
    /// `--audit-policy-file`.
    pub audit: Option<Audit>,
}

/// Everything between the root of a fork and `api`, the handler of its API. What [`stack`] has around
/// authentication is around a fork too, and not here; pages about the process are those of the server alone.
pub fn fork_stack<H: Handler>(
    api: H,
    authenticators: Arc<Authenticators>,
    authorizer: &Authorizer,
    checks: Arc<Checks>,
    version: Arc<Info>,
    layers: ForkLayers,
) -> impl Handler {
    Stacked::new(api)
        .push(OnHeap)
        .push(Version { info: version, authorizer: authorizer.clone() })
        .push(Health { checks, authorizer: authorizer.clone() })
        .push(CountInFlight)
        .push(layers.fairness)
        .push(layers.memory)
        .push(Cost(layers.costs))
        .push(Impersonation(authorizer.clone()))
        .push(Tracing(layers.tracer))
        .push(layers.audit.clone())
        .push(OnHeap)
        .push(Authentication { authenticators, audit: layers.audit })
}

/// Everything between a connection and `api`, the handler of the API itself. Read it from the bottom up: the
/// last layer pushed is the first to see a request.
pub fn stack<H: Handler>(
    api: H,
    authenticators: Arc<Authenticators>,
    authorizer: &Authorizer,
    checks: Arc<Checks>,
    version: Arc<Info>,
    optional: OptionalLayers,
) -> impl Handler {
    let cost_page = CostPage {
        costs: optional.costs.clone(),
        flows: optional.flow_control_debug.as_ref().map(|debug| debug.flows.clone()),
        authorizer: authorizer.clone(),
    };
    Stacked::new(api)
        // The largest future: whatever answers before the API needs none of it.
        .push(OnHeap)
        // Answered before the API, so that probes and version checks need only this crate. Each authorizes
        // its requests itself.
        .push(Version { info: version, authorizer: authorizer.clone() })
        .push(Debug { endpoints: optional.debug, authorizer: authorizer.clone() })
        .push(ForkTable { forks: optional.forks.clone(), authorizer: authorizer.clone() })
        .push(Health { checks, authorizer: authorizer.clone() })
        .push(optional.flow_control_debug)
        .push(cost_page)
        .push(Metrics { authorizer: authorizer.clone() })
        // Around all that answers users, once they have their turn.
        .push(CountInFlight)
        // By the user that the request is made as. Before authorization, which may ask other servers.
        .push(optional.fairness)
        // Before the request has seats: what waits for memory keeps no seat from others.
        .push(optional.memory)
        // By the same user, and with the refusals of the layers within.
        .push(Cost(optional.costs))
        // Before all authorization, which is that of the impersonated user.
        .push(Impersonation(authorizer.clone()))
        // The user decides what of a client's trace is believed.
        .push(Tracing(optional.tracer.clone()))
        // Of the user who sent the request, and with the refusals of impersonation.
        .push(optional.audit.clone())
        // The layers within are half of all.
        .push(OnHeap)
        // Before all layers that answer: an invalid token is refused on every path.
        .push(Authentication { authenticators, audit: optional.audit.clone() })
        // A fork authenticates its requests itself. All layers from here on are around forks too.
        .push(WithinForks(optional.forks))
        // Preflight requests of browsers have no credentials.
        .push(optional.cors)
        // For every user: the reference checks it before authentication.
        .push(TimeoutIsDuration(optional.audit))
        // Inside the next one, so that a panic is answered like any other error.
        .push(CatchPanics)
        // The layers outside of it see responses only.
        .push(ErrorsToResponses)
        // On every response, also on errors.
        .push(ResponseHeaders { transport_security: optional.transport_security, goaway: optional.goaway })
        // Before all work for a request that another server will get.
        .push(optional.retry_after)
        // All but what is the same for every response is inside, so that times are whole.
        .push(Observed(optional.tracer))
        .push(AuditId)
        // Every response to HEAD has no body.
        .push(HeadHasNoBody)
        // Outermost: all other layers are done with the request.
        .push(UnwantedBody)
}
