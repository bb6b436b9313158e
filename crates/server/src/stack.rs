//! The layers that a request passes through, as one list.

use std::sync::Arc;

use auth::{Authenticators, Authorizer};
use spans::Tracer;

use crate::cost::{Cost, CostPage, Costs};
use crate::deadline::TimeoutIsDuration;
use crate::debug::{Debug, DebugEndpoints};
use crate::fairness::{Fairness, FlowControlDebug};
use crate::handler::{Handler, OnHeap, Stacked};
use crate::health::Checks;
use crate::inject::Injection;
use crate::keelson_v1::KeelsonV1;
use crate::layers::{
    Audit, AuditId, Authentication, CatchPanics, Cors, ErrorsToResponses, Goaway, HeadHasNoBody, Health,
    Impersonation, ResponseHeaders, RetryAfter, TransportSecurity, UnwantedBody, Version,
};
use crate::measure::{CountInFlight, Metrics};
use crate::memory::MemoryLayer;
use crate::observed::{Observed, Tracing};
use crate::version::Info;

/// The parts of layers that a server has by its options.
#[derive(Debug, Clone, Default)]
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
    /// `--enable-fault-injection`.
    pub faults: Option<Injection>,
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
    let keelson_v1 = optional.faults.as_ref().map(|injection| KeelsonV1::new(injection, authorizer.clone()));
    Stacked::new(api)
        // The largest future: whatever answers before the API needs none of it.
        .push(OnHeap)
        // Answered before the API, so that probes and version checks need only this crate. Each authorizes
        // its requests itself.
        .push(Version { info: version, authorizer: authorizer.clone() })
        .push(Debug { endpoints: optional.debug, authorizer: authorizer.clone() })
        .push(Health { checks, authorizer: authorizer.clone() })
        .push(optional.flow_control_debug)
        .push(cost_page)
        .push(keelson_v1)
        .push(Metrics { authorizer: authorizer.clone() })
        // Around all that answers users, once they have their turn.
        .push(CountInFlight)
        // By the user that the request is made as. Before authorization, which may ask other servers.
        .push(optional.fairness)
        // Before the request has seats: what waits for memory keeps no seat from others.
        .push(optional.memory)
        // By the same user, and with the refusals of the layers within.
        .push(Cost(optional.costs))
        // By the user that the request is made as. A request that is delayed has no seats.
        .push(optional.faults)
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
