//! Which of several servers runs the controllers.

use crate::task::Task;

/// Whether the controllers of this server run.
#[derive(Clone, Debug)]
pub enum Leadership {
    /// Always: no other server uses the store.
    Alone,
}

impl Leadership {
    /// Keeps the tasks of `start` for as long as this server leads, and this is polled.
    pub(crate) async fn lead(self, start: impl Fn() -> Vec<Task>) {
        match self {
            Self::Alone => {
                let _tasks = start();
                std::future::pending::<()>().await;
            }
        }
    }
}
