//! The controller `service-cidr-controller`: a ServiceCIDR stays while services have addresses that only it
//! covers, by a finalizer, and says whether it is ready.

use crate::corrections::Corrections;
use crate::follow::{StartFrom, follow};
use crate::objects::time_left;
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller, EventType, Recorder, Subject};
use allocation::AddressRange;
use cache::{Entry, Filter, Freshness, Query, Resource, Update};
use kinds::object_meta;
use object::time::Time;
use object::{Map, Text};
use registry::{Address, Client, Patch};
use schema::status::Reason;
use schema::stored;
use schema::view::View as _;
use schema::views::networking::v1beta1::ServiceCIDR;
use schema::{Status, json};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) const CONTROLLER: Controller = Controller {
    name: NAME,
    alias: NAME,
    account: "service-cidrs-controller",
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

/// Also its name in managed fields and events.
const NAME: &str = "service-cidr-controller";
const GROUP: &str = "networking.k8s.io";
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// How long a ServiceCIDR stays after its deletion began, so that every server stops to take addresses of it.
const GRACE_SECONDS: i64 = 10;

async fn run(context: Context) {
    let (Some(cidrs), Some(addresses)) = (
        context.resource("servicecidrs.networking.k8s.io"),
        context.resource("ipaddresses.networking.k8s.io"),
    ) else {
        return;
    };
    let queue: Arc<Queue<Text>> = Arc::default();
    let deleted = Arc::new(Deleted::default());
    let _addresses = follow(addresses.clone(), StartFrom::Now, {
        let (queue, deleted) = (queue.clone(), deleted.clone());
        move |update| match update {
            Update::Reset => queue.extend(deleted.names()),
            Update::Change { before: None, after: Some(address) }
            | Update::Change { before: Some(address), after: None }
                if allocation::is_managed(address) =>
            {
                queue.extend(deleted.names());
            }
            Update::Change { .. } => {}
        }
    });
    let _cidrs = follow(cidrs.clone(), StartFrom::State, {
        let queue = queue.clone();
        move |update| match update {
            Update::Reset => deleted.lock().clear(),
            Update::Change { before, after: Some(cidr) } => {
                if before.is_none() {
                    // It may cover the addresses of others.
                    queue.extend(deleted.names());
                }
                if cidr.is_deleting() {
                    deleted.lock().insert(cidr.name().into());
                }
                queue.add(cidr.name().into());
            }
            Update::Change { before: Some(cidr), after: None } => {
                deleted.lock().remove(cidr.name());
            }
            Update::Change { before: None, after: None } => {}
        }
    });
    let worker = ServiceCidrs {
        client: context.client.clone().with_field_manager(NAME),
        recorder: Recorder::new(context.client.clone(), NAME),
        cidrs,
        addresses,
        corrections: context.corrections.clone(),
    };
    queue.work(&context, 4, Arc::new(worker)).await;
}

/// The names of the ServiceCIDRs that are being deleted.
#[derive(Default)]
struct Deleted(Mutex<BTreeSet<Text>>);

impl Deleted {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<Text>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> Vec<Text> {
        self.lock().iter().cloned().collect()
    }
}

struct ServiceCidrs {
    client: Client,
    recorder: Recorder,
    cidrs: Arc<Resource>,
    addresses: Arc<Resource>,
    corrections: Arc<Corrections>,
}

/// The condition `Ready` of a ServiceCIDR.
struct Ready {
    status: &'static str,
    reason: &'static str,
    message: &'static str,
}

const READY: Ready = Ready { status: "True", reason: "", message: "Kubernetes Service CIDR is ready" };
const IN_USE: Ready = Ready {
    status: "False",
    reason: "Terminating",
    message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
};

impl Reconcile for ServiceCidrs {
    type Key = Text;

    async fn reconcile(&self, name: &Text) -> Result<RequeueAfter, Status> {
        let Some(entry) = self.cidrs.lookup("", name).map_err(registry::status)? else { return Ok(None) };
        let cidr = read(&entry)?;
        let outcome = if entry.is_deleting() {
            self.delete(&cidr, &entry).await
        } else {
            self.keep(&cidr, &entry).await
        };
        match outcome {
            Err(error) if error.reason == Reason::NotFound => Ok(None),
            outcome => outcome,
        }
    }
}

impl ServiceCidrs {
    async fn keep(&self, cidr: &Map, entry: &Entry) -> Result<RequeueAfter, Status> {
        if !is_protected(cidr) {
            let patch = format!(r#"{{"metadata":{{"finalizers":["{FINALIZER}"]}}}}"#);
            self.corrections.write(entry, FINALIZER, self.patch(entry.name(), &patch)).await?;
        }
        if let Err(error) = self.say(cidr, entry, &READY).await {
            let subject = Subject::of(entry, "networking.k8s.io/v1", "ServiceCIDR");
            let message = "The ServiceCIDR Status can not be set to Ready=True";
            self.recorder.record(&subject, EventType::Warning, "KubernetesServiceCIDRError", message).await;
            return Err(error);
        }
        Ok(None)
    }

    async fn delete(&self, cidr: &Map, entry: &Entry) -> Result<RequeueAfter, Status> {
        let name = entry.name();
        if !self.can_go(cidr, name).await? {
            self.say(cidr, entry, &IN_USE).await?;
            return Ok(None);
        }
        let began = object_meta::text(cidr, "deletionTimestamp").parse::<Time>().unwrap_or(Time::ZERO);
        let left = time_left(Time::from_unix(began.unix().saturating_add(GRACE_SECONDS)));
        if !left.is_zero() {
            return Ok(Some(left));
        }
        if is_protected(cidr) {
            let patch =
                format!(r#"{{"metadata":{{"$deleteFromPrimitiveList/finalizers":["{FINALIZER}"]}}}}"#);
            self.patch(name, &patch).await?;
        }
        Ok(None)
    }

    /// Whether no address of a service is left that only this ServiceCIDR covers.
    async fn can_go(&self, cidr: &Map, name: &str) -> Result<bool, Status> {
        let own = ranges(cidr);
        let mut others = Vec::new();
        for entry in self.cidrs.list(all()).await.map_err(registry::status)? {
            if entry.name() != name {
                others.extend(ranges(&read(&entry)?));
            }
        }
        if own.iter().all(|range| others.iter().any(|other| other.covers(range))) {
            return Ok(true);
        }
        let needs_it = |ip: IpAddr| {
            let contains = |range: &AddressRange| range.contains(ip);
            own.iter().any(contains) && !others.iter().any(contains)
        };
        let mut addresses = self.addresses.list(all()).await.map_err(registry::status)?;
        Ok(!addresses.any(|entry| allocation::is_managed(&entry) && entry.name().parse().is_ok_and(needs_it)))
    }

    /// Sets the condition `Ready` if it is different.
    async fn say(&self, cidr: &Map, entry: &Entry, ready: &Ready) -> Result<(), Status> {
        let conditions = ServiceCIDR::of(cidr).status().conditions();
        let is_said = conditions.iter().any(|known| {
            known.r#type() == "Ready"
                && known.status() == ready.status
                // None is applied, so somebody else's stays.
                && (ready.reason.is_empty() || known.reason() == ready.reason)
                && known.message() == ready.message
        });
        if is_said {
            return Ok(());
        }
        let Ready { status, reason, message } = ready;
        let reason = if reason.is_empty() { String::new() } else { format!(r#""reason":"{reason}","#) };
        let config = format!(
            r#"{{"apiVersion":"{GROUP}/v1","kind":"ServiceCIDR","metadata":{{"name":{}}},"status":{{"conditions":[
            {{"type":"Ready","status":"{status}",{reason}"message":"{message}","lastTransitionTime":"{}"}}]}}}}"#,
            json::string(entry.name()),
            Time::now(),
        );
        let write = self.client.apply(address(entry.name()).subresource("status"), config.as_bytes());
        self.corrections.write(entry, (status, reason, message), write).await.map(drop)
    }

    async fn patch(&self, name: &str, patch: &str) -> Result<(), Status> {
        self.client.patch(address(name), Patch::Strategic, patch.as_bytes()).await.map(drop)
    }
}

