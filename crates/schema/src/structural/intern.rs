//! Interning: equal schemas, and equal parts of schemas, share memory.
//!
//! A schema is made from the inside out, so the parts of a new part are already known: two parts are equal if
//! their own facts are, and the parts that they refer to are the same.

use super::{Nested, Node, Rules, Structural};
use object::Key;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// A part of a schema that equal parts share.
pub struct Interned<T>(Arc<T>);

impl<T> Clone for Interned<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Interned<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> PartialEq for Interned<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Eq for Interned<T> {}

impl<T> Hash for Interned<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// The parts in use, by their hashes.
struct Table<T> {
    parts: HashMap<u64, Vec<Weak<T>>>,
    hasher: RandomState,
    /// Unused parts are removed from the table when it has this many entries.
    sweep_at: usize,
}

impl<T: Hash + Eq> Table<T> {
    const SWEEP: usize = 1024;

    fn new() -> Self {
        Self { parts: HashMap::new(), hasher: RandomState::new(), sweep_at: Self::SWEEP }
    }

    fn get(&mut self, part: T) -> Interned<T> {
        if self.parts.len() >= self.sweep_at {
            self.parts.retain(|_, same| {
                same.retain(|part| part.strong_count() > 0);
                !same.is_empty()
            });
            self.sweep_at = Self::SWEEP.max(self.parts.len() * 2);
        }
        let same = self.parts.entry(self.hasher.hash_one(&part)).or_default();
        if let Some(known) = same.iter().filter_map(Weak::upgrade).find(|known| **known == part) {
            return Interned(known);
        }
        let part = Arc::new(part);
        same.retain(|part| part.strong_count() > 0);
        same.push(Arc::downgrade(&part));
        Interned(part)
    }
}

static NODES: LazyLock<Mutex<Table<Node>>> = LazyLock::new(|| Mutex::new(Table::new()));
static NESTED: LazyLock<Mutex<Table<Nested>>> = LazyLock::new(|| Mutex::new(Table::new()));
static RULES: LazyLock<Mutex<Table<Rules>>> = LazyLock::new(|| Mutex::new(Table::new()));
static KEYS: LazyLock<Mutex<Keys>> = LazyLock::new(Mutex::default);
static SCHEMAS: LazyLock<Mutex<HashMap<usize, Weak<Structural>>>> = LazyLock::new(Mutex::default);

impl Interned<Node> {
    pub(super) fn new(node: Node) -> Self {
        NODES.lock().unwrap_or_else(PoisonError::into_inner).get(node)
    }
}

impl Interned<Nested> {
    pub(super) fn new(nested: Nested) -> Self {
        NESTED.lock().unwrap_or_else(PoisonError::into_inner).get(nested)
    }
}

impl Interned<Rules> {
    pub(super) fn new(rules: Rules) -> Self {
        RULES.lock().unwrap_or_else(PoisonError::into_inner).get(rules)
    }
}

/// The names of fields in use.
#[derive(Default)]
struct Keys {
    names: HashSet<Key>,
    /// Unused names are removed when there are this many.
    sweep_at: usize,
}

/// The key of this name.
pub(super) fn key(name: &str) -> Key {
    const SWEEP: usize = 4096;
    let mut keys = KEYS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = keys.names.get(name) {
        return known.clone();
    }
    if keys.names.len() >= keys.sweep_at {
        keys.names.retain(Key::is_shared);
        keys.sweep_at = SWEEP.max(keys.names.len() * 2);
    }
    let key = Key::from(name);
    keys.names.insert(key.clone());
    key
}

/// The schema with this root.
pub(super) fn schema(root: Interned<Node>) -> Arc<Structural> {
    // Zero is no schema, one stands for all built-in types.
    static NEXT: AtomicU32 = AtomicU32::new(2);
    let mut schemas = SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Arc::as_ptr(&root.0) as usize;
    if let Some(known) = schemas.get(&place).and_then(Weak::upgrade) {
        return known;
    }
    schemas.retain(|_, schema| schema.strong_count() > 0);
    let made = Arc::new(Structural { number: NEXT.fetch_add(1, Ordering::Relaxed), root });
    schemas.insert(place, Arc::downgrade(&made));
    made
}
