//! `ServiceAccount`: every pod runs as a service account that exists, and gets its token and its image pull
//! secrets.

mod secrets;
#[cfg(test)]
mod tests;
mod token_volume;

use super::errors::without_reason;
use super::{Builtin, Parts, pod};
use crate::{Attributes, Lister, Operation, Plugin, Reservation};
use object::{Key, Map, Text, Value};
use schema::Status;
use schema::view::View as _;
use schema::views::core::v1::{self, Pod};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tasks::Deferred;

/// The account of pods that name none.
const DEFAULT: &str = "default";

/// The annotation of an account whose pods may use no secrets but those that it names.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

/// How often a missing default account is looked for, and how long the pauses are: a controller makes it soon
/// after the namespace.
const LOOKS: usize = 50;
const PAUSE: Duration = Duration::from_millis(30);

/// The plugin.
pub struct ServiceAccount {
    accounts: Lister<Account>,
}

/// The fields of a service account that the plugin uses.
struct Account {
    name: Text,
    automount: Option<bool>,
    pull_secrets: Vec<Text>,
    /// The secrets that its pods may use; `None` if they may use all.
    mountable: Option<HashSet<Text>>,
}

impl Account {
    fn of(account: &Map) -> Option<Self> {
        let account = v1::ServiceAccount::of(account);
        let metadata = account.metadata();
        let is_enforced = metadata
            .annotations()
            .get(ENFORCE)
            .is_some_and(|value| object::boolean::parse(value) == Some(true));
        Some(Self {
            name: metadata.name().into(),
            automount: account.automount_service_account_token(),
            pull_secrets: account.image_pull_secrets().iter().map(|secret| secret.name().into()).collect(),
            mountable: is_enforced
                .then(|| account.secrets().iter().map(|secret| secret.name().into()).collect()),
        })
    }
}

impl Builtin for ServiceAccount {
    const NAME: &'static str = "ServiceAccount";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        let accounts = parts.resource("serviceaccounts")?;
        Ok(Self { accounts: Lister::new(accounts, v1::ServiceAccount::schema(), Account::of) })
    }
}

impl ServiceAccount {
    /// An account; 403 if there is none.
    async fn find(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        name: &str,
    ) -> Result<Arc<Account>, Status> {
        let looks = if name == DEFAULT { LOOKS } else { 1 };
        for look in 0..looks {
            if look > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            if let Some(account) = self.accounts.get(attributes.namespace, name) {
                return Ok(account);
            }
        }
        let namespace = attributes.namespace;
        let why = format!(
            "error looking up service account {namespace}/{name}: serviceaccount {} not found",
            object::quote::Quoted(name)
        );
        Err(attributes.forbidden(object, &why))
    }

    fn complete(attributes: &Attributes<'_>, object: &mut Value, account: &Account) -> Result<(), Status> {
        if let Some(spec) = pod::spec_mut(Some(object)) {
            let of_pod = v1::PodSpec::of(spec).automount_service_account_token();
            if of_pod.or(account.automount).unwrap_or(true) {
                token_volume::mount(spec);
            }
            if v1::PodSpec::of(spec).image_pull_secrets().is_empty() && !account.pull_secrets.is_empty() {
                let references = account.pull_secrets.iter().map(reference);
                spec.insert(Key::known("imagePullSecrets"), references.collect::<Value>());
            }
        }
        check_account(attributes, object, account)
    }

    /// Validates a pod against its service account.
    fn check<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: &'a Value,
    ) -> Deferred<'a, Result<Option<Reservation>, Status>> {
        let Some(pod) = pod::of(Some(object)) else { return Deferred::Now(Ok(None)) };
        let name = pod::service_account(pod.spec());
        if name.is_empty() {
            let why = format!(
                "no service account specified for pod {}/{}",
                attributes.namespace,
                pod.metadata().name()
            );
            return Deferred::Now(Err(attributes.forbidden(Some(object), &why)));
        }
        match self.accounts.get(attributes.namespace, name) {
            Some(account) => Deferred::Now(check_account(attributes, object, &account).map(|()| None)),
            None => Deferred::later(async move {
                let account = self.find(attributes, Some(object), name).await?;
                check_account(attributes, object, &account).map(|()| None)
            }),
        }
    }
}

