//! The rules for the cluster IPs of a service and their families.

use crate::{addresses, checks};
use object::Map;
use object::field::{BadValue, Error, List, Path};
use object::name::address::parse_lenient;
use schema::view::{Items, View};
use schema::views::core::v1::{Service, ServiceSpec};
use std::collections::HashSet;

/// The cluster IP of a service that has none and wants none.
const NONE: &str = "None";
/// The longest lists of cluster IPs and families are of one of each family.
const MOST: usize = 2;

/// The field errors of the cluster IPs of a service, of their families and of the policy for them.
///
/// The rules hold before the server allocates addresses as well as after.
pub fn validate(service: &Map, old: Option<&Map>) -> List {
    let spec = Service::of(service).spec();
    if spec.r#type() == "ExternalName" {
        return List::new();
    }
    let path = Path::new("spec");
    let ips = path.child("clusterIPs");
    let mut errors = List::new();
    errors.extend(agreement(spec, &ips));
    errors.append(families(spec.ip_families(), &path.child("ipFamilies")));
    if let Some(policy) = spec.ip_family_policy() {
        let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        errors.extend(checks::one_of(policy, &policies, &path.child("ipFamilyPolicy")));
    }
    let invalid = cluster_ips(spec, old.map(|old| Service::of(old).spec()), &ips);
    let is_usable = invalid.is_empty();
    errors.append(invalid);
    if spec.cluster_ips().len() > MOST {
        errors.push(Error::invalid(&ips, shown(spec.cluster_ips()), "may only hold up to 2 values"));
    }
    if is_usable {
        errors.append(stacks(spec, &ips));
    }
    errors
}

/// The first of `clusterIPs` is `clusterIP`.
fn agreement(spec: ServiceSpec<'_>, path: &Path<'_>) -> Option<Error> {
    let refuse = |why: &'static str| Some(Error::invalid(path, shown(spec.cluster_ips()), why));
    match (spec.cluster_ip(), spec.cluster_ips().get(0)) {
        ("", None) => None,
        ("", Some(_)) => refuse("must be empty when `clusterIP` is not specified"),
        (_, None) => Some(Error::required(path, "")),
        (one, Some(first)) if one != first => refuse("first value must match `clusterIP`"),
        _ => None,
    }
}

fn families(families: Items<'_, &str>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut seen = HashSet::new();
    for (at, family) in families.iter().enumerate() {
        errors.extend(checks::one_of(family, &["IPv4", "IPv6"], &path.index(at)));
        if !seen.insert(family) {
            errors.push(Error::duplicate(&path.index(at), family));
        }
    }
    errors
}

fn cluster_ips(spec: ServiceSpec<'_>, old: Option<ServiceSpec<'_>>, path: &Path<'_>) -> List {
    let ips = spec.cluster_ips();
    let before: HashSet<&str> = old.into_iter().flat_map(|old| old.cluster_ips().iter()).collect();
    let mut errors = List::new();
    for (at, ip) in ips.iter().enumerate() {
        if at > 0 || ip != NONE {
            errors.append(addresses::ip(ip, &before, &path.index(at)));
        } else if ips.len() > 1 {
            errors.push(Error::invalid(path, shown(ips), "'None' must be the first and only value"));
        }
    }
    errors
}

