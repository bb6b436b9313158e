//! Volumes of the plugins that are part of Kubernetes, and of those that were.

use super::local_path;
use crate::checks;
use crate::object_meta::list_of_strings;
use object::field::{BadValue, Error, List, Path};
use object::name::{Mode, dns1123_label, invalid, name_is_dns_label, range_message};
use schema::view::View;
use schema::views::core::v1::{
    AWSElasticBlockStoreVolumeSource, AzureDiskVolumeSource, AzureFileVolumeSource, CephFSVolumeSource,
    CinderPersistentVolumeSource, CinderVolumeSource, FCVolumeSource, FlexVolumeSource, FlockerVolumeSource,
    GCEPersistentDiskVolumeSource, GitRepoVolumeSource, GlusterfsPersistentVolumeSource,
    GlusterfsVolumeSource, NFSVolumeSource, PhotonPersistentDiskVolumeSource, PortworxVolumeSource,
    QuobyteVolumeSource, RBDVolumeSource, ScaleIOVolumeSource, StorageOSPersistentVolumeSource,
    StorageOSVolumeSource, VsphereVirtualDiskVolumeSource,
};

const CACHING_MODES: &[&str] = &["None", "ReadOnly", "ReadWrite"];
const DISK_KINDS: &[&str] = &["Dedicated", "Managed", "Shared"];
const MANAGED_DISK: &str =
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
const BLOB_DISK: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";

