//! Why a request to etcd failed, and whether a write may have been committed.
//!
//! 1. [`Fate::NotWritten`] is said only if it is certain: the request was not sent, or etcd refused it for a
//!    reason that it finds before it changes anything.
//! 2. A full database is no such reason: etcd looks at its size before *and* after it has applied a
//!    transaction, and gives the same answer to both.

use super::connection::Unsent;
use crate::{Error, Fate};
use std::{error::Error as _, fmt, io, sync::Arc};
use tonic::{Code, Status};

/// A request that failed.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// The member that it was for.
    pub(super) member: String,
    pub(super) cause: Cause,
}

#[derive(Clone, Debug)]
pub(super) enum Cause {
    /// The request was not sent.
    Unsent(String),
    /// There was no answer in time.
    TimedOut,
    /// The connection was lost.
    Lost(String),
    /// etcd has answered with an error.
    Refused(Code, String),
}

impl Cause {
    pub(super) fn of(status: &Status) -> Self {
        // Only errors of the connection have a source.
        let mut source = status.source();
        let mut why = String::new();
        while let Some(error) = source {
            if error.is::<Unsent>() {
                return Self::Unsent(error.to_string());
            }
            if !why.is_empty() {
                why.push_str(": ");
            }
            why.push_str(&error.to_string());
            source = error.source();
        }
        match why.is_empty() {
            true => Self::Refused(status.code(), status.message().to_owned()),
            false => Self::Lost(why),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "etcd at {}: ", self.member)?;
        match &self.cause {
            Cause::Unsent(why) | Cause::Lost(why) | Cause::Refused(_, why) => f.write_str(why),
            Cause::TimedOut => f.write_str("no answer in time"),
        }
    }
}

impl Failure {
    fn says(&self, text: &str) -> bool {
        matches!(&self.cause, Cause::Refused(_, message) if message.contains(text))
    }

    /// The revision that was asked for is compacted.
    pub(super) fn is_compacted(&self) -> bool {
        self.says("required revision has been compacted")
    }

    /// The database has reached its quota.
    pub(super) fn is_full(&self) -> bool {
        self.says("database space exceeded")
    }

    /// The lease of a put has ended.
    pub(super) fn is_lease_missing(&self) -> bool {
        self.says("requested lease not found")
    }

    /// The request is larger than etcd takes.
    pub(super) fn is_too_large(&self) -> bool {
        self.too_large().is_some()
    }

    /// What the client of the reference says of a request that is larger than etcd takes. It does not send a
    /// message past the limit of etcd for messages; here etcd refuses the message, with the same numbers.
    pub(super) fn too_large(&self) -> Option<String> {
        let Cause::Refused(_, message) = &self.cause else { return None };
        match message.split_once("larger than max ") {
            Some((_, numbers)) => Some(format!(
                "rpc error: code = ResourceExhausted desc = trying to send message larger than max {numbers}"
            )),
            None => message.contains("request is too large").then(|| message.clone()),
        }
    }

    /// Whether the request changed nothing and another member may succeed: even a write can be tried again.
    pub(super) fn is_harmless(&self) -> bool {
        matches!(self.cause, Cause::Unsent(_)) || self.says("etcdserver: no leader")
    }

    /// Whether a read may succeed if it is tried again.
    pub(super) fn is_transient(&self) -> bool {
        match &self.cause {
            Cause::Unsent(_) | Cause::TimedOut | Cause::Lost(_) => true,
            Cause::Refused(code, _) => {
                matches!(code, Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Aborted)
                    || self.says("too many requests")
            }
        }
    }

    /// Whether the write that failed with this error may have been committed.
    pub(super) fn fate(&self) -> Fate {
        let is_certain = match &self.cause {
            Cause::Unsent(_) => true,
            Cause::TimedOut | Cause::Lost(_) => false,
            Cause::Refused(code, _) => {
                self.is_harmless()
                    || self.is_too_large()
                    || self.says("too many requests")
                    || matches!(
                        code,
                        Code::InvalidArgument
                            | Code::NotFound
                            | Code::PermissionDenied
                            | Code::Unauthenticated
                            | Code::FailedPrecondition
                            | Code::OutOfRange
                            | Code::Unimplemented
                            | Code::DataLoss
                    )
            }
        };
        if is_certain { Fate::NotWritten } else { Fate::Unknown }
    }

