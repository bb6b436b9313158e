//! The kinds of the core group, compared with responses of the reference.
//!
//! Each line of `reference/core/*.tsv` is an operation, its input and the response of the reference,
//! separated by tabs; objects are JSON in a served version:
//!
//! | operation | given | answer |
//! |---|---|---|
//! | `default` | object | the object with all defaults, as a client would read it back |
//! | `print` | object, present time in seconds | cells, conditions of the row, values of the selectable fields |
//! | `create` | object | the object as it would be stored |
//! | `update`, `status`, `finalize`, `ephemeralcontainers`, `resize` | new object, old object | the object as it would be stored |
//! | `grace` | object, seconds asked for | seconds given |
//! | `convert` | event | the event in the other group |
//! | `duration` | seconds | their short form |
//!
//! `reference/core/columns.tsv` has the columns of each kind.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a broken fixture should stop the test")]

use kinds::{
    Caller, Cell, Context, Deleted, Dependents, Gates, Generation, Kind, NameRule, ResourceType, Row, Rules,
    Strategy, WrittenPart,
};
use object::field::List;
use object::time::MicroTime;
use object::{Map, Value};
use schema::{Limits, Shape, Type, json};

const DEFAULTS: &str = include_str!("reference/core/defaults.tsv");
const ROWS: &str = include_str!("reference/core/rows.tsv");
const WRITES: &str = include_str!("reference/core/writes.tsv");

const CONTEXT: Context<'static> = Context {
    now: "2030-01-02T03:04:05Z",
    caller: Caller { name: "", uid: "", groups: &[], extra: &[] },
    gates: Gates::DEFAULT,
};

struct Object {
    kind: &'static Kind,
    ty: &'static Type,
    value: Value,
}

impl Object {
    fn read(text: &str) -> Self {
        let any = any(text);
        let word = |key: &str| any.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, name) = (word("apiVersion"), word("kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let kind = kinds::all().find(|kind| kind.group == group && kind.kind == name).unwrap();
        let ty = schema::builtin::by_kind(group, version, &name).unwrap();
        Self { kind, ty, value: json::decode(ty, text.as_bytes(), &Limits::default()).unwrap().value }
    }

    fn defaulted(text: &str) -> Self {
        let mut this = Self::read(text);
        schema::default(this.ty, &mut this.value);
        this.kind.strategy.default(this.map_mut());
        this
    }

    fn stored(text: &str) -> Self {
        let mut this = Self::read(text);
        if let Some(conversion) = this.kind.versions[0].conversion {
            (conversion.to_stored)(&mut this.value);
        }
        this
    }

    fn map(&self) -> &Map {
        self.value.as_map().unwrap()
    }

    fn map_mut(&mut self) -> &mut Map {
        self.value.as_map_mut().unwrap()
    }

    /// The registry counts generations, not the hooks.
    fn without_generation(mut self) -> Self {
        if let Some(metadata) = self.map_mut().get_mut("metadata").and_then(Value::as_map_mut) {
            metadata.remove("generation");
        }
        self
    }

    fn json(&self) -> String {
        let mut out = Vec::new();
        json::encode(self.ty, &self.value, &mut out);
        String::from_utf8(out).unwrap()
    }
}

fn any(text: &str) -> Value {
    json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::default()).unwrap().value
}

