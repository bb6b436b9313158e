//! Authentication and authorization.
//!
//! 1. **Proof by type.** An [`Authenticated`] is made only by [`Authenticators::authenticate`], and for the
//!    server's own work by [`Authenticated::system`]; an [`Authorized`] only by [`Authorizer::authorize`].
//!    The registry requires an [`Authorized`] to read and write objects, and takes the attributes from it: a
//!    permission for one request cannot be used for another.
//! 2. **Default deny.** A request without valid credentials is refused; the reason is in the log, not in the
//!    response.
//! 3. **Secrets are compared in constant time**, and are in no log and no error.
//! 4. **Indexes follow the cache.** Decisions that depend on objects (roles, bindings, pods, service
//!    accounts) read the cache, or an index that is brought up to date before each decision: an acknowledged
//!    write counts for the next request.

#![deny(clippy::indexing_slicing)]

pub mod abac;
mod attributes;
mod authenticate;
mod authorize;
mod bearer;
mod bootstrap_token;
mod certificate;
pub mod config;
mod expiring;
mod expression;
mod families;
mod impersonate;
pub mod jwt;
pub mod node;
pub mod oidc;
mod proxy;
pub mod rbac;
pub mod service_account;
#[cfg(test)]
mod testing;
mod tokens;
mod user;
pub mod webhook;
pub mod webhook_token;

pub use attributes::{Attributes, Selectors, Target};
pub use authenticate::{
    Anonymous, AuthenticateToken, Authenticated, Authenticators, Credentials, InvalidToken, Refused,
    SystemIdentity, Token, TokenIdentity, TokenOutcome, agnostic_audiences,
};
pub use authorize::{
    AlwaysAllow, AlwaysDeny, Authorize, Authorized, Authorizer, Decision, Denied, PathRule, Reason,
    ResourceRule, Rules, Verdict, aggregate,
};
pub use bearer::has_extra_space;
pub use bootstrap_token::{BootstrapSecret, BootstrapTokens, SigningToken};
pub(crate) use certificate::Outcome;
pub use certificate::{Certificates, Certified, ClientAuthority, unix_time};
pub use expiring::{Digest, Expiring};
pub use families::register_families;
pub use impersonate::{ImpersonationError, impersonate, remove_impersonation};
pub use proxy::Proxy;
pub use tokens::{StaticToken, StaticTokens, TokenFileError, Tokens};
pub use user::User;
