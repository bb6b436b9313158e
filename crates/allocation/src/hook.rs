//! The hook of services in the write pipeline.

use crate::addresses::{AddressError, Addresses, Lease};
use crate::families::{self, Families};
use crate::ports::{Ports, Refused, Taking};
use crate::spec::Spec;
use crate::{AddressRange, Family, Owner, PortRange};
use admission::{Attributes, Reservation, Settled};
use auth::{Authorizer, BoxFuture, stored};
use cache::{Cache, Entry};
use object::field::{Error, List, Path};
use object::name::address::parse_lenient;
use object::{Map, Value};
use registry::{Address, DeleteOptions, Registry, WriteHook};
use schema::Status;
use schema::status::Reason;
use schema::view::View as _;
use schema::views::core::v1::Service;
use std::net::IpAddr;
use std::sync::Arc;

/// What services are given.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The addresses of the default family.
    pub range: AddressRange,
    /// The addresses of the other family, if services can have two.
    pub secondary: Option<AddressRange>,
    /// The node ports.
    pub ports: PortRange,
}

/// Gives addresses and node ports to services, and takes them back.
#[derive(Clone)]
pub struct Services {
    families: Families,
    addresses: Arc<Addresses>,
    ports: Arc<Ports>,
}

impl Services {
    /// Those in a cache; `None` if it does not have the kinds.
    pub fn new(cache: &Cache, config: &Config) -> Option<Self> {
        let configured = [Some(config.range), config.secondary].into_iter().flatten().collect();
        Some(Self {
            families: Families {
                default: config.range.family(),
                is_dual_stack: config.secondary.is_some_and(|range| range.family() != config.range.family()),
            },
            addresses: Arc::new(Addresses::new(cache, configured)?),
            ports: Arc::new(Ports::new(cache, config.ports)?),
        })
    }

    /// Tells it the registry whose hook it is. Only the first call counts.
    pub fn connect(&self, registry: &Arc<Registry>) {
        self.addresses.connect(registry);
    }

    /// Whether a write is about to take or to give back an address. One that is not, and whose service does not have it afterwards,
    /// belongs to nobody.
    pub fn is_under_way(&self, ip: IpAddr) -> bool {
        self.addresses.is_under_way(ip)
    }

    /// Whether an address is in the range of a ServiceCIDR.
    pub fn is_in_range(&self, ip: IpAddr) -> bool {
        self.addresses.is_in_range(ip)
    }

    /// Whether an IPAddress has the labels of one that was made for a service.
    pub fn has_own_labels(&self, address: &Entry, ip: IpAddr) -> bool {
        crate::addresses::has_own_labels(address, ip)
    }

    /// Makes the IPAddress of a service that lacks it.
    pub async fn make_address(&self, ip: IpAddr, owner: &Owner) -> Result<(), Status> {
        self.addresses.make(ip, owner).await
    }

    /// Removes an IPAddress, if it is still the same object.
    pub async fn remove_address(&self, entry: &Entry) -> Result<(), Status> {
        self.addresses.remove(entry).await
    }

    /// The addresses of a service.
    pub fn addresses_of(service: &Map) -> Vec<IpAddr> {
        Spec::read(service).addresses().iter().filter_map(|ip| parse_lenient(ip)).collect()
    }

    /// A new service.
    async fn create(&self, service: &mut Map, dry_run: bool) -> Result<Option<Reservation>, Status> {
        let before = Spec::read(service);
        let mut spec = before.clone();
        if spec.cluster_ips.is_empty() && !spec.cluster_ip.is_empty() {
            spec.cluster_ips = vec![spec.cluster_ip.clone()];
        }
        self.complete_families(&mut spec, &before, service, None)?;
        let begun = spec.clone();
        let leases = self.allocate(&mut spec, 0, service, dry_run).await?;
        self.finish(spec, &begun, None, service, leases, Vec::new(), dry_run).await
    }

    /// A service that changes.
    async fn update(
        &self,
        service: &mut Map,
        old: &Map,
        dry_run: bool,
    ) -> Result<Option<Reservation>, Status> {
        kinds::keep_allocated(service, old);
        let before = Spec::read(service);
        let old_service = old;
        let old = Spec::read_stored(old, self.families.default);
        let mut spec = before.clone();
        let stays = families::stays_as_it_is(&spec, &old);
        if !stays {
            self.complete_families(&mut spec, &before, service, Some((&old, old_service)))?;
        }
        let begun = if stays { before } else { Spec::read(service) };
        let (mut leases, mut released) = (Vec::new(), Vec::new());
        match (old.is_external_name(), spec.is_external_name()) {
            _ if stays => {}
            (true, false) => leases = self.allocate(&mut spec, 0, service, dry_run).await?,
            _ if old.is_headless() => {}
            (false, true) => released = old.addresses().to_vec(),
            _ if old.families.len() == 1 && spec.families.len() == 2 => {
                leases = self.allocate(&mut spec, 1, service, dry_run).await?;
            }
            _ if old.families.len() == 2 && spec.families.len() == 1 => {
                released = old.addresses().iter().skip(1).cloned().collect();
            }
            _ => {}
        }
        self.finish(spec, &begun, Some(&old), service, leases, released, dry_run).await
    }

