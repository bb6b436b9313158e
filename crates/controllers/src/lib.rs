//! The loops that make a control plane complete: what the stock controller manager does for the API itself.
//!
//! A controller is a file and a row of [`CONTROLLERS`]. It follows the changes of some resource types
//! (`follow`), puts what may have to be done into a `queue`, and works that off, a bounded number at a time,
//! through the in-process client: as the service account that it is in the reference, with the roles of that
//! account. It reads from the cache, and keeps what it derives from there small.
//!
//! 1. **Level, not edge.** A key says what to look at; what is to be done follows from the newest state. A
//!    start looks at everything.
//! 2. **Nothing is given up.** What fails is tried again, with growing pauses.
//! 3. **Nobody falls alone.** A step that panics counts as failed. A controller that panics is started again
//!    ([`Supervisor`]), and so is what tells it of changes: with all objects, so that no change is lost.
//! 4. **Idle is free.** Between changes everything sleeps; there are no periodic rounds over all objects.
//!
//! Several servers over one store have one active instance among them ([`Leadership`]). Two loops belong to
//! each server instead, and are no controllers: [`event_expiry`] and [`service_repair`].

mod aggregation;
mod autoscaling;
mod bootstrap_signer;
mod certificates;
mod claim_protection;
mod context;
mod corrections;
mod cron_jobs;
mod default_accounts;
mod disruption;
mod endpoint_slice_mirroring;
mod endpoint_slices;
mod endpoints;
mod ephemeral_volumes;
pub mod event_expiry;
mod events;
mod families;
mod follow;
mod garbage;
mod give_way;
mod jobs;
mod leader;
mod leader_election;
mod legacy_token_cleaner;
mod namespace;
mod no_ops;
mod node_lifecycle;
mod objects;
mod per_namespace;
mod pod_ends;
mod pod_garbage;
mod policy_status;
mod queue;
mod quota_status;
mod resource_claims;
mod root_ca;
mod selection;
mod selectors;
mod service_cidrs;
mod service_pods;
pub mod service_repair;
mod stock;
mod supervisor;
mod taint_eviction;
#[cfg(test)]
mod testing;
mod token_cleaner;
mod token_secrets;
mod ttl_after_finished;
mod uid;
mod volume_binder;
mod volume_protection;
mod workloads;

pub use autoscaling::AutoscalerSettings;
pub use bootstrap_signer::CONTROLLER as BOOTSTRAP_SIGNER;
pub use certificates::CertificateAuthority;
pub use context::{Authority, Context, ControllerSettings};
pub use events::{EventType, Recorder, Subject};
pub use families::register_families;
pub use follow::{StartFrom, follow};
pub use garbage::CONTROLLER as GARBAGE_COLLECTOR;
pub use leader::{Election, Leadership, Term};
pub use selection::{Selection, Unknown};
pub use stock::StockLease;
pub use supervisor::{Counters, Supervisor};
pub use workloads::dependents::Indexes;

use tasks::BoxFuture;

/// A controller.
pub struct Controller {
    /// The name of the controller in `--controllers`.
    pub name: &'static str,
    /// The former name of the controller, which `--controllers` accepts too.
    pub alias: &'static str,
    /// The service account in `kube-system` that the controller acts as.
    pub account: &'static str,
    /// Over which stores the controller runs if `--controllers` does not name it.
    pub stores: Stores,
    /// Runs the controller until the cache is closed, or until a type that the controller needs is not
    /// served.
    pub run: fn(Context) -> BoxFuture<'static, ()>,
}

/// Over which stores a controller runs by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// All.
    All,
    /// Those that no other server uses. A cluster on etcd has a controller manager as a rule, which does this
    /// work; the controller gives way to one that holds its Lease, whatever the store.
    Own,
}

/// All controllers, by name.
pub const CONTROLLERS: &[Controller] = &[
    bootstrap_signer::CONTROLLER,
    certificates::approver::CONTROLLER,
    certificates::cleaner::CONTROLLER,
    certificates::signer::CONTROLLER,
    aggregation::CONTROLLER,
    cron_jobs::CONTROLLER,
    workloads::daemon_set::CONTROLLER,
    workloads::deployment::CONTROLLER,
    disruption::CONTROLLER,
    endpoints::CONTROLLER,
    endpoint_slices::CONTROLLER,
    endpoint_slice_mirroring::CONTROLLER,
    ephemeral_volumes::CONTROLLER,
    garbage::CONTROLLER,
    autoscaling::CONTROLLER,
    jobs::CONTROLLER,
    leader_election::CONTROLLER,
    legacy_token_cleaner::CONTROLLER,
    namespace::CONTROLLER,
    node_lifecycle::CONTROLLER,
    no_ops::ATTACH_DETACH,
    volume_binder::CONTROLLER,
    no_ops::EXPANDER,
    volume_protection::CONTROLLER,
    claim_protection::CONTROLLER,
    pod_garbage::CONTROLLER,
    workloads::replicas::REPLICA_SETS,
    workloads::replicas::REPLICATION_CONTROLLERS,
    resource_claims::CONTROLLER,
    quota_status::CONTROLLER,
    root_ca::CONTROLLER,
    service_cidrs::CONTROLLER,
    default_accounts::CONTROLLER,
    token_secrets::CONTROLLER,
    workloads::stateful_set::CONTROLLER,
    taint_eviction::CONTROLLER,
    token_cleaner::CONTROLLER,
    ttl_after_finished::CONTROLLER,
    policy_status::CONTROLLER,
];
