//! The rules for the resources of a container: limits, requests, claims, and what a resize does.

use super::PodOptions;
use crate::checks;
use crate::core::resources::{self, shown};
use crate::seen::Seen;
use object::excerpt::shorten;
use object::field::{Error, List, Path};
use object::name::{dns1123_label, invalid};
use schema::view::Items;
use schema::views::core::v1::{ContainerResizePolicy, PodSpec, ResourceClaim, ResourceRequirements};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The field errors of the resources of a container of a pod.
pub(super) fn validate(
    of: ResourceRequirements<'_>,
    spec: PodSpec<'_>,
    options: &PodOptions,
    path: &Path<'_>,
) -> List {
    let mut errors = resources::requirements(of.limits(), of.requests(), options.huge_pages, path);
    if !of.claims().is_empty() {
        errors.append(claims(of.claims(), spec, &path.child("claims")));
    }
    errors
}

/// A claim, or a request of it, is named once, and is one of the pod's.
fn claims(claims: Items<'_, ResourceClaim<'_>>, spec: PodSpec<'_>, path: &Path<'_>) -> List {
    let declared: BTreeSet<&str> =
        spec.resource_claims().iter().map(|claim| claim.name()).filter(|name| !name.is_empty()).collect();
    let mut errors = List::new();
    let mut names: HashSet<String> = HashSet::new();
    let mut requests: HashMap<String, usize> = HashMap::new();
    for (at, claim) in claims.iter().enumerate() {
        let (name, request, path) = (claim.name(), claim.request(), path.index(at));
        if name.is_empty() {
            errors.push(Error::required(&path, ""));
            continue;
        }
        if names.contains(name) {
            errors.push(Error::duplicate(&path, name));
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                errors.append(invalid(&path.child("request"), request, dns1123_label(request)));
                key = format!("{name}/{request}");
            }
            if names.contains(&key) {
                errors.push(Error::duplicate(&path, key.as_str()));
            } else if request.is_empty() {
                let overlaps = requests.get(name).copied().unwrap_or_default();
                (0..overlaps).for_each(|_| errors.push_with(|| Error::duplicate(&path, name)));
            }
            if let Some((claim, _)) = key.split_once('/')
                && !names.contains(&key)
            {
                *requests.entry(claim.to_owned()).or_default() += 1;
            }
            names.insert(key);
        }
        if !declared.contains(name) {
            errors.push_with(|| undeclared(name, &declared, &path));
        }
    }
    errors
}

fn undeclared(name: &str, declared: &BTreeSet<&str>, path: &Path<'_>) -> Error {
    let mut error = Error::not_found(path, name);
    let among = match declared.is_empty() {
        true => " which is empty".to_owned(),
        false => format!(": {}", declared.iter().copied().collect::<Vec<_>>().join(", ")),
    };
    error.detail = shorten(format!("must be one of the names in pod.spec.resourceClaims{among}")).into();
    error
}

/// The field errors of what a resize does to a container. All but repeats have the path of the list.
pub(super) fn resize_policy(
    policies: Items<'_, ContainerResizePolicy<'_>>,
    spec: PodSpec<'_>,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    let mut resources = Seen::new();
    for (at, policy) in policies.iter().enumerate() {
        let (resource, restart) = (policy.resource_name(), policy.restart_policy());
        if !resources.insert(resource) {
            errors.push(Error::duplicate(&path.index(at), shown(resource)));
        }
        match resource {
            "cpu" | "memory" => {}
            "" => errors.push(Error::required(path, "")),
            _ => errors.push(Error::not_supported(path, shown(resource), ["cpu", "memory"])),
        }
        errors.extend(checks::required_one_of(restart, &["NotRequired", "RestartContainer"], path));
        if spec.restart_policy() == "Never" && restart != "NotRequired" {
            let why = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            errors.push(Error::invalid(path, restart, why));
        }
    }
    errors
}
