//! `controllerrevisions`.

use crate::cells::NONE;
use crate::{About, Cell, Column, Columns, Kind, Row, metadata};
use object::Map;
use schema::view::View;
use schema::views::apps::v1::ControllerRevision;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "apps",
    resource: "controllerrevisions",
    singular: "controllerrevision",
    kind: "ControllerRevision",
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text("Controller", About::Text("Controller of the object")),
            Column::text(
                "Revision",
                About::Text("revision indicates the revision of the state represented by Data."),
            ),
            Column::AGE,
        ],
        row,
    },
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    vec![
        Cell::name(object),
        Cell::Text(controller(object)),
        Cell::Integer(ControllerRevision::of(object).revision()),
        Cell::age(object),
    ]
    .into()
}

/// The controller of the object: `statefulset.apps/web`.
fn controller(object: &Map) -> String {
    let owners = metadata(object).owner_references();
    let Some(owner) = owners.iter().find(|owner| owner.controller() == Some(true)) else {
        return NONE.into();
    };
    let group = owner.api_version().split_once('/').map_or("", |(group, _)| group);
    let kind = owner.kind().to_lowercase();
    match (kind.as_str(), group) {
        ("", "") => owner.name().into(),
        (kind, "") => format!("{kind}/{}", owner.name()),
        (kind, group) => format!("{kind}.{}/{}", group.to_lowercase(), owner.name()),
    }
}