fn address(name: &str) -> Address<'_> {
    Address::v1(GROUP, "servicecidrs", "").named(name)
}

fn all() -> Query {
    Query::new(Freshness::MostRecent, Filter::all())
}

fn read(entry: &Entry) -> Result<Map, Status> {
    stored::decode(ServiceCIDR::schema(), entry.bytes())
        .map_err(|error| Status::internal_error(&error.to_string()))
}

fn ranges(cidr: &Map) -> Vec<AddressRange> {
    ServiceCIDR::of(cidr).spec().cidrs().iter().filter_map(AddressRange::parse).collect()
}

fn is_protected(cidr: &Map) -> bool {
    object_meta::finalizers(cidr).contains(&FINALIZER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use registry::DeleteOptions;

    const CIDRS: Address<'static> = Address::v1(GROUP, "servicecidrs", "");
    const ADDRESSES: Address<'static> = Address::v1(GROUP, "ipaddresses", "");

    impl Fixture {
        async fn cidr(&self, name: &str, range: &str) {
            let text = format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{"cidrs":["{range}"]}}}}"#);
            self.create(CIDRS, &text).await;
        }

        async fn address(&self, ip: &str) {
            let text = format!(
                r#"{{"metadata":{{"name":"{ip}","labels":{{"ipaddress.kubernetes.io/managed-by":"ipallocator.k8s.io"}}}},
                "spec":{{"parentRef":{{"resource":"services","namespace":"n","name":"s"}}}}}}"#
            );
            self.create(ADDRESSES, &text).await;
        }

        /// Status and message of a ServiceCIDR, and whether it has the finalizer.
        async fn ready(&self, name: &str) -> String {
            let cidr = match self.client.get(CIDRS.named(name)).await {
                Err(error) if error.code == 404 => return "gone".to_owned(),
                cidr => cidr.unwrap(),
            };
            let cidr = cidr.as_map().unwrap();
            let said = ServiceCIDR::of(cidr).status().conditions();
            let said: Vec<String> = said
                .iter()
                .map(|condition| {
                    format!("{}={} {}", condition.r#type(), condition.status(), condition.reason())
                })
                .collect();
            format!("{} {}", said.join(" "), object_meta::finalizers(cidr).join(" "))
        }

        async fn until_ready(&self, name: &str, expected: &str) {
            self.until(expected, async || self.ready(name).await == expected).await;
        }

        async fn remove(&self, address: Address<'_>) {
            self.client.delete(address, &DeleteOptions::default()).await.unwrap();
        }
    }

    const KEPT: &str = "Ready=True  networking.k8s.io/service-cidr-finalizer";
    const BLOCKED: &str = "Ready=False Terminating networking.k8s.io/service-cidr-finalizer";

    #[tokio::test(start_paused = true)]
    async fn ranges_stay_while_only_they_cover_an_address() {
        let fixture = Fixture::new().await;
        let _running = fixture.start(&CONTROLLER);
        fixture.cidr("one", "10.1.0.0/24").await;
        fixture.until_ready("one", KEPT).await;
        fixture.address("10.1.0.7").await;
        fixture.address("10.2.0.7").await;
        fixture.remove(CIDRS.named("one")).await;
        fixture.until_ready("one", BLOCKED).await;
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        assert_eq!(fixture.ready("one").await, BLOCKED);
        fixture.remove(ADDRESSES.named("10.1.0.7")).await;
        // Ten seconds of the real time pass before it goes: deletion times are real.
        tokio::time::resume();
        fixture.until_ready("one", "gone").await;
    }

    #[tokio::test]
    async fn ranges_that_others_cover_go() {
        let fixture = Fixture::new().await;
        fixture.cidr("small", "10.1.0.0/24").await;
        fixture.address("10.1.0.7").await;
        let _running = fixture.start(&CONTROLLER);
        fixture.until_ready("small", KEPT).await;
        fixture.remove(CIDRS.named("small")).await;
        fixture.until_ready("small", BLOCKED).await;
        fixture.cidr("large", "10.1.0.0/16").await;
        fixture.until_ready("small", "gone").await;
        assert_eq!(fixture.ready("large").await, KEPT);
    }
}
