//! One look at a claim.

use super::matching::{self, Binding, best, claim_class, is_for};
use super::{BIND_COMPLETED, BOUND_BY_CONTROLLER, ClaimKey, Object, Worker, claims_of, reference};
use crate::EventType;
use crate::objects::{annotate, annotation, edit, failure, mentions, set_text};
use crate::workloads::pod;
use cache::{Cursor, Filter, Freshness, Query, Update};
use object::Map;
use object::quantity::Quantity;
use object::quote::Quoted;
use registry::Address;
use schema::Status;
use schema::view::View as _;
use schema::views::core::v1::{PersistentVolume, PersistentVolumeClaim};
use schema::views::storage::v1::StorageClass;

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const IS_DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// The annotations with the provisioner that a claim waits for.
const PROVISIONER: [&str; 2] =
    ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];

fn claims(namespace: &str) -> Address<'_> {
    Address::core("persistentvolumeclaims", namespace)
}

const VOLUMES: Address<'static> = Address::core("persistentvolumes", "");

impl Worker {
    pub(super) async fn sync_claim(&self, key: &ClaimKey) -> Result<(), Status> {
        let Some(claim) = self.claim(key)? else {
            self.pending.note(key, false);
            return Ok(());
        };
        let is_bound = !annotation(&claim.map, BIND_COMPLETED).is_empty();
        self.pending.note(key, !is_bound);
        match is_bound {
            true => self.sync_bound(claim).await,
            false => self.sync_unbound(claim).await,
        }
    }

    async fn sync_unbound(&self, claim: Object) -> Result<(), Status> {
        let name = PersistentVolumeClaim::of(&claim.map).spec().volume_name().to_owned();
        if name.is_empty() {
            return self.find_volume(claim).await;
        }
        let Some(volume) = self.volume(&name)? else {
            return self.set_claim_phase(claim, "Pending", None).await;
        };
        if PersistentVolume::of(&volume.map).spec().claim_ref().is_none() {
            if let Some(why) = matching::mismatch(&volume, &claim.map) {
                let text = format!("Cannot bind to requested volume {}: {why}", Quoted(&name));
                self.report_claim(&claim, EventType::Warning, "VolumeMismatch", &text).await;
                return self.set_claim_phase(claim, "Pending", None).await;
            }
            return self.bind(volume, claim).await;
        }
        if is_for(&volume.map, &claim) {
            return self.bind(volume, claim).await;
        }
        let text = format!("volume {} already bound to a different claim.", Quoted(&name));
        self.report_claim(&claim, EventType::Warning, "FailedBinding", &text).await;
        self.set_claim_phase(claim, "Pending", None).await
    }

    /// Binds a claim to a volume that fits, or says what the claim waits for.
    async fn find_volume(&self, claim: Object) -> Result<(), Status> {
        let class_name = claim_class(&claim.map).unwrap_or_default().to_owned();
        let class = self.class(&class_name)?;
        let mode = class.as_ref().map(|class| StorageClass::of(&class.map).volume_binding_mode());
        let binding = match mode {
            Some(Some("WaitForFirstConsumer")) => Binding::Delayed,
            _ => Binding::Immediate,
        };
        let found = best(&claim, self.all_volumes()?, binding)
            .map_err(|why| failure(format!("error finding PV for claim {}: {why}", Quoted(&key(&claim)))))?;
        if let Some(volume) = found {
            return self.bind(volume, claim).await;
        }
        if claim_class(&claim.map).is_none()
            && let Some(class) = self.default_class()?
        {
            let mut changed = claim.map.clone();
            edit(&mut changed, "spec", |spec| spec.insert("storageClassName", class));
            return self.client.update(claim_address(&claim), changed.into()).await.map(drop);
        }
        if binding == Binding::Delayed && annotation(&claim.map, SELECTED_NODE).is_empty() {
            self.report_waiting(&claim).await?;
        } else if class_name.is_empty() {
            let text = "no persistent volumes available for this claim and no storage class is set";
            self.report_claim(&claim, EventType::Normal, "FailedBinding", text).await;
        } else {
            return self.wait_for_provisioner(claim, &class_name, class).await;
        }
        self.set_claim_phase(claim, "Pending", None).await
    }

