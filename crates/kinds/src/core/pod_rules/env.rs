//! The rules for the environment variables of containers, and for the fields and resources that variables and files refer to.

use crate::checks;
use object::field::{Error, List, Path};
use object::name::{
    Mode, config_map_key, invalid, name_is_dns_subdomain, qualified_name, relaxed_env_var_name,
};
use object::quantity::Quantity;
use schema::view::Items;
use schema::views::core::v1::{
    EnvFromSource, EnvVar, EnvVarSource, ObjectFieldSelector, ResourceFieldSelector,
};

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
/// The fields of a pod that have a name in the downward API.
const KNOWN_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// The resources of a container that a variable or a file may have as its value, beside huge pages.
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
/// The units that amounts of CPU can be told in.
const CPU_UNITS: &[&str] = &["1m", "1"];
/// The units that amounts of bytes can be told in.
const BYTE_UNITS: &[&str] =
    &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Whether a reference to a resource has to name the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum ContainerName {
    /// A file in a volume, which has no container of its own.
    Required,
    /// A variable of a container.
    Optional,
}

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
        errors.append(field_ref(selector, FIELDS, &path.child("fieldRef")));
    }
    if let Some(selector) = source.resource_field_ref() {
        sources += 1;
        let path = path.child("resourceFieldRef");
        errors.append(resource_field_ref(selector, ContainerName::Optional, &path));
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

/// The field errors of a reference to a field of the pod: one of `fields`, or a label or an annotation by its key.
pub(in crate::core) fn field_ref(
    selector: ObjectFieldSelector<'_>,
    fields: &[&str],
    path: &Path<'_>,
) -> List {
    let field_path = path.child("fieldPath");
    let field = selector.field_path();
    if let Some(error) = checks::required(selector.api_version(), &path.child("apiVersion"))
        .or_else(|| checks::required(field, &field_path))
    {
        return error.into();
    }
    let unknown = |why: &str, text: &str| {
        Error::invalid(&field_path, field, format!("error converting fieldPath: {why}: {text}")).into()
    };
    if selector.api_version() != "v1" {
        return unknown("unsupported pod version", selector.api_version());
    }
    match subscripted(field) {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            invalid(path, &key, qualified_name(&key))
        }
        Some(("metadata.labels", key)) => invalid(path, key, qualified_name(key)),
        Some(_) => unknown("field label does not support subscript", field),
        None => {
            // The name of the field in the first versions.
            let field = if field == "spec.host" { "spec.nodeName" } else { field };
            match KNOWN_FIELDS.contains(&field) {
                true => List::from_iter(checks::one_of(field, fields, &field_path)),
                false => unknown("field label not supported", field),
            }
        }
    }
}

/// The path and the key of `path['key']`.
fn subscripted(text: &str) -> Option<(&str, &str)> {
    let parts = text.strip_suffix("']")?.split_once("['")?;
    (!parts.0.is_empty()).then_some(parts)
}

/// The field errors of a reference to a resource of a container.
pub(in crate::core) fn resource_field_ref(
    selector: ResourceFieldSelector<'_>,
    container: ContainerName,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    let resource = selector.resource();
    if container == ContainerName::Required && selector.container_name().is_empty() {
        errors.push(Error::required(&path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(Error::required(&path.child("resource"), ""));
    } else if !is_huge_pages(resource) {
        errors.extend(checks::one_of(resource, RESOURCES, &path.child("resource")));
    }
    if let Some(divisor) = selector.divisor() {
        errors.extend(unit(resource, divisor, &path.child("divisor")));
    }
    errors
}

/// The unit that the amount of a resource is told in; zero counts as absent.
fn unit(resource: &str, divisor: &str, path: &Path<'_>) -> Option<Error> {
    let (kind, units) = match resource {
        "limits.cpu" | "requests.cpu" => ("cpu", CPU_UNITS),
        "limits.memory" | "requests.memory" => ("memory", BYTE_UNITS),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => ("local ephemeral storage", BYTE_UNITS),
        _ if is_huge_pages(resource) => ("hugepages", BYTE_UNITS),
        _ => return None,
    };
    if units.contains(&divisor) || divisor.parse::<Quantity>().is_ok_and(|divisor| divisor.is_zero()) {
        return None;
    }
    let units = units.join(if kind == "cpu" { " and " } else { ", " });
    let why = format!("only divisor's values {units} are supported with the {kind} resource");
    Some(Error::invalid(path, resource, why))
}

fn is_huge_pages(resource: &str) -> bool {
    resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-")
}

/// The field errors of the sources of many variables. How many kinds of source there are is an error of the list.
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
