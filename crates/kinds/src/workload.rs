//! The rules that kinds share that make pods of a template.

use crate::defaults::{fill, update_map, update_or_insert_map};
use crate::label_selector::{self, Values};
use crate::template;
use crate::{Check, ScalePaths, Subresource, checks, object_meta};
use object::field::{Error, List, Path};
use object::label;
use object::name::dns1123_label;
use object::{Key, Map, Text, Value};
use schema::Ref;
use schema::view::View;
use schema::views::apps::v1::ReplicaSet;
use schema::views::core::v1::{PodSpec, PodTemplateSpec};
use schema::views::meta::v1::LabelSelector;
use std::borrow::Cow;

/// The checks of an update of kinds whose updates the reference checks by the rules for new objects twice.
pub(crate) const CHECKED_TWICE: &[Check] =
    &[Check::Metadata, Check::Object, Check::MetadataChange, Check::Object, Check::Change];

/// Sets the selector and the labels of a workload of a version that takes them from the pod template.
pub(crate) fn take_labels_of_template(object: &mut Map) {
    let labels = object.get("spec").and_then(|spec| spec.get("template")?.get("metadata")?.get("labels"));
    let Some(labels) = labels.filter(|labels| labels.as_map().is_some_and(|map| !map.is_empty())).cloned()
    else {
        return;
    };
    update_map(object, "spec", |spec| {
        fill(spec, "selector", Map::from_iter([("matchLabels", labels.clone())]))
    });
    update_or_insert_map(object, "metadata", |metadata| {
        if metadata.get("labels").and_then(Value::as_map).is_none_or(Map::is_empty) {
            metadata.insert(Key::known("labels"), labels);
        }
    });
}

/// The scale of a workload.
pub(crate) const SCALE: Subresource = Subresource::scale(Ref::Static(&SCALE_PATHS));

static SCALE_PATHS: ScalePaths = ScalePaths {
    spec_replicas: Cow::Borrowed(&SPEC_REPLICAS),
    status_replicas: Cow::Borrowed(&STATUS_REPLICAS),
    selector: Cow::Borrowed(&SELECTOR),
    are_open: false,
};
static SPEC_REPLICAS: [Text; 2] = [Text::known("spec"), Text::known("replicas")];
static STATUS_REPLICAS: [Text; 2] = [Text::known("status"), Text::known("replicas")];
static SELECTOR: [Text; 2] = [Text::known("spec"), Text::known("selector")];

/// The error of an update that changes the selector.
pub(crate) fn immutable_selector(new: &Map, old: &Map) -> Option<Error> {
    fn selector(object: &Map) -> Option<LabelSelector<'_>> {
        object.get("spec")?.get("selector")?.as_map().map(LabelSelector::of)
    }
    label_selector::immutable(selector(new), selector(old), &Path::new("spec").child("selector"))
}

/// The field errors of a selector that has to be there and to pick something; `of` is the kind in the
/// message.
pub(crate) fn selector(selector: Option<LabelSelector<'_>>, of: &str, path: &Path<'_>) -> List {
    let Some(present) = selector else { return Error::required(path, "").into() };
    let mut errors = label_selector::validate(present, Values::Checked, path);
    errors.extend(empty_selector(selector, of, path));
    errors
}

/// The error of a selector without requirements.
pub(crate) fn empty_selector(
    selector: Option<LabelSelector<'_>>,
    of: &str,
    path: &Path<'_>,
) -> Option<Error> {
    let is_empty = selector.is_some_and(|selector| {
        selector.match_labels().is_empty() && selector.match_expressions().is_empty()
    });
    is_empty.then(|| {
        let why = format!("empty selector is invalid for {of}");
        Error::invalid(path, label_selector::shown(selector), why)
    })
}

/// The error of a template at `path` that the selector does not pick.
pub(crate) fn mismatch(
    selector: Option<LabelSelector<'_>>,
    template: PodTemplateSpec<'_>,
    path: &Path<'_>,
) -> Result<Option<Error>, label::Error> {
    let matches = label_selector::matches(selector, template.metadata().labels())?;
    Ok((!matches).then(|| not_selected(template, path)))
}

/// The error of a template at `path` that the selector of its object does not pick.
pub(crate) fn not_selected(template: PodTemplateSpec<'_>, path: &Path<'_>) -> Error {
    let labels = label_selector::shown_labels(template.metadata().labels());
    let why = "`selector` does not match template `labels`";
    Error::invalid(&path.child("metadata").child("labels"), labels, why)
}

