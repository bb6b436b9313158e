//! Which faults an update may leave: those of values that did not change.

use object::Value;
use schema::structural::{Additional, Keyed, ListType, Node};

/// A value, and the value before at the same place.
#[derive(Clone, Copy)]
struct Pair<'o> {
    node: &'o Node,
    new: &'o Value,
    old: &'o Value,
}

/// The old value of a place in an object, as far as the schema tells which it is.
#[derive(Clone, Copy, Default)]
pub(crate) struct Correlation<'o> {
    current: Option<Pair<'o>>,
    /// The nearest place above with an old value.
    parent: Option<Pair<'o>>,
}

impl<'o> Correlation<'o> {
    /// Of the root of an object.
    pub(crate) fn root(node: &'o Node, new: &'o Value, old: &'o Value) -> Self {
        Self { current: Some(Pair { node, new, old }), parent: None }
    }

    /// Whether a fault of this place is left: the value, or that of the nearest place above whose old value
    /// is known, did not change.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.current.or(self.parent).is_some_and(Pair::is_unchanged)
    }

    /// Of the value of a key.
    pub(crate) fn key(&self, key: &str) -> Self {
        let Some(current) = self.current else { return *self };
        // Whether kind and version changed cannot be seen: both objects are in one version.
        if self.parent.is_none() && matches!(key, "apiVersion" | "kind") {
            return Self::default();
        }
        Self { current: current.key(key), parent: Some(current) }
    }

    /// Of an item, whose old value is known to the caller if there is one.
    pub(crate) fn item(&self, new: &'o Value, old: Option<&'o Value>) -> Self {
        let Some(current) = self.current else { return *self };
        let item = current.node.items.as_ref().zip(old);
        Self { current: item.map(|(node, old)| Pair { node, new, old }), parent: Some(current) }
    }

    /// Of the same place, for rules below `allOf`, which look at the place above alone.
    pub(crate) fn above(&self) -> Self {
        Self { current: None, parent: self.parent }
    }
}

impl<'o> Pair<'o> {
    fn key(self, key: &str) -> Option<Self> {
        let (new, old) = (self.new.as_map()?.get(key)?, self.old.as_map()?.get(key)?);
        let node = match (self.node.property(key), &self.node.additional) {
            (Some(node), _) | (None, Additional::Node(node)) => node,
            (None, Additional::None | Additional::Any) => return None,
        };
        Some(Self { node, new, old })
    }

    /// Whether the values are equal, where order does not count for lists whose items have keys. A field that
    /// the schema does not know makes an object another one.
    fn is_unchanged(self) -> bool {
        match (self.new, self.old) {
            (Value::Map(new), Value::Map(old)) => {
                let old = (old.len() == new.len()).then(|| old.lookup(new.len()));
                old.is_some_and(|old| {
                    new.iter().all(|(key, new)| {
                        let node = self.node.child(key.as_str());
                        let pair = node.zip(old.get(key.as_str()));
                        pair.is_some_and(|(node, old)| Pair { node, new, old }.is_unchanged())
                    })
                })
            }
            (Value::List(new), Value::List(old)) => match (&self.node.list_type, &self.node.items) {
                (ListType::Map(keys), Some(node)) if !new.is_empty() => {
                    new.len() == old.len() && {
                        let old = Keyed::new(keys, old);
                        new.iter()
                            .all(|new| old.get(new).is_some_and(|old| Pair { node, new, old }.is_unchanged()))
                    }
                }
                _ => **new == **old,
            },
            (new, old) => new == old,
        }
    }
}
