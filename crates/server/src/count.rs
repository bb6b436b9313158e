//! Counts requests, as the reference does: those whose path and method have a handler, after they were
//! authorized. A request that is refused before (401, 403, 404, 405, 406) is not counted.
//!
//! The labels of a request come from its route, from the verbs and from what is valid in a query: a client
//! cannot make up label values. All cells for the labels of a request are found at once ([`CELLS`]).

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use auth::User;
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use kinds::{SubresourceBody, Traffic, Verb as KindVerb};
use metrics::{Bundles, Counter, Gauge, Histogram};
use observe::{Observation, Part};
use tokio::time::Instant;

use crate::api::Route;
use crate::at_end::{Sent, at_end};
use crate::families::{
    ABORTS, BODY_SIZES, DEPRECATED, DURATIONS, FIELD_VALIDATIONS, FILTERS, LONG_RUNNING, POD_LOGS, REQUESTS,
    RESPONSE_SIZES, SELF_REQUESTS, SLI_DURATIONS, SLO_DURATIONS, TERMINATIONS,
};
use crate::request_info::{Prefix, RequestInfo, Verb, is_true};
use crate::{Query, Request, Response};

/// The value of the label `component`.
pub(crate) const COMPONENT: &str = "apiserver";

/// Subresources whose requests count as `CONNECT`.
const CONNECTED: [&str; 5] = ["log", "exec", "portforward", "attach", "proxy"];

/// The media type of an apply.
const APPLY: &str = "application/apply-patch+yaml";

/// Codes whose counters are kept.
const CODES: [u16; 8] = [200, 201, 404, 409, 400, 422, 500, 504];

/// The labels of a request: verb, `dry_run`, group, version, resource, subresource, scope, component.
type RequestLabels<'a> = [&'a str; 8];

/// The cells of requests by their labels.
static CELLS: Bundles<8, RequestCells> = Bundles::new(RequestCells::new);

/// Forgets the cells that are kept beside their families.
pub(crate) fn forget_cells() {
    CELLS.forget();
}

/// The cells of requests with the same labels.
struct RequestCells {
    labels: [Box<str>; 8],
    codes: [OnceLock<Arc<Counter>>; CODES.len()],
    duration: Arc<Histogram>,
    sli: OnceLock<Arc<Histogram>>,
    slo: OnceLock<Arc<Histogram>>,
    size: OnceLock<Arc<Histogram>>,
}

impl RequestCells {
    fn new(labels: RequestLabels<'_>) -> Self {
        let [verb, dry_run, group, version, resource, subresource, scope, component] = labels;
        let duration =
            DURATIONS.with([component, dry_run, group, resource, scope, subresource, verb, version]);
        Self {
            labels: labels.map(Box::from),
            codes: [const { OnceLock::new() }; CODES.len()],
            duration,
            sli: OnceLock::new(),
            slo: OnceLock::new(),
            size: OnceLock::new(),
        }
    }

    fn code(&self, code: StatusCode) -> Arc<Counter> {
        let [verb, dry_run, group, version, resource, subresource, scope, component] =
            self.labels.each_ref().map(|label| &**label);
        let make = || {
            // A connection that was taken over has no code in the reference.
            let code = if code == StatusCode::SWITCHING_PROTOCOLS { "0" } else { code.as_str() };
            REQUESTS.with([code, component, dry_run, group, resource, scope, subresource, verb, version])
        };
        let kept = CODES.iter().position(|known| *known == code.as_u16());
        match kept.and_then(|place| self.codes.get(place)) {
            Some(kept) => Arc::clone(kept.get_or_init(make)),
            None => make(),
        }
    }

    /// The values of the labels but `dry_run`, in the order of the names.
    fn plain(&self) -> [&str; 7] {
        let [verb, _, group, version, resource, subresource, scope, component] =
            self.labels.each_ref().map(|label| &**label);
        [component, group, resource, scope, subresource, verb, version]
    }

    fn sli(&self) -> &Histogram {
        self.sli.get_or_init(|| SLI_DURATIONS.with(self.plain()))
    }

    fn slo(&self) -> &Histogram {
        self.slo.get_or_init(|| SLO_DURATIONS.with(self.plain()))
    }

    fn size(&self) -> &Histogram {
        self.size.get_or_init(|| RESPONSE_SIZES.with(self.plain()))
    }
}

/// A request that is counted when it ends.
pub(crate) struct Counted {
    cells: Arc<RequestCells>,
    received: Instant,
    observation: Observation,
    has_size: bool,
    /// Whether its time is one of the indicators of the service.
    has_indicator: bool,
    long_running: Option<LongRunning>,
}

/// How long a request may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KindOfWait {
    /// Whether it is a watch: its time says nothing of the server.
    pub(crate) is_watch: bool,
    /// Whether it is a watch or connection, which is counted while it is open.
    pub(crate) is_open: bool,
}

/// A watch or connection that is open.
struct LongRunning(Arc<Gauge>);

