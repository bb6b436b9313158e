//! The contract suite, run by every store of this crate.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use store::{
    Error, Store,
    contract::{Harness, Setup, Window},
    embedded::{self, Embedded},
    memory::{self, Memory},
};
use tempfile::TempDir;

struct InMemory {
    store: Arc<dyn Store>,
    directory: TempDir,
}

impl Harness for InMemory {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn restart(&mut self) -> bool {
        false
    }

    fn restore(&mut self, backup: &Path) -> Result<Arc<dyn Store>, Error> {
        Ok(Arc::new(Memory::restore(backup, memory::Options::default())?))
    }

    fn scratch(&self) -> PathBuf {
        self.directory.path().into()
    }
}

fn in_memory(setup: Setup) -> Box<dyn Harness> {
    let options = memory::Options { retention: setup.retention, ..Default::default() };
    Box::new(InMemory { store: Arc::new(Memory::new(options)), directory: tempfile::tempdir().unwrap() })
}

struct OnDisk {
    store: Option<Arc<dyn Store>>,
    directory: TempDir,
    options: embedded::Options,
    restored: u32,
}

impl OnDisk {
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(Embedded::open(&self.directory.path().join("data"), self.options.clone()).unwrap())
    }
}

impl Harness for OnDisk {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().unwrap()
    }

    fn restart(&mut self) -> bool {
        if let Some(store) = self.store.take() {
            store.close();
        }
        self.store = Some(self.open());
        true
    }

    fn restore(&mut self, backup: &Path) -> Result<Arc<dyn Store>, Error> {
        self.restored += 1;
        let path = self.directory.path().join(format!("restored-{}", self.restored));
        embedded::restore(backup, &path)?;
        Ok(Arc::new(Embedded::open(&path, self.options.clone())?))
    }

    fn scratch(&self) -> PathBuf {
        self.directory.path().into()
    }
}

fn on_disk(setup: Setup) -> Box<dyn Harness> {
    let mut options = embedded::Options { retention: setup.retention, ..Default::default() };
    if setup.window == Window::Tiny {
        options.window = 0;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut harness = OnDisk { store: None, directory, options, restored: 0 };
    harness.store = Some(harness.open());
    Box::new(harness)
}

mod memory_keeps_the_contract {
    store::contract_tests!(super::in_memory);
}

mod embedded_keeps_the_contract {
    store::contract_tests!(super::on_disk);
}

/// The seed of the model checker's runs: fixed, or from `STORE_MODEL_SEED` to look elsewhere.
fn seed() -> u64 {
    std::env::var("STORE_MODEL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

mod random_histories {
    use store::contract::model::{Plan, check};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn memory_agrees_with_the_model() {
        check(&super::in_memory, Plan { seed: super::seed(), histories: 2000, per_store: 20 }).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn embedded_agrees_with_the_model() {
        check(&super::on_disk, Plan { seed: super::seed(), histories: 200, per_store: 20 }).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn slow_embedded_agrees_with_the_model_for_long() {
        check(&super::on_disk, Plan { seed: super::seed() + 10_000, histories: 3000, per_store: 50 }).await;
    }
}
