//! Definitions of custom kinds: the reference keeps them in `v1beta1`, which says once what all versions have in common.
//!
//! | `v1` | `v1beta1` |
//! |---|---|
//! | the name of the first of `spec.versions` | also in `spec.version` |
//! | `schema`, `subresources`, `additionalPrinterColumns` and `selectableFields` of each version | in `spec`, the schema as `validation`, if they are the same for all versions |
//! | `jsonPath` of a column | `JSONPath` |
//! | `spec.conversion.webhook` with `clientConfig` and `conversionReviewVersions` | `webhookClientConfig` and `conversionReviewVersions`, in `spec.conversion` |
//! | no `preserveUnknownFields` | `false`, because without one it is `true` |

use kinds::Kind;
use object::{Map, Value};

pub(crate) const GROUP: &str = "apiextensions.k8s.io";
const NEW: &str = "apiextensions.k8s.io/v1";
const OLD: &str = "apiextensions.k8s.io/v1beta1";

/// The fields that a version has in `v1`, and their names in the spec of `v1beta1`.
const SHARED: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

pub(crate) fn is_one(kind: &Kind) -> bool {
    kind.group == GROUP
}

/// Makes a definition of `v1beta1` of one of `v1`.
pub(crate) fn to_stored(definition: &mut Value) {
    let Some(map) = definition.as_map_mut() else { return };
    map.insert("apiVersion", OLD);
    let Some(spec) = map.get_mut("spec").and_then(Value::as_map_mut) else { return };
    spec.get_or_insert_with("preserveUnknownFields", || false.into());
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_map_mut) {
        let webhook = conversion.remove("webhook");
        for (new, old) in CONVERSION {
            if let Some(value) = webhook.as_ref().and_then(|webhook| webhook.get(new)) {
                conversion.insert(old, value.clone());
            }
        }
    }
    each_version(spec, |version| rename_columns(version, "jsonPath", "JSONPath"));
    let Some(first) = spec.get("versions").and_then(Value::as_list).and_then(<[Value]>::first).cloned()
    else {
        return;
    };
    if let Some(name) = first.get("name") {
        spec.insert("version", name.clone());
    }
    for (of_version, of_spec) in SHARED {
        let common = first.get(of_version);
        let mut is_common = true;
        each_version(spec, |version| is_common &= version.get(of_version) == common);
        if is_common && let Some(common) = common {
            each_version(spec, |version| drop(version.remove(of_version)));
            spec.insert(of_spec, common.clone());
        }
    }
}

/// Makes a definition of `v1` of one of `v1beta1`. One of `v1` stays as it is.
pub(crate) fn from_stored(definition: &mut Value) {
    let Some(map) = definition.as_map_mut() else { return };
    if map.get("apiVersion").and_then(Value::as_str) != Some(OLD) {
        return;
    }
    map.insert("apiVersion", NEW);
    let Some(spec) = map.get_mut("spec").and_then(Value::as_map_mut) else { return };
    // What was written before there were structural schemas keeps unknown fields.
    spec.get_or_insert_with("preserveUnknownFields", || true.into());
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_map_mut) {
        let mut webhook = Map::new();
        for (new, old) in CONVERSION {
            if let Some(value) = conversion.remove(old) {
                webhook.insert(new, value);
            }
        }
        if !webhook.is_empty() {
            conversion.insert("webhook", webhook);
        }
    }
    let only = spec.remove("version");
    let has_versions = spec.get("versions").and_then(Value::as_list).is_some_and(|list| !list.is_empty());
    if let Some(name) = only.filter(|_| !has_versions) {
        let mut version = Map::new();
        version.insert("name", name);
        version.insert("served", true);
        version.insert("storage", true);
        spec.insert("versions", Value::List([Value::from(version)].into_iter().collect()));
    }
    for (of_version, of_spec) in SHARED {
        if let Some(common) = spec.remove(of_spec) {
            each_version(spec, |version| drop(version.insert(of_version, common.clone())));
        }
    }
    each_version(spec, |version| rename_columns(version, "JSONPath", "jsonPath"));
}

/// The parts of a webhook, in `v1` and in `v1beta1`.
const CONVERSION: [(&str, &str); 2] =
    [("clientConfig", "webhookClientConfig"), ("conversionReviewVersions", "conversionReviewVersions")];

fn each_version(spec: &mut Map, mut change: impl FnMut(&mut Map)) {
    let versions = spec.get_mut("versions").and_then(Value::as_list_mut);
    versions.into_iter().flat_map(|list| list.iter_mut()).filter_map(Value::as_map_mut).for_each(&mut change);
}

fn rename_columns(version: &mut Map, from: &str, to: &'static str) {
    let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_list_mut);
    for column in columns.into_iter().flat_map(|list| list.iter_mut()).filter_map(Value::as_map_mut) {
        if let Some(path) = column.remove(from) {
            column.insert(to, path);
        }
    }
}
