//! The managed fields of a scale: those of its object that are about the number of replicas, under another
//! path.

use super::entries::{self, Id, Owned, Reading};
use object::path::{Element, Path};
use object::path_set::Set;
use object::{Text, Value};

/// How the managed fields of an object and those of its scale belong together.
#[derive(Clone, Copy, Debug)]
pub struct Scale<'a> {
    /// Where the object has the number of replicas: `spec`, `replicas`.
    pub replicas: &'a [Text],
    /// The version in which the object is asked for: `apps/v1`.
    pub api_version: &'a str,
    /// All versions of the object that have a scale.
    pub versions: &'a [String],
}

/// The version of a scale.
const SCALE: &str = "autoscaling/v1";

impl Scale<'_> {
    /// The entries of the scale of an object.
    pub fn entries(&self, object: &Value) -> Vec<Value> {
        let known = entries::of(object).unwrap_or_default();
        let owners = entries::read(known, Reading::Lazy).unwrap_or_default();
        let path = self.path();
        let mut scale = entries::Owners::new();
        for (id, owned) in owners {
            if self.knows(&owned.version) && owned.set().has(&path) {
                scale.insert(id, Owned::new(set(&in_scale()), SCALE, owned.time));
            }
        }
        entries::write(scale)
    }

    /// Puts the entries of a changed scale back into those of its object.
    pub fn put_back(&self, object: &mut Value, scale: &[Value]) {
        let before = entries::take(object);
        let before = before.as_ref().and_then(Value::as_list).unwrap_or_default();
        let mut known = entries::read(before, Reading::Lazy).unwrap_or_default();
        let mut scale = entries::read(scale, Reading::Lazy).unwrap_or_default();
        let path = self.path();
        known.retain(|id, owned| {
            if !self.knows(&owned.version) {
                return false;
            }
            let all = owned.set();
            if all.has(&path) && scale.remove(id).is_none() {
                // Another manager owns the replicas now, or the same manager under the version of the scale.
                owned.replace_set(all.difference(&set(&path)));
                return !owned.is_empty();
            }
            true
        });
        let mut out: Vec<(Id, Owned)> = known.into_iter().collect();
        for (id, owned) in scale {
            if owned.set().has(&in_scale()) {
                // The reference looks for the time among the entries of the object, where it is not.
                out.push((id, Owned::new(set(&path), self.api_version, None)));
            }
        }
        entries::put(object, entries::write_all(out));
    }

    fn knows(&self, version: &str) -> bool {
        self.versions.iter().any(|known| known == version)
    }

    fn path(&self) -> Path {
        self.replicas.iter().map(|name| Element::field(name.clone())).collect()
    }
}

fn in_scale() -> Path {
    ["spec", "replicas"].into_iter().map(Element::field).collect()
}

fn set(path: &Path) -> Set {
    [&path[..]].into_iter().collect()
}
