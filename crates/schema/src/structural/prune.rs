//! Pruning: fields that a schema does not name are removed.
//!
//! One walk does what the reference does in three: it removes fields that the schema does not name, then
//! nulls where the schema allows none and has no default, then malformed values in `kind`, `apiVersion` and
//! `metadata` of embedded objects. Those of the object itself have types, and are left to the decoder.
//!
//! Nothing is copied of a tree that has nothing to prune.

use super::edit::{self, Edit};
use super::embedded::{self, Metadata};
use super::{Node, Structural};
use crate::decode::{DecodePath, Decoded, Strict};
use crate::validate::go_value;
use object::{Key, Map, Value, field};

/// What pruning did to an object.
#[derive(Debug, Default)]
pub struct Pruned {
    /// Whether the object changed.
    pub changed: bool,
    /// The first value in `kind`, `apiVersion` or `metadata` of an embedded object that is malformed, for
    /// which a request is refused. Malformed values were taken out, as is right for a stored object, which
    /// has to stay readable.
    pub malformed: Option<field::Error>,
}

impl Structural {
    /// Removes the fields that the schema does not name, and adds them to `strict`, after what the decoder
    /// found: duplicate fields first, then unknown fields of the metadata, then those of the schema, then
    /// those of the metadata of embedded objects.
    pub fn prune(&self, object: &mut Value, strict: &mut Vec<Strict>) -> Pruned {
        self.prune_with(object, strict, false)
    }

    /// Prunes like [`Structural::prune`], but may keep nulls that validation refuses.
    pub(crate) fn prune_with(
        &self,
        object: &mut Value,
        strict: &mut Vec<Strict>,
        keeps_nulls: bool,
    ) -> Pruned {
        let mut walk = Walk {
            keeps_nulls,
            room: Decoded::MOST_STRICT.saturating_sub(strict.len()),
            unknown: Vec::new(),
            unknown_metadata: Vec::new(),
            malformed: None,
        };
        let root = Place { decode: DecodePath::ROOT, path: field::Path::UNSET };
        let pruned = match &*object {
            Value::Map(map) => {
                walk.map(map, Some(&self.root), self.root.preserve_unknown_fields, &root, true)
            }
            _ => None,
        };
        let changed = pruned.is_some();
        pruned.into_iter().for_each(|value| *object = value);
        strict.sort_by_cached_key(|strict| match strict {
            Strict::Unknown(path) => Some(path.clone()),
            Strict::Duplicate(_) | Strict::Yaml(_) => None,
        });
        for mut paths in [walk.unknown, walk.unknown_metadata] {
            paths.sort();
            strict.extend(paths.into_iter().map(Strict::Unknown));
        }
        Pruned { changed, malformed: walk.malformed }
    }
}

/// Prunes a value of a schema itself: a default.
pub(super) fn pruned(value: &Value, node: &Node) -> Option<Value> {
    let mut walk = Walk {
        keeps_nulls: false,
        room: 0,
        unknown: Vec::new(),
        unknown_metadata: Vec::new(),
        malformed: None,
    };
    walk.value(value, Some(node), false, &Place { decode: DecodePath::ROOT, path: field::Path::UNSET })
}

/// Where a value is: as unknown fields are named, and as errors name it.
struct Place<'p> {
    decode: DecodePath<'p>,
    path: field::Path<'p>,
}

struct Walk {
    keeps_nulls: bool,
    /// How many unknown fields are still reported.
    room: usize,
    unknown: Vec<String>,
    unknown_metadata: Vec<String>,
    malformed: Option<field::Error>,
}

impl Walk {
    /// The edit of a value. Unknown fields are preserved if `preserve` is set or the schema says so.
    fn value(
        &mut self,
        value: &Value,
        node: Option<&Node>,
        preserve: bool,
        place: &Place<'_>,
    ) -> Option<Value> {
        let preserve = preserve || node.is_some_and(|node| node.preserve_unknown_fields);
        match value {
            Value::Map(map) => self.map(map, node, preserve, place, false),
            Value::List(items) => {
                let node = node.and_then(|node| node.items.as_deref());
                if node.is_none() && preserve {
                    return None;
                }
                let changed = edit::list(items, |at, item| {
                    let place = Place { decode: place.decode.index(at), path: place.path.index(at) };
                    self.value(item, node, preserve, &place).into()
                });
                changed.map(Value::from)
            }
            _ => None,
        }
    }

    fn map(
        &mut self,
        map: &Map,
        node: Option<&Node>,
        preserve: bool,
        place: &Place<'_>,
        is_root: bool,
    ) -> Option<Value> {
        if node.is_none() && preserve {
            return None;
        }
        let changed = edit::map(map, |key, value| match node {
            Some(_) if is_root && embedded::is_meta(key) => Edit::Keep,
            Some(node) => self.entry(key, value, node, preserve, place),
            None => self.drop_unknown(key, place),
        });
        changed.map(|entries| Map::from_distinct(entries).into())
    }

    fn entry(&mut self, key: &Key, value: &Value, node: &Node, preserve: bool, place: &Place<'_>) -> Edit {
        let property = node.property(key);
        let is_meta = node.embedded_resource && embedded::is_meta(key);
        if property.is_none() && node.additional.is_none() && !is_meta {
            return if preserve { Edit::Keep } else { self.drop_unknown(key, place) };
        }
        let path = match property {
            None if !is_meta => place.path.key(key),
            _ => place.path.child(key),
        };
        let child = property.or(node.additional.node()).map(|node| &**node);
        if value.is_null() && child.is_some_and(|child| !child.nullable && child.default.is_none()) {
            let is_refused = child.is_some_and(|child| child.ty.is_some() || child.int_or_string);
            return if self.keeps_nulls && is_refused { Edit::Keep } else { Edit::Drop };
        }
        if is_meta {
            return self.meta(key, value, &path);
        }
        self.value(value, child, false, &Place { decode: place.decode.key(key), path }).into()
    }

    fn drop_unknown(&mut self, key: &Key, place: &Place<'_>) -> Edit {
        if let Some(room) = self.room.checked_sub(1) {
            self.room = room;
            self.unknown.push(place.decode.path_to(key));
        }
        Edit::Drop
    }

    /// `kind`, `apiVersion` or `metadata` of an embedded object.
    fn meta(&mut self, key: &Key, value: &Value, path: &field::Path<'_>) -> Edit {
        let invalid = |why: String| field::Error::invalid(path, go_value(value), why);
        if *key != "metadata" {
            if value.as_str().is_some() {
                return Edit::Keep;
            }
            self.malformed.get_or_insert_with(|| invalid("must be a string".into()));
            return Edit::Drop;
        }
        let Metadata { value: read, unknown, malformed } = embedded::metadata(value);
        for unknown in unknown {
            if let Some(room) = self.room.checked_sub(1) {
                self.room = room;
                self.unknown_metadata.push(format!("{path}.{unknown}"));
            }
        }
        if let Some(why) = malformed {
            self.malformed.get_or_insert_with(|| invalid(why));
        }
        match read {
            Some(read) if read != *value => Edit::Set(read),
            _ => Edit::Keep,
        }
    }
}
