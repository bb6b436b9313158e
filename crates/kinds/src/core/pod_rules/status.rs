//! The rules for changes of the status of a pod.

use super::{PodOptions, update};
use crate::Rules;
use object::Map;
use object::field::{BadValue, Error, List, Path};
use object::name::address::{Legacy, legacy_ip, parse_lenient};
use object::name::{Mode, group_id, invalid, name_is_dns_subdomain, qualified_name, user_id};
use object::quote::Quoted;
use schema::view::{Items, View};
use schema::views::core::v1::{
    ContainerStatus, LinuxContainerUser, Pod, PodResourceClaimStatus, PodSpec, PodStatus,
};
use std::collections::{HashMap, HashSet};

/// The field errors of a change of the status of a pod.
pub(in crate::core) fn validate(new: &Map, old: &Map, rules: &Rules<'_>) -> List {
    let mut errors = rules.metadata_update(new, old);
    errors.append(update::annotation_updates(new, old, &PodOptions::of_pod(Some(Pod::of(old)), rules)));
    let (new, old) = (Pod::of(new), Pod::of(old));
    let (spec, after, before) = (old.spec(), new.status(), old.status());
    let path = Path::new("status");
    errors.append(conditions(after, &path.child("conditions")));
    if new.spec().node_name() != spec.node_name() {
        errors.push(Error::forbidden(&path.child("nodeName"), "may not be changed directly"));
    }
    let nominated = after.nominated_node_name();
    if !nominated.is_empty() && nominated != before.nominated_node_name() {
        let messages = name_is_dns_subdomain(nominated, Mode::Name);
        errors.append(invalid(&path.child("nominatedNodeName"), nominated, messages));
    }
    if after.observed_generation() < 0 {
        let why = "must be a non-negative integer";
        errors.push(Error::invalid(&path.child("observedGeneration"), after.observed_generation(), why));
    }
    if after.qos_class() != before.qos_class() {
        errors.push(Error::invalid(&path.child("qosClass"), after.qos_class(), "field is immutable"));
    }
    errors.append(transitions(after, before, spec, &path));
    errors.append(claim_statuses(after, new.spec(), &path.child("resourceClaimStatuses")));
    errors.append(pod_addresses(after, before, &path.child("podIPs")));
    errors.append(host_addresses(after, before, &path.child("hostIPs")));
    let os = new.spec().os().map_or("linux", |os| os.name());
    for (field, statuses) in lists(after) {
        errors.append(users(statuses, os, &path.child(field)));
    }
    errors
}

