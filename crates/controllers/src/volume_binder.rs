//! The controller `persistentvolume-binder-controller`: binds claims to volumes that are there, and keeps the
//! phases of both.
//!
//! It provisions no volumes by itself: claims of a class wait for the provisioner that the class names, and
//! claims of a class that waits for the first consumer wait for the scheduler. A volume that is released
//! stays (`Retain`), or is left to the provisioner that made it (`Delete`).

mod claim;
mod matching;
mod volume;

use crate::follow::{StartFrom, follow};
use crate::objects::{decode, mentions};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller, EventType, Recorder, Subject};
use cache::{Entry, Resource, Update};
use object::{Map, Text, Value};
use registry::{Address, Client};
use schema::view::View as _;
use schema::views::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use schema::{Builder, Part, Ref, Status, Type, stored};
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

pub(crate) const CONTROLLER: Controller = Controller {
    name: "persistentvolume-binder-controller",
    alias: "persistentvolume-binder",
    account: "persistent-volume-binder",
    stores: crate::Stores::Own,
    run: |context| Box::pin(run(context)),
};

/// The component of events.
const COMPONENT: &str = "persistentvolume-controller";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// A claim, by its namespace and name.
type ClaimKey = (Text, Text);

/// A key of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Item {
    Claim(ClaimKey),
    Volume(Text),
}

/// The claims that wait for a volume.
#[derive(Default)]
struct Pending(Mutex<BTreeSet<ClaimKey>>);

impl Pending {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<ClaimKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, key: &ClaimKey, is_pending: bool) {
        match is_pending {
            true => drop(self.lock().insert(key.clone())),
            false => drop(self.lock().remove(key)),
        }
    }

    fn items(&self) -> Vec<Item> {
        self.lock().iter().cloned().map(Item::Claim).collect()
    }
}

async fn run(context: Context) {
    let (Some(claims), Some(volumes), Some(classes), Some(pods)) = (
        context.resource("persistentvolumeclaims"),
        context.resource("persistentvolumes"),
        context.resource("storageclasses.storage.k8s.io"),
        context.resource("pods"),
    ) else {
        return;
    };
    let (queue, pending) = (Arc::<Queue<Item>>::default(), Arc::<Pending>::default());
    let _volumes = follow(volumes.clone(), StartFrom::State, {
        let (queue, pending) = (queue.clone(), pending.clone());
        move |update| {
            let Update::Change { before, after } = update else { return };
            let Some(volume) = after.or(before) else { return };
            queue.add(Item::Volume(volume.name().into()));
            // Claims that wait may fit now; a claim that was bound has lost its volume.
            queue.extend(pending.items());
            queue.extend(before.filter(|_| after.is_none()).and_then(|volume| claim_of(volume)));
        }
    });
    let _claims = follow(claims.clone(), StartFrom::State, {
        let (queue, pending) = (queue.clone(), pending.clone());
        move |update| {
            let Update::Change { before, after } = update else { return };
            let Some(claim) = after.or(before) else { return };
            let key: ClaimKey = (claim.namespace().into(), claim.name().into());
            queue.extend(volume_of(claim));
            match after {
                Some(_) => queue.add(Item::Claim(key)),
                None => pending.note(&key, false),
            }
        }
    });
    let _classes = follow(classes.clone(), StartFrom::Now, {
        let (queue, pending) = (queue.clone(), pending.clone());
        move |_| queue.extend(pending.items())
    });
    let _pods = follow(pods.clone(), StartFrom::Now, {
        let (queue, pending) = (queue.clone(), pending.clone());
        move |update| {
            if let Update::Change { before: None, after: Some(pod) } = update
                && mentions(pod, r#""persistentVolumeClaim":"#)
            {
                let waiting = pending.lock();
                let named = claims_of(pod).into_iter().filter(|key| waiting.contains(key));
                queue.extend(named.map(Item::Claim));
            }
        }
    });
    let worker = Worker {
        client: context.client.clone(),
        recorder: Recorder::new(context.client.clone(), COMPONENT),
        queue: queue.clone(),
        pending,
        claims,
        volumes,
        classes,
        pods,
    };
    // One at a time: two claims must not choose the same volume.
    queue.work(&context, 1, Arc::new(worker)).await;
}

/// The claim that a volume is for.
fn claim_of(volume: &Entry) -> Option<Item> {
    static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
        Builder::part_of(PersistentVolume::schema(), &[Part("spec", &[Part("claimRef", &[])])]).build()
    });
    let decoded = stored::decode_part(&PART, volume.bytes()).ok()?;
    let claim = PersistentVolume::of(&decoded).spec().claim_ref()?;
    Some(Item::Claim((claim.namespace().into(), claim.name().into())))
}

