//! A server of a kubeconfig that requests of other clients are handed on to, with the credentials of the
//! kubeconfig in place of theirs.

use std::fmt;

use http::header::{AUTHORIZATION, HOST};
use http::uri::PathAndQuery;
use http::{Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;

use crate::client::shown;
use crate::credentials::{Credentials, Reread};
use crate::forward::{CertificateFiles, ForwardBody, ForwardError, ForwardTo, Forwarder};
use crate::tls::{Identity, Tls, TlsError};

/// A server that requests are handed on to. It is spoken to with HTTP/1.1, so that connections can be
/// upgraded.
pub struct Upstream {
    url: Uri,
    forwarder: Forwarder,
    credentials: Credentials,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("url", &self.url()).finish_non_exhaustive()
    }
}

impl Upstream {
    pub(crate) fn new(
        url: Uri,
        tls: Tls,
        credentials: Credentials,
        certificate: Option<Reread<Identity>>,
    ) -> Result<Self, TlsError> {
        let Tls { trust, server_name, .. } = tls;
        let certificate = certificate.map(CertificateFiles::reread);
        let forwarder = Forwarder::new(ForwardTo { trust, server_name, certificate, http2: false })?;
        Ok(Self { url, forwarder, credentials })
    }

    /// The address, for people.
    pub fn url(&self) -> String {
        shown(&self.url)
    }

    /// Sends a request to the server: to its path and query below the address of the server. Its host and its
    /// credentials are replaced. Certificates of plugins are not supported.
    pub async fn send(&self, mut request: Request<ForwardBody>) -> Result<Response<Incoming>, ForwardError> {
        let offered = self.credentials.next().await.map_err(ForwardError)?;
        if offered.identity.is_some() {
            return Err(ForwardError("certificates of plugins are not supported here".to_owned()));
        }
        *request.uri_mut() = self.at(request.uri().path_and_query())?;
        *request.version_mut() = Version::HTTP_11;
        request.headers_mut().remove(HOST);
        request.headers_mut().remove(AUTHORIZATION);
        if let Some(header) = &offered.header {
            request.headers_mut().insert(AUTHORIZATION, header.clone());
        }
        let response = self.forwarder.send(request, None).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            self.credentials.refused(&offered);
        }
        Ok(response)
    }

    /// The address of a path below that of the server.
    fn at(&self, path: Option<&PathAndQuery>) -> Result<Uri, ForwardError> {
        let failed = |error: &dyn fmt::Display| ForwardError(error.to_string());
        let mut parts = self.url.clone().into_parts();
        let below = path.map_or("/", PathAndQuery::as_str);
        let path = format!("{}{below}", self.url.path().trim_end_matches('/'));
        parts.path_and_query = Some(path.parse().map_err(|error| failed(&error))?);
        Uri::from_parts(parts).map_err(|error| failed(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http_body_util::{BodyExt as _, Empty, combinators::UnsyncBoxBody};

    fn upstream(url: &str) -> Upstream {
        let credentials = Credentials::Header(HeaderValue::from_static("Bearer own"));
        Upstream::new(url.parse().unwrap(), Tls::default(), credentials, None).unwrap()
    }

    #[test]
    fn paths_are_below_that_of_the_server() {
        for (url, path, wanted) in [
            ("https://a:1", "/api/v1?x=%2F", "https://a:1/api/v1?x=%2F"),
            ("https://a:1/", "/api", "https://a:1/api"),
            ("https://a:1/forks/f/", "/api", "https://a:1/forks/f/api"),
        ] {
            let at = upstream(url).at(Some(&path.parse().unwrap())).unwrap();
            assert_eq!(at.to_string(), wanted);
        }
        assert_eq!(upstream("https://a:1/x").at(None).unwrap().to_string(), "https://a:1/x/");
    }

    #[tokio::test]
    async fn credentials_of_the_client_are_replaced() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let served = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let count = socket.read(&mut request).await.unwrap();
            socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
            String::from_utf8(request[..count].to_vec()).unwrap().to_lowercase()
        });
        let empty = Empty::new().map_err(|never| match never {});
        let request = Request::get("https://elsewhere/api?a=b")
            .header(AUTHORIZATION, "Bearer theirs")
            .header(HOST, "elsewhere")
            .body(UnsyncBoxBody::new(empty))
            .unwrap();
        let response = upstream(&url).send(request).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ok");
        let sent = served.await.unwrap();
        assert!(sent.starts_with("get /api?a=b http/1.1\r\n"), "{sent}");
        assert!(sent.contains("authorization: bearer own\r\n") && !sent.contains("theirs"), "{sent}");
        assert!(sent.contains(&format!("host: {}\r\n", url.trim_start_matches("http://"))), "{sent}");
    }
}
