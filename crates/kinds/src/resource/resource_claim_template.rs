//! `resourceclaimtemplates`.

use super::{conversion, default_claim, drop_from_claim, has_admin_access, versions};
use crate::defaults::at;
use crate::{Cell, Column, Columns, Context, Deleted, Kind, Row, Strategy, Version};
use object::{Map, Value};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "resource.k8s.io",
    resource: "resourceclaimtemplates",
    singular: "resourceclaimtemplate",
    kind: "ResourceClaimTemplate",
    versions: versions!(Some(&conversion::CLAIM_TEMPLATE), None),
    columns: Columns { list: &[Column::NAME, Column::AGE], row },
    deleted: Deleted::Object,
    strategy: &ResourceClaimTemplateStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    vec![Cell::name(object), Cell::age(object)].into()
}

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
}

/// Applies `to` to the spec of the claims that the template makes.
fn in_claim(object: &mut Map, to: impl FnOnce(&mut Map)) {
    at(object, "spec", |spec| at(spec, "spec", to));
}
