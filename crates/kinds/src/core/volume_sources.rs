//! The rules for the sources of volumes: of pods, and of persistent volumes.
//!
//! The persistent form of a source has the fields of the one in a pod, and some more. Rules that need only
//! the fields that both have see it as the one in a pod.

mod csi;
mod files;
mod iscsi;
mod plugins;

use super::local_path;
use super::persistent_volume_claim::rules as claim_rules;
use super::pod_rules::PodOptions;
use crate::checks;
use object::field::{Error, List, Path};
use object::name::{Mode, name_is_dns_subdomain};
use object::quote::Quoted;
use schema::view::View;
use schema::views::core::v1::{
    AzureFileVolumeSource, CephFSVolumeSource, EphemeralVolumeSource, FlexVolumeSource,
    GlusterfsVolumeSource, HostPathVolumeSource, ImageVolumeSource, LocalVolumeSource, PersistentVolumeSpec,
    RBDVolumeSource, ScaleIOVolumeSource, Volume, VolumeNodeAffinity,
};

pub(crate) use csi::driver_name as csi_driver_name;

const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// The sources of a volume as they are checked: the first one by its rules, each further one is refused.
struct Sources<'p> {
    path: &'p Path<'p>,
    is_found: bool,
    errors: List,
}

impl<'p> Sources<'p> {
    fn new(path: &'p Path<'p>) -> Self {
        Self { path, is_found: false, errors: List::new() }
    }

    /// The source at `key`, if it is there.
    fn check<T>(&mut self, source: Option<T>, key: &'static str, rules: impl FnOnce(T, &Path<'_>) -> List) {
        self.check_as(source, key, key, rules);
    }

    /// Some sources are refused at another path than that of their errors.
    fn check_as<T>(
        &mut self,
        source: Option<T>,
        refused_at: &'static str,
        key: &'static str,
        rules: impl FnOnce(T, &Path<'_>) -> List,
    ) {
        let Some(source) = source else { return };
        if self.is_found {
            let why = "may not specify more than 1 volume type";
            self.errors.push(Error::forbidden(&self.path.child(refused_at), why));
        } else {
            self.is_found = true;
            self.errors.append(rules(source, &self.path.child(key)));
        }
    }

    fn errors(mut self) -> List {
        if !self.is_found {
            self.errors.push(Error::required(self.path, "must specify a volume type"));
        }
        self.errors
    }
}

/// The field errors of the source of a volume in a pod. `pod` is the name of the pod; empty in a template.
pub(super) fn of_pod(volume: Volume<'_>, pod: &str, options: &PodOptions, path: &Path<'_>) -> List {
    let mut sources = Sources::new(path);
    sources.check(volume.empty_dir(), "emptyDir", |source, path| {
        let limit = source.size_limit().unwrap_or_default();
        let is_negative = limit.starts_with('-');
        let error = || {
            let why = "SizeLimit field must be a valid resource quantity";
            Error::forbidden(&path.child("sizeLimit"), why)
        };
        is_negative.then(error).into_iter().collect()
    });
    sources.check(volume.host_path(), "hostPath", host_path);
    sources.check(volume.git_repo(), "gitRepo", plugins::git_repo);
    sources.check_as(
        volume.gce_persistent_disk(),
        "gcePersistentDisk",
        "persistentDisk",
        plugins::gce_persistent_disk,
    );
    sources.check(volume.aws_elastic_block_store(), "awsElasticBlockStore", plugins::aws_elastic_block_store);
    sources.check(volume.secret(), "secret", files::secret);
    sources.check(volume.nfs(), "nfs", plugins::nfs);
    sources.check(volume.iscsi(), "iscsi", iscsi::of_pod);
    if let Some(source) = volume.iscsi()
        && iscsi::is_too_long(volume.name(), source)
    {
        sources.errors.push(Error::invalid(&path.child("name"), volume.name(), iscsi::TOO_LONG));
    }
    sources.check(volume.glusterfs(), "glusterfs", plugins::glusterfs);
    sources.check(volume.flocker(), "flocker", plugins::flocker);
    sources.check(volume.persistent_volume_claim(), "persistentVolumeClaim", |source, path| {
        checks::required(source.claim_name(), &path.child("claimName")).into_iter().collect()
    });
    sources.check(volume.rbd(), "rbd", plugins::rbd);
    sources.check(volume.cinder(), "cinder", plugins::cinder);
    sources.check_as(volume.cephfs(), "cephFS", "cephfs", plugins::ceph_fs);
    sources.check(volume.quobyte(), "quobyte", plugins::quobyte);
    sources.check_as(volume.downward_api(), "downwarAPI", "downwardAPI", files::downward_api);
    sources.check(volume.fc(), "fc", plugins::fc);
    sources.check(volume.flex_volume(), "flexVolume", plugins::flex);
    sources.check(volume.config_map(), "configMap", files::config_map);
    sources.check(volume.azure_file(), "azureFile", plugins::azure_file);
    sources.check(volume.vsphere_volume(), "vsphereVolume", plugins::vsphere);
    sources.check(volume.photon_persistent_disk(), "photonPersistentDisk", plugins::photon);
    sources.check(volume.portworx_volume(), "portworxVolume", plugins::portworx);
    sources.check(volume.azure_disk(), "azureDisk", plugins::azure_disk);
    sources.check(volume.storageos(), "storageos", plugins::storage_os);
    sources.check(volume.projected(), "projected", |source, path| files::projected(source, options, path));
    sources.check(volume.scale_io(), "scaleIO", plugins::scale_io);
    sources.check(volume.csi(), "csi", csi::of_pod);
    sources.check(volume.ephemeral(), "ephemeral", |source, _| ephemeral(source, pod, volume.name(), path));
    sources.check(volume.image(), "image", |source, path| image(source, options, path));
    sources.errors()
}

