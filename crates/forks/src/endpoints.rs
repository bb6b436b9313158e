//! What a server says of its forks over HTTP.
//!
//! | request | answer |
//! |---|---|
//! | `POST /keelson/v1/forks` | 201, a fork of the server as it is now |
//! | `GET /keelson/v1/forks` | all of them |
//! | `GET /keelson/v1/forks/NAME` | one |
//! | `DELETE /keelson/v1/forks/NAME` | the one that was dropped |
//! | `POST /keelson/v1/forks/NAME/reset` | the one that begins anew |
//! | `GET /keelson/v1/forks/NAME/backup` | a backup of its objects, which `keelson restore` takes |
//! | `GET /keelson/v1/forks/NAME/kubeconfig` | how clients reach it, without credentials |

use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderValue};
use http::{Method, StatusCode};
use http_body::Frame;
use schema::{Status, json};
use server::body::{self, Limit, StreamError};
use server::forks::{DynHandler, PATH};
use server::{Body, Error, Request, Response};
use store::Store;
use store::backup::Writer;
use tasks::BoxFuture;
use tokio::sync::mpsc;

use crate::fork::Fork;
use crate::{ForkRequest, Forks, Table, kubeconfig};

/// The longest body of a request.
const LONGEST: usize = 64 << 10;
/// How many pieces of a backup wait to be sent.
const PIECES: usize = 4;
/// The size of a piece of a backup.
const PIECE: usize = 256 << 10;

impl server::forks::Forks for Forks {
    fn find(&self, name: &str) -> Option<Arc<dyn DynHandler>> {
        let fork = self.0.as_ref()?.find(name).ok()?;
        Some(fork)
    }

    fn answer<'a>(
        &'a self,
        path: &'a str,
        request: &'a mut Request,
    ) -> BoxFuture<'a, Result<Response, Error>> {
        Box::pin(async move { respond(self.table()?, path, request).await })
    }
}

