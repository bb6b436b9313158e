//! The kinds of `certificates.k8s.io`.

use crate::Kind;

mod certificate_signing_request;
mod cluster_trust_bundle;
mod validate;

pub(crate) use cluster_trust_bundle::bundle_name;
pub use validate::CERTIFICATE_USAGES;
pub(crate) use validate::signer_name;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&certificate_signing_request::KIND, &cluster_trust_bundle::KIND];
