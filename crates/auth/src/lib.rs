//! Who is asking, and what they may do.
//!
//! 1. **Proof by type.** An [`Authenticated`] is made only by [`Authenticators::authenticate`], and for the server's own work by
//!    [`Authenticated::system`]; an [`Authorized`] only by [`Authorizer::authorize`]. What reads and writes objects demands an [`Authorized`], and takes from it what it is for: a
//!    permission for one thing cannot be used for another.
//! 2. **Default deny.** A caller that shows nothing valid is refused; what exactly was wrong is for the log, not for the
//!    caller.
//! 3. **Secrets are compared in constant time**, and are in no log and no error.
//!
//! For now a caller is known by a client certificate of the cluster's own authority or by a static token, and may then do
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
pub use certificate::{Certified, ClientAuthority};
pub use tokens::{StaticToken, TokenFileError, Tokens};
pub use user::User;
