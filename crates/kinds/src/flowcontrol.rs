//! The kinds of `flowcontrol.apiserver.k8s.io`.

use crate::{Context, Kind, Strategy, keep_all_but};
use object::{Key, Map, Value};

mod flow_schema;
mod priority_level_configuration;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&flow_schema::KIND, &priority_level_configuration::KIND];

/// The strategy of both kinds: a status update writes only the status and keeps the old metadata.
struct FlowControlStrategy {
    default: fn(&mut Map),
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
}

/// Sets `key` to `number` if it is absent or zero.
fn fill_zero(map: &mut Map, key: &'static str, number: i64) {
    if matches!(map.get(key), None | Some(Value::Int(0))) {
        map.insert(Key::known(key), number);
    }
}