impl Drop for LongRunning {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Counted {
    /// A request for a resource, whose route exists and which is authorized.
    pub(crate) fn resource(
        request: &Request,
        user: &User,
        info: &RequestInfo<'_>,
        route: &Route<'_>,
        kind_of_wait: KindOfWait,
    ) -> Self {
        let query = request.query();
        let served = route.served;
        let subresource = route.subresource.map_or("", |subresource| subresource.name);
        let scope = if served.is_custom() { clean_scope(info) } else { route_scope(info, route) };
        let verb = reported_verb(request, info, scope);
        let (group, version, resource) = (&*served.group, &*served.version, &*served.resource);
        let dry_run = dry_run(query);
        let cells = CELLS.with([verb, dry_run, group, version, resource, subresource, scope, COMPONENT]);
        if user.name == "system:apiserver" {
            SELF_REQUESTS.with([resource, subresource, verb]).inc();
        }
        // The reference makes the cell, and counts no time in it.
        FIELD_VALIDATIONS.with([field_validation(query)]);
        if subresource == "log" {
            let skips =
                query.values("insecureSkipTLSVerifyBackend").next().is_some_and(|value| is_true(&value));
            POD_LOGS.with([if skips { "skip_tls_allowed" } else { "enforce_tls" }]).inc();
        }
        let long_running = kind_of_wait.is_open.then(|| {
            let scope = clean_scope(info);
            // The paths below `watch` count as what their methods are, as in the reference.
            let verb = method_verb(request, info, scope);
            let open = LONG_RUNNING.with([COMPONENT, group, resource, scope, subresource, verb, version]);
            open.inc();
            LongRunning(open)
        });
        // By the route: the one of a list also takes watches.
        let has_size = match info.verb {
            Verb::Resource(KindVerb::Get | KindVerb::List) => verb != "CONNECT",
            Verb::Resource(KindVerb::Watch) => info.prefix == Prefix::None && !served.is_custom(),
            _ => false,
        };
        Self {
            cells,
            received: request.context.received,
            observation: request.context.observation.clone(),
            has_size,
            has_indicator: !kind_of_wait.is_watch,
            long_running,
        }
    }

    /// A request for a path outside of the resources. `path` is one that is served.
    pub(crate) fn path(request: &Request, path: &'static str, component: &'static str) -> Self {
        let verb = method(request.method());
        FIELD_VALIDATIONS.with([field_validation(request.query())]);
        Self {
            cells: CELLS.with([verb, dry_run(request.query()), "", "", "", path, "", component]),
            received: request.context.received,
            observation: request.context.observation.clone(),
            has_size: true,
            has_indicator: true,
            long_running: None,
        }
    }

    /// Counts the request when its response was sent.
    pub(crate) fn answered(self, response: &mut Response) {
        let code = response.status();
        at_end(response, move |sent| self.ended(code, sent));
    }

    /// Counts a request whose time was up before it was answered.
    pub(crate) fn timed_out(self) {
        let [verb, _, group, version, resource, subresource, scope, component] =
            self.cells.labels.each_ref().map(|label| &**label);
        TERMINATIONS.with(["504", component, group, resource, scope, subresource, verb, version]).inc();
        // The handlers of the reference find out later, and those of reads have no code of their own for it.
        let code = match verb {
            "GET" | "LIST" => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::GATEWAY_TIMEOUT,
        };
        self.ended(code, Sent::default());
    }

    fn ended(self, code: StatusCode, sent: Sent) {
        let took = self.received.elapsed();
        self.cells.code(code).inc();
        self.cells.duration.observe_time(took);
        let elsewhere = self.observation.times().map_or(Duration::ZERO, |times| {
            [Part::MutatingWebhooks, Part::ValidatingWebhooks, Part::Queue]
                .map(|part| times.of(part))
                .iter()
                .sum()
        });
        let own = took.saturating_sub(elsewhere);
        if self.has_indicator {
            self.cells.sli().observe_time(own);
            self.cells.slo().observe_time(own);
        }
        if sent.is_aborted {
            let [verb, _, group, version, resource, subresource, scope, _] =
                self.cells.labels.each_ref().map(|label| &**label);
            ABORTS.with([group, resource, scope, subresource, verb, version]).inc();
        }
        if self.has_size {
            #[allow(clippy::cast_precision_loss, reason = "a size")]
            self.cells.size().observe(sent.bytes as f64);
        }
        drop(self.long_running);
    }
}

/// Notes that a version was requested which is removed in a release, as in `1.36`; empty if none is known.
pub(crate) fn deprecated_requested(
    group: &str,
    version: &str,
    resource: &str,
    subresource: &str,
    removed_release: &str,
) {
    DEPRECATED.with([group, removed_release, resource, subresource, version]).set(1.0);
}

/// Counts the size of the body of a write.
pub(crate) fn body_size(info: &RequestInfo<'_>, route: &Route<'_>, size: usize) {
    let verb = match info.verb {
        Verb::Resource(KindVerb::Create) => "create",
        Verb::Resource(KindVerb::Update) => "update",
        Verb::Resource(KindVerb::Patch) => "patch",
        Verb::Resource(KindVerb::Delete) => "delete",
        Verb::Resource(KindVerb::DeleteCollection) => "delete_collection",
        _ => return,
    };
    let served = route.served;
    let name;
    let resource = match &*served.group {
        "" => &*served.resource,
        group => {
            name = format!("{}.{group}", served.resource);
            &name
        }
    };
    #[allow(clippy::cast_precision_loss, reason = "a size")]
    BODY_SIZES.with([resource, verb]).observe(size as f64);
}

/// A layer whose time is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Filter {
    /// Who makes the request.
    Authentication,
    /// What is recorded of it.
    Audit,
    /// In whose name.
    Impersonation,
    /// When it is its turn.
    Fairness,
    /// Whether the user may.
    Authorization,
}

