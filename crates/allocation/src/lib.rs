//! The addresses and node ports of services.
//!
//! | module | its job |
//! |---|---|
//! | `address_range`, `port_range` | ranges as data: what is in them, and in which order they are tried |
//! | `port_pool` | which node ports are taken |
//! | `port_record` | the record of node ports that the servers on one store share |
//! | `addresses` | cluster IPs: ServiceCIDR objects say which there are, IPAddress objects which are taken |
//! | `ports` | node ports: services say which are taken, and this process which are about to be |
//! | `spec`, `families` | the part of a service that is allocated, and the families of its addresses |
//! | `hook`, `write` | [`Services`], the hook of services in the write pipeline, and what it does for one write |
//!
//! Invariants:
//!
//! 1. *An address has one service.* A service is written after the IPAddress objects of its addresses were
//!    made, and those are made by a create, which fails if the object exists: also if another server made it.
//! 2. *Unused addresses and ports are given back.* A write that is not committed gives back its addresses and
//!    ports before its client is answered. A service that is deleted, or that loses an address, gives the
//!    address back after the commit. A crash in between leaves an IPAddress without a service;
//!    [`Services::is_under_way`] distinguishes it from one that a write is about to use.
//! 3. *A port has one service.* Those of services that are committed are read from the services, and those of
//!    writes under way are known to the process. Where other servers share the store, a write takes its ports
//!    in the [record](PortRecord) of all of them before, and what a service gives up is taken off it
//!    afterwards; [`Services::keep_port_record`] finds what a crash has left there.
//! 4. *A write with an unknown outcome keeps its addresses and ports.* It may have been committed; the repair
//!    loops find out.
//!
//! Finding and removing IPAddress objects without a service is left to a loop of the server.

#![deny(clippy::indexing_slicing)]

mod address_range;
mod addresses;
mod counted;
mod families;
mod hook;
mod port_pool;
mod port_range;
mod port_record;
mod ports;
mod spec;
mod write;

pub use address_range::{AddressRange, Family};
pub use addresses::{MANAGED_BY, MANAGED_BY_LABEL, Owner, is_managed, owner};
pub use counted::register_families;
pub use hook::{Config, Services};
pub use port_pool::PortFault;
pub use port_range::PortRange;
pub use port_record::PortRecord;
