//! The entries of a map by the index of their field in the type: encoders write fields in the order of the
//! type, while the entries of a map may have any order.

use crate::model::{Field, Type};
use object::{Key, Map, Value};

/// The entries of one map of one type.
pub(crate) struct FieldSlots<'m> {
    map: &'m Map,
    /// The entries of `map`, borrowed once.
    entries: &'m [(Key, Value)],
    /// By field index: the index of the entry plus one; 0 if there is no entry.
    near: [u8; 64],
    /// The type has more fields, or the map more entries, than `near` can hold: values are looked up by name.
    far: bool,
}

impl<'m> FieldSlots<'m> {
    pub(crate) fn of(ty: &Type, map: &'m Map) -> Self {
        let mut near = [0; 64];
        let entries = map.entries();
        if ty.fields.len() > near.len() || map.len() > usize::from(u8::MAX) {
            return Self { map, entries, near, far: true };
        }
        let mut next = 0;
        for (entry, key) in (1..).zip(entries.iter().map(|(key, _)| key)) {
            let Some(at) = ty.position_from(next, key).or_else(|| ty.position(key)) else { continue };
            next = at + 1;
            if let Some(slot) = near.get_mut(at) {
                *slot = entry;
            }
        }
        Self { map, entries, near, far: false }
    }

    /// The value of the field with index `at`.
    #[inline(always)]
    pub(crate) fn value(&self, at: usize, field: &Field) -> Option<&'m Value> {
        if self.far {
            return self.map.get(&field.name);
        }
        let entry = usize::from(*self.near.get(at)?).checked_sub(1)?;
        self.entries.get(entry).map(|(_, value)| value)
    }
}
