//! The system objects of a fork. It begins with those of its server, so that nothing has to be created.

use std::sync::Arc;

use registry::Registry;
use tasks::{Name, Task};
use tokio::time::sleep;

use crate::{Boot, Hooks, NAMESPACE_INTERVAL, RENEWAL, SystemValues, done};

impl Hooks {
    /// All hooks, each of them done.
    pub fn done() -> Self {
        let hooks = Self::default();
        hooks.all.iter().for_each(|hook| hook.set_done());
        hooks
    }
}

/// Keeps what the start of the server has made: the system namespaces, the service, the defaults of flow
/// control, the APIServices of custom kinds. The identity lease is left alone: it is that of the server.
pub fn keep_fork(registry: &Arc<Registry>, values: &Arc<SystemValues>) -> Vec<Task> {
    let mut tasks = Boot::whole(registry, values).keep_defaults();
    let (registry, values) = (registry.clone(), values.clone());
    tasks.push(tasks::spawn(Name::ForkObjects, move || {
        let (registry, values) = (registry.clone(), values.clone());
        done(async move { Box::pin(keep(&registry, &values)).await })
    }));
    tasks
}

async fn keep(registry: &Arc<Registry>, values: &SystemValues) {
    let boot = Boot::new(registry, values);
    let rounds = NAMESPACE_INTERVAL.as_secs() / RENEWAL.as_secs();
    for round in 1_u64.. {
        sleep(RENEWAL).await;
        let namespaces = async {
            match round.is_multiple_of(rounds) {
                true => boot.namespaces().await,
                false => Ok(()),
            }
        };
        let kept = async {
            namespaces.await?;
            boot.authentication_info().await?;
            boot.keep_service().await
        };
        if let Err(error) = kept.await {
            log::warn!(error:% = error.message; "a system object of a fork could not be kept");
        }
    }
}
