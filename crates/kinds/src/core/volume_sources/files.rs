//! Volumes whose files the kubelet writes: secrets, config maps, the downward API, and projections of them,
//! of tokens and of trust bundles.

use super::local_path;
use crate::certificates::{bundle_name, signer_name};
use crate::checks;
use crate::core::pod_rules::PodOptions;
use crate::core::pod_rules::field_refs::{ContainerName, object_field, resource_field};
use crate::label_selector::{self, Values};
use crate::seen::Seen;
use object::field::{BadValue, Error, List, Path};
use object::name::Mode;
use object::quote::quote;
use schema::view::{Items, View};
use schema::views::core::v1::{
    ClusterTrustBundleProjection, ConfigMapVolumeSource, DownwardAPIVolumeFile, DownwardAPIVolumeSource,
    KeyToPath, ProjectedVolumeSource, SecretVolumeSource, ServiceAccountTokenProjection, VolumeProjection,
};

/// The fields of a pod that a file may show.
const FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

pub(super) fn secret(source: SecretVolumeSource<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    errors.extend(checks::required(source.secret_name(), &path.child("secretName")));
    errors.extend(mode(source.default_mode(), &path.child("defaultMode")));
    errors.append(items(source.items(), &path.child("items")));
    errors
}

pub(super) fn config_map(source: ConfigMapVolumeSource<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    errors.extend(checks::required(source.name(), &path.child("name")));
    errors.extend(mode(source.default_mode(), &path.child("defaultMode")));
    errors.append(items(source.items(), &path.child("items")));
    errors
}

fn mode(mode: Option<i64>, path: &Path<'_>) -> Option<Error> {
    let why = "must be a number between 0 and 0777 (octal), both inclusive";
    let mode = mode.filter(|mode| !(0..=0o777).contains(mode))?;
    Some(Error::invalid(path, mode, why))
}

fn items(items: Items<'_, KeyToPath<'_>>, path: &Path<'_>) -> List {
    items.iter().enumerate().map(|(at, of)| item(of, &path.index(at))).collect()
}

fn item(item: KeyToPath<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let at = path.child("path");
    errors.extend(checks::required(item.key(), &path.child("key")));
    errors.extend(checks::required(item.path(), &at));
    errors.append(local_path::not_reserved(item.path(), &at));
    errors.extend(mode(item.mode(), &path.child("mode")));
    errors
}

/// Errors of files have the path of the source.
pub(super) fn downward_api(source: DownwardAPIVolumeSource<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    errors.extend(mode(source.default_mode(), &path.child("defaultMode")));
    for of in source.items().iter() {
        errors.append(file(of, path));
    }
    errors
}

fn file(file: DownwardAPIVolumeFile<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let at = path.child("path");
    errors.extend(checks::required(file.path(), &at));
    errors.append(local_path::not_reserved(file.path(), &at));
    match (file.field_ref(), file.resource_field_ref()) {
        (Some(field), resource) => {
            errors.append(object_field(field, FIELDS, &path.child("fieldRef")));
            if resource.is_some() {
                let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(Error::invalid(path, "resource", why));
            }
        }
        (None, Some(resource)) => {
            let at = path.child("resourceFieldRef");
            errors.append(resource_field(resource, ContainerName::Required, &at));
        }
        (None, None) => {
            errors.push(Error::required(path, "one of fieldRef and resourceFieldRef is required"));
        }
    }
    errors.extend(mode(file.mode(), &path.child("mode")));
    errors
}

pub(super) fn projected(source: ProjectedVolumeSource<'_>, options: &PodOptions, path: &Path<'_>) -> List {
    let mut errors = List::new();
    errors.extend(mode(source.default_mode(), &path.child("defaultMode")));
    let mut files = Files { path, paths: Seen::new(), errors };
    let sources = path.child("sources");
    for (at, of) in source.sources().iter().enumerate() {
        files.source(of, options, &sources.index(at));
    }
    files.errors
}

/// The files of all sources of a projected volume.
struct Files<'a, 'p> {
    /// The path of the volume, which many errors have.
    path: &'p Path<'p>,
    /// The paths of files so far.
    paths: Seen<&'a str>,
    errors: List,
}

