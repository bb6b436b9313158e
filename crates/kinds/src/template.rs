//! The template of pods that a workload has: what happens to it at every write.

use crate::core::pod_gates;
use object::{Map, Value};

/// Where the spec of a workload's pods lies.
pub(crate) const POD_SPEC: &[&str] = &["spec", "template", "spec"];

/// Drops what features that are off brought into the spec of the pods at `path`, unless the old object uses it already.
pub(crate) fn drop_disabled(new: &mut Map, old: Option<&Map>, path: &[&str]) {
    let old = old.and_then(|old| path.iter().try_fold(old, |map, key| map.get(key)?.as_map()));
    if let Some(spec) = path.iter().try_fold(new, |map, key| map.get_mut(key)?.as_map_mut()) {
        pod_gates::drop_disabled(spec, old);
    }
}

/// Whether the pods of two objects are described differently.
pub(crate) fn differs(new: &Map, old: &Map) -> bool {
    fn template(object: &Map) -> Option<&Value> {
        object.get("spec")?.get("template")
    }
    template(new) != template(old)
}
