//! The rules for slices of devices.

use super::validate::{driver_name, duplicates, label, pool_name, qualified_name, quoted, slice, taints};
use crate::checks::{required, shown};
use crate::core::node_selector;
use crate::label_selector::Values;
use object::field::{BadValue, Error, List, Path};
use object::name::{MAX_LABEL_LENGTH, Mode, invalid, name_is_dns_subdomain};
use schema::view::{Entries, Item, View};
use schema::views::core::v1::NodeSelector;
use schema::views::resource::v1beta1::{
    BasicDevice, CounterSet, Device, DeviceAttribute, DeviceCounterConsumption, ResourcePool,
    ResourceSliceSpec,
};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

const MOST_DEVICES: usize = 128;
/// The most attributes and capacities of a device together.
const MOST_PROPERTIES: usize = 32;
const MOST_COUNTERS_OF_A_DEVICE: usize = 32;
const MOST_COUNTERS_OF_ALL_DEVICES: usize = 1024;
const MOST_SHARED_COUNTERS: usize = 32;
const LONGEST_VALUE: usize = 64;
/// The longest name of a property: a domain, a slash and an identifier.
const LONGEST_PROPERTY: usize = 63 + 1 + 32;

/// The field errors of the spec of a slice.
pub(super) fn validate(spec: ResourceSliceSpec<'_>, old: Option<ResourceSliceSpec<'_>>) -> List {
    let path = Path::new("spec");
    let mut errors = driver_name(spec.driver(), &path.child("driver"));
    let at = path.child("pool");
    errors.append(pool(spec.pool(), &at));
    if let Some(old) = old {
        let fields = [
            (at.child("name"), spec.pool().name(), old.pool().name()),
            (path.child("driver"), spec.driver(), old.driver()),
            (path.child("nodeName"), spec.node_name(), old.node_name()),
        ];
        for (path, now, before) in fields {
            errors.extend((now != before).then(|| Error::invalid(&path, now, "field is immutable")));
        }
    }
    errors.append(nodes(spec, &path));
    errors.append(devices(spec, &path.child("devices")));
    errors.append(shared_counters(spec, &path.child("sharedCounters")));
    errors
}

fn pool(pool: ResourcePool<'_>, path: &Path<'_>) -> List {
    let mut errors = pool_name(pool.name(), &path.child("name"));
    if pool.resource_slice_count() <= 0 {
        let at = path.child("resourceSliceCount");
        errors.push(Error::invalid(&at, pool.resource_slice_count(), "must be greater than zero"));
    }
    if pool.generation() < 0 {
        let why = "must be greater than or equal to zero";
        errors.push(Error::invalid(&path.child("generation"), pool.generation(), why));
    }
    errors
}

/// A slice says in one way which nodes have its devices.
fn nodes(spec: ResourceSliceSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut ways = Vec::new();
    if !spec.node_name().is_empty() {
        ways.push("`nodeName`");
        errors.append(node_name(spec.node_name(), &path.child("nodeName")));
    }
    if let Some(selector) = spec.node_selector() {
        ways.push("`nodeSelector`");
        let at = path.child("nodeSelector");
        errors.append(node_selector::validate(selector, Values::Checked, &at));
        errors.extend(one_term(selector, &at));
    }
    if spec.all_nodes() {
        ways.push("`allNodes`");
    }
    match spec.per_device_node_selection() {
        Some(true) => ways.push("`perDeviceNodeSelection`"),
        Some(false) => {
            let why = "must be either unset or set to true";
            errors.push(Error::invalid(&path.child("perDeviceNodeSelection"), false, why));
        }
        None => {}
    }
    let one_of =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match ways.as_slice() {
        [] => errors.push(Error::required(path, one_of)),
        [_] => {}
        several => {
            let why = format!("{one_of}, but multiple fields are set");
            errors.push(Error::invalid(path, format!("{{{}}}", several.join(", ")), why));
        }
    }
    errors
}

fn node_name(name: &str, path: &Path<'_>) -> List {
    invalid(path, name, name_is_dns_subdomain(name, Mode::Name))
}

fn one_term(selector: NodeSelector<'_>, path: &Path<'_>) -> Option<Error> {
    (selector.node_selector_terms().len() != 1).then(|| {
        let shown = shown(selector.map().get("nodeSelectorTerms"));
        Error::invalid(&path.child("nodeSelectorTerms"), shown, "must have exactly one node selector term")
    })
}