/// The field errors of the source of a persistent volume of a name. `affinity` is that of the volume; a
/// volume without a name of its own may have none.
pub(super) fn of_persistent(
    spec: PersistentVolumeSpec<'_>,
    name: &str,
    affinity: Option<VolumeNodeAffinity<'_>>,
    path: &Path<'_>,
) -> List {
    let mut sources = Sources::new(path);
    sources.check(spec.host_path(), "hostPath", host_path);
    sources.check_as(
        spec.gce_persistent_disk(),
        "gcePersistentDisk",
        "persistentDisk",
        plugins::gce_persistent_disk,
    );
    sources.check(spec.aws_elastic_block_store(), "awsElasticBlockStore", plugins::aws_elastic_block_store);
    sources.check(spec.glusterfs(), "glusterfs", |source, path| {
        let mut errors = plugins::glusterfs(GlusterfsVolumeSource::of(source.map()), path);
        errors.append(plugins::glusterfs_namespace(source, path));
        errors
    });
    sources.check(spec.flocker(), "flocker", plugins::flocker);
    sources.check(spec.nfs(), "nfs", plugins::nfs);
    sources.check(spec.rbd(), "rbd", |source, path| plugins::rbd(RBDVolumeSource::of(source.map()), path));
    sources.check(spec.quobyte(), "quobyte", plugins::quobyte);
    sources.check_as(spec.cephfs(), "cephFS", "cephfs", |source, path| {
        plugins::ceph_fs(CephFSVolumeSource::of(source.map()), path)
    });
    sources.check(spec.iscsi(), "iscsi", |source, path| iscsi::persistent(source, name, path));
    sources.check(spec.cinder(), "cinder", plugins::persistent_cinder);
    sources.check(spec.fc(), "fc", plugins::fc);
    if let Some(source) = spec.flex_volume() {
        sources.is_found = true;
        let source = FlexVolumeSource::of(source.map());
        sources.errors.append(plugins::flex(source, &path.child("flexVolume")));
    }
    sources.check(spec.azure_file(), "azureFile", |source, path| {
        let mut errors = plugins::azure_file(AzureFileVolumeSource::of(source.map()), path);
        if source.secret_namespace() == Some("") {
            errors.push(Error::required(&path.child("secretNamespace"), ""));
        }
        errors
    });
    sources.check(spec.vsphere_volume(), "vsphereVolume", plugins::vsphere);
    sources.check(spec.photon_persistent_disk(), "photonPersistentDisk", plugins::photon);
    sources.check(spec.portworx_volume(), "portworxVolume", plugins::portworx);
    sources.check(spec.azure_disk(), "azureDisk", plugins::azure_disk);
    sources.check(spec.scale_io(), "scaleIO", |source, path| {
        plugins::scale_io(ScaleIOVolumeSource::of(source.map()), path)
    });
    sources.check(spec.local(), "local", |source, own| {
        let mut errors = local(source, own);
        if affinity.is_none() {
            let why = "Local volume requires node affinity";
            errors.push(Error::required(&path.child("nodeAffinity"), why));
        }
        errors
    });
    sources.check(spec.storageos(), "storageos", plugins::persistent_storage_os);
    sources.check(spec.csi(), "csi", csi::persistent);
    sources.errors()
}

fn host_path(source: HostPathVolumeSource<'_>, path: &Path<'_>) -> List {
    let at = path.child("path");
    if source.path().is_empty() {
        return Error::required(&at, "").into();
    }
    let mut errors = List::new();
    errors.extend(local_path::without_backsteps(source.path(), &at));
    let kind = source.r#type().unwrap_or_default();
    errors.extend(checks::one_of(kind, HOST_PATH_TYPES, &path.child("type")));
    errors
}

fn local(source: LocalVolumeSource<'_>, path: &Path<'_>) -> List {
    let at = path.child("path");
    let error = match source.path() {
        "" => Some(Error::required(&at, "")),
        text => local_path::without_backsteps(text, &at),
    };
    error.into_iter().collect()
}

/// `path` is that of the volume: the name of the claim follows from those of the pod and of the volume.
fn ephemeral(source: EphemeralVolumeSource<'_>, pod: &str, volume: &str, path: &Path<'_>) -> List {
    let own = path.child("ephemeral");
    let at = own.child("volumeClaimTemplate");
    let mut errors = match source.volume_claim_template() {
        None => Error::required(&at, "").into(),
        Some(template) => claim_rules::template(template, &at),
    };
    if !pod.is_empty() && !volume.is_empty() {
        let claim = format!("{pod}-{volume}");
        for message in name_is_dns_subdomain(&claim, Mode::Name) {
            let why = format!("PVC name {}: {message}", Quoted(&claim));
            errors.push(Error::invalid(&path.child("name"), volume, why));
        }
    }
    errors
}

fn image(source: ImageVolumeSource<'_>, options: &PodOptions, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if options.is_pod {
        errors.extend(checks::required(source.reference(), &path.child("reference")));
    }
    let at = path.child("pullPolicy");
    errors.extend(checks::required_one_of(source.pull_policy(), PULL_POLICIES, &at));
    errors
}
