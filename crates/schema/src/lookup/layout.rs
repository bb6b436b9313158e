// Shared by the crate and its build script, so that both hash a name to the same slot.

/// Mixes the length, the first and the last eight bytes.
#[inline]
pub(crate) fn hash(name: &[u8]) -> u64 {
    let length = name.len();
    let (first, last) = if let (Some(first), Some(last)) = (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(first), Some(last)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into())
    } else {
        (name.first().copied().unwrap_or(0).into(), name.last().copied().unwrap_or(0).into())
    };
    let mixed = (first ^ (length as u64)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ last.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    mixed ^ (mixed >> 32)
}

/// The slots for these names: each holds the index of a name, or `u16::MAX`.
pub(crate) fn layout<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Vec<u16> {
    let size = (names.len() * 2).next_power_of_two().max(2);
    let mut slots = vec![u16::MAX; size];
    for (place, name) in names.enumerate() {
        let (before, after) = slots.split_at_mut(hash(name.as_bytes()) as usize & (size - 1));
        if let Some(slot) = after.iter_mut().chain(before).find(|slot| **slot == u16::MAX) {
            *slot = place as u16;
        }
    }
    slots
}
