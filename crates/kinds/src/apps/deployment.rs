//! `deployments`.

use crate::cells::{CONTAINERS, IMAGES, container_images, container_names, read_selector};
use crate::core::pod_spec;
use crate::defaults::{at, fill, fill_text, within};
use crate::template::{self, POD_SPEC};
use crate::{
    About, Cell, Column, Columns, Context, Generation, Kind, Row, ScalePaths, Strategy, Subresource,
    differs_but_for, keep, keep_all_but, map_at,
};
use object::{Map, Value};
use schema::view::View;
use schema::views::apps::v1::Deployment;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "apps",
    resource: "deployments",
    singular: "deployment",
    kind: "Deployment",
    short_names: &["deploy"],
    categories: &["all"],
    subresources: &[Subresource::scale(&SCALE), Subresource::STATUS],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text("Ready", About::Text("Number of the pod with ready state")),
            Column::text("Up-to-date", About::Field("apps.v1.DeploymentStatus", "updatedReplicas")),
            Column::text("Available", About::Field("apps.v1.DeploymentStatus", "availableReplicas")),
            Column::AGE,
            CONTAINERS,
            IMAGES,
            Column::text(
                "Selector",
                About::Text(
                    "Label selector for pods. Existing ReplicaSets whose pods are selected by this will be the \
                     ones affected by this deployment.",
                ),
            )
            .wide(),
        ],
        row,
    },
    generation: Generation::Counted,
    resets: &[("", &[&["status"]]), ("status", &[&["spec"], &["metadata", "labels"]])],
    strategy: &DeploymentStrategy,
    ..Kind::PLAIN
};

const SCALE: ScalePaths = ScalePaths {
    spec_replicas: &["spec", "replicas"],
    status_replicas: &["status", "replicas"],
    selector: &["spec", "selector"],
};

fn row(object: &Map) -> Row {
    let deployment = Deployment::of(object);
    let (spec, status) = (deployment.spec(), deployment.status());
    let selector = read_selector(spec.selector());
    vec![
        Cell::name(object),
        Cell::Text(format!("{}/{}", status.ready_replicas(), spec.replicas().unwrap_or_default())),
        Cell::Integer(status.updated_replicas()),
        Cell::Integer(status.available_replicas()),
        Cell::age(object),
        container_names(spec.template()),
        container_images(spec.template()),
        Cell::Text(selector.map_or_else(|_| "<invalid>".into(), |selector| selector.to_string())),
    ]
    .into()
}

struct DeploymentStrategy;

impl Strategy for DeploymentStrategy {
    fn default(&self, object: &mut Map) {
        at(object, "metadata", rollback);
        within(object, "spec", |spec| {
            within(spec, "template", pod_spec::default_template);
            fill(spec, "replicas", 1i64);
            within(spec, "strategy", strategy);
            fill(spec, "revisionHistoryLimit", 10i64);
            fill(spec, "progressDeadlineSeconds", 600i64);
        });
    }

    fn prepare_create(&self, object: &mut Map, _context: &Context<'_>) {
        object.remove("status");
        template::drop_disabled(object, None, POD_SPEC);
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        keep(new, old, "status");
        template::drop_disabled(new, Some(old), POD_SPEC);
    }

    fn prepare_status(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        keep_all_but(new, old, &["apiVersion", "kind", "metadata", "status"]);
        if let Some(metadata) = map_at(new, "metadata") {
            keep(metadata, crate::metadata(old).map(), "labels");
        }
        super::drop_terminating(new, old);
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
        at(strategy, "rollingUpdate", |update| {
            fill_text(update, "maxUnavailable", "25%");
            fill_text(update, "maxSurge", "25%");
        });
    }
}

/// Normalizes the annotation with the revision to roll back to: a number, or no annotation if it is empty.
fn rollback(metadata: &mut Map) {
    const ROLLBACK: &str = "deprecated.deployment.rollback.to";
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
