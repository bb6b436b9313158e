//! `events`: the events of the core group, with other names for their fields.

use crate::core::event::{COLUMNS, EventStrategy};
use crate::{
    BuiltinConversion, Dependents, Kind, NameRule, Refusal, SelectableFields, SelectableRow, Storage, Version,
};
use object::{Key, Map, Value};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "events.k8s.io",
    resource: "events",
    singular: "event",
    kind: "Event",
    short_names: &["ev"],
    versions: &[Version {
        conversion: Some(&BuiltinConversion { default: |_| {}, to_stored, from_stored }),
        ..Version::V1
    }
    .introduced(19)],
    storage: Storage::Shared { group: "", resource: "events" },
    columns: COLUMNS,
    fields: SelectableFields {
        list: &[
            SelectableRow::at(&["reason"]),
            stored("regarding.kind", &["involvedObject.kind"]),
            stored("regarding.namespace", &["involvedObject.namespace"]),
            stored("regarding.name", &["involvedObject.name"]),
            stored("regarding.uid", &["involvedObject.uid"]),
            stored("regarding.apiVersion", &["involvedObject.apiVersion"]),
            stored("regarding.resourceVersion", &["involvedObject.resourceVersion"]),
            stored("regarding.fieldPath", &["involvedObject.fieldPath"]),
            stored("reportingController", &["reportingComponent"]),
            SelectableRow::at(&["type"]),
        ],
        refusal: Refusal::NotSupported,
    },
    dependents: Dependents::Unsupported,
    strategy: &EventStrategy(NameRule::Subdomain),
    ..Kind::PLAIN
};

const fn stored(name: &'static str, paths: &'static [&'static str]) -> SelectableRow {
    SelectableRow { name, paths, absent: "", indexed: false }
}

/// The names of a field: in this group, and in the core group.
const NAMES: &[(&str, &str)] = &[
    ("reportingController", "reportingComponent"),
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

fn to_stored(event: &mut Value) {
    event.as_map_mut().into_iter().for_each(to_core);
}

/// Gives the fields their names in the core group.
pub(crate) fn to_core(event: &mut Map) {
    rename(event, |name| NAMES.iter().find(|(here, _)| *here == name).map(|(_, there)| *there));
}

fn from_stored(event: &mut Value) {
    if let Some(event) = event.as_map_mut() {
        rename(event, |name| NAMES.iter().find(|(_, there)| *there == name).map(|(here, _)| *here));
    }
}

fn rename(event: &mut Map, new_name: impl Fn(&str) -> Option<&'static str>) {
    let entries =
        std::mem::take(event).into_iter().map(|(key, value)| (new_name(&key).map_or(key, Key::known), value));
    *event = Map::from_distinct(entries);
}
