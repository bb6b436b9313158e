//! The response to a list: encoded in chunks while it is sent, each small object copied once, large ones not
//! at all.
//!
//! 1. A list takes the memory of one chunk, however long it is. If its size must be known before its start
//!    (Protobuf, CBOR), or its rows are sorted, or its objects are decoded, it also takes a pointer for each
//!    object.
//! 2. Encoding yields to other tasks between steps. Up to [`LARGE`] bytes of objects are encoded on the event
//!    loop; if more are not in the cache, they are encoded beside it, in batches. Compression is always
//!    beside it.
//! 3. It holds the state that it shows until it is sent. [`Pins`] bounds what that costs. What else it holds
//!    is [counted](crate::unsent).
//! 4. An error before the first chunk is an error response; a later error ends the response in the middle.
//!    What cannot be decoded is found before the first chunk, and what a webhook converts is converted before
//!    it and held, up to [`MOST_CONVERTED`].

mod frame;
mod item;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use cache::Entry;
use http::StatusCode;
use http_body::Frame as BodyFrame;
use registry::{DamagedObjects, List};
use schema::Status;
use store::Revision;
use tasks::BoxFuture;

use super::compress::{self, Coding, Compressor, THRESHOLD};
use super::represent::form::LongForm;
use super::represent::{ObjectEncoder, table};
use crate::body::StreamError;
use crate::large::{LARGE, LargeWork, Permit};
use crate::negotiate::{Format, Transform, TransformKind};
use crate::sending::Pins;
use crate::unsent::Charge;
use crate::{Body, Error, Response};
use frame::ListFrame;
use item::{ItemEncoding, Rest, Source};

/// The approximate size of a chunk.
const CHUNK: usize = 64 * 1024;
/// The number of objects that are measured in one step, or converted together.
const MEASURED_PER_STEP: usize = 64;
/// The most bytes of converted objects that a list holds; more are converted while it is sent.
const MOST_CONVERTED: usize = 128 << 20;

