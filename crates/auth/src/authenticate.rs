//! Authentication: the credentials of a request, tried in turn.
//!
//! 1. The methods are tried in this order: headers of an authenticating proxy, client certificate, bearer
//!    token. The first that knows the user decides.
//! 2. Credentials that no method accepts refuse the request: it is not anonymous.
//! 3. A request without credentials is anonymous, where that is allowed.

use crate::bearer::{self, Bearer};
use crate::families::{self, Outcome};
use crate::impersonate::remove;
use crate::{Certified, ClientAuthority, Proxy, User};
use http::HeaderMap;
use observe::Observation;
use rustls::DistinguishedName;
use rustls::pki_types::CertificateDer;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;
use tasks::Deferred;

/// The credentials of a request.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'a> {
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The decoded path: anonymous requests may be limited to some.
    pub path: &'a str,
    /// The verified certificates of the connection, by [`Authenticators::certify`].
    pub certified: Option<&'a Certified>,
}

/// An authenticated user, or the anonymous one.
#[derive(Clone, Debug)]
pub struct Authenticated {
    user: Arc<User>,
    warning: Option<&'static str>,
    /// What audit logs say of the credentials.
    annotations: Vec<(&'static str, String)>,
    observation: Observation,
}

impl Authenticated {
    /// The user.
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// A warning for the client about its credentials.
    pub fn warning(&self) -> Option<&'static str> {
        self.warning
    }

    /// The user of a request of which something is noted.
    #[must_use]
    pub fn observed(mut self, observation: Observation) -> Self {
        for (key, value) in self.annotations.drain(..) {
            observation.annotate(key, &value);
        }
        Self { observation, ..self }
    }

    /// What is noted of the user's request.
    pub fn observation(&self) -> &Observation {
        &self.observation
    }

    /// Whether the user is not the anonymous one.
    pub fn is_known(&self) -> bool {
        !self.user.is_in(User::UNAUTHENTICATED)
    }

    /// A part of the server itself, as the user that it is in the reference.
    pub fn system(identity: SystemIdentity) -> Self {
        let user = match identity {
            SystemIdentity::ApiServer => User {
                name: "system:apiserver".to_owned(),
                groups: vec![User::MASTERS.to_owned()],
                ..User::default()
            },
            SystemIdentity::ControllerManager => {
                User { name: "system:kube-controller-manager".to_owned(), ..User::default() }
            }
            SystemIdentity::Scheduler => User { name: "system:kube-scheduler".to_owned(), ..User::default() },
            SystemIdentity::Controller(account) => User::service_account("kube-system", account),
        };
        Self::new(user.authenticated())
    }

    /// A user that an authenticated one acts as, after [`crate::impersonate`] found that it may.
    pub(crate) fn impersonated(user: User) -> Self {
        Self::new(user)
    }

    fn new(user: impl Into<Arc<User>>) -> Self {
        let (warning, annotations) = (None, Vec::new());
        Self { user: user.into(), warning, annotations, observation: Observation::none() }
    }

    pub(crate) fn into_parts(self) -> (Arc<User>, Observation) {
        (self.user, self.observation)
    }
}

