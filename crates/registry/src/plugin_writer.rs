//! The writes of admission plugins, which are part of the registry that they write to.

use crate::{Address, Client, Registry};
use admission::Write;
use auth::{BoxFuture, SystemIdentity};
use object::Value;
use schema::Status;
use std::sync::{Arc, Weak};

/// Writes as the server itself.
pub struct PluginWriter(Weak<Registry>);

impl PluginWriter {
    /// Writes to a registry, for as long as it is there.
    pub fn new(registry: &Arc<Registry>) -> Self {
        Self(Arc::downgrade(registry))
    }

    fn client(&self) -> Result<Client, Status> {
        let registry = self.0.upgrade().ok_or_else(|| Status::internal_error("the server is stopping"))?;
        Ok(Client::new(registry, SystemIdentity::ApiServer, "kube-apiserver"))
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
