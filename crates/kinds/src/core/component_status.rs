//! `componentstatuses`.

use crate::{About, Cell, Column, Columns, Kind, Row, Scope, Storage, Verb, Version};
use object::Map;
use schema::view::View;
use schema::views::core::v1::ComponentStatus;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "componentstatuses",
    singular: "componentstatus",
    kind: "ComponentStatus",
    versions: &[Version::V1.deprecated("v1 ComponentStatus is deprecated in v1.19+")],
    short_names: &["cs"],
    scope: Scope::Cluster,
    verbs: &[Verb::Get, Verb::List],
    storage: Storage::Nowhere,
    columns: Columns { list: COLUMNS, row },
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Status", About::Text("Status of the component conditions")),
    Column::text("Message", About::Text("Message of the component conditions")),
    Column::text("Error", About::Text("Error of the component conditions")),
];

fn row(object: &Map) -> Row {
    let healthy =
        ComponentStatus::of(object).conditions().iter().find(|condition| condition.r#type() == "Healthy");
    let status = match healthy {
        Some(condition) if condition.status() == "True" => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    };
    let (message, error) = healthy.map_or(("", ""), |condition| (condition.message(), condition.error()));
    vec![Cell::name(object), Cell::text(status), Cell::text(message), Cell::text(error)].into()
}
