//! What persistent volume claims use: themselves and storage, of all classes and of their own.

use super::super::resource_list::{ResourceList, count};
use super::super::storage::class;
use super::scope::Scope;
use object::quantity::{Quantity, Scale};
use schema::views::core::v1::PersistentVolumeClaim;

const COUNT: &str = "count/persistentvolumeclaims";
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
/// Between the name of a storage class and that of a resource.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

pub(super) fn counts(name: &str) -> bool {
    let of_class = |resource: &str| name.strip_suffix(resource).is_some_and(|rest| rest.ends_with(OF_CLASS));
    [COUNT, CLAIMS, STORAGE].contains(&name) || of_class(CLAIMS) || of_class(STORAGE)
}

pub(super) fn usage(claim: PersistentVolumeClaim<'_>) -> ResourceList {
    let mut usage = ResourceList::default();
    usage.set(CLAIMS, count(1));
    usage.set(COUNT, count(1));
    let class = class(claim);
    if !class.is_empty() {
        usage.set(format!("{class}{OF_CLASS}{CLAIMS}"), count(1));
    }
    if let Some(storage) = storage(claim) {
        if !class.is_empty() {
            usage.set(format!("{class}{OF_CLASS}{STORAGE}"), storage.clone());
        }
        usage.set(STORAGE, storage);
    }
    usage
}

/// The storage that is requested, or allocated if that is more, in whole bytes.
fn storage(claim: PersistentVolumeClaim<'_>) -> Option<Quantity> {
    let requested = whole(claim.spec().resources().requests().get("storage")?.parse().ok()?);
    let allocated = claim.status().allocated_resources().get("storage");
    let allocated = allocated.and_then(|text| text.parse::<Quantity>().ok());
    Some(match allocated {
        Some(allocated) if allocated > requested => whole(allocated),
        _ => requested,
    })
}

fn whole(amount: Quantity) -> Quantity {
    let mut rounded = amount.clone();
    if rounded.round_up(Scale::One) { amount } else { rounded }
}

/// Whether a claim is in a scope. Only the gate `VolumeAttributesClass` gives claims a scope.
pub(super) fn is_in(claim: PersistentVolumeClaim<'_>, scope: &Scope) -> Result<bool, String> {
    if scope.name != "VolumeAttributesClass" {
        return Ok(false);
    }
    let status = claim.status();
    let target = status.modify_volume_status().map(|status| status.target_volume_attributes_class_name());
    let classes =
        [claim.spec().volume_attributes_class_name(), status.current_volume_attributes_class_name(), target];
    let classes: Vec<&str> = classes.into_iter().flatten().filter(|class| !class.is_empty()).collect();
    scope.matches_any(&classes)
}
