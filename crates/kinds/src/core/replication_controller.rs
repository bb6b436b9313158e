//! `replicationcontrollers`.

use super::{pod_gates, pod_spec};
use crate::defaults::{at, fill};
use crate::resets;
use crate::{
    About, Cell, Column, Columns, Context, Dependents, Generation, Kind, Refusal, Row, ScalePaths,
    SelectableFields, SelectableRow, Strategy, Subresource, keep, map_at, table,
};
use object::{Map, Value};
use schema::view::{Items, View};
use schema::views::core::v1::{Container, ReplicationController};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "replicationcontrollers",
    singular: "replicationcontroller",
    kind: "ReplicationController",
    short_names: &["rc"],
    categories: &["all"],
    subresources: &[Subresource::scale(&SCALE), Subresource::STATUS],
    columns: Columns { list: COLUMNS, row },
    fields: SelectableFields {
        list: &[SelectableRow {
            name: "status.replicas",
            paths: &["status.replicas"],
            absent: "0",
            indexed: false,
        }],
        refusal: Refusal::NotSupported,
    },
    generation: Generation::Counted,
    dependents: Dependents::Orphan,
    key_prefix: Some("controllers"),
    resets: resets::STATUS,
    strategy: &ReplicationControllerStrategy,
    ..Kind::PLAIN
};

const SCALE: ScalePaths = ScalePaths {
    spec_replicas: &["spec", "replicas"],
    status_replicas: &["status", "replicas"],
    selector: &["spec", "selector"],
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::integer("Desired", About::Field("core.v1.ReplicationControllerSpec", "replicas")),
    Column::integer("Current", About::Field("core.v1.ReplicationControllerStatus", "replicas")),
    Column::integer("Ready", About::Field("core.v1.ReplicationControllerStatus", "readyReplicas")),
    Column::AGE,
    Column::text("Containers", About::Text("Names of each container in the template.")).wide(),
    Column::text("Images", About::Text("Images referenced by each container in the template.")).wide(),
    Column::text("Selector", About::Field("core.v1.ReplicationControllerSpec", "selector")).wide(),
];

fn row(object: &Map) -> Row {
    let controller = ReplicationController::of(object);
    let (spec, status) = (controller.spec(), controller.status());
    let containers = spec.template().map(|template| template.spec().containers());
    vec![
        Cell::name(object),
        Cell::Integer(spec.replicas().unwrap_or_default()),
        Cell::Integer(status.replicas()),
        Cell::Integer(status.ready_replicas()),
        Cell::age(object),
        Cell::Text(containers.map(names).unwrap_or_default()),
        Cell::Text(containers.map(images).unwrap_or_default()),
        Cell::Text(table::labels(spec.selector())),
    ]
    .into()
}

/// The names of containers.
pub(super) fn names(containers: Items<'_, Container<'_>>) -> String {
    containers.iter().map(Container::name).collect::<Vec<_>>().join(",")
}

/// The images of containers.
pub(super) fn images(containers: Items<'_, Container<'_>>) -> String {
    containers.iter().map(Container::image).collect::<Vec<_>>().join(",")
}

struct ReplicationControllerStrategy;

impl Strategy for ReplicationControllerStrategy {
    fn default(&self, controller: &mut Map) {
        at(controller, "spec", |spec| at(spec, "template", pod_spec::default_template));
        let labels = ReplicationController::of(controller).spec().template();
        let labels = labels.map(|template| template.metadata().labels().map().clone()).unwrap_or_default();
        if labels.is_empty() {
            return;
        }
        at(controller, "spec", |spec| fill(spec, "selector", labels.clone()));
        if let Some(metadata) = map_at(controller, "metadata") {
            fill(metadata, "labels", labels);
        }
    }

    fn prepare_create(&self, controller: &mut Map, _context: &Context<'_>) {
        controller.remove("status");
        at(controller, "spec", |spec| {
            at(spec, "template", |template| {
                at(template, "spec", |spec| pod_gates::drop_disabled(spec, None))
            });
        });
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        keep(new, old, "status");
        let old = old.get("spec").and_then(|spec| spec.get("template")?.get("spec")).and_then(Value::as_map);
        at(new, "spec", |spec| {
            at(spec, "template", |template| at(template, "spec", |spec| pod_gates::drop_disabled(spec, old)));
        });
    }
}
