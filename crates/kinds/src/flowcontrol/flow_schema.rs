//! `flowschemas`.

use super::FlowControlStrategy;
use crate::cells::NONE;
use crate::resets;
use crate::{About, Cell, Column, Columns, Generation, Kind, Row, Scope, Subresource};
use object::Map;
use schema::view::View;
use schema::views::flowcontrol::v1::FlowSchema;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "flowcontrol.apiserver.k8s.io",
    resource: "flowschemas",
    singular: "flowschema",
    kind: "FlowSchema",
    scope: Scope::Cluster,
    subresources: &[Subresource::STATUS],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text(
                "PriorityLevel",
                About::Field("flowcontrol.v1.PriorityLevelConfigurationReference", "name"),
            ),
            Column::text(
                "MatchingPrecedence",
                About::Field("flowcontrol.v1.FlowSchemaSpec", "matchingPrecedence"),
            ),
            Column::text(
                "DistinguisherMethod",
                About::Field("flowcontrol.v1.FlowSchemaSpec", "distinguisherMethod"),
            ),
            Column::AGE,
            Column::text(
                "MissingPL",
                About::Text("references a broken or non-existent PriorityLevelConfiguration"),
            ),
        ],
        row,
    },
    row_order: Some(|object| FlowSchema::of(object).spec().matching_precedence()),
    generation: Generation::Counted,
    resets: resets::STATUS_WITHOUT_METADATA,
    strategy: &FlowControlStrategy { default },
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let schema = FlowSchema::of(object);
    let spec = schema.spec();
    let conditions = schema.status().conditions();
    let dangling = conditions.iter().find(|condition| condition.r#type() == "Dangling");
    vec![
        Cell::name(object),
        Cell::text(spec.priority_level_configuration().name()),
        Cell::Integer(spec.matching_precedence()),
        Cell::text(spec.distinguisher_method().map_or(NONE, |method| method.r#type())),
        Cell::age(object),
        Cell::text(dangling.map_or("?", |condition| condition.status())),
    ]
    .into()
}

fn default(object: &mut Map) {
    crate::defaults::within(object, "spec", |spec| super::fill_zero(spec, "matchingPrecedence", 1000));
}
