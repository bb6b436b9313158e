//! `deviceclasses`.

use super::validate::{MOST_ITEMS, Parameters, configuration, selectors, slice};
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
        errors.append(validate_spec(DeviceClass::of(object).spec(), Parameters::New));
        errors
    }

    /// The spec is checked as that of a new class too, as in the reference.
    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = self.validate_create(new, rules);
        errors.append(rules.metadata_update(new, old));
        let (spec, before) = (DeviceClass::of(new).spec(), DeviceClass::of(old).spec());
        let parameters = match spec.config().values() == before.config().values() {
            true => Parameters::Stored,
            false => Parameters::New,
        };
        errors.append(validate_spec(spec, parameters));
        errors
    }
}

fn validate_spec(spec: DeviceClassSpec<'_>, parameters: Parameters) -> List {
    let path = Path::new("spec");
    let mut errors = selectors(spec.selectors(), &path.child("selectors"));
    let check = |config: DeviceClassConfiguration<'_>, path: &Path<'_>| {
        configuration(DeviceConfiguration::of(config.map()), parameters, path)
    };
    errors.append(slice(spec.config(), Some(MOST_ITEMS), check, &path.child("config")));
    errors
}
