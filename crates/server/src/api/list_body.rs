//! The response to a list: encoded in chunks while it is sent, each object copied once.
//!
//! 1. A list takes the memory of one chunk, however long it is. If its size must be known before its start (Protobuf, CBOR), or
//!    its rows are sorted, it also takes a pointer for each object.
//! 2. Encoding yields to other tasks between steps.
//! 3. It holds the state that it shows until it is sent. [`Pins`] bounds what that costs.
//! 4. An error before the first chunk is an error response; a later error ends the response in the middle.

mod frame;
mod item;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use auth::BoxFuture;
use bytes::Bytes;
use cache::Entry;
use http::StatusCode;
use http_body::Frame as BodyFrame;
use registry::List;
use schema::Status;

use super::compress::{self, Coding, Compressor, THRESHOLD};
use super::negotiate::{Format, Transform, TransformKind};
use super::represent::form::LongForm;
use super::represent::{View, table};
use crate::body::StreamError;
use crate::sending::Pins;
use crate::{Body, Response};
use frame::ListFrame;
use item::ItemEncoding;

/// The approximate size of a chunk.
const CHUNK: usize = 64 * 1024;
/// How many objects are measured in one step.
const MEASURED_PER_STEP: usize = 64;

/// The response to a list.
pub(crate) async fn respond(view: View, list: List, coding: Coding) -> Result<Response, Status> {
    let media_type = view.accept.format.media_type();
    let pins = Pins::newest(&view.cache);
    let mut producer = Producer::new(view, list)?;
    let mut chunks = VecDeque::new();
    let mut size = 0;
    let enough = if coding == Coding::Gzip { THRESHOLD } else { 0 };
    loop {
        match producer.step()? {
            Step::Again => tokio::task::yield_now().await,
            Step::Convert(entries) => producer.view.convert_ahead(&entries).await?,
            Step::Chunk(bytes) => {
                size += bytes.len();
                chunks.push_back(bytes);
                if size > enough {
                    break;
                }
            }
            Step::Last(bytes) => {
                chunks.push_back(bytes);
                let body = match chunks.len() {
                    1 => chunks.pop_front().unwrap_or_default(),
                    _ => chunks
                        .iter()
                        .fold(Vec::new(), |mut all, chunk| {
                            all.extend_from_slice(chunk);
                            all
                        })
                        .into(),
                };
                return Ok(compress::whole(StatusCode::OK, media_type, body, coding));
            }
        }
    }
    let compressor = (coding == Coding::Gzip).then(Compressor::new);
    let is_compressed = compressor.is_some();
    let body = ListBody { producer: Some(producer), chunks, compressor, converting: None };
    let mut response =
        compress::response(StatusCode::OK, media_type, Body::Stream(Box::pin(body)), is_compressed);
    response.extensions_mut().insert(pins);
    Ok(response)
}

/// The result of a step of the producer.
enum Step {
    /// Bytes.
    Chunk(Bytes),
    /// The last bytes.
    Last(Bytes),
    /// No bytes yet.
    Again,
    /// These objects have to be converted before they are written.
    Convert(Vec<Arc<Entry>>),
}

/// Encodes a list.
struct Producer {
    view: View,
    item: ItemEncoding,
    state: State,
    list: ListMeta,
    /// Objects that were taken from the list and converted, of a kind whose conversion waits.
    ahead: std::vec::IntoIter<Arc<Entry>>,
}

/// The metadata of a list.
struct ListMeta {
    revision: String,
    token: String,
    remaining: Option<usize>,
}

enum State {
    /// Measuring the objects, before the start is written.
    Measuring { rest: cache::List, measured: Vec<Arc<Entry>>, size: usize },
    /// Writing; `long` is the object that is written in parts.
    Writing { rest: Remaining, buffer: Vec<u8>, frame: ListFrame, any: bool, long: Option<Box<LongForm>> },
    /// Everything is written.
    Done,
}

