//! One write of a service: its families, then its addresses, then its ports.

use crate::addresses::{AddressError, Lease};
use crate::families;
use crate::hook::owner;
use crate::ports::{Refused, ReservedPorts, Taking};
use crate::spec::Spec;
use crate::{Family, Services};
use admission::{Reservation, Settled};
use object::field::{Error, List, Path};
use object::name::address::parse_lenient;
use object::{Map, Value};
use schema::Status;
use schema::status::Reason;
use schema::view::View as _;
use schema::views::core::v1::Service;
use std::net::IpAddr;

/// A write, with what was taken for it so far.
pub(crate) struct Write<'a> {
    services: &'a Services,
    service: &'a mut Map,
    /// The fields that the service will have.
    spec: Spec,
    /// The fields that the service has now.
    written: Spec,
    leases: Vec<Lease>,
    /// The addresses that the service gives back once the write is committed.
    released: Vec<IpAddr>,
    dry_run: bool,
}

/// How often a write is repeated because another server has written the record meanwhile.
const ATTEMPTS: u32 = 100;

/// An address that a service is given.
enum Given {
    Leased(Lease),
    /// An address that a dry run shows.
    Shown(IpAddr),
}

impl<'a> Write<'a> {
    pub(crate) fn new(services: &'a Services, service: &'a mut Map, dry_run: bool) -> Self {
        let spec = Spec::read(service);
        let written = spec.clone();
        Self { services, service, spec, written, leases: Vec::new(), released: Vec::new(), dry_run }
    }

    /// A new service.
    pub(crate) async fn create(mut self) -> Result<Option<Reservation>, Status> {
        if self.spec.cluster_ips.is_empty() && !self.spec.cluster_ip.is_empty() {
            self.spec.cluster_ips = vec![self.spec.cluster_ip.clone()];
        }
        self.complete_families(None)?;
        self.allocate(0).await?;
        self.finish(None).await
    }

    /// A service that changes, and that has the addresses and ports that the client leaves out.
    pub(crate) async fn update(mut self, old_service: &Map) -> Result<Option<Reservation>, Status> {
        let old = Spec::read_stored(old_service, self.services.families.default);
        if families::stays_as_it_is(&self.spec, &old) {
            return self.finish(Some(&old)).await;
        }
        self.complete_families(Some((&old, old_service)))?;
        match (old.is_external_name(), self.spec.is_external_name()) {
            (true, false) => self.allocate(0).await?,
            _ if old.is_headless() => {}
            (false, true) => self.release(old.addresses()),
            _ => match (old.families.len(), self.spec.families.len()) {
                (1, 2) => self.allocate(1).await?,
                (2, 1) => self.release(old.addresses().get(1..).unwrap_or_default()),
                _ => {}
            },
        }
        self.finish(Some(&old)).await
    }

    /// The families of the service, which are written so that its addresses can be checked with them.
    fn complete_families(&mut self, old: Option<(&Spec, &Map)>) -> Result<(), Status> {
        if self.spec.is_external_name() {
            return Ok(());
        }
        let (old, old_service) = old.unzip();
        families::default_policy(&mut self.spec, old);
        self.write();
        let errors = kinds::validate_service_addresses(self.service, old_service);
        if !errors.is_empty() {
            return Err(self.invalid(&errors));
        }
        families::complete(&mut self.spec, old, self.services.families)
            .map_err(|errors| self.invalid(&errors))
    }

    /// Takes the addresses from a place on: those that the service names, and others where it names none.
    async fn allocate(&mut self, from: usize) -> Result<(), Status> {
        if self.spec.is_external_name() || self.spec.is_headless() {
            return Ok(());
        }
        let count = self.spec.families.len().max(self.spec.cluster_ips.len());
        self.spec.cluster_ips.resize(count, String::new());
        for place in from..self.spec.families.len() {
            let named = self.spec.cluster_ips.get(place).cloned().unwrap_or_default();
            let given = match self.allocate_one(place, &named).await {
                Ok(Given::Leased(lease)) => {
                    let ip = lease.ip().map(|ip| ip.to_string()).unwrap_or_default();
                    self.leases.push(lease);
                    ip
                }
                Ok(Given::Shown(ip)) => ip.to_string(),
                Err(why) => {
                    give_back(std::mem::take(&mut self.leases)).await;
                    return Err(self.refuse_address(&named, &why));
                }
            };
            if let Some(ip) = self.spec.cluster_ips.get_mut(place).filter(|ip| ip.is_empty()) {
                *ip = given;
            }
        }
        if from == 0 {
            self.spec.cluster_ip = self.spec.cluster_ips.first().cloned().unwrap_or_default();
        }
        Ok(())
    }

