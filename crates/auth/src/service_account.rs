//! Tokens of service accounts: issuing them, and authenticating their users.
//!
//! 1. **A token is valid only while its objects exist.** Its account, and the pod, secret or node that it is
//!    bound to, are looked up for every request, by name and uid: when one of them is deleted the token is
//!    refused from the next request on.
//! 2. **Only facts that cannot change are cached**: that the signature of a token is valid, and its claims
//!    ([`ServiceAccountTokens`]).
//! 3. **Bound tokens** are issued for a time and for audiences. **Legacy tokens** are in a Secret, for as
//!    long as that exists.
//!
//! Tokens are signed by a key of this server, or by a program beside it ([`TokenIssuer`]).
//!
//! Which tokens an account may have is for the caller of [`Issuer::issue`].

mod authenticate;
mod discovery;
mod external;
mod verified;

pub use authenticate::{
    INVALID_SINCE, LAST_USED, LegacyUse, Objects, OnLegacyUse, ServiceAccountTokens, TokenSettings,
};
pub use discovery::{Discovery, NoDiscovery, Published};
pub use external::{ExternalKey, ExternalKeys, ExternalSigner, LONGEST_KEY_ID, SignedParts};

use crate::jwt::{self, SigningFailed, SigningKey};
use crate::{User, jwt::Claims};
use object::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// The issuer of legacy tokens.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// The claim about the account of a bound token.
const PRIVATE: &str = "kubernetes.io";
/// The names of the claims of a legacy token start with it.
const LEGACY: &str = "kubernetes.io/serviceaccount/";

/// The name and uid of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reference {
    /// The name.
    pub name: String,
    /// The uid; empty if it is not known.
    pub uid: String,
}

/// The object that a token is bound to: the token is invalid as soon as the object is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// Nothing but the account.
    #[default]
    None,
    /// A pod of the account's namespace.
    Pod {
        /// The pod.
        pod: Reference,
        /// The node of the pod, for information.
        node: Option<Reference>,
    },
    /// A secret of the account's namespace.
    Secret(Reference),
    /// A node.
    Node(Reference),
}

/// The contents of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The namespace of the account.
    pub namespace: String,
    /// The account.
    pub account: Reference,
    /// The object that the token is bound to.
    pub binding: Binding,
    /// The audiences of the token.
    pub audiences: Vec<String>,
    /// When it is issued, in seconds since 1970.
    pub issued: i64,
    /// How many seconds it is valid.
    pub lifetime: i64,
    /// The requested lifetime of a token whose lifetime was extended: its use after that is marked in audit
    /// annotations.
    pub warn_after: Option<i64>,
    /// The id of the token: the claim `jti`.
    pub id: String,
}

/// The contents of a legacy token, which is valid for as long as its Secret and its account exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyGrant {
    /// The namespace of the account and of the Secret.
    pub namespace: String,
    /// The account.
    pub account: Reference,
    /// The name of the Secret that the token is in.
    pub secret: String,
}

/// Issues tokens.
#[derive(Debug)]
pub struct Issuer {
    /// The name of the issuer, in the claim `iss`.
    pub name: String,
    /// The key that signs.
    pub key: SigningKey,
}

impl Issuer {
    /// The token of a grant.
    pub fn issue(&self, grant: &Grant) -> Result<String, SigningFailed> {
        self.key.sign(claims(&self.name, grant))
    }

    /// The legacy token of a grant.
    pub fn issue_legacy(&self, grant: &LegacyGrant) -> Result<String, SigningFailed> {
        self.key.sign(legacy_claims(grant))
    }
}

/// Who signs tokens.
pub enum TokenIssuer {
    /// The server, by a key of its own.
    Own(Issuer),
    /// A program beside it.
    External {
        /// The name of the issuer, in the claim `iss`.
        name: String,
        /// The program.
        signer: Arc<dyn ExternalSigner>,
    },
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssueFailed {
    /// The key of the server does not sign.
    #[error(transparent)]
    Own(#[from] SigningFailed),
    /// The program does not sign.
    #[error("{0}")]
    External(String),
    /// A program signs, which signs no legacy tokens.
    #[error("tokens of Secrets are not signed by an external signer")]
    NoLegacy,
}

impl fmt::Debug for TokenIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(issuer) => issuer.fmt(f),
            Self::External { name, .. } => {
                f.debug_struct("External").field("name", name).finish_non_exhaustive()
            }
        }
    }
}

impl TokenIssuer {
    /// The token of a grant.
    pub async fn issue(&self, grant: &Grant) -> Result<String, IssueFailed> {
        match self {
            Self::Own(issuer) => Ok(issuer.issue(grant)?),
            Self::External { name, signer } => {
                let claims = jwt::encoded(claims(name, grant));
                external::sign(&**signer, &claims).await.map_err(IssueFailed::External)
            }
        }
    }

    /// The legacy token of a grant.
    pub fn issue_legacy(&self, grant: &LegacyGrant) -> Result<String, IssueFailed> {
        match self {
            Self::Own(issuer) => Ok(issuer.issue_legacy(grant)?),
            Self::External { .. } => Err(IssueFailed::NoLegacy),
        }
    }