enum Remaining {
    Lazy(cache::List),
    Measured(std::vec::IntoIter<Arc<Entry>>),
}

impl Iterator for Remaining {
    type Item = Arc<Entry>;

    fn next(&mut self) -> Option<Arc<Entry>> {
        match self {
            Self::Lazy(list) => list.next(),
            Self::Measured(entries) => entries.next(),
        }
    }
}

impl Producer {
    fn new(view: View, list: List) -> Result<Self, Status> {
        let List { objects, token, remaining } = list;
        if let Some(Transform { kind: TransformKind::Partial, .. }) = view.accept.transform {
            return Err(Status::not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({})",
                super::decode::go_name(&view.served.group, &view.served.list_kind)
            )));
        }
        let list = ListMeta { revision: objects.revision.0.to_string(), token, remaining };
        let item = ItemEncoding::of(view.accept);
        let state = match view.accept.format {
            Format::Protobuf | Format::Cbor => {
                State::Measuring { rest: objects, measured: Vec::new(), size: 0 }
            }
            Format::Json | Format::Pretty | Format::Yaml => {
                let rest = match (view.accept.transform, view.served.row_order) {
                    (Some(Transform { kind: TransformKind::Table, .. }), Some(order)) => {
                        Remaining::Measured(ordered(&view, objects, order)?.into_iter())
                    }
                    _ => Remaining::Lazy(objects),
                };
                Self::start(&view, &list, rest, frame::Measure::default())?
            }
        };
        Ok(Self { view, item, state, list, ahead: Vec::new().into_iter() })
    }

    fn start(
        view: &View,
        list: &ListMeta,
        rest: Remaining,
        measure: frame::Measure,
    ) -> Result<State, Status> {
        let frame = ListFrame::new(view, list, measure)?;
        let mut buffer = Vec::with_capacity(CHUNK + CHUNK / 4);
        buffer.extend_from_slice(&frame.before);
        Ok(State::Writing { rest, buffer, frame, any: false, long: None })
    }

    fn step(&mut self) -> Result<Step, Status> {
        let waits = self.view.converted.is_some();
        match &mut self.state {
            State::Measuring { rest, measured, size } => {
                if waits && self.ahead.len() == 0 {
                    let next: Vec<_> = rest.by_ref().take(MEASURED_PER_STEP).collect();
                    if !next.is_empty() {
                        self.ahead = next.clone().into_iter();
                        return Ok(Step::Convert(next));
                    }
                }
                for entry in
                    self.ahead.by_ref().chain(rest.by_ref().take(if waits { 0 } else { MEASURED_PER_STEP }))
                {
                    *size += self.item.size(&self.view, &entry)?;
                    measured.push(entry);
                }
                if (waits || measured.len().is_multiple_of(MEASURED_PER_STEP))
                    && rest.size_hint().1 != Some(0)
                {
                    return Ok(Step::Again);
                }
                let measure = frame::Measure { count: measured.len(), size: *size };
                let measured = std::mem::take(measured).into_iter();
                self.state = Self::start(&self.view, &self.list, Remaining::Measured(measured), measure)?;
                Ok(Step::Again)
            }
            State::Writing { rest, buffer, frame, any, long } => {
                while buffer.len() < CHUNK {
                    if let Some(form) = long {
                        if form.write(buffer, CHUNK)? {
                            *long = None;
                        }
                        continue;
                    }
                    if waits && self.ahead.len() == 0 {
                        let next: Vec<_> = rest.by_ref().take(MEASURED_PER_STEP).collect();
                        if !next.is_empty() {
                            self.ahead = next.clone().into_iter();
                            return Ok(Step::Convert(next));
                        }
                    }
                    let Some(entry) = self.ahead.next().or_else(|| rest.next()) else {
                        if *any {
                            buffer.extend_from_slice(&frame.after);
                        } else {
                            *buffer = std::mem::take(&mut frame.empty);
                        }
                        let last = std::mem::take(buffer);
                        self.state = State::Done;
                        return Ok(Step::Last(last.into()));
                    };
                    if std::mem::replace(any, true) {
                        buffer.extend_from_slice(frame.separator);
                    }
                    *long = self.item.write(&self.view, &entry, buffer)?;
                }
                let full = std::mem::replace(buffer, Vec::with_capacity(CHUNK + CHUNK / 4));
                Ok(Step::Chunk(full.into()))
            }
            State::Done => Ok(Step::Last(Bytes::new())),
        }
    }
}

