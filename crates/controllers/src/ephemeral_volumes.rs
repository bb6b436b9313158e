//! The controller `ephemeral-volume-controller`: makes the claims of the ephemeral volumes of pods.

use crate::follow::{StartFrom, follow};
use crate::objects::{controller_of, decode, failure, mentions};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller, EventType, Recorder, Subject};
use cache::{Entry, Resource, Update};
use object::{List, Map, Text, Value};
use registry::{Address, Client};
use schema::status::Reason;
use schema::view::View as _;
use schema::views::core::v1::{EphemeralVolumeSource, PersistentVolumeClaim, Pod};
use schema::{Builder, Part, Ref, Status, Type, stored};
use std::sync::{Arc, LazyLock};

pub(crate) const CONTROLLER: Controller = Controller {
    name: "ephemeral-volume-controller",
    alias: "ephemeral-volume",
    account: "ephemeral-volume-controller",
    stores: crate::Stores::Own,
    run: |context| Box::pin(run(context)),
};

/// The component of events.
const COMPONENT: &str = "ephemeral_volume";

/// A pod, by its namespace and name.
type Key = (Text, Text);

async fn run(context: Context) {
    let (Some(pods), Some(claims)) = (context.resource("pods"), context.resource("persistentvolumeclaims"))
    else {
        return;
    };
    let queue: Arc<Queue<Key>> = Arc::default();
    let _pods = follow(pods.clone(), StartFrom::State, {
        let queue = queue.clone();
        move |update| {
            if let Update::Change { before: None, after: Some(pod) } = update
                && !pod.is_deleting()
                && mentions(pod, r#""ephemeral":"#)
            {
                queue.add((pod.namespace().into(), pod.name().into()));
            }
        }
    });
    let _claims = follow(claims.clone(), StartFrom::Now, {
        let (queue, pods) = (queue.clone(), pods.clone());
        move |update| match update {
            // Claims were lost sight of: the pods with ephemeral volumes are looked at again.
            Update::Reset => cache::Cursor::new(pods.clone()).advance(|update| {
                if let Update::Change { after: Some(pod), .. } = update
                    && mentions(pod, r#""ephemeral":"#)
                {
                    queue.add((pod.namespace().into(), pod.name().into()));
                }
            }),
            Update::Change { before: Some(claim), after: None } => queue.extend(pod_of(claim)),
            Update::Change { .. } => {}
        }
    });
    let worker = Worker {
        client: context.client.clone(),
        recorder: Recorder::new(context.client.clone(), COMPONENT),
        pods,
        claims,
    };
    queue.work(&context, 5, Arc::new(worker)).await;
}

/// The pod for whose volume a claim was made.
fn pod_of(claim: &Entry) -> Option<Key> {
    static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
        let metadata = Part("metadata", &[Part("ownerReferences", &[])]);
        Builder::part_of(PersistentVolumeClaim::schema(), &[metadata]).build()
    });
    let decoded = stored::decode_part(&PART, claim.bytes()).ok()?;
    let owner = controller_of(&decoded).filter(|owner| owner.kind() == "Pod")?;
    Some((claim.namespace().into(), owner.name().into()))
}

struct Worker {
    client: Client,
    recorder: Recorder,
    pods: Arc<Resource>,
    claims: Arc<Resource>,
}

impl Reconcile for Worker {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<RequeueAfter, Status> {
        let Some(entry) = self.pods.lookup(&key.0, &key.1).map_err(registry::status)? else {
            return Ok(None);
        };
        if entry.is_deleting() {
            return Ok(None);
        }
        let pod = decode(Pod::schema(), &entry)?;
        for volume in Pod::of(&pod).spec().volumes().iter() {
            let Some(ephemeral) = volume.ephemeral() else { continue };
            let name = format!("{}-{}", entry.name(), volume.name());
            if let Err(error) = self.ensure(&entry, &name, ephemeral).await {
                let subject = Subject::of(&entry, "v1", "Pod");
                let text = format!("ephemeral volume {}: {}", volume.name(), error.message);
                self.recorder.record(&subject, EventType::Warning, "FailedBinding", &text).await;
                return Err(error);
            }
        }
        Ok(None)
    }
}

