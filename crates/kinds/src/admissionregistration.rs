//! The kinds of `admissionregistration.k8s.io`.

use crate::Kind;

mod mutating_admission_policy;
mod mutating_admission_policy_binding;
mod mutating_webhook_configuration;
mod validating_admission_policy;
mod validating_admission_policy_binding;
mod validating_webhook_configuration;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[
    &mutating_webhook_configuration::KIND,
    &validating_admission_policy::KIND,
    &validating_admission_policy_binding::KIND,
    &validating_webhook_configuration::KIND,
    &mutating_admission_policy::KIND,
    &mutating_admission_policy_binding::KIND,
];
