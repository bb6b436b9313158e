//! The rules for references to fields of a pod and to resources of its containers: in environment variables,
//! and in files of the downward API.

use object::field::{Error, List, Path};
use object::name::{invalid, qualified_name};
use schema::views::core::v1::{ObjectFieldSelector, ResourceFieldSelector};

/// The fields that a reference may name at all.
const FIELDS: &[&str] = &[
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

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// The divisors of everything but CPU.
const SIZES: &[&str] = &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Whether a reference to a resource has to name its container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum ContainerName {
    /// It may mean its own container.
    Optional,
    /// It is outside of containers.
    Required,
}

/// The field errors of a reference to one of the `supported` fields of a pod, which are sorted.
pub(in crate::core) fn object_field(
    field: ObjectFieldSelector<'_>,
    supported: &[&str],
    path: &Path<'_>,
) -> List {
    let at = path.child("fieldPath");
    let name = match (field.api_version(), field.field_path()) {
        ("", _) => return Error::required(&path.child("apiVersion"), "").into(),
        (_, "") => return Error::required(&at, "").into(),
        ("v1", "spec.host") => "spec.nodeName",
        ("v1", name) => name,
        (version, name) => {
            let why = format!("error converting fieldPath: unsupported pod version: {version}");
            return Error::invalid(&at, name, why).into();
        }
    };
    match subscripted(name) {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            invalid(path, &key, qualified_name(&key))
        }
        Some(("metadata.labels", key)) => invalid(path, key, qualified_name(key)),
        Some(_) => {
            let why = format!("error converting fieldPath: field label does not support subscript: {name}");
            Error::invalid(&at, name, why).into()
        }
        None if !FIELDS.contains(&name) => {
            let why = format!("error converting fieldPath: field label not supported: {name}");
            Error::invalid(&at, name, why).into()
        }
        None if !supported.contains(&name) => {
            Error::not_supported(&at, name, supported.iter().copied()).into()
        }
        None => List::new(),
    }
}

/// The field and the key of `metadata.labels['key']`.
fn subscripted(name: &str) -> Option<(&str, &str)> {
    name.strip_suffix("']")?.split_once("['").filter(|(field, _)| !field.is_empty())
}

/// The field errors of a reference to a resource of a container.
pub(in crate::core) fn resource_field(
    field: ResourceFieldSelector<'_>,
    container_name: ContainerName,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    let resource = field.resource();
    if container_name == ContainerName::Required && field.container_name().is_empty() {
        errors.push(Error::required(&path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(Error::required(&path.child("resource"), ""));
    } else if !RESOURCES.contains(&resource) && !is_huge_pages(resource) {
        errors.push(Error::not_supported(&path.child("resource"), resource, RESOURCES.iter().copied()));
    }
    errors.extend(divisor(resource, field.divisor().unwrap_or("0"), &path.child("divisor")));
    errors
}

fn is_huge_pages(resource: &str) -> bool {
    resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-")
}

fn divisor(resource: &str, divisor: &str, path: &Path<'_>) -> Option<Error> {
    let (supported, why) = match resource {
        _ if divisor == "0" => return None,
        "limits.cpu" | "requests.cpu" => {
            (&["1m", "1"][..], "only divisor's values 1m and 1 are supported with the cpu resource")
        }
        "limits.memory" | "requests.memory" => (
            SIZES,
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource",
        ),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => (
            SIZES,
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the local ephemeral storage resource",
        ),
        _ if is_huge_pages(resource) => (
            SIZES,
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the hugepages resource",
        ),
        _ => return None,
    };
    (!supported.contains(&divisor)).then(|| Error::invalid(path, resource, why))
}
