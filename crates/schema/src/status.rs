//! `Status`: the error response of the API.
//!
//! The texts of a status are bounded when it is written, whatever their source. [`object::field::List`]
//! bounds the collected errors.

use crate::json;
use object::excerpt::{MOST_BYTES, shorten_to};
use object::field;
use object::quote::Quoted;

/// The most bytes of the message, and of the texts of all causes, in a response.
pub const MOST_MESSAGE: usize = 256 << 10;

/// The response to a request that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The reason, for programs.
    pub reason: Reason,
    /// The message, for people.
    pub message: String,
    /// The details. Some responses of the reference have empty details, some have none: clients see the
    /// difference.
    pub details: Option<Box<Details>>,
    /// The continue token with which a client can go on with a list; empty if there is none.
    pub token: String,
}

/// The object of a [`Status`], and its causes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// The name of the object.
    pub name: String,
    /// The API group of the resource.
    pub group: String,
    /// The resource, or the kind.
    pub kind: String,
    /// The uid of the object.
    pub uid: String,
    /// The causes, one for each field error.
    pub causes: Vec<Cause>,
    /// The seconds after which to retry; 0 if not given.
    pub retry_after_seconds: u32,
}

/// One cause among several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cause {
    /// The reason, for programs.
    pub reason: String,
    /// The message, for people.
    pub message: String,
    /// The field path.
    pub field: String,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The reasons of failures; each is written as its name.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Reason {
            /// No reason.
            Unknown,
            /// A reason that an admission webhook gave.
            Other(Box<str>),
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// The text; empty for [`Reason::Unknown`].
            pub fn as_str(&self) -> &str {
                match self {
                    Self::Unknown => "",
                    Self::Other(text) => text,
                    $(Self::$name => stringify!($name),)*
                }
            }
        }

        impl From<&str> for Reason {
            fn from(text: &str) -> Self {
                match text {
                    "" => Self::Unknown,
                    $(stringify!($name) => Self::$name,)*
                    other => Self::Other(other.into()),
                }
            }
        }
    };
}

reasons! {
    /// 401: the request has no valid credentials.
    Unauthorized,
    /// 403: the request is not allowed.
    Forbidden,
    /// 404: the resource or object does not exist.
    NotFound,
    /// 409: the object exists already.
    AlreadyExists,
    /// 409: another write changed the object first.
    Conflict,
    /// 410: the item is no longer available.
    Gone,
    /// 422: validation failed.
    Invalid,
    /// The server could not finish in time; the client may retry.
    ServerTimeout,
    /// 504: the request timed out.
    Timeout,
    /// 429: too many requests.
    TooManyRequests,
    /// 400: the request is malformed.
    BadRequest,
    /// 405: the resource does not support the method.
    MethodNotAllowed,
    /// 406: the server cannot produce any accepted media type.
    NotAcceptable,
    /// 413: the body is too large.
    RequestEntityTooLarge,
    /// 415: the media type of the body is not supported.
    UnsupportedMediaType,
    /// 500: an internal error.
    InternalError,
    /// 410: the requested resource version is too old.
    Expired,
    /// 503: the service is not available now.
    ServiceUnavailable,
    /// 500: a stored object cannot be read.
    StorageReadError,
}

impl Status {
    /// 404 for a path that is no resource.
    pub fn unknown_resource() -> Self {
        Self {
            code: 404,
            reason: Reason::NotFound,
            message: "the server could not find the requested resource".into(),
            details: Some(Box::default()),
            token: String::new(),
        }
    }

    /// 405 for a method that the resource does not support.
    pub fn method_not_allowed() -> Self {
        Self {
            code: 405,
            reason: Reason::MethodNotAllowed,
            message: "the server does not allow this method on the requested resource".into(),
            details: Some(Box::default()),
            token: String::new(),
        }
    }

