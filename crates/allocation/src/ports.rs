//! Node ports: those of committed services are taken, and those that writes of this process are about to
//! take. Where other servers take ports too, a shared record has theirs.

use crate::counted;
use crate::port_pool::{PortError, PortFault, PortPool};
use crate::port_record::Recorded;
use crate::spec::Spec;
use crate::{PortRange, PortRecord};
use cache::{Cache, Cursor, Entry, Freshness, Resource, Update};
use object::field::{Error, List, Path};
use schema::stored;
use schema::view::View as _;
use schema::views::core::v1::Service;
use schema::{Builder, Part, Ref, Status, Type};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::MutexGuard;

/// What is read of a service.
const PART: &[Part] =
    &[Part("spec", &[Part("ports", &[Part("nodePort", &[])]), Part("healthCheckNodePort", &[])])];
/// The dry-run port below the first that is shown.
const SHOWN_AFTER: i64 = 32768;
/// How many repairs find a port without a service in the record before it is removed: a write may be about to
/// use it.
const PATIENCE: u32 = 3;

/// The node ports of the cluster.
pub(crate) struct Ports {
    state: Mutex<State>,
    services: Arc<Resource>,
    /// The part of a service that has node ports.
    part: Ref<Type>,
    /// The record that servers share, if the store is shared.
    record: Option<PortRecord>,
}

struct State {
    pool: PortPool,
    services: Cursor,
}

impl Ports {
    /// The node ports of the services in a cache; `None` if it has no services.
    pub(crate) fn new(cache: &Cache, range: PortRange, record: Option<PortRecord>) -> Option<Self> {
        let services = cache.resource("services")?;
        let state = State { pool: PortPool::new(range), services: Cursor::new(services.clone()) };
        let part = Builder::part_of(Service::schema(), PART).build();
        Some(Self { state: Mutex::new(state), services, part, record })
    }

    /// Has the metrics show how many ports are taken and free.
    pub(crate) fn observe(self: &Arc<Self>) {
        let show = |number: fn(&PortPool) -> u32| {
            let ports = Arc::downgrade(self);
            move |samples: &mut metrics::Samples<'_, '_>| {
                if let Some(ports) = ports.upgrade() {
                    samples.sample(&[], f64::from(ports.with_pool(|pool| number(pool))));
                }
            }
        };
        counted::PORTS_ALLOCATED.observe(show(PortPool::taken));
        counted::PORTS_AVAILABLE.observe(show(|pool| pool.range().count().saturating_sub(pool.taken())));
    }

    /// The ports that other servers have taken or are about to take; empty if the store is not shared.
    pub(crate) async fn others(&self) -> Result<Others<'_>, Status> {
        // A service that cannot be decrypted may have any port.
        self.services.check_available().map_err(registry::status)?;
        let Some(record) = &self.record else {
            return Ok(Others { recorded: Recorded::default(), turn: None });
        };
        let turn = record.turn().await;
        let recorded = record.read().await?;
        // The services are known as they are after that: a port that is off the record is not theirs any
        // more.
        self.services.freshen(Freshness::MostRecent).await.map_err(registry::status)?;
        Ok(Others { recorded, turn: Some((record, turn)) })
    }

    /// The faults of some ports of a committed service.
    pub(crate) fn faults(&self, ports: &BTreeSet<u16>) -> Vec<(u16, PortFault)> {
        let fault = |pool: &PortPool, port: u16| pool.fault(port).map(|fault| (port, fault));
        self.with_pool(|pool| ports.iter().filter_map(|port| fault(pool, *port)).collect())
    }

    /// Takes ports off the record, except for those that services have.
    pub(crate) async fn forget(&self, ports: BTreeSet<u16>) {
        if self.record.is_none() {
            return;
        }
        let free: BTreeSet<u16> =
            self.with_pool(|pool| ports.into_iter().filter(|port| !pool.is_committed(*port)).collect());
        if !free.is_empty()
            && let Err(error) = self.take_off(&free).await
        {
            log::warn!(error:% = error.message; "node ports of no service stay on record until it is looked through");
        }
    }

    /// Updates the record to the ports of the services. A port without a service stays for some rounds, which
    /// `leaked` counts.
    pub(crate) async fn repair(&self, leaked: &mut HashMap<u16, u32>) -> Result<(), Status> {
        loop {
            let others = self.others().await?;
            let mut taken = self.with_pool(|pool| pool.committed());
            let mut found = HashMap::new();
            for port in &taken - &others.recorded.taken {
                log::warn!(port; "a node port of a service was not on record");
            }
            for port in &others.recorded.taken - &taken {
                let times = leaked.get(&port).copied().unwrap_or_default();
                if times < PATIENCE {
                    found.insert(port, times + 1);
                    taken.insert(port);
                } else {
                    log::warn!(port; "a node port on record belongs to no service and is released");
                }
            }
            if others.replace(self.range(), &taken).await? {
                *leaked = found;
                return Ok(());
            }
        }
    }

    async fn take_off(&self, ports: &BTreeSet<u16>) -> Result<(), Status> {
        loop {
            let others = self.others().await?;
            if others.replace(self.range(), &(&others.recorded.taken - ports)).await? {
                return Ok(());
            }
        }
    }

    fn range(&self) -> PortRange {
        self.with_pool(|pool| pool.range())
    }

    /// Works with the ports, after every service that was acknowledged is counted.
    fn with_pool<T>(&self, work: impl FnOnce(&mut PortPool) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { pool, services } = &mut *state;
        if !services.is_current() {
            services.advance(|update| match update {
                Update::Reset => pool.reset(),
                Update::Change { before, after } => {
                    self.of(before).into_iter().for_each(|port| pool.remove(port));
                    self.of(after).into_iter().for_each(|port| pool.add(port));
                }
            });
        }
        work(pool)
    }

    /// The node ports of a service, each once.
    fn of(&self, service: Option<&Arc<Entry>>) -> HashSet<u16> {
        let Some(entry) = service else { return HashSet::new() };
        // Services of other types have no node ports, and are not decoded.
        if !matches!(entry.field("spec.type"), Some("NodePort" | "LoadBalancer")) {
            return HashSet::new();
        }
        let read = stored::logged(entry, stored::decode_part(&self.part, entry.bytes())).unwrap_or_default();
        let spec = Service::of(&read).spec();
        let ports = spec.ports().iter().map(|port| port.node_port()).chain([spec.health_check_node_port()]);
        ports.filter(|port| *port != 0).filter_map(|port| u16::try_from(port).ok()).collect()
    }
}

