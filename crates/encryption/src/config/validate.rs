//! The rules of an `EncryptionConfiguration`, in the words of the reference.

use std::collections::HashSet;

use object::field::{BadValue, Error, List, Path};
use object::quote::quote_each;
use schema::view::Items;
use schema::views::apiserver::v1::{EncryptionConfiguration, KMSConfiguration, Key, ProviderConfiguration};

use super::{DEFAULT_KMS_VERSION, Reload, endpoint, kms_timeout, kms_version, secret};
use crate::resource::GroupResource;

const AES_SIZES: &[usize] = &[16, 24, 32];
const SECRETBOX_SIZES: &[usize] = &[32];
/// Data of the server that no API serves.
const NOT_SERVED: [&str; 3] = ["apiserveripinfo", "serviceipallocations", "servicenodeportallocations"];

/// All errors of a configuration.
pub(super) fn validate(configuration: EncryptionConfiguration<'_>, reload: Reload) -> List {
    let root = Path::new("resources");
    let mut errors = List::new();
    let entries = configuration.resources();
    if entries.is_empty() {
        errors.push(Error::required(&root, at_least_one(&root)));
        return errors;
    }
    let mut kms_names = HashSet::new();
    for (at, entry) in entries.iter().enumerate() {
        let entry_path = root.index(at);
        let (resources_path, providers_path) = (entry_path.child("resources"), entry_path.child("providers"));
        if entry.resources().is_empty() {
            errors.push(Error::required(&resources_path, at_least_one(&resources_path)));
        }
        validate_overlap(entry.resources(), &resources_path, &mut errors);
        for (at, resource) in entry.resources().iter().enumerate() {
            if let Some(detail) = resource_fault(resource) {
                errors.push(Error::invalid(&resources_path.index(at), resource, detail));
            }
        }
        if entry.providers().is_empty() {
            errors.push(Error::required(&providers_path, at_least_one(&providers_path)));
        }
        for (at, provider) in entry.providers().iter().enumerate() {
            let path = providers_path.index(at);
            validate_number(provider, &path, &mut errors);
            if let Some(kms) = provider.kms() {
                validate_kms(kms, &path.child("kms"), &kms_names, reload, &mut errors);
                kms_names.insert(kms.name());
            } else if let Some(aes) = provider.aesgcm() {
                validate_keys(aes.keys(), &path.child("aesgcm").child("keys"), AES_SIZES, &mut errors);
            } else if let Some(aes) = provider.aescbc() {
                validate_keys(aes.keys(), &path.child("aescbc").child("keys"), AES_SIZES, &mut errors);
            } else if let Some(secretbox) = provider.secretbox() {
                let path = path.child("secretbox");
                validate_keys(secretbox.keys(), &path.child("keys"), SECRETBOX_SIZES, &mut errors);
            }
        }
    }
    errors
}

fn at_least_one(path: &Path<'_>) -> String {
    format!("at least one {path} is required")
}

/// A resource may be there once, and not beside all resources of its group.
fn validate_overlap(resources: Items<'_, &str>, path: &Path<'_>, errors: &mut List) {
    let names: Vec<GroupResource> = resources.iter().map(GroupResource::parse).collect();
    let mut unique = HashSet::new();
    let has_duplicate = !names.iter().all(|name| unique.insert(name));
    let other_of = |name: &GroupResource, at: usize| {
        names.iter().enumerate().any(|(other_at, other)| other_at != at && other.group == name.group)
    };
    let has_overlap = names.iter().enumerate().any(|(at, name)| match name.is_any() {
        true => names.len() > 1,
        false => name.resource == "*" && other_of(name, at),
    });
    let mut invalid = |detail: &'static str| {
        let shown = format!("[]string{{{}}}", quote_each(resources.iter()));
        errors.push(Error::invalid(path, BadValue::Raw(shown), detail));
    };
    if has_duplicate {
        invalid("the same resource cannot be specified multiple times");
    }
    if has_overlap {
        invalid(
            "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked",
        );
    }
}

fn resource_fault(text: &str) -> Option<&'static str> {
    let GroupResource { group, resource } = GroupResource::parse(text);
    if text.to_lowercase() != text {
        Some("resource name should not contain capital letters")
    } else if text == "*" {
        Some("use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources")
    } else if NOT_SERVED.contains(&text) {
        Some("resources which do not have REST API/s cannot be encrypted")
    } else if group == "events.k8s.io" {
        Some(
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file",
        )
    } else if group == "extensions" {
        Some("'extensions' group has been removed and cannot be used for encryption")
    } else if group == "*" && resource != "*" {
        Some("encrypting the same resource across groups is not supported")
    } else {
        None
    }
}