impl<'a> Files<'a, '_> {
    fn source(&mut self, source: VolumeProjection<'a>, options: &PodOptions, path: &Path<'_>) {
        if let Some(secret) = source.secret() {
            self.keys(secret.name(), secret.items(), &path.child("secret"));
        }
        if let Some(config) = source.config_map() {
            self.keys(config.name(), config.items(), &path.child("configMap"));
        }
        if let Some(downward) = source.downward_api() {
            let path = path.child("downwardAPI");
            for of in downward.items().iter() {
                self.errors.append(file(of, &path));
                if !of.path().is_empty() {
                    self.take(of.path(), of.path());
                }
            }
        }
        if let Some(token) = source.service_account_token() {
            self.token(token, options, &path.child("serviceAccountToken"));
        }
        if let Some(bundle) = source.cluster_trust_bundle() {
            self.trust_bundle(bundle, &path.child("clusterTrustBundle"));
        }
        if source.map().len() > 1 {
            let why = "may not specify more than 1 volume type per source";
            self.errors.push(Error::forbidden(path, why));
        }
    }

    /// The keys of a secret or of a config map of a name.
    fn keys(&mut self, name: &str, items: Items<'a, KeyToPath<'a>>, path: &Path<'_>) {
        self.errors.extend(checks::required(name, &path.child("name")));
        let list = path.child("items");
        for (at, of) in items.iter().enumerate() {
            self.errors.append(item(of, &list.index(at)));
            if !of.path().is_empty() {
                self.take(of.path(), name);
            }
        }
    }

    fn token(&mut self, token: ServiceAccountTokenProjection<'_>, options: &PodOptions, path: &Path<'_>) {
        let seconds = token.expiration_seconds().unwrap_or_default();
        self.errors.extend(checks::token_lifetime(seconds, &path.child("expirationSeconds")));
        let at = self.path.child("path");
        if token.path().is_empty() {
            self.errors.push(Error::required(&at, ""));
        } else if !options.non_local_token_paths {
            self.errors.append(local_path::not_reserved(token.path(), &at));
        }
    }

    fn trust_bundle(&mut self, bundle: ClusterTrustBundleProjection<'a>, path: &Path<'_>) {
        let errors = &mut self.errors;
        match (bundle.name(), bundle.signer_name()) {
            (Some(name), Some(signer)) => {
                let shown = format!(
                    "core.ClusterTrustBundleProjection{{Name:{}, SignerName:{}, Path:{}}}",
                    quote(name),
                    quote(signer),
                    quote(bundle.path())
                );
                let why = "only one of name and signerName may be used";
                errors.push(Error::invalid(path, BadValue::Raw(shown), why));
            }
            (Some(name), None) => {
                let at = path.child("name");
                if name.is_empty() {
                    errors.push(Error::required(&at, "must be a valid object name"));
                }
                let signer = name.rsplit_once(':').map(|(signer, _)| signer.replace(':', "/"));
                let faults = bundle_name(&signer.unwrap_or_default(), name, Mode::Name);
                errors.extend(faults.into_iter().map(|why| {
                    Error::invalid(&at, name, format!("not a valid clustertrustbundlename: {why}"))
                }));
                if let Some(selector) = bundle.label_selector() {
                    let why = "labelSelector must be unset if name is specified";
                    let shown = label_selector::shown(Some(selector));
                    errors.push(Error::invalid(&path.child("labelSelector"), shown, why));
                }
            }
            (None, Some(signer)) => {
                let at = path.child("signerName");
                if signer.is_empty() {
                    errors.push(Error::required(&at, "must be a valid signer name"));
                }
                errors.append(signer_name(signer, &at));
                if let Some(selector) = bundle.label_selector() {
                    let at = path.child("labelSelector");
                    errors.append(label_selector::validate(selector, Values::Checked, &at));
                }
            }
            (None, None) => {
                errors.push(Error::required(path, "either name or signerName must be specified"));
            }
        }
        let at = path.child("path");
        errors.extend(checks::required(bundle.path(), &at));
        errors.append(local_path::not_reserved(bundle.path(), &at));
        self.take(bundle.path(), bundle.path());
    }

    /// Takes the path of a file. `shown` is in the error if it is taken already.
    fn take(&mut self, file: &'a str, shown: &str) {
        if !self.paths.insert(file) {
            self.errors.push(Error::invalid(self.path, shown, "conflicting duplicate paths"));
        }
    }
}
