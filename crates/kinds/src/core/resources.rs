//! The rules for lists of resources: their names and their amounts.

use object::field::{BadValue, Error, List, Path};
use object::name::{Messages, NEGATIVE, qualified_name};
use object::quantity::Quantity;
use schema::view::{Entries, Item};
use std::cmp::Ordering;

/// The prefix of resources that are huge pages; the page size follows.
const HUGE_PAGES: &str = "hugepages-";
/// The prefix of requests in quotas.
const REQUESTS: &str = "requests.";
/// What the names of resources in the domain of Kubernetes have in them.
const NATIVE: &str = "kubernetes.io/";

/// Names without a domain that exist.
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Resources that are counted.
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

/// Up to how many entries a list is searched for each name.
const FEW: usize = 16;

/// Which amounts of huge pages are valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HugePages {
    /// Multiples of the page size.
    #[default]
    Whole,
    /// Any amount: the old object has one that is no multiple.
    Any,
}

/// The errors of the name of a resource: a qualified name, or a standard one.
pub(crate) fn name(name: &str, path: &Path<'_>) -> List {
    let mut errors = invalid(name, qualified_name(name), path);
    if errors.is_empty() && !name.contains('/') && !is_standard(name) {
        let why = "must be a standard resource type or fully qualified";
        errors.push(Error::invalid(path, shown(name), why));
    }
    errors
}

/// The errors of the name of a resource that a container may ask for.
pub(crate) fn container_name(of: &str, path: &Path<'_>) -> List {
    if is_of_containers(of) {
        return List::new();
    }
    let mut errors = name(of, path);
    if !of.contains('/') {
        if !of.starts_with(HUGE_PAGES) {
            errors.push(Error::invalid(path, shown(of), "must be a standard resource for containers"));
        }
    } else if !is_native(of) && !is_extended(of) {
        errors.push(Error::invalid(path, shown(of), "doesn't follow extended resource name standard"));
    }
    errors
}

/// The errors of the name of a resource that a quota may bound.
fn quota_name(of: &str, path: &Path<'_>) -> List {
    let mut errors = name(of, path);
    if !of.contains('/') && !is_of_quotas(of) {
        errors.push(Error::invalid(path, shown(of), "must be a standard resource for quota"));
    }
    errors
}

/// The errors of the names and amounts of a list that a quota has.
pub(crate) fn quota_list(list: Entries<'_, &str>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for (name, text) in list.iter() {
        let path = path.key(name);
        errors.append(quota_name(name, &path));
        errors.append(quantity_value(name, &amount(text), &path));
    }
    errors
}

/// The errors of the amount of a resource.
pub(crate) fn quantity_value(name: &str, amount: &Quantity, path: &Path<'_>) -> List {
    let mut errors = List::new();
    errors.extend(non_negative(amount, path));
    if is_counted(name) && amount.milli_value() % 1000 != 0 {
        let shown = BadValue::Raw(amount.go_syntax());
        errors.push(Error::invalid(path, shown, "must be an integer"));
    }
    errors
}

/// An amount from zero on.
pub(crate) fn non_negative(amount: &Quantity, path: &Path<'_>) -> Option<Error> {
    (amount.signum() < 0).then(|| Error::invalid(path, amount.to_string(), NEGATIVE))
}

/// An amount above zero.
pub(crate) fn positive(amount: &Quantity, path: &Path<'_>) -> Option<Error> {
    (amount.signum() <= 0).then(|| Error::invalid(path, amount.to_string(), "must be greater than zero"))
}

/// An amount whose whole units are not below zero.
pub(crate) fn not_below_zero(amount: &Quantity, path: &Path<'_>) -> Option<Error> {
    let units = amount.value();
    (units < 0).then(|| Error::invalid(path, units, "must be a valid resource quantity"))
}

