//! How objects are converted between versions.

use super::requirements::Requirements;
use crate::{checks, webhook_client, x509};
use ::schema::view::{Item, Items};
use ::schema::views::apiextensions::v1::CustomResourceConversion;
use object::field::{BadValue, Error, List, Path};

/// The errors of a conversion. Its fields are named as in the first version of definitions.
pub(super) fn validate(
    conversion: CustomResourceConversion<'_>,
    requirements: &Requirements<'_>,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    let strategy = conversion.strategy();
    errors.extend(checks::required_one_of(strategy, &["None", "Webhook"], &path.child("strategy")));
    let config = conversion.webhook().and_then(|webhook| webhook.client_config());
    let versions =
        conversion.webhook().map_or_else(Items::absent, |webhook| webhook.conversion_review_versions());
    let (of_config, of_versions) =
        (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    if strategy != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if config.is_some() {
            errors.push(Error::forbidden(&of_config, why));
        }
        if !versions.is_empty() {
            errors.push(Error::forbidden(&of_versions, why));
        }
        return errors;
    }
    match config {
        None => errors.push(Error::required(&of_config, "required when strategy is set to Webhook")),
        Some(config) => {
            let service = config.service().map(|service| webhook_client::Service {
                name: service.name(),
                namespace: service.namespace(),
                path: service.path(),
                port: service.port().unwrap_or_default(),
            });
            errors.append(webhook_client::validate(config.url(), service, &of_config));
            let bundle = config.ca_bundle();
            if requirements.ca_bundle_is_checked()
                && let Err(why) = x509::check_authorities(bundle)
            {
                let shown = BadValue::Raw(super::go_syntax::bytes(bundle));
                errors.push(Error::invalid(&of_config.child("caBundle"), shown, why));
            }
        }
    }
    if versions.is_empty() {
        errors.push(Error::required(&of_versions, ""));
    } else {
        let recognized = requirements.review_version();
        errors.append(webhook_client::review_versions(versions, recognized, &of_versions));
    }
    errors
}
