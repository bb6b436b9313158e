//! `componentstatuses`.

use crate::{About, Cell, Column, Kind, Scope, Storage, Verb, Version, columns};
use schema::view::View;
use schema::views::core::v1::ComponentStatus;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "componentstatuses",
    singular: "componentstatus",
    kind: "ComponentStatus",
    versions: &[Version::V1.deprecated(19)],
    short_names: &["cs"],
    scope: Scope::Cluster,
    verbs: &[Verb::Get, Verb::List],
    storage: Storage::Nowhere,
    columns: columns!(|object| {
        let healthy =
            ComponentStatus::of(object).conditions().iter().find(|condition| condition.r#type() == "Healthy");
        let status = match healthy {
            Some(condition) if condition.status() == "True" => "Healthy",
            Some(_) => "Unhealthy",
            None => "Unknown",
        };
        let (message, error) = healthy.map_or(("", ""), |condition| (condition.message(), condition.error()));
    } [
        Column::NAME => Cell::name(object),
        Column::text("Status", About::Text("Status of the component conditions")) => Cell::text(status),
        Column::text("Message", About::Text("Message of the component conditions")) => Cell::text(message),
        Column::text("Error", About::Text("Error of the component conditions")) => Cell::text(error),
    ]),
    ..Kind::PLAIN
};