/// The field errors of a pod spec at `path` whose pods are replaced when they end; `of` is the kind in the
/// message.
pub(crate) fn always_restarted(spec: PodSpec<'_>, of: &str, path: &Path<'_>) -> List {
    let mut errors = List::new();
    errors.extend(checks::one_of(spec.restart_policy(), &["Always"], &path.child("restartPolicy")));
    if spec.active_deadline_seconds().is_some() {
        let why = format!("activeDeadlineSeconds in {of} is not Supported");
        errors.push(Error::forbidden(&path.child("activeDeadlineSeconds"), why));
    }
    errors
}

/// The errors of counters that are negative.
pub(crate) fn counters(counters: &[(&str, i64)], path: &Path<'_>) -> List {
    counters.iter().filter_map(|(name, count)| checks::non_negative(*count, &path.child(name))).collect()
}

/// The replicas of a status that are counted apart.
pub(crate) struct Replicas<'a> {
    /// All of them.
    pub(crate) all: i64,
    /// The names and counts of parts of them; the last one counts those that are available.
    pub(crate) parts: &'a [(&'a str, i64)],
    /// How many are ready.
    pub(crate) ready: i64,
    /// The name of that count in messages.
    pub(crate) ready_name: &'a str,
}

/// The errors of counts that are larger than what they are a part of.
pub(crate) fn replicas(replicas: &Replicas<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for (name, count) in replicas.parts {
        if *count > replicas.all {
            errors.push(Error::invalid(&path.child(name), *count, "cannot be greater than status.replicas"));
        }
    }
    if let Some((name, count)) = replicas.parts.last()
        && *count > replicas.ready
    {
        let why = format!("cannot be greater than {}", replicas.ready_name);
        errors.push(Error::invalid(&path.child(name), *count, why));
    }
    errors
}

/// The errors of the counts in the status of a replica set or of a replication controller, which has the same
/// fields.
pub(crate) fn replica_set_counts(object: &Map) -> List {
    let path = Path::new("status");
    let status = ReplicaSet::of(object).status();
    let (all, labeled) = (status.replicas(), status.fully_labeled_replicas());
    let (ready, available) = (status.ready_replicas(), status.available_replicas());
    let mut errors = counters(
        &[
            ("replicas", all),
            ("fullyLabeledReplicas", labeled),
            ("readyReplicas", ready),
            ("availableReplicas", available),
            ("observedGeneration", status.observed_generation()),
            ("terminatingReplicas", status.terminating_replicas().unwrap_or_default()),
        ],
        &path,
    );
    let parts =
        &[("fullyLabeledReplicas", labeled), ("readyReplicas", ready), ("availableReplicas", available)];
    errors.append(replicas(&Replicas { all, parts, ready, ready_name: "readyReplicas" }, &path));
    errors
}

/// The error of a collision count that goes down or away.
pub(crate) fn collision_count(new: Option<i64>, old: Option<i64>, status: &Path<'_>) -> Option<Error> {
    let lower = old.is_some_and(|old| new.is_none_or(|new| new < old));
    lower.then(|| {
        Error::invalid(&status.child("collisionCount"), new.unwrap_or_default(), "cannot be decremented")
    })
}

/// The warning for an object whose name cannot be part of the names of hosts.
pub(crate) fn name_warning(object: &Map) -> Option<String> {
    let messages = dns1123_label(object_meta::text(object, "name"));
    (!messages.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
            messages.join(" ")
        )
    })
}

/// Whether the new state has another generation.
pub(crate) fn has_new_generation(new: &Map, old: &Map) -> bool {
    let generation = |object| object_meta::number(object, "generation");
    generation(new) != generation(old)
}

/// The warnings for the template of an object: of a new one, and of one with another generation.
pub(crate) fn template_warnings<'a>(
    new: &'a Map,
    old: Option<&'a Map>,
    template: impl Fn(&'a Map) -> PodTemplateSpec<'a>,
) -> Vec<String> {
    let spec = Path::new("spec");
    let path = spec.child("template");
    match old {
        Some(old) if !has_new_generation(new, old) => Vec::new(),
        old => template::warnings(template(new), old.map(&template), &path),
    }
}

/// The warnings for the name of a new object, and for its template.
pub(crate) fn warnings<'a>(
    new: &'a Map,
    old: Option<&'a Map>,
    template: impl Fn(&'a Map) -> PodTemplateSpec<'a>,
) -> Vec<String> {
    let name = if old.is_none() { name_warning(new) } else { None };
    name.into_iter().chain(template_warnings(new, old, template)).collect()
}
