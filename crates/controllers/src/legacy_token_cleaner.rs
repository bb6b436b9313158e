//! The controller `legacy-serviceaccount-token-cleaner-controller`: removes tokens that were made with their
//! accounts and are not used.
//!
//! Such tokens are in Secrets that their accounts list. One that no pod mounts and nobody used for a year is
//! marked as invalid, which refuses the token; after another year its Secret is removed. The server notes
//! uses since the day that a config map names, so nothing is done before that day is a year ago. Days change
//! once a day, and so often this looks.

use crate::objects::{annotation, decode, unless_changed};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::token_secrets::{ACCOUNT_NAME, ACCOUNT_UID, TYPE, lists};
use crate::{Context, Controller};
use auth::service_account::{INVALID_SINCE, LAST_USED};
use cache::{Entry, Filter, Freshness, Query, Resource};
use object::label::Labels as _;
use object::time::Time;
use object::{Text, Value};
use registry::{Address, Client, DeleteOptions, Patch};
use schema::status::Reason;
use schema::view::View as _;
use schema::views::core::v1::{Secret, ServiceAccount};
use schema::{Builder, Part, Ref, Status, Type, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "legacy-serviceaccount-token-cleaner-controller",
    alias: "legacy-service-account-token-cleaner",
    account: "legacy-service-account-token-cleaner",
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

/// The config map with the day since when uses are noted.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
/// The seconds of a day.
const DAY: i64 = 24 * 60 * 60;
/// The seconds without a use, after which a token is invalid, and then removed.
const UNUSED: i64 = 365 * DAY;

/// The fields of a Secret that are decoded: its data are not.
static METADATA: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let metadata = Part("metadata", &[Part("creationTimestamp", &[]), Part("annotations", &[])]);
    Builder::part_of(Secret::schema(), &[metadata]).build()
});

async fn run(context: Context) {
    let (Some(secrets), Some(accounts), Some(pods)) =
        (context.resource("secrets"), context.resource("serviceaccounts"), context.resource("pods"))
    else {
        return;
    };
    let queue = Arc::new(Queue::default());
    queue.add(());
    let cleaner = Cleaner { client: context.client.clone(), secrets, accounts, pods };
    queue.work(&context, 1, Arc::new(cleaner)).await;
}

struct Cleaner {
    client: Client,
    secrets: Arc<Resource>,
    accounts: Arc<Resource>,
    pods: Arc<Resource>,
}

impl Reconcile for Cleaner {
    type Key = ();

    async fn reconcile(&self, (): &()) -> Result<RequeueAfter, Status> {
        self.clean(Time::now()).await?;
        Ok(Some(Duration::from_secs(DAY.unsigned_abs())))
    }
}

impl Cleaner {
    /// Looks at all tokens.
    async fn clean(&self, now: Time) -> Result<(), Status> {
        let Some(since) = self.tracked_since().await? else {
            log::error!(
                "the day since when uses of legacy tokens are noted is not known: none of them is removed"
            );
            return Ok(());
        };
        // The first day was noted in part.
        if now.unix() < since.unix().saturating_add(DAY + UNUSED) {
            return Ok(());
        }
        let list = self.secrets.list(Query::new(Freshness::Any, Filter::all())).await;
        let secrets = list.map_err(registry::status)?.filter(|secret| secret.field("type") == Some(TYPE));
        let mut mounted = HashMap::new();
        let mut outcome = Ok(());
        for secret in secrets {
            let cleaned = self.clean_one(&secret, now, &mut mounted).await;
            outcome = outcome.and(cleaned);
        }
        outcome
    }

    /// Since when uses are noted, if that can be told.
    async fn tracked_since(&self) -> Result<Option<Time>, Status> {
        let map = match self.client.get(Address::core("configmaps", "kube-system").named(TRACKING)).await {
            Err(error) if error.reason == Reason::NotFound => return Ok(None),
            map => map?,
        };
        let day = map.get("data").and_then(|data| data.get("since")).and_then(Value::as_str);
        Ok(day.and_then(start_of))
    }