/// The parts of the server that make requests themselves, as audit logs, webhooks and managed fields name
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemIdentity {
    /// The server, for its own objects: `system:apiserver` in the group `system:masters`.
    ApiServer,
    /// The controller manager itself: `system:kube-controller-manager`, which may do what its roles allow.
    ControllerManager,
    /// The scheduler: `system:kube-scheduler`, which may do what its roles allow.
    Scheduler,
    /// A controller: a service account of `kube-system`, which may do what its roles allow.
    Controller(&'static str),
}

/// The request has no valid credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Unauthorized")]
pub struct Refused;

/// A bearer token. Debug output withholds it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token<'a>(pub &'a str);

impl fmt::Debug for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The user of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenIdentity {
    /// The user, without the group of all authenticated users.
    pub user: User,
    /// The requested audiences that the token is valid for.
    pub audiences: Vec<String>,
    /// A warning for the client about the token.
    pub warning: Option<&'static str>,
    /// What audit logs say of the token.
    pub annotations: Vec<(&'static str, String)>,
}

impl TokenIdentity {
    /// A user whose token leads to no warning.
    pub fn new(user: User, audiences: Vec<String>) -> Self {
        Self { user, audiences, warning: None, annotations: Vec::new() }
    }
}

/// Why a token is invalid, for a TokenReview. It contains no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct InvalidToken {
    text: String,
    /// For the log, if that is another text.
    logged: Option<String>,
}

impl InvalidToken {
    /// The text for a TokenReview. It may have values of claims.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text for the log.
    pub fn logged(&self) -> &str {
        self.logged.as_deref().unwrap_or(&self.text)
    }

    /// A text for a TokenReview whose end has values of claims, which the log does not show.
    pub(crate) fn withholding(begin: &str, values: impl fmt::Display) -> Self {
        Self { text: format!("{begin}{values}"), logged: Some(format!("{begin}[withheld]")) }
    }

    /// The same, after another text.
    pub(crate) fn after(self, begin: &str) -> Self {
        let after = |text: String| format!("{begin}{text}");
        Self { text: after(self.text), logged: self.logged.map(after) }
    }
}

impl From<String> for InvalidToken {
    fn from(text: String) -> Self {
        Self { text, logged: None }
    }
}

impl From<&str> for InvalidToken {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// The outcome of a method for a token; `None` if the token does not belong to the method.
pub type TokenOutcome = Result<Option<TokenIdentity>, InvalidToken>;

/// A method that authenticates tokens.
pub trait AuthenticateToken: Send + Sync {
    /// The user of a token that is for at least one of the audiences.
    fn authenticate<'a>(&'a self, token: Token<'a>, audiences: &'a [String]) -> Deferred<'a, TokenOutcome>;
}

/// Whether requests without credentials are accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// On every path.
    #[default]
    Allowed,
    /// On these paths.
    On(Vec<String>),
    /// Never.
    Refused,
}

/// The authentication methods.
#[derive(Default)]
pub struct Authenticators {
    /// The headers of an authenticating proxy.
    pub proxy: Option<Proxy>,
    /// Client certificates of these authorities.
    pub certificates: Option<ClientAuthority>,
    /// The methods for tokens, in order.
    pub tokens: Vec<Box<dyn AuthenticateToken>>,
    /// The audiences of this server: a token has to be for one of them.
    pub audiences: Vec<String>,
    /// Requests without credentials.
    pub anonymous: Anonymous,
}

impl fmt::Debug for Authenticators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticators").field("tokens", &self.tokens.len()).finish_non_exhaustive()
    }
}

impl Authenticators {
    /// Numbers of which one changes when the authorities of client certificates change.
    pub fn authority_generations(&self) -> [u64; 2] {
        [
            self.certificates.as_ref().map_or(0, ClientAuthority::generation),
            self.proxy.as_ref().map_or(0, Proxy::generation),
        ]
    }

    /// The subjects of the authorities of client certificates, those of proxies included: a TLS handshake
    /// names them, and clients choose a certificate by them.
    pub fn authority_subjects(&self) -> Vec<DistinguishedName> {
        let clients = self.certificates.as_ref().map(|clients| clients.authorities().subjects());
        let proxies = self.proxy.as_ref().map(|proxy| proxy.authorities.subjects());
        let mut subjects = clients.unwrap_or_default();
        for subject in proxies.unwrap_or_default() {
            if !subjects.iter().any(|known| known.as_ref() == subject.as_ref()) {
                subjects.push(subject);
            }
        }
        subjects
    }

