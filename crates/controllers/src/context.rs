//! The context of a controller: its client, its settings and its counters.

use crate::corrections::Corrections;
use crate::workloads::dependents::Dependents;
use crate::{AutoscalerSettings, CertificateAuthority, Controller, Counters, Indexes, Recorder, Term};
use admission::plugins::Quotas;
use aggregation::Aggregation;
use auth::SystemIdentity;
use cache::{Cache, Resource};
use registry::{Client, Registry};
use std::sync::Arc;
use std::time::Duration;
use tasks::{Ended, Name, Task};
use tokio::sync::watch;

/// The name of controllers in managed fields: that of the reference's process.
pub(crate) const FIELD_MANAGER: &str = "kube-controller-manager";

/// The context of one controller.
#[derive(Clone)]
pub struct Context {
    /// The client, which acts as the service account of the controller.
    pub client: Client,
    /// Writes the events of the controller.
    pub recorder: Recorder,
    /// The settings of all controllers.
    pub settings: Arc<ControllerSettings>,
    /// Counts the reconciliations of the controller.
    pub counters: Arc<Counters>,
    /// The writes of the controller that another controller manager can undo.
    pub(crate) corrections: Arc<Corrections>,
    /// The term of the server: no reconciliation begins after its end.
    pub term: Term,
    /// The name of the controller.
    pub name: &'static str,
}

/// The authority by which clients verify the server, in PEM; it can change.
pub type Authority = watch::Receiver<Arc<str>>;

/// The settings of all controllers.
#[derive(Clone)]
pub struct ControllerSettings {
    /// The accounts of resource quotas.
    pub quotas: Quotas,
    /// Other API servers, which have objects too.
    pub aggregation: Option<Arc<Aggregation>>,
    /// The authority by which clients verify the server.
    pub authority: Authority,
    /// Signs certificates; `None` if the key of the cluster's authority is not known.
    pub signing_authority: Option<Arc<dyn CertificateAuthority>>,
    /// The longest time of a request to the server (`--request-timeout`).
    pub request_timeout: Duration,
    /// The longest life of a certificate that is signed.
    pub signing_duration: Duration,
    /// The feature gates.
    pub gates: kinds::Gates,
    /// The settings of horizontal autoscaling.
    pub autoscaling: AutoscalerSettings,
    /// The indexes of dependents that the controllers share.
    pub indexes: Indexes,
}

impl Context {
    /// The context of one controller.
    pub fn new(
        registry: &Arc<Registry>,
        controller: &Controller,
        settings: Arc<ControllerSettings>,
        counters: Arc<Counters>,
    ) -> Self {
        let identity = SystemIdentity::Controller(controller.account);
        let client = Client::new(registry.clone(), identity, FIELD_MANAGER);
        let recorder = Recorder::new(client.clone(), controller.account);
        let corrections = Arc::new(Corrections::new(controller.name));
        Self {
            client,
            recorder,
            settings,
            counters,
            corrections,
            term: Term::default(),
            name: controller.name,
        }
    }

    /// The cache.
    pub fn cache(&self) -> &Arc<Cache> {
        self.client.registry().cache()
    }

    /// Calls `then` whenever the authority changes, until the task is dropped.
    pub(crate) fn on_new_authority(&self, then: impl Fn() + Send + Sync + 'static) -> Task {
        let mut since = self.settings.authority.clone();
        since.mark_unchanged();
        let then = Arc::new(then);
        tasks::spawn(Name::ControllerFollow, move || {
            // Each run sees the changes since the first began.
            let (mut authority, then) = (since.clone(), then.clone());
            async move {
                while authority.changed().await.is_ok() {
                    then();
                }
                Ended::Done
            }
        })
    }

    /// A built-in resource type by its prefix in the store: `pods`, `deployments.apps`. None if it is not
    /// served.
    pub(crate) fn resource(&self, prefix: &str) -> Option<Arc<Resource>> {
        let (resource, group) = prefix.split_once('.').unwrap_or((prefix, ""));
        let catalog = self.client.registry().catalog();
        let is_served = catalog.served().any(|served| served.resource == resource && served.group == group);
        self.cache().resource(prefix).filter(|_| is_served)
    }

    /// The objects of a built-in type by their owners. None if the type is not served.
    pub(crate) fn dependents(&self, prefix: &str) -> Option<Arc<Dependents>> {
        self.resource(prefix)?;
        self.settings.indexes.of(self.cache(), prefix)
    }
}
