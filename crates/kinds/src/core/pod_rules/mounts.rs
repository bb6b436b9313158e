//! The rules for the volume mounts and the volume devices of a container.

use super::volumes::Declared;
use object::field::{List, Path};
use schema::views::core::v1::Container;

/// The field errors of the volume mounts of a container; `path` is that of `volumeMounts`. An ephemeral container is seen as a
/// container.
pub(in crate::core) fn volume_mounts(
    _container: Container<'_>,
    _volumes: &Declared<'_>,
    _path: &Path<'_>,
) -> List {
    List::new()
}

/// The field errors of the volume devices of a container; `path` is that of `volumeDevices`.
pub(in crate::core) fn volume_devices(
    _container: Container<'_>,
    _volumes: &Declared<'_>,
    _path: &Path<'_>,
) -> List {
    List::new()
}
