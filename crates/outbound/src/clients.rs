//! Connections to webhooks: one client for each server, trust and credentials, shared by all webhooks that
//! have these.

use crate::client::Resolve;
use crate::endpoint::{Endpoint, Peer};
use crate::kubeconfig::Kubeconfig;
use schema::views::admissionregistration::v1::WebhookClientConfig;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The most clients that are kept while no webhook uses them.
const MOST_KEPT: usize = 200;

/// Finds host and port of a service of the cluster, or says why it has none.
pub type ResolveService = Arc<dyn Fn(&Service) -> Result<String, String> + Send + Sync>;

/// The server of a webhook, from its `clientConfig`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookServer {
    address: Address,
    authorities: Vec<u8>,
    /// The path of its requests.
    pub path: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    /// `https://HOST:PORT`.
    Url(String),
    Service(Service),
    /// Neither; validation refuses such a configuration.
    Missing,
}

/// A service of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The port.
    pub port: i64,
}

impl WebhookServer {
    /// The server of a configuration. Those of admission and of conversions have the same fields.
    pub fn new(config: WebhookClientConfig<'_>) -> Self {
        let (address, path) = match (config.service(), config.url()) {
            (Some(service), _) => {
                let address = Address::Service(Service {
                    namespace: service.namespace().to_owned(),
                    name: service.name().to_owned(),
                    port: service.port().filter(|port| *port != 0).unwrap_or(443),
                });
                (address, service.path().unwrap_or_default().to_owned())
            }
            (None, Some(url)) => {
                let host = url.find("://").map_or(0, |at| at + 3);
                let rest = url.get(host..).unwrap_or_default();
                let end = rest.find(['/', '?', '#']).map_or(url.len(), |at| host + at);
                let (address, path) = url.split_at_checked(end).unwrap_or((url, ""));
                let path = path.split(['?', '#']).next().unwrap_or_default();
                (Address::Url(address.to_owned()), path.to_owned())
            }
            (None, None) => (Address::Missing, String::new()),
        };
        let path = format!("/{}", path.trim_matches('/'));
        Self { address, authorities: config.ca_bundle().to_vec(), path }
    }

    /// Whether both servers use the same client.
    fn shares_client_with(&self, other: &Self) -> bool {
        self.address == other.address && self.authorities == other.authorities
    }
}

/// All clients.
pub struct WebhookClients {
    /// The credentials.
    kubeconfig: Option<Kubeconfig>,
    services: ResolveService,
    /// The most recently used client is the last.
    kept: Mutex<Vec<(WebhookServer, Arc<Endpoint>)>>,
}

impl fmt::Debug for WebhookClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookClients").finish_non_exhaustive()
    }
}

impl WebhookClients {
    /// Clients with the credentials of a kubeconfig, or without any.
    pub fn new(kubeconfig: Option<Kubeconfig>, services: ResolveService) -> Self {
        Self { kubeconfig, services, kept: Mutex::default() }
    }

    /// The client for a server, or why there is none.
    pub fn get(&self, server: &WebhookServer) -> Result<Arc<Endpoint>, String> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.iter().position(|(own, _)| own.shares_client_with(server)) {
            let found = kept.remove(at);
            let client = found.1.clone();
            kept.push(found);
            return Ok(client);
        }
        let client = Arc::new(self.make(server)?);
        if kept.len() >= MOST_KEPT {
            kept.remove(0);
        }
        kept.push((server.clone(), client.clone()));
        Ok(client)
    }

    fn make(&self, server: &WebhookServer) -> Result<Endpoint, String> {
        let peer = match &server.address {
            Address::Missing => {
                return Err("webhook configuration must have either service or URL".to_owned());
            }
            Address::Url(url) => Peer {
                url: url.parse().map_err(|error| format!("Unparsable URL: {error}"))?,
                authorities: server.authorities.clone(),
                server_name: None,
                resolve: None,
            },
            Address::Service(service) => {
                let Service { namespace, name, port } = service;
                let host = format!("{name}.{namespace}.svc");
                let (services, service) = (self.services.clone(), service.clone());
                let resolve: Resolve = Arc::new(move || services(&service));
                let url = format!("https://{host}:{port}");
                Peer {
                    url: url.parse().map_err(|error| format!("{url}: {error}"))?,
                    authorities: server.authorities.clone(),
                    server_name: Some(host),
                    resolve: Some(resolve),
                }
            }
        };
        match &self.kubeconfig {
            Some(kubeconfig) => kubeconfig.endpoint_of(peer).map_err(|error| error.to_string()),
            None => Endpoint::without_credentials(peer).map_err(|error| error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::view::View as _;
    use schema::{Limits, json};

    fn server(text: &str) -> WebhookServer {
        let ty = WebhookClientConfig::schema();
        let decoded = json::decode(ty, text.as_bytes(), &Limits::REQUEST).unwrap().value;
        WebhookServer::new(WebhookClientConfig::of(decoded.as_map().unwrap()))
    }

    #[test]
    fn address_and_path_are_apart() {
        for (url, address, path) in [
            ("https://a.example.com:8443/x/y/", "https://a.example.com:8443", "/x/y"),
            ("https://a.example.com", "https://a.example.com", "/"),
            ("https://[::1]:1/", "https://[::1]:1", "/"),
        ] {
            let server = server(&format!(r#"{{"url":"{url}"}}"#));
            assert_eq!(server.address, Address::Url(address.to_owned()));
            assert_eq!(server.path, path);
        }
        let service = server(r#"{"service":{"namespace":"n","name":"s","path":"x"}}"#);
        assert_eq!(service.path, "/x");
        assert!(matches!(service.address, Address::Service(Service { port: 443, .. })));
        let other = server(r#"{"service":{"namespace":"n","name":"s","path":"y"}}"#);
        assert!(service.shares_client_with(&other));
    }
}
