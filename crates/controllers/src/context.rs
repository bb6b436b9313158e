//! What a controller works with.

use crate::corrections::Corrections;
use crate::{CertificateAuthority, Controller, Counters, Recorder, Term};
use admission::plugins::Quotas;
use auth::SystemIdentity;
use cache::{Cache, Resource};
use registry::{Client, Registry};
use std::sync::Arc;
use std::time::Duration;
use tasks::{Ended, Name, Task};
use tokio::sync::watch;

/// The name of controllers in managed fields: that of the reference's process.
pub(crate) const FIELD_MANAGER: &str = "kube-controller-manager";

/// What a controller works with.
#[derive(Clone)]
pub struct Context {
    /// Acts as the controller's service account.
    pub client: Client,
    /// Tells people what the controller did.
    pub recorder: Recorder,
    /// What all controllers share.
    pub settings: Arc<ControllerSettings>,
    /// What became of its work.
    pub counters: Arc<Counters>,
    /// Its writes that another controller manager can undo.
    pub(crate) corrections: Arc<Corrections>,
    /// In which it begins its steps.
    pub term: Term,
    /// Its name.
    pub name: &'static str,
}

/// The authority by which clients verify the server, in PEM; it can change.
pub type Authority = watch::Receiver<Arc<str>>;

/// What all controllers share.
#[derive(Clone)]
pub struct ControllerSettings {
    /// What the quotas of namespaces are charged.
    pub quotas: Quotas,
    /// The authority by which clients verify the server.
    pub authority: Authority,
    /// Signs certificates; `None` if the key of the cluster's authority is not known.
    pub signing_authority: Option<Arc<dyn CertificateAuthority>>,
    /// The longest life of a certificate that is signed.
    pub signing_duration: Duration,
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

    /// Does something whenever the authority changes, for as long as the task is there.
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
}
