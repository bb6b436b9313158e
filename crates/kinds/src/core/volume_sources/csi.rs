//! Volumes of CSI drivers.

use crate::checks;
use object::field::{Error, List, Path};
use object::name::{Mode, dns1123_label, dns1123_subdomain, invalid, name_is_dns_subdomain};
use schema::views::core::v1::{CSIPersistentVolumeSource, CSIVolumeSource, SecretReference};
use std::borrow::Cow;

const LONGEST_DRIVER_NAME: usize = 63;

/// The field errors of the name of a driver, which may have capital letters.
pub(crate) fn driver_name(name: &str, path: &Path<'_>) -> List {
    let mut errors = List::new();
    errors.extend(checks::required(name, path));
    if name.len() > LONGEST_DRIVER_NAME {
        errors.push(Error::too_long(path, Some(LONGEST_DRIVER_NAME)));
    }
    let lower = match name.chars().any(char::is_uppercase) {
        true => Cow::Owned(name.to_lowercase()),
        false => Cow::Borrowed(name),
    };
    errors.append(invalid(path, name, dns1123_subdomain(&lower)));
    errors
}

pub(super) fn of_pod(source: CSIVolumeSource<'_>, path: &Path<'_>) -> List {
    let mut errors = driver_name(source.driver(), &path.child("driver"));
    if let Some(secret) = source.node_publish_secret_ref() {
        let at = path.child("nodePublishSecretRef");
        match secret.name() {
            "" => errors.push(Error::required(&at.child("name"), "")),
            name => {
                errors.append(invalid(&path.child("name"), name, name_is_dns_subdomain(name, Mode::Name)));
            }
        }
    }
    errors
}

pub(super) fn persistent(source: CSIPersistentVolumeSource<'_>, path: &Path<'_>) -> List {
    let mut errors = driver_name(source.driver(), &path.child("driver"));
    errors.extend(checks::required(source.volume_handle(), &path.child("volumeHandle")));
    for (key, secret) in [
        ("controllerPublishSecretRef", source.controller_publish_secret_ref()),
        ("controllerExpandSecretRef", source.controller_expand_secret_ref()),
        ("nodePublishSecretRef", source.node_publish_secret_ref()),
        ("nodeExpandSecretRef", source.node_expand_secret_ref()),
    ] {
        if let Some(reference) = secret {
            errors.append(secret_reference(reference, &path.child(key)));
        }
    }
    errors
}

fn secret_reference(secret: SecretReference<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let at = path.child("name");
    match secret.name() {
        "" => errors.push(Error::required(&at, "")),
        name => errors.append(invalid(&at, name, dns1123_subdomain(name))),
    }
    let at = path.child("namespace");
    match secret.namespace() {
        "" => errors.push(Error::required(&at, "")),
        namespace => errors.append(invalid(&at, namespace, dns1123_label(namespace))),
    }
    errors
}
