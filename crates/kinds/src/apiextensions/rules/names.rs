//! The names of a kind.

use ::schema::view::Items;
use ::schema::views::apiextensions::v1::CustomResourceDefinitionNames;
use object::field::{Error, List, Path};
use object::name::dns1035_label;

/// The names that a definition has to have.
pub(super) fn required(names: CustomResourceDefinitionNames<'_>, path: &Path<'_>) -> List {
    [
        ("plural", names.plural()),
        ("singular", names.singular()),
        ("kind", names.kind()),
        ("listKind", names.list_kind()),
    ]
    .into_iter()
    .filter(|(_, name)| name.is_empty())
    .map(|(key, _)| Error::required(&path.child(key), ""))
    .collect()
}

/// The form of the names that are there.
pub(super) fn validate(names: CustomResourceDefinitionNames<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for (key, name) in [("plural", names.plural()), ("singular", names.singular())] {
        if !name.is_empty() {
            errors.extend(label(name, &path.child(key)));
        }
    }
    for (key, name) in [("kind", names.kind()), ("listKind", names.list_kind())] {
        let wrong = dns1035_label(&name.to_lowercase());
        if !name.is_empty() && !wrong.is_empty() {
            let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
            errors.push(Error::invalid(&path.child(key), name, why));
        }
    }
    errors.append(labels(names.short_names(), &path.child("shortNames")));
    if !names.kind().is_empty() && names.kind() == names.list_kind() {
        let why = "kind and listKind may not be the same";
        errors.push(Error::invalid(&path.child("listKind"), names.list_kind(), why));
    }
    errors.append(labels(names.categories(), &path.child("categories")));
    errors
}

/// A DNS label (RFC 1035), with all that is wrong with it in one error.
pub(super) fn label(name: &str, path: &Path<'_>) -> Option<Error> {
    let wrong = dns1035_label(name);
    (!wrong.is_empty()).then(|| Error::invalid(path, name, wrong.join(",")))
}

fn labels(names: Items<'_, &str>, path: &Path<'_>) -> List {
    names.iter().enumerate().filter_map(|(at, name)| label(name, &path.index(at))).collect()
}
