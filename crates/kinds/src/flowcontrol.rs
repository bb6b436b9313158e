//! The kinds of `flowcontrol.apiserver.k8s.io`.

use crate::checks;
use crate::{Context, Kind, Rules, Strategy, keep_all_but, metadata};
use object::field::{Error, List, Path};
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::flowcontrol::v1::FlowSchema;
use schema::{Limits, json};
use std::collections::HashSet;

mod flow_schema;
mod priority_level_configuration;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&flow_schema::KIND, &priority_level_configuration::KIND];

/// The objects that the server makes at its start, one a line: whether it is mandatory or suggested, its
/// resource and its JSON.
pub const FLOW_CONTROL_DEFAULTS: &str = include_str!("flowcontrol/defaults.txt");

/// The strategy of both kinds: a status update writes only the status and keeps the old metadata.
struct FlowControlStrategy {
    default: fn(&mut Map),
    /// The errors of an object, but for those of its metadata and status.
    validate: fn(&Map) -> List,
}

impl Strategy for FlowControlStrategy {
    fn default(&self, object: &mut Map) {
        (self.default)(object);
    }

    fn prepare_status(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        let managed = new.get("metadata").and_then(|metadata| metadata.get("managedFields")).cloned();
        keep_all_but(new, old, &["apiVersion", "kind", "status"]);
        if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_map_mut) {
            match managed {
                Some(managed) => drop(metadata.insert(Key::known("managedFields"), managed)),
                None => drop(metadata.remove("managedFields")),
            }
        }
    }

    fn validate_object(&self, object: &Map, _old: Option<&Map>, _rules: &Rules<'_>) -> List {
        let mut errors = (self.validate)(object);
        errors.append(validate_conditions(object));
        errors
    }

    fn validate_status(&self, new: &Map, _old: &Map, _rules: &Rules<'_>) -> List {
        validate_conditions(new)
    }
}

/// The conditions of a status have a type each.
fn validate_conditions(object: &Map) -> List {
    let path = Path::new("status");
    let path = path.child("conditions");
    let mut errors = List::new();
    let mut seen = HashSet::new();
    // Both kinds have conditions of the same form.
    for (at, condition) in FlowSchema::of(object).status().conditions().iter().enumerate() {
        let path = path.index(at);
        let (ty, path) = (condition.r#type(), path.child("type"));
        errors.extend((!seen.insert(ty)).then(|| Error::duplicate(&path, ty)));
        errors.extend(ty.is_empty().then(|| Error::required(&path, "must not be empty")));
    }
    errors
}

/// Objects that always exist have a spec that does not change.
fn same_as_mandatory(spec: &Map, mandatory: Option<&Map>, why: impl FnOnce() -> String) -> Option<Error> {
    (mandatory? != spec).then(|| {
        let shown = checks::shown(Some(&spec.clone().into()));
        Error::invalid(&Path::new("spec"), shown, why())
    })
}

/// The spec of a mandatory object.
fn mandatory<V: View<'static>>(resource: &str, name: &str) -> Map {
    let read = |text: &str| json::decode(V::schema(), text.as_bytes(), &Limits::REQUEST).ok();
    let start = format!("mandatory {resource} ");
    let objects = FLOW_CONTROL_DEFAULTS.lines().filter_map(|line| line.strip_prefix(start.as_str()));
    let objects = objects.filter_map(read).filter_map(|decoded| decoded.value.as_map().cloned());
    let found = objects.into_iter().find(|object| metadata(object).name() == name);
    found.and_then(|object| object.get("spec")?.as_map().cloned()).unwrap_or_default()
}

/// Sets `key` to `number` if it is absent or zero.
fn fill_zero(map: &mut Map, key: &'static str, number: i64) {
    if matches!(map.get(key), None | Some(Value::Int(0))) {
        map.insert(Key::known(key), number);
    }
}