    /// The error of a write.
    pub(super) fn of_write(&self) -> Error {
        self.error(self.fate())
    }

    /// The error of a read.
    pub(super) fn of_read(&self) -> Error {
        self.error(Fate::NotWritten)
    }

    fn error(&self, fate: Fate) -> Error {
        let kind = match &self.cause {
            _ if self.is_full() => io::ErrorKind::StorageFull,
            Cause::Unsent(_) => io::ErrorKind::NotConnected,
            Cause::TimedOut => io::ErrorKind::TimedOut,
            Cause::Lost(_) => io::ErrorKind::ConnectionAborted,
            Cause::Refused(Code::PermissionDenied | Code::Unauthenticated, _) => {
                io::ErrorKind::PermissionDenied
            }
            Cause::Refused(..) => io::ErrorKind::Other,
        };
        let source = Arc::new(io::Error::new(kind, self.to_string()));
        match self.is_full() {
            true => Error::Full { fate, source },
            false => Error::Io { fate, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fate_of_a_write_is_certain_only_if_etcd_has_not_begun_it() {
        let refused =
            |code, text: &str| Failure { member: "m".into(), cause: Cause::Refused(code, text.into()) };
        let certain = [
            refused(Code::Unavailable, "etcdserver: no leader"),
            refused(Code::ResourceExhausted, "etcdserver: too many requests"),
            refused(Code::InvalidArgument, "etcdserver: request is too large"),
            refused(Code::ResourceExhausted, "grpc: received message larger than max (4000000 vs. 2097152)"),
            refused(Code::NotFound, "etcdserver: requested lease not found"),
            refused(Code::PermissionDenied, "etcdserver: permission denied"),
            Failure { member: "m".into(), cause: Cause::Unsent("refused".into()) },
        ];
        let open = [
            refused(Code::Unavailable, "etcdserver: request timed out"),
            refused(Code::Unavailable, "etcdserver: leader changed"),
            refused(
                Code::Unavailable,
                "etcdserver: request timed out, possibly due to previous leader failure",
            ),
            refused(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded"),
            refused(Code::Unknown, "context deadline exceeded"),
            refused(Code::Unavailable, "etcdserver: server stopped"),
            Failure { member: "m".into(), cause: Cause::TimedOut },
            Failure { member: "m".into(), cause: Cause::Lost("reset".into()) },
        ];
        for failure in certain {
            assert_eq!(failure.fate(), Fate::NotWritten, "{failure}");
        }
        for failure in open {
            assert_eq!(failure.fate(), Fate::Unknown, "{failure}");
        }
    }

    #[test]
    fn requests_that_are_too_large_are_refused_in_the_words_of_the_reference() {
        let said = |code, text: &str| {
            Failure { member: "m".into(), cause: Cause::Refused(code, text.into()) }.too_large()
        };
        let text = "etcdserver: request is too large";
        assert_eq!(said(Code::InvalidArgument, text).as_deref(), Some(text));
        assert_eq!(
            said(Code::ResourceExhausted, "grpc: received message larger than max (4000000 vs. 2097152)")
                .unwrap(),
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max (4000000 vs. 2097152)"
        );
        assert_eq!(said(Code::ResourceExhausted, "etcdserver: too many requests"), None);
    }

    #[test]
    fn a_full_database_is_a_full_store() {
        let text = "etcdserver: mvcc: database space exceeded";
        let failure =
            Failure { member: "m".into(), cause: Cause::Refused(Code::ResourceExhausted, text.into()) };
        assert!(matches!(failure.of_write(), Error::Full { fate: Fate::Unknown, .. }));
    }
}
