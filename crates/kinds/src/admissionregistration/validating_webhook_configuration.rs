//! `validatingwebhookconfigurations`.

use super::{RegistrationStrategy, webhook, webhooks};
use crate::Kind;
use crate::defaults::each;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "validatingwebhookconfigurations",
    singular: "validatingwebhookconfiguration",
    kind: "ValidatingWebhookConfiguration",
    columns: webhooks::COLUMNS,
    strategy: &RegistrationStrategy {
        default: |object| each(object, "webhooks", webhook),
        validate: webhooks::validate,
    },
    ..super::PLAIN
};
