//! `podtemplates`.

use super::pod_spec;
use crate::defaults::within;
use crate::{Context, Generation, Kind, Strategy};
use object::Map;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "podtemplates",
    singular: "podtemplate",
    kind: "PodTemplate",
    generation: Generation::Counted,
    strategy: &Behaviour,
    ..Kind::PLAIN
};

struct Behaviour;

impl Strategy for Behaviour {
    fn default(&self, object: &mut Map) {
        within(object, "template", pod_spec::default_template);
    }

    fn prepare_create(&self, _object: &mut Map, _context: &Context<'_>) {}

    fn prepare_update(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}
}
