//! An answer that is there at once in the usual case, and has to be waited for in others.

use std::future::Future;
use std::pin::Pin;

/// A future on the heap, for trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An answer.
pub enum Deferred<'a, T> {
    /// The answer.
    Now(T),
    /// The answer has to be waited for, such as that of another server.
    Later(BoxFuture<'a, T>),
}

impl<'a, T> Deferred<'a, T> {
    /// An answer that has to be waited for.
    pub fn later(future: impl Future<Output = T> + Send + 'a) -> Self {
        Self::Later(Box::pin(future))
    }

    /// Waits for the answer.
    pub async fn wait(self) -> T {
        match self {
            Self::Now(answer) => answer,
            Self::Later(future) => future.await,
        }
    }
}
