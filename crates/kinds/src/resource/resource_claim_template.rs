//! `resourceclaimtemplates`.

use super::claim;
use super::{conversion, default_claim, drop_from_claim, has_admin_access, versions};
use crate::defaults::update_map;
use crate::object_meta;
use crate::{Cell, Column, Context, Deleted, Kind, Rules, Strategy, Version, columns};
use expressions::Stage;
use object::field::{List, Path};
use object::{Map, Value};
use schema::view::View;
use schema::views::resource::v1beta1::ResourceClaimTemplate;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "resource.k8s.io",
    resource: "resourceclaimtemplates",
    singular: "resourceclaimtemplate",
    kind: "ResourceClaimTemplate",
    versions: versions!("ResourceClaimTemplate", Some(&conversion::CLAIM_TEMPLATE), None),
    columns: columns!(|object| [
        Column::NAME => Cell::name(object),
        Column::AGE => Cell::age(object),
    ]),
    deleted: Deleted::Object,
    strategy: &ResourceClaimTemplateStrategy,
    ..Kind::PLAIN
};

struct ResourceClaimTemplateStrategy;

impl Strategy for ResourceClaimTemplateStrategy {
    fn default(&self, object: &mut Map) {
        in_claim(object, default_claim);
    }

    fn prepare_create(&self, object: &mut Map, _context: &Context<'_>) {
        in_claim(object, |claim| drop_from_claim(claim, None, false));
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        let old = old.get("spec").and_then(|spec| spec.get("spec")).and_then(Value::as_map);
        in_claim(new, |claim| drop_from_claim(claim, old, old.is_some_and(has_admin_access)));
    }

    fn validate_create(&self, object: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata(object);
        errors.append(validate_spec(object, Stage::New, rules));
        errors
    }

    /// The spec is checked as that of a new template too, as in the reference.
    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = self.validate_create(new, rules);
        errors.append(rules.metadata_update(new, old));
        errors.extend(claim::same_spec(new, old));
        errors.append(validate_spec(new, Stage::Stored, rules));
        errors
    }
}

fn validate_spec(object: &Map, stage: Stage, rules: &Rules<'_>) -> List {
    let spec = ResourceClaimTemplate::of(object).spec();
    let path = Path::new("spec");
    let at = path.child("metadata");
    let metadata = spec.metadata().map();
    let mut errors = object_meta::annotations(Some(metadata), &at.child("annotations"));
    errors.append(object_meta::labels(Some(metadata), &at.child("labels")));
    errors.append(object_meta::only_labels_and_annotations(metadata, &at));
    errors.append(claim::validate(spec.spec(), stage, rules, &path.child("spec")));
    errors
}

/// Applies `to` to the spec of the claims that the template makes.
fn in_claim(object: &mut Map, to: impl FnOnce(&mut Map)) {
    update_map(object, "spec", |spec| update_map(spec, "spec", to));
}

#[cfg(test)]
mod tests {
    #[test]
    fn claims_of_a_template_have_labels_and_annotations_alone() {
        let template = r#"{"apiVersion":"resource.k8s.io/v1beta1","kind":"ResourceClaimTemplate","spec":{"metadata":{"name":"x","uid":"u"},"spec":{"devices":{"requests":[{"name":"r"}]}}}}"#;
        assert_eq!(
            crate::testing::create(template),
            [
                "spec.metadata.name: Forbidden: cannot be set",
                "spec.metadata.uID: Forbidden: cannot be set",
                "spec.spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
            ]
        );
    }
}
