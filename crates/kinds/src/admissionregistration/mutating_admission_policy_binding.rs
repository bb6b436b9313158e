//! `mutatingadmissionpolicybindings`.

use super::{BINDING_COLUMNS, RegistrationStrategy, match_resources, policy};
use crate::defaults::{fill_text, update_map};
use crate::{Kind, Version};
use object::Map;
use object::field::{List, Path};
use schema::view::View;
use schema::views::admissionregistration::v1alpha1::MutatingAdmissionPolicyBinding;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "mutatingadmissionpolicybindings",
    singular: "mutatingadmissionpolicybinding",
    kind: "MutatingAdmissionPolicyBinding",
    versions: &[Version::on_request("v1alpha1").stored().introduced(32).deprecated(35).removed(38)],
    columns: BINDING_COLUMNS,
    strategy: &RegistrationStrategy { default, validate },
    ..super::PLAIN
};

fn default(object: &mut Map) {
    update_map(object, "spec", |spec| {
        update_map(spec, "matchResources", match_resources);
        update_map(spec, "paramRef", |reference| fill_text(reference, "parameterNotFoundAction", "Deny"));
    });
}

fn validate(object: &Map, _old: Option<&Map>) -> List {
    let spec = MutatingAdmissionPolicyBinding::of(object).spec();
    let path = Path::new("spec");
    let mut errors = policy::binding(spec.map(), &path);
    if let Some(resources) = spec.match_resources() {
        errors.append(policy::mutating_operations(resources.map(), &path.child("matchResources")));
    }
    errors
}
