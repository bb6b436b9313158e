//! The rules for a resize of a pod: containers get other amounts of cpu and memory.

use super::update::{Lists, init, regular};
use super::{PodOptions, annotations, metadata_and_spec};
use crate::Rules;
use crate::core::qos;
use object::field::{Error, List, Path};
use object::quantity::Quantity;
use object::{Map, Value};
use schema::semantic;
use schema::view::{Entries, View};
use schema::views::core::v1::{Container, Pod, PodSpec, ResourceRequirements};

/// The field errors of a resize.
pub(in crate::core) fn validate(new: &Map, old: &Map, rules: &Rules<'_>) -> List {
    let (after, before) = (Pod::of(new), Pod::of(old));
    if let Some(why) = unresizable(after, before) {
        return Error::forbidden(&Path::new(""), why).into();
    }
    let mut errors = rules.metadata_update(new, old);
    errors.append(metadata_and_spec(new, &PodOptions::of_pod(Some(before), rules), rules));
    let path = Path::new("spec");
    let class = match before.status().qos_class() {
        "" => qos::class(before.spec()),
        class => class.into(),
    };
    if class != qos::class(after.spec()) {
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.push(Error::invalid(&path, after.status().qos_class(), why));
    }
    let mut statuses = before.status().container_statuses().iter();
    let running = statuses.find(|status| status.state().running().is_some());
    if running.is_some_and(|status| status.resources().is_none()) {
        errors.push(Error::forbidden(&path, "Pod running on node without support for resize"));
    }
    let order = order(after.spec(), before.spec(), &path);
    if !order.is_empty() {
        errors.append(order);
        return errors;
    }
    errors.append(amounts(after.spec(), before.spec(), &path));
    errors.append(other_changes(after.spec(), before.spec(), &path));
    if errors.is_empty() && differs_outside_containers(after.spec(), before.spec()) {
        errors.push(Error::forbidden(&path, ONLY_CPU_AND_MEMORY));
    }
    errors
}

const ONLY_CPU_AND_MEMORY: &str = "only cpu and memory resources are mutable";

/// Why a pod cannot be resized at all.
fn unresizable(new: Pod<'_>, old: Pod<'_>) -> Option<&'static str> {
    let has_own = |pod: Pod<'_>| {
        let resources = pod.spec().resources();
        resources.is_some_and(|of| !of.requests().is_empty() || !of.limits().is_empty())
    };
    if has_own(old) || has_own(new) {
        return Some("pods with pod-level resources cannot be resized");
    }
    if old.metadata().annotations().get(annotations::MIRROR).is_some() {
        return Some("static pods cannot be resized");
    }
    let on_windows = old.spec().os().is_some_and(|os| os.name() == "windows");
    on_windows.then_some("windows pods cannot be resized")
}

fn is_sidecar(container: Container<'_>) -> bool {
    container.restart_policy() == Some("Always")
}

/// Containers may not be added, removed, renamed or moved.
fn order(new: PodSpec<'_>, old: PodSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for Lists { field, new, old } in [regular(new, old), init(new, old)] {
        let path = path.child(field);
        if new.len() != old.len() {
            errors.push(Error::forbidden(&path, format!("{field} may not be added or removed on resize")));
            continue;
        }
        for (at, (new, old)) in new.iter().zip(old.iter()).enumerate() {
            if new.name() != old.name() {
                let why = format!("{field} may not be renamed or reordered on resize");
                errors.push(Error::forbidden(&path.index(at).child("name"), why));
            }
        }
    }
    errors
}

fn amounts(new: PodSpec<'_>, old: PodSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let sidecars = init(new, old);
    let path_of_init = path.child(sidecars.field);
    for (at, (new, old)) in sidecars.new.iter().zip(sidecars.old.iter()).enumerate() {
        if is_sidecar(old) {
            errors.append(container_amounts(new, old, &path_of_init.index(at).child("resources")));
        }
    }
    let regular = regular(new, old);
    let path = path.child(regular.field);
    for (at, (new, old)) in regular.new.iter().zip(regular.old.iter()).enumerate() {
        errors.append(container_amounts(new, old, &path.index(at).child("resources")));
    }
    errors
}

