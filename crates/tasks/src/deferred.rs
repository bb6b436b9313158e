//! A result that is usually available at once, and otherwise has to be awaited.

use std::future::Future;
use std::pin::Pin;

/// A future on the heap, for trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A result that may have to be awaited.
pub enum Deferred<'a, T> {
    /// The result.
    Now(T),
    /// The result has to be awaited, such as the answer of another server.
    Later(BoxFuture<'a, T>),
}

impl<'a, T> Deferred<'a, T> {
    /// A result that has to be awaited.
    pub fn later(future: impl Future<Output = T> + Send + 'a) -> Self {
        Self::Later(Box::pin(future))
    }

    /// Waits for the result.
    pub async fn wait(self) -> T {
        match self {
            Self::Now(answer) => answer,
            Self::Later(future) => future.await,
        }
    }
}
