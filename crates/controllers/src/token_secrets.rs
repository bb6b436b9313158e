//! The controller `serviceaccount-token-controller`: fills Secrets of the type
//! `kubernetes.io/service-account-token`, and removes them with their accounts.
//!
//! Such a Secret names its account. It gets a token that is valid for as long as both are there, the
//! authority by which the server is verified, and its namespace; what is missing there later comes back. In
//! the reference this is the only controller that has no account of its own: it acts as the controller
//! manager.

use crate::context::FIELD_MANAGER;
use crate::corrections::Corrections;
use crate::follow::{StartFrom, follow};
use crate::objects::{annotate, annotation, decode, unless_changed};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Authority, Context, Controller};
use auth::SystemIdentity;
use auth::service_account::{LegacyGrant, Reference};
use cache::{Cursor, Entry, Filter, Freshness, Query, Resource, Update};
use object::{Map, Text, Value};
use registry::{Address, Client, DeleteOptions};
use schema::Status;
use schema::view::View as _;
use schema::views::core::v1::{Secret, ServiceAccount};
use std::sync::Arc;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "serviceaccount-token-controller",
    alias: "serviceaccount-token",
    account: "tokens-controller",
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

/// The type of the Secrets.
pub(crate) const TYPE: &str = "kubernetes.io/service-account-token";
/// The annotation with the name of the account.
pub(crate) const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// The annotation with its uid.
pub(crate) const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

async fn run(context: Context) {
    let (Some(secrets), Some(accounts)) = (context.resource("secrets"), context.resource("serviceaccounts"))
    else {
        return;
    };
    let tokens = context.client.registry().config().tokens.as_ref();
    if tokens.is_some_and(|tokens| !tokens.issuer.has_legacy()) {
        // The reference's controller has a key of its own, or does not run.
        log::info!("Secrets get no tokens of service accounts, because an external signer signs tokens");
        return;
    }
    let queue: Arc<Queue<Key>> = Arc::default();
    let _secrets = follow(secrets.clone(), StartFrom::State, {
        let queue = queue.clone();
        move |update| {
            let Update::Change { before, after } = update else { return };
            match (before, after) {
                (_, Some(secret)) => add_secret(&queue, secret),
                (Some(secret), None) => add_removed(&queue, secret),
                (None, None) => {}
            }
        }
    });
    let _accounts = follow(accounts.clone(), StartFrom::Now, {
        let (queue, secrets) = (queue.clone(), secrets.clone());
        move |update| match update {
            Update::Reset => add_all(&queue, &secrets),
            Update::Change { before: Some(account), after: None } => {
                queue
                    .add(Key::Account { namespace: account.namespace().into(), name: account.name().into() });
            }
            Update::Change { .. } => {}
        }
    });
    let _authority = {
        let (queue, secrets) = (queue.clone(), secrets.clone());
        context.on_new_authority(move || add_all(&queue, &secrets))
    };
    let registry = context.client.registry().clone();
    let client = Client::new(registry, SystemIdentity::ControllerManager, FIELD_MANAGER);
    let worker = Tokens {
        client,
        secrets,
        accounts,
        authority: context.settings.authority.clone(),
        corrections: context.corrections.clone(),
    };
    queue.work(&context, 8, Arc::new(worker)).await;
}

/// A key of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    /// A Secret.
    Secret { namespace: Text, name: Text },
    /// The Secrets of an account that was removed.
    Account { namespace: Text, name: Text },
    /// An account that may list a Secret that was removed.
    Removed { namespace: Text, secret: Text, account: Text, uid: Text },
}

fn is_token(secret: &Entry) -> bool {
    secret.field("type") == Some(TYPE)
}

fn add_secret(queue: &Queue<Key>, secret: &Entry) {
    if is_token(secret) {
        queue.add(Key::Secret { namespace: secret.namespace().into(), name: secret.name().into() });
    }
}

fn add_removed(queue: &Queue<Key>, secret: &Entry) {
    if !is_token(secret) {
        return;
    }
    let Ok(object) = decode(Secret::schema(), secret) else { return };
    let account = annotation(&object, ACCOUNT_NAME);
    if !account.is_empty() {
        queue.add(Key::Removed {
            namespace: secret.namespace().into(),
            secret: secret.name().into(),
            account: account.into(),
            uid: annotation(&object, ACCOUNT_UID).into(),
        });
    }
}

fn add_all(queue: &Queue<Key>, secrets: &Arc<Resource>) {
    Cursor::new(secrets.clone()).advance(|update| {
        if let Update::Change { after: Some(secret), .. } = update {
            add_secret(queue, secret);
        }
    });
}

struct Tokens {
    client: Client,
    secrets: Arc<Resource>,
    accounts: Arc<Resource>,
    authority: Authority,
    corrections: Arc<Corrections>,
}

impl Reconcile for Tokens {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<RequeueAfter, Status> {
        match key {
            Key::Secret { namespace, name } => {
                // What cannot be read is left to people.
                if let Ok(Some(secret)) = self.secrets.lookup(namespace, name) {
                    self.settle(&secret).await?;
                }
            }
            Key::Account { namespace, name } => self.settle_secrets_of(namespace, name).await?,
            Key::Removed { namespace, secret, account, uid } => {
                self.remove_reference(namespace, secret, account, uid).await?;
            }
        }
        Ok(None)
    }
}

