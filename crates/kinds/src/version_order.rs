//! The order of versions.

use std::cmp::Ordering;

/// The version that clients use first is the least: `v2` before `v1` before `v2beta1` before `v1beta2` before
/// `v1alpha1`. Names of another form follow, by their text.
///
/// ```
/// let mut versions = vec!["v1alpha1", "other", "v1", "v2beta1", "v10", "v1beta2", "v2"];
/// versions.sort_by(|a, b| kinds::preferred_first(a, b));
/// assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "other"]);
/// ```
pub fn preferred_first(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Stability, major number, minor number: the larger, the better.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at_checked(end)?;
    let major = major.parse().ok()?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    if let Some(minor) = rest.strip_prefix("beta") {
        return Some((1, major, minor.parse().ok()?));
    }
    Some((0, major, rest.strip_prefix("alpha")?.parse().ok()?))
}