    /// The families of a service, which are written to it so that its addresses can be checked with them.
    fn complete_families(
        &self,
        spec: &mut Spec,
        before: &Spec,
        service: &mut Map,
        old: Option<(&Spec, &Map)>,
    ) -> Result<(), Status> {
        let (old, old_service) = old.unzip();
        if !spec.is_external_name() {
            families::default_policy(spec, old);
        }
        spec.write(before, service);
        if spec.is_external_name() {
            return Ok(());
        }
        let errors = kinds::validate_service_addresses(service, old_service);
        if !errors.is_empty() {
            return Err(invalid(service, &errors));
        }
        let checked = spec.clone();
        families::complete(spec, old, self.families).map_err(|errors| invalid(service, &errors))?;
        spec.write(&checked, service);
        Ok(())
    }

    /// Takes the addresses of a service from a place on: those that it names, and others where it names none.
    async fn allocate(
        &self,
        spec: &mut Spec,
        from: usize,
        service: &Map,
        dry_run: bool,
    ) -> Result<Vec<Lease>, Status> {
        let mut leases = Vec::new();
        if spec.is_external_name() || spec.is_headless() {
            return Ok(leases);
        }
        let owner = owner(service);
        spec.cluster_ips.resize(spec.families.len().max(spec.cluster_ips.len()), String::new());
        for place in from..spec.families.len() {
            let family = spec.families.get(place).map_or("", String::as_str);
            let family = if family == Family::V6.name() { Family::V6 } else { Family::V4 };
            let named = spec.cluster_ips.get(place).cloned().unwrap_or_default();
            let given = match self.allocate_one(family, &named, &owner, dry_run).await {
                Ok(Given::Leased(lease)) => {
                    let ip = lease.ip().map(|ip| ip.to_string()).unwrap_or_default();
                    leases.push(lease);
                    ip
                }
                Ok(Given::Shown(ip)) => ip.to_string(),
                Err(why) => {
                    release(leases).await;
                    return Err(refuse_address(service, spec, &named, &why));
                }
            };
            if let Some(ip) = spec.cluster_ips.get_mut(place)
                && ip.is_empty()
            {
                *ip = given;
            }
        }
        if from == 0 {
            spec.cluster_ip = spec.cluster_ips.first().cloned().unwrap_or_default();
        }
        Ok(leases)
    }

    async fn allocate_one(
        &self,
        family: Family,
        named: &str,
        owner: &Owner,
        dry_run: bool,
    ) -> Result<Given, AddressError> {
        let addresses = &self.addresses;
        if named.is_empty() {
            return match dry_run {
                true => addresses.placeholder(family).map(Given::Shown),
                false => addresses.take_any(family, owner).await.map(Given::Leased),
            };
        }
        let ip = parse_lenient(named).ok_or(AddressError::NotInAnyRange)?;
        match dry_run {
            true => addresses.check(ip).map(|()| Given::Shown(ip)),
            false => addresses.take(ip, owner).await.map(Given::Leased),
        }
    }

    /// Takes the ports, writes everything to the service, and makes the reservation.
    async fn finish(
        &self,
        mut spec: Spec,
        begun: &Spec,
        old: Option<&Spec>,
        service: &mut Map,
        leases: Vec<Lease>,
        released: Vec<String>,
        dry_run: bool,
    ) -> Result<Option<Reservation>, Status> {
        let mut taking = Taking::new(&self.ports, dry_run);
        let taken = match old {
            None => taking.create(&mut spec),
            Some(old) => taking.update(&mut spec, old),
        };
        if let Err(refused) = taken {
            drop(taking);
            release(leases).await;
            return Err(refuse_ports(service, refused));
        }
        spec.write(begun, service);
        drop_internal_policy(&spec, service);
        if dry_run {
            return Ok(None);
        }
        let reserved = taking.into_reserved();
        let released = released.iter().filter_map(|ip| parse_lenient(ip)).collect::<Vec<_>>();
        if reserved.is_none() && leases.is_empty() && released.is_empty() {
            return Ok(None);
        }
        let (addresses, owner) = (self.addresses.clone(), owner(service));
        let held = addresses.hold(released);
        Ok(Some(Reservation::followed_by(move |settled| {
            // The pool reads the ports of what was committed.
            drop(reserved);
            match settled {
                Settled::Abandoned if leases.is_empty() => None,
                Settled::Abandoned => Some(Box::pin(release(leases))),
                Settled::Committed => {
                    leases.into_iter().for_each(Lease::keep);
                    if held.is_empty() {
                        return None;
                    }
                    Some(Box::pin(async move {
                        for held in held {
                            addresses.release(held.ip, &owner).await;
                        }
                    }))
                }
            }
        })))
    }

