//! What is wrong with certificates, and what an administrator can do about it.

use std::path::PathBuf;

use super::validity::{NotValid, Validity, shown};

/// Why certificates could not be read or made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("cannot {action} {}: {cause}", .path.display())]
    File {
        /// The operation that failed.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// One of the two files of the authority is missing, so that the other one is of no use.
    #[error(
        "{} is there but {} is missing or empty: put it back; or run `keelson renew-authority --new-key`, after which every \
         kubeconfig and every certificate of the authority is void", .present.display(), .absent.display()
    )]
    Half {
        /// The file that exists.
        present: PathBuf,
        /// The file that is missing.
        absent: PathBuf,
    },
    /// One of the two files of a serving certificate is missing.
    #[error("error reading {}, certificate and key must be supplied as a pair", .path.display())]
    NoPair {
        /// The file that is missing or cannot be read.
        path: PathBuf,
    },
    /// The authority of a folder that was used is missing.
    #[error(
        "the data directory was used before, but {} and its key are missing or empty: put both back; or run \
         `keelson renew-authority --new-key`, after which every kubeconfig and every certificate of the authority is void",
        .path.display()
    )]
    AuthorityIsMissing {
        /// The certificate's file.
        path: PathBuf,
    },
    /// The authority's files are invalid.
    #[error(
        "{} cannot be used as the authority ({why}): put it and its key back from a copy; or run \
         `keelson renew-authority --new-key`, after which every kubeconfig and every certificate of the authority is void",
        .path.display()
    )]
    Authority {
        /// The certificate's file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The clock is outside of the authority's life.
    #[error(
        "the authority {} {fault}: it is {validity}, and the clock of this machine says {}. If the clock is wrong, set it right. \
         If it is right, run `keelson renew-authority`; nothing was changed", .path.display(), shown(*.now)
    )]
    AuthorityNotValid {
        /// The certificate's file.
        path: PathBuf,
        /// Which of the two it is.
        fault: NotValid,
        /// From when to when it is valid.
        validity: Validity,
        /// The time of the clock, in seconds since 1970.
        now: u64,
    },
    /// The key of service account tokens of a folder that was used is missing.
    #[error(
        "the data directory was used before, but {} is missing or empty: put it back; name another with \
         --service-account-signing-key-file; or run `keelson renew-service-account-key`, which ends all tokens of service accounts",
        .path.display()
    )]
    ServiceAccountKeyIsMissing {
        /// The file.
        path: PathBuf,
    },
    /// The file with the key of service account tokens is invalid.
    #[error(
        "{} cannot be used ({why}): put it back from a copy; or run `keelson renew-service-account-key`, which ends all tokens of \
         service accounts", .path.display()
    )]
    ServiceAccounts {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: auth::jwt::InvalidKey,
    },
    /// Making a key or a certificate failed.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// An authority cannot sign at the time of the clock.
    #[error("the authority {fault}: it is {validity}, and the clock says {}", shown(*.now))]
    Signing {
        /// Which of the two it is.
        fault: NotValid,
        /// From when to when it is valid.
        validity: Validity,
        /// The time of the clock, in seconds since 1970.
        now: u64,
    },
    /// A certificate cannot have this usage.
    #[error("unrecognized usage value: {0:?}")]
    Usage(String),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    Random,
}