    /// Whether legacy tokens can be issued.
    pub fn has_legacy(&self) -> bool {
        matches!(self, Self::Own(_))
    }
}

/// The claims of a grant.
fn claims(issuer: &str, grant: &Grant) -> Map {
    let mut private = Map::new();
    private.insert("namespace", grant.namespace.as_str());
    private.insert("serviceaccount", reference(&grant.account));
    match &grant.binding {
        Binding::None => {}
        Binding::Pod { pod, node } => {
            private.insert("pod", reference(pod));
            if let Some(node) = node {
                private.insert("node", reference(node));
            }
        }
        Binding::Secret(secret) => {
            private.insert("secret", reference(secret));
        }
        Binding::Node(node) => {
            private.insert("node", reference(node));
        }
    }
    if let Some(seconds) = grant.warn_after {
        private.insert("warnafter", grant.issued.saturating_add(seconds));
    }
    let audiences: Vec<Value> = grant.audiences.iter().map(|audience| audience.as_str().into()).collect();
    let mut claims = Map::new();
    if !audiences.is_empty() {
        claims.insert("aud", audiences);
    }
    claims.insert("exp", grant.issued.saturating_add(grant.lifetime));
    claims.insert("iat", grant.issued);
    claims.insert("iss", issuer);
    claims.insert("jti", grant.id.as_str());
    claims.insert(PRIVATE, private);
    claims.insert("nbf", grant.issued);
    claims.insert("sub", User::service_account(&grant.namespace, &grant.account.name).name);
    claims
}

/// The claims of a legacy grant.
fn legacy_claims(grant: &LegacyGrant) -> Map {
    let private = [
        ("namespace", &grant.namespace),
        ("secret.name", &grant.secret),
        ("service-account.name", &grant.account.name),
        ("service-account.uid", &grant.account.uid),
    ];
    let mut claims = Map::new();
    claims.insert("iss", LEGACY_ISSUER);
    for (key, value) in private {
        claims.insert(format!("{LEGACY}{key}"), value.as_str());
    }
    claims.insert("sub", User::service_account(&grant.namespace, &grant.account.name).name);
    claims
}

fn reference(object: &Reference) -> Map {
    let mut map = Map::new();
    map.insert("name", object.name.as_str());
    if !object.uid.is_empty() {
        map.insert("uid", object.uid.as_str());
    }
    map
}

/// The claims of a token whose signature is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Verified {
    issuer: String,
    subject: String,
    audiences: Vec<String>,
    id: String,
    expires: Option<i64>,
    not_before: Option<i64>,
    issued: Option<i64>,
    /// From when on the token should have been renewed.
    warn_after: Option<i64>,
    /// Whether it is a legacy token, by its issuer and its claims.
    is_legacy: bool,
    account: Account,
    /// The state of the external keys by which the signature was verified.
    generation: u64,
}

/// What the claims say of the account.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Account {
    namespace: String,
    account: Reference,
    pod: Option<Reference>,
    secret: Option<Reference>,
    node: Option<Reference>,
}

impl Verified {
    fn read(claims: &Claims) -> Result<Self, jwt::InvalidClaim> {
        let is_legacy = claims.text("iss") == LEGACY_ISSUER && claims.get(PRIVATE).is_none();
        Ok(Self {
            issuer: claims.text("iss").to_owned(),
            subject: claims.text("sub").to_owned(),
            audiences: claims.audiences()?,
            id: claims.text("jti").to_owned(),
            expires: claims.time("exp")?,
            not_before: claims.time("nbf")?,
            issued: claims.time("iat")?,
            warn_after: claims.get(PRIVATE).and_then(|private| private.get("warnafter")?.as_i64()),
            is_legacy,
            account: if is_legacy { Account::legacy(claims) } else { Account::bound(claims) },
            generation: 0,
        })
    }
}

impl Account {
    fn bound(claims: &Claims) -> Self {
        let private = claims.get(PRIVATE);
        let object = |key: &str| {
            let object = private.and_then(|private| private.get(key)).filter(|object| !object.is_null())?;
            let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            Some(Reference { name: text("name"), uid: text("uid") })
        };
        let namespace = private.and_then(|private| private.get("namespace")).and_then(Value::as_str);
        Self {
            namespace: namespace.unwrap_or_default().to_owned(),
            account: object("serviceaccount").unwrap_or_default(),
            pod: object("pod"),
            secret: object("secret"),
            node: object("node"),
        }
    }

    fn legacy(claims: &Claims) -> Self {
        let text = |key: &str| claims.text(&format!("{LEGACY}{key}")).to_owned();
        Self {
            namespace: text("namespace"),
            account: Reference { name: text("service-account.name"), uid: text("service-account.uid") },
            pod: None,
            secret: Some(Reference { name: text("secret.name"), uid: String::new() }),
            node: None,
        }
    }
}

#[cfg(test)]
mod tests;
