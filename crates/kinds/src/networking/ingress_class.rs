//! `ingressclasses`.

use crate::cells::NONE;
use crate::defaults::{at, fill_text};
use crate::{About, Cell, Column, Columns, Context, Generation, Kind, Row, Scope, Strategy};
use object::Map;
use schema::view::View;
use schema::views::networking::v1::{IngressClass, IngressClassParametersReference};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "networking.k8s.io",
    resource: "ingressclasses",
    singular: "ingressclass",
    kind: "IngressClass",
    scope: Scope::Cluster,
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text("Controller", About::Text("Controller that is responsible for handling this class")),
            Column::text("Parameters", About::Text("A reference to a resource with additional parameters")),
            Column::AGE,
        ],
        row,
    },
    generation: Generation::Counted,
    strategy: &IngressClassStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let spec = IngressClass::of(object).spec();
    vec![
        Cell::name(object),
        Cell::text(spec.controller()),
        Cell::Text(spec.parameters().map_or_else(|| NONE.into(), reference)),
        Cell::age(object),
    ]
    .into()
}

fn reference(parameters: IngressClassParametersReference<'_>) -> String {
    let group = parameters.api_group().map(|group| format!(".{group}")).unwrap_or_default();
    format!("{}{group}/{}", parameters.kind(), parameters.name())
}

struct IngressClassStrategy;

impl Strategy for IngressClassStrategy {
    fn default(&self, object: &mut Map) {
        at(object, "spec", |spec| {
            at(spec, "parameters", |reference| fill_text(reference, "scope", "Cluster"))
        });
    }

    fn prepare_create(&self, _object: &mut Map, _context: &Context<'_>) {}

    fn prepare_update(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}
}
