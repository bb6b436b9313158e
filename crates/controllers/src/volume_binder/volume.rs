//! One look at a volume.

use super::{BOUND_BY_CONTROLLER, Item, Object, Worker, matching};
use crate::EventType;
use crate::objects::{annotation, edit, remove_annotation, set_text};
use object::quote::Quoted;
use object::{Map, Value};
use registry::Address;
use schema::Status;
use schema::view::View as _;
use schema::views::core::v1::{PersistentVolume, PersistentVolumeClaim};

/// The annotation with the provisioner that made a volume.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const VOLUMES: Address<'static> = Address::core("persistentvolumes", "");

impl Worker {
    pub(super) async fn sync_volume(&self, name: &str) -> Result<(), Status> {
        let Some(mut volume) = self.volume(name)? else { return Ok(()) };
        let reference = PersistentVolume::of(&volume.map).spec().claim_ref();
        let Some(reference) = reference.filter(|reference| !reference.uid().is_empty()) else {
            return self.set_volume_phase(&mut volume, "Available", "").await;
        };
        let key = (reference.namespace().into(), reference.name().into());
        let uid = reference.uid().to_owned();
        let Some(claim) = self.claim(&key)?.filter(|claim| claim.entry.uid() == uid) else {
            return self.release(volume).await;
        };
        let wanted = PersistentVolumeClaim::of(&claim.map).spec().volume_name();
        if wanted.is_empty() {
            if matching::has_other_mode(&volume.map, &claim.map) {
                self.report_modes(&volume, &claim).await;
            } else {
                self.queue.add(Item::Claim(key));
            }
            return Ok(());
        }
        if wanted == name {
            return self.set_volume_phase(&mut volume, "Bound", "").await;
        }
        // The claim is bound to another volume.
        let is_provisioned = !annotation(&volume.map, PROVISIONED_BY).is_empty();
        match PersistentVolume::of(&volume.map).spec().persistent_volume_reclaim_policy() {
            "Delete" if is_provisioned => self.release(volume).await,
            _ => self.unbind(volume).await,
        }
    }

    async fn report_modes(&self, volume: &Object, claim: &Object) {
        let text = format!(
            "Cannot bind PersistentVolume to requested PersistentVolumeClaim {} due to incompatible volumeMode.",
            Quoted(claim.entry.name())
        );
        self.report(volume, "PersistentVolume", EventType::Warning, "VolumeMismatch", &text).await;
        let text = format!(
            "Cannot bind PersistentVolume {} to requested PersistentVolumeClaim due to incompatible volumeMode.",
            Quoted(volume.entry.name())
        );
        self.report_claim(claim, EventType::Warning, "VolumeMismatch", &text).await;
    }

    /// The claim of a volume is gone.
    async fn release(&self, mut volume: Object) -> Result<(), Status> {
        let phase = PersistentVolume::of(&volume.map).status().phase().to_owned();
        if !matches!(phase.as_str(), "Released" | "Failed") {
            self.set_volume_phase(&mut volume, "Released", "").await?;
        }
        let is_provisioned = !annotation(&volume.map, PROVISIONED_BY).is_empty();
        let policy = PersistentVolume::of(&volume.map).spec().persistent_volume_reclaim_policy().to_owned();
        let name = volume.entry.name().to_owned();
        let (reason, text) = match policy.as_str() {
            "Retain" => return Ok(()),
            // The provisioner deletes it.
            "Delete" if is_provisioned => return Ok(()),
            "Delete" => (
                "VolumeFailedDelete",
                format!(
                    "error getting deleter volume plugin for volume {}: no deletable volume plugin matched",
                    Quoted(&name)
                ),
            ),
            "Recycle" => ("VolumeFailedRecycle", "No recycler plugin found for the volume!".to_owned()),
            _ => (
                "VolumeUnknownReclaimPolicy",
                "Volume has unrecognized PersistentVolumeReclaimPolicy".to_owned(),
            ),
        };
        if phase == "Failed" {
            return Ok(());
        }
        self.set_volume_phase(&mut volume, "Failed", &text).await?;
        self.report(&volume, "PersistentVolume", EventType::Warning, reason, &text).await;
        Ok(())
    }

    /// Makes a volume available again. A volume that was for the claim before anybody bound it stays for it.
    async fn unbind(&self, mut volume: Object) -> Result<(), Status> {
        let mut changed = volume.map.clone();
        let was_bound_here = !annotation(&changed, BOUND_BY_CONTROLLER).is_empty();
        edit(&mut changed, "spec", |spec: &mut Map| match was_bound_here {
            true => drop(spec.remove("claimRef")),
            false => {
                if let Some(reference) = spec.get_mut("claimRef").and_then(Value::as_map_mut) {
                    reference.remove("uid");
                }
            }
        });
        remove_annotation(&mut changed, BOUND_BY_CONTROLLER);
        let name = volume.entry.name().to_owned();
        self.write(VOLUMES.named(&name), &mut volume, changed).await?;
        self.set_volume_phase(&mut volume, "Available", "").await
    }

    pub(super) async fn set_volume_phase(
        &self,
        volume: &mut Object,
        phase: &str,
        message: &str,
    ) -> Result<(), Status> {
        if PersistentVolume::of(&volume.map).status().phase() == phase {
            return Ok(());
        }
        let mut changed = volume.map.clone();
        edit(&mut changed, "status", |status| {
            set_text(status, "phase", phase);
            set_text(status, "message", message);
        });
        let name = volume.entry.name().to_owned();
        self.write(VOLUMES.named(&name).subresource("status"), volume, changed).await
    }
}