/// What other servers have taken, as long as no other task of this process changes that.
pub(crate) struct Others<'a> {
    recorded: Recorded,
    turn: Option<(&'a PortRecord, MutexGuard<'a, ()>)>,
}

impl Others<'_> {
    /// Writes the taken ports; false if another server has written the record meanwhile.
    async fn replace(&self, range: PortRange, taken: &BTreeSet<u16>) -> Result<bool, Status> {
        match &self.turn {
            Some((record, _)) if !self.recorded.says(taken) => {
                record.write(range, &self.recorded, taken).await
            }
            _ => Ok(true),
        }
    }
}

/// Ports that are reserved for a write, until this is dropped.
pub(crate) struct ReservedPorts {
    ports: Arc<Ports>,
    numbers: Vec<u16>,
}

impl ReservedPorts {
    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Gives the ports back, also in the record.
    pub(crate) async fn give_back(self) {
        self.ports.forget(self.numbers.iter().copied().collect()).await;
    }
}

impl Drop for ReservedPorts {
    fn drop(&mut self) {
        if self.numbers.is_empty() {
            return;
        }
        let numbers = std::mem::take(&mut self.numbers);
        self.ports.with_pool(|pool| numbers.into_iter().for_each(|port| pool.release(port)));
    }
}

/// Why a service gets no ports.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The fields of the service are invalid.
    Invalid(List),
    /// The server failed: an internal error.
    Internal(String),
    /// The server failed: an error without a reason, as in the reference.
    Unknown(String),
}

/// The ports that one write takes.
pub(crate) struct Taking<'a> {
    reserved: ReservedPorts,
    others: Others<'a>,
    /// The ports that a dry run shows; `None` if the write is not a dry run.
    shown: Option<Vec<i64>>,
}

impl<'a> Taking<'a> {
    pub(crate) fn new(ports: &Arc<Ports>, others: Others<'a>, dry_run: bool) -> Self {
        let reserved = ReservedPorts { ports: ports.clone(), numbers: Vec::new() };
        Self { reserved, others, shown: dry_run.then(Vec::new) }
    }

    /// Records the taken ports for other servers; `None` if another server has written the record meanwhile.
    pub(crate) async fn finish(self) -> Result<Option<ReservedPorts>, Status> {
        let Self { reserved, others, .. } = self;
        if reserved.numbers.is_empty() {
            return Ok(Some(reserved));
        }
        let taken = &others.recorded.taken | &reserved.numbers.iter().copied().collect();
        let is_first = others.replace(reserved.ports.range(), &taken).await?;
        Ok(is_first.then_some(reserved))
    }

    /// The ports of a new service.
    pub(crate) fn create(&mut self, spec: &mut Spec) -> Result<(), Refused> {
        if spec.may_have_node_ports() {
            self.create_ports(spec)?;
        }
        if spec.needs_health_port() {
            self.take_health_port(spec)?;
        }
        Ok(())
    }

