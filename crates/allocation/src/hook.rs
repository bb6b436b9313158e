//! The hook of services in the write pipeline.

use crate::addresses::Addresses;
use crate::families::Families;
use crate::ports::Ports;
use crate::spec::Spec;
use crate::write::Write;
use crate::{AddressRange, Owner, PortFault, PortRange, PortRecord};
use admission::{Attributes, Reservation, Settled};
use auth::Authorizer;
use cache::{Cache, Entry};
use object::name::address::parse_lenient;
use object::{Map, Value};
use registry::{Address, DeleteOptions, Registry, WriteHook};
use schema::Status;
use schema::status::Reason;
use schema::stored;
use schema::view::View as _;
use schema::views::core::v1::Service;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tasks::BoxFuture;

/// How often the record of node ports is repaired, as in the reference.
const REPAIR: Duration = Duration::from_secs(180);
/// How long to wait after a failed repair.
const RETRY: Duration = Duration::from_secs(10);

/// The ranges that services are given addresses and ports from.
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
    pub(crate) families: Families,
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) ports: Arc<Ports>,
}

impl Services {
    /// The hook for the services of a cache; `None` if the cache lacks the kinds. The record is for a store
    /// that other servers share.
    pub fn new(cache: &Cache, config: &Config, record: Option<PortRecord>) -> Option<Self> {
        let configured = [Some(config.range), config.secondary].into_iter().flatten().collect();
        let addresses = Arc::new(Addresses::new(cache, configured)?);
        let ports = Arc::new(Ports::new(cache, config.ports, record)?);
        addresses.observe();
        ports.observe();
        Some(Self {
            families: Families {
                default: config.range.family(),
                is_dual_stack: config.secondary.is_some_and(|range| range.family() != config.range.family()),
            },
            addresses,
            ports,
        })
    }

    /// Sets the registry whose hook this is. Only the first call counts.
    pub fn connect(&self, registry: &Arc<Registry>) {
        self.addresses.connect(registry);
    }

    /// Keeps the record of node ports in agreement with the services, until it is dropped.
    pub async fn keep_port_record(self) {
        let mut leaked = HashMap::new();
        loop {
            let pause = match self.ports.repair(&mut leaked).await {
                Ok(()) => REPAIR,
                Err(error) => {
                    log::warn!(error:% = error.message; "the record of node ports could not be looked through");
                    RETRY
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Whether a write is about to take or to give back an address. An address that no write is about to
    /// take, and that no service has, is leaked.
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

    /// The addresses of a service that is stored.
    pub fn addresses_of(service: &Map) -> Vec<IpAddr> {
        let mut spec = Spec::read(service);
        spec.fill_cluster_ips();
        spec.addresses().iter().filter_map(|ip| parse_lenient(ip)).collect()
    }

    /// The faults of the node ports of a committed service.
    pub fn port_faults(&self, service: &Map) -> Vec<(u16, PortFault)> {
        self.ports.faults(&Spec::read(service).node_ports())
    }

    /// What a service that is removed gives back: its addresses and node ports. Its endpoints go with it, so
    /// that another service of its name does not get them.
    fn after_removal(&self, service: &Map) -> Reservation {
        let owner = owner(service);
        let held = self.addresses.hold(Self::addresses_of(service));
        let (addresses, ports) = (self.addresses.clone(), self.ports.clone());
        let unused = Spec::read(service).node_ports();
        Reservation::followed_by(move |settled| {
            if settled != Settled::Committed {
                return None;
            }
            Some(Box::pin(async move {
                remove_endpoints(&addresses, &owner).await;
                ports.forget(unused).await;
                for held in held {
                    addresses.release(held.ip, &owner).await;
                }
            }))
        })
    }
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
            let write = |service| Write::new(self, service, attributes.dry_run);
            match attributes.old.and_then(Value::as_map) {
                None => write(service).create().await,
                Some(old) => {
                    kinds::keep_allocated(service, old);
                    write(service).update(old).await
                }
            }
        })
    }

    fn before_remove(&self, entry: &Entry) -> Option<Reservation> {
        let service = stored::logged(entry, stored::decode(Service::schema(), entry.bytes()))?;
        Some(self.after_removal(&service))
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

/// A service, as the owner of addresses.
pub(crate) fn owner(service: &Map) -> Owner {
    let metadata = service.get("metadata").and_then(Value::as_map);
    let text = |key: &str| {
        let text = metadata.and_then(|metadata| metadata.get(key)).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    Owner { namespace: text("namespace"), name: text("name") }
}
