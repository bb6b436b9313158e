//! The writes of admission plugins.

use crate::{Address, Client, Registry};
use admission::Write;
use auth::SystemIdentity;
use object::Value;
use schema::Status;
use std::sync::{Arc, Weak};
use tasks::BoxFuture;

/// Writes objects for admission plugins. It holds the registry weakly, because the plugins are part of the
/// registry.
pub struct PluginWriter {
    registry: Weak<Registry>,
    identity: SystemIdentity,
    field_manager: &'static str,
}

impl PluginWriter {
    /// Writes as the server itself.
    pub fn new(registry: &Arc<Registry>) -> Self {
        Self::named(registry, SystemIdentity::ApiServer, "kube-apiserver")
    }

    /// Writes as another user, and with another field manager.
    pub fn named(registry: &Arc<Registry>, identity: SystemIdentity, field_manager: &'static str) -> Self {
        Self { registry: Arc::downgrade(registry), identity, field_manager }
    }

    fn client(&self) -> Result<Client, Status> {
        let registry = self.registry.upgrade();
        let registry = registry.ok_or_else(|| Status::internal_error("the server is stopping"))?;
        Ok(Client::new(registry, self.identity, self.field_manager))
    }
}

impl Write for PluginWriter {
    fn create_namespace(&self, namespace: Value) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(async move {
            self.client()?.create(Address::core("namespaces", ""), namespace).await?;
            Ok(())
        })
    }

    fn update_quota_status(&self, quota: Value) -> BoxFuture<'_, Result<Value, Status>> {
        Box::pin(async move {
            let text = |key: &str| {
                let metadata = quota.get("metadata").and_then(|metadata| metadata.get(key));
                metadata.and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            let (namespace, name) = (text("namespace"), text("name"));
            let address = Address::core("resourcequotas", &namespace).named(&name).subresource("status");
            self.client()?.update(address, quota).await
        })
    }
}
