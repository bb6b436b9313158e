//! Requests of callers that are handed on to another server: their bodies are streams, and they may upgrade
//! their connections.

use crate::client::{Connector, MOST_HEADER_BYTES, Versions, cause};
use crate::credentials::{Reread, Source, certificate};
use crate::held::{Guard, with_guard};
use crate::tls::{Identity, Tls, TlsError, Trust};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::error::Error as StdError;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long an unused connection is kept. It takes a place that others may need.
const IDLE: Duration = Duration::from_secs(10);
/// The most unused connections that are kept for an address.
const MOST_IDLE: usize = 5;

/// The body of a request that is handed on.
pub type ForwardBody = UnsyncBoxBody<Bytes, Box<dyn StdError + Send + Sync>>;

/// Why there is no answer: the error of the system, of TLS or of HTTP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ForwardError(String);

type Http = legacy::Client<Connector, ForwardBody>;

/// Hands requests on to servers of one sort: all are trusted in the same way, and get the same certificate.
pub struct Forwarder {
    trust: Trust,
    certificate: Option<Reread<Identity>>,
    client: Mutex<(Option<Arc<Identity>>, Http)>,
}

impl fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forwarder").field("trust", &self.trust).finish_non_exhaustive()
    }
}

impl Forwarder {
    /// A forwarder that shows no certificate.
    pub fn new(trust: Trust) -> Result<Self, TlsError> {
        let client = Mutex::new((None, client(&trust, None)?));
        Ok(Self { trust, certificate: None, client })
    }

    /// A forwarder that shows a certificate, which is read again when its files change.
    pub fn with_certificate(trust: Trust, chain: PathBuf, key: PathBuf) -> Result<Self, TlsError> {
        let certificate =
            certificate(Source::File(chain), Source::File(key)).map_err(TlsError::Certificate)?;
        Ok(Self { certificate: Some(certificate), ..Self::new(trust)? })
    }

    /// Sends a request, and returns the answer when its head is there. If a connection is opened for it, that
    /// holds the guard until it is closed.
    ///
    /// A request that is dropped before its answer is there closes its connection.
    pub async fn send(
        &self,
        request: Request<ForwardBody>,
        guard: Option<Guard>,
    ) -> Result<Response<Incoming>, ForwardError> {
        let identity = match &self.certificate {
            Some(certificate) => Some(certificate.value().await),
            None => None,
        };
        let client = self.client(identity).map_err(|error| ForwardError(error.to_string()))?;
        let answer = with_guard(guard, client.request(request)).await;
        answer.map_err(|error| ForwardError(cause(&error)))
    }

    /// The client with a certificate: the known one, or a new one if the certificate is another.
    fn client(&self, identity: Option<Arc<Identity>>) -> Result<Http, TlsError> {
        let mut current = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if current.0 != identity {
            let http = client(&self.trust, identity.clone())?;
            *current = (identity, http);
        }
        Ok(current.1.clone())
    }
}

fn client(trust: &Trust, identity: Option<Arc<Identity>>) -> Result<Http, TlsError> {
    let tls = Tls { trust: trust.clone(), server_name: None, identity };
    let connector = Connector::new(&tls, None, Versions::Http1)?;
    Ok(legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(MOST_IDLE)
        .http1_max_buf_size(MOST_HEADER_BYTES as usize)
        .build(connector))
}
