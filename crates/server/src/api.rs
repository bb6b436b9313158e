//! The API: what lies between HTTP and the verbs.
//!
//! A request's path is read (`path`), its caller authorized, its route found (`routes`), the form of its answer chosen
//! (`negotiate`), its verb called (`dispatch`), and the outcome written in that form.

mod compress;
mod decode;
mod dispatch;
mod documents;
mod list_body;
pub(crate) mod negotiate;
pub(crate) mod path;
mod represent;
mod routes;
mod specs;
#[cfg(test)]
mod testing;
mod watch_body;

use std::sync::Arc;
use std::time::Duration;

use auth::Authenticated;
use http::StatusCode;
use registry::Registry;

use crate::error::plain_text;
use crate::layers::NoCacheControl;
use crate::{Error, Handler, Lifecycle, Request, Response, Status};
use documents::Documents;
use path::Path;

/// The handler of the API.
pub struct Api {
    registry: Arc<Registry>,
    lifecycle: Lifecycle,
    settings: Settings,
    documents: Arc<Documents>,
}

/// What can be set about the API.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How long a request may take that is not a watch.
    pub request_timeout: Duration,
    /// The least time after which a watch that does not say how long it takes is ended.
    pub shortest_watch: Duration,
    /// Whether CBOR is served and taken.
    pub cbor: bool,
    /// Whether large answers are compressed for those who ask.
    pub compression: bool,
}

impl Api {
    /// The API of a registry.
    pub fn new(registry: Arc<Registry>, lifecycle: Lifecycle, settings: Settings) -> Self {
        Self { registry, lifecycle, settings, documents: Arc::default() }
    }

    fn negotiation(&self) -> negotiate::Settings {
        negotiate::Settings { cbor: self.settings.cbor, compression: self.settings.compression }
    }

    async fn respond(&self, request: Request) -> Result<Response, Error> {
        let Some(decoded) = path::decode(request.path()) else {
            return Ok(plain_text(StatusCode::BAD_REQUEST, "400 Bad Request"));
        };
        let decoded = decoded.into_owned();
        let caller = request.head.extensions.get::<Authenticated>().cloned();
        let caller = caller.ok_or_else(Status::unauthorized)?;
        match Path::parse(&decoded) {
            Path::Resource(resource) => self.resource(request, caller, resource).await,
            Path::Incomplete => {
                let written = request.uri().path_and_query().map_or("/", |written| written.as_str());
                let message = path::incomplete_message(written);
                let mut response = plain_text(StatusCode::INTERNAL_SERVER_ERROR, message);
                response.extensions_mut().insert(NoCacheControl);
                Ok(response)
            }
            Path::NonResource(path) => self.non_resource(request, caller, path).await,
        }
    }
}

/// A refusal outside of the API's own paths, as the request wants it to be written.
pub(crate) fn refusal(request: &Request, status: &Status) -> Response {
    let settings = negotiate::Settings::default();
    let form = settings.error_form(&negotiate::Wanted::of(request.headers(), request.query()));
    represent::status_response(status, form)
}

impl Handler for Api {
    async fn handle(&self, request: Request) -> Result<Response, Error> {
        let form = self.negotiation().error_form(&negotiate::Wanted::of(request.headers(), request.query()));
        match self.respond(request).await {
            Err(Error::Status(status)) => Ok(represent::status_response(&status, form)),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests;
