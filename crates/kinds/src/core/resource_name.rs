//! The names of resources in resource lists: `cpu`, `requests.memory`, `example.com/gpu`.

use crate::checks::{invalid_raw, non_negative_amount, shown_amount};
use object::field::{BadValue, Error, List, Path};
use object::name::qualified_name;
use object::quantity::Quantity;
use schema::view::Entries;

const HUGE_PAGES: &str = "hugepages-";
const REQUESTS: &str = "requests.";

/// The resources that a quota can bound, but for huge pages.
const QUOTA: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];

/// The resources that are counted.
const COUNTED: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

fn is_unqualified(name: &str) -> bool {
    !name.contains('/')
}

/// Whether the name is one of huge pages.
pub(crate) fn is_huge_page(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// Whether a quota knows the name.
pub(crate) fn is_standard_quota(name: &str) -> bool {
    QUOTA.contains(&name)
        || is_huge_page(name)
        || name.strip_prefix(REQUESTS).is_some_and(|name| name.starts_with(HUGE_PAGES))
}

fn is_standard(name: &str) -> bool {
    name == "storage" || is_standard_quota(name)
}

/// Whether the name is unqualified, or in a domain of Kubernetes.
pub(crate) fn is_native(name: &str) -> bool {
    is_unqualified(name) || name.contains("kubernetes.io/")
}

/// Whether the name is that of a resource that nodes offer beyond the native ones.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with(REQUESTS) && qualified_name(&format!("{REQUESTS}{name}")).is_empty()
}

/// Whether amounts of the resource are whole numbers.
pub(crate) fn is_integer(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

/// Whether limits above the requests are allowed.
pub(crate) fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

fn refused(path: &Path<'_>, name: &str, why: &'static str) -> Error {
    Error::invalid(path, BadValue::Raw(name.to_owned()), why)
}

/// The rule for any resource name. Errors show it without quotes.
pub(crate) fn any(name: &str, path: &Path<'_>) -> List {
    let mut errors = invalid_raw(path, name, qualified_name(name));
    if errors.is_empty() && is_unqualified(name) && !is_standard(name) {
        errors.push(refused(path, name, "must be a standard resource type or fully qualified"));
    }
    errors
}

/// The rule for resources that containers ask for.
pub(crate) fn of_container(name: &str, path: &Path<'_>) -> List {
    let mut errors = any(name, path);
    if is_unqualified(name) {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_huge_page(name) {
            errors.push(refused(path, name, "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(refused(path, name, "doesn't follow extended resource name standard"));
    }
    errors
}

/// The rule for resources that quotas bound.
pub(crate) fn of_quota(name: &str, path: &Path<'_>) -> List {
    let mut errors = any(name, path);
    if is_unqualified(name) && !is_standard_quota(name) {
        errors.push(refused(path, name, "must be a standard resource for quota"));
    }
    errors
}

/// The rule for an amount of a resource.
pub(crate) fn amount(name: &str, text: &str, path: &Path<'_>) -> List {
    let mut errors: List = non_negative_amount(text, path).into_iter().collect();
    if is_integer(name)
        && let Ok(amount) = text.parse::<Quantity>()
        && amount.milli_value() % 1000 != 0
    {
        errors.push(Error::invalid(path, shown_amount(&amount), "must be an integer"));
    }
    errors
}

/// The names and amounts of a list that a quota has.
pub(crate) fn quota_list(list: Entries<'_, &str>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for (name, text) in list.iter() {
        let path = path.key(name);
        errors.append(of_quota(name, &path));
        errors.append(amount(name, text, &path));
    }
    errors
}
