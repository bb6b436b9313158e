//! The contract suite, run by every store of this crate.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use store::{
    Error, Store,
    contract::{Harness, Setup},
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

mod memory_keeps_the_contract {
    store::contract_tests!(super::in_memory);
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
}
