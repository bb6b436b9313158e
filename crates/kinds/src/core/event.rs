//! `events`.

use crate::{
    About, Cell, Column, Columns, Context, Dependents, Kind, NameRule, Refusal, Row, SelectableFields,
    SelectableRow, Strategy,
};
use object::Map;
use schema::view::View;
use schema::views::core::v1::Event;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "events",
    singular: "event",
    kind: "Event",
    short_names: &["ev"],
    columns: COLUMNS,
    fields: SelectableFields {
        list: &[
            SelectableRow::at(&["involvedObject.kind"]),
            SelectableRow::at(&["involvedObject.namespace"]),
            SelectableRow::at(&["involvedObject.name"]),
            SelectableRow::at(&["involvedObject.uid"]),
            SelectableRow::at(&["involvedObject.apiVersion"]),
            SelectableRow::at(&["involvedObject.resourceVersion"]),
            SelectableRow::at(&["involvedObject.fieldPath"]),
            SelectableRow::at(&["reason"]),
            SelectableRow::at(&["reportingComponent"]),
            SelectableRow {
                name: "source",
                paths: &["source.component", "reportingComponent"],
                absent: "",
                indexed: false,
            },
            SelectableRow::at(&["type"]),
        ],
        refusal: Refusal::NotSupported,
    },
    dependents: Dependents::Unsupported,
    strategy: &EventStrategy(NameRule::PathSegment),
    ..Kind::PLAIN
};

/// The columns of events in both groups.
pub(crate) const COLUMNS: Columns = Columns {
    list: &[
        Column::text("Last Seen", About::Field("core.v1.Event", "lastTimestamp")),
        Column::text("Type", About::Field("core.v1.Event", "type")),
        Column::text("Reason", About::Field("core.v1.Event", "reason")),
        Column::text("Object", About::Field("core.v1.Event", "involvedObject")),
        Column::text("Subobject", About::Field("core.v1.ObjectReference", "fieldPath")).wide(),
        Column::text("Source", About::Field("core.v1.Event", "source")).wide(),
        Column::text("Message", About::Field("core.v1.Event", "message")),
        Column::text("First Seen", About::Field("core.v1.Event", "firstTimestamp")).wide(),
        Column::text("Count", About::Field("core.v1.Event", "count")).wide(),
        Column::NAME.wide(),
    ],
    row,
};

fn row(object: &Map) -> Row {
    let event = Event::of(object);
    let first = event.first_timestamp().or(event.event_time());
    let (last, count) = match event.series() {
        Some(series) => (series.last_observed_time(), series.count()),
        None if event.count() == 0 => (event.last_timestamp().or(first), 1),
        None => (event.last_timestamp().or(first), event.count()),
    };
    let about = event.involved_object();
    let mut target = about.kind().to_lowercase();
    if !about.name().is_empty() {
        target = format!("{target}/{}", about.name());
    }
    vec![
        Cell::since(last),
        Cell::text(event.r#type()),
        Cell::text(event.reason()),
        Cell::Text(target),
        Cell::text(about.field_path()),
        Cell::Text(source(event)),
        Cell::text(event.message().trim()),
        Cell::since(first),
        Cell::Integer(count),
        Cell::name(object),
    ]
    .into()
}

fn source(event: Event<'_>) -> String {
    let first = |a: &str, b: &str| if a.is_empty() { b.to_owned() } else { a.to_owned() };
    let component = first(event.source().component(), event.reporting_component());
    let instance = first(event.source().host(), event.reporting_instance());
    if instance.is_empty() { component } else { format!("{component}, {instance}") }
}

/// The strategy of events; the name rule differs between the groups.
pub(crate) struct EventStrategy(pub(crate) NameRule);

impl Strategy for EventStrategy {
    fn prepare_create(&self, _object: &mut Map, _context: &Context<'_>) {}

    fn prepare_update(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}

    fn name_rule(&self) -> NameRule {
        self.0
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}
