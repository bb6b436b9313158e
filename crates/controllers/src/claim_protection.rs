//! The controller `persistentvolumeclaim-protection-controller`: a claim that pods use stays until they are
//! gone, by a finalizer.
//!
//! Which pods use a claim is asked only while claims are being deleted: then the pods of their namespace are
//! looked through, once for all of its claims. What is kept is the number of such claims in each namespace.

use crate::follow::{StartFrom, follow};
use crate::objects::{add_finalizer, mentions, remove_finalizer};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller};
use cache::{Entry, Filter, Freshness, Query, Resource, Update};
use kinds::object_meta;
use object::{Map, Text};
use registry::{Address, Client};
use schema::status::Reason;
use schema::stored;
use schema::view::View as _;
use schema::views::core::v1::{PersistentVolumeClaim, Pod};
use schema::{Builder, Part, Ref, Status, Type};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use tokio::time::{Instant, sleep};

pub(crate) const CONTROLLER: Controller = Controller {
    name: "persistentvolumeclaim-protection-controller",
    alias: "pvc-protection",
    account: "pvc-protection-controller",
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

const FINALIZER: &str = "kubernetes.io/pvc-protection";
/// The number of pods after which other tasks may run.
const AT_ONCE: usize = 64;

/// The fields of a claim that are decoded.
static CLAIM: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let metadata = Part("metadata", &[Part("finalizers", &[]), Part("ownerReferences", &[])]);
    Builder::part_of(PersistentVolumeClaim::schema(), &[metadata]).build()
});

const VOLUME: &[Part] = &[Part("name", &[]), Part("persistentVolumeClaim", &[]), Part("ephemeral", &[])];

/// The fields of a pod that are decoded.
static POD: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let metadata = Part("metadata", &[Part("deletionGracePeriodSeconds", &[])]);
    Builder::part_of(Pod::schema(), &[metadata, Part("spec", &[Part("volumes", VOLUME)])]).build()
});

async fn run(context: Context) {
    let (Some(claims), Some(pods)) = (context.resource("persistentvolumeclaims"), context.resource("pods"))
    else {
        return;
    };
    let queue: Arc<Queue<Item>> = Arc::default();
    let deleted = Arc::new(Deleted::default());
    let _claims = follow(claims.clone(), StartFrom::State, {
        let (queue, deleted) = (queue.clone(), deleted.clone());
        move |update| match update {
            Update::Reset => deleted.lock().clear(),
            Update::Change { before, after } => {
                deleted.count(before, after);
                if let Some(claim) = after {
                    queue.extend(due(claim));
                }
            }
        }
    });
    let _pods = follow(pods.clone(), StartFrom::Now, {
        let (queue, deleted) = (queue.clone(), deleted.clone());
        move |update| match update {
            Update::Reset => queue.extend(deleted.lock().keys().cloned().map(Item::Release)),
            Update::Change { before: Some(before), after } => {
                if deleted.lock().contains_key(before.namespace()) && may_release(before, after) {
                    queue.add(Item::Release(before.namespace().into()));
                }
            }
            Update::Change { before: None, .. } => {}
        }
    });
    let worker = Claims { client: context.client.clone(), claims, pods };
    queue.work(&context, 4, Arc::new(worker)).await;
}

/// A key of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Item {
    /// A claim, by namespace and name, gets the finalizer.
    Protect(Text, Text),
    /// The claims of a namespace that are being deleted lose the finalizer if no pod uses them.
    Release(Text),
}

/// How many claims of a namespace are being deleted.
#[derive(Default)]
struct Deleted(Mutex<HashMap<Text, usize>>);

