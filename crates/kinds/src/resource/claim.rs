//! The rules for claims and their status.

use super::validate::{
    MOST_ITEMS, compiling, configuration, driver_name, duplicates, fully_qualified_name, label, pool_name,
    quoted, raw_object, selectors, slice, tolerations,
};
use crate::Rules;
use crate::checks::{one_of, required, required_one_of, shown};
use crate::conditions;
use crate::core::node_selector;
use crate::label_selector::Values;
use expressions::Stage;
use object::Map;
use object::field::{BadValue, Error, List, Path};
use object::name::{address, dns1123_subdomain, invalid};
use schema::view::{Items, View};
use schema::views::resource::v1beta1::{
    AllocatedDeviceStatus, AllocationResult, DeviceAllocationConfiguration, DeviceClaim,
    DeviceClaimConfiguration, DeviceConfiguration, DeviceConstraint, DeviceRequest,
    DeviceRequestAllocationResult, DeviceSubRequest, NetworkDeviceData, ResourceClaimConsumerReference,
    ResourceClaimSpec, ResourceClaimStatus,
};
use std::collections::{HashMap, HashSet};

/// The most requests of a claim, and the most results of an allocation.
const MOST_REQUESTS: usize = 32;
const MOST_ALTERNATIVES: usize = 8;
const MOST_CONSUMERS: usize = 256;
const MOST_CONDITIONS: usize = 8;
const MOST_ADDRESSES: usize = 16;
const LONGEST_INTERFACE: usize = 256;
const LONGEST_HARDWARE_ADDRESS: usize = 128;

/// The names of the requests of a claim, each with those of its alternatives.
pub(super) struct Names<'a>(HashMap<&'a str, HashSet<&'a str>>);

impl<'a> Names<'a> {
    /// Of a claim.
    pub(super) fn of(claim: DeviceClaim<'a>) -> Self {
        let names = claim.requests().iter().map(|request| {
            let alternatives = request.first_available().iter().map(|alternative| alternative.name());
            (request.name(), alternatives.collect())
        });
        Self(names.collect())
    }

    /// Whether there is a request `name`, or an alternative `request/name`.
    fn has(&self, name: &str) -> bool {
        let (request, alternative) =
            name.split_once('/').map_or((name, None), |(request, of)| (request, Some(of)));
        let alternatives = self.0.get(request);
        alternatives.is_some_and(|all| alternative.is_none_or(|of| all.contains(of)))
    }

    fn references(&self, names: Items<'_, &str>, path: &Path<'_>) -> List {
        let mut errors = slice(names, Some(MOST_REQUESTS), |name, path| self.reference(name, path), path);
        errors.append(duplicates(names.iter(), None, quoted, path));
        errors
    }

    fn reference(&self, name: &str, path: &Path<'_>) -> List {
        let unknown = || {
            let why = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
            Error::invalid(path, name, why)
        };
        if name.split('/').count() > 2 {
            return unknown().into();
        }
        let mut errors: List = name.split('/').map(|part| label(part, path)).collect();
        errors.extend((!self.has(name)).then(unknown));
        errors
    }
}

/// The field errors of the spec of a claim.
pub(super) fn validate(
    spec: ResourceClaimSpec<'_>,
    stage: Stage,
    rules: &Rules<'_>,
    path: &Path<'_>,
) -> List {
    let claim = spec.devices();
    let selectors = claim.requests().iter().flat_map(|request| {
        let alternatives = request.first_available().iter().map(|of| of.selectors());
        alternatives.chain([request.selectors()])
    });
    compiling(selectors, rules, || validate_claim(claim, stage, path))
}

fn validate_claim(claim: DeviceClaim<'_>, stage: Stage, path: &Path<'_>) -> List {
    let names = Names::of(claim);
    let path = path.child("devices");
    let at = path.child("requests");
    let check = |of: DeviceRequest<'_>, path: &Path<'_>| request(of, stage, path);
    let mut errors = slice(claim.requests(), Some(MOST_REQUESTS), check, &at);
    errors.append(duplicates(claim.requests().iter().map(|of| of.name()), Some("name"), quoted, &at));
    let check = |of: DeviceConstraint<'_>, path: &Path<'_>| constraint(of, &names, path);
    errors.append(slice(claim.constraints(), Some(MOST_ITEMS), check, &path.child("constraints")));
    let check = |config: DeviceClaimConfiguration<'_>, path: &Path<'_>| {
        let mut errors = names.references(config.requests(), &path.child("requests"));
        errors.append(configuration(DeviceConfiguration::of(config.map()), stage, path));
        errors
    };
    errors.append(slice(claim.config(), Some(MOST_ITEMS), check, &path.child("config")));
    errors
}

