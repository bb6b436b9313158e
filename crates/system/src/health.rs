//! The health checks, by the names and in the order of the reference.
//!
//! A check of a component that Keelson has calls that component. The reference has further post-start hooks;
//! their checks pass here once this server's own hooks are done.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use admission::webhook::Breakers;
use audit::Auditor;
use cache::{Cache, Resource};
use encryption::HealthCheck;
use registry::Registry;
use server::Lifecycle;
use server::health::{Check, Checks, Duplicate, Endpoint};
use store::{Health, Unreadable};
use tasks::{Counts, Group};

use crate::Hooks;

/// The post-start hooks of the reference, in its order.
const HOOKS: &[&str] = &[
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// The hook of the reference that starts to follow the configuration of encryption; it comes before the
/// others.
const ENCRYPTION_RELOAD: &str = "poststarthook/start-encryption-provider-config-automatic-reload";

/// What there is to check of encryption.
pub struct Encrypted {
    /// Whether its plugins answer.
    pub plugins: Option<HealthCheck>,
    /// Whether its configuration is read again when it changes.
    pub is_reloaded: bool,
}

/// All checks. Until `live_until`, those of hooks pass for `/livez`.
pub fn checks(
    registry: &Arc<Registry>,
    hooks: &Arc<Hooks>,
    lifecycle: &Lifecycle,
    breakers: Breakers,
    encrypted: Encrypted,
    auditor: Option<Arc<Auditor>>,
    live_until: Instant,
) -> Result<Checks, Duplicate> {
    let mut checks = Checks::new();
    // The tasks of a fork count for the fork.
    let group = Group::current();
    checks.add(Check::new("ping", Endpoint::ALL, {
        let group = group.clone();
        move || {
            let failing = failing(group.as_ref(), Counts::Live);
            async move { failing.first().map_or(Ok(()), |task| Err(task.clone())) }
        }
    }))?;
    checks.add(Check::new("log", Endpoint::ALL, || {
        let failed = logging::is_failing();
        async move { if failed { Err("log lines cannot be written".into()) } else { Ok(()) } }
    }))?;
    checks.add(store("etcd", Endpoint::ALL, registry))?;
    checks.add(store("etcd-readiness", Endpoint::READY, registry))?;
    if let Some(plugins) = encrypted.plugins {
        checks.add(Check::new(plugins.name(), &[Endpoint::Healthy, Endpoint::Ready], move || {
            let plugins = plugins.clone();
            async move { plugins.check().await }
        }))?;
    }
    checks.add(Check::new("informer-sync", Endpoint::READY, {
        let registry = registry.clone();
        // Those of custom kinds are served; nothing is decided by them.
        let own: HashSet<String> = own_prefixes();
        move || {
            let outcome = informers(registry.cache(), &own, group.as_ref());
            async move { outcome }
        }
    }))?;
    let reload = encrypted.is_reloaded.then_some(&ENCRYPTION_RELOAD);
    let has_service_ranges = registry.config().objects.gates.multi_cidr_service_allocator;
    let is_there = |name: &&&'static str| **name != super::SERVICE_RANGE || has_service_ranges;
    for name in reload.into_iter().chain(HOOKS).filter(is_there) {
        let hooks = hooks.clone();
        let check = Check::new(*name, Endpoint::ALL, move || {
            let done = hooks.find(name).map_or_else(|| hooks.all_done(), |hook| hook.is_done());
            async move { if done { Ok(()) } else { Err("not finished".into()) } }
        });
        checks.add(check.live_until(live_until))?;
    }
    checks.add(Check::shutdown(lifecycle.clone()))?;
    let failing = auditor.clone();
    if let Some(auditor) = auditor {
        // Requests are refused: others should get them. What does not refuse requests is a note.
        checks.add(Check::new("audit", Endpoint::READY, move || {
            let failure = auditor.failures().into_iter().find(|failure| failure.refuses_requests);
            async move { failure.map_or(Ok(()), |failure| Err(failure.why)) }
        }))?;
    }
    checks.note({
        let registry = registry.clone();
        move || {
            let audit = failing.iter().flat_map(|auditor| auditor.failures()).map(|failure| failure.why);
            storage::unreadable(registry.cache()).into_iter().chain(breakers.open()).chain(audit).collect()
        }
    });
    Ok(checks)
}

/// The prefixes of the built-in kinds.
fn own_prefixes() -> HashSet<String> {
    let specs = registry::specs().unwrap_or_default();
    specs.into_iter().map(|spec| spec.prefix().to_owned()).collect()
}

/// The tasks that do not recover, of a group or of the process.
fn failing(group: Option<&Group>, counts: Counts) -> Vec<String> {
    group.map_or_else(|| tasks::failing(counts), |group| group.failing(counts))
}

/// Whether the server knows all that it decides by: the cache follows its store, and every object of a
/// built-in kind can be decrypted.
fn informers(cache: &Cache, own: &HashSet<String>, group: Option<&Group>) -> Result<(), String> {
    if let Some(task) = failing(group, Counts::Ready).into_iter().next() {
        return Err(task);
    }
    if cache.is_closed() {
        return Err("the cache is closed".into());
    }
    if cache.is_recovering() {
        return Err("the cache is being loaded again".into());
    }
    let waits = |resource: &Resource| {
        resource.unreadable().iter().any(|why| matches!(why, Unreadable::Unavailable(_)))
    };
    let resources = cache.resources();
    let mut waiting: Vec<&str> = resources
        .iter()
        .filter(|resource| own.contains(resource.spec().prefix()) && waits(resource))
        .map(|resource| resource.spec().prefix())
        .collect();
    waiting.sort_unstable();
    match waiting.is_empty() {
        true => Ok(()),
        false => Err(format!("stored objects cannot be decrypted: {}", waiting.join(", "))),
    }
}

/// Logs when the store stops to accept writes, and when it does again.
pub async fn log_changes(registry: Arc<Registry>) {
    let mut was_good = true;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let is_good = match registry.cache().health() {
            Health::Good => true,
            Health::Failing(error) => {
                if was_good {
                    log::error!(error:%; "the store does not accept writes");
                }
                false
            }
            Health::Closed => return,
        };
        if is_good && !was_good {
            log::info!("the store accepts writes again");
        }
        was_good = is_good;
    }
}

/// Whether the store accepts writes.
fn store(name: &'static str, endpoints: &'static [Endpoint], registry: &Arc<Registry>) -> Check {
    let registry = registry.clone();
    Check::new(name, endpoints, move || {
        let health = registry.cache().health();
        async move {
            match health {
                Health::Good => Ok(()),
                Health::Failing(error) => Err(error.to_string()),
                Health::Closed => Err("the store is closed".into()),
            }
        }
    })
}