/// The objects in the order of their kind's table rows. Kinds with such an order have few objects.
fn ordered(
    view: &View,
    objects: cache::List,
    order: fn(&object::Map) -> i64,
) -> Result<Vec<Arc<Entry>>, Status> {
    let mut keyed = Vec::new();
    for entry in objects {
        let Some(stored) = &view.served.stored else { continue };
        keyed.push((order(table::map_of(&stored.decode_now(&entry)?)), entry));
    }
    keyed.sort_by(|(a, one), (b, other)| a.cmp(b).then_with(|| one.name().cmp(other.name())));
    Ok(keyed.into_iter().map(|(_, entry)| entry).collect())
}

/// The body of a list that is longer than a chunk.
struct ListBody {
    /// `None` after the last step.
    producer: Option<Producer>,
    /// Chunks that are encoded and not compressed yet.
    chunks: VecDeque<Bytes>,
    compressor: Option<Compressor>,
    /// A conversion that is under way.
    converting: Option<BoxFuture<'static, Result<(), Status>>>,
}

impl ListBody {
    /// The next bytes; none at the end.
    fn next(&mut self) -> Result<Option<Step>, StreamError> {
        let chunk = match self.chunks.pop_front() {
            Some(chunk) => chunk,
            None => {
                let Some(producer) = &mut self.producer else { return Ok(None) };
                match producer.step().map_err(|status| status.message)? {
                    again @ (Step::Again | Step::Convert(_)) => return Ok(Some(again)),
                    Step::Chunk(chunk) => chunk,
                    Step::Last(chunk) => {
                        self.producer = None;
                        let Some(mut compressor) = self.compressor.take() else {
                            return Ok(Some(Step::Last(chunk)));
                        };
                        let rest = compressor.push(&chunk)?;
                        let end = compressor.finish()?;
                        return Ok(Some(Step::Last([rest, end].concat().into())));
                    }
                }
            }
        };
        Ok(Some(match &mut self.compressor {
            None => Step::Chunk(chunk),
            Some(compressor) => match compressor.push(&chunk)? {
                none if none.is_empty() => Step::Again,
                some => Step::Chunk(some),
            },
        }))
    }
}

impl http_body::Body for ListBody {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, StreamError>>> {
        let this = self.get_mut();
        loop {
            if let Some(converting) = &mut this.converting {
                match std::task::ready!(converting.as_mut().poll(cx)) {
                    Ok(()) => this.converting = None,
                    Err(status) => return Poll::Ready(Some(Err(status.message.into()))),
                }
            }
            return match this.next() {
                Ok(None) => Poll::Ready(None),
                Ok(Some(Step::Again)) => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                Ok(Some(Step::Convert(entries))) => {
                    let view = this.producer.as_ref().map(|producer| producer.view.clone());
                    this.converting = view.map(|view| -> BoxFuture<'static, _> {
                        Box::pin(async move { view.convert_ahead(&entries).await })
                    });
                    continue;
                }
                Ok(Some(Step::Chunk(bytes) | Step::Last(bytes))) => {
                    Poll::Ready(Some(Ok(BodyFrame::data(bytes))))
                }
                Err(error) => Poll::Ready(Some(Err(error))),
            };
        }
    }

    fn is_end_stream(&self) -> bool {
        self.producer.is_none() && self.chunks.is_empty()
    }
}

#[cfg(test)]
mod tests;
