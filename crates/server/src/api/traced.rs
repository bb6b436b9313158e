//! The spans of a verb: its own, that of what it reads, and that of its response. Their names and fields
//! are those of the reference.

use kinds::Verb as KindVerb;
use observe::{Observation, Span};
use registry::Target;

use crate::at_end::at_end;
use crate::observed;
use crate::request_info::{RequestInfo, Verb};
use crate::{Request, Response};

/// The span of a verb, until its response has been sent. Watches have none: they last as long as their
/// clients want.
pub(super) struct Traced {
    span: Option<Span>,
    observation: Observation,
}

impl Traced {
    /// Begins the span of a request that is authorized.
    pub(super) fn begin(request: &Request, info: &RequestInfo<'_>) -> Self {
        let observation = request.context.observation.clone();
        let name = match info.verb {
            Verb::Resource(KindVerb::Get) => Some("Get"),
            Verb::Resource(KindVerb::List) => Some("List"),
            Verb::Resource(KindVerb::Create) => Some("Create"),
            Verb::Resource(KindVerb::Update) => Some("Update"),
            Verb::Resource(KindVerb::Patch) => Some("Patch"),
            Verb::Resource(KindVerb::Delete | KindVerb::DeleteCollection) => Some("Delete"),
            _ => None,
        };
        let span = name.map(|name| observation.span(name, || observed::fields(request, info)));
        Self { span, observation }
    }

    /// Ends it when the response has been sent.
    pub(super) fn until_sent(self, mut response: Response) -> Response {
        if let Some(span) = self.span {
            let observation = self.observation;
            at_end(&mut response, move |_| {
                observation.step("Writing http response done");
                drop(span);
            });
        }
        response
    }
}

/// The span of a read from the cache.
pub(super) fn read(target: &Target<'_>, name: &'static str, version: &str) -> Span {
    let observation = target.observation();
    observation.span(name, || {
        let mut key = String::new();
        for part in [&*target.served().resource, target.namespace(), target.name()] {
            if !part.is_empty() {
                key.push('/');
                key.push_str(part);
            }
        }
        vec![
            ("audit-id", observation.audit_id().into()),
            ("key", key.into()),
            ("resource-version", version.into()),
        ]
    })
}

/// The span of the encoding and sending of objects.
pub(super) fn serialize(target: &Target<'_>, media_type: &'static str) -> Span {
    let observation = target.observation();
    observation.span("SerializeObject", || {
        vec![("audit-id", observation.audit_id().into()), ("mediaType", media_type.into())]
    })
}

/// Ends the span of a response when it has been sent.
pub(super) fn until_written(writing: Span, mut response: Response) -> Response {
    writing.step("About to start writing response");
    at_end(&mut response, move |sent| {
        writing.step(if sent.is_complete { "Write call succeeded" } else { "Write call failed" });
        drop(writing);
    });
    response
}
