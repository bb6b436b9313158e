//! The server in place of kube-apiserver and etcd in the tests of other projects.
//!
//! Test environments such as envtest start two programs, `etcd` and `kube-apiserver`, with fixed arguments. A
//! folder that [`command`] writes has the server under the second name, and under the first a script that
//! runs it as [`shim`]: a process that answers as a healthy etcd and stores nothing. It names a folder in its
//! data directory instead, which the server asks for ([`probe()`]) and opens the embedded store in.
//!
//! 1. A real etcd does not know the path that is asked for: it answers 404, and is used as an etcd.
//! 2. The server needs the shim at its start only. What it has stored is in the data directory of the shim,
//!    so it is there after a restart of the server alone, and goes with the folder.
//! 3. Nothing but loopback addresses is needed: no route, no name, no certificate authority.
//!
//! By which name the program was started is for the crate `keelson`.

mod archive;
pub mod command;
mod etcd_flags;
mod probe;
mod scripts;
pub mod shim;

pub use probe::{StorageFolder, probe};
