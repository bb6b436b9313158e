//! How plugins write objects of their own accord: as the server itself, through the pipeline.

use object::Value;
use schema::Status;
use std::sync::{Arc, OnceLock};
use tasks::BoxFuture;

/// What plugins write.
pub trait Write: Send + Sync {
    /// Makes a namespace.
    fn create_namespace(&self, namespace: Value) -> BoxFuture<'_, Result<(), Status>>;

    /// Replaces the status of a resource quota, if it is still in the version that it names.
    fn update_quota_status(&self, quota: Value) -> BoxFuture<'_, Result<Value, Status>>;
}

/// The way to the pipeline, which is made after the plugins. Clones share it.
#[derive(Clone, Default)]
pub struct Writer(Arc<OnceLock<Arc<dyn Write>>>);

impl Writer {
    /// Connects it. Only the first call counts.
    pub fn connect(&self, write: Arc<dyn Write>) {
        let _ = self.0.set(write);
    }

    /// The pipeline; 500 before it is there.
    pub fn get(&self) -> Result<&dyn Write, Status> {
        self.0.get().map(|write| &**write).ok_or_else(|| Status::internal_error("the server is starting"))
    }
}