/// The fields of a plain request. Newer versions have them below `exactly`, and so do the paths of errors.
const EXACT: [&str; 6] =
    ["deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations"];

fn is_exact(request: DeviceRequest<'_>) -> bool {
    let value = |key: &&str| request.map().get(key);
    EXACT.iter().filter_map(value).any(|value| value.as_str() != Some("") && value.as_i64() != Some(0))
}

fn request(request: DeviceRequest<'_>, stage: Stage, path: &Path<'_>) -> List {
    let mut errors = label(request.name(), &path.child("name"));
    let alternatives = request.first_available();
    if !alternatives.is_empty() {
        let at = path.child("firstAvailable");
        let check = |of: DeviceSubRequest<'_>, path: &Path<'_>| alternative(of, stage, path);
        errors.append(slice(alternatives, Some(MOST_ALTERNATIVES), check, &at));
        errors.append(duplicates(alternatives.iter().map(|of| of.name()), Some("name"), quoted, &at));
    }
    let is_exact = is_exact(request);
    if is_exact {
        // A plain request and an alternative have the same fields.
        errors.append(wanted(DeviceSubRequest::of(request.map()), stage, &path.child("exactly")));
    }
    match (is_exact, alternatives.is_empty()) {
        (false, true) => {
            errors.push(Error::required(path, "exactly one of `exactly` or `firstAvailable` is required"));
        }
        (true, false) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.push(Error::invalid(path, BadValue::Null, why));
        }
        _ => {}
    }
    errors
}

fn alternative(of: DeviceSubRequest<'_>, stage: Stage, path: &Path<'_>) -> List {
    let mut errors = label(of.name(), &path.child("name"));
    errors.append(wanted(of, stage, path));
    errors
}

fn wanted(of: DeviceSubRequest<'_>, stage: Stage, path: &Path<'_>) -> List {
    let at = path.child("deviceClassName");
    let mut errors = match of.device_class_name() {
        "" => Error::required(&at, "").into(),
        name => invalid(&at, name, dns1123_subdomain(name)),
    };
    errors.append(selectors(of.selectors(), stage, &path.child("selectors")));
    let (count, at) = (of.count(), path.child("count"));
    match of.allocation_mode() {
        "All" if count != 0 => {
            let why = "must not be specified when allocationMode is 'All'";
            errors.push(Error::invalid(&at, count, why));
        }
        "ExactCount" if count <= 0 => {
            errors.push(Error::invalid(&at, count, "must be greater than zero"));
        }
        mode => errors.extend(one_of(mode, &["All", "ExactCount"], &path.child("allocationMode"))),
    }
    errors.append(tolerations(of.tolerations(), &path.child("tolerations")));
    errors
}

fn constraint(of: DeviceConstraint<'_>, names: &Names<'_>, path: &Path<'_>) -> List {
    let mut errors = names.references(of.requests(), &path.child("requests"));
    let at = path.child("matchAttribute");
    errors.append(match of.match_attribute() {
        None => Error::required(&at, "").into(),
        Some(name) => fully_qualified_name(name, &at),
    });
    errors
}

/// Whether a delete of a claim has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deletion {
    No,
    Begun,
}

/// The field errors of a change of the status of a claim.
pub(super) fn validate_status(
    new: ResourceClaimStatus<'_>,
    old: ResourceClaimStatus<'_>,
    deletion: Deletion,
    names: &Names<'_>,
) -> List {
    let path = Path::new("status");
    let at = path.child("reservedFor");
    let consumers = new.reserved_for();
    let mut errors = slice(consumers, Some(MOST_CONSUMERS), consumer, &at);
    errors.append(duplicates(consumers.iter().map(|of| of.uid()), Some("uid"), quoted, &at));
    errors.append(devices(new, &path.child("devices")));
    if !consumers.is_empty() {
        let known: HashSet<_> = old.reserved_for().iter().map(consumer_id).collect();
        let is_new = |of: ResourceClaimConsumerReference<'_>| !known.contains(&consumer_id(of));
        if new.allocation().is_none() {
            errors.push(Error::forbidden(&at, "may not be specified when `allocated` is not set"));
        } else if deletion == Deletion::Begun && consumers.iter().any(is_new) {
            let why =
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            errors.push(Error::forbidden(&at, why));
        }
    }
    let at = path.child("allocation");
    match (new.allocation(), old.allocation()) {
        (Some(now), Some(before)) if now.map() != before.map() => {
            let shown = shown(Some(&now.map().clone().into()));
            errors.push(Error::invalid(&at, shown, "field is immutable"));
        }
        (Some(now), None) => errors.append(allocation(now, names, &at)),
        _ => {}
    }
    errors
}

