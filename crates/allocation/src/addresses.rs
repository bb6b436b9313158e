//! Cluster IPs: ServiceCIDR objects say which there are, IPAddress objects which are taken.
//!
//! An address is taken by creating its IPAddress object, as the server itself, through the pipeline: of two
//! writes, or two servers, one succeeds. Looking at the objects before that only saves attempts.

use crate::counted;
use crate::{AddressRange, Family};
use admission::Lister;
use auth::SystemIdentity;
use cache::{Cache, Cursor, Entry, Resource, Update};
use object::{Key, Map};
use registry::{Address, Client, DeleteOptions, Registry};
use schema::Status;
use schema::status::Reason;
use schema::stored;
use schema::view::View as _;
use schema::views::networking::v1beta1::{IPAddress, ServiceCIDR};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;

/// The group of both kinds.
const GROUP: &str = "networking.k8s.io";
/// The label with the name of the controller of an IPAddress.
pub const MANAGED_BY_LABEL: &str = "ipaddress.kubernetes.io/managed-by";
const FAMILY_LABEL: &str = "ipaddress.kubernetes.io/ip-family";
/// The shortest prefix of an IPv6 range that addresses are taken from.
const SHORTEST_V6: u8 = 64;

/// The value of the label for addresses of services.
pub const MANAGED_BY: &str = "ipallocator.k8s.io";

/// A service, as the owner of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The service that an IPAddress belongs to; none if it belongs to something else.
pub fn owner(address: &Map) -> Option<Owner> {
    let parent = IPAddress::of(address).spec().parent_ref()?;
    let is_service = parent.group().is_empty() && parent.resource() == "services";
    is_service.then(|| Owner { namespace: parent.namespace().to_owned(), name: parent.name().to_owned() })
}

/// Whether an IPAddress has the labels of one that was made for a service.
pub fn is_managed(address: &Entry) -> bool {
    address.labels().any(|(key, value)| key == MANAGED_BY_LABEL && value == MANAGED_BY)
}

/// Whether the labels of an IPAddress are those that it is made with.
pub(crate) fn has_own_labels(address: &Entry, ip: IpAddr) -> bool {
    let family = Family::of(ip).name();
    is_managed(address) && address.labels().any(|(key, value)| key == FAMILY_LABEL && value == family)
}

/// Why there is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AddressError {
    /// All addresses are taken.
    Full,
    /// The address is taken.
    Taken,
    /// The address is in no range that is ready.
    NotInAnyRange,
    /// There is no range that is ready.
    NotReady,
    /// The address is not in the only range.
    NotInRange(IpAddr, AddressRange),
    /// The object could not be made.
    Failed(String),
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("range is full"),
            Self::Taken => f.write_str("provided IP is already allocated"),
            Self::NotInAnyRange => f.write_str("the provided network does not match the current range"),
            Self::NotReady => f.write_str("allocator not ready"),
            Self::NotInRange(ip, range) => write!(
                f,
                "the provided IP ({ip}) is not in the valid range. The range of valid IPs is {range}"
            ),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

/// One ServiceCIDR.
struct Ranges {
    ranges: Vec<AddressRange>,
    is_ready: bool,
}

impl Ranges {
    fn read(object: &Map) -> Option<Self> {
        let cidr = ServiceCIDR::of(object);
        let ranges = cidr.spec().cidrs().iter().filter_map(AddressRange::parse);
        let conditions = cidr.status().conditions();
        // A range without the condition counts as ready: the controller that writes conditions may not run.
        let condition = conditions.iter().find(|condition| condition.r#type() == "Ready");
        let is_deleting = object.get("metadata").and_then(|meta| meta.get("deletionTimestamp")).is_some();
        Some(Self {
            ranges: ranges.collect(),
            is_ready: condition.is_none_or(|condition| condition.status() == "True") && !is_deleting,
        })
    }
}

/// The addresses of the cluster.
pub(crate) struct Addresses {
    ranges: Lister<Ranges>,
    objects: Arc<Resource>,
    /// The ranges of the server's own configuration, which are tried before others.
    configured: Vec<AddressRange>,
    registry: OnceLock<Weak<Registry>>,
    under_way: Arc<UnderWay>,
    /// The addresses that are taken, as far as somebody has looked.
    taken: Mutex<TakenAddresses>,
}

/// All addresses that are taken.
struct TakenAddresses {
    objects: Cursor,
    all: BTreeSet<IpAddr>,
}

impl Addresses {
    /// Has the metrics show how many addresses are taken and free.
    pub(crate) fn observe(self: &Arc<Self>) {
        let show = |number: fn(&Self, &AddressRange) -> f64| {
            let addresses = Arc::downgrade(self);
            move |samples: &mut metrics::Samples<'_, '_>| {
                let Some(addresses) = addresses.upgrade() else { return };
                for range in addresses.all_ranges() {
                    samples.sample(&[&range.to_string()], number(&addresses, &range));
                }
            }
        };
        counted::ALLOCATED.observe(show(|addresses, range| addresses.taken(range)));
        counted::AVAILABLE
            .observe(show(|addresses, range| range.usable_addresses() - addresses.taken(range)));
    }

