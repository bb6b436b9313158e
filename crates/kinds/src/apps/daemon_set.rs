//! `daemonsets`.
//!
//! The server counts template changes in an annotation. Clients can set it only at creation.

use crate::Resets;
use crate::cells::{CONTAINERS, IMAGES, container_images, container_names, labels, selector};
use crate::core::pod_rules::PodOptions;
use crate::core::pod_spec;
use crate::defaults::{fill, fill_text, update_map, update_or_insert_map};
use crate::template::{self, POD_SPEC};
use crate::{
    About, Cell, Column, Context, Generation, Kind, OldVersion, Rules, Strategy, Subresource, Version,
    checks, columns, int_or_percent, label_selector, map_at, metadata, workload,
};
use object::field::{Error, List, Path};
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::apps::v1::{DaemonSet, DaemonSetUpdateStrategy, RollingUpdateDaemonSet};
use schema::views::extensions::v1beta1;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "apps",
    resource: "daemonsets",
    singular: "daemonset",
    kind: "DaemonSet",
    short_names: &["ds"],
    versions: &[Version::V1.introduced(9)],
    old_versions: &[
        OldVersion::named("apps/v1beta2"),
        OldVersion::named("extensions/v1beta1").of(v1beta1::DaemonSet::schema).by(upgrade),
    ],
    categories: &["all"],
    subresources: &[Subresource::STATUS],
    columns: columns!(|object| {
        let set = DaemonSet::of(object);
        let (spec, status) = (set.spec(), set.status());
    } [
        Column::NAME => Cell::name(object),
        Column::integer("Desired", About::Field("apps.v1.DaemonSetStatus", "desiredNumberScheduled"))
            => Cell::Integer(status.desired_number_scheduled()),
        Column::integer("Current", About::Field("apps.v1.DaemonSetStatus", "currentNumberScheduled"))
            => Cell::Integer(status.current_number_scheduled()),
        Column::integer(
            "Ready",
            About::Text(
                "The number of nodes that should be running the daemon pod and have one or more of the \
                 daemon pod running and ready.",
            ),
        ) => Cell::Integer(status.number_ready()),
        Column::integer("Up-to-date", About::Field("apps.v1.DaemonSetStatus", "updatedNumberScheduled"))
            => Cell::Integer(status.updated_number_scheduled()),
        Column::integer("Available", About::Field("apps.v1.DaemonSetStatus", "numberAvailable"))
            => Cell::Integer(status.number_available()),
        Column::text("Node Selector", About::Field("core.v1.PodSpec", "nodeSelector"))
            => labels(spec.template().spec().node_selector()),
        Column::AGE => Cell::age(object),
        CONTAINERS => container_names(spec.template()),
        IMAGES => container_images(spec.template()),
        Column::text(
            "Selector",
            About::Text(
                "A label query over pods that are managed by the daemon set. Must match in order to be \
                 controlled. If empty, defaulted to labels on Pod template. More info: \
                 https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
            ),
        )
        .wide() => selector(spec.selector()),
    ]),
    field_annotations: &[TEMPLATE_GENERATION],
    generation: Generation::Counted,
    resets: &Resets::STATUS,
    pod_spec: POD_SPEC,
    update_checks: workload::CHECKED_TWICE,
    strategy: &DaemonSetStrategy,
    ..Kind::PLAIN
};

/// Sets the defaults of `extensions/v1beta1`, and moves the generation of the template to its annotation.
fn upgrade(object: &mut Map) {
    workload::take_labels_of_template(object);
    let mut generation = None;
    update_or_insert_map(object, "spec", |spec| {
        update_or_insert_map(spec, "updateStrategy", |strategy| fill_text(strategy, "type", "OnDelete"));
        generation = spec.remove("templateGeneration").and_then(|number| number.as_i64());
    });
    set_template_generation(object, generation.unwrap_or_default());
    DaemonSetStrategy.default(object);
}

struct DaemonSetStrategy;

impl Strategy for DaemonSetStrategy {
    fn default(&self, object: &mut Map) {
        update_or_insert_map(object, "spec", |spec| {
            update_or_insert_map(spec, "template", pod_spec::default_template);
            update_or_insert_map(spec, "updateStrategy", update_strategy);
            fill(spec, "revisionHistoryLimit", 10i64);
        });
    }

