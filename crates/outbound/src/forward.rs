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
/// After this silence an HTTP/2 connection is pinged.
const PING_AFTER: Duration = Duration::from_secs(30);
/// How long the answer to a ping may take.
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// The body of a request that is handed on.
pub type ForwardBody = UnsyncBoxBody<Bytes, Box<dyn StdError + Send + Sync>>;

/// Why there is no answer: the error of the system, of TLS or of HTTP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ForwardError(pub(crate) String);

type Http = legacy::Client<Connector, ForwardBody>;

/// A client certificate in files, which are read again when they change. Clones share it.
#[derive(Clone)]
pub struct CertificateFiles(Arc<Reread<Identity>>);

impl fmt::Debug for CertificateFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertificateFiles(..)")
    }
}

impl CertificateFiles {
    /// A certificate of a kubeconfig.
    pub(crate) fn reread(certificate: Reread<Identity>) -> Self {
        Self(Arc::new(certificate))
    }

    /// The certificate, with those that signed it, and its key.
    pub fn open(chain: PathBuf, key: PathBuf) -> Result<Self, TlsError> {
        let read = certificate(Source::File(chain), Source::File(key)).map_err(TlsError::Certificate)?;
        Ok(Self(Arc::new(read)))
    }
}

/// The servers of a [`Forwarder`].
#[derive(Clone, Debug, Default)]
pub struct ForwardTo {
    /// Which servers are trusted.
    pub trust: Trust,
    /// The name that their certificates have to be for, if it is not that of their address.
    pub server_name: Option<String>,
    /// The certificate that they are shown.
    pub certificate: Option<CertificateFiles>,
    /// Whether they may be spoken to with HTTP/2, which has no upgrades here.
    pub http2: bool,
}

/// Hands requests on to servers of one sort: all are trusted in the same way, and get the same certificate.
pub struct Forwarder {
    to: ForwardTo,
    client: Mutex<(Option<Arc<Identity>>, Http)>,
}

impl fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forwarder").field("to", &self.to).finish_non_exhaustive()
    }
}

impl Forwarder {
    /// A forwarder to these servers. It has no connections yet.
    pub fn new(to: ForwardTo) -> Result<Self, TlsError> {
        let client = Mutex::new((None, client(&to, None)?));
        Ok(Self { to, client })
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
        let identity = match &self.to.certificate {
            Some(CertificateFiles(certificate)) => Some(certificate.value().await),
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
            let http = client(&self.to, identity.clone())?;
            *current = (identity, http);
        }
        Ok(current.1.clone())
    }
}

fn client(to: &ForwardTo, identity: Option<Arc<Identity>>) -> Result<Http, TlsError> {
    let tls = Tls { trust: to.trust.clone(), server_name: to.server_name.clone(), identity };
    let versions = if to.http2 { Versions::All } else { Versions::Http1 };
    let connector = Connector::new(&tls, None, versions)?;
    Ok(legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(MOST_IDLE)
        .http2_keep_alive_interval(PING_AFTER)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_max_header_list_size(MOST_HEADER_BYTES)
        .http1_max_buf_size(MOST_HEADER_BYTES as usize)
        .build(connector))
}
