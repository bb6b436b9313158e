//! Node ports: services that are committed say which are taken, and this process which are about to be.

use crate::PortRange;
use crate::port_pool::{PortError, PortPool};
use crate::spec::Spec;
use auth::stored;
use cache::{Cache, Cursor, Entry, Update};
use object::field::{Error, List, Path};
use schema::view::View as _;
use schema::views::core::v1::Service;
use schema::{Builder, Part, Ref, Type};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// What is read of a service.
const PART: &[Part] =
    &[Part("spec", &[Part("ports", &[Part("nodePort", &[])]), Part("healthCheckNodePort", &[])])];
/// The dry-run port below the first that is shown.
const SHOWN_AFTER: i64 = 32768;

/// The node ports of the cluster.
pub(crate) struct Ports {
    state: Mutex<State>,
    /// The part of a service that has node ports.
    part: Ref<Type>,
}

struct State {
    pool: PortPool,
    services: Cursor,
}

impl Ports {
    /// The node ports of the services in a cache; `None` if it has no services.
    pub(crate) fn new(cache: &Cache, range: PortRange) -> Option<Self> {
        let services = Cursor::new(cache.resource("services")?);
        let part = Builder::part_of(Service::schema(), PART).build();
        Some(Self { state: Mutex::new(State { pool: PortPool::new(range), services }), part })
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
        // Others have none, and need not be read.
        if !matches!(entry.field("spec.type"), Some("NodePort" | "LoadBalancer")) {
            return HashSet::new();
        }
        let read = stored::logged(entry, stored::decode_part(&self.part, entry)).unwrap_or_default();
        let spec = Service::of(&read).spec();
        let ports = spec.ports().iter().map(|port| port.node_port()).chain([spec.health_check_node_port()]);
        ports.filter(|port| *port != 0).filter_map(|port| u16::try_from(port).ok()).collect()
    }
}

/// Ports that are reserved for a write, until this is dropped.
pub(crate) struct ReservedPorts {
    ports: Arc<Ports>,
    numbers: Vec<u16>,
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
    /// Its fields are wrong.
    Invalid(List),
    /// The server cannot.
    Internal(String),
    /// The server cannot, and says nothing of the kind.
    Unknown(String),
}

/// What one write takes.
pub(crate) struct Taking {
    reserved: ReservedPorts,
    /// What a dry run would have taken; `None` if this is none.
    shown: Option<Vec<i64>>,
}

impl Taking {
    pub(crate) fn new(ports: &Arc<Ports>, dry_run: bool) -> Self {
        let reserved = ReservedPorts { ports: ports.clone(), numbers: Vec::new() };
        Self { reserved, shown: dry_run.then(Vec::new) }
    }

    /// What was taken; nothing if that is nothing.
    pub(crate) fn into_reserved(self) -> Option<ReservedPorts> {
        (!self.reserved.numbers.is_empty()).then_some(self.reserved)
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

    /// The ports of a service that changes. What it does not have any more is free when the change is committed.
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
            numbers.push(ports.with_pool(|pool| pool.reserve(port))?);
            return Ok(());
        };
        // A dry run does not ask for the range, as in the reference.
        let is_taken = u16::try_from(port).is_ok_and(|port| ports.with_pool(|pool| pool.is_taken(port)));
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
        let port = ports.with_pool(|pool| pool.reserve_any(|below| fastrand::u32(..below)))?;
        numbers.push(port);
        Ok(port.into())
    }
}
