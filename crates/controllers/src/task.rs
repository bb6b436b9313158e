//! A task that ends with its owner.

use tokio::task::{JoinError, JoinHandle};

/// A task that ends with its owner.
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    /// Starts one.
    pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }

    /// Waits for its end.
    pub(crate) async fn join(mut self) -> Result<(), JoinError> {
        (&mut self.0).await
    }

    /// Ends it, and waits until it is not running any more.
    pub(crate) async fn end(self) {
        self.0.abort();
        // That it was aborted is no news.
        let _ = self.join().await;
    }

    /// Whether it has ended by itself.
    pub(crate) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
