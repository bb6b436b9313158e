//! The kinds of `storage.k8s.io`.

use crate::Kind;
use object::Map;
use object::field::{Error, List, Path};
use object::name::{invalid, qualified_name};
use schema::view::Entries;

mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod storage_class;
mod volume_attachment;
mod volume_attributes_class;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[
    &csi_driver::KIND,
    &csi_node::KIND,
    &csi_storage_capacity::KIND,
    &storage_class::KIND,
    &volume_attachment::KIND,
    &volume_attributes_class::KIND,
];

const MOST_PARAMETERS: usize = 512;
/// In bytes, of keys and values together.
const LARGEST_PARAMETERS: usize = 256 << 10;

/// The name of what provisions volumes; it may have capital letters.
fn provisioner(name: &str, path: &Path<'_>) -> List {
    if name.is_empty() {
        return Error::required(path, "").into();
    }
    let name = name.to_lowercase();
    invalid(path, &name, qualified_name(&name))
}

/// The parameters of a class.
fn parameters(parameters: Entries<'_, &str>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if parameters.len() > MOST_PARAMETERS {
        return Error::too_long(path, Some(MOST_PARAMETERS)).into();
    }
    let mut size = 0;
    for (key, value) in parameters.iter() {
        if key.is_empty() {
            errors.push(Error::invalid(path, key, "field can not be empty."));
        }
        size += key.len() + value.len();
    }
    if size > LARGEST_PARAMETERS {
        errors.push(Error::too_long(path, Some(LARGEST_PARAMETERS)));
    }
    errors
}

/// The error of a field whose updates are forbidden.
fn fixed(key: &str, new: &Map, old: &Map) -> Option<Error> {
    let error = || Error::forbidden(&Path::new(key), format!("updates to {key} are forbidden."));
    (new.get(key) != old.get(key)).then(error)
}
