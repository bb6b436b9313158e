//! Registers the families of all crates, and shows those whose samples are read where they are: of the
//! process, the build, the gates, the stored objects, the cache and the store.

mod process;

use std::sync::Arc;

use metrics::{Kind, MAIN, Observed, Stability};
use registry::Registry;

use crate::options::ServerOptions;

/// A family without stability: of this project.
const fn own(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Observed {
    Observed::new(Kind::Gauge, name, help, Stability::Unstated, labels)
}

/// An own family that only grows.
const fn own_total(name: &'static str, help: &'static str) -> Observed {
    Observed::new(Kind::Counter, name, help, Stability::Unstated, &[])
}

metrics::families! {
    /// The build.
    static BUILD: Observed = Observed::new(
        Kind::Gauge,
        "kubernetes_build_info",
        "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
        Stability::Alpha,
        &["build_date", "compiler", "git_commit", "git_tree_state", "git_version", "go_version", "major", "minor", "platform"],
    );
    /// The feature gates.
    static GATES: Observed = Observed::new(
        Kind::Gauge,
        "kubernetes_feature_enabled",
        "This metric records the data about the stage and enablement of a k8s feature.",
        Stability::Beta,
        &["name", "stage"],
    );
    /// How many objects of each kind are stored.
    static OBJECTS: Observed = Observed::new(
        Kind::Gauge,
        "apiserver_storage_objects",
        "Number of stored objects at the time of last check split by kind. In case of a fetching error, the value will be -1.",
        Stability::Stable,
        &["resource"],
    );
    /// How much the store takes on disk.
    static SIZE: Observed = Observed::new(
        Kind::Gauge,
        "apiserver_storage_size_bytes",
        "Size of the storage database file physically allocated in bytes.",
        Stability::Stable,
        &["storage_cluster_id"],
    );
    /// How many changes of each kind are kept for watches.
    static CAPACITY: Observed = Observed::new(
        Kind::Gauge,
        "watch_cache_capacity",
        "Total capacity of watch cache broken by resource type.",
        Stability::Alpha,
        &["resource"],
    );
    /// The revision up to which each kind is known.
    static REVISION: Observed = Observed::new(
        Kind::Gauge,
        "apiserver_watch_cache_resource_version",
        "Current resource version of watch cache broken by resource type.",
        Stability::Alpha,
        &["resource"],
    );
    /// The newest revision.
    static STORE_REVISION: Observed = own(
        "keelson_store_revision", "Newest revision that the cache has seen of the store.", &[]);
    /// The oldest revision of the history.
    static COMPACTED: Observed = own(
        "keelson_store_compacted_revision", "Revision up to which the history of the store is compacted.", &[]);
    /// Whether writes work.
    static WRITABLE: Observed = own(
        "keelson_store_writable", "1 if writes to the store work, 0 if they fail.", &[]);
    /// What cannot be read.
    static UNREADABLE: Observed = own(
        "keelson_store_unreadable_objects", "Number of stored objects that are damaged or cannot be decrypted.", &[]);
    /// The objects in memory.
    static ENTRIES: Observed = own("keelson_cache_entries", "Number of objects in the cache.", &[]);
    /// The watchers.
    static WATCHERS: Observed = own("keelson_cache_watchers", "Number of watchers of the cache.", &[]);
    /// The changes in memory.
    static LOG_CHANGES: Observed = own("keelson_cache_log_changes", "Number of changes that the logs of the cache hold.", &[]);
    /// Their bytes.
    static LOG_BYTES: Observed = own(
        "keelson_cache_log_bytes", "Bytes of superseded states that the logs of the cache hold.", &[]);
    /// The other encodings.
    static ENCODINGS: Observed = own("keelson_cache_encodings", "Number of kept encodings of objects.", &[]);
    /// Their bytes.
    static ENCODING_BYTES: Observed = own("keelson_cache_encoding_bytes", "Bytes of kept encodings of objects.", &[]);
    /// Encodings that were there.
    static ENCODING_HITS: Observed = own_total("keelson_cache_encoding_hits_total", "Number of encodings that were kept when they were needed.");
    /// Encodings that were not.
    static ENCODING_MISSES: Observed = own_total("keelson_cache_encoding_misses_total", "Number of encodings that had to be made.");
}

/// Decides which families are served. Families that are declared without a registry begin here.
pub(crate) fn configure(options: &ServerOptions) {
    MAIN.configure(options.metrics.resolve());
    access::register_families();
    definitions::register_families();
    encryption::register_families();
    MAIN.register(access::token_signer::SIGNER_FAMILIES);
    expressions::register_families();
    forks::register_families();
    outbound::register_families();
    process::register();
    admission::register_families();
    allocation::register_families();
    auth::register_families();
    cache::register_families();
    controllers::register_families();
    server::register_families();
    store::register_families();
    aggregation::register_families();
    let build = crate::run::version(options);
    BUILD.observe(move |samples| samples.sample(&build.labels().each_ref().map(|label| &**label), 1.0));
    let gates = options.gate_states.clone();
    GATES.observe(move |samples| {
        for gate in &gates {
            samples.sample(&[gate.name, gate.stage], f64::from(u8::from(gate.enabled)));
        }
    });
    MAIN.register(FAMILIES);
}

/// Shows what is stored.
#[allow(clippy::cast_precision_loss, reason = "samples are floats")]
pub(crate) fn observe_store(registry: &Arc<Registry>, options: &ServerOptions) {
    let resources = {
        let cache = registry.cache().clone();
        move || cache.resources()
    };
    let of_each = |show: fn(&cache::Resource) -> f64| {
        let resources = resources.clone();
        move |samples: &mut metrics::Samples<'_, '_>| {
            let mut all = resources();
            all.sort_by(|left, right| left.spec().prefix().cmp(right.spec().prefix()));
            for resource in all {
                samples.sample(&[resource.spec().prefix()], show(&resource));
            }
        }
    };
    OBJECTS.observe(of_each(|resource| resource.len() as f64));
    CAPACITY.observe(of_each(|resource| resource.stats().log_changes as f64));
    REVISION.observe(of_each(|resource| resource.revision().0 as f64));
    let of_all = |show: fn(&cache::Cache) -> f64| {
        let cache = registry.cache().clone();
        move |samples: &mut metrics::Samples<'_, '_>| samples.sample(&[], show(&cache))
    };
    STORE_REVISION.observe(of_all(|cache| cache.revision().0 as f64));
    COMPACTED.observe(of_all(|cache| cache.store().compacted().0 as f64));
    WRITABLE.observe(of_all(|cache| f64::from(u8::from(cache.health().is_good()))));
    UNREADABLE.observe(of_all(|cache| cache.unreadable().len() as f64));
    ENTRIES.observe(of_all(|cache| {
        cache.resources().iter().map(|resource| resource.len()).sum::<usize>() as f64
    }));
    WATCHERS.observe(of_all(|cache| {
        cache.resources().iter().map(|resource| resource.stats().watchers).sum::<usize>() as f64
    }));
    LOG_CHANGES.observe(of_all(|cache| {
        cache.resources().iter().map(|resource| resource.stats().log_changes).sum::<usize>() as f64
    }));
    LOG_BYTES.observe(of_all(|cache| cache.log_bytes() as f64));
    ENCODINGS.observe(of_all(|cache| cache.encodings().stats().kept as f64));
    ENCODING_BYTES.observe(of_all(|cache| cache.encodings().stats().bytes as f64));
    ENCODING_HITS.observe(of_all(|cache| cache.encodings().stats().hits as f64));
    ENCODING_MISSES.observe(of_all(|cache| cache.encodings().stats().misses as f64));
    if registry.cache().store().is_shared() {
        return;
    }
    let path = options.storage.data_dir.join("store");
    SIZE.observe(move |samples| samples.sample(&["embedded-0"], process::disk_bytes(&path)));
}