/// There is one address of each family, in the order of the families.
fn stacks(spec: ServiceSpec<'_>, path: &Path<'_>) -> List {
    let ips = spec.cluster_ips();
    let mut errors = List::new();
    if ips.len() > 1 && !is_dual_stack(ips) {
        let why = "may specify no more than one IP for each IP family";
        errors.push(Error::invalid(path, shown(ips), why));
    }
    if is_headless(spec) {
        return errors;
    }
    for (at, (ip, family)) in ips.iter().zip(spec.ip_families().iter()).enumerate() {
        let is_v6 = parse_lenient(ip).is_some_and(|ip| ip.is_ipv6());
        if (family == "IPv4" && is_v6) || (family == "IPv6" && !is_v6) {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{at}]`");
            errors.push(Error::invalid(&path.index(at), ip, why));
        }
    }
    errors
}

fn is_dual_stack(ips: Items<'_, &str>) -> bool {
    let (mut v4, mut v6) = (false, false);
    for ip in ips.iter().filter_map(parse_lenient) {
        v4 |= ip.is_ipv4();
        v6 |= ip.is_ipv6();
    }
    v4 && v6
}

/// The field errors of a change of the cluster IPs: the first one stays.
pub(super) fn validate_update(new: ServiceSpec<'_>, old: ServiceSpec<'_>) -> List {
    let mut errors = List::new();
    if [new, old].iter().any(|spec| spec.r#type() == "ExternalName") {
        return errors;
    }
    let path = Path::new("spec");
    if !(is_headless(new) && is_headless(old)) {
        errors.append(kept_ips(new, old, &path));
    }
    if !is_headless(new) && !is_headless(old) {
        errors.append(kept_families(new, old, &path));
    }
    errors
}

fn kept_ips(new: ServiceSpec<'_>, old: ServiceSpec<'_>, path: &Path<'_>) -> List {
    let (ips, before) = (new.cluster_ips(), old.cluster_ips());
    let path_of_ips = path.child("clusterIPs");
    let mut errors = List::new();
    let mut refuse =
        |at: usize, why: &'static str| errors.push(Error::invalid(&path_of_ips.index(at), shown(ips), why));
    if ips.len() == before.len() {
        for (at, (ip, before)) in ips.iter().zip(before.iter()).enumerate() {
            if ip != before {
                refuse(at, "may not change once set");
            }
        }
        return errors;
    }
    if ips.is_empty() {
        refuse(0, "primary clusterIP can not be unset");
    } else if !before.is_empty() && ips.get(0) != before.get(0) {
        refuse(0, "may not change once set");
    }
    if ips.len() < before.len() && ips.len() == 1 {
        errors
            .extend(single_stack(new, "must be set to 'SingleStack' when releasing the secondary clusterIP"));
    }
    errors
}

fn kept_families(new: ServiceSpec<'_>, old: ServiceSpec<'_>, path: &Path<'_>) -> List {
    let (families, before) = (new.ip_families(), old.ip_families());
    let path = path.child("ipFamilies");
    let path = path.index(0);
    let mut errors = List::new();
    let shown_families = || checks::shown_texts("core.IPFamily", families);
    if families.len() == before.len() {
        for _ in families.iter().zip(before.iter()).filter(|(family, before)| family != before) {
            errors.push_with(|| Error::invalid(&path, shown_families(), "may not change once set"));
        }
        return errors;
    }
    if families.len() < before.len() && new.cluster_ips().is_empty() {
        errors.push(Error::invalid(&path, shown_families(), "primary ipFamily can not be unset"));
    }
    if !families.is_empty() && !before.is_empty() && families.get(0) != before.get(0) {
        errors.push(Error::invalid(&path, shown(new.cluster_ips()), "may not change once set"));
    }
    if families.len() < before.len() && families.len() == 1 {
        errors
            .extend(single_stack(new, "must be set to 'SingleStack' when releasing the secondary ipFamily"));
    }
    errors
}

fn single_stack(spec: ServiceSpec<'_>, why: &'static str) -> Option<Error> {
    let path = Path::new("spec");
    let policy = spec.ip_family_policy();
    let shown = policy.map_or(BadValue::Null, BadValue::from);
    (policy != Some("SingleStack")).then(|| Error::invalid(&path.child("ipFamilyPolicy"), shown, why))
}

/// Whether a service has no cluster IP and wants none.
pub(super) fn is_headless(spec: ServiceSpec<'_>) -> bool {
    let ips = spec.cluster_ips();
    ips.len() == 1 && ips.get(0) == Some(NONE)
}

fn shown(ips: Items<'_, &str>) -> BadValue {
    checks::shown_texts("string", ips)
}