    async fn allocate_one(&self, place: usize, named: &str) -> Result<Given, AddressError> {
        let (addresses, owner) = (&self.services.addresses, owner(self.service));
        if named.is_empty() {
            let is_v6 = self.spec.families.get(place).is_some_and(|family| family == Family::V6.name());
            let family = if is_v6 { Family::V6 } else { Family::V4 };
            return match self.dry_run {
                true => addresses.placeholder(family).map(Given::Shown),
                false => addresses.take_any(family, &owner).await.map(Given::Leased),
            };
        }
        let ip = parse_lenient(named).ok_or(AddressError::NotInAnyRange)?;
        match self.dry_run {
            true => addresses.check(ip).map(|()| Given::Shown(ip)),
            false => addresses.take(ip, &owner).await.map(Given::Leased),
        }
    }

    fn release(&mut self, ips: &[String]) {
        self.released = ips.iter().filter_map(|ip| parse_lenient(ip)).collect();
    }

    /// Takes the ports, writes everything, and makes the reservation.
    async fn finish(mut self, old: Option<&Spec>) -> Result<Option<Reservation>, Status> {
        let reserved = match self.take_ports(old).await {
            Ok(reserved) => reserved,
            Err(refused) => {
                give_back(std::mem::take(&mut self.leases)).await;
                return Err(refused);
            }
        };
        self.write();
        self.drop_internal_policy();
        let unused = old.map(|old| &old.node_ports() - &self.spec.node_ports()).unwrap_or_default();
        let Self { services, service, leases, released, dry_run, .. } = self;
        let changes_nothing =
            reserved.is_none() && leases.is_empty() && released.is_empty() && unused.is_empty();
        if dry_run || changes_nothing {
            return Ok(None);
        }
        let (addresses, ports, owner) = (services.addresses.clone(), services.ports.clone(), owner(service));
        let held = addresses.hold(released);
        Ok(Some(Reservation::followed_by(move |settled| match settled {
            Settled::Abandoned if reserved.is_none() && leases.is_empty() => None,
            Settled::Abandoned => Some(Box::pin(async move {
                if let Some(reserved) = reserved {
                    reserved.give_back().await;
                }
                give_back(leases).await;
            })),
            Settled::Committed => {
                // The pool reads the ports of what was committed.
                drop(reserved);
                leases.into_iter().for_each(Lease::keep);
                if held.is_empty() && unused.is_empty() {
                    return None;
                }
                Some(Box::pin(async move {
                    ports.forget(unused).await;
                    for held in held {
                        addresses.release(held.ip, &owner).await;
                    }
                }))
            }
            Settled::Unknown => {
                leases.into_iter().for_each(Lease::keep);
                None
            }
        })))
    }

    /// Takes the ports, before other servers do.
    async fn take_ports(&mut self, old: Option<&Spec>) -> Result<Option<ReservedPorts>, Status> {
        if !self.spec.may_have_node_ports() {
            return Ok(None);
        }
        let (ports, asked) = (&self.services.ports, self.spec.clone());
        for _ in 0..ATTEMPTS {
            let mut taking = Taking::new(ports, ports.others().await?, self.dry_run);
            let taken = match old {
                None => taking.create(&mut self.spec),
                Some(old) => taking.update(&mut self.spec, old),
            };
            taken.map_err(|refused| self.refuse_ports(refused))?;
            if let Some(reserved) = taking.finish().await? {
                return Ok((!reserved.is_empty()).then_some(reserved));
            }
            self.spec = asked.clone();
        }
        Err(Status::internal_error("failed to allocate a nodePort: other servers take ports all the time"))
    }

    fn write(&mut self) {
        self.spec.write(&self.written, self.service);
        self.written = self.spec.clone();
    }

    /// Removes `internalTrafficPolicy` from an `ExternalName` service, so that clients need not remove it.
    fn drop_internal_policy(&mut self) {
        let policy = Service::of(self.service).spec().internal_traffic_policy();
        if self.spec.is_external_name()
            && matches!(policy, Some("Cluster" | "Local"))
            && let Some(spec) = self.service.get_mut("spec").and_then(Value::as_map_mut)
        {
            spec.remove("internalTrafficPolicy");
        }
    }

    fn invalid(&self, errors: &List) -> Status {
        Status::invalid("", "Service", &owner(self.service).name, errors)
    }

    fn refuse_address(&self, named: &str, why: &AddressError) -> Status {
        if named.is_empty() {
            return Status::internal_error(&format!("failed to allocate a serviceIP: {why}"));
        }
        let path = Path::new("spec");
        let why = format!("failed to allocate IP {named}: {why}");
        let shown = families::shown(&self.spec.cluster_ips);
        self.invalid(&Error::invalid(&path.child("clusterIPs"), shown, why).into())
    }

    fn refuse_ports(&self, refused: Refused) -> Status {
        match refused {
            Refused::Invalid(errors) => self.invalid(&errors),
            Refused::Internal(why) => Status::internal_error(&why),
            Refused::Unknown(message) => {
                Status { code: 500, reason: Reason::Unknown, message, details: None, token: String::new() }
            }
        }
    }
}

/// Gives back the addresses of a refused write.
async fn give_back(leases: Vec<Lease>) {
    for lease in leases {
        lease.release().await;
    }
}
