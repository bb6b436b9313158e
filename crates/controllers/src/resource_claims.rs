//! The controller `resourceclaim-controller`: makes the resource claims of pods from templates, reserves
//! claims for pods that somebody has put on a node, takes back the reservations of pods that are gone or
//! done, and removes claims that nobody needs any more. It runs with the gate `DynamicResourceAllocation`.

mod claim;
mod pod;
#[cfg(test)]
mod tests;

use crate::follow::{StartFrom, follow};
use crate::objects::{controller_of, mentions};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller, Recorder};
use cache::{Cursor, Entry, Resource, Update};
use object::{Map, Text};
use registry::{Address, Client};
use schema::view::View as _;
use schema::views::core::v1::Pod;
use schema::views::resource::v1beta1::ResourceClaim;
use schema::{Builder, Part, Ref, Status, Type, stored};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

pub(crate) const CONTROLLER: Controller = Controller {
    name: "resourceclaim-controller",
    alias: "resource-claim-controller",
    account: "resource-claim-controller",
    stores: crate::Stores::Own,
    run: |context| Box::pin(run(context)),
};

/// The component of events.
const COMPONENT: &str = "resource_claim";
/// The manager of the fields of a pod that name its claims.
const STATUS_MANAGER: &str = "ResourceClaimController";
/// The annotation of a claim that says for which of the pod's claims it was made.
const OF_POD_CLAIM: &str = "resource.kubernetes.io/pod-claim-name";
/// The finalizer of a claim that is allocated.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// The group of claims, and the version that they are stored in.
const GROUP: &str = "resource.k8s.io";
const VERSION: &str = "v1beta1";

/// The fields of a pod that say which claims it uses.
static USES: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let spec = Part("spec", &[Part("resourceClaims", &[])]);
    let status = Part("status", &[Part("resourceClaimStatuses", &[])]);
    Builder::part_of(Pod::schema(), &[spec, status]).build()
});

/// By namespace and name.
type ObjectKey = (Text, Text);

/// A key of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Item {
    Pod(Text, Text),
    Claim(Text, Text),
}

/// The pods that use claims, by the claims.
#[derive(Default)]
struct Users(Mutex<HashMap<ObjectKey, BTreeSet<Text>>>);

impl Users {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, BTreeSet<Text>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes which claims a pod uses. Returns those that it uses or has used.
    fn note(&self, before: Option<&Entry>, after: Option<&Entry>) -> BTreeSet<ObjectKey> {
        let mut all = self.lock();
        let [old, new] = [before, after].map(|pod| pod.map(claims_of).unwrap_or_default());
        let Some(pod) = after.or(before) else { return BTreeSet::new() };
        for key in old.difference(&new) {
            if let Some(pods) = all.get_mut(key) {
                pods.remove(pod.name());
                if pods.is_empty() {
                    all.remove(key);
                }
            }
        }
        for key in &new {
            all.entry(key.clone()).or_default().insert(pod.name().into());
        }
        old.union(&new).cloned().collect()
    }

    /// The pods that use a claim.
    fn of(&self, claim: &Entry) -> Vec<Item> {
        let key = (claim.namespace().into(), claim.name().into());
        let all = self.lock();
        let pods = all.get(&key).into_iter().flatten();
        pods.map(|pod| Item::Pod(claim.namespace().into(), pod.clone())).collect()
    }
}

/// The claims that a pod names, or that were made for it.
fn claims_of(pod: &Entry) -> BTreeSet<ObjectKey> {
    if !uses_claims(pod) {
        return BTreeSet::new();
    }
    let Some(decoded) = stored::logged(pod, stored::decode_part(&USES, pod.bytes())) else {
        return BTreeSet::new();
    };
    let pod_view = Pod::of(&decoded);
    let named = pod_view.spec().resource_claims().iter().filter_map(|claim| claim.resource_claim_name());
    let made =
        pod_view.status().resource_claim_statuses().iter().filter_map(|status| status.resource_claim_name());
    named.chain(made).map(|name| (pod.namespace().into(), name.into())).collect()
}

