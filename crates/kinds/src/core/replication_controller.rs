//! `replicationcontrollers`.

use super::pod_rules::PodOptions;
use super::pod_spec;
use crate::Resets;
use crate::cells::{CONTAINERS, IMAGES, container_images, container_names};
use crate::defaults::{fill, update_map};
use crate::{
    About, Cell, Column, Dependents, Generation, Kind, Refusal, Rules, SelectableFields, SelectableRow,
    Strategy, Subresource, Version, checks, columns, map_at, table, template, workload,
};
use object::Map;
use object::field::{Error, List, Path};
use schema::view::{Item, View};
use schema::views::core::v1::{PodTemplateSpec, ReplicationController};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "replicationcontrollers",
    singular: "replicationcontroller",
    kind: "ReplicationController",
    short_names: &["rc"],
    categories: &["all"],
    versions: &[Version::V1.introduced(0)],
    subresources: &[workload::SCALE, Subresource::STATUS],
    columns: columns!(|object| {
        let controller = ReplicationController::of(object);
        let (spec, status) = (controller.spec(), controller.status());
        let template = spec.template().unwrap_or_else(PodTemplateSpec::absent);
    } [
        Column::NAME => Cell::name(object),
        Column::integer("Desired", About::Field("core.v1.ReplicationControllerSpec", "replicas"))
            => Cell::Integer(spec.replicas().unwrap_or_default()),
        Column::integer("Current", About::Field("core.v1.ReplicationControllerStatus", "replicas"))
            => Cell::Integer(status.replicas()),
        Column::integer("Ready", About::Field("core.v1.ReplicationControllerStatus", "readyReplicas"))
            => Cell::Integer(status.ready_replicas()),
        Column::AGE => Cell::age(object),
        CONTAINERS => container_names(template),
        IMAGES => container_images(template),
        Column::text("Selector", About::Field("core.v1.ReplicationControllerSpec", "selector")).wide()
            => Cell::Text(table::labels(spec.selector())),
    ]),
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
    resets: &Resets::STATUS,
    pod_spec: template::POD_SPEC,
    update_checks: workload::CHECKED_TWICE,
    strategy: &ReplicationControllerStrategy,
    ..Kind::PLAIN
};

struct ReplicationControllerStrategy;

impl Strategy for ReplicationControllerStrategy {
    fn default(&self, controller: &mut Map) {
        update_map(controller, "spec", |spec| update_map(spec, "template", pod_spec::default_template));
        let labels = ReplicationController::of(controller).spec().template();
        let labels = labels.map(|template| template.metadata().labels().map().clone()).unwrap_or_default();
        if labels.is_empty() {
            return;
        }
        update_map(controller, "spec", |spec| fill(spec, "selector", labels.clone()));
        if let Some(metadata) = map_at(controller, "metadata") {
            fill(metadata, "labels", labels);
        }
    }

    fn validate_object(&self, object: &Map, old: Option<&Map>, rules: &Rules<'_>) -> List {
        validate_spec(object, old, rules)
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata_update(new, old);
        errors.append(workload::replica_set_counts(new));
        errors
    }

    /// Those for the name of a new controller, and those for the template. After a change the reference looks
    /// for what the old template has and the new one does not.
    fn warnings(&self, new: &Map, old: Option<&Map>) -> Vec<String> {
        let spec = Path::new("spec");
        let path = spec.child("template");
        let Some(old) = old else {
            let template = ReplicationController::of(new).spec().template();
            let template = template.map(|template| template::warnings(template, None, &path));
            return workload::name_warning(new).into_iter().chain(template.unwrap_or_default()).collect();
        };
        if !workload::has_new_generation(new, old) {
            return Vec::new();
        }
        let (new, old) = (ReplicationController::of(new).spec(), ReplicationController::of(old).spec());
        let warnings = old.template().map(|before| template::warnings(before, new.template(), &path));
        warnings.unwrap_or_default()
    }
}

fn validate_spec(object: &Map, old: Option<&Map>, rules: &Rules<'_>) -> List {
    let path = Path::new("spec");
    let spec = ReplicationController::of(object).spec();
    let mut errors = List::new();
    errors.extend(checks::non_negative(spec.min_ready_seconds(), &path.child("minReadySeconds")));
    let selector = spec.selector();
    if selector.is_empty() {
        errors.push(Error::required(&path.child("selector"), ""));
    }
    let replicas = path.child("replicas");
    match spec.replicas() {
        None => errors.push(Error::required(&replicas, "")),
        Some(number) => errors.extend(checks::non_negative(number, &replicas)),
    }
    let path = path.child("template");
    let Some(template) = spec.template() else {
        errors.push(Error::required(&path, ""));
        return errors;
    };
    let there = template.metadata().labels().map().index();
    let is_there =
        |(key, value): (&str, &str)| there.get(key).and_then(|label| label.as_str()) == Some(value);
    if !selector.iter().all(is_there) {
        errors.push(workload::not_selected(template, &path));
    }
    let old = old.and_then(|old| ReplicationController::of(old).spec().template());
    errors.append(template::validate(template, &PodOptions::of_template(old, rules), &path));
    errors.append(workload::always_restarted(template.spec(), "ReplicationController", &path.child("spec")));
    errors
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, status, update};

    fn controller(rest: &str) -> String {
        format!(r#"{{"apiVersion":"v1","kind":"ReplicationController",{rest}}}"#)
    }

    const TEMPLATE: &str =
        r#""template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;

    #[test]
    fn selector_picks_the_template() {
        let of = |spec: &str| controller(&format!(r#""spec":{{{spec}}}"#));
        let valid = of(TEMPLATE);
        assert_eq!(create(&valid), [""; 0]);
        assert_eq!(
            create(&of(r#""minReadySeconds":-1,"replicas":-3"#)),
            [
                "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.selector: Required value",
                "spec.replicas: Invalid value: -3: must be greater than or equal to 0",
                "spec.template: Required value",
            ]
        );
        let other = of(&format!(r#""selector":{{"a":"b","x":"y"}},{TEMPLATE}"#));
        let why = r#"spec.template.metadata.labels: Invalid value: map[string]string{"a":"b"}: `selector` does not match template `labels`"#;
        assert_eq!(create(&other), [why]);
        assert_eq!(update(&other, &valid), [why, why], "an update is checked twice");
    }

    #[test]
    fn counts_of_replicas_fit_together() {
        let new = controller(r#""status":{"replicas":1,"fullyLabeledReplicas":2,"observedGeneration":-1}"#);
        assert_eq!(
            status(&new, &controller(r#""spec":{}"#)),
            [
                "status.observedGeneration: Invalid value: -1: must be greater than or equal to 0",
                "status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas",
            ]
        );
    }
}
