//! `volumeattributesclasses`.

use super::{fixed, parameters, provisioner};
use crate::cells::name_or_default;
use crate::{About, Cell, Check, Column, Deleted, Kind, Rules, Scope, Strategy, Version, columns};
use object::Map;
use object::field::{Error, List, Path};
use schema::view::View;
use schema::views::storage::v1beta1::VolumeAttributesClass;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "storage.k8s.io",
    resource: "volumeattributesclasses",
    singular: "volumeattributesclass",
    kind: "VolumeAttributesClass",
    short_names: &["vac"],
    scope: Scope::Cluster,
    versions: &[
        Version::on_request("v1beta1").stored().introduced(31).deprecated(34).removed(37),
        Version::on_request("v1alpha1").introduced(29).deprecated(32).removed(35),
    ],
    columns: columns!(|object| [
        Column::NAME => name_or_default(object, DEFAULT_MARKS),
        Column::text("DriverName", About::Field("storage.v1beta1.VolumeAttributesClass", "driverName"))
            => Cell::text(VolumeAttributesClass::of(object).driver_name()),
        Column::AGE => Cell::age(object),
    ]),
    deleted: Deleted::Object,
    // The reference checks the new state twice.
    update_checks: &[
        Check::Metadata,
        Check::Object,
        Check::MetadataChange,
        Check::Change,
        Check::Metadata,
        Check::Object,
    ],
    strategy: &VolumeAttributesClassStrategy,
    ..Kind::PLAIN
};

const DEFAULT_MARKS: &[&str] = &["volumeattributesclass.alpha.kubernetes.io/is-default-class"];

struct VolumeAttributesClassStrategy;

impl Strategy for VolumeAttributesClassStrategy {
    fn validate_object(&self, object: &Map, _old: Option<&Map>, _rules: &Rules<'_>) -> List {
        let class = VolumeAttributesClass::of(object);
        let path = Path::new("parameters");
        let mut errors = List::new();
        errors.append(provisioner(class.driver_name(), &Path::new("driverName")));
        errors.append(parameters(class.parameters(), &path));
        if class.parameters().is_empty() {
            errors.push(Error::required(&path, "must contain at least one key/value pair"));
        }
        errors
    }

    fn validate_change(&self, new: &Map, old: &Map) -> List {
        ["driverName", "parameters"].into_iter().filter_map(|key| fixed(key, new, old)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};

    fn class(fields: &str) -> String {
        format!(r#"{{"apiVersion":"storage.k8s.io/v1beta1","kind":"VolumeAttributesClass",{fields}}}"#)
    }

    #[test]
    fn driver_and_parameters_are_there_and_do_not_change() {
        let empty = "parameters: Required value: must contain at least one key/value pair";
        assert_eq!(create(&class(r#""driverName":"""#)), ["driverName: Required value", empty]);
        let old = class(r#""driverName":"a.io","parameters":{"a":"b"}"#);
        assert!(create(&old).is_empty());
        assert_eq!(
            update(&class(r#""driverName":"b.io""#), &old),
            [
                empty,
                "driverName: Forbidden: updates to driverName are forbidden.",
                "parameters: Forbidden: updates to parameters are forbidden.",
                empty,
            ]
        );
    }
}