fn lists<'a>(status: PodStatus<'a>) -> [(&'static str, Items<'a, ContainerStatus<'a>>); 3] {
    [
        ("containerStatuses", status.container_statuses()),
        ("initContainerStatuses", status.init_container_statuses()),
        ("ephemeralContainerStatuses", status.ephemeral_container_statuses()),
    ]
}

fn conditions(status: PodStatus<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for (at, condition) in status.conditions().iter().enumerate() {
        let path = path.index(at);
        if condition.observed_generation() < 0 {
            let generation = condition.observed_generation();
            let why = "must be a non-negative integer";
            errors.push(Error::invalid(&path.child("observedGeneration"), generation, why));
        }
        if !matches!(condition.r#type(), "PodScheduled" | "Ready" | "Initialized") {
            let messages = qualified_name(condition.r#type());
            errors.append(invalid(&path.child("Type"), condition.r#type(), messages));
        }
    }
    errors
}

/// Containers that ended and are not restarted stay ended.
fn transitions(new: PodStatus<'_>, old: PodStatus<'_>, spec: PodSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for ((field, new), (_, old)) in lists(new).into_iter().zip(lists(old)) {
        let restarts = if field == "ephemeralContainerStatuses" { "Never" } else { spec.restart_policy() };
        if restarts == "Always" {
            continue;
        }
        let mut left: HashMap<&str, usize> = HashMap::new();
        for status in new.iter().filter(|status| status.state().terminated().is_none()) {
            *left.entry(status.name()).or_default() += 1;
        }
        let sidecars = if field == "initContainerStatuses" { sidecars(spec) } else { HashSet::new() };
        let path = path.child(field);
        for (at, status) in old.iter().enumerate() {
            let Some(end) = status.state().terminated() else { continue };
            let may_restart =
                (end.exit_code() != 0 && restarts == "OnFailure") || sidecars.contains(status.name());
            if may_restart {
                continue;
            }
            for _ in 0..left.get(status.name()).copied().unwrap_or_default() {
                errors.push_with(|| {
                    let why = "may not be transitioned to non-terminated state";
                    Error::forbidden(&path.index(at).child("state"), why)
                });
            }
        }
    }
    errors
}

/// The names of init containers that are restarted. Of containers of one name the first counts.
fn sidecars(spec: PodSpec<'_>) -> HashSet<&str> {
    let mut seen = HashSet::new();
    let first = spec.init_containers().iter().filter(|container| seen.insert(container.name()));
    let restarted = first.filter(|container| container.restart_policy() == Some("Always"));
    restarted.map(|container| container.name()).collect()
}

fn claim_statuses(status: PodStatus<'_>, spec: PodSpec<'_>, path: &Path<'_>) -> List {
    let statuses: Items<'_, PodResourceClaimStatus<'_>> = status.resource_claim_statuses();
    let known: HashSet<_> = spec.resource_claims().iter().map(|claim| claim.name()).collect();
    let mut errors = List::new();
    let mut seen = HashSet::new();
    for (at, status) in statuses.iter().enumerate() {
        let path = path.index(at);
        let path = path.child("name");
        if !known.contains(status.name()) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(Error::invalid(&path, status.name(), why));
        }
        if !seen.insert(status.name()) {
            errors.push(Error::duplicate(&path, status.name()));
        }
        if let Some(name) = status.resource_claim_name() {
            errors.append(invalid(&path, name, name_is_dns_subdomain(name, Mode::Name)));
        }
    }
    errors
}

fn pod_addresses(new: PodStatus<'_>, old: PodStatus<'_>, path: &Path<'_>) -> List {
    let after: Vec<_> = new.pod_ips().iter().map(|address| address.ip()).collect();
    let before: HashSet<_> = old.pod_ips().iter().map(|address| address.ip()).collect();
    addresses(&after, &before, "core.PodIP", path)
}

fn host_addresses(new: PodStatus<'_>, old: PodStatus<'_>, path: &Path<'_>) -> List {
    let after: Vec<_> = new.host_ips().iter().map(|address| address.ip()).collect();
    let before: HashSet<_> = old.host_ips().iter().map(|address| address.ip()).collect();
    let mut errors = List::new();
    if let Some(first) = after.first().filter(|first| **first != new.host_ip()) {
        errors.push(Error::invalid(&path.index(0).child("ip"), *first, "must be equal to `hostIP`"));
    }
    errors.append(addresses(&after, &before, "core.HostIP", path));
    errors
}

/// At most one address of each family. Addresses that were there before may be no addresses.
fn addresses(new: &[&str], old: &HashSet<&str>, ty: &str, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for (at, address) in new.iter().enumerate().filter(|(_, address)| !old.contains(*address)) {
        errors.append(legacy_ip(&path.index(at), address, Legacy::Lenient));
    }
    if new.len() < 2 {
        return errors;
    }
    let parsed: Vec<_> = new.iter().map(|address| parse_lenient(address)).collect();
    let unreadable = parsed.iter().zip(new).position(|(parsed, _)| parsed.is_none());
    if let Some((at, address)) = unreadable.and_then(|at| Some((at, new.get(at)?))) {
        let cause = format!("failed to check for dual stack with error:invalid IP[{at}]: {address}");
        errors.push(Error::internal(path, cause));
    }
    let families: HashSet<_> = parsed.iter().flatten().map(|address| address.is_ipv4()).collect();
    if unreadable.is_some() || families.len() < 2 || new.len() > 2 {
        let shown: Vec<_> = new.iter().map(|address| format!("{ty}{{IP:{}}}", Quoted(address))).collect();
        let shown = BadValue::Raw(format!("[]{ty}{{{}}}", shown.join(", ")));
        errors.push(Error::invalid(path, shown, "may specify no more than one IP for each IP family"));
    }
    errors
}

fn users(statuses: Items<'_, ContainerStatus<'_>>, os: &str, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for (at, status) in statuses.iter().enumerate() {
        let Some(user) = status.user().and_then(|user| user.linux()) else { continue };
        let path = path.index(at);
        let path = path.child("user");
        let path = path.child("linux");
        match os {
            "windows" => errors.push(Error::forbidden(&path, "cannot be set for a windows pod")),
            "linux" => errors.append(linux_user(user, &path)),
            _ => {}
        }
    }
    errors
}

fn linux_user(user: LinuxContainerUser<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut refuse = |id: i64, messages: object::name::Messages, path: &Path<'_>| {
        errors.extend(messages.into_iter().map(|why| Error::invalid(path, id, why)));
    };
    refuse(user.uid(), user_id(user.uid()), &path.child("uid"));
    refuse(user.gid(), group_id(user.gid()), &path.child("gid"));
    let groups = path.child("supplementalGroups");
    for (at, id) in user.supplemental_groups().iter().enumerate() {
        refuse(id, group_id(id), &groups.index(at));
    }
    errors
}