fn lines(file: &'static str, operations: &[&str]) -> Vec<Vec<&'static str>> {
    let lines = file.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let lines: Vec<_> = lines.filter(|line| operations.contains(&line[0])).collect();
    assert!(!lines.is_empty(), "no cases for {operations:?}");
    lines
}

#[track_caller]
fn assert_same(ours: &Object, wanted: &Object, line: &[&str]) {
    assert_eq!(ours.json(), wanted.json(), "{line:?}");
    assert_eq!(ours.value, wanted.value, "the tree holds what its type cannot tell from nothing: {line:?}");
}

#[test]
fn defaulting_matches_the_reference() {
    for line in lines(DEFAULTS, &["default"]) {
        assert_same(&Object::defaulted(line[1]), &Object::read(line[2]), &line);
    }
}

#[test]
fn defaulting_is_idempotent() {
    for line in lines(DEFAULTS, &["default"]) {
        assert_same(&Object::defaulted(line[2]), &Object::read(line[2]), &line);
    }
}

fn served(kind: &'static Kind) -> ResourceType {
    ResourceType::builtin(kind, kind.storage_version().unwrap()).unwrap()
}

#[test]
fn prepare_create_matches_the_reference() {
    for line in lines(WRITES, &["create"]) {
        let mut object = Object::defaulted(line[1]);
        served(object.kind).prepare_create(object.map_mut(), &CONTEXT);
        assert_same(&object, &Object::read(line[2]).without_generation(), &line);
    }
}

#[test]
fn prepare_update_matches_the_reference() {
    for line in lines(WRITES, &["update", "status", "finalize", "ephemeralcontainers", "resize"]) {
        let (mut new, old) = (Object::defaulted(line[1]), Object::defaulted(line[2]));
        let part = match line[0] {
            "update" => {
                if new.kind.kind == "Service" {
                    // What the hook of services does first.
                    kinds::keep_allocated(new.map_mut(), old.map());
                }
                None
            }
            "status" => Some(WrittenPart::Status),
            "finalize" => Some(WrittenPart::Finalize),
            "ephemeralcontainers" => Some(WrittenPart::EphemeralContainers),
            _ => Some(WrittenPart::Resize),
        };
        served(new.kind).prepare_update(part, new.map_mut(), old.map(), &CONTEXT);
        assert_same(&new, &Object::read(line[3]).without_generation(), &line);
    }
}

#[test]
fn pod_grace_periods_match_the_reference() {
    for line in lines(WRITES, &["grace"]) {
        let pod = Object::read(line[1]);
        let grace = pod.kind.strategy.grace(pod.map(), any(line[2]).as_i64());
        assert_eq!(grace, any(line[3]).as_i64(), "{line:?}");
    }
}

#[test]
fn event_conversion_round_trips_between_groups() {
    for line in lines(WRITES, &["convert"]) {
        let (mut event, wanted) = (Object::read(line[1]), Object::read(line[2]));
        let newer = kinds::all().find(|kind| kind.group == "events.k8s.io").unwrap();
        let conversion = newer.versions[0].conversion.unwrap();
        let convert = if event.kind.group.is_empty() { conversion.from_stored } else { conversion.to_stored };
        convert(&mut event.value);
        event.ty = wanted.ty;
        event.map_mut().insert("apiVersion", wanted.map().get("apiVersion").unwrap().clone());
        assert_same(&event, &wanted, &line);
    }
}

#[test]
fn table_rows_match_the_reference() {
    for line in lines(ROWS, &["print"]) {
        let object = Object::stored(line[1]);
        let now = MicroTime::from_unix(line[2].parse().unwrap(), 0);
        let Row { cells, conditions } = (object.kind.columns.row)(object.map());
        let cells: Vec<Value> = cells.iter().map(|cell| shown(cell, now)).collect();
        assert_eq!(Value::from(cells), any(line[3]), "{line:?}");
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|it| {
                let entries =
                    [("type", it.ty), ("status", it.status), ("reason", it.reason), ("message", it.message)];
                Map::from_iter(entries).into()
            })
            .collect();
        assert_eq!(Value::from(conditions), any(line[4]), "{line:?}");
    }
}

fn shown(cell: &Cell, now: MicroTime) -> Value {
    match cell {
        Cell::Text(text) => text.as_str().into(),
        Cell::Integer(number) => (*number).into(),
        Cell::Float(number) => (*number).into(),
        Cell::Bool(flag) => (*flag).into(),
        Cell::Null => Value::Null,
        Cell::Since { before, time, after } => {
            format!("{before}{}{after}", kinds::age(time.as_deref(), now)).into()
        }
    }
}

