//! A server with the credentials for it.

use crate::Error;
use crate::client::{Answer, Bounds, Client, Resolve};
use crate::credentials::{Credentials, Reread, Shown};
use crate::tls::{Identity, Tls, TlsError, Trust};
use bytes::Bytes;
use http::{StatusCode, Uri};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout_at;

/// A server that is not in a kubeconfig.
#[derive(Clone)]
pub struct Peer {
    /// The address of the server.
    pub url: Uri,
    /// The authorities that may have signed the certificate of the server, in PEM; those of the host if
    /// empty.
    pub authorities: Vec<u8>,
    /// The name that its certificate has to be for, if it is not that of its address.
    pub server_name: Option<String>,
    /// Finds where to connect to, if that is not its address.
    pub resolve: Option<Resolve>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Peer {
    pub(crate) fn tls(&self) -> Result<Tls, TlsError> {
        let trust = match self.authorities.is_empty() {
            true => Trust::System,
            false => Trust::from_pem(&self.authorities)?,
        };
        Ok(Tls { trust, server_name: self.server_name.clone(), identity: None })
    }
}

/// A server with the credentials for it, as a kubeconfig describes them. Another certificate makes new
/// connections; another token does not.
pub struct Endpoint {
    url: Uri,
    tls: Tls,
    resolve: Option<Resolve>,
    credentials: Credentials,
    certificate: Option<Reread<Identity>>,
    client: Mutex<Current>,
}

/// The client, and the certificate that it was made with.
struct Current {
    identity: Option<Arc<Identity>>,
    client: Client,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.url()).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// A server and its credentials. `tls` has no identity: that is one of the credentials.
    pub(crate) fn new(
        url: Uri,
        tls: Tls,
        credentials: Credentials,
        certificate: Option<Reread<Identity>>,
    ) -> Result<Self, TlsError> {
        let client = Mutex::new(Current { identity: None, client: Client::new(&tls)? });
        Ok(Self { url, tls, resolve: None, credentials, certificate, client })
    }

    /// A server that gets no credentials.
    pub fn without_credentials(peer: Peer) -> Result<Self, TlsError> {
        Self::of_peer(peer, Credentials::None, None)
    }

    pub(crate) fn of_peer(
        peer: Peer,
        credentials: Credentials,
        certificate: Option<Reread<Identity>>,
    ) -> Result<Self, TlsError> {
        let tls = peer.tls()?;
        let Peer { url, resolve, .. } = peer;
        let client = Client::with_resolver(&tls, resolve.clone())?;
        let client = Mutex::new(Current { identity: None, client });
        Ok(Self { url, tls, resolve, credentials, certificate, client })
    }

    /// The address, for people.
    pub fn url(&self) -> String {
        crate::client::shown(&self.url)
    }

    /// Sends JSON to the address of the server, which only says whether it has taken it. Its text in an
    /// error comes without the credentials that were sent.
    pub async fn deliver(&self, body: Bytes, timeout: Duration) -> Result<(), Error> {
        let bounds = Bounds::within(timeout, crate::webhook::MOST_BYTES);
        let (answer, shown) = self.post_json("timeout=30s", body, bounds).await?;
        crate::webhook::check_status(&answer, [shown.token().unwrap_or_default(), ""])
    }

    /// Sends JSON to the address of the server, with a query. With the answer come the credentials that were
    /// sent.
    pub(crate) async fn post_json(
        &self,
        query: &str,
        body: Bytes,
        bounds: Bounds,
    ) -> Result<(Answer, Shown), Error> {
        self.post_json_to(self.url.path().trim_end_matches('/'), query, body, bounds).await
    }

    /// Sends JSON to a path of the server, with a query. With the answer come the credentials that were sent.
    pub(crate) async fn post_json_to(
        &self,
        path: &str,
        query: &str,
        body: Bytes,
        bounds: Bounds,
    ) -> Result<(Answer, Shown), Error> {
        let url = self.at(path, query)?;
        let prepared = timeout_at(bounds.deadline, async {
            let shown = self.credentials.next().await.map_err(Error::Credentials)?;
            let identity = match &self.certificate {
                Some(certificate) => Some(certificate.value().await),
                None => shown.identity.clone(),
            };
            Ok((self.client(identity)?, shown))
        });
        let (client, shown) = prepared.await.unwrap_or_else(|_| {
            Err(Error::Credentials("there were none before the deadline of the request".into()))
        })?;
        let answer = client.post_json(&url, shown.header.as_ref(), body, bounds).await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            self.credentials.refused(&shown);
        }
        Ok((answer, shown))
    }

    /// The address with a path and a query in place of its own.
    fn at(&self, path: &str, query: &str) -> Result<Uri, Error> {
        let path = if path.is_empty() { "/" } else { path };
        let mut parts = self.url.clone().into_parts();
        let path = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        parts.path_and_query = Some(path.parse().map_err(|error| Error::Request(format!("{error}")))?);
        Uri::from_parts(parts).map_err(|error| Error::Request(error.to_string()))
    }

    /// The client with a certificate: the known one, or a new one if the certificate is another.
    fn client(&self, identity: Option<Arc<Identity>>) -> Result<Client, Error> {
        let mut current = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if current.identity != identity {
            let tls = Tls { identity: identity.clone(), ..self.tls.clone() };
            let client = Client::with_resolver(&tls, self.resolve.clone());
            let client = client.map_err(|error| Error::Credentials(error.to_string()))?;
            *current = Current { identity, client };
        }
        Ok(current.client.clone())
    }
}