/// The errors of what a container may use and of what it asks for, without its claims.
pub(crate) fn requirements(
    limits: Entries<'_, &str>,
    requests: Entries<'_, &str>,
    huge_pages: HugePages,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    let (limits_path, requests_path) = (path.child("limits"), path.child("requests"));
    let mut lists = Lists::default();
    for (name, text) in limits.iter() {
        let (amount, path) = (amount(text), limits_path.key(name));
        errors.append(entry(name, &amount, huge_pages, &path));
        lists.add(name);
    }
    let index = (requests.len() > FEW && limits.len() > FEW).then(|| limits.map().index());
    let limit_of = |name: &str| match &index {
        Some(index) => index.get(name).and_then(|value| value.as_str()),
        None => limits.get(name),
    };
    for (name, text) in requests.iter() {
        let (amount, path) = (amount(text), requests_path.key(name));
        errors.append(container_name(name, &path));
        errors.append(quantity_value(name, &amount, &path));
        errors.extend(match limit_of(name) {
            Some(limit) => within_limit(name, &amount, &self::amount(limit), &requests_path),
            None => (!is_overcommitted(name))
                .then(|| Error::required(&limits_path, "Limit must be set for non overcommitable resources")),
        });
        errors.extend(whole_pages(name, &amount, huge_pages, &path));
        lists.add(name);
    }
    if lists.huge_pages && !lists.compute {
        errors.push(Error::forbidden(path, "HugePages require cpu or memory"));
    }
    errors
}

/// The errors of what the pods of a runtime need beside their containers.
pub(crate) fn overhead(amounts: Entries<'_, &str>, huge_pages: HugePages, path: &Path<'_>) -> List {
    requirements(amounts, Entries::absent(), huge_pages, path)
}

/// Whether an amount of huge pages is no multiple of the page size.
pub(crate) fn has_broken_pages(amounts: Entries<'_, &str>) -> bool {
    amounts.iter().any(|(name, text)| name.starts_with(HUGE_PAGES) && !is_whole(name, &amount(text)))
}

/// What the limits and requests of a container are about.
#[derive(Default)]
struct Lists {
    compute: bool,
    huge_pages: bool,
}

impl Lists {
    fn add(&mut self, name: &str) {
        self.compute |= matches!(name, "cpu" | "memory");
        self.huge_pages |= name.starts_with(HUGE_PAGES);
    }
}

fn entry(name: &str, amount: &Quantity, huge_pages: HugePages, path: &Path<'_>) -> List {
    let mut errors = container_name(name, path);
    errors.append(quantity_value(name, amount, path));
    errors.extend(whole_pages(name, amount, huge_pages, path));
    errors
}

/// A request is at most the limit. Resources that cannot be overcommitted have requests that are equal to the
/// limits.
fn within_limit(name: &str, request: &Quantity, limit: &Quantity, path: &Path<'_>) -> Option<Error> {
    let rule = match request.cmp(limit) {
        Ordering::Equal => return None,
        _ if !is_overcommitted(name) => "equal to",
        Ordering::Greater => "less than or equal to",
        Ordering::Less => return None,
    };
    Some(Error::invalid(path, request.to_string(), format!("must be {rule} {name} limit of {limit}")))
}

fn whole_pages(name: &str, amount: &Quantity, huge_pages: HugePages, path: &Path<'_>) -> Option<Error> {
    let checked = huge_pages == HugePages::Whole && name.starts_with(HUGE_PAGES);
    (checked && !is_whole(name, amount)).then(|| {
        let why = format!("{amount} is not positive integer multiple of {name}");
        Error::invalid(path, amount.to_string(), why)
    })
}

fn is_whole(name: &str, amount: &Quantity) -> bool {
    let Some(Ok(page)) = name.strip_prefix(HUGE_PAGES).map(str::parse::<Quantity>) else { return false };
    page.signum() > 0 && page.milli_value() % 1000 == 0 && amount.value().checked_rem(page.value()) == Some(0)
}

/// The amount that a text says. The texts of a decoded object are valid.
pub(crate) fn amount(text: &str) -> Quantity {
    text.parse().unwrap_or_default()
}

fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || name.strip_prefix(REQUESTS).unwrap_or(name).starts_with(HUGE_PAGES)
}

/// Whether quotas know a resource without a domain.
pub(crate) fn is_of_quotas(name: &str) -> bool {
    name != "storage" && is_standard(name)
}

fn is_of_containers(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
}

/// Whether a name is in the domain of Kubernetes: it has no other domain.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains(NATIVE)
}

/// Whether a resource is one of another domain, which quotas can limit.
fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with(REQUESTS) && qualified_name(&format!("{REQUESTS}{name}")).is_empty()
}

