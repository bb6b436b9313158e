//! `statefulsets`.

use crate::Resets;
use crate::cells::{CONTAINERS, IMAGES, container_images, container_names};
use crate::core::pod_rules::PodOptions;
use crate::core::{pod_spec, pod_warnings};
use crate::defaults::{each, fill, fill_text, round_up, update_map, update_or_insert_map};
use crate::template::{self, POD_SPEC};
use crate::{
    About, Cell, Check, Column, Context, Generation, Kind, NameRule, OldVersion, Rules, Strategy,
    Subresource, Version, checks, columns, differs_but_for, int_or_percent, label_selector, workload,
};
use object::field::{BadValue, Error, List, Path};
use object::name::{dns1123_label, invalid};
use object::{Key, Map};
use schema::view::View;
use schema::views::apps::v1::{StatefulSet, StatefulSetStatus, StatefulSetUpdateStrategy};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "apps",
    resource: "statefulsets",
    singular: "statefulset",
    kind: "StatefulSet",
    short_names: &["sts"],
    versions: &[Version::V1.introduced(9)],
    old_versions: &[OldVersion::named("apps/v1beta2"), OldVersion::named("apps/v1beta1").by(upgrade)],
    categories: &["all"],
    subresources: &[workload::SCALE, Subresource::STATUS],
    columns: columns!(|object| {
        let set = StatefulSet::of(object);
        let (spec, status) = (set.spec(), set.status());
    } [
        Column::NAME => Cell::name(object),
        Column::text("Ready", About::Text("Number of the pod with ready state"))
            => Cell::Text(format!("{}/{}", status.ready_replicas(), spec.replicas().unwrap_or_default())),
        Column::AGE => Cell::age(object),
        CONTAINERS => container_names(spec.template()),
        IMAGES => container_images(spec.template()),
    ]),
    generation: Generation::Counted,
    resets: &Resets::STATUS,
    pod_spec: POD_SPEC,
    // The name is not checked again: those of old objects may have dots.
    update_checks: &[Check::MetadataChange, Check::Object, Check::Change],
    strategy: &StatefulSetStrategy,
    ..Kind::PLAIN
};

/// Sets the defaults of `apps/v1beta1`.
fn upgrade(object: &mut Map) {
    workload::take_labels_of_template(object);
    update_or_insert_map(object, "spec", |spec| {
        update_or_insert_map(spec, "updateStrategy", |strategy| fill_text(strategy, "type", "OnDelete"));
    });
    StatefulSetStrategy.default(object);
}

struct StatefulSetStrategy;

impl Strategy for StatefulSetStrategy {
    fn default(&self, object: &mut Map) {
        update_or_insert_map(object, "spec", |spec| {
            update_or_insert_map(spec, "template", pod_spec::default_template);
            each(spec, "volumeClaimTemplates", claim);
            fill_text(spec, "podManagementPolicy", "OrderedReady");
            update_or_insert_map(spec, "updateStrategy", update_strategy);
            fill(spec, "persistentVolumeClaimRetentionPolicy", Map::new());
            update_map(spec, "persistentVolumeClaimRetentionPolicy", |policy| {
                fill_text(policy, "whenDeleted", "Retain");
                fill_text(policy, "whenScaled", "Retain");
            });
            fill(spec, "replicas", 1i64);
            fill(spec, "revisionHistoryLimit", 10i64);
        });
    }

    fn prepare_create(&self, object: &mut Map, context: &Context<'_>) {
        if !context.gates.max_unavailable_stateful_set {
            drop_max_unavailable(object);
        }
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, context: &Context<'_>) {
        let update = StatefulSet::of(old).spec().update_strategy().rolling_update();
        if context.gates.max_unavailable_stateful_set {
            return;
        }
        if update.and_then(|update| update.max_unavailable()).is_none() {
            drop_max_unavailable(new);
        }
    }

