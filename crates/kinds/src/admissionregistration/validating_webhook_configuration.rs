//! `validatingwebhookconfigurations`.

use super::{RegistrationStrategy, webhook, webhook_v1beta1, webhooks};
use crate::defaults::each;
use crate::{Kind, OldVersion};
use object::Map;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "validatingwebhookconfigurations",
    singular: "validatingwebhookconfiguration",
    kind: "ValidatingWebhookConfiguration",
    old_versions: &[OldVersion::named("admissionregistration.k8s.io/v1beta1").by(upgrade)],
    columns: webhooks::COLUMNS,
    strategy: &RegistrationStrategy { default, validate: webhooks::validate },
    ..super::PLAIN
};

fn default(object: &mut Map) {
    each(object, "webhooks", webhook);
}

/// Sets the defaults of `v1beta1`.
fn upgrade(object: &mut Map) {
    each(object, "webhooks", webhook_v1beta1);
    default(object);
}
