//! A Kubernetes control plane for each test, with a kube-rs client in hand.
//!
//! A [`Server`] is the program `keelson` as a child process, with its data in a temporary folder. A [`Fork`]
//! of it is a cluster with the objects of that moment. [`Faults`] and [`Clock`] are those of the server, and
//! need [`Builder::with_faults`].
//!
//! 1. Nothing stays: the process and its folder go when the server is dropped.
//! 2. Nothing is shared: each server has a port that the system picks, on the loopback address.

mod clock;
mod cluster;
mod error;
mod faults;
mod fork;
mod server;

pub use clock::{Clock, Time};
pub use error::Error;
pub use faults::{Faults, Injected, Rule, RuleCount};
pub use fork::Fork;
pub use server::{Builder, Server};
