//! The controller `serviceaccount-controller`: every namespace has a service account `default`, which pods get that name none.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cache::watch::{Request, Start};
use cache::{Cache, Cursor, Resource, Update};
use object::{Map, Text};
use registry::{Address, Client};
use schema::Status;
use schema::status::Reason;

/// Its name in `--controllers` and in managed fields.
pub(crate) const NAME: &str = "serviceaccount-controller";
/// Its name in `--controllers` of old.
pub(crate) const ALIAS: &str = "serviceaccount";

/// The account.
const ACCOUNT: &str = "default";
/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs until the process ends.
pub(crate) async fn run(client: Client, cache: Arc<Cache>) {
    let (Some(namespaces), Some(accounts)) =
        (cache.resource("namespaces"), cache.resource("serviceaccounts"))
    else {
        return;
    };
    let mut accounts = Accounts {
        client,
        namespaces: Cursor::new(namespaces),
        accounts: Cursor::new(accounts),
        due: BTreeSet::new(),
    };
    loop {
        match accounts.follow(&cache).await {
            Ok(()) | Err(cache::Error::TooOld { .. }) => {}
            Err(cache::Error::Closed | cache::Error::Removed { .. }) => return,
            Err(error) => {
                log::error!(error:%; "namespaces cannot be followed");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

struct Accounts {
    client: Client,
    namespaces: Cursor,
    accounts: Cursor,
    /// Namespaces that may lack the account.
    due: BTreeSet<Text>,
}

impl Accounts {
    /// Makes accounts, until changes cannot be followed from where they were.
    async fn follow(&mut self, cache: &Cache) -> Result<(), cache::Error> {
        let watch = async |resource: &Arc<Resource>| {
            resource.watch(Request::new(Start::After(cache.revision()))).await
        };
        let mut namespaces = watch(self.namespaces.resource()).await?;
        let mut accounts = watch(self.accounts.resource()).await?;
        loop {
            self.look();
            self.make().await;
            let change = async {
                tokio::select! {
                    changed = namespaces.next() => changed.map(drop),
                    changed = accounts.next() => changed.map(drop),
                }
            };
            match self.due.is_empty() {
                true => change.await?,
                false => tokio::time::timeout(PAUSE, change).await.unwrap_or(Ok(()))?,
            }
        }
    }

    /// Finds the namespaces that are new, and those whose account was removed.
    fn look(&mut self) {
        let due = &mut self.due;
        self.namespaces.advance(|update| {
            if let Update::Change { before: None, after: Some(namespace) } = update {
                due.insert(namespace.name().into());
            }
        });
        self.accounts.advance(|update| {
            if let Update::Change { before: Some(account), after: None } = update
                && account.name() == ACCOUNT
            {
                due.insert(account.namespace().into());
            }
        });
    }

    /// Makes the accounts that are due. What fails stays due.
    async fn make(&mut self) {
        for namespace in std::mem::take(&mut self.due) {
            if let Err(error) = self.ensure(&namespace).await {
                log::error!(namespace = namespace.as_str(), error:% = error.message; "the default service account of a namespace could not be made");
                self.due.insert(namespace);
            }
        }
    }

    async fn ensure(&self, namespace: &str) -> Result<(), Status> {
        let found = self.namespaces.resource().lookup("", namespace).ok().flatten();
        let is_active = found.is_some_and(|found| found.field("status.phase") != Some("Terminating"));
        let is_there = !matches!(self.accounts.resource().lookup(namespace, ACCOUNT), Ok(None));
        if !is_active || is_there {
            return Ok(());
        }
        let mut metadata = Map::new();
        metadata.insert("name", ACCOUNT);
        metadata.insert("namespace", namespace);
        let mut account = Map::new();
        account.insert("metadata", metadata);
        match self.client.create(Address::core("serviceaccounts", namespace), account.into()).await {
            Err(error) if is_late(&error) => Ok(()),
            outcome => outcome.map(drop),
        }
    }
}

/// Whether the account is there meanwhile, or its namespace goes.
fn is_late(error: &Status) -> bool {
    let mut causes = error.details.iter().flat_map(|details| &details.causes);
    matches!(error.reason, Reason::AlreadyExists | Reason::NotFound)
        || causes.any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::SystemIdentity;
    use registry::{DeleteOptions, Registry};
    use store::memory::Memory;

    #[tokio::test]
    async fn every_namespace_has_its_account_again_and_again() {
        let cache =
            Cache::open(Arc::new(Memory::default()), registry::specs().unwrap(), cache::Options::default());
        let cache = Arc::new(cache.await.unwrap());
        let config = registry::Config::new(&cache).unwrap();
        let registry = Arc::new(Registry::new(cache.clone(), config).unwrap());
        let client = Client::new(registry, SystemIdentity::ApiServer, NAME);
        let namespace = async |name: &str| {
            let (mut metadata, mut namespace) = (Map::new(), Map::new());
            metadata.insert("name", name);
            namespace.insert("metadata", metadata);
            client.create(Address::core("namespaces", ""), namespace.into()).await.unwrap();
        };
        namespace("before").await;
        let task = tokio::spawn(run(client.clone(), cache.clone()));
        namespace("after").await;
        let accounts = cache.resource("serviceaccounts").unwrap();
        let appears = async |namespace: &str, without: &str| {
            for _ in 0..2000 {
                let found = accounts.lookup(namespace, ACCOUNT).unwrap();
                if let Some(found) = found.filter(|found| found.uid() != without) {
                    return found.uid().to_owned();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            panic!("there is no account in {namespace}");
        };
        appears("before", "").await;
        let first = appears("after", "").await;
        let address = Address::core("serviceaccounts", "after").named(ACCOUNT);
        client.delete(address, &DeleteOptions::default()).await.unwrap();
        appears("after", &first).await;
        task.abort();
    }
}
