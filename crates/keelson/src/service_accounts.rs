//! The tokens of service accounts, by the flags of a run: keys, issuers, and what issuing and accepting need.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use access::token_signer::TokenSigner;
use auth::SystemIdentity;
use auth::jwt::{InvalidKey, KeySet, SigningKey};
use auth::service_account::{
    Discovery, ExternalSigner, Issuer, LegacyUse, NoDiscovery, Objects, Published, ServiceAccountTokens,
    TokenIssuer, TokenSettings,
};
use cache::Cache;
use object::{Map, Value};
use registry::{Address, Client, Registry, TokenIssuing};
use schema::Status;
use schema::status::Reason;

use crate::certificates::{self, Certificates};
use crate::options::ServerOptions;

/// Why tokens cannot be issued or accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the file {} cannot be read: {cause}", .path.display())]
    File { path: PathBuf, cause: std::io::Error },
    #[error("failed to parse service-account-issuer-key-file: error reading private key file {}: {why}", .path.display())]
    SigningKey { path: PathBuf, why: InvalidKey },
    #[error("error reading public key file {}: {why}", .path.display())]
    PublicKeys { path: PathBuf, why: InvalidKey },
    #[error(transparent)]
    Own(#[from] certificates::Error),
    #[error("{0}")]
    Signer(String),
    #[error("the objects that decide about tokens are not there")]
    Missing,
}

/// What issuing and accepting tokens need.
pub(crate) struct ServiceAccounts {
    /// The keys that tokens are verified with.
    keys: KeySet,
    /// The program that signs tokens, and has the keys.
    signer: Option<Arc<dyn ExternalSigner>>,
    /// How tokens are issued.
    pub(crate) issuing: TokenIssuing,
}

impl ServiceAccounts {
    /// Reads the keys, or takes that of the data directory, or connects to the program that signs. `external`
    /// is the address of the server for its clients.
    pub(crate) async fn load(
        options: &ServerOptions,
        certificates: &Certificates,
        external: &str,
    ) -> Result<Self, Error> {
        let given = &options.access.service_accounts;
        if let Some(endpoint) = &given.signing_endpoint {
            return Self::external(options, endpoint, external).await;
        }
        let key = match &given.signing_key_file {
            Some(path) => {
                let key = SigningKey::from_pem(&read(path)?);
                key.map_err(|why| Error::SigningKey { path: path.clone(), why })?
            }
            None => certificates.service_account_key()?.key,
        };
        let mut keys = KeySet::default();
        for path in &given.key_files {
            let more = KeySet::from_pem(&read(path)?);
            keys.extend(more.map_err(|why| Error::PublicKeys { path: path.clone(), why })?);
        }
        if given.key_files.is_empty() {
            keys = KeySet::new(vec![key.public().clone()]);
        }
        Ok(Self::new(options, key, keys, external))
    }

    /// Issues tokens with a key, and accepts those of some keys.
    fn new(options: &ServerOptions, key: SigningKey, keys: KeySet, external: &str) -> Self {
        let given = &options.access.service_accounts;
        let name = issuer(options);
        let discovery = Discovery::new(&name, given.jwks_uri.as_deref(), external, &keys);
        let issuing = TokenIssuing {
            issuer: TokenIssuer::Own(Issuer { name, key }),
            audiences: options.access.audiences(),
            longest: seconds(given.longest),
            extends: given.extends,
            discovery: published(discovery.map(|documents| Published::Fixed(Arc::new(documents)))),
            longest_extended: TokenIssuing::EXTENDED_LIFETIME,
        };
        Self { keys, signer: None, issuing }
    }

    /// Connects to the program that signs tokens.
    async fn external(options: &ServerOptions, endpoint: &str, external: &str) -> Result<Self, Error> {
        let given = &options.access.service_accounts;
        let (signer, supported) = TokenSigner::connect(endpoint).await.map_err(Error::Signer)?;
        let (longest, longest_extended, warnings) =
            access::service_accounts::lifetimes(given, supported).map_err(Error::Signer)?;
        warnings.iter().for_each(|warning| log::warn!("{warning}"));
        let signer: Arc<dyn ExternalSigner> = signer;
        let name = issuer(options);
        let discovery = Published::of_signer(&name, given.jwks_uri.as_deref(), external, signer.clone());
        let issuing = TokenIssuing {
            issuer: TokenIssuer::External { name, signer: signer.clone() },
            audiences: options.access.audiences(),
            longest: seconds(longest),
            extends: given.extends,
            discovery: published(discovery),
            longest_extended,
        };
        Ok(Self { keys: KeySet::default(), signer: Some(signer), issuing })
    }

    /// The keys that tokens are verified with.
    pub(crate) fn keys(&self) -> TokenKeys {
        TokenKeys(self.keys.clone())
    }

    /// The method that accepts tokens.
    pub(crate) fn authenticator(
        &self,
        options: &ServerOptions,
        cache: &Cache,
        last_uses: LastUses,
    ) -> Result<ServiceAccountTokens, Error> {
        let settings = TokenSettings {
            issuers: options.access.service_accounts.issuers(),
            keys: self.keys.clone(),
            external: self.signer.clone(),
            audiences: options.access.audiences(),
            lookup: options.access.service_accounts.lookup,
            on_legacy_use: Box::new(move |used| last_uses.note(used)),
        };
        Ok(ServiceAccountTokens::new(settings, Objects::of(cache).ok_or(Error::Missing)?))
    }
}

/// The issuer of tokens.
fn issuer(options: &ServerOptions) -> String {
    options.access.service_accounts.issuers().into_iter().next().unwrap_or_default()
}

