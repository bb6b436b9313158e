//! The audiences of tokens that the volumes of a pod ask for.

use cache::{Entry, Resource};
use object::Map;
use schema::Type;
use schema::stored;
use schema::view::View as _;
use schema::views::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, Pod, Volume};
use schema::views::storage::v1::CSIDriver;
use std::sync::Arc;

use super::super::errors::Errors;

/// Where volumes are looked up.
pub(super) struct Volumes {
    pub(super) claims: Arc<Resource>,
    pub(super) volumes: Arc<Resource>,
    pub(super) drivers: Arc<Resource>,
}

impl Volumes {
    /// Whether a volume of a pod asks for tokens with an audience: itself, or through the driver that mounts
    /// it. What could not be found matters only if no other volume does.
    pub(super) fn have_audience(&self, pod: Pod<'_>, audience: &str) -> Result<bool, String> {
        let mut errors = Errors::default();
        for volume in pod.spec().volumes().iter() {
            let sources = volume.projected().into_iter().flat_map(|projected| projected.sources().iter());
            let mut tokens = sources.filter_map(|source| source.service_account_token());
            if tokens.any(|token| token.audience() == audience) {
                return Ok(true);
            }
            match self.driver_has_audience(pod, volume, audience) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => errors.extend(Some(error)),
            }
        }
        errors.message().map_or(Ok(false), Err)
    }

    fn driver_has_audience(&self, pod: Pod<'_>, volume: Volume<'_>, audience: &str) -> Result<bool, String> {
        let metadata = pod.metadata();
        let of_claim = |name: &str| self.driver_of_claim(metadata.namespace(), name);
        let is_ephemeral = volume.ephemeral().is_some_and(|source| source.volume_claim_template().is_some());
        let driver = if is_ephemeral {
            of_claim(&format!("{}-{}", metadata.name(), volume.name()))?
        } else if let Some(claim) = volume.persistent_volume_claim() {
            of_claim(claim.claim_name())?
        } else if let Some(source) = volume.csi() {
            source.driver().to_owned()
        } else {
            migrated(volume.map()).to_owned()
        };
        if driver.is_empty() {
            return Ok(false);
        }
        let driver = find(&self.drivers, "csidriver.storage.k8s.io", CSIDriver::schema(), "", &driver)?;
        let requests = CSIDriver::of(&driver).spec().token_requests();
        Ok(requests.iter().any(|request| request.audience() == audience))
    }

    /// The driver of the volume of a claim; empty if it has none.
    fn driver_of_claim(&self, namespace: &str, name: &str) -> Result<String, String> {
        let schema = PersistentVolumeClaim::schema();
        let claim = find(&self.claims, "persistentvolumeclaim", schema, namespace, name)?;
        let name = PersistentVolumeClaim::of(&claim).spec().volume_name();
        let volume = find(&self.volumes, "persistentvolume", PersistentVolume::schema(), "", name)?;
        let spec: PersistentVolumeSpec<'_> = PersistentVolume::of(&volume).spec();
        let driver = spec.csi().map_or_else(|| migrated(spec.map()), |source| source.driver());
        Ok(driver.to_owned())
    }
}

/// The driver that took over from the code in the kubelet for a source of volumes; empty if there is none.
fn migrated(volume: &Map) -> &'static str {
    let drivers = [
        ("gcePersistentDisk", "pd.csi.storage.gke.io"),
        ("awsElasticBlockStore", "ebs.csi.aws.com"),
        ("cinder", "cinder.csi.openstack.org"),
        ("azureDisk", "disk.csi.azure.com"),
        ("azureFile", "file.csi.azure.com"),
        ("vsphereVolume", "csi.vsphere.vmware.com"),
        ("portworxVolume", "pxd.portworx.com"),
    ];
    drivers.into_iter().find(|(source, _)| volume.contains_key(source)).map_or("", |(_, driver)| driver)
}

/// An object, or that there is none.
fn find(
    resource: &Resource,
    title: &str,
    ty: &'static Type,
    namespace: &str,
    name: &str,
) -> Result<Map, String> {
    let entry: Option<Arc<Entry>> = resource.lookup(namespace, name).map_err(|error| error.to_string())?;
    let entry = entry.ok_or_else(|| format!("{title} {} not found", object::quote::Quoted(name)))?;
    stored::decode(ty, entry.bytes()).map_err(|error| error.to_string())
}
