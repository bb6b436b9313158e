//! The controller `persistentvolume-protection-controller`: a volume that is bound to a claim stays until it
//! is not, by a finalizer.

use crate::follow::{StartFrom, follow};
use crate::objects::{add_finalizer, remove_finalizer};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller};
use cache::{Entry, Update};
use kinds::object_meta;
use object::{Map, Text};
use registry::{Address, Client};
use schema::status::Reason;
use schema::stored;
use schema::view::View as _;
use schema::views::core::v1::PersistentVolume;
use schema::{Builder, Part, Ref, Status, Type};
use std::sync::{Arc, LazyLock};

pub(crate) const CONTROLLER: Controller = Controller {
    name: "persistentvolume-protection-controller",
    alias: "pv-protection",
    account: "pv-protection-controller",
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

const FINALIZER: &str = "kubernetes.io/pv-protection";

/// The fields of a persistent volume that are decoded.
static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let metadata = Part("metadata", &[Part("deletionTimestamp", &[]), Part("finalizers", &[])]);
    Builder::part_of(PersistentVolume::schema(), &[metadata, Part("status", &[Part("phase", &[])])]).build()
});

async fn run(context: Context) {
    let Some(volumes) = context.resource("persistentvolumes") else { return };
    let queue: Arc<Queue<Text>> = Arc::default();
    let _volumes = follow(volumes, StartFrom::State, {
        let queue = queue.clone();
        move |update| {
            if let Update::Change { after: Some(volume), .. } = update
                && is_due(volume)
            {
                queue.add(volume.name().into());
            }
        }
    });
    let worker = Volumes { client: context.client.clone() };
    queue.work(&context, 4, Arc::new(worker)).await;
}

struct Volumes {
    client: Client,
}

impl Reconcile for Volumes {
    type Key = Text;

    async fn reconcile(&self, name: &Text) -> Result<RequeueAfter, Status> {
        let address = Address::core("persistentvolumes", "").named(name);
        let change = |volume: &mut Map| match step(volume) {
            Some(Step::Protect) => add_finalizer(volume, FINALIZER),
            Some(Step::Release) => remove_finalizer(volume, FINALIZER),
            None => {}
        };
        match self.client.modify(address, change).await {
            Err(error) if error.reason == Reason::NotFound => Ok(None),
            outcome => outcome.map(|()| None),
        }
    }
}

/// The change that a volume needs: the finalizer is added, or removed.
enum Step {
    Protect,
    Release,
}

fn step(volume: &Map) -> Option<Step> {
    let is_protected = object_meta::finalizers(volume).contains(&FINALIZER);
    let is_bound = PersistentVolume::of(volume).status().phase() == "Bound";
    match (object_meta::is_deleting(volume), is_protected) {
        (false, false) => Some(Step::Protect),
        (true, true) if !is_bound => Some(Step::Release),
        _ => None,
    }
}

fn is_due(entry: &Entry) -> bool {
    stored::decode_part(&PART, entry.bytes()).is_ok_and(|volume| step(&volume).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use object::Value;
    use registry::{DeleteOptions, Patch};

    const VOLUMES: Address<'static> = Address::core("persistentvolumes", "");

    impl Fixture {
        async fn volume(&self, name: &str, phase: &str) {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}","finalizers":["{FINALIZER}"]}},"spec":{{"capacity":{{"storage":"1Gi"}},
                "accessModes":["ReadWriteOnce"],"hostPath":{{"path":"/x"}}}}}}"#
            );
            self.create(VOLUMES, &text).await;
            self.set_phase(name, phase).await;
        }

        async fn set_phase(&self, name: &str, phase: &str) {
            let status = VOLUMES.named(name).subresource("status");
            let patch = format!(r#"{{"status":{{"phase":"{phase}"}}}}"#);
            self.client.patch(status, Patch::Merge, patch.as_bytes()).await.unwrap();
        }

        async fn delete_volume(&self, name: &str) {
            self.client.delete(VOLUMES.named(name), &DeleteOptions::default()).await.unwrap();
        }

        fn has_volume(&self, name: &str) -> bool {
            self.lookup("persistentvolumes", "", name).is_some()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bound_volumes_stay_until_they_are_released() {
        let fixture = Fixture::new().await;
        fixture.volume("bound", "Bound").await;
        fixture.volume("free", "Available").await;
        fixture.delete_volume("bound").await;
        let _running = fixture.start(&CONTROLLER);
        fixture.delete_volume("free").await;
        fixture.until("an end", async || !fixture.has_volume("free")).await;
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        assert!(fixture.has_volume("bound"));
        fixture.set_phase("bound", "Released").await;
        fixture.until("an end", async || !fixture.has_volume("bound")).await;
    }

    #[tokio::test(start_paused = true)]
    async fn volumes_without_protection_get_it() {
        let fixture = Fixture::new().await;
        fixture.volume("v", "Available").await;
        let bare = |volume: &mut Map| {
            volume.get_mut("metadata").and_then(Value::as_map_mut).unwrap().remove("finalizers");
        };
        fixture.client.modify(VOLUMES.named("v"), bare).await.unwrap();
        let is_protected = async || {
            let volume = fixture.client.get(VOLUMES.named("v")).await.unwrap();
            object_meta::finalizers(volume.as_map().unwrap()) == [FINALIZER]
        };
        assert!(!is_protected().await);
        let _running = fixture.start(&CONTROLLER);
        fixture.until("a finalizer", is_protected).await;
    }
}
