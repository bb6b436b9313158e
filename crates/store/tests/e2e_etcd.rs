//! The contract on real etcd, and what only a store that is shared can show.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use bytes::Bytes;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use store::{
    Codec, Coded, DecodeError, Error, Key, Patience, Store,
    contract::{Harness, Setup, Window},
    etcd::{Etcd, EtcdOptions},
    memory::{self, Memory},
};
use tempfile::TempDir;

/// Flags for every member: quick elections, and requests as large as the contract's values. A killed process
/// loses nothing that the system has, so nothing is synced.
const FLAGS: &[&str] = &["--max-request-bytes=4194304", "--heartbeat-interval=50", "--election-timeout=500"];
const NO_SYNC: &str = "--unsafe-no-fsync";

/// Keelson's keys under the prefix of the reference, and values as they are.
struct Prefixed;

impl Codec for Prefixed {
    fn encode_prefix(&self, prefix: &[u8]) -> Bytes {
        [b"/registry/", prefix].concat().into()
    }

    fn encode_key(&self, key: &Key) -> Option<Key> {
        Key::new(self.encode_prefix(key.as_bytes())).ok()
    }

    fn decode_key(&self, stored: &Key) -> Option<Key> {
        Key::new(Bytes::copy_from_slice(stored.as_bytes().strip_prefix(b"/registry/")?)).ok()
    }

    fn encode_value(&self, _: &Key, value: Bytes) -> Result<Bytes, String> {
        Ok(value)
    }

    fn decode_value(&self, _: &Key, stored: Bytes, _: Patience) -> Result<Bytes, DecodeError> {
        Ok(stored)
    }
}

struct OnEtcd {
    store: Option<Arc<dyn Store>>,
    options: EtcdOptions,
    directory: TempDir,
    _etcd: testkit::Etcd,
}

fn connect(options: EtcdOptions) -> Arc<dyn Store> {
    Arc::new(Coded::new(Arc::new(Etcd::connect(options).unwrap()), Arc::new(Prefixed)))
}

impl Harness for OnEtcd {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().unwrap()
    }

    fn restart(&mut self) -> bool {
        if let Some(store) = self.store.take() {
            store.close();
        }
        self.store = Some(connect(self.options.clone()));
        true
    }

    fn restore(&mut self, backup: &Path) -> Result<Arc<dyn Store>, Error> {
        Ok(Arc::new(Memory::restore(backup, memory::MemoryOptions::default())?))
    }

    fn has_revisions_of_its_own(&self) -> bool {
        true
    }

    fn scratch(&self) -> PathBuf {
        self.directory.path().into()
    }
}

fn on(etcd: testkit::Etcd, setup: Setup) -> Box<dyn Harness> {
    let mut options = EtcdOptions {
        endpoints: etcd.endpoints(),
        compaction_interval: setup.retention,
        ..EtcdOptions::default()
    };
    if setup.window == Window::Tiny {
        options.window = 0;
    }
    let store = Some(connect(options.clone()));
    Box::new(OnEtcd { store, options, directory: tempfile::tempdir().unwrap(), _etcd: etcd })
}

/// The flags of etcd 3.5.
fn flags_35() -> Vec<&'static str> {
    FLAGS.iter().copied().chain([NO_SYNC]).collect()
}

fn one_member(setup: Setup) -> Box<dyn Harness> {
    on(testkit::Etcd::start("etcd", 1, &flags_35()).unwrap(), setup)
}

fn three_members(setup: Setup) -> Box<dyn Harness> {
    on(testkit::Etcd::start("etcd", 3, &flags_35()).unwrap(), setup)
}

fn version_34(setup: Setup) -> Box<dyn Harness> {
    on(testkit::Etcd::start("etcd-3.4", 1, FLAGS).unwrap(), setup)
}

mod etcd_keeps_the_contract {
    store::contract_tests!(super::one_member);
}

mod slow_three_members_keep_the_contract {
    store::contract_tests!(super::three_members);
}

mod slow_version_34_keeps_the_contract {
    store::contract_tests!(super::version_34);
}

/// The seed of the random runs: fixed, or from `STORE_MODEL_SEED` to look elsewhere.
fn seed() -> u64 {
    std::env::var("STORE_MODEL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

mod random_histories {
    use store::contract::model::{Plan, check};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn etcd_agrees_with_the_model() {
        check(&super::one_member, Plan { seed: super::seed(), histories: 20, per_store: 10 }).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn slow_three_members_agree_with_the_model() {
        check(&super::three_members, Plan { seed: super::seed() + 20_000, histories: 100, per_store: 50 })
            .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn slow_version_34_agrees_with_the_model() {
        check(&super::version_34, Plan { seed: super::seed() + 30_000, histories: 50, per_store: 50 }).await;
    }
}
