//! The rules that several kinds of this group share.

use crate::Rules;
use crate::checks;
use expressions::{Fault, Stage, device};
use object::RawJson;
use object::field::{BadValue, Error, List, Path};
use object::name::{
    MAX_SUBDOMAIN_LENGTH, c_identifier, dns1123_label, dns1123_subdomain, invalid, label_key, label_value,
};
use schema::view::{Item, Items};
use schema::views::resource::v1beta1::{DeviceConfiguration, DeviceSelector, DeviceTaint, DeviceToleration};
use std::borrow::Cow;
use std::collections::HashSet;

const LONGEST_DRIVER: usize = 63;
const LONGEST_ID: usize = 32;
/// The most bytes of the parameters of a driver.
pub(super) const LONGEST_PARAMETERS: usize = 10 << 10;
/// The most selectors, and the most configurations.
pub(super) const MOST_ITEMS: usize = 32;
const MOST_TAINTS: usize = 4;

/// The errors of each item, then one if there are more than `most`.
pub(super) fn slice<'a, T: Item<'a> + Copy>(
    items: Items<'a, T>,
    most: Option<usize>,
    check: impl Fn(T, &Path<'_>) -> List,
    path: &Path<'_>,
) -> List {
    let mut errors: List = items.iter().enumerate().map(|(at, item)| check(item, &path.index(at))).collect();
    if let Some(most) = most.filter(|most| items.len() > *most) {
        errors.push(Error::too_many(path, Some(items.len()), Some(most)));
    }
    errors
}

/// The errors of keys that are there twice. They are at the field `key` of the items, or at the items
/// themselves.
pub(super) fn duplicates<K: AsRef<str>>(
    keys: impl Iterator<Item = K>,
    key: Option<&str>,
    shown: fn(&str) -> BadValue,
    path: &Path<'_>,
) -> List {
    let mut seen = HashSet::new();
    let mut errors = List::new();
    for (at, text) in keys.enumerate() {
        let path = path.index(at);
        let text = text.as_ref().to_owned();
        if seen.contains(&text) {
            errors.push(match key {
                Some(key) => Error::duplicate(&path.child(key), shown(&text)),
                None => Error::duplicate(&path, shown(&text)),
            });
        }
        seen.insert(text);
    }
    errors
}

/// Text is shown in quotes.
pub(super) fn quoted(text: &str) -> BadValue {
    text.into()
}

/// The name of a device, a request or a counter.
pub(super) fn label(name: &str, path: &Path<'_>) -> List {
    invalid(path, name, dns1123_label(name))
}

/// The name of a driver, which may have capital letters.
pub(super) fn driver_name(name: &str, path: &Path<'_>) -> List {
    let mut errors: List = checks::required(name, path).into_iter().collect();
    if name.len() > LONGEST_DRIVER {
        errors.push(Error::too_long(path, Some(LONGEST_DRIVER)));
    }
    let lower = match name.chars().any(char::is_uppercase) {
        true => Cow::Owned(name.to_lowercase()),
        false => Cow::Borrowed(name),
    };
    errors.append(invalid(path, name, dns1123_subdomain(&lower)));
    errors
}

/// The name of a pool: domain names with slashes between them.
pub(super) fn pool_name(name: &str, path: &Path<'_>) -> List {
    if name.is_empty() {
        return Error::required(path, "").into();
    }
    let mut errors = List::new();
    if name.len() > MAX_SUBDOMAIN_LENGTH {
        errors.push(Error::too_long(path, Some(MAX_SUBDOMAIN_LENGTH)));
    }
    for part in name.split('/') {
        errors.append(invalid(path, part, dns1123_subdomain(part)));
    }
    errors
}

/// The name of an attribute or a capacity: an identifier, after a domain if there is one.
pub(super) fn qualified_name(name: &str, path: &Path<'_>) -> List {
    if name.is_empty() {
        return Error::required(path, "name required").into();
    }
    let (domain, id) = match name.split_once('/') {
        None => return identifier(name, path),
        Some((_, id)) if id.contains('/') => return List::new(),
        Some(parts) => parts,
    };
    let mut errors = match domain {
        "" => Error::required(path, "the domain must not be empty").into(),
        domain => driver_name(domain, path),
    };
    errors.append(match id {
        "" => Error::required(path, "the name must not be empty").into(),
        id => identifier(id, path),
    });
    errors
}

/// A name with a domain.
pub(super) fn fully_qualified_name(name: &str, path: &Path<'_>) -> List {
    let mut errors = qualified_name(name, path);
    if !name.is_empty() && !name.contains('/') {
        errors.push(Error::invalid(path, name, "must include a domain"));
    }
    errors
}

fn identifier(id: &str, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if id.len() > LONGEST_ID {
        errors.push(Error::too_long(path, Some(LONGEST_ID)));
    }
    errors.extend(c_identifier(id).into_iter().map(|why| Error::type_invalid(path, id, why)));
    errors
}

/// Items are stored ones if none of them changed, not even its place.
pub(super) fn stage<'a, T: Item<'a>>(new: Items<'a, T>, old: Option<Items<'a, T>>) -> Stage {
    match old.is_some_and(|old| old.values() == new.values()) {
        true => Stage::Stored,
        false => Stage::New,
    }
}

/// The most bytes of the selectors of an object that are compiled at once: some milliseconds.
const INLINE: usize = 32 << 10;

/// Runs a validation that compiles selectors: beside other requests if they are long.
pub(super) fn compiling<'a>(
    selectors: impl IntoIterator<Item = Items<'a, DeviceSelector<'a>>>,
    rules: &Rules<'_>,
    validate: impl Fn() -> List,
) -> List {
    let selectors = selectors.into_iter().flat_map(Items::iter);
    let bytes: usize = selectors.filter_map(|of| of.cel()).map(|cel| cel.expression().len()).sum();
    if bytes <= INLINE {
        return validate();
    }
    let mut errors = List::new();
    rules.beside(&mut || errors = validate());
    errors
}

