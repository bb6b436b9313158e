//! `replicasets`.

use crate::Resets;
use crate::cells::{CONTAINERS, IMAGES, container_images, container_names, selector};
use crate::core::pod_rules::PodOptions;
use crate::core::pod_spec;
use crate::defaults::{fill, update_or_insert_map};
use crate::template::POD_SPEC;
use crate::{
    About, Cell, Column, Context, Generation, Kind, OldVersion, Rules, Strategy, Subresource, Version,
    checks, columns, workload,
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
    versions: &[Version::V1.introduced(9)],
    old_versions: &[OldVersion::named("apps/v1beta2"), OldVersion::named("extensions/v1beta1").by(upgrade)],
    categories: &["all"],
    subresources: &[workload::SCALE, Subresource::STATUS],
    columns: columns!(|object| {
        let set = ReplicaSet::of(object);
        let (spec, status) = (set.spec(), set.status());
    } [
        Column::NAME => Cell::name(object),
        Column::integer("Desired", About::Field("apps.v1.ReplicaSetSpec", "replicas"))
            => Cell::Integer(spec.replicas().unwrap_or_default()),
        Column::integer("Current", About::Field("apps.v1.ReplicaSetStatus", "replicas"))
            => Cell::Integer(status.replicas()),
        Column::integer("Ready", About::Field("apps.v1.ReplicaSetStatus", "readyReplicas"))
            => Cell::Integer(status.ready_replicas()),
        Column::AGE => Cell::age(object),
        CONTAINERS => container_names(spec.template()),
        IMAGES => container_images(spec.template()),
        Column::text(
            "Selector",
            About::Text(
                "Selector is a label query over pods that should match the replica count. If the selector is \
                 empty, it is defaulted to the labels present on the pod template. Label keys and values that \
                 must match in order to be controlled by this replica set. More info: \
                 https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
            ),
        )
        .wide() => selector(spec.selector()),
    ]),
    generation: Generation::Counted,
    resets: &Resets::STATUS,
    pod_spec: POD_SPEC,
    update_checks: workload::CHECKED_TWICE,
    strategy: &ReplicaSetStrategy,
    ..Kind::PLAIN
};

/// Sets the defaults of `extensions/v1beta1`.
fn upgrade(object: &mut Map) {
    workload::take_labels_of_template(object);
    ReplicaSetStrategy.default(object);
}

struct ReplicaSetStrategy;

impl Strategy for ReplicaSetStrategy {
    fn default(&self, object: &mut Map) {
        update_or_insert_map(object, "spec", |spec| {
            update_or_insert_map(spec, "template", pod_spec::default_template);
            fill(spec, "replicas", 1i64);
        });
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
        errors.append(workload::replica_set_counts(new));
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