/// An item is exactly one provider.
fn validate_number(provider: ProviderConfiguration<'_>, path: &Path<'_>, errors: &mut List) {
    let given = [
        ("AESGCM", "AESConfiguration", provider.aesgcm().is_some()),
        ("AESCBC", "AESConfiguration", provider.aescbc().is_some()),
        ("Secretbox", "SecretboxConfiguration", provider.secretbox().is_some()),
        ("Identity", "IdentityConfiguration", provider.identity().is_some()),
        ("KMS", "KMSConfiguration", provider.kms().is_some()),
    ];
    let detail = match given.iter().filter(|(_, _, is_given)| *is_given).count() {
        0 => {
            "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity"
        }
        1 => return,
        _ => {
            "more than one provider specified in a single element, should split into different list elements"
        }
    };
    // The reference shows the address of a pointer, which does not exist here.
    let shown = given.map(|(field, ty, is_given)| {
        format!("{field}:(*apiserver.{ty})({})", if is_given { "0x0" } else { "nil" })
    });
    let shown = format!("apiserver.ProviderConfiguration{{{}}}", shown.join(", "));
    errors.push(Error::invalid(path, BadValue::Raw(shown), detail));
}

fn validate_keys(keys: Items<'_, Key<'_>>, path: &Path<'_>, sizes: &[usize], errors: &mut List) {
    if keys.is_empty() {
        errors.push(Error::required(path, "at least one keys is required"));
    }
    for (at, key) in keys.iter().enumerate() {
        let path = path.index(at);
        if key.name().is_empty() {
            errors.push(Error::required(&path.child("name"), "name is a mandatory field for a key"));
        }
        let secret_path = path.child("secret");
        if key.secret().is_empty() {
            errors.push(Error::required(&secret_path, "secret is a mandatory field for a key"));
            continue;
        }
        let mut invalid = |detail: String| errors.push(Error::invalid(&secret_path, "REDACTED", detail));
        match secret(key).map(|secret| secret.len()) {
            None => invalid("secrets must be base64 encoded".to_owned()),
            Some(size) if !sizes.contains(&size) => {
                let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
                let sizes = sizes.join(" ");
                invalid(format!(
                    "secret is not of the expected length, got {size}, expected one of [{sizes}]"
                ));
            }
            Some(_) => {}
        }
    }
}

fn validate_kms(
    kms: KMSConfiguration<'_>,
    path: &Path<'_>,
    names: &HashSet<&str>,
    reload: Reload,
    errors: &mut List,
) {
    let (name, version) = (kms.name(), kms_version(kms));
    let is_v1 = version == DEFAULT_KMS_VERSION;
    let name_path = path.child("name");
    if name.is_empty() {
        errors.push(Error::required(&name_path, "name is a mandatory field for a provider"));
    }
    if !is_v1 && name.contains(':') {
        let detail = format!("invalid KMS provider name {name}, must not contain ':'");
        errors.push(Error::invalid(&name_path, name, detail));
    }
    if (reload == Reload::Automatic || !is_v1) && names.contains(name) {
        let detail = format!("duplicate KMS provider name {name}, names must be unique");
        errors.push(Error::invalid(&name_path, name, detail));
    }
    let timeout = kms_timeout(kms);
    if timeout.as_nanos() <= 0 {
        errors.push(Error::invalid(&path.child("timeout"), timeout, "timeout should be a positive value"));
    }
    if let Some(detail) = endpoint_fault(kms.endpoint()) {
        errors.push(Error::invalid(&path.child("endpoint"), kms.endpoint(), detail));
    }
    let size_path = path.child("cachesize");
    match kms.cachesize() {
        Some(size) if !is_v1 => {
            errors.push(Error::invalid(&size_path, size, "cachesize is not supported in v2"));
        }
        Some(size @ 0) => {
            let detail = "cachesize should be a positive value, or negative to disable";
            errors.push(Error::invalid(&size_path, size, detail));
        }
        _ => {}
    }
    if !is_v1 && version != "v2" {
        let detail = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported";
        errors.push(Error::invalid(&path.child("apiVersion"), version, detail));
    }
}

fn endpoint_fault(endpoint: &str) -> Option<String> {
    if endpoint.is_empty() {
        return Some("endpoint is a mandatory field for a kms".to_owned());
    }
    match endpoint::split(endpoint) {
        Err(error) => Some(format!("invalid endpoint for kms provider, error: {error}")),
        Ok((scheme, _)) if scheme != "unix" => {
            Some(format!("unsupported scheme \"{scheme}\" for KMS provider, only unix is supported"))
        }
        Ok(_) => None,
    }
}
