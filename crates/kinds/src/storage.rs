//! The kinds of `storage.k8s.io`.

use crate::{Context, Kind, Strategy};
use object::Map;

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

/// The strategy of kinds whose updates need a `resourceVersion`.
struct ConditionalUpdate;

impl Strategy for ConditionalUpdate {
    fn prepare_create(&self, _object: &mut Map, _context: &Context<'_>) {}

    fn prepare_update(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}
