//! The documents by which others verify the tokens of this server's service accounts: OpenID Connect
//! discovery.

use super::ExternalSigner;
use crate::jwt::KeySet;
use schema::json;
use std::sync::{Arc, PoisonError, RwLock};

/// The documents, as they are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// `/.well-known/openid-configuration`.
    pub configuration: String,
    /// `/openid/v1/jwks`.
    pub keys: String,
}

/// Why there are no documents: the issuer is not valid for OpenID Connect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoDiscovery {
    /// The issuer is not an https URL.
    #[error("issuer URL must use https scheme, got: {0}")]
    Scheme(String),
    /// The issuer has a query.
    #[error("issuer URL may not include a query, got: {0}")]
    Query(String),
    /// The issuer has a fragment.
    #[error("issuer URL may not include a fragment, got: {0}")]
    Fragment(String),
    /// A program has no keys that are for others.
    #[error("no keys provided for validating keyset")]
    NoKeys,
    /// The address of the keys is not an https URL.
    #[error("jwksURI requires https scheme, parsed as: {0}")]
    KeysScheme(String),
}

impl Discovery {
    /// How long the documents may be kept by others, in seconds.
    pub const MAX_AGE: u32 = 3600;

    /// The documents of an issuer. `external` is the address of the server, unless the address of the keys is
    /// given.
    pub fn new(
        issuer: &str,
        keys_uri: Option<&str>,
        external: &str,
        keys: &KeySet,
    ) -> Result<Self, NoDiscovery> {
        if !has_https(issuer) {
            return Err(NoDiscovery::Scheme(issuer.to_owned()));
        }
        let (before, fragment) = issuer.split_once('#').unwrap_or((issuer, ""));
        if before.split_once('?').is_some_and(|(_, query)| !query.is_empty()) {
            return Err(NoDiscovery::Query(issuer.to_owned()));
        }
        if !fragment.is_empty() {
            return Err(NoDiscovery::Fragment(issuer.to_owned()));
        }
        let keys_uri = match keys_uri {
            Some(given) if !has_https(given) => return Err(NoDiscovery::KeysScheme(given.to_owned())),
            Some(given) => given.to_owned(),
            None => format!("https://{external}/openid/v1/jwks"),
        };
        let algorithms: Vec<String> =
            keys.algorithms().iter().map(|algorithm| json::string(algorithm.name())).collect();
        let configuration = format!(
            r#"{{"issuer":{},"jwks_uri":{},"response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":[{}]}}"#,
            json::string(issuer),
            json::string(&keys_uri),
            algorithms.join(",")
        );
        Ok(Self { configuration, keys: keys.to_jwks() })
    }
}

/// The documents, which change with the keys of an external signer.
#[derive(Debug)]
pub enum Published {
    /// Those of keys that do not change.
    Fixed(Arc<Discovery>),
    /// Those of the keys of a program.
    External(Box<ExternalDiscovery>),
}

/// The documents about the keys of a program.
pub struct ExternalDiscovery {
    issuer: String,
    keys_uri: Option<String>,
    external: String,
    signer: Arc<dyn ExternalSigner>,
    /// The generation of the keys, and the documents about them.
    made: RwLock<(u64, Arc<Discovery>)>,
}

impl std::fmt::Debug for ExternalDiscovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExternalDiscovery").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl Published {
    /// The documents about the keys of a program.
    pub fn of_signer(
        issuer: &str,
        keys_uri: Option<&str>,
        external: &str,
        signer: Arc<dyn ExternalSigner>,
    ) -> Result<Self, NoDiscovery> {
        let keys = signer.keys();
        if keys.published().keys().is_empty() {
            return Err(NoDiscovery::NoKeys);
        }
        let first = Discovery::new(issuer, keys_uri, external, keys.published())?;
        Ok(Self::External(Box::new(ExternalDiscovery {
            issuer: issuer.to_owned(),
            keys_uri: keys_uri.map(str::to_owned),
            external: external.to_owned(),
            made: RwLock::new((keys.generation, Arc::new(first))),
            signer,
        })))
    }

    /// The documents of now.
    pub fn documents(&self) -> Arc<Discovery> {
        match self {
            Self::Fixed(documents) => documents.clone(),
            Self::External(external) => external.documents(),
        }
    }

    /// How long the documents may be kept by others, in seconds.
    pub fn max_age(&self) -> u32 {
        match self {
            Self::Fixed(_) => Discovery::MAX_AGE,
            Self::External(external) => external.signer.max_age(),
        }
    }
}

impl ExternalDiscovery {
    fn documents(&self) -> Arc<Discovery> {
        let keys = self.signer.keys();
        {
            let made = self.made.read().unwrap_or_else(PoisonError::into_inner);
            // Without a key to publish, the documents from before stay, as in the reference.
            if made.0 == keys.generation || keys.published().keys().is_empty() {
                return made.1.clone();
            }
        }
        let made = Discovery::new(&self.issuer, self.keys_uri.as_deref(), &self.external, keys.published());
        let mut current = self.made.write().unwrap_or_else(PoisonError::into_inner);
        if let Ok(documents) = made {
            *current = (keys.generation, Arc::new(documents));
        }
        current.1.clone()
    }
}

fn has_https(url: &str) -> bool {
    url.split_once(':').is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("https"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jwt::SigningKey;

    #[test]
    fn documents_are_those_of_the_reference() {
        let key = SigningKey::from_pem(SigningKey::generate().unwrap().as_bytes()).unwrap();
        let keys = KeySet::new(vec![key.public().clone()]);
        let documents = Discovery::new("https://issuer.example", None, "10.0.0.1:6443", &keys).unwrap();
        assert_eq!(
            documents.configuration,
            r#"{"issuer":"https://issuer.example","jwks_uri":"https://10.0.0.1:6443/openid/v1/jwks","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256"]}"#
        );
        assert_eq!(documents.keys, keys.to_jwks());
        let given =
            Discovery::new("https://issuer.example", Some("https://k.example/keys"), "x", &keys).unwrap();
        assert!(given.configuration.contains(r#""jwks_uri":"https://k.example/keys""#));
    }

    #[test]
    fn issuer_that_is_no_url_has_no_documents() {
        let error = |issuer: &str, keys: Option<&str>| {
            Discovery::new(issuer, keys, "x", &KeySet::default()).unwrap_err().to_string()
        };
        assert_eq!(error("api", None), "issuer URL must use https scheme, got: api");
        assert_eq!(error("http://a", None), "issuer URL must use https scheme, got: http://a");
        assert_eq!(error("https://a?b=c", None), "issuer URL may not include a query, got: https://a?b=c");
        assert_eq!(error("https://a#b", None), "issuer URL may not include a fragment, got: https://a#b");
        assert_eq!(
            error("https://a", Some("http://k")),
            "jwksURI requires https scheme, parsed as: http://k"
        );
    }
}
