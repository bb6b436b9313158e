//! `customresourcedefinitions`.

use super::rules;
use crate::Resets;
use crate::defaults::{fill, fill_text, update_map, update_or_insert_map};
use crate::{Context, Generation, Kind, MetadataRules, Rules, Scope, Strategy, Subresource, Version, map_at};
use object::field::List;
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::apiextensions::v1::CustomResourceDefinition;

/// The row. The reference stores these objects in `v1beta1`, which it does not serve, and discovery hashes
/// that version.
pub(crate) const KIND: Kind = Kind {
    group: "apiextensions.k8s.io",
    resource: "customresourcedefinitions",
    singular: "customresourcedefinition",
    kind: "CustomResourceDefinition",
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    scope: Scope::Cluster,
    versions: &[Version::V1.introduced(16)],
    subresources: &[Subresource::STATUS],
    announced_storage: Some("v1beta1"),
    generation: Generation::Counted,
    metadata_rules: MetadataRules::General,
    key_prefix: Some("apiextensions.k8s.io/customresourcedefinitions"),
    // The reference declares metadata, and resets it to what the client sent.
    resets: &Resets { declared: Some(Resets::STATUS_WITHOUT_METADATA.update), ..Resets::STATUS },
    strategy: &CustomResourceDefinitionStrategy,
    ..Kind::PLAIN
};

struct CustomResourceDefinitionStrategy;

impl Strategy for CustomResourceDefinitionStrategy {
    fn default(&self, object: &mut Map) {
        update_or_insert_map(object, "spec", |spec| {
            update_or_insert_map(spec, "names", names);
            if !spec.contains_key("conversion") {
                let mut conversion = Map::new();
                fill_text(&mut conversion, "strategy", "None");
                fill(spec, "conversion", conversion);
            }
            update_map(spec, "conversion", |conversion| {
                update_map(conversion, "webhook", |webhook| {
                    update_map(webhook, "clientConfig", |config| {
                        update_map(config, "service", |service| fill(service, "port", 443i64));
                    });
                });
            });
        });
        if CustomResourceDefinition::of(object).status().stored_versions().is_empty() {
            note_stored_version(object);
        }
    }

    fn prepare_create(&self, object: &mut Map, _context: &Context<'_>) {
        note_stored_version(object);
    }

    fn prepare_update(&self, new: &mut Map, _old: &Map, _context: &Context<'_>) {
        note_stored_version(new);
    }

    fn validate_create(&self, object: &Map, _rules: &Rules<'_>) -> List {
        rules::validate(object)
    }

    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        rules::validate_update(new, old, rules)
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        rules::validate_status(new, old, rules)
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    /// Adds the finalizer that waits for the custom resources and the condition `Terminating`.
    fn prepare_deletion(&self, object: &mut Map, context: &Context<'_>) {
        add_finalizer(object);
        set_terminating(object, context.now);
    }

    fn deletes_in_two_phases(&self) -> bool {
        true
    }

    fn propagates_in_first_phase(&self) -> bool {
        false
    }
}

fn names(names: &mut Map) {
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if kind.is_empty() {
        return;
    }
    fill(names, "singular", kind.to_lowercase());
    fill(names, "listKind", format!("{kind}List"));
}

/// Adds the storage version to `status.storedVersions`.
pub fn note_stored_version(object: &mut Map) {
    let definition = CustomResourceDefinition::of(object);
    let versions = definition.spec().versions();
    let Some(version) = versions.iter().find(|version| version.storage()) else { return };
    let name = Value::from(version.name());
    if definition.status().stored_versions().values().contains(&name) {
        return;
    }
    let stored = map_at(object, "status")
        .map(|status| status.get_or_insert_with(Key::known("storedVersions"), || Value::from(Vec::new())));
    if let Some(stored) = stored.and_then(Value::as_list_mut) {
        stored.push(name);
    }
}

fn add_finalizer(object: &mut Map) {
    let name = Value::from("customresourcecleanup.apiextensions.k8s.io");
    let finalizers = map_at(object, "metadata")
        .map(|metadata| metadata.get_or_insert_with(Key::known("finalizers"), || Value::from(Vec::new())));
    if let Some(finalizers) = finalizers.and_then(Value::as_list_mut)
        && !finalizers.contains(&name)
    {
        finalizers.push(name);
    }
}

fn set_terminating(object: &mut Map, now: &str) {
    let conditions = map_at(object, "status")
        .map(|status| status.get_or_insert_with(Key::known("conditions"), || Value::from(Vec::new())));
    let Some(conditions) = conditions.and_then(Value::as_list_mut) else { return };
    let is_terminating =
        |condition: &Value| condition.get("type").and_then(Value::as_str) == Some("Terminating");
    let before = conditions.iter_mut().find(|condition| is_terminating(condition));
    let since = before
        .as_ref()
        .filter(|before| before.get("status").and_then(Value::as_str) == Some("True"))
        .and_then(|before| before.get("lastTransitionTime")?.as_str())
        .unwrap_or(now);
    let condition = Value::from(Map::from_iter([
        ("type", "Terminating"),
        ("status", "True"),
        ("lastTransitionTime", since),
        ("reason", "InstanceDeletionPending"),
        ("message", "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"),
    ]));
    match before {
        Some(before) => *before = condition,
        None => conditions.push(condition),
    }
}
