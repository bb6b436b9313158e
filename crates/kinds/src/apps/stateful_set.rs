//! `statefulsets`.

use crate::cells::{CONTAINERS, IMAGES, container_images, container_names};
use crate::core::pod_spec;
use crate::defaults::{at, each, fill, fill_text, round_up, within};
use crate::resets;
use crate::template::{self, POD_SPEC};
use crate::{
    About, Cell, Column, Columns, Context, Generation, Kind, NameRule, Row, ScalePaths, Strategy,
    Subresource, keep,
};
use object::{Key, Map};
use schema::view::View;
use schema::views::apps::v1::StatefulSet;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "apps",
    resource: "statefulsets",
    singular: "statefulset",
    kind: "StatefulSet",
    short_names: &["sts"],
    categories: &["all"],
    subresources: &[Subresource::scale(&SCALE), Subresource::STATUS],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text("Ready", About::Text("Number of the pod with ready state")),
            Column::AGE,
            CONTAINERS,
            IMAGES,
        ],
        row,
    },
    generation: Generation::Counted,
    resets: resets::STATUS,
    strategy: &StatefulSetStrategy,
    ..Kind::PLAIN
};

const SCALE: ScalePaths = ScalePaths {
    spec_replicas: &["spec", "replicas"],
    status_replicas: &["status", "replicas"],
    selector: &["spec", "selector"],
};

fn row(object: &Map) -> Row {
    let set = StatefulSet::of(object);
    let (spec, status) = (set.spec(), set.status());
    vec![
        Cell::name(object),
        Cell::Text(format!("{}/{}", status.ready_replicas(), spec.replicas().unwrap_or_default())),
        Cell::age(object),
        container_names(spec.template()),
        container_images(spec.template()),
    ]
    .into()
}

struct StatefulSetStrategy;

impl Strategy for StatefulSetStrategy {
    fn default(&self, object: &mut Map) {
        within(object, "spec", |spec| {
            within(spec, "template", pod_spec::default_template);
            each(spec, "volumeClaimTemplates", claim);
            fill_text(spec, "podManagementPolicy", "OrderedReady");
            within(spec, "updateStrategy", update_strategy);
            fill(spec, "persistentVolumeClaimRetentionPolicy", Map::new());
            at(spec, "persistentVolumeClaimRetentionPolicy", |policy| {
                fill_text(policy, "whenDeleted", "Retain");
                fill_text(policy, "whenScaled", "Retain");
            });
            fill(spec, "replicas", 1i64);
            fill(spec, "revisionHistoryLimit", 10i64);
        });
    }

    fn prepare_create(&self, object: &mut Map, _context: &Context<'_>) {
        object.remove("status");
        drop_max_unavailable(object);
        template::drop_disabled(object, None, POD_SPEC);
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        keep(new, old, "status");
        let update = StatefulSet::of(old).spec().update_strategy().rolling_update();
        if update.and_then(|update| update.max_unavailable()).is_none() {
            drop_max_unavailable(new);
        }
        template::drop_disabled(new, Some(old), POD_SPEC);
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }
}

fn update_strategy(strategy: &mut Map) {
    if !strategy.contains_key("type") {
        fill_text(strategy, "type", "RollingUpdate");
        fill(strategy, "rollingUpdate", Map::new());
    }
    at(strategy, "rollingUpdate", |update| fill(update, "partition", 0i64));
}

/// Sets `apiVersion` and `kind` of the volume claim templates, whatever the client sent.
fn claim(claim: &mut Map) {
    claim.insert(Key::known("apiVersion"), "v1");
    claim.insert(Key::known("kind"), "PersistentVolumeClaim");
    within(claim, "spec", pod_spec::default_claim);
    within(claim, "status", |status| {
        fill_text(status, "phase", "Pending");
        round_up(status, "capacity");
        round_up(status, "allocatedResources");
    });
}

/// The feature `MaxUnavailableStatefulSet` is off: drops the field unless the old object uses it.
fn drop_max_unavailable(object: &mut Map) {
    at(object, "spec", |spec| {
        at(spec, "updateStrategy", |strategy| {
            at(strategy, "rollingUpdate", |update| drop(update.remove("maxUnavailable")));
        });
    });
}
