//! `replicasets`.

use crate::Resets;
use crate::cells::{CONTAINERS, IMAGES, container_images, container_names, selector};
use crate::core::pod_rules::PodOptions;
use crate::core::pod_spec;
use crate::defaults::{fill, within};
use crate::template::{self, POD_SPEC};
use crate::{
    About, Cell, Column, Columns, Context, Generation, Kind, Row, Rules, Strategy, Subresource, checks,
    workload,
};
use object::Map;
use object::field::{List, Path};
use schema::view::View;
use schema::views::apps::v1::ReplicaSet;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "apps",
    resource: "replicasets",
    singular: "replicaset",
    kind: "ReplicaSet",
    short_names: &["rs"],
    categories: &["all"],
    subresources: &[Subresource::scale(&workload::SCALE), Subresource::STATUS],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::integer("Desired", About::Field("apps.v1.ReplicaSetSpec", "replicas")),
            Column::integer("Current", About::Field("apps.v1.ReplicaSetStatus", "replicas")),
            Column::integer("Ready", About::Field("apps.v1.ReplicaSetStatus", "readyReplicas")),
            Column::AGE,
            CONTAINERS,
            IMAGES,
            Column::text(
                "Selector",
                About::Text(
                    "Selector is a label query over pods that should match the replica count. If the selector is \
                     empty, it is defaulted to the labels present on the pod template. Label keys and values that \
                     must match in order to be controlled by this replica set. More info: \
                     https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
                ),
            )
            .wide(),
        ],
        row,
    },
    generation: Generation::Counted,
    resets: &Resets::STATUS,
    update_checks: workload::CHECKED_TWICE,
    strategy: &ReplicaSetStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let set = ReplicaSet::of(object);
    let (spec, status) = (set.spec(), set.status());
    vec![
        Cell::name(object),
        Cell::Integer(spec.replicas().unwrap_or_default()),
        Cell::Integer(status.replicas()),
        Cell::Integer(status.ready_replicas()),
        Cell::age(object),
        container_names(spec.template()),
        container_images(spec.template()),
        selector(spec.selector()),
    ]
    .into()
}

struct ReplicaSetStrategy;

impl Strategy for ReplicaSetStrategy {
    fn default(&self, object: &mut Map) {
        within(object, "spec", |spec| {
            within(spec, "template", pod_spec::default_template);
            fill(spec, "replicas", 1i64);
        });
    }

    fn prepare_create(&self, object: &mut Map, _context: &Context<'_>) {
        template::drop_disabled(object, None, POD_SPEC);
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        template::drop_disabled(new, Some(old), POD_SPEC);
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
        let status = ReplicaSet::of(new).status();
        let (labeled, ready) = (status.fully_labeled_replicas(), status.ready_replicas());
        let available = status.available_replicas();
        errors.append(workload::counters(
            &[
                ("replicas", status.replicas()),
                ("fullyLabeledReplicas", labeled),
                ("readyReplicas", ready),
                ("availableReplicas", available),
                ("observedGeneration", status.observed_generation()),
                ("terminatingReplicas", status.terminating_replicas().unwrap_or_default()),
            ],
            &path,
        ));
        errors.append(workload::labeled_replicas(status.replicas(), labeled, ready, available, &path));
        errors
    }

    fn warnings(&self, new: &Map, old: Option<&Map>) -> Vec<String> {
        workload::warnings(new, old, |object| ReplicaSet::of(object).spec().template())
    }
}

fn validate_spec(object: &Map, old: Option<&Map>, rules: &Rules<'_>) -> List {
    let path = Path::new("spec");
    let spec = ReplicaSet::of(object).spec();
    let mut errors = List::new();
    errors.extend(checks::non_negative(spec.replicas().unwrap_or_default(), &path.child("replicas")));
    errors.extend(checks::non_negative(spec.min_ready_seconds(), &path.child("minReadySeconds")));
    let old = old.map(|old| ReplicaSet::of(old).spec().template());
    errors.append(super::selector_and_template(
        spec.selector(),
        spec.template(),
        &PodOptions::of_template(old, rules),
        &path,
    ));
    errors
}