/// The selectors of devices.
pub(super) fn selectors(selectors: Items<'_, DeviceSelector<'_>>, stage: Stage, path: &Path<'_>) -> List {
    let check = |selector: DeviceSelector<'_>, path: &Path<'_>| {
        let path = path.child("cel");
        match selector.cel() {
            None => Some(Error::required(&path, "")),
            Some(cel) => expression(cel.expression(), stage, &path.child("expression")),
        }
        .into_iter()
        .collect()
    };
    slice(selectors, Some(MOST_ITEMS), check, path)
}

fn expression(text: &str, stage: Stage, path: &Path<'_>) -> Option<Error> {
    if text.len() > device::MOST_BYTES {
        return Some(Error::too_long(path, Some(device::MOST_BYTES)));
    }
    match device::max_cost(text, stage) {
        Ok(..=device::MOST_COST) => None,
        Ok(_) => Some(Error::forbidden(path, "too complex, exceeds cost limit")),
        Err(Fault::Invalid(detail)) => Some(Error::invalid(path, text, detail)),
        Err(Fault::Internal(detail)) => Some(Error::internal(path, detail)),
    }
}

/// The configuration of devices for a driver. One that is stored may have longer parameters.
pub(super) fn configuration(configuration: DeviceConfiguration<'_>, stage: Stage, path: &Path<'_>) -> List {
    let path = path.child("opaque");
    let Some(opaque) = configuration.opaque() else { return Error::required(&path, "").into() };
    let mut errors = driver_name(opaque.driver(), &path.child("driver"));
    errors.extend(raw_object(opaque.parameters(), stage, &path.child("parameters")));
    errors
}

/// A JSON object.
pub(super) fn raw_object(raw: Option<&RawJson>, stage: Stage, path: &Path<'_>) -> Option<Error> {
    let text = raw.map_or("null", RawJson::as_str);
    if text == "null" {
        return Some(Error::required(path, ""));
    }
    if stage == Stage::New && text.len() > LONGEST_PARAMETERS {
        return Some(Error::too_long(path, Some(LONGEST_PARAMETERS)));
    }
    (!text.starts_with('{'))
        .then(|| Error::invalid(path, "<value omitted>", "parameters must be a valid JSON object"))
}

const EFFECTS: &[&str] = &["NoExecute", "NoSchedule"];

/// The taints of a device.
pub(super) fn taints(taints: Items<'_, DeviceTaint<'_>>, path: &Path<'_>) -> List {
    slice(taints, Some(MOST_TAINTS), taint, path)
}

/// A taint of a device.
pub(super) fn taint(taint: DeviceTaint<'_>, path: &Path<'_>) -> List {
    let mut errors = invalid(&path.child("key"), taint.key(), label_key(taint.key()));
    errors.append(invalid(&path.child("value"), taint.value(), label_value(taint.value())));
    errors.extend(checks::required_one_of(taint.effect(), EFFECTS, &path.child("effect")));
    errors
}

/// Tolerations of taints of devices.
pub(super) fn tolerations(tolerations: Items<'_, DeviceToleration<'_>>, path: &Path<'_>) -> List {
    slice(tolerations, None, toleration, path)
}

fn toleration(toleration: DeviceToleration<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let (key, value) = (toleration.key(), toleration.value());
    if !key.is_empty() {
        errors.append(invalid(&path.child("key"), key, label_key(key)));
    }
    let at = path.child("value");
    match toleration.operator() {
        "Exists" if !value.is_empty() => {
            errors.push(Error::invalid(&at, value, "must be empty for operator `Exists`"));
        }
        "Equal" => errors.append(invalid(&at, value, label_value(value))),
        operator => {
            let at = path.child("operator");
            errors.extend(checks::required_one_of(operator, &["Equal", "Exists"], &at));
        }
    }
    if !toleration.effect().is_empty() {
        errors.extend(checks::one_of(toleration.effect(), EFFECTS, &path.child("effect")));
    }
    errors
}
