//! Why a patch was refused, and the status for the client.

use object::field;

/// A refused patch.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The patch cannot be read, or is not of its format.
    #[error("{0}")]
    BadRequest(String),
    /// The patch does not apply. The client gets [`Error::GENERIC`] instead of this text.
    #[error("{0}")]
    Unprocessable(String),
    /// The patched document is not a valid object of the type.
    #[error("{}", field_error(value, detail))]
    Invalid {
        /// The patched document, or the patch, as text.
        value: String,
        /// What is wrong with the value.
        detail: String,
    },
    /// The patch exceeds a limit.
    #[error("Request entity too large: {0}")]
    TooLarge(String),
    /// An error that the reference answers with status 500 and no reason.
    #[error("{0}")]
    Internal(String),
}

/// The status of an [`Error`]: code and reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The HTTP code.
    pub code: u16,
    /// The machine-readable reason; empty where the reference gives none.
    pub reason: &'static str,
}

impl Error {
    /// The message for clients of [`Error::Unprocessable`].
    pub const GENERIC: &str = "the server rejected our request due to an error in our request";

    /// The status of the error.
    pub fn status(&self) -> Status {
        let (code, reason) = match self {
            Error::BadRequest(_) => (400, "BadRequest"),
            Error::Unprocessable(_) | Error::Invalid { .. } => (422, "Invalid"),
            Error::TooLarge(_) => (413, "RequestEntityTooLarge"),
            Error::Internal(_) => (500, ""),
        };
        Status { code, reason }
    }

    /// The message that the client gets.
    ///
    /// ```
    /// let error = merge::Error::Invalid { value: "{}".into(), detail: "no".into() };
    /// assert_eq!(error.message(), r#" "" is invalid: patch: Invalid value: "{}": no"#);
    /// ```
    pub fn message(&self) -> String {
        match self {
            Error::Unprocessable(_) => Self::GENERIC.into(),
            // The reference names no kind and no object here.
            Error::Invalid { .. } => format!(" \"\" is invalid: {self}"),
            _ => self.to_string(),
        }
    }

    /// The cause that goes into the details of the status.
    pub fn cause(&self) -> Option<field::Error> {
        match self {
            Error::Invalid { value, detail } => Some(field_error(value, detail)),
            _ => None,
        }
    }
}

fn field_error(value: &str, detail: &str) -> field::Error {
    field::Error::invalid(&field::Path::new("patch"), value, detail.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_http_status() {
        let text = || "x".to_string();
        for (error, code, reason, message) in [
            (Error::BadRequest(text()), 400, "BadRequest", "x"),
            (Error::Unprocessable(text()), 422, "Invalid", Error::GENERIC),
            (Error::TooLarge(text()), 413, "RequestEntityTooLarge", "Request entity too large: x"),
            (Error::Internal(text()), 500, "", "x"),
        ] {
            assert_eq!(error.status(), Status { code, reason });
            assert_eq!(error.message(), message);
            assert_eq!(error.cause(), None);
        }
    }

    #[test]
    fn an_invalid_result_is_a_cause_at_the_field_patch() {
        let error = Error::Invalid { value: "{\"a\":1}".into(), detail: "no".into() };
        assert_eq!(error.status(), Status { code: 422, reason: "Invalid" });
        let cause = error.cause().unwrap();
        assert_eq!((cause.path.as_str(), cause.kind.reason()), ("patch", "FieldValueInvalid"));
        assert_eq!(cause.body(), r#"Invalid value: "{\"a\":1}": no"#);
    }
}
