//! `namespaces`.

use crate::Resets;
use crate::defaults::{fill_text, update_or_insert_map};
use crate::{
    About, Action, Cell, Column, Context, Deleted, Kind, NameRule, Refusal, Rules, Scope, SelectableFields,
    SelectableRow, Strategy, Subresource, SubresourceBody, Traffic, Verb, Version, WrittenPart, columns,
    map_at, object_meta,
};
use object::field::{Error, List, Path};
use object::name::{invalid, qualified_name};
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::core::v1::Namespace;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "namespaces",
    singular: "namespace",
    kind: "Namespace",
    short_names: &["ns"],
    scope: Scope::Cluster,
    versions: &[Version::V1.introduced(0)],
    verbs: &[Verb::Create, Verb::Delete, Verb::Get, Verb::List, Verb::Patch, Verb::Update, Verb::Watch],
    subresources: &[
        Subresource {
            name: "finalize",
            verbs: &[Verb::Update],
            body: SubresourceBody::Object,
            action: Action::Part(WrittenPart::Finalize),
            traffic: Traffic::Objects,
        },
        Subresource::STATUS,
    ],
    columns: columns!(|object| [
        Column::NAME => Cell::name(object),
        Column::text("Status", About::Text("The status of the namespace"))
            => Cell::text(Namespace::of(object).status().phase()),
        Column::AGE => Cell::age(object),
    ]),
    fields: SelectableFields {
        list: &[SelectableRow::at(&["status.phase"])],
        refusal: Refusal::NotSupported,
    },
    deleted: Deleted::Object,
    resets: &Resets {
        update: &[("", &[&["status"], &["spec"]]), ("status", &[&["spec"]]), ("finalize", &[&["status"]])],
        declared: Some(&[("", &[&["status"]]), ("status", &[&["spec"]]), ("finalize", &[&["status"]])]),
        ..Resets::STATUS
    },
    strategy: &NamespaceStrategy,
    ..Kind::PLAIN
};

struct NamespaceStrategy;

impl Strategy for NamespaceStrategy {
    /// Also sets the label with the name of the namespace; a generated name is still empty.
    fn default(&self, namespace: &mut Map) {
        label_with_name(namespace);
        update_or_insert_map(namespace, "status", |status| fill_text(status, "phase", "Active"));
    }

    /// Also sets the label with the name of the namespace; a generated name is known now.
    fn prepare_create(&self, namespace: &mut Map, _context: &Context<'_>) {
        namespace.insert(Key::known("status"), Map::from_iter([(Key::known("phase"), "Active")]));
        let finalizers = map_at(namespace, "spec").and_then(|spec| {
            spec.get_or_insert_with(Key::known("finalizers"), || Vec::new().into()).as_list_mut()
        });
        if let Some(finalizers) = finalizers
            && !finalizers.iter().any(|name| name.as_str() == Some(FINALIZER))
        {
            finalizers.push(FINALIZER.into());
        }
        label_with_name(namespace);
    }

    fn prepare_update(&self, new: &mut Map, _old: &Map, _context: &Context<'_>) {
        label_with_name(new);
    }

    fn validate_create(&self, namespace: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata(namespace);
        let path = Path::new("spec");
        let path = path.child("finalizers");
        let finalizers = Namespace::of(namespace).spec().finalizers();
        finalizers.iter().for_each(|name| errors.append(validate_finalizer(&path, name)));
        errors
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata_update(new, old);
        let namespace = Namespace::of(new);
        let (phase, problem) = match namespace.metadata().deletion_timestamp() {
            None => ("Active", "may only be 'Active' if `deletionTimestamp` is empty"),
            Some(_) => ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty"),
        };
        if namespace.status().phase() != phase {
            let path = Path::new("status");
            errors.push(Error::invalid(&path.child("Phase"), namespace.status().phase(), problem));
        }
        errors
    }

    fn validate_part(&self, _part: WrittenPart, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata_update(new, old);
        let path = Path::new("spec");
        let path = path.child("finalizers");
        for (at, name) in Namespace::of(new).spec().finalizers().iter().enumerate() {
            errors.append(validate_finalizer(&path.index(at), name));
        }
        errors
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn prepare_deletion(&self, namespace: &mut Map, _context: &Context<'_>) {
        if let Some(status) = map_at(namespace, "status") {
            status.insert(Key::known("phase"), "Terminating");
        }
    }

    fn deletes_in_two_phases(&self) -> bool {
        true
    }

    /// What is in it would stay for ever.
    fn may_be_removed_unread(&self) -> bool {
        false
    }

    fn may_be_removed(&self, namespace: &Map) -> bool {
        Namespace::of(namespace).spec().finalizers().is_empty()
    }
}

/// The finalizer in `spec.finalizers`: it stays while the namespace has content.
const FINALIZER: &str = "kubernetes";

fn validate_finalizer(path: &Path<'_>, name: &str) -> List {
    let mut errors = invalid(path, name, qualified_name(name));
    errors.extend(object_meta::finalizer(name, path));
    errors
}

/// The label that selects a namespace by its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

fn label_with_name(namespace: &mut Map) {
    let Some(metadata) = map_at(namespace, "metadata") else { return };
    let Some(name @ Value::String(_)) = metadata.get("name").cloned() else { return };
    if let Some(labels) = map_at(metadata, "labels") {
        labels.insert(Key::known(NAME_LABEL), name);
    }
}