    fn all_volumes(&self) -> Result<Vec<Object>, Status> {
        let mut volumes = Vec::new();
        Cursor::new(self.volumes.clone()).advance(|update| {
            if let Update::Change { after: Some(entry), .. } = update {
                volumes.push(entry.clone());
            }
        });
        let decode = |entry: std::sync::Arc<cache::Entry>| {
            Ok(Object { map: crate::objects::decode(PersistentVolume::schema(), &entry)?, entry })
        };
        volumes.into_iter().map(decode).collect()
    }

    fn class(&self, name: &str) -> Result<Option<Object>, Status> {
        match name {
            "" => Ok(None),
            name => super::read(&self.classes, StorageClass::schema(), "", name),
        }
    }

    /// The newest of the classes that are the default.
    fn default_class(&self) -> Result<Option<String>, Status> {
        let mut defaults = Vec::new();
        Cursor::new(self.classes.clone()).advance(|update| {
            if let Update::Change { after: Some(entry), .. } = update
                && IS_DEFAULT.iter().any(|key| mentions(entry, key))
            {
                defaults.push(entry.clone());
            }
        });
        let mut found: Option<(String, String)> = None;
        for entry in defaults {
            let class = crate::objects::decode(StorageClass::schema(), &entry)?;
            let is_default = IS_DEFAULT.iter().any(|key| annotation(&class, key) == "true");
            let created = kinds::object_meta::text(&class, "creationTimestamp").to_owned();
            // Of two that are equally old the first by name.
            if is_default && found.as_ref().is_none_or(|(known, _)| created > *known) {
                found = Some((created, entry.name().to_owned()));
            }
        }
        Ok(found.map(|(_, name)| name))
    }