/// The names of the counters of each set that devices share.
type Counters<'a> = HashMap<&'a str, HashSet<&'a str>>;

fn names_of(set: CounterSet<'_>) -> HashSet<&str> {
    set.counters().iter().map(|(name, _)| name).collect()
}

fn devices(spec: ResourceSliceSpec<'_>, path: &Path<'_>) -> List {
    let shared: Counters<'_> = spec.shared_counters().iter().map(|set| (set.name(), names_of(set))).collect();
    let of_devices = spec.per_device_node_selection() == Some(true);
    let check = |device: Device<'_>, path: &Path<'_>| {
        let mut errors = label(device.name(), &path.child("name"));
        let basic = device.basic().unwrap_or_else(BasicDevice::absent);
        errors.append(properties(basic, path));
        errors.append(taints(basic.taints(), &path.child("taints")));
        errors.append(consumption(basic, &shared, path));
        errors.append(match of_devices {
            true => nodes_of_device(basic, path),
            false => no_nodes_of_device(basic, path).into_iter().collect(),
        });
        errors
    };
    let mut errors = slice(spec.devices(), Some(MOST_DEVICES), check, path);
    errors.append(duplicates(spec.devices().iter().map(|of| of.name()), Some("name"), quoted, path));
    let basics = spec.devices().iter().filter_map(|device| device.basic());
    let counters: usize = basics.map(counters).sum();
    if counters > MOST_COUNTERS_OF_ALL_DEVICES {
        let why =
            format!("the total number of counters in devices must not exceed {MOST_COUNTERS_OF_ALL_DEVICES}");
        errors.push(Error::invalid(path, counters, why));
    }
    errors
}

fn counters(device: BasicDevice<'_>) -> usize {
    device.consumes_counters().iter().map(|consumption| consumption.counters().len()).sum()
}

/// The attributes and capacities of a device. Any amount is a valid capacity.
fn properties(device: BasicDevice<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let count = device.attributes().len() + device.capacity().len();
    if count > MOST_PROPERTIES {
        let why = format!("the total number of attributes and capacities must not exceed {MOST_PROPERTIES}");
        errors.push(Error::invalid(path, count, why));
    }
    let at = path.child("attributes");
    errors.append(entries(device.attributes(), LONGEST_PROPERTY, qualified_name, attribute, &at));
    let at = path.child("capacity");
    errors.append(entries(device.capacity(), LONGEST_PROPERTY, qualified_name, |_, _| List::new(), &at));
    errors
}

/// The errors of the keys and values of a map. Paths have at most so many bytes of a key.
fn entries<'a, T: Item<'a> + Copy>(
    map: Entries<'a, T>,
    most: usize,
    key_rule: fn(&str, &Path<'_>) -> List,
    check: fn(T, &Path<'_>) -> List,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    for (key, value) in map.iter() {
        let shown = shortened(key, most);
        let path = path.key(&shown);
        errors.append(key_rule(key, &path));
        errors.append(check(value, &path));
    }
    errors
}

/// A long key without its middle.
fn shortened(key: &str, most: usize) -> Cow<'_, str> {
    if key.len() <= most {
        return Cow::Borrowed(key);
    }
    let rest = most - 3;
    let start = key.floor_char_boundary(rest.div_ceil(2));
    let end = key.ceil_char_boundary(key.len() - rest / 2);
    let (first, last) = (key.get(..start).unwrap_or_default(), key.get(end..).unwrap_or_default());
    Cow::Owned(format!("{first}...{last}"))
}

fn attribute(attribute: DeviceAttribute<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let too_long = |text: &str, path: &Path<'_>| {
        (text.len() > LONGEST_VALUE).then(|| Error::too_long(path, Some(LONGEST_VALUE)))
    };
    if let Some(text) = attribute.string() {
        errors.extend(too_long(text, &path.child("string")));
    }
    if let Some(text) = attribute.version() {
        let path = path.child("version");
        if object::semver::Version::parse(text).is_err() {
            let why = "must be a string compatible with semver.org spec 2.0.0";
            errors.push(Error::invalid(&path, text, why));
        }
        errors.extend(too_long(text, &path));
    }
    let why = "exactly one value must be specified";
    match attribute.map().len() {
        0 => errors.push(Error::required(path, why)),
        1 => {}
        _ => errors.push(Error::invalid(path, shown(Some(&attribute.map().clone().into())), why)),
    }
    errors
}

