//! The rules for file paths in fields.

use object::field::{Error, List, Path};

/// A relative path without `..`.
pub(super) fn descending(text: &str, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if text.starts_with('/') {
        errors.push(Error::invalid(path, text, "must be a relative path"));
    }
    errors.extend(without_backsteps(text, path));
    errors
}

/// A path without an element `..`.
pub(super) fn without_backsteps(text: &str, path: &Path<'_>) -> Option<Error> {
    has_backsteps(text).then(|| Error::invalid(path, text, "must not contain '..'"))
}

/// Whether a path has an element `..`.
pub(super) fn has_backsteps(text: &str) -> bool {
    text.split('/').any(|element| element == "..")
}

/// A relative path without `..` whose first element does not begin with `..` either: such names are the
/// kubelet's own.
pub(super) fn not_reserved(text: &str, path: &Path<'_>) -> List {
    let mut errors = descending(text, path);
    if text.starts_with("..") && !text.starts_with("../") {
        errors.push(Error::invalid(path, text, "must not start with '..'"));
    }
    errors
}

/// Whether a path leads to the root of the file system.
pub(super) fn is_root(text: &str) -> bool {
    let mut depth = 0_usize;
    for element in text.split('/') {
        match element {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    text.starts_with('/') && depth == 0
}
