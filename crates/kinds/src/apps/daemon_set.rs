//! `daemonsets`.
//!
//! The server counts template changes in an annotation. Clients can set it only at creation.

use crate::cells::{CONTAINERS, IMAGES, container_images, container_names, labels, selector};
use crate::core::pod_spec;
use crate::defaults::{at, fill, fill_text, within};
use crate::resets;
use crate::template::{self, POD_SPEC};
use crate::{
    About, Cell, Column, Columns, Context, Generation, Kind, Row, Strategy, Subresource, keep, keep_all_but,
    map_at, metadata,
};
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::apps::v1::DaemonSet;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "apps",
    resource: "daemonsets",
    singular: "daemonset",
    kind: "DaemonSet",
    short_names: &["ds"],
    categories: &["all"],
    subresources: &[Subresource::STATUS],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::integer("Desired", About::Field("apps.v1.DaemonSetStatus", "desiredNumberScheduled")),
            Column::integer("Current", About::Field("apps.v1.DaemonSetStatus", "currentNumberScheduled")),
            Column::integer(
                "Ready",
                About::Text(
                    "The number of nodes that should be running the daemon pod and have one or more of the \
                     daemon pod running and ready.",
                ),
            ),
            Column::integer("Up-to-date", About::Field("apps.v1.DaemonSetStatus", "updatedNumberScheduled")),
            Column::integer("Available", About::Field("apps.v1.DaemonSetStatus", "numberAvailable")),
            Column::text("Node Selector", About::Field("core.v1.PodSpec", "nodeSelector")),
            Column::AGE,
            CONTAINERS,
            IMAGES,
            Column::text(
                "Selector",
                About::Text(
                    "A label query over pods that are managed by the daemon set. Must match in order to be \
                     controlled. If empty, defaulted to labels on Pod template. More info: \
                     https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
                ),
            )
            .wide(),
        ],
        row,
    },
    field_annotations: &[TEMPLATE_GENERATION],
    generation: Generation::Counted,
    resets: resets::STATUS,
    strategy: &DaemonSetStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let set = DaemonSet::of(object);
    let (spec, status) = (set.spec(), set.status());
    vec![
        Cell::name(object),
        Cell::Integer(status.desired_number_scheduled()),
        Cell::Integer(status.current_number_scheduled()),
        Cell::Integer(status.number_ready()),
        Cell::Integer(status.updated_number_scheduled()),
        Cell::Integer(status.number_available()),
        labels(spec.template().spec().node_selector()),
        Cell::age(object),
        container_names(spec.template()),
        container_images(spec.template()),
        selector(spec.selector()),
    ]
    .into()
}

struct DaemonSetStrategy;

impl Strategy for DaemonSetStrategy {
    fn default(&self, object: &mut Map) {
        within(object, "spec", |spec| {
            within(spec, "template", pod_spec::default_template);
            within(spec, "updateStrategy", update_strategy);
            fill(spec, "revisionHistoryLimit", 10i64);
        });
    }

    fn complete(&self, object: &mut Map) {
        set_template_generation(object, template_generation(object));
    }

    fn prepare_create(&self, object: &mut Map, _context: &Context<'_>) {
        object.remove("status");
        template::drop_disabled(object, None, POD_SPEC);
        let number = template_generation(object).max(1);
        set_template_generation(object, number);
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        keep(new, old, "status");
        template::drop_disabled(new, Some(old), POD_SPEC);
        let changed = template::differs(new, old);
        set_template_generation(new, template_generation(old).saturating_add(i64::from(changed)));
    }

    fn prepare_status(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        keep_all_but(new, old, &["apiVersion", "kind", "metadata", "status"]);
        set_template_generation(new, template_generation(old));
    }
}

fn update_strategy(strategy: &mut Map) {
    fill_text(strategy, "type", "RollingUpdate");
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
        fill(strategy, "rollingUpdate", Map::new());
        at(strategy, "rollingUpdate", |update| {
            fill(update, "maxUnavailable", 1i64);
            fill(update, "maxSurge", 0i64);
        });
    }
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(object: &Map) -> i64 {
    let text = metadata(object).annotations().get(TEMPLATE_GENERATION);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn set_template_generation(object: &mut Map, number: i64) {
    let metadata = map_at(object, "metadata");
    if let Some(annotations) = metadata.and_then(|metadata| map_at(metadata, "annotations")) {
        annotations.insert(Key::known(TEMPLATE_GENERATION), number.to_string());
    }
}
