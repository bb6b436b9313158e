//! `prioritylevelconfigurations`.

use super::{FlowControlStrategy, fill_zero};
use crate::cells::NONE;
use crate::defaults::{at, fill};
use crate::resets;
use crate::{About, Cell, Column, Columns, Generation, Kind, Row, Scope, Subresource};
use object::Map;
use schema::view::View;
use schema::views::flowcontrol::v1::PriorityLevelConfiguration;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "flowcontrol.apiserver.k8s.io",
    resource: "prioritylevelconfigurations",
    singular: "prioritylevelconfiguration",
    kind: "PriorityLevelConfiguration",
    scope: Scope::Cluster,
    subresources: &[Subresource::STATUS],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text("Type", About::Field("flowcontrol.v1.PriorityLevelConfigurationSpec", "type")),
            Column::text(
                "NominalConcurrencyShares",
                About::Field("flowcontrol.v1.LimitedPriorityLevelConfiguration", "nominalConcurrencyShares"),
            ),
            Column::text("Queues", About::Field("flowcontrol.v1.QueuingConfiguration", "queues")),
            Column::text("HandSize", About::Field("flowcontrol.v1.QueuingConfiguration", "handSize")),
            Column::text(
                "QueueLengthLimit",
                About::Field("flowcontrol.v1.QueuingConfiguration", "queueLengthLimit"),
            ),
            Column::AGE,
        ],
        row,
    },
    generation: Generation::Counted,
    resets: resets::STATUS_WITHOUT_METADATA,
    strategy: &FlowControlStrategy { default },
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let spec = PriorityLevelConfiguration::of(object).spec();
    let limited = spec.limited();
    let queuing = limited.and_then(|limited| limited.limit_response().queuing());
    let number = |number: Option<i64>| number.map_or_else(|| Cell::text(NONE), Cell::Integer);
    vec![
        Cell::name(object),
        Cell::text(spec.r#type()),
        number(limited.map(|limited| limited.nominal_concurrency_shares().unwrap_or_default())),
        number(queuing.map(|queuing| queuing.queues())),
        number(queuing.map(|queuing| queuing.hand_size())),
        number(queuing.map(|queuing| queuing.queue_length_limit())),
        Cell::age(object),
    ]
    .into()
}

fn default(object: &mut Map) {
    at(object, "spec", |spec| {
        at(spec, "exempt", |level| {
            fill(level, "nominalConcurrencyShares", 0i64);
            fill(level, "lendablePercent", 0i64);
        });
        at(spec, "limited", |level| {
            fill(level, "nominalConcurrencyShares", 30i64);
            fill(level, "lendablePercent", 0i64);
            at(level, "limitResponse", |response| {
                at(response, "queuing", |queuing| {
                    fill_zero(queuing, "handSize", 8);
                    fill_zero(queuing, "queues", 64);
                    fill_zero(queuing, "queueLengthLimit", 50);
                });
            });
        });
    });
}