/// The response to a list.
pub(crate) async fn respond(encoder: ObjectEncoder, list: List, coding: Coding) -> Result<Response, Error> {
    let media_type = encoder.accept.format.media_type();
    let pins = Pins::newest(&encoder.cache);
    let mut producer = Producer::new(encoder, list)?;
    let mut chunks = VecDeque::new();
    let mut size = 0;
    let enough = if coding == Coding::Gzip { THRESHOLD } else { 0 };
    let mut permit = None;
    let payer = producer.encoder.payer.clone();
    let mut charge = None;
    loop {
        match producer.step(permit.take())? {
            Step::Again => tokio::task::yield_now().await,
            Step::Large(bytes) => permit = Some(payer.permit(&producer.encoder.large, bytes).await?),
            Step::Convert(entries) => producer.encoder.convert_ahead(&entries).await?,
            Step::ConvertAlso(entries) => {
                producer.converted += producer.encoder.convert_also(&entries).await?;
                let held = producer.held();
                charge.get_or_insert_with(|| payer.charge(held)).set(held);
            }
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
    let held = producer.held();
    let charge = charge.unwrap_or_else(|| payer.charge(held));
    let large = producer.encoder.large.clone();
    let body = ListBody { producer: Some(producer), chunks, compressor, large, waiting: None, charge };
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
    /// These objects have to be converted by a webhook before they are written.
    Convert(Vec<Arc<Entry>>),
    /// These objects have to be converted, and the ones before them are not written yet.
    ConvertAlso(Vec<Arc<Entry>>),
    /// The next step has to run beside the event loop; its first object has so many bytes.
    Large(usize),
}

/// Encodes a list.
struct Producer {
    encoder: ObjectEncoder,
    item: ItemEncoding,
    state: State,
    list: ListMeta,
    /// Objects that were taken from the list and are not written yet.
    ahead: VecDeque<Arc<Entry>>,
    /// The bytes of objects that can still be encoded on the event loop.
    allowance: usize,
    /// The bytes of objects that were converted before the first chunk.
    converted: usize,
    /// The bytes of a large object that come next, after what is in the buffer.
    rest: Option<Bytes>,
    /// The number of bytes of the last chunk that are neither in the cache nor in the buffer.
    encoded: usize,
    /// How many objects were written in this step.
    written: u64,
}

/// The metadata of a list.
struct ListMeta {
    revision: String,
    token: String,
    remaining: Option<usize>,
}

enum State {
    /// Decoding the objects that are to be decoded and never were, so that an error can name those that
    /// cannot be.
    Checking { rest: cache::List, checked: Vec<Arc<Entry>>, damaged: DamagedObjects },
    /// Converting the objects that need a webhook; `next` is the first that is left.
    Converting { entries: Vec<Arc<Entry>>, next: usize },
    /// Reading the places of the objects, for a table whose rows are sorted.
    Sorting { rest: Remaining, keyed: Vec<(i64, Arc<Entry>)>, order: fn(&object::Map) -> i64 },
    /// Measuring the objects, before the start is written.
    Measuring { rest: Remaining, measured: Vec<Arc<Entry>>, size: usize },
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
    fn new(encoder: ObjectEncoder, list: List) -> Result<Self, Status> {
        let List { objects, token, remaining } = list;
        if let Some(Transform { kind: TransformKind::Partial, .. }) = encoder.accept.transform {
            return Err(encoder.is_list());
        }
        let revision = match objects.revision {
            Revision::ZERO => String::new(),
            revision => revision.0.to_string(),
        };
        let list = ListMeta { revision, token, remaining };
        let item = ItemEncoding::of(encoder.accept);
        // A custom object may need the defaults of its current schema.
        let is_sent_as_stored =
            matches!(item, ItemEncoding::Json) && encoder.is_working_version() && !encoder.served.is_custom();
        let state = match is_sent_as_stored {
            // Objects in an old version are rare, and decoded while the list is sent.
            true => Self::checked(&encoder, &list, Remaining::Lazy(objects))?,
            false => {
                State::Checking { rest: objects, checked: Vec::new(), damaged: DamagedObjects::default() }
            }
        };
        Ok(Self {
            encoder,
            item,
            state,
            list,
            ahead: VecDeque::new(),
            allowance: LARGE,
            converted: 0,
            rest: None,
            encoded: 0,
            written: 0,
        })
    }

    /// The first state after the check that all objects can be decoded.
    fn checked(encoder: &ObjectEncoder, list: &ListMeta, rest: Remaining) -> Result<State, Status> {
        Ok(match encoder.accept.format {
            Format::Protobuf | Format::Cbor => State::Measuring { rest, measured: Vec::new(), size: 0 },
            Format::Json | Format::Pretty | Format::Yaml => {
                match (encoder.accept.transform, encoder.served.row_order) {
                    (Some(Transform { kind: TransformKind::Table, .. }), Some(order)) => {
                        State::Sorting { rest, keyed: Vec::new(), order }
                    }
                    _ => Self::start(encoder, list, rest, frame::Measure::default())?,
                }
            }
        })
    }

    fn start(
        encoder: &ObjectEncoder,
        list: &ListMeta,
        rest: Remaining,
        measure: frame::Measure,
    ) -> Result<State, Status> {
        let frame = ListFrame::new(encoder, list, measure)?;
        let mut buffer = Vec::with_capacity(CHUNK + CHUNK / 4);
        buffer.extend_from_slice(&frame.before);
        Ok(State::Writing { rest, buffer, frame, any: false, long: None })
    }

    /// The approximate number of bytes that the producer holds: two chunks, the converted and encoded
    /// objects, and a pointer for each object.
    fn held(&self) -> usize {
        let objects = match &self.state {
            State::Converting { entries, .. } => entries.len(),
            State::Writing { rest: Remaining::Measured(rest), .. } => rest.len(),
            _ => 0,
        };
        2 * (CHUNK + CHUNK / 4) + self.converted + self.encoded + objects * size_of::<Arc<Entry>>()
    }

    /// Does a part of the work: on the event loop, or beside it if there is a permit.
    fn step(&mut self, permit: Option<Permit>) -> Result<Step, Status> {
        match permit {
            Some(permit) => permit.run(|mut allowance| self.step_within(&mut allowance)),
            None => {
                let mut allowance = std::mem::take(&mut self.allowance);
                let step = self.step_within(&mut allowance);
                self.allowance = allowance;
                step
            }
        }
    }

    /// Encodes at most as many bytes of objects as `allowance` says, which is reduced by them.
    fn step_within(&mut self, allowance: &mut usize) -> Result<Step, Status> {
        let step = self.work_within(allowance);
        self.encoder.meter.read(std::mem::take(&mut self.written));
        step
    }

    fn work_within(&mut self, allowance: &mut usize) -> Result<Step, Status> {
        let Self { encoder, item, list, ahead, rest: large_rest, encoded, written, .. } = self;
        match &mut self.state {
            State::Checking { rest, checked, damaged } => {
                for _ in 0..MEASURED_PER_STEP {
                    let Some(entry) = ahead.pop_front().or_else(|| rest.next()) else {
                        damaged.refuse(&encoder.served)?;
                        // Encoding is another turn.
                        *allowance = LARGE.max(*allowance);
                        let entries = std::mem::take(checked);
                        self.state = match encoder.converted {
                            Some(_) => State::Converting { entries, next: 0 },
                            None => Self::checked(encoder, list, Remaining::Measured(entries.into_iter()))?,
                        };
                        return Ok(Step::Again);
                    };
                    if !entry.is_known_to_decode() && item.decodes(encoder, &entry) {
                        if let Err(large) = spend(allowance, &entry, ahead) {
                            return Ok(large);
                        }
                        damaged.check(&encoder.served, &entry);
                    }
                    checked.push(entry);
                }
                Ok(Step::Again)
            }
            State::Converting { entries, next } => {
                let may_hold_more = self.converted < MOST_CONVERTED && !encoder.payer.is_over_budget();
                let group: Vec<_> = match may_hold_more {
                    true => entries.iter().skip(*next).take(MEASURED_PER_STEP).cloned().collect(),
                    false => Vec::new(),
                };
                if group.is_empty() {
                    let rest = Remaining::Measured(std::mem::take(entries).into_iter());
                    self.state = Self::checked(encoder, list, rest)?;
                    return Ok(Step::Again);
                }
                *next += group.len();
                Ok(Step::ConvertAlso(group))
            }
            State::Sorting { rest, keyed, order } => {
                for _ in 0..MEASURED_PER_STEP {
                    let entry = match ahead.pop_front().or_else(|| rest.next()) {
                        Some(entry) => entry,
                        None => {
                            let sorted = sorted(std::mem::take(keyed)).into_iter();
                            let rest = Remaining::Measured(sorted);
                            self.state = Self::start(encoder, list, rest, frame::Measure::default())?;
                            return Ok(Step::Again);
                        }
                    };
                    if let Err(large) = spend(allowance, &entry, ahead) {
                        return Ok(large);
                    }
                    let Some(stored) = &encoder.served.stored else { continue };
                    keyed.push((order(table::map_of(&stored.decode_now(&entry)?)), entry));
                }
                Ok(Step::Again)
            }
            State::Measuring { rest, measured, size } => {
                for _ in 0..MEASURED_PER_STEP {
                    let entry = match ahead.pop_front().or_else(|| rest.next()) {
                        Some(entry) => entry,
                        None => {
                            let measure = frame::Measure { count: measured.len(), size: *size };
                            let rest = Remaining::Measured(std::mem::take(measured).into_iter());
                            self.state = Self::start(encoder, list, rest, measure)?;
                            return Ok(Step::Again);
                        }
                    };
                    if item.is_measured() {
                        let source = item.source(encoder, &entry);
                        if matches!(source, Source::Missing)
                            && let Err(large) = spend(allowance, &entry, ahead)
                        {
                            return Ok(large);
                        }
                        *size += item.size(encoder, &entry, &source)?;
                    }
                    measured.push(entry);
                }
                Ok(Step::Again)
            }
            State::Writing { rest, buffer, frame, any, long } => {
                if large_rest.is_none() {
                    *encoded = 0;
                }
                while buffer.len() < CHUNK {
                    if let Some(bytes) = large_rest.take_if(|_| buffer.is_empty()) {
                        return Ok(Step::Chunk(bytes));
                    }
                    if large_rest.is_some() {
                        break;
                    }
                    if let Some(form) = long {
                        let Some(left) = allowance.checked_sub(CHUNK) else { return Ok(Step::Large(CHUNK)) };
                        *allowance = left;
                        if form.write(buffer, CHUNK)? {
                            *long = None;
                        }
                        continue;
                    }
                    let entry = match Next::of(encoder, ahead, rest) {
                        Next::Object(entry) => entry,
                        Next::Convert(entries) => return Ok(Step::Convert(entries)),
                        Next::End => {
                            if *any {
                                buffer.extend_from_slice(&frame.after);
                            } else {
                                *buffer = std::mem::take(&mut frame.empty);
                            }
                            let last = std::mem::take(buffer);
                            self.state = State::Done;
                            return Ok(Step::Last(last.into()));
                        }
                    };
                    let source = item.source(encoder, &entry);
                    if matches!(source, Source::Missing)
                        && let Err(large) = spend(allowance, &entry, ahead)
                    {
                        return Ok(large);
                    }
                    if std::mem::replace(any, true) {
                        buffer.extend_from_slice(frame.separator);
                    }
                    *written += 1;
                    match item.write(encoder, &entry, source, buffer)? {
                        Rest::Nothing => {}
                        Rest::Long(form) => *long = Some(form),
                        Rest::Stored(bytes) => *large_rest = Some(bytes),
                        Rest::Encoded(bytes) => {
                            *encoded = bytes.len();
                            *large_rest = Some(bytes);
                        }
                    }
                }
                let full = std::mem::replace(buffer, Vec::with_capacity(CHUNK + CHUNK / 4));
                Ok(Step::Chunk(full.into()))
            }
            State::Done => Ok(Step::Last(Bytes::new())),
        }
    }
}

/// The next part of a list.
enum Next {
    Object(Arc<Entry>),
    /// A group of objects, which have to be converted first.
    Convert(Vec<Arc<Entry>>),
    End,
}

impl Next {
    fn of(
        encoder: &ObjectEncoder,
        ahead: &mut VecDeque<Arc<Entry>>,
        rest: &mut impl Iterator<Item = Arc<Entry>>,
    ) -> Self {
        if let Some(entry) = ahead.pop_front() {
            return Self::Object(entry);
        }
        if encoder.converted.is_none() {
            return rest.next().map_or(Self::End, Self::Object);
        }
        ahead.extend(rest.take(MEASURED_PER_STEP));
        if ahead.iter().all(|entry| encoder.is_ready(entry)) {
            return ahead.pop_front().map_or(Self::End, Self::Object);
        }
        Self::Convert(ahead.iter().cloned().collect())
    }
}

/// Subtracts the size of an object from the allowance. If it is too large, puts the object back for the next
/// step.
fn spend(allowance: &mut usize, entry: &Arc<Entry>, ahead: &mut VecDeque<Arc<Entry>>) -> Result<(), Step> {
    let bytes = entry.bytes().len();
    match allowance.checked_sub(bytes) {
        Some(rest) => *allowance = rest,
        None => {
            ahead.push_front(entry.clone());
            return Err(Step::Large(bytes));
        }
    }
    Ok(())
}

/// The objects in the order of their kind's table rows, then of their names.
fn sorted(mut keyed: Vec<(i64, Arc<Entry>)>) -> Vec<Arc<Entry>> {
    keyed.sort_by(|(a, one), (b, other)| a.cmp(b).then_with(|| one.name().cmp(other.name())));
    keyed.into_iter().map(|(_, entry)| entry).collect()
}

/// The body of a list that is longer than a chunk.
struct ListBody {
    /// `None` after the last step.
    producer: Option<Producer>,
    /// Chunks that are encoded and not compressed yet.
    chunks: VecDeque<Bytes>,
    compressor: Option<Compressor>,
    large: LargeWork,
    /// The conversion or the permit that the next step waits for.
    waiting: Option<BoxFuture<'static, Result<Option<Permit>, Status>>>,
    /// The charge for the memory of the body.
    charge: Charge,
}

impl ListBody {
    /// The next bytes; none at the end.
    fn next(&mut self, permit: Option<Permit>) -> Result<Option<Step>, StreamError> {
        let step = match (self.compressor.is_some(), permit) {
            (false, permit) => self.next_plain(permit)?,
            (true, None) if self.producer.is_none() && self.chunks.is_empty() => None,
            (true, None) => Some(Step::Large(CHUNK)),
            (true, Some(permit)) => permit.run(|allowance| self.next_compressed(allowance))?,
        };
        let held = self.producer.as_ref().map_or(0, Producer::held);
        self.charge.set(held + self.compressor.as_ref().map_or(0, |_| Compressor::HELD));
        Ok(step)
    }

    fn next_plain(&mut self, permit: Option<Permit>) -> Result<Option<Step>, StreamError> {
        if let Some(chunk) = self.chunks.pop_front() {
            return Ok(Some(Step::Chunk(chunk)));
        }
        let Some(producer) = &mut self.producer else { return Ok(None) };
        let step = producer.step(permit).map_err(|status| status.message)?;
        if let Step::Last(_) = step {
            self.producer = None;
        }
        Ok(Some(step))
    }

    /// Compresses chunks until there is one of compressed bytes, or until as many bytes were compressed as
    /// `allowance` says.
    fn next_compressed(&mut self, mut allowance: usize) -> Result<Option<Step>, StreamError> {
        let Some(compressor) = &mut self.compressor else { return Ok(None) };
        let mut left = allowance;
        let mut compressed = Vec::new();
        while compressed.len() < CHUNK && left > 0 {
            let step = match (self.chunks.pop_front(), &mut self.producer) {
                (Some(chunk), _) => Step::Chunk(chunk),
                (None, Some(producer)) => {
                    producer.step_within(&mut allowance).map_err(|status| status.message)?
                }
                (None, None) => return Ok(None),
            };
            match step {
                Step::Chunk(chunk) => {
                    left = left.saturating_sub(chunk.len());
                    compressed.extend_from_slice(&compressor.push(&chunk)?);
                }
                Step::Last(chunk) => {
                    self.producer = None;
                    compressed.extend_from_slice(&compressor.push(&chunk)?);
                    if let Some(compressor) = self.compressor.take() {
                        compressed.extend_from_slice(&compressor.finish()?);
                    }
                    return Ok(Some(Step::Last(compressed.into())));
                }
                Step::Again => {}
                // The next step returns the same request for a permit.
                Step::Large(_) | Step::Convert(_) if !compressed.is_empty() => break,
                waits @ (Step::Large(_) | Step::Convert(_) | Step::ConvertAlso(_)) => {
                    return Ok(Some(waits));
                }
            }
        }
        Ok(Some(match compressed.is_empty() {
            true => Step::Again,
            false => Step::Chunk(compressed.into()),
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
            let mut permit = None;
            if let Some(waiting) = &mut this.waiting {
                let waited = std::task::ready!(waiting.as_mut().poll(cx));
                this.waiting = None;
                match waited {
                    Ok(granted) => permit = granted,
                    Err(status) => return Poll::Ready(Some(Err(status.message.into()))),
                }
            }
            return match this.next(permit) {
                Ok(None) => Poll::Ready(None),
                Ok(Some(Step::Again)) => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                // The held objects are all written before the first object that is not held.
                Ok(Some(Step::Convert(entries) | Step::ConvertAlso(entries))) => {
                    let encoder = this.producer.as_ref().map(|producer| producer.encoder.clone());
                    this.waiting = encoder.map(|encoder| -> BoxFuture<'static, _> {
                        Box::pin(async move { encoder.convert_ahead(&entries).await.map(|()| None) })
                    });
                    continue;
                }
                Ok(Some(Step::Large(bytes))) => {
                    let large = this.large.clone();
                    this.waiting = Some(Box::pin(async move { Ok(Some(large.permit(bytes).await)) }));
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