fn consumer_id(of: ResourceClaimConsumerReference<'_>) -> [&str; 4] {
    [of.api_group(), of.resource(), of.name(), of.uid()]
}

fn consumer(of: ResourceClaimConsumerReference<'_>, path: &Path<'_>) -> List {
    let fields = [("resource", of.resource()), ("name", of.name()), ("uid", of.uid())];
    fields.into_iter().filter_map(|(key, text)| required(text, &path.child(key))).collect()
}

fn device_id(driver: &str, pool: &str, device: &str) -> String {
    format!("{driver}/{pool}/{device}")
}

fn devices(status: ResourceClaimStatus<'_>, path: &Path<'_>) -> List {
    let results = status.allocation().map(|allocation| allocation.devices().results());
    let results = results.into_iter().flat_map(Items::iter);
    let allocated: HashSet<_> = results.map(|of| device_id(of.driver(), of.pool(), of.device())).collect();
    let id = |of: AllocatedDeviceStatus<'_>| device_id(of.driver(), of.pool(), of.device());
    let check = |of: AllocatedDeviceStatus<'_>, path: &Path<'_>| {
        let mut errors = driver_name(of.driver(), &path.child("driver"));
        errors.append(pool_name(of.pool(), &path.child("pool")));
        errors.append(label(of.device(), &path.child("device")));
        if !allocated.contains(&id(of)) {
            let why = "must be an allocated device in the claim";
            errors.push(Error::invalid(path, BadValue::Raw(id(of)), why));
        }
        let at = path.child("conditions");
        if of.conditions().len() > MOST_CONDITIONS {
            errors.push(Error::too_many(&at, Some(of.conditions().len()), Some(MOST_CONDITIONS)));
        }
        errors.append(conditions::validate(of.conditions(), &at));
        if of.data().is_some() {
            errors.extend(raw_object(of.data(), Stage::New, &path.child("data")));
        }
        if let Some(data) = of.network_data() {
            errors.append(network(data, &path.child("networkData")));
        }
        errors
    };
    let mut errors = slice(status.devices(), None, check, path);
    let ids = status.devices().iter().map(id);
    errors.append(duplicates(ids, Some("deviceID"), |id| BadValue::Raw(id.to_owned()), path));
    errors
}

fn network(data: NetworkDeviceData<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for (key, text, most) in [
        ("interfaceName", data.interface_name(), LONGEST_INTERFACE),
        ("hardwareAddress", data.hardware_address(), LONGEST_HARDWARE_ADDRESS),
    ] {
        errors.extend((text.len() > most).then(|| Error::too_long(&path.child(key), Some(most))));
    }
    let at = path.child("ips");
    let check = |text: &str, path: &Path<'_>| address::interface_address(path, text);
    errors.append(slice(data.ips(), Some(MOST_ADDRESSES), check, &at));
    errors.append(duplicates(data.ips().iter(), None, quoted, &at));
    errors
}

fn allocation(of: AllocationResult<'_>, names: &Names<'_>, path: &Path<'_>) -> List {
    let at = path.child("devices");
    let check = |result: DeviceRequestAllocationResult<'_>, path: &Path<'_>| {
        let mut errors = names.reference(result.request(), &path.child("request"));
        errors.append(driver_name(result.driver(), &path.child("driver")));
        errors.append(pool_name(result.pool(), &path.child("pool")));
        errors.append(label(result.device(), &path.child("device")));
        errors
    };
    let mut errors = slice(of.devices().results(), Some(MOST_REQUESTS), check, &at.child("results"));
    let check = |config: DeviceAllocationConfiguration<'_>, path: &Path<'_>| {
        let sources = ["FromClaim", "FromClass"];
        let mut errors: List =
            required_one_of(config.source(), &sources, &path.child("source")).into_iter().collect();
        errors.append(names.references(config.requests(), &path.child("requests")));
        errors.append(configuration(DeviceConfiguration::of(config.map()), Stage::New, path));
        errors
    };
    errors.append(slice(of.devices().config(), Some(2 * MOST_ITEMS), check, &at.child("config")));
    if let Some(selector) = of.node_selector() {
        errors.append(node_selector::validate(selector, Values::Checked, &path.child("nodeSelector")));
    }
    errors
}

/// The spec of a claim or of a template does not change.
pub(super) fn same_spec(new: &Map, old: &Map) -> Option<Error> {
    crate::checks::immutable(new.get("spec"), old.get("spec"), &Path::new("spec"))
}