/// The counters that a device uses are among the shared ones.
fn consumption(device: BasicDevice<'_>, shared: &Counters<'_>, path: &Path<'_>) -> List {
    let all = device.consumes_counters();
    let at = path.child("consumesCounters");
    let check = |of: DeviceCounterConsumption<'_>, path: &Path<'_>| {
        let mut errors: List = required(of.counter_set(), &path.child("counterSet")).into_iter().collect();
        errors.append(counter_map(of.counters(), &path.child("counters")));
        errors
    };
    let mut errors = slice(all, None, check, &at);
    errors.append(duplicates(all.iter().map(|of| of.counter_set()), Some("counterSet"), quoted, &at));
    let count = counters(device);
    if count > MOST_COUNTERS_OF_A_DEVICE {
        let why = format!("the total number of counters must not exceed {MOST_COUNTERS_OF_A_DEVICE}");
        errors.push(Error::invalid(path, count, why));
    }
    for (index, of) in all.iter().enumerate() {
        let path = at.index(index);
        let Some(names) = shared.get(of.counter_set()) else {
            let why = "must reference a counterSet defined in the ResourceSlice sharedCounters";
            errors.push(Error::invalid(&path.child("counterSet"), of.counter_set(), why));
            continue;
        };
        for (name, _) in of.counters().iter().filter(|(name, _)| !names.contains(name)) {
            let why = "must reference a counter defined in the ResourceSlice sharedCounters";
            errors.push(Error::invalid(&path.child("counters"), name, why));
        }
    }
    errors
}

fn counter_map<'a, T: Item<'a> + Copy>(counters: Entries<'a, T>, path: &Path<'_>) -> List {
    match counters.is_empty() {
        true => Error::required(path, "").into(),
        false => entries(counters, MAX_LABEL_LENGTH, label, |_, _| List::new(), path),
    }
}

fn nodes_of_device(device: BasicDevice<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut ways = Vec::new();
    let at = path.child("nodeName");
    match device.node_name() {
        None => {}
        Some("") => errors.push(Error::invalid(&at, "", "must not be empty")),
        Some(name) => {
            ways.push("`nodeName`");
            errors.append(node_name(name, &at));
        }
    }
    if let Some(selector) = device.node_selector() {
        ways.push("`nodeSelector`");
        errors.append(node_selector::validate(selector, Values::Checked, &path.child("nodeSelector")));
    }
    match device.all_nodes() {
        None => {}
        Some(true) => ways.push("`allNodes`"),
        Some(false) => {
            let why = "must be either unset or set to true";
            errors.push(Error::invalid(&path.child("allNodes"), false, why));
        }
    }
    let why = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    match ways.as_slice() {
        [] => errors.push(Error::required(path, why)),
        [_] => {}
        several => errors.push(Error::invalid(path, format!("{{{}}}", several.join(", ")), why)),
    }
    errors
}

fn no_nodes_of_device(device: BasicDevice<'_>, path: &Path<'_>) -> Option<Error> {
    let is_set = ["nodeName", "nodeSelector", "allNodes"].iter().any(|key| device.map().contains_key(key));
    is_set.then(|| {
        let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        Error::invalid(path, BadValue::Null, why)
    })
}

fn shared_counters(spec: ResourceSliceSpec<'_>, path: &Path<'_>) -> List {
    let sets = spec.shared_counters();
    let mut errors = List::new();
    let count: usize = sets.iter().map(|set| set.counters().len()).sum();
    if count > MOST_SHARED_COUNTERS {
        let why = format!("the total number of shared counters must not exceed {MOST_SHARED_COUNTERS}");
        errors.push(Error::invalid(path, count, why));
    }
    let check = |set: CounterSet<'_>, path: &Path<'_>| {
        let at = path.child("name");
        let mut errors = match set.name() {
            "" => Error::required(&at, "").into(),
            name => label(name, &at),
        };
        errors.append(counter_map(set.counters(), &path.child("counters")));
        errors
    };
    errors.append(slice(sets, None, check, path));
    errors.append(duplicates(sets.iter().map(|set| set.name()), Some("name"), quoted, path));
    errors
}
