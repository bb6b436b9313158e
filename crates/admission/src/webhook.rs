//! Admission webhooks: other servers that change or refuse writes, as configurations in the API say.
//!
//! 1. **A configuration is read when it changes**, into rules that a write is compared with without
//!    allocating anything. A write that no webhook is asked about waits for nothing.
//! 2. **Nobody is locked out**: no webhook is asked about webhook configurations and policies.
//! 3. **Everything is bounded**: a call by the time of its webhook, by 30 s and by the deadline of the
//!    request, an answer by 3 MiB, and all calls that are under way by a number for each webhook and by bytes
//!    for all. Redirects are refused.
//!
//! | step | module |
//! |---|---|
//! | read configurations | `configuration` |
//! | find the webhooks for a write | `found` |
//! | make a review of it | `review` |
//! | ask, within the bounds | `call`, `places`, `services`, `breaker` |
//! | check the answer | `answer` |
//! | change the object, or refuse the write | `mutating`, `validating` |

mod answer;
mod audit;
mod breaker;
mod call;
mod configuration;
mod found;
mod mutating;
mod places;
mod review;
mod services;
#[cfg(test)]
mod tests;
mod validating;

pub use breaker::Breakers;
pub use mutating::MutatingAdmissionWebhook;
pub use places::Places;
pub use services::services;
pub use validating::ValidatingAdmissionWebhook;

use crate::Lister;
use crate::matching::{Namespaces, read_labels};
use crate::plugins::Parts;
use answer::Role;
use auth::Authorizer;
use configuration::Configuration;
use outbound::{Kubeconfig, WebhookClients};
use schema::config_file;
use schema::view::View as _;
use schema::views::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use schema::views::apiserver::v1::WebhookAdmission;
use schema::views::core::v1::Namespace;
use std::num::NonZeroU32;
use std::path::Path;

/// The settings of webhooks by flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WebhookSettings {
    /// The failures in a row that open the circuit breaker of a webhook; without it there are no breakers.
    pub breaker_failures: Option<NonZeroU32>,
    /// Whether webhooks are skipped for members of `system:masters`.
    pub break_glass: bool,
    /// Whether webhooks behind services are reached by their endpoints, not by the address of the service.
    pub endpoint_routing: bool,
}

/// The common part of the plugins for mutating and for validating webhooks.
struct Webhooks {
    role: Role,
    configurations: Lister<Configuration>,
    namespaces: Namespaces,
    /// Answers the authorization checks of match conditions.
    authorizer: Authorizer,
    clients: WebhookClients,
    settings: WebhookSettings,
    breakers: Breakers,
    places: Places,
}

impl Webhooks {
    fn make(parts: &Parts<'_>, role: Role) -> Result<Self, String> {
        let (prefix, ty) = match role {
            Role::Mutating => ("mutatingwebhookconfigurations", MutatingWebhookConfiguration::schema()),
            Role::Validating => ("validatingwebhookconfigurations", ValidatingWebhookConfiguration::schema()),
        };
        let configurations = parts.resource(&format!("{prefix}.admissionregistration.k8s.io"))?;
        let kubeconfig = parts.configuration.map(kubeconfig).transpose()?;
        let endpoints =
            parts.settings.webhooks.endpoint_routing.then(|| parts.resource("endpoints")).transpose()?;
        let services = services(parts.resource("services")?, endpoints);
        Ok(Self {
            role,
            configurations: Lister::new(configurations, ty, Configuration::read),
            namespaces: Lister::new(parts.resource("namespaces")?, Namespace::schema(), read_labels),
            authorizer: parts.authorizer.clone(),
            clients: WebhookClients::new(kubeconfig, services),
            settings: parts.settings.webhooks,
            breakers: parts.shared.breakers.clone(),
            places: parts.shared.places.clone(),
        })
    }
}

/// The credentials that a `WebhookAdmissionConfiguration` names.
fn kubeconfig(text: &[u8]) -> Result<Kubeconfig, String> {
    let ty = WebhookAdmission::schema();
    let decoded =
        config_file::decode(text, "WebhookAdmissionConfiguration", &["apiserver.config.k8s.io/v1"], ty);
    // The older version has another name for it.
    let decoded = decoded.or_else(|why| {
        config_file::decode(text, "WebhookAdmission", &["apiserver.config.k8s.io/v1alpha1"], ty)
            .map_err(|_| why)
    })?;
    let empty = object::Map::new();
    let path = WebhookAdmission::of(decoded.as_map().unwrap_or(&empty)).kube_config_file();
    if !Path::new(path).is_absolute() {
        let path_of_field = object::field::Path::new("kubeConfigFile");
        let error = object::field::Error::invalid(&path_of_field, path, "must be an absolute file path");
        return Err(error.to_string());
    }
    Kubeconfig::read(Path::new(path)).map_err(|error| error.to_string())
}