    /// Verifies the certificates of a connection, or returns the result `before` if it still holds. TLS has
    /// verified that the client owns the key of the first certificate. Verifying takes a tenth of a
    /// millisecond, so the server keeps the result for the connection.
    pub fn certify(
        &self,
        certificates: &[CertificateDer<'static>],
        before: Option<&Arc<Certified>>,
    ) -> Option<Arc<Certified>> {
        if certificates.is_empty() {
            return None;
        }
        let generations = self.authority_generations();
        let now = clock::Instant::now();
        let holds = |before: &&Arc<Certified>| before.generations == generations && !before.is_stale(now);
        if let Some(before) = before.filter(holds) {
            return Some(Arc::clone(before));
        }
        Some(Arc::new(Certified {
            verified: now,
            generations,
            client: self.certificates.as_ref().map(|authority| authority.certify(certificates)),
            proxy: self.proxy.as_ref().map(|proxy| proxy.certify(certificates)),
        }))
    }

    /// The user of a request.
    pub async fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Authenticated, Refused> {
        let begin = Instant::now();
        let outcome = self.identify(credentials).await;
        let took = begin.elapsed();
        match &outcome {
            Ok(caller) => families::authenticated(Outcome::Success, &caller.user.name, took),
            Err(refused) => families::authenticated(*refused, "", took),
        }
        outcome.map_err(|_| Refused)
    }

    /// The user of a request, or how a refusal is counted.
    async fn identify(&self, credentials: &Credentials<'_>) -> Result<Authenticated, Outcome> {
        let mut is_refused = false;
        if let Some(certified) = credentials.certified {
            certified.count_remaining();
            if let (Some(proxy), Some(outcome)) = (&self.proxy, &certified.proxy) {
                match outcome.valid() {
                    Some(()) => {
                        if let Some(user) = proxy.user(credentials.headers) {
                            return Ok(Authenticated::new(user.authenticated()));
                        }
                    }
                    None => is_refused = true,
                }
            }
            if let Some(outcome) = &certified.client {
                match outcome.valid() {
                    Some(Some(user)) => return Ok(Authenticated::new(Arc::clone(user))),
                    Some(None) => {}
                    None => is_refused = true,
                }
            }
        }
        match bearer::of(credentials.headers) {
            Bearer::Token(token) => match self.review(Token(&token), &self.audiences).await {
                Ok(TokenIdentity { user, warning, annotations, .. }) => {
                    return Ok(Authenticated { warning, annotations, ..Authenticated::new(user) });
                }
                Err(error) => {
                    log::debug!(error = error.logged(); "a token was refused");
                    is_refused = true;
                }
            },
            Bearer::Malformed => is_refused = true,
            Bearer::None => {}
        }
        let may_be_anonymous = match &self.anonymous {
            Anonymous::Allowed => true,
            Anonymous::On(paths) => paths.iter().any(|path| path == credentials.path),
            Anonymous::Refused => false,
        };
        if is_refused {
            return Err(Outcome::Error);
        }
        if !may_be_anonymous {
            return Err(Outcome::Failure);
        }
        Ok(Authenticated::new(User::anonymous()))
    }

    /// Removes the credentials of an authenticated request, and headers that authenticating proxies usually
    /// set, before the request is sent to another server.
    pub fn remove_credentials(&self, headers: &mut HeaderMap) {
        bearer::remove(headers);
        let is_own = |name: &str| self.proxy.as_ref().is_some_and(|proxy| proxy.sets(name));
        remove(headers, |name| is_usual(name) || is_own(name));
    }

    /// The user of a token, in the group of all authenticated users, or why there is none.
    pub async fn review(
        &self,
        token: Token<'_>,
        audiences: &[String],
    ) -> Result<TokenIdentity, InvalidToken> {
        // The first method of the reference is its loopback token, which gives this error for every other
        // token.
        let mut errors = vec![InvalidToken::from("invalid bearer token")];
        for method in &self.tokens {
            match method.authenticate(token, audiences).wait().await {
                Ok(Some(identity)) => {
                    return Ok(TokenIdentity { user: identity.user.authenticated(), ..identity });
                }
                Ok(None) => {}
                Err(error) if errors.iter().any(|there| there.text == error.text) => {}
                Err(error) => errors.push(error),
            }
        }
        let all = |text: fn(&InvalidToken) -> &str| {
            let all = errors.iter().map(text).collect::<Vec<_>>().join(", ");
            if errors.len() > 1 { format!("[{all}]") } else { all }
        };
        let withholds = errors.iter().any(|error| error.logged.is_some());
        let logged = withholds.then(|| all(InvalidToken::logged));
        Err(InvalidToken { text: all(InvalidToken::text), logged })
    }
}

/// Whether a header is one that authenticating proxies usually set.
fn is_usual(name: &str) -> bool {
    matches!(name, "x-remote-user" | "x-remote-uid" | "x-remote-group") || name.starts_with("x-remote-extra-")
}

/// The audiences of a token of a method without audiences: the requested ones that the server has; `None` if
/// there are none.
pub fn agnostic_audiences(asked: &[String], own: &[String]) -> Option<Vec<String>> {
    if asked.is_empty() {
        return Some(Vec::new());
    }
    let both: Vec<String> = own.iter().filter(|audience| asked.contains(audience)).cloned().collect();
    (!both.is_empty()).then_some(both)
}

#[cfg(test)]
mod tests;
