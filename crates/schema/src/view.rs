//! The traits and types that the generated [`views`](crate::views) use.

use crate::Type;
use object::{Map, RawJson, Value};
use std::marker::PhantomData;

/// A typed view of a map: an absent field reads as empty.
pub trait View<'a>: Copy {
    /// The view of `map`.
    fn of(map: &'a Map) -> Self;
    /// The map itself.
    fn map(self) -> &'a Map;
    /// The type that this is a view of.
    fn schema() -> &'static Type;
}

/// A type that a field of a view can have.
pub trait Item<'a>: Sized {
    /// Reads the value; `None` if it has another type.
    fn read(value: &'a Value) -> Option<Self>;
    /// The value of an absent field.
    fn absent() -> Self;
}

static EMPTY_MAP: Map = Map::new();
static NULL: Value = Value::Null;

impl<'a, V: View<'a>> Item<'a> for V {
    #[inline]
    fn read(value: &'a Value) -> Option<Self> {
        value.as_map().map(V::of)
    }
    fn absent() -> Self {
        V::of(&EMPTY_MAP)
    }
}

macro_rules! item {
    ($($kind:ty: $read:expr, $absent:expr;)*) => {
        $(impl<'a> Item<'a> for $kind {
            #[inline]
            fn read(value: &'a Value) -> Option<Self> {
                #[allow(clippy::redundant_closure_call, reason = "the closure carries the type")]
                ($read)(value)
            }
            fn absent() -> Self {
                $absent
            }
        })*
    };
}

item! {
    bool: Value::as_bool, false;
    i64: Value::as_i64, 0;
    f64: Value::as_f64, 0.0;
    &'a str: Value::as_str, "";
    &'a [u8]: Value::as_bytes, &[];
    &'a Value: Some, &NULL;
}

/// Raw JSON has no empty value, so views return it only as an `Option` or as an element.
impl<'a> Item<'a> for &'a RawJson {
    fn read(value: &'a Value) -> Option<Self> {
        match value {
            Value::Raw(raw) => Some(raw),
            _ => None,
        }
    }
    fn absent() -> Self {
        static ABSENT: std::sync::LazyLock<RawJson> =
            std::sync::LazyLock::new(|| RawJson::from_checked("null"));
        &ABSENT
    }
}

/// A list, element by element.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a, T>(&'a [Value], PhantomData<T>);

impl<'a, T: Item<'a>> Items<'a, T> {
    /// The number of elements.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The element at `at`.
    pub fn get(self, at: usize) -> Option<T> {
        self.0.get(at).map(|value| T::read(value).unwrap_or_else(T::absent))
    }

    /// All elements in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = T> + use<'a, T> {
        self.0.iter().map(|value| T::read(value).unwrap_or_else(T::absent))
    }

    /// The elements as values of the tree.
    pub fn values(self) -> &'a [Value] {
        self.0
    }
}

impl<'a, T: Item<'a>> Item<'a> for Items<'a, T> {
    #[inline]
    fn read(value: &'a Value) -> Option<Self> {
        value.as_list().map(|list| Self(list, PhantomData))
    }
    fn absent() -> Self {
        Self(&[], PhantomData)
    }
}

/// A map of strings, entry by entry.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a, T>(&'a Map, PhantomData<T>);

impl<'a, T: Item<'a>> Entries<'a, T> {
    /// The number of entries.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The value at `key`.
    pub fn get(self, key: &str) -> Option<T> {
        self.0.get(key).map(|value| T::read(value).unwrap_or_else(T::absent))
    }

    /// All entries in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (&'a str, T)> + use<'a, T> {
        self.0.iter().map(|(key, value)| (key.as_str(), T::read(value).unwrap_or_else(T::absent)))
    }

    /// The map itself.
    pub fn map(self) -> &'a Map {
        self.0
    }
}

impl<'a, T: Item<'a>> Item<'a> for Entries<'a, T> {
    #[inline]
    fn read(value: &'a Value) -> Option<Self> {
        value.as_map().map(|map| Self(map, PhantomData))
    }
    fn absent() -> Self {
        Self(&EMPTY_MAP, PhantomData)
    }
}

/// The field `name`; empty if it is absent.
#[inline]
pub(crate) fn present<'a, T: Item<'a>>(map: &'a Map, name: &str) -> T {
    map.get(name).and_then(T::read).unwrap_or_else(T::absent)
}

/// The field `name`, if it is set.
#[inline]
pub(crate) fn optional<'a, T: Item<'a>>(map: &'a Map, name: &str) -> Option<T> {
    map.get(name).and_then(T::read)
}
