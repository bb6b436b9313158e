//! `csidrivers`.

use crate::cells::{NONE, UNSET, boolean, joined};
use crate::defaults::{fill, fill_text, update_map, update_or_insert_map};
use crate::seen::Seen;
use crate::{
    About, Cell, Check, Column, Context, Deleted, Generation, Kind, OldVersion, Rules, Scope, Strategy,
    Version, checks, columns,
};
use object::field::{BadValue, Error, List, Path};
use object::quote::quote_each;
use object::{Map, Value};
use schema::view::View;
use schema::views::storage::v1::{CSIDriver, CSIDriverSpec};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "storage.k8s.io",
    resource: "csidrivers",
    singular: "csidriver",
    kind: "CSIDriver",
    versions: &[Version::V1.introduced(18)],
    old_versions: &[OldVersion::named("storage.k8s.io/v1beta1")],
    scope: Scope::Cluster,
    columns: columns!(|object| {
        let spec = CSIDriver::of(object).spec();
    } [
        Column::NAME => Cell::name(object),
        boolean("AttachRequired", About::Field("storage.v1.CSIDriverSpec", "attachRequired"))
            => Cell::Bool(spec.attach_required().unwrap_or(true)),
        boolean("PodInfoOnMount", About::Field("storage.v1.CSIDriverSpec", "podInfoOnMount"))
            => Cell::Bool(spec.pod_info_on_mount().unwrap_or_default()),
        boolean("StorageCapacity", About::Field("storage.v1.CSIDriverSpec", "storageCapacity"))
            => Cell::Bool(spec.storage_capacity().unwrap_or_default()),
        Column::text("TokenRequests", About::Field("storage.v1.CSIDriverSpec", "tokenRequests"))
            => Cell::Text(audiences(spec)),
        boolean("RequiresRepublish", About::Field("storage.v1.CSIDriverSpec", "requiresRepublish"))
            => Cell::Bool(spec.requires_republish().unwrap_or_default()),
        Column::text("Modes", About::Field("storage.v1.CSIDriverSpec", "volumeLifecycleModes"))
            => Cell::Text(modes(spec)),
        Column::AGE => Cell::age(object),
    ]),
    generation: Generation::CountedLater,
    deleted: Deleted::Object,
    update_checks: &[Check::MetadataChange, Check::Object, Check::Change],
    strategy: &CSIDriverStrategy,
    ..Kind::PLAIN
};

/// The audiences of the service account tokens that the driver requests.
fn audiences(spec: CSIDriverSpec<'_>) -> String {
    let requests = spec.token_requests();
    if requests.is_empty() {
        UNSET.into()
    } else {
        joined(requests.iter().map(|request| request.audience()), ",")
    }
}

fn modes(spec: CSIDriverSpec<'_>) -> String {
    let text = joined(spec.volume_lifecycle_modes().iter(), ",");
    if text.is_empty() { NONE.into() } else { text }
}

const SPEC: Path<'static> = Path::new("spec");
const FS_GROUP_POLICIES: &[&str] = &["File", "None", "ReadWriteOnceWithFSType"];
const LIFECYCLE_MODES: &[&str] = &["Persistent", "Ephemeral"];

struct CSIDriverStrategy;