    /// Says which pods a claim waits for.
    async fn report_waiting(&self, claim: &Object) -> Result<(), Status> {
        let query = Query::new(Freshness::Any, Filter::namespace(claim.entry.namespace()));
        let own = (claim.entry.namespace().into(), claim.entry.name().into());
        let mut names = Vec::new();
        for other in self.pods.list(query).await.map_err(registry::status)? {
            let waits = pod::node(&other).is_empty() && !pod::is_finished(&other);
            if waits && mentions(&other, r#""persistentVolumeClaim":"#) && claims_of(&other).contains(&own) {
                names.push(other.name().to_owned());
            }
        }
        let (reason, text) = match names.as_slice() {
            [] => {
                ("WaitForFirstConsumer", "waiting for first consumer to be created before binding".to_owned())
            }
            [one] => ("WaitForPodScheduled", format!("waiting for pod {one} to be scheduled")),
            several => {
                ("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", several.join(",")))
            }
        };
        self.report_claim(claim, EventType::Normal, reason, &text).await;
        Ok(())
    }

    /// Says which provisioner has to make the volume.
    async fn wait_for_provisioner(
        &self,
        mut claim: Object,
        class_name: &str,
        class: Option<Object>,
    ) -> Result<(), Status> {
        let Some(class) = class else {
            let why = Status::not_found("storage.k8s.io", "storageclasses", class_name).message;
            let why = why.replacen("storageclasses.storage.k8s.io", "storageclass.storage.k8s.io", 1);
            self.report_claim(&claim, EventType::Warning, "ProvisioningFailed", &why).await;
            return Ok(());
        };
        let provisioner = StorageClass::of(&class.map).provisioner().to_owned();
        if provisioner.starts_with("kubernetes.io/") {
            let why = format!("no volume plugin matched name: {provisioner}");
            self.report_claim(&claim, EventType::Warning, "ProvisioningFailed", &why).await;
            return Ok(());
        }
        let mut changed = claim.map.clone();
        PROVISIONER.iter().for_each(|key| annotate(&mut changed, key, &provisioner));
        let entry = claim.entry.clone();
        let address = claims(entry.namespace()).named(entry.name());
        self.write(address, &mut claim, changed).await?;
        let text = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
        );
        self.report_claim(&claim, EventType::Normal, "ExternalProvisioning", &text).await;
        Ok(())
    }

    async fn sync_bound(&self, claim: Object) -> Result<(), Status> {
        let name = PersistentVolumeClaim::of(&claim.map).spec().volume_name().to_owned();
        let lost = |reason: &'static str, text: &'static str| (reason, text);
        let (reason, text) = match self.volume(&name)? {
            _ if name.is_empty() => lost(
                "ClaimLost",
                "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
            ),
            None => {
                lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
            }
            Some(volume) => {
                let uid = PersistentVolume::of(&volume.map).spec().claim_ref().map(|of| of.uid().to_owned());
                match uid {
                    Some(uid) if uid != claim.entry.uid() => lost(
                        "ClaimMisbound",
                        "Two claims are bound to the same volume, this one is bound incorrectly",
                    ),
                    _ => return self.bind(volume, claim).await,
                }
            }
        };
        if PersistentVolumeClaim::of(&claim.map).status().phase() == "Lost" {
            return Ok(());
        }
        self.set_claim_phase(claim.clone(), "Lost", None).await?;
        self.report_claim(&claim, EventType::Warning, reason, text).await;
        Ok(())
    }

    /// Binds a volume and a claim, step by step: each step that is done already is passed over.
    async fn bind(&self, mut volume: Object, mut claim: Object) -> Result<(), Status> {
        let volume_entry = volume.entry.clone();
        let address = VOLUMES.named(volume_entry.name());
        let mut changed = volume.map.clone();
        let was_for = is_for(&changed, &claim);
        let known = PersistentVolume::of(&changed).spec().claim_ref().map(|of| of.uid().to_owned());
        if !was_for || known.as_deref() != Some(claim.entry.uid()) {
            let own = reference(&claim, "PersistentVolumeClaim");
            edit(&mut changed, "spec", |spec| spec.insert("claimRef", own));
        }
        if !was_for {
            annotate(&mut changed, BOUND_BY_CONTROLLER, "yes");
        }
        self.write(address, &mut volume, changed).await?;
        self.set_volume_phase(&mut volume, "Bound", "").await?;

        let entry = claim.entry.clone();
        let mut changed = claim.map.clone();
        if PersistentVolumeClaim::of(&changed).spec().volume_name() != volume_entry.name() {
            edit(&mut changed, "spec", |spec| spec.insert("volumeName", volume_entry.name()));
            annotate(&mut changed, BOUND_BY_CONTROLLER, "yes");
        }
        annotate(&mut changed, BIND_COMPLETED, "yes");
        self.write(claims(entry.namespace()).named(entry.name()), &mut claim, changed).await?;
        self.pending.note(&(entry.namespace().into(), entry.name().into()), false);
        self.set_claim_phase(claim, "Bound", Some(&volume.map)).await
    }

    /// Writes the phase of a claim, with what it has of its volume.
    async fn set_claim_phase(
        &self,
        mut claim: Object,
        phase: &str,
        volume: Option<&Map>,
    ) -> Result<(), Status> {
        let mut changed = claim.map.clone();
        let is_new = PersistentVolumeClaim::of(&claim.map).status().phase() != phase;
        edit(&mut changed, "status", |status| {
            set_text(status, "phase", phase);
            let Some(volume) = volume else {
                for key in ["accessModes", "capacity", "currentVolumeAttributesClassName"] {
                    status.remove(key);
                }
                return;
            };
            let spec = PersistentVolume::of(volume).spec();
            if let Some(modes) = spec.map().get("accessModes") {
                status.insert("accessModes", modes.clone());
            }
            let size = |text: Option<&str>| text.and_then(|text| text.parse::<Quantity>().ok());
            let own = status.get("capacity").and_then(|capacity| capacity.get("storage"));
            let differs = size(own.and_then(object::Value::as_str)) != size(spec.capacity().get("storage"));
            if is_new && differs {
                status.insert("capacity", spec.capacity().map().clone());
            }
        });
        let entry = claim.entry.clone();
        let address = claims(entry.namespace()).named(entry.name()).subresource("status");
        self.write(address, &mut claim, changed).await
    }
}

fn claim_address(claim: &Object) -> Address<'_> {
    claims(claim.entry.namespace()).named(claim.entry.name())
}

fn key(claim: &Object) -> String {
    format!("{}/{}", claim.entry.namespace(), claim.entry.name())
}
