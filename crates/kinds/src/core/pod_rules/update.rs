//! The rules for changes of pods: of the pod itself, and of its ephemeral containers.

use super::{PodOptions, annotations, metadata_and_spec, scheduling};
use crate::core::{node_selector, tolerations};
use crate::{Rules, label_selector};
use object::field::{BadValue, Error, List, Path};
use object::name::in_range;
use object::quote::Quoted;
use object::{Map, Value};
use schema::semantic;
use schema::view::{Item, Items, View};
use schema::views::core::v1::{
    Affinity, Container, EphemeralContainer, NodeAffinity, NodeSelectorTerm, Pod, PodSpec,
};
use std::collections::HashMap;

/// The fields that a change of a pod may touch, as the message names them.
const MUTABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
    `spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to \
    be set to 1 if it was previously negative)";

/// The field errors of a change of a pod.
pub(in crate::core) fn validate(new: &Map, old: &Map, rules: &Rules<'_>) -> List {
    let mut errors = checked(new, old, rules);
    errors.append(spec(Pod::of(new).spec(), Pod::of(old).spec()));
    errors
}

/// The field errors of a change of the ephemeral containers of a pod. They may be added, and stay as they are
/// then.
pub(in crate::core) fn ephemeral_containers(new: &Map, old: &Map, rules: &Rules<'_>) -> List {
    if Pod::of(old).metadata().annotations().get(annotations::MIRROR).is_some() {
        let why = "static pods do not support ephemeral containers";
        return Error::forbidden(&Path::new(""), why).into();
    }
    let mut errors = checked(new, old, rules);
    let (new, old) = (Pod::of(new).spec(), Pod::of(old).spec());
    let path = Path::new("spec");
    let path = path.child("ephemeralContainers");
    let after: HashMap<_, _> = new.ephemeral_containers().iter().map(|of| (of.name(), of)).collect();
    for before in old.ephemeral_containers().iter() {
        let name = Quoted(before.name());
        let Some(after) = after.get(before.name()) else {
            let why = format!("existing ephemeral containers {name} may not be removed\n");
            errors.push(Error::forbidden(&path, why));
            continue;
        };
        let differing = semantic::differences(EphemeralContainer::schema(), after.map(), before.map());
        if !differing.is_empty() {
            let why =
                format!("existing ephemeral containers {name} may not be changed\n{}", differing.join(", "));
            errors.push(Error::forbidden(&path, why));
        }
    }
    errors
}

/// The errors of the metadata, of the new pod by itself, and of its annotations.
fn checked(new: &Map, old: &Map, rules: &Rules<'_>) -> List {
    let mut errors = rules.metadata_update(new, old);
    let options = PodOptions::of_pod(Some(Pod::of(old)), rules);
    errors.append(metadata_and_spec(new, &options, rules));
    errors.append(annotation_updates(new, old, &options));
    errors
}

/// The errors of the annotations of a changed pod.
pub(super) fn annotation_updates(new: &Map, old: &Map, options: &PodOptions) -> List {
    let path = Path::new("metadata");
    let path = path.child("annotations");
    let pod = Pod::of(new);
    let after = pod.metadata().annotations();
    let mut errors = annotations::updates(after, Pod::of(old).metadata().annotations(), &path);
    errors.append(annotations::validate(after, pod.spec(), options, &path));
    errors
}

/// A list of containers before and after a change.
#[derive(Clone, Copy)]
pub(super) struct Lists<'a> {
    pub(super) field: &'static str,
    pub(super) new: Items<'a, Container<'a>>,
    pub(super) old: Items<'a, Container<'a>>,
}

/// The regular containers of two specs.
pub(super) fn regular<'a>(new: PodSpec<'a>, old: PodSpec<'a>) -> Lists<'a> {
    Lists { field: "containers", new: new.containers(), old: old.containers() }
}

/// The init containers of two specs.
pub(super) fn init<'a>(new: PodSpec<'a>, old: PodSpec<'a>) -> Lists<'a> {
    Lists { field: "initContainers", new: new.init_containers(), old: old.init_containers() }
}

fn spec(new: PodSpec<'_>, old: PodSpec<'_>) -> List {
    let path = Path::new("spec");
    let mut errors = List::new();
    for Lists { field, new, old } in [regular(new, old), init(new, old)] {
        let path = path.child(field);
        if new.len() != old.len() {
            errors.push(Error::forbidden(&path, "pod updates may not add or remove containers"));
            return errors;
        }
        errors.append(images(new, &path));
    }
    if let Err(error) = deadline(new, old, &path.child("activeDeadlineSeconds")) {
        let ends = new.active_deadline_seconds().is_some();
        errors.push(error);
        if ends {
            return errors;
        }
    }
    let tolerations_path = path.child("tolerations");
    errors.append(tolerations::only_added(new.tolerations(), old.tolerations(), &tolerations_path));
    let gates_path = path.child("schedulingGates");
    errors.append(scheduling::only_deleted_gates(
        new.scheduling_gates(),
        old.scheduling_gates(),
        &gates_path,
    ));
    if new.map() == old.map() {
        return errors;
    }
    let is_gated = !old.scheduling_gates().is_empty();
    if is_gated {
        errors.append(constraints(new, old, &path));
    }
    let differing = fixed_differences(new, old, is_gated);
    if !differing.is_empty() {
        let why = format!("pod updates may not change fields other than {MUTABLE}\n{}", differing.join(", "));
        errors.push(Error::forbidden(&path, why));
    }
    errors
}

fn images(containers: Items<'_, Container<'_>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for (at, container) in containers.iter().enumerate() {
        let path = path.index(at);
        let path = path.child("image");
        let image = container.image();
        if image.is_empty() {
            errors.push(Error::required(&path, ""));
        }
        if image.trim() != image {
            errors.push(Error::invalid(&path, image, "must not have leading or trailing whitespace"));
        }
    }
    errors
}

/// A deadline may be set, and come closer.
fn deadline(new: PodSpec<'_>, old: PodSpec<'_>, path: &Path<'_>) -> Result<(), Error> {
    match (new.active_deadline_seconds(), old.active_deadline_seconds()) {
        (Some(new), old) => {
            if let Some(why) = in_range(new, 0, i32::MAX.into()).pop() {
                return Err(Error::invalid(path, new, why));
            }
            if old.is_some_and(|old| old < new) {
                return Err(Error::invalid(path, new, "must be less than or equal to previous value"));
            }
            Ok(())
        }
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            Err(Error::invalid(path, BadValue::Null, why))
        }
        (None, None) => Ok(()),
    }
}

/// The errors of the node selector and the node affinity of a pod that waits for scheduling gates: they may
/// become narrower.
fn constraints(new: PodSpec<'_>, old: PodSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let (selector, before) = (new.node_selector(), old.node_selector());
    let there = selector.map().index();
    let text = |value: Option<&&Value>| value.and_then(|value| value.as_str()).map(str::to_owned);
    if before.iter().any(|(key, value)| text(there.get(key)).as_deref() != Some(value)) {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(Error::invalid(&path.child("nodeSelector"), label_selector::shown_labels(selector), why));
    }
    let path = path.child("affinity");
    errors.append(node_affinity(of_nodes(new), of_nodes(old), &path.child("nodeAffinity")));
    errors
}

fn of_nodes(spec: PodSpec<'_>) -> Option<NodeAffinity<'_>> {
    spec.affinity().and_then(|affinity| affinity.node_affinity())
}

fn required_terms<'a>(affinity: Option<NodeAffinity<'a>>) -> Items<'a, NodeSelectorTerm<'a>> {
    let required = affinity.and_then(|of| of.required_during_scheduling_ignored_during_execution());
    required.map_or_else(Items::absent, |required| required.node_selector_terms())
}

fn node_affinity(new: Option<NodeAffinity<'_>>, old: Option<NodeAffinity<'_>>, path: &Path<'_>) -> List {
    let field = "requiredDuringSchedulingIgnoredDuringExecution";
    let path = path.child(field);
    let path = path.child("nodeSelectorTerms");
    let (after, before) = (required_terms(new), required_terms(old));
    if !before.is_empty() && before.len() != after.len() {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return Error::invalid(&path, node_selector::shown_terms(after), why).into();
    }
    let mut errors = List::new();
    for (at, (after, before)) in after.iter().zip(before.iter()).enumerate() {
        if !is_narrower(after, before) {
            let why = "only additions are allowed (no mutations or deletions)";
            errors.push(Error::invalid(&path.index(at), node_selector::shown_term(after), why));
        }
    }
    errors
}

/// Whether a term has all requirements of another, in front of those that were added. An empty term matches
/// nothing, and stays empty.
fn is_narrower(new: NodeSelectorTerm<'_>, old: NodeSelectorTerm<'_>) -> bool {
    if old.match_expressions().is_empty() && old.match_fields().is_empty() {
        return new.match_expressions().is_empty() && new.match_fields().is_empty();
    }
    new.match_expressions().values().starts_with(old.match_expressions().values())
        && new.match_fields().values().starts_with(old.match_fields().values())
}

/// The paths of the fields that differ and may not.
fn fixed_differences(new: PodSpec<'_>, old: PodSpec<'_>, is_gated: bool) -> Vec<String> {
    let mut differing = Vec::new();
    for entry in semantic::entries(new.map(), old.map()).filter(|entry| !entry.is_equal(PodSpec::schema())) {
        match entry.key {
            "activeDeadlineSeconds" | "tolerations" | "schedulingGates" => {}
            "containers" => but_for_images(regular(new, old), &mut differing),
            "initContainers" => but_for_images(init(new, old), &mut differing),
            "terminationGracePeriodSeconds"
                if new.termination_grace_period_seconds() == Some(1)
                    && old.termination_grace_period_seconds().is_some_and(|seconds| seconds < 0) => {}
            "nodeSelector" if is_gated => {}
            "affinity" if is_gated && is_same_but_for_nodes(new, old) => {}
            key => differing.push(format!("spec.{key}")),
        }
    }
    differing
}

fn but_for_images(lists: Lists<'_>, differing: &mut Vec<String>) {
    for (at, (new, old)) in lists.new.iter().zip(lists.old.iter()).enumerate() {
        let fields = semantic::differences(Container::schema(), new.map(), old.map());
        let fields = fields.into_iter().filter(|key| *key != "image");
        differing.extend(fields.map(|key| format!("spec.{}[{at}].{key}", lists.field)));
    }
}

/// Whether the affinity of two specs differs in the affinity to nodes, and in nothing else.
fn is_same_but_for_nodes(new: PodSpec<'_>, old: PodSpec<'_>) -> bool {
    if of_nodes(new).map(View::map) == of_nodes(old).map(View::map) {
        return false;
    }
    let pods = |affinity: Option<Affinity<'_>>| {
        let affinity = affinity.unwrap_or_else(Affinity::absent);
        [affinity.pod_affinity().map(View::map), affinity.pod_anti_affinity().map(View::map)]
            .map(|map| map.cloned())
    };
    let is_same =
        |entry: semantic::Entry<'_>| entry.key == "nodeAffinity" || entry.is_equal(Affinity::schema());
    match (new.affinity(), old.affinity()) {
        (Some(new), Some(old)) => semantic::entries(new.map(), old.map()).all(is_same),
        (new, old) => pods(new) == pods(old),
    }
}