impl Strategy for CSIDriverStrategy {
    fn default(&self, object: &mut Map) {
        update_or_insert_map(object, "spec", |spec| {
            fill(spec, "attachRequired", true);
            fill(spec, "podInfoOnMount", false);
            fill(spec, "storageCapacity", false);
            fill_text(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
            fill(spec, "volumeLifecycleModes", Value::from_iter(["Persistent"]));
            fill(spec, "requiresRepublish", false);
            fill(spec, "seLinuxMount", false);
        });
    }

    fn prepare_create(&self, object: &mut Map, _context: &Context<'_>) {
        drop_update_period(object);
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        if CSIDriver::of(old).spec().node_allocatable_update_period_seconds().is_none() {
            drop_update_period(new);
        }
    }

    fn validate_object(&self, object: &Map, _old: Option<&Map>, _rules: &Rules<'_>) -> List {
        validate(CSIDriver::of(object).spec())
    }

    fn validate_change(&self, new: &Map, old: &Map) -> List {
        let mut errors = List::new();
        let (after, before) = (CSIDriver::of(new).spec(), CSIDriver::of(old).spec());
        let key = "attachRequired";
        let path = SPEC.child("attachedRequired");
        errors.extend(checks::immutable(after.map().get(key), before.map().get(key), &path));
        let modes = after.volume_lifecycle_modes();
        if modes.values() != before.volume_lifecycle_modes().values() {
            let path = SPEC.child("volumeLifecycleModes");
            let shown = match modes.is_empty() {
                true => "[]storage.VolumeLifecycleMode(nil)".to_owned(),
                false => format!("[]storage.VolumeLifecycleMode{{{}}}", quote_each(modes.iter())),
            };
            errors.push(Error::invalid(&path, BadValue::Raw(shown), "field is immutable"));
        }
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// The field errors of the state of a driver.
fn validate(spec: CSIDriverSpec<'_>) -> List {
    let mut errors = List::new();
    if let Some(policy) = spec.fs_group_policy() {
        errors.extend(checks::one_of(policy, FS_GROUP_POLICIES, &SPEC.child("fsGroupPolicy")));
    }
    errors.append(token_requests(spec, &SPEC.child("tokenRequests")));
    let path = SPEC.child("volumeLifecycleModes");
    for mode in spec.volume_lifecycle_modes().iter() {
        errors.extend(checks::one_of(mode, LIFECYCLE_MODES, &path));
    }
    if let Some(seconds @ ..10) = spec.node_allocatable_update_period_seconds() {
        let path = SPEC.child("nodeAllocatableUpdatePeriodSeconds");
        errors.push(Error::invalid(&path, seconds, "must be greater than or equal to 10 seconds"));
    }
    errors
}

/// Each audience gets one token.
fn token_requests(spec: CSIDriverSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut audiences = Seen::new();
    for (at, request) in spec.token_requests().iter().enumerate() {
        let path = path.index(at);
        if !audiences.insert(request.audience()) {
            errors.push(Error::duplicate(&path.child("audience"), request.audience()));
        } else if let Some(seconds) = request.expiration_seconds() {
            errors.extend(checks::token_lifetime(seconds, &path.child("expirationSeconds")));
        }
    }
    errors
}

/// The feature `MutableCSINodeAllocatableCount` is off: drops the field unless the old object uses it.
fn drop_update_period(object: &mut Map) {
    update_map(object, "spec", |spec| drop(spec.remove("nodeAllocatableUpdatePeriodSeconds")));
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};

    fn driver(spec: &str) -> String {
        format!(r#"{{"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","spec":{spec}}}"#)
    }

    #[test]
    fn lists_and_policies_are_checked() {
        let spec = r#"{"fsGroupPolicy":"Sometimes","volumeLifecycleModes":["Forever"],"nodeAllocatableUpdatePeriodSeconds":1,
            "tokenRequests":[{"audience":"a","expirationSeconds":599},{"audience":"a","expirationSeconds":1},{"audience":"","expirationSeconds":4294967297}]}"#;
        assert_eq!(
            create(&driver(spec)),
            [
                r#"spec.fsGroupPolicy: Unsupported value: "Sometimes": supported values: "File", "None", "ReadWriteOnceWithFSType""#,
                "spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
                r#"spec.tokenRequests[1].audience: Duplicate value: "a""#,
                "spec.tokenRequests[2].expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds",
                r#"spec.volumeLifecycleModes: Unsupported value: "Forever": supported values: "Persistent", "Ephemeral""#,
            ]
        );
    }

    #[test]
    fn how_volumes_are_attached_and_live_does_not_change() {
        let new =
            driver(r#"{"attachRequired":false,"volumeLifecycleModes":["Ephemeral"],"podInfoOnMount":true}"#);
        assert_eq!(
            update(&new, &driver("{}")),
            [
                "spec.attachedRequired: Invalid value: false: field is immutable",
                r#"spec.volumeLifecycleModes: Invalid value: []storage.VolumeLifecycleMode{"Ephemeral"}: field is immutable"#,
            ]
        );
    }
}