impl Worker {
    /// Makes the claim of a volume, if there is none.
    async fn ensure(
        &self,
        pod: &Entry,
        name: &str,
        ephemeral: EphemeralVolumeSource<'_>,
    ) -> Result<(), Status> {
        let namespace = pod.namespace();
        if let Some(claim) = self.claims.lookup(namespace, name).map_err(registry::status)? {
            let decoded = decode(PersistentVolumeClaim::schema(), &claim)?;
            return match controller_of(&decoded).is_some_and(|owner| owner.uid() == pod.uid()) {
                true => Ok(()),
                false => Err(failure(format!(
                    "PVC {namespace}/{name} was not created for pod {namespace}/{} (pod is not owner)",
                    pod.name()
                ))),
            };
        }
        let claim = claim(pod, name, ephemeral);
        match self.client.create(Address::core("persistentvolumeclaims", namespace), claim.into()).await {
            Err(mut error) => {
                error.message = format!("create PVC {name}: {}", error.message);
                // A claim that was made meanwhile is looked at again.
                Err(if error.reason == Reason::AlreadyExists { failure(error.message) } else { error })
            }
            Ok(_) => Ok(()),
        }
    }
}

fn claim(pod: &Entry, name: &str, ephemeral: EphemeralVolumeSource<'_>) -> Map {
    let mut owner: Map = [("apiVersion", "v1"), ("kind", "Pod"), ("name", pod.name()), ("uid", pod.uid())]
        .into_iter()
        .collect();
    owner.insert("controller", true);
    owner.insert("blockOwnerDeletion", true);
    let template = ephemeral.volume_claim_template();
    let mut metadata = Map::new();
    metadata.insert("name", name);
    metadata.insert("ownerReferences", List::of([Value::from(owner)]));
    if let Some(template) = template {
        let labels =
            [("labels", template.metadata().labels()), ("annotations", template.metadata().annotations())];
        for (key, entries) in labels {
            if !entries.is_empty() {
                metadata.insert(key, entries.map().clone());
            }
        }
    }
    let mut claim = Map::new();
    claim.insert("metadata", metadata);
    if let Some(template) = template {
        claim.insert("spec", template.spec().map().clone());
    }
    claim
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use kinds::object_meta;
    use registry::DeleteOptions;

    const CLAIMS: Address<'static> = Address::core("persistentvolumeclaims", "n");
    const POD: &str = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v",
        "ephemeral":{"volumeClaimTemplate":{"metadata":{"labels":{"a":"b"}},"spec":{"accessModes":["ReadWriteOnce"],
        "resources":{"requests":{"storage":"1Gi"}}}}}}]}}"#;

    #[tokio::test(start_paused = true)]
    async fn claims_are_made_and_made_again_for_the_volumes_of_pods() {
        let fixture = Fixture::new().await;
        fixture.namespace("n").await;
        let pod = fixture.create(Address::core("pods", "n"), POD).await;
        let _running = fixture.start(&CONTROLLER);
        let uid = || fixture.lookup("persistentvolumeclaims", "n", "p-v").map(|claim| claim.uid().to_owned());
        fixture.until("a claim", async || uid().is_some()).await;
        let claim = fixture.client.get(CLAIMS.named("p-v")).await.unwrap();
        let claim = claim.as_map().unwrap();
        let owner = controller_of(claim).unwrap();
        assert_eq!(owner.uid(), object_meta::text(pod.as_map().unwrap(), "uid"));
        assert_eq!((owner.kind(), owner.block_owner_deletion()), ("Pod", Some(true)));
        let view = PersistentVolumeClaim::of(claim);
        assert_eq!(view.metadata().labels().get("a"), Some("b"));
        assert_eq!(view.spec().resources().requests().get("storage"), Some("1Gi"));
        let first = uid();
        fixture.client.delete(CLAIMS.named("p-v"), &DeleteOptions::default()).await.unwrap();
        fixture.until("another claim", async || uid().is_some() && uid() != first).await;
    }

    #[tokio::test(start_paused = true)]
    async fn claims_of_others_are_left_alone_and_reported() {
        let fixture = Fixture::new().await;
        fixture.namespace("n").await;
        let claim = r#"{"metadata":{"name":"p-v"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}"#;
        fixture.create(CLAIMS, claim).await;
        let before = fixture.lookup("persistentvolumeclaims", "n", "p-v").unwrap().mod_revision();
        fixture.create(Address::core("pods", "n"), POD).await;
        let _running = fixture.start(&CONTROLLER);
        let message = "ephemeral volume v: PVC n/p-v was not created for pod n/p (pod is not owner)";
        fixture.until_event("n", "FailedBinding", message).await;
        assert_eq!(fixture.lookup("persistentvolumeclaims", "n", "p-v").unwrap().mod_revision(), before);
    }
}