/// The volume that a claim names.
fn volume_of(claim: &Entry) -> Option<Item> {
    static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
        Builder::part_of(PersistentVolumeClaim::schema(), &[Part("spec", &[Part("volumeName", &[])])]).build()
    });
    let decoded = stored::decode_part(&PART, claim.bytes()).ok()?;
    let name = PersistentVolumeClaim::of(&decoded).spec().volume_name();
    (!name.is_empty()).then(|| Item::Volume(name.into()))
}

/// The claims that a pod names.
fn claims_of(pod: &Entry) -> Vec<ClaimKey> {
    const VOLUME: &[Part] = &[Part("name", &[]), Part("persistentVolumeClaim", &[])];
    static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
        Builder::part_of(Pod::schema(), &[Part("spec", &[Part("volumes", VOLUME)])]).build()
    });
    let Ok(decoded) = stored::decode_part(&PART, pod.bytes()) else { return Vec::new() };
    let volumes = Pod::of(&decoded).spec().volumes();
    let named = volumes.iter().filter_map(|volume| volume.persistent_volume_claim());
    named.map(|claim| (pod.namespace().into(), claim.claim_name().into())).collect()
}

struct Worker {
    client: Client,
    recorder: Recorder,
    queue: Arc<Queue<Item>>,
    pending: Arc<Pending>,
    claims: Arc<Resource>,
    volumes: Arc<Resource>,
    classes: Arc<Resource>,
    pods: Arc<Resource>,
}

impl Reconcile for Worker {
    type Key = Item;

    async fn reconcile(&self, item: &Item) -> Result<RequeueAfter, Status> {
        match item {
            Item::Claim(key) => self.sync_claim(key).await?,
            Item::Volume(name) => self.sync_volume(name).await?,
        }
        Ok(None)
    }
}

/// An object of the cache, decoded.
#[derive(Clone, Debug)]
struct Object {
    entry: Arc<Entry>,
    map: Map,
}

impl Worker {
    fn claim(&self, key: &ClaimKey) -> Result<Option<Object>, Status> {
        read(&self.claims, PersistentVolumeClaim::schema(), &key.0, &key.1)
    }

    fn volume(&self, name: &str) -> Result<Option<Object>, Status> {
        read(&self.volumes, PersistentVolume::schema(), "", name)
    }

    async fn report(&self, object: &Object, kind: &str, event_type: EventType, reason: &str, message: &str) {
        self.recorder.record(&Subject::of(&object.entry, "v1", kind), event_type, reason, message).await;
    }

    async fn report_claim(&self, claim: &Object, event_type: EventType, reason: &str, message: &str) {
        self.report(claim, "PersistentVolumeClaim", event_type, reason, message).await;
    }

    /// Writes an object if it changed, and takes what is stored then.
    async fn write(&self, address: Address<'_>, object: &mut Object, changed: Map) -> Result<(), Status> {
        if changed == object.map {
            return Ok(());
        }
        let written = self.client.update(address, changed.into()).await?;
        object.map = written.as_map().cloned().unwrap_or_default();
        Ok(())
    }
}

fn read(
    resource: &Resource,
    ty: &'static Type,
    namespace: &str,
    name: &str,
) -> Result<Option<Object>, Status> {
    let found = resource.lookup(namespace, name).map_err(registry::status)?;
    found.map(|entry| Ok(Object { map: decode(ty, &entry)?, entry })).transpose()
}

/// A reference to an object.
fn reference(object: &Object, kind: &str) -> Value {
    let entry = &object.entry;
    let version = kinds::object_meta::text(&object.map, "resourceVersion");
    let fields = [
        ("kind", kind),
        ("namespace", entry.namespace()),
        ("name", entry.name()),
        ("uid", entry.uid()),
        ("apiVersion", "v1"),
        ("resourceVersion", version),
    ];
    fields.into_iter().filter(|(_, value)| !value.is_empty()).collect::<Map>().into()
}

#[cfg(test)]
mod tests;
