//! Who users are and what they may do, by the flags of a server: the methods of authentication and the modes
//! of authorization, from options and configuration files, which are read again when they change.
//!
//! The methods and modes themselves are in the crate `auth`.

pub mod authentication;
pub mod authorization;
mod families;
mod oidc;
mod options;
mod reload;
pub mod service_accounts;
pub mod token_signer;

pub use authentication::Error;
pub use families::register_families;
pub use options::{
    AccessOptions, AuthorizationOptions, AuthorizationWebhookOptions, OidcOptions, ProxyOptions,
    ServiceAccountOptions, TokenWebhookOptions,
};