    /// All ranges, each once.
    fn all_ranges(&self) -> Vec<AddressRange> {
        let mut all: Vec<AddressRange> = Vec::new();
        for range in self.ranges.all().iter().flat_map(|known| known.ranges.clone()) {
            if !all.contains(&range) {
                all.push(range);
            }
        }
        all
    }

    /// How many addresses of a range are taken.
    #[allow(clippy::cast_precision_loss, reason = "a count")]
    fn taken(&self, range: &AddressRange) -> f64 {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let TakenAddresses { objects, all } = &mut *taken;
        let ip = |entry: Option<&Arc<Entry>>| entry.and_then(|entry| entry.name().parse::<IpAddr>().ok());
        objects.advance(|update| match update {
            Update::Reset => all.clear(),
            Update::Change { before, after } => {
                if let Some(ip) = ip(before) {
                    all.remove(&ip);
                }
                all.extend(ip(after));
            }
        });
        all.iter().filter(|ip| range.contains(**ip)).count() as f64
    }

    /// The addresses in a cache; `None` if it does not have their kinds.
    pub(crate) fn new(cache: &Cache, configured: Vec<AddressRange>) -> Option<Self> {
        let ranges = cache.resource("servicecidrs.networking.k8s.io")?;
        let objects = cache.resource("ipaddresses.networking.k8s.io")?;
        let taken = TakenAddresses { objects: Cursor::new(objects.clone()), all: BTreeSet::new() };
        Some(Self {
            ranges: Lister::new(ranges, ServiceCIDR::schema(), Ranges::read),
            objects,
            configured,
            registry: OnceLock::new(),
            under_way: Arc::default(),
            taken: Mutex::new(taken),
        })
    }

    /// Sets the registry through which objects are written. Only the first call counts.
    pub(crate) fn connect(&self, registry: &Arc<Registry>) {
        let _ = self.registry.set(Arc::downgrade(registry));
    }

    /// Whether a write is about to take or to give back an address.
    pub(crate) fn is_under_way(&self, ip: IpAddr) -> bool {
        self.under_way.lock().contains_key(&ip)
    }

    /// Whether an address is in a range, ready or not.
    pub(crate) fn is_in_range(&self, ip: IpAddr) -> bool {
        self.ranges.all().iter().any(|ranges| ranges.ranges.iter().any(|range| range.contains(ip)))
    }

    /// Takes an address that the client names.
    pub(crate) async fn take(self: &Arc<Self>, ip: IpAddr, owner: &Owner) -> Result<Lease, AddressError> {
        let ready = self.ready(Family::of(ip));
        let Some(range) = ready.iter().find(|range| range.contains(ip)) else {
            return Err(AddressError::NotInAnyRange);
        };
        let begin = Instant::now();
        let outcome = self.create(ip, owner).await;
        counted::allocated(range, begin.elapsed(), outcome.is_ok());
        outcome
    }

    /// Takes any address of a family: of the configured range, then of the others by the names of their
    /// objects.
    pub(crate) async fn take_any(
        self: &Arc<Self>,
        family: Family,
        owner: &Owner,
    ) -> Result<Lease, AddressError> {
        for range in self.ready(family) {
            let begin = Instant::now();
            for ip in range.candidates(|below| fastrand::u64(..below)) {
                if self.is_under_way(ip) || !matches!(self.objects.lookup("", &ip.to_string()), Ok(None)) {
                    continue;
                }
                match self.create(ip, owner).await {
                    Err(AddressError::Taken) => {}
                    outcome => {
                        counted::allocated(&range, begin.elapsed(), outcome.is_ok());
                        return outcome;
                    }
                }
            }
            counted::allocated(&range, begin.elapsed(), false);
        }
        Err(AddressError::Full)
    }

    /// Checks in a dry run whether an address that the client names could be that of a service.
    pub(crate) fn check(&self, ip: IpAddr) -> Result<(), AddressError> {
        let ready = self.ready(Family::of(ip));
        match ready.first() {
            _ if ready.iter().any(|range| range.contains(ip)) => Ok(()),
            Some(range) => Err(AddressError::NotInRange(ip, *range)),
            None => Err(AddressError::NotReady),
        }
    }

    /// The address that a dry run shows for any address of a family: that of the network.
    pub(crate) fn placeholder(&self, family: Family) -> Result<IpAddr, AddressError> {
        self.ready(family).first().map(AddressRange::base).ok_or(AddressError::NotReady)
    }

    /// The ranges of a family that are ready, the configured ones first.
    fn ready(&self, family: Family) -> Vec<AddressRange> {
        let all = self.ranges.all();
        let ready = all.iter().filter(|ranges| ranges.is_ready).flat_map(|ranges| &ranges.ranges);
        let mut ready: Vec<_> =
            ready.copied().filter(|range| range.family() == family && is_usable(range)).collect();
        ready.sort_by_key(|range| !self.configured.contains(range));
        ready
    }

