//! `deployments`.

use crate::Resets;
use crate::cells::{CONTAINERS, IMAGES, container_images, container_names, read_selector};
use crate::core::pod_rules::PodOptions;
use crate::core::pod_spec;
use crate::defaults::{fill, fill_text, update_map, update_or_insert_map};
use crate::template::POD_SPEC;
use crate::{
    About, Cell, Check, Column, Context, Generation, Kind, OldVersion, Rules, Strategy, Subresource, Version,
    checks, columns, differs_but_for, int_or_percent, workload,
};
use object::field::{Error, List, Path};
use object::quote::Quoted;
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::apps::v1::{Deployment, DeploymentStatus, DeploymentStrategy as UpdateStrategy};
use schema::views::apps::v1beta1;
use std::num::IntErrorKind;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "apps",
    resource: "deployments",
    singular: "deployment",
    kind: "Deployment",
    short_names: &["deploy"],
    versions: &[Version::V1.introduced(9)],
    old_versions: &[
        OldVersion::named("apps/v1beta2"),
        OldVersion::named("apps/v1beta1").of(v1beta1::Deployment::schema).by(upgrade_v1beta1),
        OldVersion::named("extensions/v1beta1").of(v1beta1::Deployment::schema).by(upgrade_extensions),
    ],
    categories: &["all"],
    subresources: &[workload::SCALE, Subresource::STATUS],
    columns: columns!(|object| {
        let deployment = Deployment::of(object);
        let (spec, status) = (deployment.spec(), deployment.status());
        let selector = read_selector(spec.selector());
    } [
        Column::NAME => Cell::name(object),
        Column::text("Ready", About::Text("Number of the pod with ready state"))
            => Cell::Text(format!("{}/{}", status.ready_replicas(), spec.replicas().unwrap_or_default())),
        Column::text("Up-to-date", About::Field("apps.v1.DeploymentStatus", "updatedReplicas"))
            => Cell::Integer(status.updated_replicas()),
        Column::text("Available", About::Field("apps.v1.DeploymentStatus", "availableReplicas"))
            => Cell::Integer(status.available_replicas()),
        Column::AGE => Cell::age(object),
        CONTAINERS => container_names(spec.template()),
        IMAGES => container_images(spec.template()),
        Column::text(
            "Selector",
            About::Text(
                "Label selector for pods. Existing ReplicaSets whose pods are selected by this will be the \
                 ones affected by this deployment.",
            ),
        )
        .wide() => Cell::Text(selector.map_or_else(|_| "<invalid>".into(), |selector| selector.to_string())),
    ]),
    generation: Generation::Counted,
    resets: &Resets {
        update: &[("", &[&["status"]]), ("status", &[&["spec"], &["metadata", "labels"]])],
        ..Resets::STATUS
    },
    pod_spec: POD_SPEC,
    update_checks: &[Check::MetadataChange, Check::Object, Check::Change],
    strategy: &DeploymentStrategy,
    ..Kind::PLAIN
};

/// Sets the defaults of `apps/v1beta1`, and moves the revision to roll back to to its annotation.
fn upgrade_v1beta1(object: &mut Map) {
    update_or_insert_map(object, "spec", |spec| fill(spec, "revisionHistoryLimit", 2i64));
    upgrade(object);
}

/// The same for `extensions/v1beta1`.
fn upgrade_extensions(object: &mut Map) {
    update_or_insert_map(object, "spec", |spec| {
        update_or_insert_map(spec, "strategy", |strategy| {
            if !strategy.contains_key("type") {
                fill(strategy, "rollingUpdate", Map::new());
            }
            update_map(strategy, "rollingUpdate", |update| {
                fill(update, "maxUnavailable", 1i64);
                fill(update, "maxSurge", 1i64);
            });
        });
        fill(spec, "revisionHistoryLimit", i64::from(i32::MAX));
        fill(spec, "progressDeadlineSeconds", i64::from(i32::MAX));
    });
    upgrade(object);
}

fn upgrade(object: &mut Map) {
    workload::take_labels_of_template(object);
    let mut rollback = None;
    update_map(object, "spec", |spec| rollback = spec.remove("rollbackTo"));
    update_or_insert_map(object, "metadata", |metadata| {
        update_or_insert_map(metadata, "annotations", |annotations| {
            annotations.remove(ROLLBACK);
            if let Some(to) = rollback {
                let revision = to.get("revision").and_then(Value::as_i64).unwrap_or_default();
                annotations.insert(Key::known(ROLLBACK), revision.to_string());
            }
        });
    });
    DeploymentStrategy.default(object);
}

struct DeploymentStrategy;

impl Strategy for DeploymentStrategy {
    fn default(&self, object: &mut Map) {
        update_map(object, "metadata", rollback);
        update_or_insert_map(object, "spec", |spec| {
            update_or_insert_map(spec, "template", pod_spec::default_template);
            fill(spec, "replicas", 1i64);
            update_or_insert_map(spec, "strategy", strategy);
            fill(spec, "revisionHistoryLimit", 10i64);
            fill(spec, "progressDeadlineSeconds", 600i64);
        });
    }

    fn conversion_fault(&self, object: &Map) -> Option<String> {
        let text = crate::metadata(object).annotations().get(ROLLBACK).filter(|text| !text.is_empty())?;
        let why = match text.parse::<i64>().err()?.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        let quoted = Quoted(text);
        Some(format!(
            "failed to parse annotation[{ROLLBACK}]={text} as int64: strconv.ParseInt: parsing {quoted}: {why}"
        ))
    }

    fn prepare_status(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        super::drop_terminating(new, old);
    }

    fn validate_object(&self, object: &Map, old: Option<&Map>, rules: &Rules<'_>) -> List {
        validate_spec(object, old, rules)
    }