    /// 405 for a verb that a resource does not have, where the resource itself answers.
    pub fn verb_not_supported(group: &str, resource: &str, verb: &str) -> Self {
        let kind = qualified(group, resource).to_string();
        Self {
            message: format!("{verb} is not supported on resources of kind {}", Quoted(&kind)),
            details: Some(Box::new(Details::of(group, resource, ""))),
            ..Self::method_not_allowed()
        }
    }

    /// 405 for the creation of a custom resource whose definition is being deleted.
    pub fn definition_is_terminating(group: &str, resource: &str) -> Self {
        Self {
            message: "create not allowed while custom resource definition is terminating".into(),
            ..Self::verb_not_supported(group, resource, "create")
        }
    }

    /// 401 for a request without valid credentials.
    pub fn unauthorized() -> Self {
        Self {
            code: 401,
            reason: Reason::Unauthorized,
            message: "Unauthorized".into(),
            details: None,
            token: String::new(),
        }
    }

    /// 413 for a body over the limit.
    pub fn request_entity_too_large(why: &str) -> Self {
        Self {
            code: 413,
            reason: Reason::RequestEntityTooLarge,
            message: format!("Request entity too large: {why}"),
            details: None,
            token: String::new(),
        }
    }

    /// 504 for a request that timed out.
    pub fn timeout(why: &str) -> Self {
        Self {
            code: 504,
            reason: Reason::Timeout,
            message: format!("Timeout: {why}"),
            details: None,
            token: String::new(),
        }
    }

    /// 404 for an object that does not exist.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        Self {
            code: 404,
            reason: Reason::NotFound,
            message: format!("{} {} not found", qualified(group, resource), Quoted(name)),
            details: Some(Details::of(group, resource, name).into()),
            token: String::new(),
        }
    }

    /// 409 for an object that exists already.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        Self {
            code: 409,
            reason: Reason::AlreadyExists,
            message: format!("{} {} already exists", qualified(group, resource), Quoted(name)),
            details: Some(Details::of(group, resource, name).into()),
            token: String::new(),
        }
    }

    /// 409 for a write that is based on an older state.
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        Self {
            code: 409,
            reason: Reason::Conflict,
            message: format!(
                "Operation cannot be fulfilled on {} {}: {why}",
                qualified(group, resource),
                Quoted(name)
            ),
            details: Some(Details::of(group, resource, name).into()),
            token: String::new(),
        }
    }

    /// 403 for a request that is not allowed.
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = match (resource, name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{} is forbidden: {why}", qualified(group, resource)),
            _ => format!("{} {} is forbidden: {why}", qualified(group, resource), Quoted(name)),
        };
        Self {
            code: 403,
            reason: Reason::Forbidden,
            message,
            details: Some(Details::of(group, resource, name).into()),
            token: String::new(),
        }
    }

    /// 422 for an object that fails validation.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &field::List) -> Self {
        let causes = errors.iter().map(|error| Cause {
            reason: error.kind.reason().to_owned(),
            message: error.body(),
            field: error.path.clone(),
        });
        let left_out = (errors.left_out() > 0)
            .then(|| Cause { message: field::more(errors.left_out()), ..Cause::default() });
        let causes = causes.chain(left_out);
        let mut message = format!("{} {} is invalid", qualified(group, kind), Quoted(name));
        if let Some(all) = field::Aggregate::new(errors.clone()) {
            message.push_str(&format!(": {all}"));
        }
        Self {
            code: 422,
            reason: Reason::Invalid,
            message,
            details: Some(Details { causes: causes.collect(), ..Details::of(group, kind, name) }.into()),
            token: String::new(),
        }
    }

    /// 410 for a resource version that is too old.
    pub fn expired(why: impl Into<String>) -> Self {
        Self { code: 410, reason: Reason::Expired, message: why.into(), details: None, token: String::new() }
    }

    /// 500 for an internal error.
    pub fn internal_error(why: &str) -> Self {
        Self {
            code: 500,
            reason: Reason::InternalError,
            message: format!("Internal error occurred: {why}"),
            details: Some(
                Details {
                    causes: vec![Cause { message: why.to_owned(), ..Cause::default() }],
                    ..Details::default()
                }
                .into(),
            ),
            token: String::new(),
        }
    }

    /// 429 for a client that may retry later.
    pub fn too_many_requests(why: impl Into<String>) -> Self {
        Self {
            code: 429,
            reason: Reason::TooManyRequests,
            message: why.into(),
            details: None,
            token: String::new(),
        }
    }

    /// 503 for a service that is not available now.
    pub fn service_unavailable(why: impl Into<String>) -> Self {
        Self {
            code: 503,
            reason: Reason::ServiceUnavailable,
            message: why.into(),
            details: None,
            token: String::new(),
        }
    }

    /// 406 for a client that accepts no supported media type.
    pub fn not_acceptable(why: impl Into<String>) -> Self {
        Self {
            code: 406,
            reason: Reason::NotAcceptable,
            message: why.into(),
            details: None,
            token: String::new(),
        }
    }

    /// 415 for a body with an unsupported media type.
    pub fn unsupported_media_type(why: impl Into<String>) -> Self {
        Self {
            code: 415,
            reason: Reason::UnsupportedMediaType,
            message: why.into(),
            details: None,
            token: String::new(),
        }
    }

    /// 400 for a malformed request.
    pub fn bad_request(why: impl Into<String>) -> Self {
        Self {
            code: 400,
            reason: Reason::BadRequest,
            message: why.into(),
            details: None,
            token: String::new(),
        }
    }

    /// The JSON form, with a line feed at the end as in the reference.
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(192 + self.message.len());
        out.push_str(r#"{"kind":"Status","apiVersion":"v1","metadata":"#);
        let start = out.len();
        push_member(&mut out, "continue", &self.token, usize::MAX);
        open_object(&mut out, start);
        out.push_str(r#","status":"Failure""#);
        push_member(&mut out, "message", &self.message, MOST_MESSAGE);
        push_member(&mut out, "reason", self.reason.as_str(), MOST_BYTES);
        if let Some(details) = &self.details {
            out.push_str(",\"details\":");
            details.push_json(&mut out);
        }
        out.push_str(",\"code\":");
        out.push_str(&self.code.to_string());
        out.push_str("}\n");
        out
    }
}