#[test]
fn selectable_fields_match_the_reference() {
    for line in lines(ROWS, &["print"]) {
        let object = Object::stored(line[1]);
        let wanted = any(line[5]);
        let Some(wanted) = wanted.as_map() else { continue };
        for field in object.kind.fields.list {
            let known = wanted.get(field.name).or_else(|| wanted.get(field.paths.first()?));
            let known = known.and_then(Value::as_str).unwrap_or_default();
            let ours = field.paths.iter().map(|path| at(&object.value, path)).find(|text| !text.is_empty());
            assert_eq!(ours.as_deref().unwrap_or(field.absent), known, "{} {line:?}", field.name);
        }
        for name in wanted.keys().map(|key| key.as_str()) {
            let ours = object.kind.fields.list.iter();
            let is_ours = ours.clone().any(|field| field.name == name || field.paths.contains(&name));
            let of_all = name.starts_with("metadata.") || name == "name";
            assert!(is_ours || of_all || (name == "source" && !object.kind.group.is_empty()), "{name}");
        }
    }
}

fn at(value: &Value, path: &str) -> String {
    let found = path.split('.').try_fold(value, |value, key| value.get(key));
    match found {
        Some(Value::String(text)) => text.to_string(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Int(number)) => number.to_string(),
        _ => String::new(),
    }
}

fn told(errors: &[object::field::Error]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// What a hook finds wrong, with the rules of the object's kind.
fn errors(object: &Object, of: impl FnOnce(&dyn Strategy, &Rules<'_>) -> List) -> Vec<String> {
    let served = ResourceType::builtin(object.kind, &object.kind.versions[0]).unwrap();
    told(&of(object.kind.strategy, &Rules::new(&served, object.ty)))
}

#[test]
fn namespace_finalizers_must_be_standard_or_qualified() {
    let namespace = |name: &str| {
        let text = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","resourceVersion":"1"},
            "spec":{"finalizers":["kubernetes","NAME"]}}"#;
        Object::read(&text.replace("NAME", name))
    };
    let problem =
        r#"Invalid value: "plain": name is neither a standard finalizer name nor is it fully qualified"#;
    let plain = namespace("plain");
    let create = |object: &Object| errors(object, |of, rules| of.validate_create(object.map(), rules));
    assert_eq!(create(&plain), [format!("spec.finalizers: {problem}")]);
    assert_eq!(
        errors(&plain, |of, rules| of.validate_part(WrittenPart::Finalize, plain.map(), plain.map(), rules)),
        [format!("spec.finalizers[1]: {problem}")]
    );
    assert_eq!(create(&namespace("a b")).len(), 2);
    assert!(create(&namespace("example.com/mine")).is_empty());
}

#[test]
fn namespace_phase_must_match_its_deletion_timestamp() {
    let told_of = |metadata: &str, phase: &str| {
        let text = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"resourceVersion":"1"META},"status":{"phase":"PHASE"}}"#;
        let namespace = Object::read(&text.replace("META", metadata).replace("PHASE", phase));
        errors(&namespace, |of, rules| of.validate_status(namespace.map(), namespace.map(), rules))
    };
    let deleted = r#","deletionTimestamp":"2030-01-02T03:04:05Z""#;
    assert!(told_of("", "Active").is_empty());
    assert!(told_of(deleted, "Terminating").is_empty());
    assert_eq!(
        told_of("", "Odd"),
        [r#"status.Phase: Invalid value: "Odd": may only be 'Active' if `deletionTimestamp` is empty"#]
    );
    assert_eq!(
        told_of(deleted, "Active"),
        [
            r#"status.Phase: Invalid value: "Active": may only be 'Terminating' if `deletionTimestamp` is not empty"#
        ]
    );
}

#[test]
fn deleted_namespace_waits_for_its_spec_finalizers() {
    let mut namespace =
        Object::defaulted(r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}"#);
    let strategy = namespace.kind.strategy;
    strategy.prepare_create(namespace.map_mut(), &CONTEXT);
    assert!(!strategy.may_be_removed(namespace.map()));
    strategy.prepare_deletion(namespace.map_mut(), &CONTEXT);
    assert_eq!(at(&namespace.value, "status.phase"), "Terminating");
    namespace.map_mut().remove("spec");
    assert!(strategy.may_be_removed(namespace.map()));
}

