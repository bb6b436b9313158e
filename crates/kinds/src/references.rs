//! The rules for references to objects of any kind.

use object::field::{Error, List, Path};
use object::name::{Mode, dns1123_subdomain, invalid, name_is_path_segment};

/// A reference to an object in the namespace of the referrer.
pub(crate) struct Reference<'a> {
    /// The API group; absent for the core group.
    pub(crate) group: Option<&'a str>,
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
}

/// The field errors of a reference.
pub(crate) fn local(reference: Reference<'_>, path: &Path<'_>) -> List {
    let Reference { group, kind, name } = reference;
    let mut errors = List::new();
    if let Some(group) = group {
        errors.append(invalid(&path.child("apiGroup"), group, dns1123_subdomain(group)));
    }
    for (key, text, why) in [("kind", kind, "kind is required"), ("name", name, "name is required")] {
        let path = path.child(key);
        match text {
            "" => errors.push(Error::required(&path, why)),
            text => errors.append(invalid(&path, text, name_is_path_segment(text, Mode::Name))),
        }
    }
    errors
}
