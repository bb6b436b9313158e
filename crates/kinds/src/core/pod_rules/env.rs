//! The rules for the environment variables of containers.

use super::field_refs::{self, ContainerName};
use object::field::{Error, List, Path};
use object::name::{Mode, config_map_key, invalid, name_is_dns_subdomain, relaxed_env_var_name};
use schema::view::Items;
use schema::views::core::v1::{EnvFromSource, EnvVar, EnvVarSource};

/// The fields of a pod that a variable may have as its value, beside labels and annotations by key.
const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The field errors of the variables of a container.
pub(super) fn variables(variables: Items<'_, EnvVar<'_>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for (at, variable) in variables.iter().enumerate() {
        let path = path.index(at);
        match variable.name() {
            "" => errors.push(Error::required(&path.child("name"), "")),
            text => errors.append(invalid(&path.child("name"), text, relaxed_env_var_name(text))),
        }
        if let Some(source) = variable.value_from() {
            errors.append(value_from(source, variable.value(), &path.child("valueFrom")));
        }
    }
    errors
}

fn value_from(source: EnvVarSource<'_>, value: &str, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut sources = 0;
    if let Some(selector) = source.field_ref() {
        sources += 1;
        errors.append(field_refs::object_field(selector, FIELDS, &path.child("fieldRef")));
    }
    if let Some(selector) = source.resource_field_ref() {
        sources += 1;
        let path = path.child("resourceFieldRef");
        errors.append(field_refs::resource_field(selector, ContainerName::Optional, &path));
    }
    if let Some(selector) = source.config_map_key_ref() {
        sources += 1;
        errors.append(key_ref(selector.name(), selector.key(), &path.child("configMapKeyRef")));
    }
    if let Some(selector) = source.secret_key_ref() {
        sources += 1;
        errors.append(key_ref(selector.name(), selector.key(), &path.child("secretKeyRef")));
    }
    let why = match sources {
        0 => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
        _ if !value.is_empty() => "may not be specified when `value` is not empty",
        1 => return errors,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(Error::invalid(path, "", why));
    errors
}

fn key_ref(name: &str, key: &str, path: &Path<'_>) -> List {
    let mut errors = invalid(&path.child("name"), name, name_is_dns_subdomain(name, Mode::Name));
    match key {
        "" => errors.push(Error::required(&path.child("key"), "")),
        key => errors.append(invalid(&path.child("key"), key, config_map_key(key))),
    }
    errors
}

/// The field errors of the sources of many variables. How many kinds of source there are is an error of the
/// list.
pub(super) fn sources(sources: Items<'_, EnvFromSource<'_>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for (at, source) in sources.iter().enumerate() {
        let own = path.index(at);
        if !source.prefix().is_empty() {
            let prefix = source.prefix();
            errors.append(invalid(&own.child("prefix"), prefix, relaxed_env_var_name(prefix)));
        }
        if let Some(map) = source.config_map_ref() {
            errors.append(object_name(map.name(), &own.child("configMapRef")));
        }
        if let Some(secret) = source.secret_ref() {
            errors.append(object_name(secret.name(), &own.child("secretRef")));
        }
        match (source.config_map_ref().is_some(), source.secret_ref().is_some()) {
            (false, false) => {
                let why = "must specify one of: `configMapRef` or `secretRef`";
                errors.push(Error::invalid(path, "", why));
            }
            (true, true) => {
                let why = "may not have more than one field specified at a time";
                errors.push(Error::invalid(path, "", why));
            }
            _ => {}
        }
    }
    errors
}

/// A name that may be a prefix of one: the reference accepts a dash at its end.
fn object_name(name: &str, path: &Path<'_>) -> List {
    let path = path.child("name");
    match name {
        "" => Error::required(&path, "").into(),
        _ => invalid(&path, name, name_is_dns_subdomain(name, Mode::Prefix)),
    }
}
