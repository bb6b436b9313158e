//! Where a server keeps its objects: the data directory, the stores that the options choose, and the cache
//! over them.
//!
//! Opening follows the options of a server ([`StorageOptions`]); commands that work on stored objects use the
//! same parts. What is stored under which key is left to the crate `layout`.

mod clusters;
pub mod control;
pub mod data_dir;
mod mark;
mod options;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use cache::{Cache, Spec};
use encryption::Encryption;
use layout::{Record, Sealed};
use pki::Pki;
use store::embedded::{self, Embedded};
use store::memory::Memory;
use store::{Coded, InvalidKey, Revision, Store};
use tokio::runtime::Handle;

use controllers::event_expiry;

pub use clusters::{Cluster, Clusters, is_under};
pub use data_dir::{DataDir, make_private};
pub use mark::Mark;
pub use options::{Backend, ClusterOptions, EncryptionOptions, EtcdOverride, StorageOptions};

/// Why objects cannot be kept.
#[expect(missing_docs, reason = "the message of a variant says what it is")]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    DataDir(#[from] data_dir::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("{servers} cannot be used as the store: {cause}")]
    Etcd { servers: String, cause: store::Error },
    #[error(
        "a migration to {servers} from {from} was interrupted: run that command again, or remove everything under \
         --etcd-prefix from etcd"
    )]
    Unfinished { servers: String, from: String },
    #[error("--etcd-prefix cannot be part of a key: {0}")]
    Prefix(#[from] InvalidKey),
    #[error(transparent)]
    Encryption(#[from] encryption::Error),
    #[error(transparent)]
    Registry(#[from] registry::Error),
    #[error("the objects cannot be loaded: {0}")]
    Cache(#[from] cache::Error),
}

/// The stores of a server.
pub struct Stores {
    /// The store of every type that no other one has.
    main: Arc<dyn Store>,
    /// Other stores, by the prefix of the one type in each of them.
    others: HashMap<String, Arc<dyn Store>>,
    /// The main store with keys and values as they lie in it, where other servers see them too.
    shared: Option<Arc<dyn Store>>,
    /// The main store with values as they lie in it, where no other server sees them.
    own: Option<Arc<dyn Store>>,
    encryption: Option<Encryption>,
}

impl Stores {
    /// Opens the stores that the options name. Needs the runtime, whose thread it blocks.
    pub fn open(options: &StorageOptions, data_dir: &DataDir) -> Result<Self, Error> {
        let encryption = tokio::task::block_in_place(|| encryption(&options.encryption))?;
        let retention = options.retention;
        let alone = |store: Arc<dyn Store>| {
            let main: Arc<dyn Store> = match encryption.clone() {
                Some(encryption) => Arc::new(Coded::new(store.clone(), Arc::new(Sealed::new(encryption)))),
                None => store.clone(),
            };
            Self {
                main,
                others: HashMap::new(),
                shared: None,
                own: Some(store),
                encryption: encryption.clone(),
            }
        };
        match options.backend {
            Backend::Memory => {
                let memory = Memory::new(store::memory::MemoryOptions { retention, ..Default::default() });
                Ok(alone(Arc::new(memory)))
            }
            Backend::Embedded => {
                let embedded =
                    embedded::EmbeddedOptions { retention, syncs: options.syncs, ..Default::default() };
                let store = tokio::task::block_in_place(|| Embedded::open(&data_dir.store(), embedded))?;
                data_dir.store_was_opened()?;
                Ok(alone(Arc::new(store)))
            }
            Backend::Etcd => Self::connected(Clusters::connect(&options.etcd, encryption)?),
        }
    }

    /// The stores of etcd clusters, none of which is being filled.
    fn connected(clusters: Clusters) -> Result<Self, Error> {
        clusters.check_finished()?;
        let Clusters { main, others, encryption, .. } = clusters;
        let others = others.into_iter().filter_map(|cluster| Some((cluster.only?, cluster.objects)));
        Ok(Self {
            main: main.objects,
            others: others.collect(),
            shared: Some(main.raw),
            own: None,
            encryption,
        })
    }

    /// The one store of this process alone, with values as they lie in it.
    pub fn own(&self) -> Option<&Arc<dyn Store>> {
        self.own.as_ref()
    }

    /// The keys and certificates of the data directory. Beside a store with objects they have to be there.
    pub fn pki(&self, data_dir: &DataDir) -> Pki {
        let pki = Pki::new(data_dir.pki());
        match self.own().is_some_and(|store| store.known_revision() > Revision::ZERO) {
            true => pki.beside_used_store(),
            false => pki,
        }
    }

    /// What is encrypted, if anything is.
    pub fn encryption(&self) -> Option<&Encryption> {
        self.encryption.as_ref()
    }

    /// Where the servers on the main store keep what they share and do not serve, encrypted as the objects of
    /// a resource.
    pub fn records(&self, resource: &str) -> Option<Arc<dyn Store>> {
        let shared = self.shared.clone()?;
        Some(match &self.encryption {
            Some(encryption) => Arc::new(Coded::new(shared, Arc::new(Record::new(encryption, resource)))),
            None => shared,
        })
    }

    /// Opens the cache.
    pub async fn cache(&self, options: &StorageOptions) -> Result<Cache, Error> {
        let settings = cache_options(options);
        let lives = |spec: Spec| match spec.prefix() {
            event_expiry::EVENTS if !options.event_ttl.is_zero() => spec.expiring(options.event_ttl),
            _ => spec,
        };
        let specs = registry::specs()?.into_iter().map(lives);
        let (elsewhere, here): (Vec<_>, Vec<_>) =
            specs.partition(|spec| self.others.contains_key(spec.prefix()));
        let mut cache = Cache::open(self.main.clone(), here, settings.clone()).await?;
        for spec in elsewhere {
            if let Some(store) = self.others.get(spec.prefix()) {
                cache = cache.with(Cache::open(store.clone(), [spec], settings.clone()).await?);
            }
        }
        for line in unreadable(&cache) {
            log::error!(error = line.as_str(); "a part of the data cannot be read; everything else is served");
        }
        Ok(cache)
    }
}

/// The cache keeps the changes of each type for as long as the store keeps its history.
pub fn cache_options(options: &StorageOptions) -> cache::CacheOptions {
    cache::CacheOptions { log_retention: options.retention, ..Default::default() }
}

/// Reads which resources are encrypted. Blocking.
pub fn encryption(options: &EncryptionOptions) -> Result<Option<Encryption>, encryption::Error> {
    let settings =
        encryption::LoadOptions { automatic_reload: options.automatic_reload, kms_v1: options.kms_v1 };
    let load = |path: &PathBuf| Encryption::load(path, settings, &Handle::current());
    options.config.as_ref().map(load).transpose()
}

/// The objects that cannot be read, the first ones by name.
pub fn unreadable(cache: &Cache) -> Vec<String> {
    const NAMED: usize = 20;
    let unreadable = cache.unreadable();
    let mut lines: Vec<String> = unreadable.iter().take(NAMED).map(ToString::to_string).collect();
    if unreadable.len() > NAMED {
        lines.push(format!("{} more stored objects cannot be read", unreadable.len() - NAMED));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn history_retention_reaches_the_cache() {
        let options = StorageOptions { retention: Duration::from_secs(7), ..StorageOptions::default() };
        assert_eq!(cache_options(&options).log_retention, Duration::from_secs(7));
    }
}