/// Whether the requests of a resource may be less than its limits.
pub(crate) fn is_overcommitted(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

fn is_counted(name: &str) -> bool {
    !is_of_containers(name) && (COUNTED.contains(&name) || is_extended(name))
}

/// The name of a resource is shown without quotes.
pub(crate) fn shown(name: &str) -> BadValue {
    BadValue::Raw(name.to_owned())
}

fn invalid(name: &str, messages: Messages, path: &Path<'_>) -> List {
    messages.into_iter().map(|why| Error::invalid(path, shown(name), why)).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};

    fn pod(limits: &str, requests: &str) -> String {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","spec":{{"containers":[{{"name":"c","image":"i","resources":{{"limits":{{{limits}}},"requests":{{{requests}}}}}}}]}}}}"#
        )
    }

    /// The errors of the resources of a container, without their path.
    fn errors(limits: &str, requests: &str) -> Vec<String> {
        let errors = create(&pod(limits, requests));
        errors.iter().map(|error| error.replace("spec.containers[0].resources", "")).collect()
    }

    #[test]
    fn requests_have_known_names_and_valid_amounts() {
        let integer = r#"resource.Quantity{i:resource.int64Amount{value:1500, scale:-3}, d:resource.infDecAmount{Dec:(*inf.Dec)(nil)}, s:"1500m", Format:"DecimalSI"}"#;
        for (request, expected) in [
            (r#""cpu":"1","memory":"0""#, &[][..]),
            (
                r#""cpu":"-1""#,
                &[r#".requests[cpu]: Invalid value: "-1": must be greater than or equal to 0"#],
            ),
            (
                r#""gpu":"1""#,
                &[
                    ".requests[gpu]: Invalid value: gpu: must be a standard resource type or fully qualified",
                    ".requests[gpu]: Invalid value: gpu: must be a standard resource for containers",
                ],
            ),
            (
                r#""pods":"1""#,
                &[".requests[pods]: Invalid value: pods: must be a standard resource for containers"],
            ),
            (
                r#""requests.a.b/c":"1""#,
                &[
                    ".requests[requests.a.b/c]: Invalid value: requests.a.b/c: doesn't follow extended resource name standard",
                    ".limits: Required value: Limit must be set for non overcommitable resources",
                ],
            ),
            (
                r#""a.b/c":"1500m""#,
                &[
                    &format!(".requests[a.b/c]: Invalid value: {integer}: must be an integer"),
                    ".limits: Required value: Limit must be set for non overcommitable resources",
                ],
            ),
            (
                r#""hugepages-2Mi":"3Mi""#,
                &[
                    ".limits: Required value: Limit must be set for non overcommitable resources",
                    r#".requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi"#,
                    ": Forbidden: HugePages require cpu or memory",
                ],
            ),
        ] {
            assert_eq!(errors("", request), expected, "{request}");
        }
    }

    #[test]
    fn requests_are_within_limits() {
        for (limits, requests, expected) in [
            (r#""cpu":"1""#, r#""cpu":"1001m""#, "1001m\": must be less than or equal to cpu limit of 1"),
            (r#""a.b/c":"2""#, r#""a.b/c":"1""#, "1\": must be equal to a.b/c limit of 2"),
        ] {
            assert_eq!(errors(limits, requests), [format!(".requests: Invalid value: \"{expected}")]);
        }
        assert!(errors(r#""cpu":"1""#, r#""cpu":"1000m""#).is_empty());
        let many = |amount: &str| {
            let entries: Vec<String> = (0..100).map(|at| format!(r#""a.b/c{at}":"{amount}""#)).collect();
            entries.join(",")
        };
        assert_eq!(errors(&many("2"), &many("1")).len(), 100);
    }

    #[test]
    fn broken_huge_pages_stay() {
        let broken = pod(r#""cpu":"1","hugepages-2Mi":"3Mi""#, r#""cpu":"1","hugepages-2Mi":"3Mi""#);
        let path = "spec.containers[0].resources";
        assert_eq!(create(&broken).len(), 2);
        let errors = update(&broken, &broken);
        assert!(!errors.iter().any(|error| error.starts_with(path)), "{errors:?}");
    }
}
