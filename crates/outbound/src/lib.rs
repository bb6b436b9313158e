//! Connections that the server opens to other servers: webhooks, identity providers, kubelets, and the
//! backends of proxied requests.
//!
//! 1. **Everything is bounded.** A request has a deadline, which covers connecting, the TLS handshake,
//!    credentials, retries and the answer; an answer has a limit of bytes; a [`Client`] has a limit of
//!    requests under way. A server that hangs, answers slowly or without end costs its own requests that
//!    time, and no others.
//! 2. **Nothing of the environment.** No proxy, no cookies, no redirects: a request goes to the server that
//!    the configuration names.
//! 3. **Secrets stay inside.** Tokens, passwords and keys are in no error, no log line and no debug output.
//!
//! Requests of callers that are handed on (logs, commands, proxies) are the exception to the first rule: a
//! [`Forwarder`] bounds the time to connect and the headers of the answer; bodies and upgraded connections
//! end with their caller.
//!
//! [`Client`] speaks HTTP with one TLS identity. [`Kubeconfig`] reads the file that describes a server and
//! the credentials for it, [`Endpoint`] is such a server, [`Webhook`] sends reviews to it. [`WebhookClients`]
//! are for the webhooks that objects of the API name. [`RpcClient`] calls programs on the same machine.

#![deny(clippy::indexing_slicing)]

mod backoff;
mod client;
mod clients;
mod credentials;
mod endpoint;
mod error;
mod exec;
mod families;
mod forward;
mod held;
mod kubeconfig;
mod pool;
mod refused;
mod rpc;
mod secret;
mod shared;
mod tls;
mod trace;
mod webhook;

pub use backoff::Backoff;
pub use client::{Answer, Bounds, Client, Resolve};
pub use clients::{ResolveService, Service, WebhookClients, WebhookServer};
pub use endpoint::{Endpoint, Peer};
pub use error::Error;
pub use families::register_families;
pub use forward::{CertificateFiles, ForwardBody, ForwardError, ForwardTo, Forwarder};
pub use held::Guard;
pub use kubeconfig::{Kubeconfig, KubeconfigError};
pub use pool::{Pool, Purpose};
pub use rpc::{RpcClient, RpcError};
pub use shared::Shared;
pub use tls::{Identity, Tls, TlsError, Trust};
pub use trace::within_trace;
pub use webhook::Webhook;
