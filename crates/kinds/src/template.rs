//! The pod template of a workload: what every write does with it.

use crate::core::pod_gates;
use object::{Map, Value};

/// The field path of the pod spec of a workload.
pub(crate) const POD_SPEC: &[&str] = &["spec", "template", "spec"];

/// Drops the fields of disabled features from the pod spec at `path`, unless the old object uses them.
pub(crate) fn drop_disabled(new: &mut Map, old: Option<&Map>, path: &[&str]) {
    let old = old.and_then(|old| path.iter().try_fold(old, |map, key| map.get(key)?.as_map()));
    if let Some(spec) = path.iter().try_fold(new, |map, key| map.get_mut(key)?.as_map_mut()) {
        pod_gates::drop_disabled(spec, old);
    }
}

/// Whether the pod templates of two objects differ.
pub(crate) fn differs(new: &Map, old: &Map) -> bool {
    fn template(object: &Map) -> Option<&Value> {
        object.get("spec")?.get("template")
    }
    template(new) != template(old)
}
