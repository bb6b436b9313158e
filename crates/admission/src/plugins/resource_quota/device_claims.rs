//! What resource claims use: themselves, and devices of classes.

use super::super::resource_list::{ResourceList, count};
use object::quantity::{Format, Quantity};
use schema::views::resource::v1beta1::ResourceClaim;

const COUNT: &str = "count/resourceclaims.resource.k8s.io";
/// After the name of a device class.
const OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// The most devices that a claim can get.
const MOST: i64 = 32;

pub(super) fn counts(name: &str) -> bool {
    name == COUNT || name.ends_with(OF_CLASS)
}

pub(super) fn usage(claim: ResourceClaim<'_>) -> ResourceList {
    let mut usage = ResourceList::default();
    usage.set(COUNT, count(1));
    for request in claim.spec().devices().requests().iter() {
        if request.first_available().is_empty() {
            let devices = devices(request.allocation_mode(), request.count());
            usage.add_one(of_class(request.device_class_name()), &devices);
            continue;
        }
        // One of them is taken: of each class, the most that any asks for.
        let mut most = ResourceList::default();
        for option in request.first_available().iter() {
            let devices = devices(option.allocation_mode(), option.count());
            if devices.signum() > 0 {
                most.raise(&[(of_class(option.device_class_name()).into(), devices)].into_iter().collect());
            }
        }
        usage.add(&most);
    }
    usage
}

fn of_class(class: &str) -> String {
    format!("{class}{OF_CLASS}")
}

/// Modes that are not known do not count.
fn devices(mode: &str, number: i64) -> Quantity {
    let number = match mode {
        "ExactCount" => number,
        "All" => MOST,
        _ => 0,
    };
    Quantity::new(number, Format::DecimalSi)
}