#[test]
fn human_durations_match_the_reference() {
    for line in lines(include_str!("reference/core/durations.tsv"), &["duration"]) {
        assert_eq!(
            any(line[2]).as_str(),
            Some(kinds::human_duration(line[1].parse().unwrap()).as_str()),
            "{line:?}"
        );
    }
}

#[test]
fn age_is_counted_from_times_with_and_without_fractions() {
    let now: MicroTime = "2030-01-02T03:04:05.500000Z".parse().unwrap();
    assert_eq!(kinds::age(Some("2030-01-02T03:04:00Z"), now), "5s");
    assert_eq!(kinds::age(Some("2030-01-02T03:04:03.600000Z"), now), "1s");
    assert_eq!(kinds::age(Some("2030-01-02T03:04:07Z"), now), "0s");
    assert_eq!(kinds::age(Some("2030-01-02T03:04:08Z"), now), "<invalid>");
    assert_eq!(kinds::age(Some("0001-01-01T00:00:00Z"), now), "<unknown>");
    assert_eq!(kinds::age(Some("no time"), now), "<unknown>");
    assert_eq!(kinds::age(Some("0900-01-01T00:00:00Z"), now), "292y");
}

fn of_core(which: impl Fn(&Kind) -> bool) -> Vec<&'static str> {
    kinds::all().filter(|kind| kind.group.is_empty() && which(kind)).map(|kind| kind.resource).collect()
}

#[test]
fn delete_returns_the_object_for_listed_core_kinds() {
    assert_eq!(
        of_core(|kind| kind.deleted == Deleted::Object),
        [
            "namespaces",
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "podtemplates",
            "resourcequotas",
            "serviceaccounts",
            "services"
        ]
    );
}

#[test]
fn exceptional_rules_of_core_kinds_match_the_reference() {
    assert_eq!(of_core(|kind| kind.dependents == Dependents::Orphan), ["replicationcontrollers"]);
    assert_eq!(of_core(|kind| kind.dependents == Dependents::Unsupported), ["events"]);
    assert_eq!(
        of_core(|kind| kind.generation == Generation::Counted),
        ["pods", "podtemplates", "replicationcontrollers"]
    );
    assert_eq!(
        of_core(|kind| kind.strategy.allow_create_on_update()),
        ["endpoints", "events", "limitranges", "services"]
    );
    assert_eq!(of_core(|kind| kind.strategy.names_itself()), ["limitranges"]);
    assert_eq!(of_core(|kind| kind.strategy.name_rule() == NameRule::Label), ["namespaces"]);
    assert_eq!(of_core(|kind| kind.strategy.name_rule() == NameRule::Label1035), ["services"]);
    assert_eq!(of_core(|kind| kind.strategy.name_rule() == NameRule::PathSegment), ["events"]);
}

#[test]
fn table_columns_match_the_reference() {
    for line in include_str!("reference/core/columns.tsv").lines() {
        let (path, columns) = line.split_once('\t').unwrap();
        let (group_version, resource) = path.rsplit_once('/').unwrap();
        let group = group_version.split_once('/').map_or("", |(group, _)| group);
        let kind = kinds::all().find(|kind| kind.group == group && kind.resource == resource).unwrap();
        let ours = kind.columns.list.iter().map(|column| {
            let priority = if column.priority == 0 { String::new() } else { column.priority.to_string() };
            let text = format!("{}:{}:{}:{priority}", column.name, column.ty, column.format);
            text.trim_end_matches(':').to_owned()
        });
        assert_eq!(ours.collect::<Vec<_>>().join(" | "), columns, "{path}");
    }
}

#[test]
fn column_descriptions_name_existing_fields() {
    for column in kinds::all().flat_map(|kind| kind.columns.list) {
        if let kinds::About::Field(ty, field) = column.about {
            let ty = schema::builtin::by_name(ty).unwrap();
            assert!(ty.field(field).is_some(), "{} {field}", ty.name);
        }
    }
}
