//! The controller `bootstrap-signer-controller`: signs what the cluster tells everybody about itself with
//! bootstrap tokens.
//!
//! A new node has a token and no way to verify the server. The config map `cluster-info` has a kubeconfig
//! with the server's address and authority, and for each token that is for signing a signature of it, made
//! with the secret part of the token: a JWS by HS256 without its content. A signature that matches comes from
//! a holder of the token.

use crate::corrections::Corrections;
use crate::follow::{StartFrom, follow};
use crate::objects::{decode, unless_changed};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::token_cleaner::remaining;
use crate::{Context, Controller};
use auth::{BootstrapSecret, SigningToken};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cache::{Entry, Filter, Freshness, Query, Resource, Update};
use object::time::MicroTime;
use object::{Map, Value};
use registry::{Address, Client};
use schema::view::View as _;
use schema::views::core::v1::ConfigMap;
use schema::{Status, json};
use std::sync::Arc;

/// The controller.
pub const CONTROLLER: Controller = Controller {
    name: "bootstrap-signer-controller",
    alias: "bootstrapsigner",
    account: "bootstrap-signer",
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

/// The namespace of the config map.
const NAMESPACE: &str = "kube-public";
/// Its name.
const NAME: &str = "cluster-info";
/// The key of what is signed.
const SIGNED: &str = "kubeconfig";
/// The keys of signatures start with it; the id of the token follows.
const SIGNATURE: &str = "jws-kubeconfig-";

async fn run(context: Context) {
    let (Some(secrets), Some(maps)) = (context.resource("secrets"), context.resource("configmaps")) else {
        return;
    };
    let queue = Arc::new(Queue::default());
    let look_at = |is_it: fn(&Entry) -> bool| {
        let queue = queue.clone();
        move |update: Update<'_>| match update {
            Update::Reset => queue.add(()),
            Update::Change { before, after } => {
                if before.or(after).is_some_and(|entry| is_it(entry)) {
                    queue.add(());
                }
            }
        }
    };
    let _secrets = follow(secrets.clone(), StartFrom::State, look_at(is_token));
    let _maps = follow(maps.clone(), StartFrom::State, look_at(is_signed));
    let signer =
        Signer { client: context.client.clone(), secrets, maps, corrections: context.corrections.clone() };
    queue.work(&context, 1, Arc::new(signer)).await;
}

/// Whether a Secret holds a bootstrap token.
pub(crate) fn is_token(secret: &Entry) -> bool {
    secret.namespace() == BootstrapSecret::NAMESPACE && secret.field("type") == Some(BootstrapSecret::TYPE)
}

fn is_signed(map: &Entry) -> bool {
    map.namespace() == NAMESPACE && map.name() == NAME
}

struct Signer {
    client: Client,
    secrets: Arc<Resource>,
    maps: Arc<Resource>,
    corrections: Arc<Corrections>,
}

impl Reconcile for Signer {
    type Key = ();

    /// Looks again when the first of the tokens expires.
    async fn reconcile(&self, (): &()) -> Result<RequeueAfter, Status> {
        let Ok(Some(entry)) = self.maps.lookup(NAMESPACE, NAME) else { return Ok(None) };
        let mut map = decode(ConfigMap::schema(), &entry)?;
        let Some(data) = map.get_mut("data").and_then(Value::as_map_mut) else { return Ok(None) };
        let Some(content) = data.get(SIGNED).and_then(Value::as_str).map(str::to_owned) else {
            return Ok(None);
        };
        let now = MicroTime::now();
        let list =
            self.secrets.list(Query::new(Freshness::Any, Filter::namespace(BootstrapSecret::NAMESPACE)));
        let mut signatures = Map::new();
        let mut again: RequeueAfter = None;
        for secret in list.await.map_err(registry::status)?.filter(|secret| is_token(secret)) {
            let Ok(secret) = BootstrapSecret::read(&secret) else { continue };
            let Some(token) = secret.signing_token(now) else { continue };
            signatures.insert(format!("{SIGNATURE}{}", token.id), sign(&content, &token));
            again = again.into_iter().chain(secret.expiration().map(|end| remaining(end, now))).min();
        }
        if replace_signatures(data, &signatures) {
            let address = Address::core("configmaps", NAMESPACE).named(NAME);
            let desired: Vec<_> = signatures
                .iter()
                .map(|(key, text)| (key.to_string(), text.as_str().map(str::to_owned)))
                .collect();
            let write = self.client.update(address, map.into());
            unless_changed(self.corrections.write(&entry, desired, write).await)?;
        }
        Ok(again)
    }
}

/// Puts signatures in the place of those that are there; false if they are the same.
fn replace_signatures(data: &mut Map, signatures: &Map) -> bool {
    let old: Map = data
        .iter()
        .filter(|(key, _)| key.starts_with(SIGNATURE))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let is_same = |(key, value): (&object::Key, &Value)| old.get(key) == Some(value);
    if old.len() == signatures.len() && signatures.iter().all(is_same) {
        return false;
    }
    data.retain(|key, _| !key.starts_with(SIGNATURE));
    signatures.iter().for_each(|(key, value)| drop(data.insert(key.clone(), value.clone())));
    true
}

/// A JWS without its content (RFC 7515, appendix F).
fn sign(content: &str, token: &SigningToken) -> String {
    let header = format!(r#"{{"alg":"HS256","kid":{}}}"#, json::string(&token.id));
    let header = URL_SAFE_NO_PAD.encode(header);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &token.secret);
    let message = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let signature = hmac::sign(&key, message.as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(signature))
}

#[cfg(test)]
mod tests;