    /// What a service that is removed gives back: its addresses. Its endpoints go with it, so that another service of its name does not
    /// get them.
    fn after_removal(&self, service: &Map) -> Reservation {
        let owner = owner(service);
        let held = self.addresses.hold(Self::addresses_of(service));
        let addresses = self.addresses.clone();
        Reservation::followed_by(move |settled| {
            if settled == Settled::Abandoned {
                return None;
            }
            Some(Box::pin(async move {
                remove_endpoints(&addresses, &owner).await;
                for held in held {
                    addresses.release(held.ip, &owner).await;
                }
            }))
        })
    }
}

/// An address that a service is given.
enum Given {
    Leased(Lease),
    /// That a dry run shows.
    Shown(IpAddr),
}

impl WriteHook for Services {
    fn before_write<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _authorizer: &'a Authorizer,
        object: &'a mut Value,
    ) -> BoxFuture<'a, Result<Option<Reservation>, Status>> {
        Box::pin(async move {
            let Some(service) = object.as_map_mut().filter(|_| attributes.subresource.is_empty()) else {
                return Ok(None);
            };
            match attributes.old.and_then(Value::as_map) {
                None => self.create(service, attributes.dry_run).await,
                Some(old) => self.update(service, old, attributes.dry_run).await,
            }
        })
    }

    fn before_remove(&self, entry: &Entry) -> Option<Reservation> {
        let service = stored::logged(entry, stored::decode(Service::schema(), entry))?;
        Some(self.after_removal(&service))
    }
}

async fn release(leases: Vec<Lease>) {
    for lease in leases {
        lease.release().await;
    }
}

async fn remove_endpoints(addresses: &Addresses, owner: &Owner) {
    let endpoints = Address::core("endpoints", &owner.namespace).named(&owner.name);
    let outcome = match addresses.client() {
        Ok(client) => client.delete(endpoints, &DeleteOptions::default()).await,
        Err(error) => Err(error),
    };
    match outcome {
        Err(error) if error.reason != Reason::NotFound => {
            log::warn!(service:% = owner, error:% = error.message; "the endpoints of a removed service could not be removed");
        }
        _ => {}
    }
}

/// A service that is only a name has no policy for traffic inside of the cluster; clients do not have to remove it.
fn drop_internal_policy(spec: &Spec, service: &mut Map) {
    if !spec.is_external_name() {
        return;
    }
    let policy = Service::of(service).spec().internal_traffic_policy().unwrap_or_default();
    if matches!(policy, "Cluster" | "Local")
        && let Some(spec) = service.get_mut("spec").and_then(Value::as_map_mut)
    {
        spec.remove("internalTrafficPolicy");
    }
}

fn owner(service: &Map) -> Owner {
    let metadata = service.get("metadata").and_then(Value::as_map);
    let text = |key: &str| {
        let text = metadata.and_then(|metadata| metadata.get(key)).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    Owner { namespace: text("namespace"), name: text("name") }
}

fn invalid(service: &Map, errors: &List) -> Status {
    Status::invalid("", "Service", &owner(service).name, errors)
}

fn refuse_address(service: &Map, spec: &Spec, named: &str, why: &AddressError) -> Status {
    if named.is_empty() {
        return Status::internal_error(&format!("failed to allocate a serviceIP: {why}"));
    }
    let path = Path::new("spec");
    let why = format!("failed to allocate IP {named}: {why}");
    let error = Error::invalid(&path.child("clusterIPs"), families::shown(&spec.cluster_ips), why);
    invalid(service, &error.into())
}

fn refuse_ports(service: &Map, refused: Refused) -> Status {
    match refused {
        Refused::Invalid(errors) => invalid(service, &errors),
        Refused::Internal(why) => Status::internal_error(&why),
        Refused::Unknown(message) => {
            Status { code: 500, reason: Reason::Unknown, message, details: None, token: String::new() }
        }
    }
}