fn container_amounts(new: Container<'_>, old: Container<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let (after, before) = (new.resources(), old.resources());
    if has_lost(after.requests(), before.requests()) {
        errors.push(Error::forbidden(&path.child("requests"), "resource requests cannot be removed"));
    }
    let limits = path.child("limits");
    if has_lost(after.limits(), before.limits()) {
        errors.push(Error::forbidden(&limits, "resource limits cannot be removed"));
    }
    let policy = new.resize_policy().iter().find(|policy| policy.resource_name() == "memory");
    if !matches!(policy.map(|policy| policy.restart_policy()), None | Some("NotRequired" | "")) {
        return errors;
    }
    let memory = |of: ResourceRequirements<'_>| of.limits().get("memory").map(str::parse::<Quantity>);
    let change = match (memory(after), memory(before)) {
        (Some(Ok(new)), Some(Ok(old))) if new < old => "decreased",
        (Some(_), None) => "added",
        _ => return errors,
    };
    let why = format!("memory limits cannot be {change} unless resizePolicy is RestartContainer");
    errors.push(Error::forbidden(&limits.key("memory"), why));
    errors
}

fn has_lost(new: Entries<'_, &str>, old: Entries<'_, &str>) -> bool {
    let there = new.map().index();
    old.iter().any(|(name, _)| !there.contains_key(name))
}

/// The errors of changes of containers that are no changes of cpu and memory.
fn other_changes(new: PodSpec<'_>, old: PodSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let Lists { new: after, old: before, .. } = regular(new, old);
    for (new, old) in after.iter().zip(before.iter()) {
        if !is_same_but_for_amounts(new, old) {
            errors.push(Error::forbidden(path, ONLY_CPU_AND_MEMORY));
        }
    }
    let Lists { new: after, old: before, .. } = init(new, old);
    for (new, old) in after.iter().zip(before.iter()) {
        if is_sidecar(new) && !is_same_but_for_amounts(new, old) {
            let why = "only cpu and memory resources for sidecar containers are mutable";
            errors.push(Error::forbidden(path, why));
        } else if !is_sidecar(new) && !semantic::equal_maps(Container::schema(), new.map(), old.map()) {
            let why = "resources for non-sidecar init containers are immutable";
            errors.push(Error::forbidden(path, why));
        }
    }
    errors
}

/// Whether two containers differ in amounts of cpu and memory alone. In a list that the old container does
/// not have, any resource counts as such.
fn is_same_but_for_amounts(new: Container<'_>, old: Container<'_>) -> bool {
    let resources = ResourceRequirements::schema();
    let is_same_list = |entry: semantic::Entry<'_>| match (entry.key, entry.one, entry.other) {
        ("limits" | "requests", _, None) | ("claims", _, None) => true,
        ("limits" | "requests", new, Some(old)) => {
            let without = |list: Option<&Value>| {
                let mut list = list.and_then(Value::as_map).cloned().unwrap_or_default();
                list.retain(|name, _| !matches!(name.as_str(), "cpu" | "memory"));
                Map::from_iter([(entry.key.to_owned(), Value::from(list))])
            };
            semantic::equal_maps(resources, &without(new), &without(Some(old)))
        }
        _ => false,
    };
    semantic::entries(new.map(), old.map()).all(|entry| match entry.key {
        "resources" => semantic::entries(new.resources().map(), old.resources().map()).all(is_same_list),
        _ => entry.is_equal(Container::schema()),
    })
}

fn differs_outside_containers(new: PodSpec<'_>, old: PodSpec<'_>) -> bool {
    semantic::entries(new.map(), old.map()).any(|entry| {
        !matches!(entry.key, "containers" | "initContainers") && !entry.is_equal(PodSpec::schema())
    })
}
