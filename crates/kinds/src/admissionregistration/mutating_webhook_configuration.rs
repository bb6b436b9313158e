//! `mutatingwebhookconfigurations`.

use super::{RegistrationStrategy, webhook, webhooks};
use crate::Kind;
use crate::defaults::{each, fill_text};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "mutatingwebhookconfigurations",
    singular: "mutatingwebhookconfiguration",
    kind: "MutatingWebhookConfiguration",
    columns: webhooks::COLUMNS,
    strategy: &RegistrationStrategy {
        default: |object| {
            each(object, "webhooks", |hook| {
                webhook(hook);
                fill_text(hook, "reinvocationPolicy", "Never");
            });
        },
        validate: webhooks::validate,
    },
    ..super::PLAIN
};
