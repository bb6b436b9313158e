//! The writes that plugins make themselves: as the user of the server, through the write pipeline.

use object::Value;
use schema::Status;
use std::sync::{Arc, OnceLock};
use tasks::BoxFuture;

/// The writes of plugins.
pub trait Write: Send + Sync {
    /// Creates a namespace.
    fn create_namespace(&self, namespace: Value) -> BoxFuture<'_, Result<(), Status>>;

    /// Replaces the status of a resource quota, if it is still in the version that it names.
    fn update_quota_status(&self, quota: Value) -> BoxFuture<'_, Result<Value, Status>>;
}

/// The connection of the plugins to the write pipeline, which is made after the plugins. Clones share it.
#[derive(Clone, Default)]
pub struct Writer(Arc<OnceLock<Arc<dyn Write>>>);

impl Writer {
    /// Sets the pipeline. Only the first call has an effect.
    pub fn connect(&self, write: Arc<dyn Write>) {
        let _ = self.0.set(write);
    }

    /// The pipeline; 500 before [`Writer::connect`].
    pub fn get(&self) -> Result<&dyn Write, Status> {
        self.0.get().map(|write| &**write).ok_or_else(|| Status::internal_error("the server is starting"))
    }
}
