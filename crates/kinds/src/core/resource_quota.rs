//! `resourcequotas`.

use crate::defaults::{at, round_up};
use crate::resets;
use crate::{About, Cell, Column, Columns, Deleted, Kind, Row, Strategy, Subresource};
use object::Map;
use schema::view::View;
use schema::views::core::v1::ResourceQuota;
use std::fmt::Write;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "resourcequotas",
    singular: "resourcequota",
    kind: "ResourceQuota",
    short_names: &["quota"],
    subresources: &[Subresource::STATUS],
    columns: Columns { list: COLUMNS, row },
    deleted: Deleted::Object,
    resets: resets::STATUS,
    strategy: &ResourceQuotaStrategy,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text(
        "Request",
        About::Text("Request represents a minimum amount of cpu/memory that a container may consume."),
    ),
    Column::text(
        "Limit",
        About::Text(
            "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
        ),
    ),
    Column::AGE,
];

fn row(object: &Map) -> Row {
    let status = ResourceQuota::of(object).status();
    let used = status.used().map().index();
    let mut hard: Vec<_> = status.hard().iter().collect();
    hard.sort_unstable();
    let (mut requests, mut limits) = (String::new(), String::new());
    for (name, most) in hard {
        let column = if name.starts_with("limits.") { &mut limits } else { &mut requests };
        let separator = if column.is_empty() { "" } else { ", " };
        let used = used.get(name).and_then(|amount| amount.as_str()).unwrap_or("0");
        let _ = write!(column, "{separator}{name}: {used}/{most}");
    }
    vec![Cell::name(object), Cell::Text(requests), Cell::Text(limits), Cell::age(object)].into()
}

struct ResourceQuotaStrategy;

impl Strategy for ResourceQuotaStrategy {
    fn default(&self, object: &mut Map) {
        at(object, "spec", |spec| round_up(spec, "hard"));
        at(object, "status", |status| {
            round_up(status, "hard");
            round_up(status, "used");
        });
    }
}
