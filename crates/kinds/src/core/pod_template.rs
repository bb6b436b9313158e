//! `podtemplates`.

use super::pod_rules::PodOptions;
use super::pod_spec;
use crate::cells::{container_images, container_names};
use crate::defaults::update_or_insert_map;
use crate::{
    About, Cell, Check, Column, Deleted, Generation, Kind, Rules, Strategy, Version, columns, table,
    template, workload,
};
use object::Map;
use object::field::{List, Path};
use schema::view::View;
use schema::views::core::v1::PodTemplate;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "podtemplates",
    singular: "podtemplate",
    kind: "PodTemplate",
    versions: &[Version::V1.introduced(0)],
    columns: columns!(|object| {
        let template = PodTemplate::of(object).template();
    } [
        Column::NAME => Cell::name(object),
        Column::text("Containers", About::Text("Names of each container in the template."))
            => container_names(template),
        Column::text("Images", About::Text("Images referenced by each container in the template."))
            => container_images(template),
        Column::text("Pod Labels", About::Text("The labels for the pod template."))
            => Cell::Text(table::labels(template.metadata().labels())),
    ]),
    generation: Generation::Counted,
    deleted: Deleted::Object,
    pod_spec: &["template", "spec"],
    update_checks: &[Check::MetadataChange, Check::Object],
    strategy: &PodTemplateStrategy,
    ..Kind::PLAIN
};

struct PodTemplateStrategy;

impl Strategy for PodTemplateStrategy {
    fn default(&self, object: &mut Map) {
        update_or_insert_map(object, "template", pod_spec::default_template);
    }

    fn validate_object(&self, object: &Map, old: Option<&Map>, rules: &Rules<'_>) -> List {
        validate_template(object, old, rules)
    }

    fn warnings(&self, new: &Map, old: Option<&Map>) -> Vec<String> {
        let template = |object| PodTemplate::of(object).template();
        match old {
            Some(old) if !workload::has_new_generation(new, old) => Vec::new(),
            Some(old) => template::warnings(template(new), Some(template(old)), &Path::new("template")),
            None => template::warnings(template(new), None, &Path::new("template")),
        }
    }
}

fn validate_template(object: &Map, old: Option<&Map>, rules: &Rules<'_>) -> List {
    let template = PodTemplate::of(object).template();
    let old = old.map(|old| PodTemplate::of(old).template());
    template::validate(template, &PodOptions::of_template(old, rules), &Path::new("template"))
}