    /// Creates the object of an address, also if the request is dropped meanwhile; it is given back then.
    async fn create(self: &Arc<Self>, ip: IpAddr, owner: &Owner) -> Result<Lease, AddressError> {
        let (this, owner) = (self.clone(), owner.clone());
        let made = tasks::once(async move {
            let held = this.under_way.hold(ip);
            match this.make(ip, &owner).await {
                Ok(()) => Ok(Lease { addresses: this, owner, held: Some(held) }),
                Err(error) if error.reason == Reason::AlreadyExists => Err(AddressError::Taken),
                Err(error) => Err(AddressError::Failed(error.message)),
            }
        });
        made.await.unwrap_or_else(|error| Err(AddressError::Failed(error.to_string())))
    }

    /// Makes the object of an address.
    pub(crate) async fn make(&self, ip: IpAddr, owner: &Owner) -> Result<(), Status> {
        let labels = Map::from_iter([
            (Key::known(FAMILY_LABEL), Family::of(ip).name()),
            (Key::known(MANAGED_BY_LABEL), MANAGED_BY),
        ]);
        let parent = Map::from_iter([
            (Key::known("resource"), "services"),
            (Key::known("namespace"), owner.namespace.as_str()),
            (Key::known("name"), owner.name.as_str()),
        ]);
        let mut metadata = Map::new();
        metadata.insert("name", ip.to_string());
        metadata.insert("labels", labels);
        let mut object = Map::new();
        object.insert("metadata", metadata);
        object.insert("spec", Map::from_iter([(Key::known("parentRef"), parent)]));
        let address = Address::v1(GROUP, "ipaddresses", "");
        self.client()?.create(address, object.into()).await.map(drop)
    }

    /// Removes the object of an address, if it is that of a service. What fails is found by the repair.
    pub(crate) async fn release(&self, ip: IpAddr, owner: &Owner) {
        let name = ip.to_string();
        let Ok(Some(entry)) = self.objects.lookup("", &name) else { return };
        let read = stored::logged(&entry, stored::decode(IPAddress::schema(), entry.bytes()));
        if read.as_ref().and_then(crate::owner).as_ref() != Some(owner) {
            return;
        }
        if let Err(error) = self.remove(&entry).await {
            log::warn!(address = name.as_str(), service:% = owner, error:% = error.message; "the address of a service could not be released yet");
        }
    }

    /// Removes an IPAddress, if it is still the same object.
    pub(crate) async fn remove(&self, entry: &Entry) -> Result<(), Status> {
        let address = Address::v1(GROUP, "ipaddresses", "").named(entry.name());
        let options = DeleteOptions { uid: Some(entry.uid().to_owned()), ..DeleteOptions::default() };
        match self.client()?.delete(address, &options).await {
            Err(error) if matches!(error.reason, Reason::NotFound | Reason::Conflict) => Ok(()),
            outcome => outcome,
        }
    }

    /// Marks addresses as under way.
    pub(crate) fn hold(&self, ips: impl IntoIterator<Item = IpAddr>) -> Vec<Held> {
        ips.into_iter().map(|ip| self.under_way.hold(ip)).collect()
    }

    /// The client that writes through the pipeline.
    pub(crate) fn client(&self) -> Result<Client, Status> {
        let registry = self.registry.get().and_then(Weak::upgrade);
        let registry = registry.ok_or_else(|| Status::internal_error("the server is not ready"))?;
        Ok(Client::new(registry, SystemIdentity::ApiServer, "kube-apiserver"))
    }
}

fn is_usable(range: &AddressRange) -> bool {
    range.family() == Family::V4 || range.host_bits() <= SHORTEST_V6
}

/// An address that was taken for a write. It is given back unless it is kept.
pub(crate) struct Lease {
    addresses: Arc<Addresses>,
    owner: Owner,
    held: Option<Held>,
}

impl Lease {
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.held.as_ref().map(|held| held.ip)
    }

    /// Leaves the address to the service, which is committed.
    pub(crate) fn keep(mut self) {
        self.held = None;
    }

    /// Gives the address back.
    pub(crate) async fn release(mut self) {
        if let Some(held) = self.held.take() {
            self.addresses.release(held.ip, &self.owner).await;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let (Some(held), Ok(runtime)) = (self.held.take(), tokio::runtime::Handle::try_current()) {
            let (addresses, owner) = (self.addresses.clone(), self.owner.clone());
            tasks::once_on(&runtime, async move { addresses.release(held.ip, &owner).await });
        }
    }
}

/// The addresses that writes are about to take or to give back, with the number of writes.
#[derive(Default)]
struct UnderWay(Mutex<HashMap<IpAddr, usize>>);

impl UnderWay {
    fn hold(self: &Arc<Self>, ip: IpAddr) -> Held {
        *self.lock().entry(ip).or_default() += 1;
        Held { ip, under_way: self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An address that is under way.
pub(crate) struct Held {
    pub(crate) ip: IpAddr,
    under_way: Arc<UnderWay>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut all = self.under_way.lock();
        if let Some(count) = all.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.ip);
            }
        }
    }
}