/// Counts how long a layer took.
pub(crate) fn filtered(filter: Filter, took: Duration) {
    static CELLS: [OnceLock<Arc<Histogram>>; 5] = [const { OnceLock::new() }; 5];
    let [authentication, audit, impersonation, fairness, authorization] = &CELLS;
    let (cell, name) = match filter {
        Filter::Authentication => (authentication, "authentication"),
        Filter::Audit => (audit, "audit"),
        Filter::Impersonation => (impersonation, "impersonation"),
        Filter::Fairness => (fairness, "priorityandfairness"),
        Filter::Authorization => (authorization, "authorization"),
    };
    cell.get_or_init(|| FILTERS.with([name])).observe_time(took);
}

/// Counts how long the authorization of a request took.
pub(crate) fn authorized(observation: &Observation) {
    let took = observation.times().map(|times| times.of(Part::Authorization));
    filtered(Filter::Authorization, took.unwrap_or_default());
}

/// The verb in the labels: the method, but for lists, watches, applies and connections.
fn reported_verb(request: &Request, info: &RequestInfo<'_>, scope: &str) -> &'static str {
    if CONNECTED.contains(&info.subresource) {
        return "CONNECT";
    }
    if info.prefix == Prefix::Watch {
        return "WATCH";
    }
    method_verb(request, info, scope)
}

/// The verb in the labels, by the method and the query.
fn method_verb(request: &Request, info: &RequestInfo<'_>, scope: &str) -> &'static str {
    if CONNECTED.contains(&info.subresource) {
        return "CONNECT";
    }
    // Also where the path has a name, so that it is a get.
    let is_watch = request.query().values("watch").next().is_some_and(|value| is_true(&value));
    match method(request.method()) {
        "GET" if is_watch => "WATCH",
        "GET" if scope != "resource" && !scope.is_empty() => "LIST",
        "PATCH" if request.header(CONTENT_TYPE) == APPLY => "APPLY",
        method => method,
    }
}

/// The method in the labels.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::CONNECT => "CONNECT",
        _ => "other",
    }
}

/// The scope of a request by its names, as authorization has them.
pub(crate) fn clean_scope(info: &RequestInfo<'_>) -> &'static str {
    if !info.name.is_empty() || info.verb == Verb::Resource(KindVerb::Create) {
        "resource"
    } else if info.namespace.is_some_and(|namespace| !namespace.is_empty()) {
        "namespace"
    } else {
        "cluster"
    }
}

/// The scope of a route of a built-in kind.
fn route_scope(info: &RequestInfo<'_>, route: &Route<'_>) -> &'static str {
    if !info.path_name.is_empty() || info.verb == Verb::Resource(KindVerb::Create) {
        "resource"
    } else if route.served.is_namespaced() && info.namespace.is_some() {
        "namespace"
    } else {
        "cluster"
    }
}

/// The value of `dry_run`: what is valid, or that it is not.
fn dry_run(query: Query<'_>) -> &'static str {
    let mut values = query.values("dryRun");
    match values.next() {
        None => "",
        Some(first) if first == "All" && values.all(|value| value == "All") => "All",
        Some(_) => "invalid",
    }
}

/// The value of `field_validation`: what is valid, or that it is not.
fn field_validation(query: Query<'_>) -> &'static str {
    let mut values = query.values("fieldValidation");
    match (values.next().as_deref(), values.next()) {
        (None, _) | (Some(""), None) => "",
        (Some("Ignore"), None) => "Ignore",
        (Some("Warn"), None) => "Warn",
        (Some("Strict"), None) => "Strict",
        _ => "invalid",
    }
}

/// Whether the connection or watch of a route is counted while it is open.
pub(crate) fn is_open_long(info: &RequestInfo<'_>, route: &Route<'_>) -> bool {
    let is_connection = route.subresource.is_some_and(|subresource| {
        subresource.traffic == Traffic::Log || matches!(subresource.body, SubresourceBody::Options(_))
    });
    is_connection || info.verb == Verb::Resource(KindVerb::Watch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_of_a_query_are_valid_ones() {
        for (query, dry, validation) in [
            ("", "", ""),
            ("dryRun=All&dryRun=All&fieldValidation=Strict", "All", "Strict"),
            ("dryRun=Some&fieldValidation=strict", "invalid", "invalid"),
            ("dryRun&fieldValidation=Warn&fieldValidation=Warn", "invalid", "invalid"),
            ("fieldValidation=", "", ""),
        ] {
            let query = Query::new(query);
            assert_eq!((dry_run(query), field_validation(query)), (dry, validation), "{query:?}");
        }
    }
}