/// Fields that have to be there.
fn all_required<const N: usize>(fields: [(&str, &'static str); N], path: &Path<'_>) -> List {
    fields.into_iter().filter_map(|(text, key)| checks::required(text, &path.child(key))).collect()
}

pub(super) fn git_repo(source: GitRepoVolumeSource<'_>, path: &Path<'_>) -> List {
    let mut errors = all_required([(source.repository(), "repository")], path);
    errors.append(local_path::descending(source.directory(), &path.child("directory")));
    errors
}

pub(super) fn gce_persistent_disk(source: GCEPersistentDiskVolumeSource<'_>, path: &Path<'_>) -> List {
    let mut errors = all_required([(source.pd_name(), "pdName")], path);
    errors.extend(partition(source.partition(), path));
    errors
}

pub(super) fn aws_elastic_block_store(source: AWSElasticBlockStoreVolumeSource<'_>, path: &Path<'_>) -> List {
    let mut errors = all_required([(source.volume_id(), "volumeID")], path);
    errors.extend(partition(source.partition(), path));
    errors
}

/// Zero is allowed, although the message says that it is not.
fn partition(number: i64, path: &Path<'_>) -> Option<Error> {
    let error = || Error::invalid(&path.child("partition"), number, range_message(1, 255));
    (!(0..=255).contains(&number)).then(error)
}

pub(super) fn nfs(source: NFSVolumeSource<'_>, path: &Path<'_>) -> List {
    let mut errors = all_required([(source.server(), "server"), (source.path(), "path")], path);
    if !source.path().starts_with('/') {
        errors.push(Error::invalid(&path.child("path"), source.path(), "must be an absolute path"));
    }
    errors
}

pub(super) fn quobyte(source: QuobyteVolumeSource<'_>, path: &Path<'_>) -> List {
    let why = "must be a host:port pair or multiple pairs separated by commas";
    let at = path.child("registry");
    let mut errors = List::new();
    if source.registry().is_empty() {
        errors.push(Error::required(&at, why));
    } else if source.tenant().len() >= 65 {
        let why = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(Error::required(&path.child("tenant"), why));
    } else {
        for pair in source.registry().split(',') {
            if !is_host_and_port(pair) {
                errors.push_with(|| Error::invalid(&at, source.registry(), why));
            }
        }
    }
    errors.append(all_required([(source.volume(), "volume")], path));
    errors
}

/// A host and a port with a colon between them; a host with colons stands in brackets. Both may be empty.
fn is_host_and_port(text: &str) -> bool {
    let brackets = ['[', ']'];
    match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => {
            let port = rest.strip_prefix(':');
            !host.contains('[') && port.is_some_and(|port| !port.contains(':') && !port.contains(brackets))
        }
        None => text.split_once(':').is_some_and(|(host, port)| {
            !port.contains(':') && ![host, port].iter().any(|p| p.contains(brackets))
        }),
    }
}

pub(super) fn glusterfs(source: GlusterfsVolumeSource<'_>, path: &Path<'_>) -> List {
    all_required([(source.endpoints(), "endpoints"), (source.path(), "path")], path)
}

/// What a persistent volume has beside the fields of [`glusterfs`].
pub(super) fn glusterfs_namespace(source: GlusterfsPersistentVolumeSource<'_>, path: &Path<'_>) -> List {
    let at = path.child("endpointsNamespace");
    match source.endpoints_namespace() {
        None => List::new(),
        Some("") => {
            let why = "if the endpointnamespace is set, it must be a valid namespace name";
            Error::invalid(&at, "", why).into()
        }
        Some(name) => invalid(&at, name, name_is_dns_label(name, Mode::Name)),
    }
}

pub(super) fn flocker(source: FlockerVolumeSource<'_>, path: &Path<'_>) -> List {
    let (name, uuid) = (source.dataset_name(), source.dataset_uuid());
    let mut errors = List::new();
    if name.is_empty() && uuid.is_empty() {
        errors.push(Error::required(path, "one of datasetName and datasetUUID is required"));
    }
    if !name.is_empty() && !uuid.is_empty() {
        let why = "datasetName and datasetUUID can not be specified simultaneously";
        errors.push(Error::invalid(path, "resource", why));
    }
    if name.contains('/') {
        errors.push(Error::invalid(&path.child("datasetName"), name, "must not contain '/'"));
    }
    errors
}

pub(super) fn rbd(source: RBDVolumeSource<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if source.monitors().is_empty() {
        errors.push(Error::required(&path.child("monitors"), ""));
    }
    errors.append(all_required([(source.image(), "image")], path));
    errors
}

pub(super) fn ceph_fs(source: CephFSVolumeSource<'_>, path: &Path<'_>) -> List {
    let error = || Error::required(&path.child("monitors"), "");
    source.monitors().is_empty().then(error).into_iter().collect()
}

pub(super) fn cinder(source: CinderVolumeSource<'_>, path: &Path<'_>) -> List {
    let mut errors = all_required([(source.volume_id(), "volumeID")], path);
    if let Some(secret) = source.secret_ref() {
        errors.append(all_required([(secret.name(), "name")], &path.child("secretRef")));
    }
    errors
}

pub(super) fn persistent_cinder(source: CinderPersistentVolumeSource<'_>, path: &Path<'_>) -> List {
    let mut errors = cinder(CinderVolumeSource::of(source.map()), path);
    if let Some(secret) = source.secret_ref() {
        errors.append(all_required([(secret.namespace(), "namespace")], &path.child("secretRef")));
    }
    errors
}

pub(super) fn fc(source: FCVolumeSource<'_>, path: &Path<'_>) -> List {
    let at = path.child("targetWWNs");
    let (names, ids) = (source.target_wwns(), source.wwids());
    let mut errors = List::new();
    if names.is_empty() && ids.is_empty() {
        errors.push(Error::required(&at, "must specify either targetWWNs or wwids, but not both"));
    }
    if !names.is_empty() && !ids.is_empty() {
        let why = "targetWWNs and wwids can not be specified simultaneously";
        errors.push(Error::invalid(&at, BadValue::Raw(list_of_strings(names.iter())), why));
    }
    if !names.is_empty() {
        let at = path.child("lun");
        match source.lun() {
            None => errors.push(Error::required(&at, "lun is required if targetWWNs is specified")),
            Some(0..=255) => {}
            Some(number) => errors.push(Error::invalid(&at, number, range_message(0, 255))),
        }
    }
    errors
}

pub(super) fn flex(source: FlexVolumeSource<'_>, path: &Path<'_>) -> List {
    let mut errors = all_required([(source.driver(), "driver")], path);
    let options = path.child("options");
    for (key, _) in source.options().iter() {
        let domain = key.split_once('/').map_or(key, |(domain, _)| domain).to_lowercase();
        let is_in = |suffix: &str| {
            domain.strip_suffix(suffix).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        if is_in("kubernetes.io") || is_in("k8s.io") {
            let why = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(Error::invalid(&options.key(key), key, why));
        }
    }
    errors
}

pub(super) fn azure_file(source: AzureFileVolumeSource<'_>, path: &Path<'_>) -> List {
    all_required([(source.secret_name(), "secretName"), (source.share_name(), "shareName")], path)
}

pub(super) fn azure_disk(source: AzureDiskVolumeSource<'_>, path: &Path<'_>) -> List {
    let mut errors = all_required([(source.disk_name(), "diskName"), (source.disk_uri(), "diskURI")], path);
    if let Some(mode) = source.caching_mode() {
        errors.extend(checks::one_of(mode, CACHING_MODES, &path.child("cachingMode")));
    }
    if let Some(kind) = source.kind() {
        errors.extend(checks::one_of(kind, DISK_KINDS, &path.child("kind")));
        let (start, supported) = match kind {
            "Managed" => ("/subscriptions/", MANAGED_DISK),
            _ => ("https://", BLOB_DISK),
        };
        if !source.disk_uri().starts_with(start) {
            errors.push(Error::not_supported(&path.child("diskURI"), source.disk_uri(), [supported]));
        }
    }
    errors
}

pub(super) fn vsphere(source: VsphereVirtualDiskVolumeSource<'_>, path: &Path<'_>) -> List {
    all_required([(source.volume_path(), "volumePath")], path)
}

pub(super) fn photon(source: PhotonPersistentDiskVolumeSource<'_>, path: &Path<'_>) -> List {
    all_required([(source.pd_id(), "pdID")], path)
}

pub(super) fn portworx(source: PortworxVolumeSource<'_>, path: &Path<'_>) -> List {
    all_required([(source.volume_id(), "volumeID")], path)
}

pub(super) fn scale_io(source: ScaleIOVolumeSource<'_>, path: &Path<'_>) -> List {
    let fields =
        [(source.gateway(), "gateway"), (source.system(), "system"), (source.volume_name(), "volumeName")];
    all_required(fields, path)
}

pub(super) fn storage_os(source: StorageOSVolumeSource<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let at = path.child("volumeName");
    match source.volume_name() {
        "" => errors.push(Error::required(&at, "")),
        name => errors.append(invalid(&at, name, dns1123_label(name))),
    }
    let namespace = source.volume_namespace();
    if !namespace.is_empty() {
        errors.append(invalid(&path.child("volumeNamespace"), namespace, dns1123_label(namespace)));
    }
    if let Some(secret) = source.secret_ref() {
        errors.append(all_required([(secret.name(), "name")], &path.child("secretRef")));
    }
    errors
}

pub(super) fn persistent_storage_os(source: StorageOSPersistentVolumeSource<'_>, path: &Path<'_>) -> List {
    let mut errors = storage_os(StorageOSVolumeSource::of(source.map()), path);
    if let Some(secret) = source.secret_ref() {
        errors.append(all_required([(secret.namespace(), "namespace")], &path.child("secretRef")));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::is_host_and_port;

    #[test]
    fn host_and_port_have_one_colon_between_them() {
        for (text, valid) in [
            ("a:1", true),
            (":", true),
            ("[::1]:1", true),
            ("[]:1", true),
            ("", false),
            ("a", false),
            ("a:b:1", false),
            ("[::1]", false),
            ("[::1]1:1", false),
            ("[::1", false),
            ("[a[]:1", false),
            ("a]:1", false),
            ("[::1]:1:2", false),
        ] {
            assert_eq!(is_host_and_port(text), valid, "{text}");
        }
    }
}