async fn respond(table: &Arc<Table>, path: &str, request: &mut Request) -> Result<Response, Error> {
    let root = root(request);
    let method = request.method().clone();
    let mut segments = path.trim_matches('/').split('/').filter(|segment| !segment.is_empty());
    let (name, verb, rest) = (segments.next(), segments.next(), segments.next());
    let is = |wanted: Method| method == wanted || (wanted == Method::GET && method == Method::HEAD);
    match (name, verb, rest) {
        (None, ..) if is(Method::GET) => {
            let items: Vec<String> = table.all().iter().map(|fork| shown(fork, &root)).collect();
            Ok(answer(StatusCode::OK, format!(r#"{{"items":[{}]}}"#, items.join(","))))
        }
        (None, ..) if is(Method::POST) => {
            let limit = Limit { bytes: LONGEST, ..Limit::OBJECT };
            let body = body::read(&mut request.body, limit).await?;
            let asked = ForkRequest::read(&body).map_err(Status::bad_request)?;
            Ok(answer(StatusCode::CREATED, shown(&*table.create(asked)?, &root)))
        }
        (Some(name), None, _) if is(Method::GET) => {
            Ok(answer(StatusCode::OK, shown(&*table.find(name)?, &root)))
        }
        (Some(name), None, _) if is(Method::DELETE) => {
            Ok(answer(StatusCode::OK, shown(&*table.remove(name)?, &root)))
        }
        (Some(name), Some("reset"), None) if is(Method::POST) => {
            let fork = table.find(name)?;
            fork.reset()?;
            Ok(answer(StatusCode::OK, shown(&fork, &root)))
        }
        (Some(name), Some("backup"), None) if is(Method::GET) => Ok(backup(table, &*table.find(name)?)),
        (Some(name), Some("kubeconfig"), None) if is(Method::GET) => {
            let fork = table.find(name)?;
            let text =
                kubeconfig::without_credentials(&fork.name, &url(&root, &fork.name), &(table.authority)());
            Ok(typed(StatusCode::OK, "application/yaml", text.into()))
        }
        // Requests into a fork come here if there is none of the name.
        (Some(name), Some("server"), _) => {
            Err(table.find(name).map_or_else(Error::from, |_| Error::UnknownPath))
        }
        (None, ..) | (Some(_), None | Some("reset" | "backup" | "kubeconfig"), None) => {
            Err(Status::method_not_allowed().into())
        }
        _ => Err(Error::UnknownPath),
    }
}

/// The URL of the server, as the client has asked for it.
fn root(request: &Request) -> String {
    let asked = request.uri().authority().map(|authority| authority.as_str().to_owned());
    format!("https://{}", asked.unwrap_or_else(|| request.header(HOST).to_owned()))
}

/// The URL of a fork.
pub(crate) fn url(root: &str, name: &str) -> String {
    format!("{root}{PATH}/{name}/server")
}

/// A fork, as it is shown.
pub(crate) fn shown(fork: &Fork, root: &str) -> String {
    format!(
        r#"{{"name":{},"server":{},"revision":"{}","createdAt":"{}"}}"#,
        json::string(&fork.name),
        json::string(&url(root, &fork.name)),
        fork.revision(),
        fork.created,
    )
}

fn answer(code: StatusCode, text: String) -> Response {
    typed(code, "application/json", (text + "\n").into())
}

fn typed(code: StatusCode, media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// The objects of a fork as they are now, written while they are sent.
fn backup(table: &Arc<Table>, fork: &Fork) -> Response {
    let (sender, receiver) = mpsc::channel(PIECES);
    let (table, store, name) = (table.clone(), fork.store(), fork.name.clone());
    // Nothing waits for the thread: it ends when all is sent, or its receiver is gone.
    drop(tokio::task::spawn_blocking(move || {
        let mut pieces = Pieces { sender: sender.clone(), piece: Vec::with_capacity(PIECE) };
        if let Err(error) = write(&table, &*store, &mut pieces) {
            log::warn!(fork = name.as_str(), error:%; "a backup of a fork was not finished");
            // The receiver may be the reason.
            let _ = sender.blocking_send(Err(Box::new(error)));
        }
    }));
    typed(StatusCode::OK, "application/octet-stream", Body::Stream(Box::pin(Received(receiver))))
}

/// Writes a backup of a fork: as one of the parent, encrypted if that is.
pub(crate) fn write(table: &Table, store: &dyn Store, to: &mut dyn Write) -> Result<(), store::Error> {
    let mut writer = Writer::new(to)?;
    let mut failed = None;
    let revision = store.load(b"", None, &mut |entry| {
        let sealed = match (&table.sealed, entry) {
            (Some(codec), Ok(entry)) => match codec.encode_value(&entry.key, entry.value.clone()) {
                Ok(value) => Ok(Ok(store::Entry { value, ..entry })),
                Err(reason) => Err(store::Error::Unencodable { key: entry.key, reason }),
            },
            (_, entry) => Ok(entry),
        };
        match sealed.and_then(|entry| writer.add(entry)) {
            Ok(()) => std::ops::ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                std::ops::ControlFlow::Break(())
            }
        }
    })?;
    match failed {
        Some(error) => Err(error),
        None => writer.finish(revision).map(drop),
    }
}

type Piece = Result<Bytes, StreamError>;

/// Hands what is written to the body of a response, piece by piece.
struct Pieces {
    sender: mpsc::Sender<Piece>,
    piece: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        if piece.is_empty() {
            return Ok(());
        }
        let gone = |_| std::io::Error::new(std::io::ErrorKind::BrokenPipe, "the client is gone");
        self.sender.blocking_send(Ok(piece.into())).map_err(gone)
    }
}

/// The body of a response whose pieces another thread makes.
struct Received(mpsc::Receiver<Piece>);

impl http_body::Body for Received {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
