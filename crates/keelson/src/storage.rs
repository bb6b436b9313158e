//! Where objects are kept: the store that the options choose, and the cache over it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use cache::{Cache, Spec};
use encryption::Encryption;
use layout::{Layout, Sealed};
use store::embedded::{self, Embedded};
use store::etcd::{self, Etcd};
use store::memory::Memory;
use store::{Coded, InvalidKey, Store};
use tokio::runtime::Handle;

use crate::boot::Peers;
use crate::data_dir::{self, DataDir};
use crate::event_expiry;
use crate::health;
use crate::options::{EncryptionOptions, EtcdOptions, Options, Storage};

/// Why objects cannot be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    DataDir(#[from] data_dir::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("{servers} cannot be used as the store: {cause}")]
    Etcd { servers: String, cause: store::Error },
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
pub(crate) struct Stores {
    /// The store of every type that no other one has.
    main: Arc<dyn Store>,
    /// Other stores, by the prefix of the one type in each of them.
    others: HashMap<String, Arc<dyn Store>>,
    /// The main store with keys and values as they lie in it, where other servers see them too.
    shared: Option<Arc<dyn Store>>,
    encryption: Option<Encryption>,
}

impl Stores {
    /// Opens the stores that the options name. Needs the runtime, whose thread it blocks.
    pub(crate) fn open(options: &Options, data_dir: &DataDir) -> Result<Self, Error> {
        let encryption = tokio::task::block_in_place(|| encryption(&options.encryption))?;
        let retention = options.retention;
        let alone = |store: Arc<dyn Store>| {
            let main = match encryption.clone() {
                Some(encryption) => Arc::new(Coded::new(store, Arc::new(Sealed::new(encryption)))),
                None => store,
            };
            Self { main, others: HashMap::new(), shared: None, encryption: encryption.clone() }
        };
        match options.storage {
            Storage::Memory => {
                let memory = Memory::new(store::memory::Options { retention, ..Default::default() });
                Ok(alone(Arc::new(memory)))
            }
            Storage::Embedded => {
                let embedded = embedded::Options { retention, ..Default::default() };
                let store = tokio::task::block_in_place(|| Embedded::open(&data_dir.store(), embedded))?;
                data_dir.store_was_opened()?;
                Ok(alone(Arc::new(store)))
            }
            Storage::Etcd => Self::connect(&options.etcd, encryption),
        }
    }

    fn connect(options: &EtcdOptions, encryption: Option<Encryption>) -> Result<Self, Error> {
        let layout = Layout::new(&options.prefix, options.media_type);
        let layout = Arc::new(match encryption.clone() {
            Some(encryption) => layout.encrypted(encryption),
            None => layout,
        });
        let coded = |store: Arc<dyn Store>| Arc::new(Coded::new(store, layout.clone())) as Arc<dyn Store>;
        let shared = connect(options, &options.servers)?;
        let mut others = HashMap::new();
        for one in &options.overrides {
            let store = coded(connect(options, &one.servers)?);
            others.insert(kinds::store_prefix(&one.group, &one.resource), store);
        }
        Ok(Self { main: coded(shared.clone()), others, shared: Some(shared), encryption })
    }

    /// What is encrypted, if anything is.
    pub(crate) fn encryption(&self) -> Option<&Encryption> {
        self.encryption.as_ref()
    }

    /// The other servers on the main store, if there can be any; this one is at `own`.
    pub(crate) fn peers(&self, options: &Options, own: IpAddr) -> Result<Option<Peers>, Error> {
        let shared = self.shared.as_ref();
        Ok(shared.map(|store| Peers::new(store.clone(), &options.etcd.prefix, own)).transpose()?)
    }

    /// Opens the cache.
    pub(crate) async fn cache(&self, options: &Options, settings: cache::Options) -> Result<Cache, Error> {
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
        for line in health::damage(&cache) {
            log::error!(error = line.as_str(); "a part of the data cannot be read; everything else is served");
        }
        Ok(cache)
    }
}

/// Reads which resources are encrypted. Blocking.
fn encryption(options: &EncryptionOptions) -> Result<Option<Encryption>, encryption::Error> {
    let settings = encryption::Options { automatic_reload: options.automatic_reload };
    let load = |path: &PathBuf| Encryption::load(path, settings, &Handle::current());
    options.config.as_ref().map(load).transpose()
}

fn connect(options: &EtcdOptions, servers: &[String]) -> Result<Arc<dyn Store>, Error> {
    let etcd = etcd::Options {
        endpoints: servers.to_vec(),
        tls: etcd::Tls {
            ca: options.ca_file.clone(),
            cert: options.certificate_file.clone(),
            key: options.key_file.clone(),
        },
        prefix: format!("/{}/", options.prefix.trim_matches('/')).into(),
        compaction_interval: options.compaction,
        health_timeout: options.health_timeout,
        lease_reuse: options.lease_reuse,
        ..Default::default()
    };
    let failed = |cause| Error::Etcd { servers: servers.join(","), cause };
    let store = tokio::task::block_in_place(|| Etcd::connect(etcd)).map_err(failed)?;
    Ok(Arc::new(store))
}
