//! `deviceclasses`.

use super::validate::{MOST_ITEMS, configuration, selectors, slice, stage};
use super::versions;
use crate::{Cell, Column, Deleted, Generation, Kind, Rules, Scope, Strategy, Version, columns};
use object::Map;
use object::field::{List, Path};
use schema::view::View;
use schema::views::resource::v1beta1::{
    DeviceClass, DeviceClassConfiguration, DeviceClassSpec, DeviceConfiguration,
};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "resource.k8s.io",
    resource: "deviceclasses",
    singular: "deviceclass",
    kind: "DeviceClass",
    scope: Scope::Cluster,
    versions: versions!(None, None),
    columns: columns!(|object| [
        Column::NAME => Cell::name(object),
        Column::AGE => Cell::age(object),
    ]),
    generation: Generation::Counted,
    deleted: Deleted::Object,
    strategy: &DeviceClassStrategy,
    ..Kind::PLAIN
};

struct DeviceClassStrategy;

impl Strategy for DeviceClassStrategy {
    fn validate_create(&self, object: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata(object);
        errors.append(validate_spec(DeviceClass::of(object).spec(), None));
        errors
    }

    /// The spec is checked as that of a new class too, as in the reference.
    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = self.validate_create(new, rules);
        errors.append(rules.metadata_update(new, old));
        let (spec, before) = (DeviceClass::of(new).spec(), DeviceClass::of(old).spec());
        errors.append(validate_spec(spec, Some(before)));
        errors
    }
}

fn validate_spec(spec: DeviceClassSpec<'_>, old: Option<DeviceClassSpec<'_>>) -> List {
    let path = Path::new("spec");
    let of_selectors = stage(spec.selectors(), old.map(|old| old.selectors()));
    let mut errors = selectors(spec.selectors(), of_selectors, &path.child("selectors"));
    let of_config = stage(spec.config(), old.map(|old| old.config()));
    let check = |config: DeviceClassConfiguration<'_>, path: &Path<'_>| {
        configuration(DeviceConfiguration::of(config.map()), of_config, path)
    };
    errors.append(slice(spec.config(), Some(MOST_ITEMS), check, &path.child("config")));
    errors
}
