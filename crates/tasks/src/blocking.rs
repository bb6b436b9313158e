//! Functions that block, or take more than a few milliseconds of CPU time, on threads of the runtime.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Calls a function that blocks. On a worker of a runtime, another thread takes over the worker's other
/// tasks.
pub fn off_worker<T>(function: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(function),
        _ => function(),
    }
}
