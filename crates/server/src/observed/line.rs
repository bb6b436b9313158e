//! The line of each request, with verbosity 3: the fields of the reference.

use std::time::Duration;

use http::{Method, StatusCode};
use kinds::Verb as KindVerb;

use super::{Arrival, shown, text};
use crate::request_info::{Prefix, RequestInfo, Verb};

/// The verbosity from which requests are logged.
const VERBOSITY: u32 = 3;

pub(super) fn log(arrival: &Arrival, status: Option<StatusCode>, took: Duration) {
    if !logging::is_verbose(VERBOSITY, module_path!()) {
        return;
    }
    let info = arrival.info();
    let verb = verb(arrival, info.as_ref());
    let uri = shown::uri(&arrival.uri);
    let (verb, uri, agent) = (verb.as_str(), uri.as_str(), arrival.user_agent());
    let (id, peer) = (arrival.observation.audit_id(), arrival.peer);
    if status == Some(StatusCode::SWITCHING_PROTOCOLS) {
        log::debug!(verb, "URI" = uri, latency:? = took, "userAgent" = agent, "audit-ID" = id, "srcIP":% = peer, hijacked = true; "HTTP");
    } else {
        // 0 if the client went before there was a response.
        let resp = status.map_or(0, |status| status.as_u16());
        log::debug!(verb, "URI" = uri, latency:? = took, "userAgent" = agent, "audit-ID" = id, "srcIP":% = peer, resp; "HTTP");
    }
}

/// The verb as the log and the metrics of the reference name it.
pub(super) fn verb(arrival: &Arrival, info: Option<&RequestInfo<'_>>) -> String {
    let resource = info.filter(|info| info.is_resource_request);
    let method = &arrival.method;
    if let Some(info) = resource {
        let is_collection = info.name.is_empty() && info.verb != Verb::Resource(KindVerb::Create);
        let is_read = *method == Method::GET || *method == Method::HEAD;
        // The deprecated paths of watches count as lists.
        if info.verb == Verb::Resource(KindVerb::Watch) && info.prefix == Prefix::None {
            return "WATCH".into();
        }
        if is_read {
            return if is_collection { "LIST" } else { "GET" }.into();
        }
        let is_apply = text(arrival.headers.content_type.as_ref()).starts_with("application/apply-patch+");
        if *method == Method::PATCH && is_apply {
            return "APPLY".into();
        }
    }
    match method.as_str() {
        "HEAD" => "GET".into(),
        "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "CONNECT" | "OPTIONS" | "TRACE" => {
            method.as_str().to_owned()
        }
        _ => "other".into(),
    }
}
