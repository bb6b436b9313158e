//! Turns errors of the cache into statuses.

use crate::damaged::Damaged;
use object::quote::Quoted;
use schema::Status;
use schema::status::{Cause, Details, Reason};

/// `retryAfterSeconds` of a write that the busy store refused.
const BUSY_SECONDS: u32 = 1;

/// The status of an error of the cache.
pub fn status(error: cache::Error) -> Status {
    use cache::Error::{
        Closed, ContinueExpired, Corrupt, Expired, Invalid, Lagging, Recovering, Removed, Store, TooLarge,
        TooOld, Unavailable, UnreadableDeleted,
    };
    match error {
        error @ (TooOld { .. } | Expired { .. } | ContinueExpired { .. }) => {
            Status::expired(error.to_string())
        }
        error @ TooLarge { .. } => Status {
            details: Some(
                Details {
                    causes: vec![Cause {
                        reason: "ResourceVersionTooLarge".into(),
                        message: "Too large resource version".into(),
                        field: String::new(),
                    }],
                    retry_after_seconds: 1,
                    ..Details::default()
                }
                .into(),
            ),
            ..Status::timeout(&error.to_string())
        },
        Corrupt(corrupt) => Damaged::from(&*corrupt).status(&format!("/{}", corrupt.key)),
        Unavailable(unavailable) => unavailable_now(&unavailable.to_string()),
        error @ (Lagging { .. } | Recovering) => unavailable_now(&error.to_string()),
        UnreadableDeleted(store::Unreadable::Unavailable(unavailable)) => {
            unavailable_now(&unavailable.to_string())
        }
        error @ UnreadableDeleted(_) => Status {
            code: 500,
            reason: Reason::StorageReadError,
            message: error.to_string(),
            details: None,
            token: String::new(),
        },
        Removed { .. } => Status::unknown_resource(),
        // The name is too long for the store.
        Invalid { reason, .. } => Status::bad_request(reason.to_string()),
        Closed => Status::service_unavailable("the server is shutting down"),
        Store(store::Error::TooLarge { limit, .. }) => object_too_large(limit),
        Store(store::Error::RequestTooLarge(said)) => unknown_reason_500(said),
        // Not logged for each refused write: the health check reports a busy store.
        Store(busy @ store::Error::Busy { .. }) => Status {
            details: Some(Details { retry_after_seconds: BUSY_SECONDS, ..Details::default() }.into()),
            ..Status::service_unavailable(format!("the store is busy, please try again later: {busy}"))
        },
        Store(spent @ store::Error::OverBudget { .. }) => Status {
            details: Some(Details { retry_after_seconds: BUSY_SECONDS, ..Details::default() }.into()),
            ..Status::too_many_requests(format!("the forks of this server are full: {spent}"))
        },
        Store(error) => {
            log::error!(error:%; "the store failed");
            Status::internal_error(&error.to_string())
        }
        other => {
            log::error!(error:% = other; "a write could not be carried out");
            Status::internal_error(&other.to_string())
        }
    }
}

/// 503 for an object that cannot be read at present, for example not decrypted. Clients retry.
pub(crate) fn unavailable_now(why: &str) -> Status {
    let details = Details { retry_after_seconds: 1, ..Details::default() };
    Status { details: Some(details.into()), ..Status::service_unavailable(why) }
}

/// 413 for an object that has grown past what can be stored.
pub(crate) fn object_too_large(limit: usize) -> Status {
    Status::request_entity_too_large(&format!("limit is {limit}"))
}

/// 500 without a reason: an error that the reference passes on without a type.
pub fn unknown_reason_500(message: impl Into<String>) -> Status {
    Status {
        code: 500,
        reason: Reason::Unknown,
        message: message.into(),
        details: None,
        token: String::new(),
    }
}

/// Parses a number; the error has the message of the reference.
pub(crate) fn parse_number<T: std::str::FromStr>(function: &str, text: &str) -> Result<T, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let signed = function != "ParseUint";
    let well_formed = !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (signed || digits.len() == text.len());
    let why = if well_formed { "value out of range" } else { "invalid syntax" };
    let number = if well_formed { text.parse().ok() } else { None };
    number.ok_or_else(|| format!("strconv.{function}: parsing {}: {why}", Quoted(text)))
}

/// A resource version, as the reference reads one.
pub(crate) fn revision(text: &str) -> Result<store::Revision, String> {
    if text.is_empty() {
        return Ok(store::Revision::ZERO);
    }
    parse_number::<u64>("ParseUint", text)
        .map(store::Revision)
        .map_err(|why| format!("resourceVersion: Invalid value: {}: {why}", Quoted(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_that_the_store_has_no_room_for_may_come_again() {
        let refused = status(cache::Error::Store(store::Error::Busy { changes: 22, bytes: 66_000_000 }));
        assert_eq!((refused.code, refused.reason), (503, Reason::ServiceUnavailable));
        assert_eq!(refused.details.unwrap().retry_after_seconds, 1);
        assert!(refused.message.contains("22 changes of 66000000 bytes wait"), "{}", refused.message);
    }

    #[test]
    fn writers_past_the_memory_of_forks_are_told_so() {
        let refused = status(cache::Error::Store(store::Error::OverBudget { used: 9, limit: 10 }));
        assert_eq!((refused.code, refused.reason), (429, Reason::TooManyRequests));
        assert!(refused.message.ends_with("9 of 10 bytes of memory are used already; nothing was written"));
    }
}
