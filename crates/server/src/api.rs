//! The API: from an HTTP request to a verb of the registry, and back to a response.
//!
//! The API parses the request (`request_info`), finds the route (`routes`), authorizes the user, who learns
//! only then whether the route exists, negotiates the media type of the response (`negotiate`), calls the
//! verb (`dispatch`), and encodes the result (`represent`, `list_body`, `watch_body`). Requests for
//! connections to pods, nodes and services are forwarded (`connect`), and so are requests for the group
//! versions of other API servers (`aggregated`).

mod aggregated;
mod audited;
pub(crate) mod compress;
mod connect;
pub use connect::{Backends, KubeletClient};
mod decode;
mod deprecated;
mod discovery;
mod dispatch;
mod in_use;
mod list_body;
mod openapi;
mod represent;
pub(crate) use represent::status_body;
mod routes;
pub(crate) use routes::Route;
#[cfg(test)]
pub(crate) mod testing;
mod traced;
mod watch_body;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use aggregation::Aggregation;
use registry::Registry;

use crate::large::LargeWork;
use crate::layers;
use crate::negotiate::Negotiator;
use crate::request_info::{IncompletePath, RequestInfo};
use crate::unsent::Payer;
use crate::{Error, Handler, Lifecycle, Request, Response};
use discovery::Documents;

/// The handler of the API.
pub struct Api {
    registry: Arc<Registry>,
    lifecycle: Lifecycle,
    config: ApiConfig,
    documents: Arc<Documents>,
    large: LargeWork,
    backends: Arc<Backends>,
    /// Other API servers, which serve some group versions.
    aggregation: Option<Arc<Aggregation>>,
}

/// The options of the API.
#[derive(Debug, Clone)]
pub struct ApiConfig {
    /// The timeout of requests that are not long-running.
    pub request_timeout: Duration,
    /// The least duration of a watch without `timeoutSeconds`.
    pub shortest_watch: Duration,
    /// Whether requests and responses may be in CBOR.
    pub cbor: bool,
    /// Whether large responses are compressed for clients that accept gzip.
    pub compression: bool,
    /// How many bytes per second a command or a forwarded port may carry in each direction.
    pub stream_bytes_per_second: Option<NonZeroU64>,
    /// The host and port that `/api` tells clients. Without them, those that the client asked for.
    pub external_address: Option<String>,
    /// Paths of other layers, for the list at `/`.
    pub further_paths: Vec<&'static str>,
}

impl Api {
    /// The API of a registry, with the clients for its backends.
    pub fn new(registry: Arc<Registry>, lifecycle: Lifecycle, config: ApiConfig, backends: Backends) -> Self {
        let (documents, large) = (Arc::default(), LargeWork::default());
        let (backends, aggregation) = (Arc::new(backends), None);
        Self { registry, lifecycle, config, documents, large, backends, aggregation }
    }

    /// The same API with the group versions of other servers.
    #[must_use]
    pub fn with_aggregation(self, aggregation: Option<Arc<Aggregation>>) -> Self {
        Self { aggregation, ..self }
    }

    fn negotiator(&self) -> Negotiator {
        Negotiator { cbor: self.config.cbor, compression: self.config.compression, custom: false }
    }

    async fn respond(&self, request: Request) -> Result<Response, Error> {
        let Some(path) = request.context.path.clone() else {
            return Err(Error::InvalidPath);
        };
        let caller = layers::caller(&request)?.clone();
        let remote = self.aggregation.as_ref().and_then(|aggregation| aggregation.find(&path));
        match RequestInfo::parse(request.method(), &path, request.query()) {
            Ok(info) if let Some(remote) = remote => {
                Box::pin(self.aggregated(request, caller, info, &remote)).await
            }
            Ok(info) if info.is_resource_request => self.resource(request, caller, info).await,
            Ok(info) => {
                let observation = request.context.observation.clone();
                let response = self.non_resource(request, caller, info).await?;
                audited::document(&observation, &path, &response);
                Ok(response)
            }
            Err(IncompletePath) => Err(Error::incomplete_path(request.uri())),
        }
    }
}

impl Handler for Api {
    async fn handle(&self, mut request: Request) -> Result<Response, Error> {
        if self.config.cbor {
            request.context.error_format = self.negotiator().error_format(&request.context.preferences);
        }
        let format = request.context.error_format;
        let payer = Payer::of(&request);
        let expected = payer.admit(|| self.timeout(&request).ok()).await?;
        let response = match self.respond(request).await {
            Err(error @ Error::Status(_)) => error.into_response(format),
            other => other?,
        };
        let response = payer.charge_whole(response);
        drop(expected);
        Ok(response)
    }
}

#[cfg(test)]
mod tests;
