//! `events`.

use crate::checks;
use crate::events::event::to_core;
use crate::{
    About, Cell, Column, Columns, Dependents, Kind, NameRule, OldVersion, Refusal, Rules, SelectableFields,
    SelectableRow, Strategy, Version, columns, metadata,
};
use object::field::{BadValue, Error, List, Path};
use object::name::{dns1123_subdomain, invalid, qualified_name};
use object::quote::Quoted;
use object::time::{MicroTime, Time};
use object::{Map, Value};
use schema::view::View;
use schema::views::core::v1::{Event, EventSource, ObjectReference};
use schema::views::events::v1;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "events",
    singular: "event",
    kind: "Event",
    short_names: &["ev"],
    versions: &[Version::V1.introduced(0)],
    old_versions: &[
        OldVersion::named("events.k8s.io/v1").of(v1::Event::schema).by(to_core),
        OldVersion::named("events.k8s.io/v1beta1").of(v1::Event::schema).by(to_core),
    ],
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
pub(crate) const COLUMNS: Columns = columns!(|object| {
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
} [
    Column::text("Last Seen", About::Field("core.v1.Event", "lastTimestamp")) => Cell::since(last),
    Column::text("Type", About::Field("core.v1.Event", "type")) => Cell::text(event.r#type()),
    Column::text("Reason", About::Field("core.v1.Event", "reason")) => Cell::text(event.reason()),
    Column::text("Object", About::Field("core.v1.Event", "involvedObject")) => Cell::Text(target),
    Column::text("Subobject", About::Field("core.v1.ObjectReference", "fieldPath")).wide()
        => Cell::text(about.field_path()),
    Column::text("Source", About::Field("core.v1.Event", "source")).wide() => Cell::Text(source(event)),
    Column::text("Message", About::Field("core.v1.Event", "message")) => Cell::text(event.message().trim()),
    Column::text("First Seen", About::Field("core.v1.Event", "firstTimestamp")).wide() => Cell::since(first),
    Column::text("Count", About::Field("core.v1.Event", "count")).wide() => Cell::Integer(count),
    Column::NAME.wide() => Cell::name(object),
]);

fn source(event: Event<'_>) -> String {
    let first = |a: &str, b: &str| if a.is_empty() { b.to_owned() } else { a.to_owned() };
    let component = first(event.source().component(), event.reporting_component());
    let instance = first(event.source().host(), event.reporting_instance());
    if instance.is_empty() { component } else { format!("{component}, {instance}") }
}

/// The strategy of events; the name rule differs between the groups.
pub(crate) struct EventStrategy(pub(crate) NameRule);

impl Strategy for EventStrategy {
    fn validate_create(&self, event: &Map, rules: &Rules<'_>) -> List {
        let mut errors = validate(event, rules);
        if rules.api_version() != CORE {
            errors.append(rules.metadata(event));
            errors.append(validate_new(Event::of(event)));
        }
        errors
    }

    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = validate(new, rules);
        if rules.api_version() != CORE {
            errors.append(rules.metadata_update(new, old));
            errors.append(validate_change(Event::of(new), Event::of(old)));
        }
        errors
    }

    fn name_rule(&self) -> NameRule {
        self.0
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

/// The group version that has only the rules of old.
const CORE: &str = "v1";

fn needs_unset(field: &str) -> Error {
    Error::invalid(&Path::new(field), "", "needs to be unset")
}

/// The rules that hold in every version. An event with an `eventTime` is one of the newer form.
fn validate(object: &Map, rules: &Rules<'_>) -> List {
    let event = Event::of(object);
    let namespace = metadata(object).namespace();
    let about = event.involved_object().namespace();
    let mut errors = List::new();
    let is_new = !is_unset(event.event_time());
    let is_elsewhere = match (is_new, about) {
        (false, "") => !matches!(namespace, "" | "default"),
        (false, about) => namespace != about,
        (true, about) => about.is_empty() && !matches!(namespace, "default" | "kube-system"),
    };
    if is_elsewhere {
        let path = Path::new("involvedObject");
        errors.push(Error::invalid(&path.child("namespace"), about, "does not match event.namespace"));
    }
    if is_new {
        errors.append(validate_new_form(event, rules));
    }
    errors.append(invalid(&Path::new("namespace"), namespace, dns1123_subdomain(namespace)));
    errors
}

fn validate_new_form(event: Event<'_>, rules: &Rules<'_>) -> List {
    let path = Path::new(match rules.api_version() {
        CORE => "reportingComponent",
        _ => "reportingController",
    });
    let controller = event.reporting_component();
    let mut errors = List::new();
    errors.extend(checks::required(controller, &path));
    errors.append(invalid(&path, controller, qualified_name(controller)));
    for (key, text) in [
        ("reportingInstance", event.reporting_instance()),
        ("action", event.action()),
        ("reason", event.reason()),
    ] {
        errors.extend(checks::required(text, &Path::new(key)));
        errors.extend(too_long(key, text, 128));
    }
    errors.extend(too_long("message", event.message(), 1024));
    errors
}

fn too_long(key: &str, text: &str, most: usize) -> Option<Error> {
    (text.len() > most)
        .then(|| Error::invalid(&Path::new(key), "", format!("can have at most {most} characters")))
}

fn is_unset(time: Option<&str>) -> bool {
    time.is_none_or(|time| time.parse::<MicroTime>().is_ok_and(MicroTime::is_zero))
}

/// The rules for new events that the core group does not have.
fn validate_new(event: Event<'_>) -> List {
    let mut errors = validate_series(event);
    if is_unset(event.event_time()) {
        errors.push(Error::required(&Path::new("eventTime"), ""));
    }
    if !matches!(event.r#type(), "Normal" | "Warning") {
        let why = format!("has invalid value: {}", event.r#type());
        errors.push(Error::invalid(&Path::new("type"), "", why));
    }
    errors.extend((!is_unset(event.first_timestamp())).then(|| needs_unset("firstTimestamp")));
    errors.extend((!is_unset(event.last_timestamp())).then(|| needs_unset("lastTimestamp")));
    errors.extend((event.count() != 0).then(|| needs_unset("count")));
    let source = event.source();
    let is_set = !source.component().is_empty() || !source.host().is_empty();
    errors.extend(is_set.then(|| needs_unset("source")));
    errors
}

fn validate_series(event: Event<'_>) -> List {
    let mut errors = List::new();
    if let Some(series) = event.series() {
        if series.count() < 2 {
            errors.push(Error::invalid(&Path::new("series.count"), "", "should be at least 2"));
        }
        if is_unset(series.last_observed_time()) {
            errors.push(Error::required(&Path::new("series.lastObservedTime"), ""));
        }
    }
    errors
}

/// Nothing but the series of an event changes. The paths are those of the core group; `reason` is compared
/// twice.
fn validate_change(new: Event<'_>, old: Event<'_>) -> List {
    let mut errors = List::new();
    if new.series().map(View::map) != old.series().map(View::map) {
        errors.append(validate_series(new));
    }
    let value = |event: Event<'_>, key: &str| event.map().get(key).cloned();
    let mut compare = |key: &str, name: &str, shown: &dyn Fn() -> BadValue| {
        if value(new, key) != value(old, key) {
            errors.push(Error::invalid(&Path::new(name), shown(), "field is immutable"));
        }
    };
    let time = |key: &str| {
        let time = value(new, key);
        let text = time.as_ref().and_then(Value::as_str).unwrap_or_default();
        let read = text.parse::<MicroTime>().map(BadValue::from);
        let read = read.or_else(|_| text.parse::<Time>().map(BadValue::from));
        read.unwrap_or_else(|_| BadValue::Raw("0001-01-01 00:00:00 +0000 UTC".into()))
    };
    compare("involvedObject", "involvedObject", &|| reference(new.involved_object()));
    compare("reason", "reason", &|| new.reason().into());
    compare("message", "message", &|| new.message().into());
    compare("source", "source", &|| source_shown(new.source()));
    compare("firstTimestamp", "firstTimestamp", &|| time("firstTimestamp"));
    compare("lastTimestamp", "lastTimestamp", &|| time("lastTimestamp"));
    compare("count", "count", &|| new.count().into());
    compare("reason", "reason", &|| new.reason().into());
    compare("type", "type", &|| new.r#type().into());
    compare("eventTime", "eventTime", &|| time("eventTime"));
    compare("action", "action", &|| new.action().into());
    compare("related", "related", &|| new.related().map_or(BadValue::Null, reference));
    compare("reportingComponent", "reportingController", &|| new.reporting_component().into());
    compare("reportingInstance", "reportingInstance", &|| new.reporting_instance().into());
    errors
}

fn reference(object: ObjectReference<'_>) -> BadValue {
    BadValue::Raw(format!(
        "core.ObjectReference{{Kind:{}, Namespace:{}, Name:{}, UID:{}, APIVersion:{}, ResourceVersion:{}, FieldPath:{}}}",
        Quoted(object.kind()),
        Quoted(object.namespace()),
        Quoted(object.name()),
        Quoted(object.uid()),
        Quoted(object.api_version()),
        Quoted(object.resource_version()),
        Quoted(object.field_path())
    ))
}

fn source_shown(source: EventSource<'_>) -> BadValue {
    let (component, host) = (Quoted(source.component()), Quoted(source.host()));
    BadValue::Raw(format!("core.EventSource{{Component:{component}, Host:{host}}}"))
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};

    fn old_form(fields: &str) -> String {
        format!(r#"{{"apiVersion":"v1","kind":"Event",{fields}}}"#)
    }

    fn new_form(fields: &str) -> String {
        format!(
            r#"{{"apiVersion":"events.k8s.io/v1","kind":"Event","regarding":{{"namespace":"n"}},{fields}}}"#
        )
    }

    #[test]
    fn events_are_in_the_namespace_of_their_object() {
        let mismatch = |shown: &str| {
            format!("involvedObject.namespace: Invalid value: {shown}: does not match event.namespace")
        };
        assert_eq!(create(&old_form(r#""involvedObject":{"namespace":"z"}"#)), [mismatch("\"z\"")]);
        assert!(create(&old_form(r#""involvedObject":{"namespace":"n"}"#)).is_empty());
        let errors = create(&old_form(r#""eventTime":"2024-01-02T03:04:05.000006Z""#));
        assert_eq!(errors[0], mismatch("\"\""));
        assert_eq!(errors[1], "reportingComponent: Required value");
        assert_eq!(errors.len(), 7);
    }

    #[test]
    fn newer_group_takes_only_the_newer_form() {
        let errors = create(&new_form(
            r#""type":"Odd","deprecatedCount":2,"deprecatedSource":{"host":"h"},"deprecatedFirstTimestamp":"2024-01-02T03:04:05Z","series":{"count":1}"#,
        ));
        assert_eq!(
            errors,
            [
                r#"series.count: Invalid value: "": should be at least 2"#,
                "series.lastObservedTime: Required value",
                "eventTime: Required value",
                r#"type: Invalid value: "": has invalid value: Odd"#,
                r#"firstTimestamp: Invalid value: "": needs to be unset"#,
                r#"count: Invalid value: "": needs to be unset"#,
                r#"source: Invalid value: "": needs to be unset"#,
            ]
        );
    }

    #[test]
    fn only_the_series_changes_in_the_newer_group() {
        let event = |fields: &str| {
            new_form(&format!(r#""reportingController":"c","reportingInstance":"i","action":"A",{fields}"#))
        };
        let old = event(r#""eventTime":"2024-01-02T03:04:05.000006Z","reason":"R""#);
        let new = event(r#""eventTime":"2024-01-02T03:04:06.000006Z","reason":"S","related":{"kind":"Pod"}"#);
        assert_eq!(
            update(&new, &old),
            [
                r#"reason: Invalid value: "S": field is immutable"#,
                r#"reason: Invalid value: "S": field is immutable"#,
                "eventTime: Invalid value: 2024-01-02 03:04:06.000006 +0000 UTC: field is immutable",
                r#"related: Invalid value: core.ObjectReference{Kind:"Pod", Namespace:"", Name:"", UID:"", APIVersion:"", ResourceVersion:"", FieldPath:""}: field is immutable"#,
            ]
        );
    }
}
