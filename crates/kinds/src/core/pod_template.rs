//! `podtemplates`.

use super::replication_controller::{images, names};
use super::{pod_gates, pod_spec};
use crate::defaults::{at, within};
use crate::{About, Cell, Column, Columns, Context, Deleted, Generation, Kind, Row, Strategy, table};
use object::{Map, Value};
use schema::view::View;
use schema::views::core::v1::PodTemplate;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "podtemplates",
    singular: "podtemplate",
    kind: "PodTemplate",
    columns: Columns { list: COLUMNS, row },
    generation: Generation::Counted,
    deleted: Deleted::Object,
    strategy: &PodTemplateStrategy,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Containers", About::Text("Names of each container in the template.")),
    Column::text("Images", About::Text("Images referenced by each container in the template.")),
    Column::text("Pod Labels", About::Text("The labels for the pod template.")),
];

fn row(object: &Map) -> Row {
    let template = PodTemplate::of(object).template();
    let containers = template.spec().containers();
    vec![
        Cell::name(object),
        Cell::Text(names(containers)),
        Cell::Text(images(containers)),
        Cell::Text(table::labels(template.metadata().labels())),
    ]
    .into()
}

struct PodTemplateStrategy;

impl Strategy for PodTemplateStrategy {
    fn default(&self, object: &mut Map) {
        within(object, "template", pod_spec::default_template);
    }

    fn prepare_create(&self, object: &mut Map, _context: &Context<'_>) {
        at(object, "template", |template| at(template, "spec", |spec| pod_gates::drop_disabled(spec, None)));
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        let old = old.get("template").and_then(|template| template.get("spec")).and_then(Value::as_map);
        at(new, "template", |template| at(template, "spec", |spec| pod_gates::drop_disabled(spec, old)));
    }
}