/// A reference to a secret by its name, which may be empty.
fn reference(name: &Text) -> Value {
    let mut reference = Map::new();
    if !name.is_empty() {
        reference.insert(Key::known("name"), name.clone());
    }
    reference.into()
}

/// The secrets that a pod names are among those of its account.
fn check_account(attributes: &Attributes<'_>, object: &Value, account: &Account) -> Result<(), Status> {
    let (Some(mountable), Some(pod)) = (&account.mountable, pod::of(Some(object))) else { return Ok(()) };
    let allowed = secrets::Allowed { account: &account.name, mountable, pull: &account.pull_secrets };
    if attributes.subresource.is_empty() {
        let refused = allowed.refuse(pod.spec());
        return refused.map_or(Ok(()), |why| Err(attributes.forbidden(Some(object), &why)));
    }
    allowed.refuse_ephemeral(pod.spec()).map_or(Ok(()), |why| Err(without_reason(why)))
}

/// A mirror pod refers to nothing of the API.
fn check_mirror(attributes: &Attributes<'_>, object: &Value, pod: Pod<'_>) -> Result<(), Status> {
    let spec = pod.spec();
    let has_token = || {
        let mut sources = spec
            .volumes()
            .iter()
            .filter_map(|volume| volume.projected())
            .flat_map(|volume| volume.sources().iter());
        sources.any(|source| source.service_account_token().is_some())
    };
    let why = if !pod::service_account(spec).is_empty() {
        "a mirror pod may not reference service accounts"
    } else if pod::refers_to_secrets(spec) {
        "a mirror pod may not reference secrets"
    } else if has_token() {
        "a mirror pod may not use ServiceAccountToken volume projections"
    } else {
        return Ok(());
    };
    Err(attributes.forbidden(Some(object), why))
}

impl Plugin for ServiceAccount {
    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a mut Value>,
    ) -> Deferred<'a, Result<(), Status>> {
        let is_new = attributes.operation == Operation::Create && attributes.is_about("", "pods");
        let (true, Some(object)) = (is_new, object) else { return Deferred::Now(Ok(())) };
        let Some(pod) = pod::of(Some(object)) else { return Deferred::Now(Ok(())) };
        if pod::is_mirror(pod) {
            return Deferred::Now(check_mirror(attributes, object, pod));
        }
        let name: Text = match pod::service_account(pod.spec()) {
            "" => Text::known(DEFAULT),
            name => name.into(),
        };
        if let Some(spec) = pod::spec_mut(Some(object)) {
            for key in ["serviceAccountName", "serviceAccount"] {
                spec.insert(Key::known(key), name.clone());
            }
        }
        match self.accounts.get(attributes.namespace, &name) {
            Some(account) => Deferred::Now(Self::complete(attributes, object, &account)),
            None => Deferred::later(async move {
                let account = self.find(attributes, Some(object), &name).await?;
                Self::complete(attributes, object, &account)
            }),
        }
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a Value>,
    ) -> Deferred<'a, Result<Option<Reservation>, Status>> {
        let is_checked = match attributes.subresource {
            "" => attributes.operation == Operation::Create,
            "ephemeralcontainers" => attributes.operation == Operation::Update,
            _ => false,
        };
        let (true, Some(object)) = (is_checked && attributes.is_resource("", "pods"), object) else {
            return Deferred::Now(Ok(None));
        };
        match pod::of(Some(object)) {
            Some(pod) if attributes.subresource.is_empty() && pod::is_mirror(pod) => {
                Deferred::Now(check_mirror(attributes, object, pod).map(|()| None))
            }
            _ => self.check(attributes, object),
        }
    }
}
