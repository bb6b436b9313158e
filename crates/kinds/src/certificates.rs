//! The kinds of `certificates.k8s.io`.

use crate::Kind;

mod certificate_signing_request;
mod validate;

pub use validate::CERTIFICATE_USAGES;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&certificate_signing_request::KIND];
