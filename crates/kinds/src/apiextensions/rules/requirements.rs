//! What a definition has to hold: everything if it is new, and of a change what held before.

use super::spec::Spec;
use super::{defaults, openapi, structural, walk};
use crate::webhook_client::{Recognized, recognizes_any};
use crate::x509;
use ::schema::view::View;
use ::schema::views::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceValidation, JSONSchemaProps,
};
use expressions::Stage;
use object::Map;
use std::cell::OnceCell;
use std::collections::HashSet;

/// The types that a schema can name.
pub(super) const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// What is required. Each answer is worked out when a rule is about to be broken.
pub(super) struct Requirements<'a> {
    old: Option<Old<'a>>,
    valid_types: OnceCell<bool>,
    structural: OnceCell<bool>,
    pruned_defaults: OnceCell<bool>,
    atomic_sets: OnceCell<bool>,
    list_keys: OnceCell<bool>,
    /// What the old definition has.
    stored_expressions: OnceCell<StoredExpressions>,
}

struct Old<'a> {
    spec: Spec<'a>,
    is_established: bool,
}

/// The expressions of an old definition.
#[derive(Default)]
struct StoredExpressions {
    rules: HashSet<Box<str>>,
    messages: HashSet<Box<str>>,
}

/// Whether the kind of a definition is served.
pub(super) fn is_established(definition: CustomResourceDefinition<'_>) -> bool {
    let mut conditions = definition.status().conditions().iter();
    conditions.find(|of| of.r#type() == "Established").is_some_and(|of| of.status() == "True")
}

impl<'a> Requirements<'a> {
    pub(super) fn of_new() -> Self {
        Self::with(None)
    }

    pub(super) fn after(old: CustomResourceDefinition<'a>) -> Self {
        Self::with(Some(Old { spec: Spec::new(old.spec()), is_established: is_established(old) }))
    }

    fn with(old: Option<Old<'a>>) -> Self {
        Self {
            old,
            valid_types: OnceCell::new(),
            structural: OnceCell::new(),
            pruned_defaults: OnceCell::new(),
            atomic_sets: OnceCell::new(),
            list_keys: OnceCell::new(),
            stored_expressions: OnceCell::new(),
        }
    }

    fn held(&self, answer: &OnceCell<bool>, breaks: impl Fn(JSONSchemaProps<'_>) -> bool) -> bool {
        *answer
            .get_or_init(|| !self.old.as_ref().is_some_and(|old| old.spec.schemas().into_iter().any(breaks)))
    }

    /// Whether every version needs a schema.
    pub(super) fn schemas(&self) -> bool {
        self.old.as_ref().is_none_or(|old| old.spec.has_every_schema())
    }

    /// Whether types are those that there are.
    pub(super) fn valid_types(&self) -> bool {
        self.held(&self.valid_types, |schema| walk::any(schema, &has_unknown_type))
    }

    /// Whether schemas are structural.
    pub(super) fn structural(&self) -> bool {
        self.held(&self.structural, structural::is_violated)
    }

    /// Whether defaults have no unknown fields.
    pub(super) fn pruned_defaults(&self) -> bool {
        self.held(&self.pruned_defaults, defaults::has_unknown_fields)
    }

    /// Whether items of sets are atomic.
    pub(super) fn atomic_sets(&self) -> bool {
        self.held(&self.atomic_sets, |schema| {
            walk::any(schema, &|schema| openapi::wrong_set_item(schema).is_some())
        })
    }

    /// Whether the items of sets and maps, and the keys of maps, cannot be absent.
    pub(super) fn list_keys(&self) -> bool {
        self.held(&self.list_keys, |schema| walk::any(schema, &openapi::has_wrong_list_items))
    }

    /// Whether the old definition has the same schema for a version.
    pub(super) fn has_same_schema(
        &self,
        version: &str,
        schema: Option<CustomResourceValidation<'_>>,
    ) -> bool {
        fn map(of: Option<CustomResourceValidation<'_>>) -> Option<&Map> {
            of.and_then(CustomResourceValidation::open_apiv3_schema).map(View::map)
        }
        let old = self.old.as_ref().and_then(|old| old.spec.version(version));
        old.is_some_and(|old| map(old.schema()) == map(schema))
    }

    /// What a rule may use: everything, if the old definition has it too.
    pub(super) fn stage_of_rule(&self, rule: &str) -> Stage {
        stage(&self.stored_expressions().rules, rule)
    }

    /// What an expression for a message may use: everything, if the old definition has it too.
    pub(super) fn stage_of_message(&self, expression: &str) -> Stage {
        stage(&self.stored_expressions().messages, expression)
    }

    fn stored_expressions(&self) -> &StoredExpressions {
        self.stored_expressions.get_or_init(|| {
            let mut stored = StoredExpressions::default();
            for schema in self.old.iter().flat_map(|old| old.spec.schemas()) {
                walk::each(schema, &mut |schema| {
                    for rule in schema.x_kubernetes_validations().iter() {
                        stored.rules.insert(rule.rule().into());
                        stored.messages.insert(rule.message_expression().into());
                    }
                });
            }
            stored
        })
    }

    /// Whether a conversion webhook names a version of reviews that the server speaks.
    pub(super) fn review_version(&self) -> Recognized {
        let webhook = self.old.as_ref().and_then(|old| old.spec.conversion()?.webhook());
        match webhook.is_none_or(|webhook| recognizes_any(webhook.conversion_review_versions())) {
            true => Recognized::Required,
            false => Recognized::Optional,
        }
    }

    /// Whether the authorities of a conversion webhook are checked: not before the kind is served.
    pub(super) fn ca_bundle_is_checked(&self) -> bool {
        self.old.as_ref().filter(|old| old.is_established).is_some_and(|old| {
            let config = old.spec.conversion().and_then(|of| of.webhook()).and_then(|of| of.client_config());
            config.is_none_or(|config| x509::check_authorities(config.ca_bundle()).is_ok())
        })
    }
}

fn stage(stored: &HashSet<Box<str>>, expression: &str) -> Stage {
    if stored.contains(expression) { Stage::Stored } else { Stage::New }
}

fn has_unknown_type(schema: JSONSchemaProps<'_>) -> bool {
    !schema.r#type().is_empty() && !TYPES.contains(&schema.r#type())
}