    /// Ports of the same number, for several protocols, share a node port unless the client names several.
    fn create_ports(&mut self, spec: &mut Spec) -> Result<(), Refused> {
        let mut requested: HashMap<i64, i64> = HashMap::new();
        for port in spec.ports.iter().filter(|port| port.node_port != 0) {
            requested.entry(port.number).or_insert(port.node_port);
        }
        let mut given: HashMap<i64, i64> = HashMap::new();
        let allocates = spec.allocates_ports;
        for (place, port) in spec.ports.iter_mut().enumerate() {
            if port.node_port == 0 && !allocates {
                continue;
            }
            match (given.get(&port.number), requested.get(&port.number)) {
                (None, Some(node_port)) => {
                    self.take(place, *node_port)?;
                    port.node_port = *node_port;
                    given.insert(port.number, *node_port);
                }
                (None, None) => {
                    port.node_port = self.take_any()?;
                    given.insert(port.number, port.node_port);
                }
                (Some(shared), _) if port.node_port == 0 => port.node_port = *shared,
                (Some(shared), _) if port.node_port != *shared => self.take(place, port.node_port)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The ports of a service that changes. What it does not have any more is free when the change is
    /// committed.
    pub(crate) fn update(&mut self, spec: &mut Spec, old: &Spec) -> Result<(), Refused> {
        if spec.may_have_node_ports() {
            self.update_ports(spec, old)?;
        }
        if spec.needs_health_port() && !old.needs_health_port() {
            self.take_health_port(spec)?;
        }
        Ok(())
    }

    fn update_ports(&mut self, spec: &mut Spec, old: &Spec) -> Result<(), Refused> {
        let mut own: HashSet<i64> = old.ports.iter().map(|port| port.node_port).collect();
        let mut seen: HashSet<(String, i64)> = HashSet::new();
        let allocates = spec.allocates_ports;
        for (place, port) in spec.ports.iter_mut().enumerate() {
            if port.node_port == 0 && !allocates {
                continue;
            }
            if port.node_port == 0 {
                port.node_port = self.take_any()?;
            } else if own.insert(port.node_port) {
                self.take(place, port.node_port)?;
            }
            if !seen.insert((port.protocol.clone(), port.node_port)) {
                let why = format!("duplicate nodePort: {{{} {}}}", port.protocol, port.node_port);
                return Err(Refused::Unknown(why));
            }
        }
        Ok(())
    }

    fn take_health_port(&mut self, spec: &mut Spec) -> Result<(), Refused> {
        let wanted = spec.health_port;
        if wanted == 0 {
            let given = self.reserve_any();
            spec.health_port = given.map_err(|why| {
                Refused::Internal(format!("failed to allocate a HealthCheck NodePort 0: {why}"))
            })?;
            return Ok(());
        }
        self.reserve(wanted).map_err(|why| {
            Refused::Internal(format!("failed to allocate requested HealthCheck NodePort {wanted}: {why}"))
        })
    }

    /// Takes the port that the client names at a place of the list.
    fn take(&mut self, place: usize, port: i64) -> Result<(), Refused> {
        self.reserve(port).map_err(|why| {
            let spec = Path::new("spec");
            let ports = spec.child("ports");
            let port_path = ports.index(place);
            Refused::Invalid(Error::invalid(&port_path.child("nodePort"), port, why.to_string()).into())
        })
    }

    fn take_any(&mut self) -> Result<i64, Refused> {
        self.reserve_any().map_err(|why| Refused::Internal(format!("failed to allocate a nodePort: {why}")))
    }

    fn reserve(&mut self, port: i64) -> Result<(), PortError> {
        let ReservedPorts { ports, numbers } = &mut self.reserved;
        let Some(shown) = &mut self.shown else {
            let given = ports.with_pool(|pool| pool.reserve(port, &self.others.recorded.taken));
            counted::port_allocated("static", given.is_ok());
            numbers.push(given?);
            return Ok(());
        };
        // As in the reference, a dry run does not check the range.
        let is_taken = u16::try_from(port).is_ok_and(|port| {
            self.others.recorded.taken.contains(&port) || ports.with_pool(|pool| pool.is_taken(port))
        });
        if is_taken || shown.contains(&port) {
            return Err(PortError::Taken);
        }
        shown.push(port);
        Ok(())
    }

    fn reserve_any(&mut self) -> Result<i64, PortError> {
        let ReservedPorts { ports, numbers } = &mut self.reserved;
        if let Some(shown) = &mut self.shown {
            let port = shown.iter().copied().max().unwrap_or(SHOWN_AFTER).max(0) + 1;
            shown.push(port);
            return Ok(port);
        }
        let others = &self.others.recorded.taken;
        let given = ports.with_pool(|pool| pool.reserve_any(others, |below| fastrand::u32(..below)));
        counted::port_allocated("dynamic", given.is_ok());
        let port = given?;
        numbers.push(port);
        Ok(port.into())
    }
}
