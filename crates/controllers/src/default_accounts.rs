//! The controller `serviceaccount-controller`: every namespace has a service account `default`, which pods
//! get that name none.

use crate::per_namespace::{Namespaces, is_active};
use crate::queue::{Reconcile, RequeueAfter};
use crate::{Context, Controller};
use cache::Resource;
use object::{Map, Text};
use registry::{Address, Client};
use schema::Status;
use schema::status::Reason;
use std::sync::Arc;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "serviceaccount-controller",
    alias: "serviceaccount",
    account: "service-account-controller",
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

/// The account.
const ACCOUNT: &str = "default";

async fn run(context: Context) {
    let Some(accounts) = context.resource("serviceaccounts") else { return };
    let Some(namespaces) = Namespaces::of(&context, &accounts, ACCOUNT) else { return };
    let client = context.client.clone();
    let worker = Accounts { client, namespaces: namespaces.all().clone(), accounts };
    namespaces.queue.work(&context, 8, Arc::new(worker)).await;
}

struct Accounts {
    client: Client,
    namespaces: Arc<Resource>,
    accounts: Arc<Resource>,
}

impl Reconcile for Accounts {
    type Key = Text;

    async fn reconcile(&self, namespace: &Text) -> Result<RequeueAfter, Status> {
        let is_there = !matches!(self.accounts.lookup(namespace, ACCOUNT), Ok(None));
        if is_there || !is_active(&self.namespaces, namespace) {
            return Ok(None);
        }
        let mut metadata = Map::new();
        metadata.insert("name", ACCOUNT);
        metadata.insert("namespace", namespace.as_str());
        let mut account = Map::new();
        account.insert("metadata", metadata);
        match self.client.create(Address::core("serviceaccounts", namespace), account.into()).await {
            Err(error) if is_late(&error) => Ok(None),
            outcome => outcome.map(|_| None),
        }
    }
}

/// Whether the object is there meanwhile, or its namespace goes.
pub(crate) fn is_late(error: &Status) -> bool {
    matches!(error.reason, Reason::AlreadyExists | Reason::NotFound)
        || crate::objects::is_namespace_terminating(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use registry::DeleteOptions;

    #[tokio::test]
    async fn every_namespace_has_its_account_again_and_again() {
        let fixture = Fixture::new().await;
        fixture.namespace("before").await;
        let _running = fixture.start(&CONTROLLER);
        fixture.namespace("after").await;
        let appears = async |namespace: &str, without: &str| {
            let uid = || {
                let found = fixture.lookup("serviceaccounts", namespace, ACCOUNT);
                found.map(|found| found.uid().to_owned()).filter(|uid| uid != without)
            };
            fixture.until("an account", async || uid().is_some()).await;
            uid().unwrap()
        };
        appears("before", "").await;
        let first = appears("after", "").await;
        let address = Address::core("serviceaccounts", "after").named(ACCOUNT);
        fixture.client.delete(address, &DeleteOptions::default()).await.unwrap();
        appears("after", &first).await;
    }
}