    fn validate_change(&self, new: &Map, old: &Map) -> List {
        workload::immutable_selector(new, old).into_iter().collect()
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata_update(new, old);
        let path = Path::new("status");
        let status = Deployment::of(new).status();
        errors.append(validate_counts(status, &path));
        let before = Deployment::of(old).status().collision_count();
        errors.extend(workload::collision_count(status.collision_count(), before, &path));
        errors
    }

    fn warnings(&self, new: &Map, old: Option<&Map>) -> Vec<String> {
        workload::warnings(new, old, |object| Deployment::of(object).spec().template())
    }

    /// A change of annotations counts too.
    fn bumps_generation(&self, new: &Map, old: &Map) -> bool {
        let annotations =
            |object: &Map| object.get("metadata").and_then(|metadata| metadata.get("annotations")).cloned();
        differs_but_for(new, old, &["apiVersion", "kind", "metadata", "status"])
            || annotations(new) != annotations(old)
    }
}

fn strategy(strategy: &mut Map) {
    fill_text(strategy, "type", "RollingUpdate");
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
        fill(strategy, "rollingUpdate", Map::new());
        update_map(strategy, "rollingUpdate", |update| {
            fill_text(update, "maxUnavailable", "25%");
            fill_text(update, "maxSurge", "25%");
        });
    }
}

/// The annotation with the revision to roll back to.
const ROLLBACK: &str = "deprecated.deployment.rollback.to";

/// Normalizes the annotation: a number, or no annotation if it is empty.
fn rollback(metadata: &mut Map) {
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_map_mut) else { return };
    let Some(text) = annotations.get(ROLLBACK).and_then(Value::as_str) else { return };
    if let Ok(number) = text.parse::<i64>() {
        annotations.insert(ROLLBACK, number.to_string());
    } else if text.is_empty() {
        annotations.remove(ROLLBACK);
    }
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

fn validate_spec(object: &Map, old: Option<&Map>, rules: &Rules<'_>) -> List {
    let path = Path::new("spec");
    let spec = Deployment::of(object).spec();
    let mut errors = List::new();
    errors.extend(checks::non_negative(spec.replicas().unwrap_or_default(), &path.child("replicas")));
    let old = old.map(|old| Deployment::of(old).spec().template());
    errors.append(super::selector_and_template(
        spec.selector(),
        spec.template(),
        &PodOptions::of_template(old, rules),
        &path,
    ));
    errors.append(validate_strategy(spec.strategy(), &path.child("strategy")));
    let ready = spec.min_ready_seconds();
    errors.extend(checks::non_negative(ready, &path.child("minReadySeconds")));
    let history = spec.revision_history_limit().unwrap_or_default();
    errors.extend(checks::non_negative(history, &path.child("revisionHistoryLimit")));
    let rollback = crate::metadata(object).annotations().get(ROLLBACK).and_then(|text| text.parse().ok());
    let revision = rollback.unwrap_or_default();
    errors.extend(checks::non_negative(revision, &path.child("rollback").child("version")));
    if let Some(deadline) = spec.progress_deadline_seconds() {
        let path = path.child("progressDeadlineSeconds");
        errors.extend(checks::non_negative(deadline, &path));
        if deadline <= ready {
            errors.push(Error::invalid(&path, deadline, "must be greater than minReadySeconds"));
        }
    }
    errors
}

fn validate_strategy(strategy: UpdateStrategy<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let rolling_path = path.child("rollingUpdate");
    match (strategy.r#type(), strategy.rolling_update()) {
        ("Recreate", None) => {}
        ("Recreate", Some(_)) => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            errors.push(Error::forbidden(&rolling_path, why));
        }
        ("RollingUpdate", None) => {
            errors.push(Error::required(&rolling_path, "this should be defaulted and never be nil"));
        }
        ("RollingUpdate", Some(update)) => {
            let (unavailable, surge) = (update.max_unavailable(), update.max_surge());
            let unavailable_path = rolling_path.child("maxUnavailable");
            errors.append(int_or_percent::validate(unavailable, &unavailable_path));
            errors.append(int_or_percent::validate(surge, &rolling_path.child("maxSurge")));
            if int_or_percent::number(unavailable) == 0 && int_or_percent::number(surge) == 0 {
                let why = "may not be 0 when `maxSurge` is 0";
                errors.push(Error::invalid(&unavailable_path, int_or_percent::shown(unavailable), why));
            }
            errors.extend(int_or_percent::at_most_all(unavailable, &unavailable_path));
        }
        _ => {
            let shown =
                super::shown_strategy(strategy.map(), "DeploymentStrategy", "RollingUpdateDeployment");
            errors.push(Error::not_supported(path, shown, ["Recreate", "RollingUpdate"]));
        }
    }
    errors
}

fn validate_counts(status: DeploymentStatus<'_>, path: &Path<'_>) -> List {
    let (updated, ready) = (status.updated_replicas(), status.ready_replicas());
    let available = status.available_replicas();
    let mut errors = workload::counters(
        &[
            ("observedGeneration", status.observed_generation()),
            ("replicas", status.replicas()),
            ("updatedReplicas", updated),
            ("readyReplicas", ready),
            ("availableReplicas", available),
            ("unavailableReplicas", status.unavailable_replicas()),
            ("terminatingReplicas", status.terminating_replicas().unwrap_or_default()),
            ("collisionCount", status.collision_count().unwrap_or_default()),
        ],
        path,
    );
    let replicas = workload::Replicas {
        all: status.replicas(),
        parts: &[("updatedReplicas", updated), ("readyReplicas", ready), ("availableReplicas", available)],
        ready,
        ready_name: "readyReplicas",
    };
    errors.append(workload::replicas(&replicas, path));
    errors
}