    fn complete_stored(&self, object: &mut Map, _families: [&'static str; 2]) {
        self.complete(object);
    }

    fn complete(&self, object: &mut Map) {
        set_template_generation(object, template_generation(object));
    }

    fn prepare_create(&self, object: &mut Map, _context: &Context<'_>) {
        let number = template_generation(object).max(1);
        set_template_generation(object, number);
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        let changed = template::differs(new, old);
        set_template_generation(new, template_generation(old).saturating_add(i64::from(changed)));
    }

    fn prepare_status(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        set_template_generation(new, template_generation(old));
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
        let status = DaemonSet::of(new).status();
        errors.append(workload::counters(
            &[
                ("currentNumberScheduled", status.current_number_scheduled()),
                ("numberMisscheduled", status.number_misscheduled()),
                ("desiredNumberScheduled", status.desired_number_scheduled()),
                ("numberReady", status.number_ready()),
                ("observedGeneration", status.observed_generation()),
                ("updatedNumberScheduled", status.updated_number_scheduled()),
                ("numberAvailable", status.number_available()),
                ("numberUnavailable", status.number_unavailable()),
                ("collisionCount", status.collision_count().unwrap_or_default()),
            ],
            &path,
        ));
        let before = DaemonSet::of(old).status().collision_count();
        errors.extend(workload::collision_count(status.collision_count(), before, &path));
        errors
    }

    /// Those for the template, if it is new or has changed.
    fn warnings(&self, new: &Map, old: Option<&Map>) -> Vec<String> {
        let path = Path::new("spec");
        match old {
            Some(old) if template_generation(new) == template_generation(old) => Vec::new(),
            old => {
                let old = old.map(|old| DaemonSet::of(old).spec().template());
                template::warnings(DaemonSet::of(new).spec().template(), old, &path.child("template"))
            }
        }
    }
}

fn update_strategy(strategy: &mut Map) {
    fill_text(strategy, "type", "RollingUpdate");
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
        fill(strategy, "rollingUpdate", Map::new());
        update_map(strategy, "rollingUpdate", |update| {
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

fn validate_spec(object: &Map, old: Option<&Map>, rules: &Rules<'_>) -> List {
    let path = Path::new("spec");
    let spec = DaemonSet::of(object).spec();
    let old = old.map(|old| DaemonSet::of(old).spec());
    let (selector, template) = (spec.selector(), spec.template());
    let (selector_path, template_path) = (path.child("selector"), path.child("template"));
    let mut errors = List::new();
    if let Some(selector) = selector {
        let values = label_selector::values_after(old.and_then(|old| old.selector()));
        errors.append(label_selector::validate(selector, values, &selector_path));
    }
    errors.extend(workload::mismatch(selector, template, &template_path).ok().flatten());
    errors.extend(workload::empty_selector(selector, "daemonset", &selector_path));
    let options = PodOptions::of_template(old.map(|old| old.template()), rules);
    errors.append(template::validate(template, &options, &template_path));
    errors.append(workload::always_restarted(template.spec(), "DaemonSet", &template_path.child("spec")));
    errors.extend(checks::non_negative(spec.min_ready_seconds(), &path.child("minReadySeconds")));
    errors.append(validate_strategy(spec.update_strategy(), &path.child("updateStrategy")));
    let history = spec.revision_history_limit().unwrap_or_default();
    errors.extend(checks::non_negative(history, &path.child("revisionHistoryLimit")));
    errors
}

fn validate_strategy(strategy: DaemonSetUpdateStrategy<'_>, path: &Path<'_>) -> List {
    let rolling_path = path.child("rollingUpdate");
    match (strategy.r#type(), strategy.rolling_update()) {
        ("OnDelete", _) => List::new(),
        ("RollingUpdate", None) => Error::required(&rolling_path, "").into(),
        ("RollingUpdate", Some(update)) => validate_rolling_update(update, &rolling_path),
        _ => {
            let shown =
                super::shown_strategy(strategy.map(), "DaemonSetUpdateStrategy", "RollingUpdateDaemonSet");
            Error::not_supported(path, shown, ["RollingUpdate", "OnDelete"]).into()
        }
    }
}

fn validate_rolling_update(update: RollingUpdateDaemonSet<'_>, path: &Path<'_>) -> List {
    let (unavailable, surge) = (update.max_unavailable(), update.max_surge());
    let (unavailable_path, surge_path) = (path.child("maxUnavailable"), path.child("maxSurge"));
    let mut errors = int_or_percent::validate(unavailable, &unavailable_path);
    errors.append(int_or_percent::validate(surge, &surge_path));
    errors.extend(int_or_percent::at_most_all(unavailable, &unavailable_path));
    errors.extend(int_or_percent::at_most_all(surge, &surge_path));
    match (int_or_percent::number(unavailable), int_or_percent::number(surge)) {
        (0, 0) => errors.push(Error::required(&unavailable_path, "cannot be 0 when maxSurge is 0")),
        (0, _) | (_, 0) => {}
        _ => {
            let why = "may not be set when maxUnavailable is non-zero";
            errors.push(Error::invalid(&surge_path, int_or_percent::shown(surge), why));
        }
    }
    errors
}
