//! `configmaps`.

use crate::{About, Cell, Check, Column, Kind, Rules, Strategy, Version, columns};
use object::Map;
use object::field::{Error, List, Path};
use object::name::{config_map_key, invalid};
use schema::view::View;
use schema::views::core::v1::ConfigMap;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "configmaps",
    singular: "configmap",
    kind: "ConfigMap",
    short_names: &["cm"],
    versions: &[Version::V1.introduced(2)],
    columns: columns!(|object| {
        let map = ConfigMap::of(object);
        let entries = map.data().len() + map.binary_data().len();
    } [
        Column::NAME => Cell::name(object),
        Column::text("Data", About::Field("core.v1.ConfigMap", "data")) => Cell::count(entries),
        Column::AGE => Cell::age(object),
    ]),
    update_checks: &[Check::MetadataChange, Check::Change, Check::Metadata, Check::Object],
    strategy: &ConfigMapStrategy,
    ..Kind::PLAIN
};

/// The most bytes of all values of a config map or a secret together.
pub(super) const MOST_DATA: usize = 1 << 20;

/// What an immutable config map or secret answers to a change of one of its fields.
pub(super) fn frozen(field: &str) -> Error {
    Error::forbidden(&Path::new(field), "field is immutable when `immutable` is set")
}

struct ConfigMapStrategy;

impl Strategy for ConfigMapStrategy {
    fn validate_object(&self, object: &Map, _old: Option<&Map>, _rules: &Rules<'_>) -> List {
        validate_data(ConfigMap::of(object))
    }

    fn validate_change(&self, new: &Map, old: &Map) -> List {
        validate_immutable(ConfigMap::of(new), ConfigMap::of(old))
    }
}

fn validate_immutable(new: ConfigMap<'_>, old: ConfigMap<'_>) -> List {
    let mut errors = List::new();
    if old.immutable() == Some(true) {
        errors.extend((new.immutable() != Some(true)).then(|| frozen("immutable")));
        errors.extend((new.data().map() != old.data().map()).then(|| frozen("data")));
        errors.extend((new.binary_data().map() != old.binary_data().map()).then(|| frozen("binaryData")));
    }
    errors
}

fn validate_data(object: ConfigMap<'_>) -> List {
    let mut errors = List::new();
    let mut bytes = 0;
    let binary = object.binary_data().map().index();
    let path = Path::new("data");
    for (key, value) in object.data().iter() {
        errors.append(invalid(&path.key(key), key, config_map_key(key)));
        if binary.contains_key(key) {
            errors.push(Error::invalid(&path.key(key), key, "duplicate of key present in binaryData"));
        }
        bytes += value.len();
    }
    let path = Path::new("binaryData");
    for (key, value) in object.binary_data().iter() {
        errors.append(invalid(&path.key(key), key, config_map_key(key)));
        bytes += value.len();
    }
    if bytes > MOST_DATA {
        errors.push(Error::too_long(&Path::new(""), Some(MOST_DATA)));
    }
    errors
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};

    fn object(fields: &str) -> String {
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap",{fields}}}"#)
    }

    #[test]
    fn keys_are_valid_and_unique_and_values_bounded() {
        let big = "x".repeat((1 << 20) + 1);
        assert_eq!(
            create(&object(&format!(r#""data":{{"..":"","k":"{big}"}},"binaryData":{{"k":"AA==",".":""}}"#))),
            [
                r#"data[..]: Invalid value: "..": must not be '..'"#,
                r#"data[k]: Invalid value: "k": duplicate of key present in binaryData"#,
                r#"binaryData[.]: Invalid value: ".": must not be '.'"#,
                "[]: Too long: may not be more than 1048576 bytes",
            ]
        );
    }

    #[test]
    fn immutable_data_does_not_change() {
        let old = object(r#""immutable":true,"data":{"a":"1","b":"2"}"#);
        assert!(update(&object(r#""immutable":true,"data":{"b":"2","a":"1"}"#), &old).is_empty());
        let why = "Forbidden: field is immutable when `immutable` is set";
        assert_eq!(
            update(&object(r#""binaryData":{"c":"AA=="}"#), &old),
            [format!("immutable: {why}"), format!("data: {why}"), format!("binaryData: {why}")]
        );
    }
}