    /// Marks or removes a Secret if its token is not used. `mounted` has the Secrets that pods mount, by
    /// namespace.
    async fn clean_one(
        &self,
        secret: &Entry,
        now: Time,
        mounted: &mut HashMap<Text, BTreeSet<Text>>,
    ) -> Result<(), Status> {
        let (namespace, name) = (secret.namespace(), secret.name());
        let first_kept = Time::from_unix(now.unix().saturating_sub(UNUSED));
        let first_kept_day = day_of(first_kept);
        if let Some(used) = secret.label(LAST_USED) {
            if start_of(used).is_none() {
                log::error!(namespace, name; "the last use of a legacy token cannot be read");
                return Ok(());
            }
            if used >= first_kept_day.as_str() {
                return Ok(());
            }
        }
        let metadata = schema::stored::decode_part(&METADATA, secret.bytes());
        let metadata = metadata.map_err(|error| Status::internal_error(&error.to_string()))?;
        let created = Secret::of(&metadata).metadata().creation_timestamp().and_then(|at| at.parse().ok());
        let is_old = created.is_none_or(|created: Time| created < first_kept);
        let account = annotation(&metadata, ACCOUNT_NAME);
        if !is_old || secret.is_deleting() || account.is_empty() {
            return Ok(());
        }
        let account = self.accounts.lookup(namespace, account).map_err(registry::status)?;
        let uid = annotation(&metadata, ACCOUNT_UID);
        let Some(account) = account.filter(|account| uid.is_empty() || account.uid() == uid) else {
            return Ok(());
        };
        // People made the others themselves.
        if !lists(&decode(ServiceAccount::schema(), &account)?, name) {
            return Ok(());
        }
        if !mounted.contains_key(namespace) {
            mounted.insert(namespace.into(), self.mounted(namespace).await?);
        }
        if mounted.get(namespace).is_some_and(|names| names.contains(name)) {
            return Ok(());
        }
        match secret.label(INVALID_SINCE).filter(|day| start_of(day).is_some()) {
            None => self.mark(secret, &day_of(now)).await,
            Some(day) if day >= first_kept_day.as_str() => Ok(()),
            Some(day) => {
                log::info!(namespace, name, invalid_since = day; "an unused legacy token is removed");
                let options = DeleteOptions {
                    resource_version: Some(secret.mod_revision().0.to_string()),
                    ..DeleteOptions::default()
                };
                unless_changed(
                    self.client.delete(Address::core("secrets", namespace).named(name), &options).await,
                )
            }
        }
    }

    /// The names of the Secrets that pods of a namespace mount.
    async fn mounted(&self, namespace: &str) -> Result<BTreeSet<Text>, Status> {
        let pods = self.pods.list(Query::new(Freshness::Any, Filter::namespace(namespace))).await;
        let mut names = BTreeSet::new();
        for pod in pods.map_err(registry::status)? {
            let secrets = auth::node::secrets_of_pod(&pod);
            names.extend(secrets.map_err(|error| Status::internal_error(&error.to_string()))?);
        }
        Ok(names)
    }

    async fn mark(&self, secret: &Entry, day: &str) -> Result<(), Status> {
        let (namespace, name) = (secret.namespace(), secret.name());
        log::info!(namespace, name; "an unused legacy token is marked as invalid");
        let patch = format!(
            r#"{{"metadata":{{"uid":{},"labels":{{"{INVALID_SINCE}":"{day}"}}}}}}"#,
            json::string(secret.uid())
        );
        let address = Address::core("secrets", namespace).named(name);
        unless_changed(self.client.patch(address, Patch::Merge, patch.as_bytes()).await)
    }
}

/// The first second of a day like `2027-01-15`.
fn start_of(day: &str) -> Option<Time> {
    format!("{day}T00:00:00Z").parse().ok()
}

/// The day of a time.
fn day_of(time: Time) -> String {
    time.to_string().chars().take(10).collect()
}

#[cfg(test)]
mod tests;
