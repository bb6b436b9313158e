//! Authentication and authorization.
//!
//! 1. **Proof by type.** An [`Authenticated`] is made only by [`Authenticators::authenticate`], and for the server's own work by
//!    [`Authenticated::system`]; an [`Authorized`] only by [`Authorizer::authorize`]. The registry requires an [`Authorized`] to
//!    read and write objects, and takes the attributes from it: a permission for one request cannot be used for another.
//! 2. **Default deny.** A request without valid credentials is refused; the reason is in the log, not in the response.
//! 3. **Secrets are compared in constant time**, and are in no log and no error.
//!
//! For now users authenticate with a client certificate of the cluster's own authority or with a static token, and may do
//! everything.

mod attributes;
mod authenticate;
mod authorize;
mod certificate;
mod tokens;
mod user;

pub use attributes::{Attributes, Target};
pub use authenticate::{Authenticated, Authenticators, Credentials, Refused, SystemIdentity};
pub use authorize::{AlwaysAllow, Authorize, Authorized, Authorizer, BoxFuture, Decision};
pub use certificate::{Certified, ClientAuthority, unix_time};
pub use tokens::{StaticToken, TokenFileError, Tokens};
pub use user::User;
