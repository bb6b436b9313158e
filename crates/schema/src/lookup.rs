//! The index of a field by its name: an open-addressed hash table; the hash reads at most 16 bytes of the
//! name. The build script makes the tables of the built-in types with the same code.

/// Marks a free slot.
const FREE: u16 = u16::MAX;

/// The table of one type.
pub(crate) struct Lookup {
    /// The length is a power of two, at least twice the number of names; never empty.
    pub(crate) slots: crate::model::Ref<[u16]>,
}

impl Lookup {
    /// The index of `name`: the first candidate that `is` confirms.
    #[inline]
    pub(crate) fn find(&self, name: &str, is: impl Fn(usize) -> bool) -> Option<usize> {
        let slots: &[u16] = &self.slots;
        let mask = slots.len().wrapping_sub(1);
        let mut at = hash(name.as_bytes()) as usize & mask;
        loop {
            let candidate = *slots.get(at)?;
            if candidate == FREE {
                return None;
            }
            if is(candidate.into()) {
                return Some(candidate.into());
            }
            at = (at + 1) & mask;
        }
    }
}

include!("lookup/layout.rs");