impl Tokens {
    /// Fills a Secret, or removes it if its account is not there.
    async fn settle(&self, entry: &Entry) -> Result<(), Status> {
        let secret = decode(Secret::schema(), entry)?;
        let name = annotation(&secret, ACCOUNT_NAME);
        if !is_token(entry) || name.is_empty() {
            return Ok(());
        }
        match self.account(entry.namespace(), name, annotation(&secret, ACCOUNT_UID)).await? {
            Some(account) => self.fill(entry, secret, &account).await,
            None => {
                let options = DeleteOptions { uid: Some(entry.uid().to_owned()), ..DeleteOptions::default() };
                let address = Address::core("secrets", entry.namespace()).named(entry.name());
                unless_changed(self.client.delete(address, &options).await)
            }
        }
    }

    /// The account with a name, and a uid if that is given.
    async fn account(&self, namespace: &str, name: &str, uid: &str) -> Result<Option<Arc<Entry>>, Status> {
        let found = self.accounts.get(namespace, name, Freshness::MostRecent).await;
        let found = found.map_err(registry::status)?;
        Ok(found.filter(|account| uid.is_empty() || account.uid() == uid))
    }

    async fn fill(&self, entry: &Entry, mut secret: Map, account: &Entry) -> Result<(), Status> {
        let authority = self.authority.borrow().clone();
        let data = |key: &str| {
            let value = secret.get("data").and_then(|data| data.get(key));
            value.and_then(Value::as_bytes).unwrap_or_default()
        };
        let mut missing = Map::new();
        if !authority.is_empty() && data("ca.crt") != authority.as_bytes() {
            missing.insert("ca.crt", Value::Bytes(authority.as_bytes().into()));
        }
        if data("namespace").is_empty() {
            missing.insert("namespace", Value::Bytes(entry.namespace().as_bytes().into()));
        }
        if data("token").is_empty() {
            missing.insert("token", Value::Bytes(self.issue(entry, account)?.into_bytes().into()));
        }
        if missing.is_empty() {
            return Ok(());
        }
        annotate(&mut secret, ACCOUNT_NAME, account.name());
        annotate(&mut secret, ACCOUNT_UID, account.uid());
        if let Some(data) = secret.get_or_insert_with("data", || Map::new().into()).as_map_mut() {
            missing.iter().for_each(|(key, value)| drop(data.insert(key.clone(), value.clone())));
        }
        let address = Address::core("secrets", entry.namespace()).named(entry.name());
        let mut desired: Vec<&str> = missing.keys().map(|key| key.as_str()).collect();
        desired.push(&authority);
        unless_changed(
            self.corrections.write(entry, desired, self.client.update(address, secret.into())).await,
        )
    }

    fn issue(&self, secret: &Entry, account: &Entry) -> Result<String, Status> {
        let issuing = self.client.registry().config().tokens.as_ref();
        let issuing = issuing.ok_or_else(|| Status::internal_error("no tokens are issued"))?;
        let grant = LegacyGrant {
            namespace: account.namespace().to_owned(),
            account: Reference { name: account.name().to_owned(), uid: account.uid().to_owned() },
            secret: secret.name().to_owned(),
        };
        let token = issuing.issuer.issue_legacy(&grant);
        token.map_err(|error| Status::internal_error(&format!("failed to generate token: {error}")))
    }

    /// Looks at the Secrets of an account.
    async fn settle_secrets_of(&self, namespace: &str, account: &str) -> Result<(), Status> {
        let query = Query::new(Freshness::Any, Filter::namespace(namespace));
        let list = self.secrets.list(query).await.map_err(registry::status)?;
        for secret in list.filter(|secret| is_token(secret)) {
            if annotation(&decode(Secret::schema(), &secret)?, ACCOUNT_NAME) == account {
                self.settle(&secret).await?;
            }
        }
        Ok(())
    }

    /// Removes a Secret from the list of its account.
    async fn remove_reference(
        &self,
        namespace: &str,
        secret: &str,
        account: &str,
        uid: &str,
    ) -> Result<(), Status> {
        if let Err(error @ cache::Error::Unavailable(_)) = self.secrets.lookup(namespace, secret) {
            return Err(registry::status(error));
        }
        let Some(entry) = self.account(namespace, account, uid).await? else { return Ok(()) };
        let mut account = decode(ServiceAccount::schema(), &entry)?;
        if !lists(&account, secret) {
            return Ok(());
        }
        let references = account.get("secrets").and_then(Value::as_list).into_iter().flatten();
        let is_it = |reference: &&Value| reference.get("name").and_then(Value::as_str) == Some(secret);
        let kept: Vec<Value> = references.filter(|reference| !is_it(reference)).cloned().collect();
        match kept.is_empty() {
            true => drop(account.remove("secrets")),
            false => drop(account.insert("secrets", kept)),
        }
        let address = Address::core("serviceaccounts", namespace).named(entry.name());
        self.client.update(address, account.into()).await.map(drop)
    }
}

/// Whether an account lists a Secret.
pub(crate) fn lists(account: &Map, secret: &str) -> bool {
    ServiceAccount::of(account).secrets().iter().any(|reference| reference.name() == secret)
}

#[cfg(test)]
mod tests;
