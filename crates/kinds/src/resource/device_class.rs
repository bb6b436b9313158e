//! `deviceclasses`.

use super::validate::{MOST_ITEMS, compiling, configuration, selectors, slice, stage};
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
    versions: versions!("DeviceClass", None, None),
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
        errors.append(validate_spec(DeviceClass::of(object).spec(), None, rules));
        errors
    }

    /// The spec is checked as that of a new class too, as in the reference.
    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = self.validate_create(new, rules);
        errors.append(rules.metadata_update(new, old));
        let (spec, before) = (DeviceClass::of(new).spec(), DeviceClass::of(old).spec());
        errors.append(validate_spec(spec, Some(before), rules));
        errors
    }
}

fn validate_spec(spec: DeviceClassSpec<'_>, old: Option<DeviceClassSpec<'_>>, rules: &Rules<'_>) -> List {
    let path = Path::new("spec");
    let of_selectors = stage(spec.selectors(), old.map(|old| old.selectors()));
    let mut errors = compiling([spec.selectors()], rules, || {
        selectors(spec.selectors(), of_selectors, &path.child("selectors"))
    });
    let of_config = stage(spec.config(), old.map(|old| old.config()));
    let check = |config: DeviceClassConfiguration<'_>, path: &Path<'_>| {
        configuration(DeviceConfiguration::of(config.map()), of_config, path)
    };
    errors.append(slice(spec.config(), Some(MOST_ITEMS), check, &path.child("config")));
    errors
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};

    fn class(expression: &str, driver: &str) -> String {
        format!(
            r#"{{"apiVersion":"resource.k8s.io/v1beta1","kind":"DeviceClass","metadata":{{"name":"a"}},"spec":{{"selectors":[{{"cel":{{"expression":"{expression}"}}}}],"config":[{{"opaque":{{"driver":"{driver}","parameters":{{}}}}}}]}}}}"#
        )
    }

    #[test]
    fn selectors_compile_and_their_cost_is_bounded() {
        let at = "spec.selectors[0].cel.expression";
        assert!(create(&class("device.driver == 'a' && device.capacity['a'].b.isInteger()", "a")).is_empty());
        assert!(create(&class("device.attributes['a'].b", "a")).is_empty());
        assert_eq!(
            create(&class("device.driver", "a")),
            [format!(
                r#"{at}: Invalid value: "device.driver": must evaluate to bool or the unknown type, not string"#
            )]
        );
        assert_eq!(
            create(&class("kubernetes.DRADevice == int", "a")),
            [format!(
                "{at}: Internal error: program instantiation failed: reference to undefined type: kubernetes.DRADevice"
            )]
        );
        let nested = (0..5)
            .rfold("true".to_owned(), |inner, depth| format!("device.attributes.all(a{depth}, {inner})"));
        assert_eq!(
            create(&class(&nested, "a")),
            [format!("{at}: Forbidden: too complex, exceeds cost limit")]
        );
        let long = format!("'{}' == ''", "a".repeat(10 << 10));
        assert_eq!(create(&class(&long, "a")), [format!("{at}: Too long: may not be more than 10240 bytes")]);
    }

    /// An update checks its object as a new one too.
    #[test]
    fn selectors_of_an_update_are_new_ones() {
        let selector = "isSemver('v1', true)";
        let errors = update(&class(selector, "b"), &class(selector, "a"));
        assert_eq!(errors.len(), 1, "{errors:?}");
        let unknown = update(&class("x", "b"), &class("x", "a"));
        assert_eq!(unknown.len(), 2, "{unknown:?}");
        assert!(unknown.iter().all(|error| error.contains("undeclared reference to 'x'")), "{unknown:?}");
    }
}
