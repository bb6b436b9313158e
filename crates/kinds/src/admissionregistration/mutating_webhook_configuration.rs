//! `mutatingwebhookconfigurations`.

use super::{webhook, webhooks};
use crate::cells::count;
use crate::defaults::{each, fill_text};
use crate::{About, Cell, Column, Columns, Generation, Kind, MetadataRules, Row, Rules, Scope, Strategy};
use object::Map;
use object::field::List;
use schema::view::View;
use schema::views::admissionregistration::v1::MutatingWebhookConfiguration;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    resource: "mutatingwebhookconfigurations",
    singular: "mutatingwebhookconfiguration",
    kind: "MutatingWebhookConfiguration",
    categories: &["api-extensions"],
    scope: Scope::Cluster,
    columns: Columns {
        list: &[
            Column::NAME,
            Column::integer(
                "Webhooks",
                About::Text("Webhooks indicates the number of webhooks registered in this configuration"),
            ),
            Column::AGE,
        ],
        row,
    },
    generation: Generation::Counted,
    metadata_rules: MetadataRules::General,
    strategy: &MutatingWebhookConfigurationStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let webhooks = MutatingWebhookConfiguration::of(object).webhooks();
    vec![Cell::name(object), count(webhooks), Cell::age(object)].into()
}

struct MutatingWebhookConfigurationStrategy;

impl Strategy for MutatingWebhookConfigurationStrategy {
    fn default(&self, object: &mut Map) {
        each(object, "webhooks", |hook| {
            webhook(hook);
            fill_text(hook, "reinvocationPolicy", "Never");
        });
    }

    fn validate_create(&self, object: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata(object);
        errors.append(webhooks::validate(object, None));
        errors
    }

    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata(new);
        errors.append(webhooks::validate(new, Some(old)));
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}