/// `deployments.apps`; the resource alone in the core group.
fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

impl Details {
    /// The details of an object, or of a resource if the name is empty.
    pub fn of(group: &str, kind: &str, name: &str) -> Self {
        Self { name: name.into(), group: group.into(), kind: kind.into(), ..Self::default() }
    }

    fn push_json(&self, out: &mut String) {
        let start = out.len();
        push_member(out, "name", &self.name, MOST_BYTES);
        push_member(out, "group", &self.group, MOST_BYTES);
        push_member(out, "kind", &self.kind, MOST_BYTES);
        push_member(out, "uid", &self.uid, MOST_BYTES);
        if !self.causes.is_empty() {
            out.push_str(",\"causes\":[");
            self.push_causes(out);
            out.push(']');
        }
        if self.retry_after_seconds > 0 {
            out.push_str(",\"retryAfterSeconds\":");
            out.push_str(&self.retry_after_seconds.to_string());
        }
        open_object(out, start);
    }

    /// Appends the causes, as far as there is room for them, and the number of the others.
    fn push_causes(&self, out: &mut String) {
        let mut room = MOST_MESSAGE;
        for (index, cause) in self.causes.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            // The cause after the limit is the count of errors that were left out before.
            if room == 0 || index > field::MOST_ERRORS {
                let message = field::more(self.causes.len() - index);
                Cause { message, ..Cause::default() }.push_json(out, MOST_BYTES);
                return;
            }
            cause.push_json(out, room);
            room = room.saturating_sub(cause.message.len() + cause.field.len());
        }
    }
}

impl Cause {
    fn push_json(&self, out: &mut String, most: usize) {
        let start = out.len();
        push_member(out, "reason", &self.reason, MOST_BYTES);
        push_member(out, "message", &self.message, most);
        push_member(out, "field", &self.field, MOST_BYTES);
        open_object(out, start);
    }
}

