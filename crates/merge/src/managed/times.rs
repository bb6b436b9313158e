//! Writes that change nothing but times.

use super::entries;
use object::{Map, Value};

/// Restores the old times of managed fields if nothing else differs between the new and the old state: then
/// the write changes nothing.
pub fn keep_times(new: &mut Value, old: &Value) {
    let (Some(now), Some(before)) = (entries::of(new), entries::of(old)) else { return };
    if now.len() != before.len() || now == before || !now.iter().zip(before).all(|(a, b)| same(a, b)) {
        return;
    }
    let before = before.to_vec();
    let mut kept = new.clone();
    entries::take(&mut kept);
    entries::put(&mut kept, before);
    if kept == *old {
        *new = kept;
    }
}

/// Whether two entries differ in nothing but their times.
fn same(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_map(), b.as_map()) else { return false };
    let rest = |map: &Map| map.keys().filter(|key| *key != "time").count();
    rest(a) == rest(b) && a.iter().all(|(key, value)| key == "time" || b.get(key) == Some(value))
}