/// Whether a pod uses claims, by its bytes.
fn uses_claims(pod: &Entry) -> bool {
    mentions(pod, r#""resourceClaims":["#)
}

async fn run(context: Context) {
    let address = Address { version: VERSION, ..Address::v1(GROUP, "resourceclaims", "") };
    if !context.settings.gates.dynamic_resource_allocation || !context.client.serves(address) {
        return;
    }
    let (Some(pods), Some(claims), Some(templates)) = (
        context.resource("pods"),
        context.resource("resourceclaims.resource.k8s.io"),
        context.resource("resourceclaimtemplates.resource.k8s.io"),
    ) else {
        return;
    };
    let (queue, users) = (Arc::<Queue<Item>>::default(), Arc::<Users>::default());
    let _pods = follow(pods.clone(), StartFrom::State, {
        let (queue, users) = (queue.clone(), users.clone());
        move |update| match update {
            Update::Reset => users.lock().clear(),
            Update::Change { before, after } => {
                let claims = users.note(before.map(|pod| &**pod), after.map(|pod| &**pod));
                queue.extend(claims.into_iter().map(|(space, name)| Item::Claim(space, name)));
                if let Some(pod) = after.filter(|pod| uses_claims(pod)) {
                    queue.add(Item::Pod(pod.namespace().into(), pod.name().into()));
                }
            }
        }
    });
    let _claims = follow(claims.clone(), StartFrom::State, {
        let (queue, users) = (queue.clone(), users.clone());
        move |update| {
            let Update::Change { before, after } = update else { return };
            let Some(claim) = after.or(before) else { return };
            queue.extend(users.of(claim));
            queue.add(Item::Claim(claim.namespace().into(), claim.name().into()));
        }
    });
    let _templates = follow(templates.clone(), StartFrom::Now, {
        let (queue, pods) = (queue.clone(), pods.clone());
        // A pod may have waited for a template.
        move |update| {
            if let Update::Change { before: None, after: Some(_) } = update {
                queue.extend(waiting(&pods));
            }
        }
    });
    let worker = Worker {
        client: context.client.clone(),
        of_status: context.client.clone().with_field_manager(STATUS_MANAGER),
        recorder: Recorder::new(context.client.clone(), COMPONENT),
        pods,
        claims,
        templates,
    };
    queue.work(&context, 10, Arc::new(worker)).await;
}

/// The pods that use claims.
fn waiting(pods: &Arc<Resource>) -> Vec<Item> {
    let mut all = Vec::new();
    Cursor::new(pods.clone()).advance(|update| {
        if let Update::Change { after: Some(pod), .. } = update
            && uses_claims(pod)
        {
            all.push(Item::Pod(pod.namespace().into(), pod.name().into()));
        }
    });
    all
}

struct Worker {
    client: Client,
    /// Writes which claims a pod has.
    of_status: Client,
    recorder: Recorder,
    pods: Arc<Resource>,
    claims: Arc<Resource>,
    templates: Arc<Resource>,
}

impl Reconcile for Worker {
    type Key = Item;

    async fn reconcile(&self, item: &Item) -> Result<RequeueAfter, Status> {
        match item {
            Item::Pod(namespace, name) => self.sync_pod(namespace, name).await?,
            Item::Claim(namespace, name) => self.sync_claim(namespace, name).await?,
        }
        Ok(None)
    }
}

/// The address of a claim.
fn claim_address<'a>(namespace: &'a str, name: &'a str) -> Address<'a> {
    Address { version: VERSION, ..Address::v1(GROUP, "resourceclaims", namespace).named(name) }
}

/// The uid of the pod that a claim was made for, and its name.
fn owning_pod(claim: &Map) -> Option<(&str, &str)> {
    let owner = controller_of(claim)?;
    (owner.api_version() == "v1" && owner.kind() == "Pod").then(|| (owner.uid(), owner.name()))
}

/// Whether no container of a pod runs or will run.
fn is_done(pod: &Entry) -> bool {
    use crate::workloads::pod::{is_finished, node};
    is_finished(pod) || pod.is_deleting() && node(pod).is_empty()
}

/// The view of a claim.
fn view(claim: &Map) -> ResourceClaim<'_> {
    ResourceClaim::of(claim)
}