    fn validate_object(&self, object: &Map, old: Option<&Map>, rules: &Rules<'_>) -> List {
        validate_spec(object, old, rules)
    }

    fn validate_change(&self, new: &Map, old: &Map) -> List {
        let (new, old) = (StatefulSet::of(new).spec(), StatefulSet::of(old).spec());
        let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        let is_forbidden = differs_but_for(new.map(), old.map(), MUTABLE);
        is_forbidden.then(|| Error::forbidden(&Path::new("spec"), why)).into_iter().collect()
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let path = Path::new("status");
        let status = StatefulSet::of(new).status();
        let mut errors = validate_counts(status, &path);
        errors.append(rules.metadata_update(new, old));
        let before = StatefulSet::of(old).status().collision_count();
        errors.extend(workload::collision_count(status.collision_count(), before, &path));
        errors
    }

    fn warnings(&self, new: &Map, old: Option<&Map>) -> Vec<String> {
        let mut warnings =
            workload::template_warnings(new, old, |object| StatefulSet::of(object).spec().template());
        let spec = StatefulSet::of(new).spec();
        let path = Path::new("spec");
        let claims = path.child("volumeClaimTemplates");
        for (at, claim) in spec.volume_claim_templates().iter().enumerate() {
            let path = claims.index(at);
            let spec = if old.is_some() { path.child("Spec") } else { path };
            warnings.extend(pod_warnings::of_claim(claim.spec(), &spec));
        }
        if spec.revision_history_limit().unwrap_or_default() < 0 {
            warnings.push(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
                    .into(),
            );
        }
        warnings
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
    update_map(strategy, "rollingUpdate", |update| fill(update, "partition", 0i64));
}

/// Sets `apiVersion` and `kind` of the volume claim templates, whatever the client sent.
fn claim(claim: &mut Map) {
    claim.insert(Key::known("apiVersion"), "v1");
    claim.insert(Key::known("kind"), "PersistentVolumeClaim");
    update_or_insert_map(claim, "spec", pod_spec::default_claim);
    update_or_insert_map(claim, "status", |status| {
        fill_text(status, "phase", "Pending");
        round_up(status, "capacity");
        round_up(status, "allocatedResources");
    });
}

/// The feature `MaxUnavailableStatefulSet` is off: drops the field unless the old object uses it.
fn drop_max_unavailable(object: &mut Map) {
    update_map(object, "spec", |spec| {
        update_map(spec, "updateStrategy", |strategy| {
            update_map(strategy, "rollingUpdate", |update| drop(update.remove("maxUnavailable")));
        });
    });
}

/// The fields of the spec that may change.
const MUTABLE: &[&str] = &[
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];

fn validate_spec(object: &Map, old: Option<&Map>, rules: &Rules<'_>) -> List {
    let path = Path::new("spec");
    let spec = StatefulSet::of(object).spec();
    let mut errors = List::new();
    let policy = spec.pod_management_policy();
    if !matches!(policy, "OrderedReady" | "Parallel") {
        let why = "must be 'OrderedReady' or 'Parallel'";
        errors.push(Error::invalid(&path.child("podManagementPolicy"), policy, why));
    }
    errors.append(validate_strategy(spec.update_strategy(), &path.child("updateStrategy")));
    if let Some(policy) = spec.persistent_volume_claim_retention_policy() {
        let path = path.child("persistentVolumeClaimRetentionPolicy");
        for (name, value) in [("whenDeleted", policy.when_deleted()), ("whenScaled", policy.when_scaled())] {
            errors.extend(checks::one_of(value, &["Retain", "Delete"], &path.child(name)));
        }
    }
    errors.extend(checks::non_negative(spec.replicas().unwrap_or_default(), &path.child("replicas")));
    errors.extend(checks::non_negative(spec.min_ready_seconds(), &path.child("minReadySeconds")));
    if let Some(ordinals) = spec.ordinals() {
        errors.extend(checks::non_negative(ordinals.start(), &path.child("ordinals").child("start")));
    }
    if old.is_none() && !spec.service_name().is_empty() {
        let service = spec.service_name();
        errors.append(invalid(&path.child("serviceName"), service, dns1123_label(service)));
    }
    errors.append(validate_template(object, old, rules, &path));
    errors
}

fn validate_strategy(strategy: StatefulSetUpdateStrategy<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let rolling_path = path.child("rollingUpdate");
    match (strategy.r#type(), strategy.rolling_update()) {
        ("OnDelete" | "RollingUpdate", None) => {}
        ("OnDelete", Some(update)) => {
            let shown = BadValue::Raw(format!(
                "apps.RollingUpdateStatefulSetStrategy{{Partition:{}, MaxUnavailable:(*intstr.IntOrString)(nil)}}",
                update.partition().unwrap_or_default()
            ));
            let why = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(Error::invalid(&rolling_path, shown, why));
        }
        ("RollingUpdate", Some(update)) => {
            let partition = update.partition().unwrap_or_default();
            errors.extend(checks::non_negative(partition, &rolling_path.child("partition")));
            let unavailable = update.max_unavailable();
            if unavailable.is_some() {
                let path = rolling_path.child("maxUnavailable");
                errors.append(int_or_percent::validate(unavailable, &path));
                if int_or_percent::number(unavailable) == 0 {
                    errors.push(Error::invalid(&path, int_or_percent::shown(unavailable), "cannot be 0"));
                }
                errors.extend(int_or_percent::at_most_all(unavailable, &path));
            }
        }
        _ => {
            let (of, rolling) = ("StatefulSetUpdateStrategy", "RollingUpdateStatefulSetStrategy");
            let why = "must be 'RollingUpdate' or 'OnDelete'";
            errors.push(Error::invalid(path, super::shown_strategy(strategy.map(), of, rolling), why));
        }
    }
    errors
}

/// Of the template only the metadata is checked, the restart policy and the deadline: its pods may mount
/// volumes that the claim templates make.
fn validate_template(object: &Map, old: Option<&Map>, rules: &Rules<'_>, path: &Path<'_>) -> List {
    let spec = StatefulSet::of(object).spec();
    let (selector, template) = (spec.selector(), spec.template());
    let (selector_path, template_path) = (path.child("selector"), path.child("template"));
    let mut errors = workload::selector(selector, "statefulset", &selector_path);
    match workload::mismatch(selector, template, &template_path) {
        Err(_) => errors.push(Error::invalid(&selector_path, label_selector::shown(selector), "")),
        Ok(mismatch) => {
            errors.extend(mismatch);
            let options =
                PodOptions::of_template(old.map(|old| StatefulSet::of(old).spec().template()), rules);
            errors.append(template::validate_metadata(template, &options, &template_path));
        }
    }
    errors.append(workload::always_restarted(template.spec(), "StatefulSet", &template_path.child("spec")));
    errors
}

fn validate_counts(status: StatefulSetStatus<'_>, path: &Path<'_>) -> List {
    let (ready, current) = (status.ready_replicas(), status.current_replicas());
    let (updated, available) = (status.updated_replicas(), status.available_replicas());
    let mut errors = workload::counters(
        &[
            ("replicas", status.replicas()),
            ("readyReplicas", ready),
            ("currentReplicas", current),
            ("updatedReplicas", updated),
            ("availableReplicas", available),
            ("observedGeneration", status.observed_generation()),
            ("collisionCount", status.collision_count().unwrap_or_default()),
        ],
        path,
    );
    let replicas = workload::Replicas {
        all: status.replicas(),
        parts: &[
            ("readyReplicas", ready),
            ("currentReplicas", current),
            ("updatedReplicas", updated),
            ("availableReplicas", available),
        ],
        ready,
        ready_name: "status.readyReplicas",
    };
    errors.append(workload::replicas(&replicas, path));
    errors
}