impl Deleted {
    fn lock(&self) -> MutexGuard<'_, HashMap<Text, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim changed.
    fn count(&self, before: Option<&Arc<Entry>>, after: Option<&Arc<Entry>>) {
        let deleted = |claim: Option<&Arc<Entry>>| claim.is_some_and(|claim| claim.is_deleting());
        let Some(namespace) = after.or(before).map(|claim| Text::from(claim.namespace())) else { return };
        match (deleted(before), deleted(after)) {
            (false, true) => *self.lock().entry(namespace).or_default() += 1,
            (true, false) => {
                let mut counts = self.lock();
                if let Some(count) = counts.get_mut(&namespace) {
                    *count = count.saturating_sub(1);
                    if *count == 0 {
                        counts.remove(&namespace);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The key under which a claim has to be reconciled; `None` if the claim needs no change.
fn due(claim: &Entry) -> Option<Item> {
    let namespace = || Text::from(claim.namespace());
    match (claim.is_deleting(), is_protected(&stored::decode_part(&CLAIM, claim.bytes()).ok()?)) {
        (false, false) => Some(Item::Protect(namespace(), claim.name().into())),
        (true, true) => Some(Item::Release(namespace())),
        _ => None,
    }
}

fn is_protected(claim: &Map) -> bool {
    object_meta::finalizers(claim).contains(&FINALIZER)
}

/// Whether a pod may have stopped to use a claim.
fn may_release(before: &Entry, after: Option<&Arc<Entry>>) -> bool {
    after.is_none_or(|after| after.is_deleting() || after.uid() != before.uid()) && may_use(before)
}

/// Whether a pod may use a claim, by its bytes. A pod without a node does not use any.
fn may_use(pod: &Entry) -> bool {
    pod.field("spec.nodeName").is_some_and(|node| !node.is_empty())
        && (mentions(pod, r#""persistentVolumeClaim":"#) || mentions(pod, r#""ephemeral":"#))
}

struct Claims {
    client: Client,
    claims: Arc<Resource>,
    pods: Arc<Resource>,
}

impl Reconcile for Claims {
    type Key = Item;

    async fn reconcile(&self, item: &Item) -> Result<RequeueAfter, Status> {
        match item {
            Item::Protect(namespace, name) => self.modify(namespace, name, protect).await?,
            Item::Release(namespace) => {
                let began = Instant::now();
                self.release(namespace).await?;
                // Large namespaces whose pods go one after another take a fifth of a processor at most.
                sleep(began.elapsed() * 4).await;
            }
        }
        Ok(None)
    }
}

fn protect(claim: &mut Map) {
    if !object_meta::is_deleting(claim) {
        add_finalizer(claim, FINALIZER);
    }
}

fn release(claim: &mut Map) {
    if object_meta::is_deleting(claim) {
        remove_finalizer(claim, FINALIZER);
    }
}

impl Claims {
    /// Removes the finalizer from the claims of a namespace that are being deleted and are not used.
    async fn release(&self, namespace: &Text) -> Result<(), Status> {
        let list = self.claims.list(Query::new(Freshness::Any, Filter::namespace(namespace.as_str()))).await;
        let mut unused = HashMap::new();
        for entry in list.map_err(registry::status)?.filter(|claim| claim.is_deleting()) {
            match stored::decode_part(&CLAIM, entry.bytes()) {
                Ok(claim) if is_protected(&claim) => drop(unused.insert(entry.name().to_owned(), claim)),
                _ => {}
            }
        }
        if unused.is_empty() {
            return Ok(());
        }
        let used = self.used(namespace, &unused).await?;
        unused.retain(|name, _| !used.contains(name));
        let mut outcome = Ok(());
        for name in unused.keys() {
            if let Err(error) = self.modify(namespace, name, release).await {
                outcome = Err(error);
            }
        }
        outcome
    }

    /// The names of those of `claims` that pods of the namespace use.
    async fn used(&self, namespace: &Text, claims: &HashMap<String, Map>) -> Result<HashSet<String>, Status> {
        let query = Query::new(Freshness::MostRecent, Filter::namespace(namespace.as_str()));
        let mut used = HashSet::new();
        for (place, entry) in self.pods.list(query).await.map_err(registry::status)?.enumerate() {
            if place % AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
            if !may_use(&entry) {
                continue;
            }
            let pod = crate::objects::decode_part(&POD, &entry)?;
            used.extend(claims_of(&pod, &entry, claims));
            if used.len() == claims.len() {
                break;
            }
        }
        Ok(used)
    }

    async fn modify(&self, namespace: &str, name: &str, change: fn(&mut Map)) -> Result<(), Status> {
        let address = Address::core("persistentvolumeclaims", namespace).named(name);
        match self.client.modify(address, change).await {
            Err(error) if error.reason == Reason::NotFound => Ok(()),
            outcome => outcome,
        }
    }
}

/// The names of those of `claims` that a pod uses. A claim that was made for an ephemeral volume of the pod
/// is not used any more when the kubelet has shut down the pod.
fn claims_of(pod: &Map, entry: &Entry, claims: &HashMap<String, Map>) -> Vec<String> {
    let is_shut_down =
        entry.is_deleting() && object_meta::number(pod, "deletionGracePeriodSeconds") == Some(0);
    let mut used = Vec::new();
    for volume in Pod::of(pod).spec().volumes().iter() {
        if let Some(claim) = volume.persistent_volume_claim() {
            used.extend(claims.contains_key(claim.claim_name()).then(|| claim.claim_name().to_owned()));
        } else if volume.ephemeral().is_some() && !is_shut_down {
            let name = format!("{}-{}", entry.name(), volume.name());
            let is_its = claims.get(&name).is_some_and(|claim| is_controlled_by(claim, entry.uid()));
            used.extend(is_its.then_some(name));
        }
    }
    used
}

fn is_controlled_by(claim: &Map, uid: &str) -> bool {
    let mut owners = PersistentVolumeClaim::of(claim).metadata().owner_references().iter();
    owners.any(|owner| owner.controller() == Some(true) && owner.uid() == uid)
}

#[cfg(test)]
mod tests;
