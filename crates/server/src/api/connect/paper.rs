//! Logs and commands of containers on nodes that exist on paper, which the server answers itself.

use http::HeaderValue;
use http::header::CONTENT_TYPE;
use kinds::{Action, Connect};
use registry::{Location, Target};
use streams::remote_command::Streams;
use streams::{Throttled, paper, websocket};

use super::upgrade::{accepted, ending};
use crate::api::Api;
use crate::takeover::Takeover;
use crate::{Body, Error, Request, Response, Status};

impl Api {
    /// Answers a request that concerns a container on paper.
    pub(super) fn on_paper(
        &self,
        request: &Request,
        target: &Target<'_>,
        location: &Location,
    ) -> Result<Response, Error> {
        match target.subresource().map(|subresource| &subresource.action) {
            Some(Action::Connect(Connect::Log)) => Ok(log(target, location)),
            Some(Action::Connect(connect @ (Connect::Exec | Connect::Attach))) => {
                self.command(request, *connect, target, location)
            }
            _ => Err(Status::unknown_resource().into()),
        }
    }

    /// Plays a command: the client is told what it asked for, and gets its input back.
    fn command(
        &self,
        request: &Request,
        connect: Connect,
        target: &Target<'_>,
        location: &Location,
    ) -> Result<Response, Error> {
        let headers = request.headers();
        let offered = |protocol: &&str| websocket::protocols(headers).any(|own| own == *protocol);
        let protocol = paper::PROTOCOLS.into_iter().find(offered).filter(|_| websocket::is_request(headers));
        let Some(protocol) = protocol else {
            let why = format!(
                "node {} exists on paper: commands there are answered over a WebSocket only ({})",
                location.host,
                paper::PROTOCOLS.join(" or ")
            );
            return Err(Status::bad_request(why).into());
        };
        let asked = match connect {
            Connect::Exec => format!("command: {}", location.query),
            _ => "attached".to_owned(),
        };
        let said = format!("{} {asked}", whereabouts(target, location));
        let command = location.command.unwrap_or_default();
        let streams = Streams {
            stdin: command.stdin,
            stdout: command.stdout,
            stderr: command.stderr,
            tty: command.tty,
        };
        let mut response = accepted(headers, protocol)?;
        let limit = self.config.stream_bytes_per_second;
        response.extensions_mut().insert(Takeover::new(move |client| async move {
            let client = Throttled::new(client, limit);
            if let Err(error) = paper::run(client, streams, &said, &ending(protocol, &[])).await {
                log::debug!(error:%; "a command on paper ended in the middle");
            }
        }));
        Ok(response)
    }
}

/// The log of a container that exists on paper.
fn log(target: &Target<'_>, location: &Location) -> Response {
    let text = format!("{} there are no logs.\n", whereabouts(target, location));
    let mut response = Response::new(Body::Whole(text.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

/// Which container it is, and why nothing else is said of it.
fn whereabouts(target: &Target<'_>, location: &Location) -> String {
    format!(
        "Container {} of pod {}/{} runs on node {}, which exists on paper: nothing runs there;",
        location.path,
        target.namespace(),
        target.name(),
        location.host
    )
}