/// A limit in seconds; `None` if there is none.
fn seconds(longest: Duration) -> Option<i64> {
    i64::try_from(longest.as_secs()).ok().filter(|seconds| *seconds > 0)
}

/// The OpenID documents, if there can be some.
fn published(documents: Result<Published, NoDiscovery>) -> Option<Published> {
    let documents = documents.inspect_err(
        |error| log::warn!(error:%; "the issuer of service account tokens has no OpenID documents"),
    );
    documents.ok()
}

/// The keys that the tokens of a server are verified with.
pub(crate) struct TokenKeys(KeySet);

impl TokenKeys {
    /// What a fork of the server needs. It signs with a key of its own, so that its tokens are of no use
    /// elsewhere, and accepts those of the server too: their account decides, by its uid. `external` is the
    /// address of the fork, without a scheme.
    pub(crate) fn of_fork(
        &self,
        options: &ServerOptions,
        key: &str,
        external: &str,
    ) -> Result<ServiceAccounts, Error> {
        let own = SigningKey::from_pem(key.as_bytes());
        let own = own.map_err(|why| Error::SigningKey { path: "of a fork".into(), why })?;
        let mut keys = KeySet::new(vec![own.public().clone()]);
        keys.extend(self.0.clone());
        Ok(ServiceAccounts::new(options, own, keys, external))
    }
}

/// Notes the day of the last use of a legacy token at its Secret. It can do so once the registry is there,
/// which needs the methods of authentication itself.
#[derive(Clone, Default)]
pub(crate) struct LastUses(Arc<OnceLock<Weak<Registry>>>);

impl LastUses {
    /// Where the Secrets are.
    pub(crate) fn start(&self, registry: &Arc<Registry>) {
        // It is started once.
        let _ = self.0.set(Arc::downgrade(registry));
    }

    fn note(&self, used: LegacyUse) {
        let Some(registry) = self.0.get().and_then(Weak::upgrade) else { return };
        tasks::once(async move {
            let outcome = write(registry, &used).await;
            if let Err(error) = outcome {
                let secret = format!("{}/{}", used.namespace, used.secret.name);
                log::error!(secret = secret.as_str(), error = error.message.as_str(); "the use of a token could not be noted");
            }
        });
    }
}

/// Labels the Secret with the day. The reference merges a patch; a conflict is tried again, a few times.
async fn write(registry: Arc<Registry>, used: &LegacyUse) -> Result<(), Status> {
    const ATTEMPTS: usize = 5;
    let client = Client::new(registry, SystemIdentity::ApiServer, "kube-apiserver");
    let address = Address::core("secrets", &used.namespace).named(&used.secret.name);
    let mut outcome = Ok(());
    for _ in 0..ATTEMPTS {
        outcome = client.modify(address, |secret| label(secret, used)).await;
        if !matches!(&outcome, Err(error) if error.reason == Reason::Conflict) {
            break;
        }
    }
    outcome
}

fn label(secret: &mut Map, used: &LegacyUse) {
    let Some(metadata) = secret.get_mut("metadata").and_then(Value::as_map_mut) else { return };
    if metadata.get("uid").and_then(Value::as_str) != Some(used.secret.uid.as_str()) {
        return;
    }
    let labels = metadata.get_or_insert_with("labels", || Map::new().into());
    if let Some(labels) = labels.as_map_mut() {
        labels.insert(used.label, used.day.as_str());
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|cause| Error::File { path: path.to_owned(), cause })
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::service_account::Reference;
    use store::memory::Memory;

    async fn registry() -> Arc<Registry> {
        let specs = registry::specs().unwrap();
        let cache =
            Cache::open(Arc::new(Memory::default()), specs, cache::CacheOptions::default()).await.unwrap();
        let config = registry::Config::new(&cache).unwrap();
        Arc::new(Registry::new(Arc::new(cache), config).unwrap())
    }

    #[tokio::test]
    async fn use_of_a_legacy_token_is_noted_at_its_secret_alone() {
        let registry = registry().await;
        let client = Client::new(registry.clone(), SystemIdentity::ApiServer, "test");
        let namespaces = Address::core("namespaces", "");
        let namespace = client.decode(namespaces, r#"{"metadata":{"name":"n"}}"#).unwrap();
        client.create(namespaces, namespace).await.unwrap();
        let secrets = Address::core("secrets", "n");
        let secret = client.decode(secrets, r#"{"metadata":{"name":"s"}}"#).unwrap();
        let secret = client.create(secrets, secret).await.unwrap();
        let uid = secret.get("metadata").and_then(|metadata| metadata.get("uid")).and_then(Value::as_str);
        let used = |uid: &str, day: &str| LegacyUse {
            namespace: "n".into(),
            secret: Reference { name: "s".into(), uid: uid.into() },
            label: "kubernetes.io/legacy-token-last-used",
            day: day.into(),
        };
        let noted = async || {
            let secret = client.get(secrets.named("s")).await.unwrap();
            let labels = secret.get("metadata").and_then(|metadata| metadata.get("labels")).cloned();
            labels.and_then(|labels| {
                labels.get("kubernetes.io/legacy-token-last-used")?.as_str().map(str::to_owned)
            })
        };
        write(registry.clone(), &used("another", "2027-01-15")).await.unwrap();
        assert_eq!(noted().await, None, "a secret of the same name that was made later");

        let last_uses = LastUses::default();
        last_uses.note(used(uid.unwrap(), "2027-01-15"));
        last_uses.start(&registry);
        last_uses.note(used(uid.unwrap(), "2027-01-16"));
        for _ in 0..1000 {
            if noted().await.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(noted().await.as_deref(), Some("2027-01-16"));
    }
}