/// Appends `,"name":"value"`, or nothing when the value is empty. Of a value that is too long only the
/// beginning is appended.
fn push_member(out: &mut String, name: &str, value: &str, most: usize) {
    if value.is_empty() {
        return;
    }
    out.push_str(",\"");
    out.push_str(name);
    out.push_str("\":");
    if value.len() > most {
        out.push_str(&json::string(&shorten_to(most, value)));
    } else {
        out.push_str(&json::string(value));
    }
}

/// Turns the members appended since `start` into an object: the first comma becomes the opening brace.
fn open_object(out: &mut String, start: usize) {
    if out.len() == start {
        out.push('{');
    } else {
        out.replace_range(start..=start, "{");
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_resource_status_has_empty_details() {
        assert_eq!(
            Status::unknown_resource().to_json(),
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"the server could not \
             find the requested resource\",\"reason\":\"NotFound\",\"details\":{},\"code\":404}\n"
        );
    }

    #[test]
    fn unauthorized_status_has_no_details() {
        assert_eq!(
            Status::unauthorized().to_json(),
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"Unauthorized\",\
             \"reason\":\"Unauthorized\",\"code\":401}\n"
        );
    }

    #[test]
    fn empty_fields_of_details_and_causes_are_omitted() {
        let status = Status {
            code: 422,
            reason: Reason::Invalid,
            message: "ConfigMap \"a\" is invalid".into(),
            details: Some(
                Details {
                    name: "a".into(),
                    kind: "ConfigMap".into(),
                    causes: vec![
                        Cause {
                            reason: "FieldValueInvalid".into(),
                            message: "no".into(),
                            field: "data".into(),
                        },
                        Cause { message: "really".into(), ..Cause::default() },
                    ],
                    retry_after_seconds: 3,
                    ..Details::default()
                }
                .into(),
            ),
            token: String::new(),
        };
        assert_eq!(
            status.to_json(),
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"ConfigMap \\\"a\\\" is invalid\",\
             \"reason\":\"Invalid\",\"details\":{\"name\":\"a\",\"kind\":\"ConfigMap\",\"causes\":[{\"reason\":\"FieldValueInvalid\",\
             \"message\":\"no\",\"field\":\"data\"},{\"message\":\"really\"}],\"retryAfterSeconds\":3},\"code\":422}\n"
        );
    }

    #[test]
    fn long_statuses_are_cut() {
        let long = "x".repeat(4 << 20);
        let status = Status::not_found("g", "r", &long).to_json();
        assert!(status.len() < 400_000 && status.contains("more bytes"), "{}", status.len());
        let causes =
            |count: usize| vec![Cause { message: "no".into(), field: "a".into(), ..Cause::default() }; count];
        let of = |causes: Vec<Cause>| {
            let details = Some(Details { causes, ..Details::default() }.into());
            Status { details, ..Status::bad_request("x") }.to_json()
        };
        assert!(!of(causes(1_001)).contains("more error"));
        assert!(of(causes(5_000)).contains(r#"{"message":"3999 more errors"}]"#));
        let long = vec![Cause { message: long, ..Cause::default() }; 100];
        assert!(of(long).len() < 300_000);
    }

    #[test]
    fn errors_that_are_left_out_are_counted_in_message_and_causes() {
        let many = (0..100_000).map(|at| field::Error::required(&field::Path::new("a").index(at), ""));
        let status = Status::invalid("", "Pod", "a", &many.collect());
        assert!(status.message.ends_with(", and 99000 more errors]"));
        let causes = &status.details.as_ref().unwrap().causes;
        assert_eq!(causes.len(), 1_001);
        assert_eq!(causes.last().unwrap().message, "99000 more errors");
        assert!(status.to_json().len() < 200_000);
    }

    #[test]
    fn unknown_reason_is_omitted() {
        let status = Status { reason: Reason::Unknown, ..Status::bad_request("x") };
        assert!(!status.to_json().contains("reason"));
    }
}
