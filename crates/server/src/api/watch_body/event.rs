//! Watch events in each format and transform.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, Bytes};
use cache::watch::{Batch, Event, INITIAL_EVENTS_END, Item, Mark};
use cache::{Encoding, Entry};
use metrics::{Counter, Histogram};
use object::{Map, Value};
use registry::{Content, Served};
use schema::{Status, builtin, cbor};
use std::sync::Arc;
use store::Revision;
use tokio::time::Instant;

use super::ChunkSize;
use crate::api::represent::encodings::{self, CachedEncoding};
use crate::api::represent::form::Form;
use crate::api::represent::table::Headings;
use crate::api::represent::wire::{self, Major};
use crate::api::represent::{ObjectEncoder, encode, partial_head, status};
use crate::families::{WATCH_EVENT_SIZES, WATCH_EVENTS, WATCH_LISTS};
use crate::large::LargeWork;
use crate::negotiate::{Format, MetaVersion, Transform, TransformKind};

/// The annotation with an empty list of the kind, for clients that build a list from the initial events.
const BLUEPRINT: &str = "kubernetes.io/initial-events-list-blueprint";

/// The most bytes around the object of an event in JSON.
const AROUND: usize = 48;

/// The end of an event in JSON.
pub(super) const AFTER_STORED: &[u8] = b"}\n";

/// Encodes the events of one watch.
pub(super) struct Events {
    encoder: ObjectEncoder,
    api_version: String,
    /// Whether the next table has headings.
    headings: Headings,
    /// The revision of the last event or bookmark that was sent.
    last_sent: Revision,
    /// When the request arrived, and the scope that it is counted with.
    asked: (Instant, &'static str),
    chunk_size: ChunkSize,
    /// Whether there are no bookmarks but that after the initial events.
    omits_bookmarks: bool,
    sent: Arc<Counter>,
    sizes: Arc<Histogram>,
}

/// Why a watch ends: the status of its last event, if any.
type End = Option<Status>;

impl Events {
    pub(super) fn new(encoder: ObjectEncoder, asked: (Instant, &'static str), chunk_size: ChunkSize) -> Self {
        let served = &encoder.served;
        let labels = [&*served.group, &*served.kind, &*served.version];
        Self {
            asked,
            chunk_size,
            omits_bookmarks: false,
            sent: WATCH_EVENTS.with(labels),
            sizes: WATCH_EVENT_SIZES.with(labels),
            api_version: encoder.served.api_version.to_string(),
            encoder,
            headings: Headings::Include,
            last_sent: Revision::ZERO,
        }
    }

    /// Leaves out all bookmarks but that after the initial events.
    pub(super) fn omit_bookmarks(&mut self) {
        self.omits_bookmarks = true;
    }

    /// The kind of the objects.
    pub(super) fn served(&self) -> &Arc<Served> {
        &self.encoder.served
    }

    /// Converts the objects of events that are about to be written, if that needs a webhook.
    pub(super) async fn convert_ahead(&self, entries: &[Arc<Entry>]) -> Result<(), Status> {
        self.encoder.convert_ahead(entries).await
    }

    /// When a chunk has enough events.
    pub(super) fn chunk_size(&self) -> ChunkSize {
        self.chunk_size
    }

    /// The cache id for sharing chunks with other watches; `None` if nothing is shared, as for tables, which
    /// contain ages, and for chunks of another size.
    pub(super) fn encoding(&self) -> Option<Encoding> {
        if self.chunk_size != ChunkSize::Usual {
            return None;
        }
        let number = match (self.encoder.accept.transform, self.encoder.accept.format) {
            (None, Format::Protobuf) => 0,
            (None, Format::Cbor) => 1,
            (None, Format::Json | Format::Pretty | Format::Yaml) => 2,
            (Some(Transform { kind: TransformKind::Partial, version }), format) => {
                let version = u32::from(version == MetaVersion::V1beta1);
                version
                    + match format {
                        Format::Protobuf => 3,
                        Format::Cbor => 5,
                        Format::Json | Format::Pretty | Format::Yaml => 7,
                    }
            }
            (Some(Transform { kind: TransformKind::Table | TransformKind::PartialList, .. }), _) => {
                return None;
            }
        };
        Some(encodings::numbered(number, &self.encoder.served))
    }

    /// The approximate encoded size of a batch, estimated from the stored size of its objects.
    pub(super) fn size_of(&self, batch: &Batch) -> usize {
        let sizes = batch.iter().map(|item| match item {
            Item::Event(event) => event.entry.bytes().len() + AROUND,
            Item::Bookmark { .. } => AROUND,
        });
        sizes.sum()
    }

    /// The permits to encode large objects.
    pub(super) fn large(&self) -> LargeWork {
        self.encoder.large.clone()
    }

    /// Whether the object of an event can be written without encoding it.
    pub(super) fn is_kept(&self, event: &Event<'_>) -> bool {
        let (encoder, entry) = (&self.encoder, event.entry);
        let encoding = match (encoder.accept.transform, encoder.accept.format) {
            (None, Format::Protobuf) => CachedEncoding::Protobuf,
            (None, Format::Cbor) => CachedEncoding::Cbor,
            (None, _) if encoder.is_as_stored(entry) => return true,
            (None, _) => CachedEncoding::Json,
            (Some(Transform { kind: TransformKind::Partial, .. }), Format::Protobuf) => {
                CachedEncoding::ProtobufMeta
            }
            (Some(Transform { kind: TransformKind::Partial, .. }), Format::Cbor) => return false,
            (Some(Transform { kind: TransformKind::Partial, .. }), _) => {
                return encoder.has_stored_metadata(entry);
            }
            (Some(Transform { kind: TransformKind::Table, .. }), _) => {
                return encoder.kept_row(entry).is_some();
            }
            (Some(Transform { kind: TransformKind::PartialList, .. }), _) => return true,
        };
        encoder.kept(entry, encoding).is_some()
    }

    /// Counts events that were sent together: of several, all count as of the same size.
    pub(super) fn count(&self, events: u32, bytes: usize) {
        self.sent.add(u64::from(events));
        self.encoder.meter.delivered(u64::from(events));
        let around = AROUND / 2 * events as usize;
        #[allow(clippy::cast_precision_loss, reason = "a size")]
        let size = bytes.saturating_sub(around) as f64 / f64::from(events);
        (0..events).for_each(|_| self.sizes.observe(size));
    }

    /// Notes that the changes up to a revision were sent.
    pub(super) fn sent_up_to(&mut self, revision: Revision) {
        self.last_sent = self.last_sent.max(revision);
    }

    /// Whether the object of an event is sent as it is stored.
    pub(super) fn sends_stored(&self, event: &Event<'_>) -> bool {
        let is_json = !matches!(self.encoder.accept.format, Format::Protobuf | Format::Cbor);
        is_json && self.encoder.accept.transform.is_none() && self.encoder.is_as_stored(event.entry)
    }

    /// Writes what comes before an object that is sent as it is stored. [`AFTER_STORED`] comes after it.
    pub(super) fn begin_stored(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        self.sent_up_to(event.revision());
        self.count(1, event.entry.bytes().len() + AROUND / 2);
        before_json(event.kind.as_str(), out);
    }

    /// Encodes the change of an object.
    pub(super) fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> Result<(), End> {
        let (kind, entry) = (event.kind.as_str(), event.entry);
        self.sent_up_to(event.revision());
        let begin = out.len();
        match (self.encoder.accept.transform, self.encoder.accept.format) {
            (None, Format::Protobuf) => {
                let message = self.encoder.encoded(entry, CachedEncoding::Protobuf).map_err(Some)?;
                protobuf(kind, &self.api_version, &self.encoder.served.kind, &message, out);
            }
            (None, Format::Cbor) => {
                cbor_event(kind, &self.encoder.encoded(entry, CachedEncoding::Cbor).map_err(Some)?, out)
            }
            (None, _) if self.encoder.is_as_stored(entry) => json(kind, &[entry.bytes()], out),
            (None, _) => json(kind, &[&self.encoder.json(entry).map_err(Some)?], out),
            (Some(Transform { kind: TransformKind::Partial, version }), Format::Protobuf) => {
                let message = self.encoder.encoded(entry, CachedEncoding::ProtobufMeta).map_err(Some)?;
                protobuf(kind, version.api_version(), "PartialObjectMetadata", &message, out);
            }
            (Some(Transform { kind: TransformKind::Partial, .. }), Format::Cbor) => {
                let object = self.encoder.object(&Content::Entry(entry.clone())).map_err(Some)?;
                cbor_event(kind, &object, out);
            }
            (Some(Transform { kind: TransformKind::Partial, version }), _) => {
                let metadata = self.encoder.metadata(entry).map_err(Some)?;
                json(kind, &[partial_head(version), &metadata, b"}"], out);
            }
            (Some(Transform { kind: TransformKind::Table, .. }), _) => {
                self.table(kind, &Content::Entry(entry.clone()), out)?;
            }
            // An object is not a list: the reference ends the watch without an event.
            (Some(Transform { kind: TransformKind::PartialList, .. }), _) => return Err(None),
        }
        self.count(1, out.len() - begin);
        Ok(())
    }

    /// Encodes a bookmark: an object of the kind with only a resource version. A periodic bookmark is skipped
    /// unless it is newer than the last sent event.
    pub(super) fn bookmark(&mut self, revision: Revision, mark: Mark, out: &mut Vec<u8>) -> Result<(), End> {
        if mark != Mark::InitialEventsEnd && self.omits_bookmarks {
            return Ok(());
        }
        if mark == Mark::Periodic && revision <= self.last_sent {
            return Ok(());
        }
        self.last_sent = revision;
        let mut metadata = Map::new();
        metadata.insert("resourceVersion", revision.0.to_string());
        if mark == Mark::InitialEventsEnd {
            let mut annotations = Map::new();
            annotations.insert(INITIAL_EVENTS_END, "true");
            annotations.insert(BLUEPRINT, STANDARD.encode(self.blueprint()?));
            metadata.insert("annotations", annotations);
            let ((arrived, scope), served) = (self.asked, &self.encoder.served);
            let lists = WATCH_LISTS.with([&*served.group, &*served.resource, scope, &*served.version]);
            lists.observe_time(arrived.elapsed());
        }
        let encoder = &self.encoder;
        let format = encoder.accept.format;
        let (ty, api_version, kind) = match encoder.accept.transform {
            None => (&*encoder.served.ty, self.api_version.as_str(), encoder.served.kind.as_str()),
            Some(Transform { kind: TransformKind::Partial, version }) => {
                let partial = "PartialObjectMetadata";
                let ty = builtin::by_name("meta.v1.PartialObjectMetadata").ok_or(None)?;
                (ty, version.api_version(), partial)
            }
            Some(Transform { kind: TransformKind::Table, .. }) => {
                let mut tree = Map::new();
                tree.insert("metadata", metadata);
                return self.table("BOOKMARK", &Content::Tree(tree.into()), out);
            }
            Some(Transform { kind: TransformKind::PartialList, .. }) => return Err(None),
        };
        let mut tree = Map::new();
        tree.insert("kind", kind);
        tree.insert("apiVersion", api_version.to_owned());
        tree.insert("metadata", metadata);
        let object = encode(ty, &Value::from(tree), format).and_then(Form::into_bytes).map_err(Some)?;
        let begin = out.len();
        wrap("BOOKMARK", &object, format, out);
        self.count(1, out.len() - begin);
        Ok(())
    }

    /// The event that ends a watch with an error.
    pub(super) fn error(&self, error: &Status) -> Bytes {
        let mut out = Vec::new();
        let format = self.encoder.accept.format;
        wrap("ERROR", &status::body(error, format), format, &mut out);
        out.into()
    }

    fn table(&mut self, kind: &str, content: &Content, out: &mut Vec<u8>) -> Result<(), End> {
        let Some(Transform { version, .. }) = self.encoder.accept.transform else { return Err(None) };
        // Ages count from now, not from the start of the watch.
        self.encoder.now = object::time::MicroTime::now();
        let table = self.encoder.table_of(content, version, self.headings).map_err(Some)?;
        self.headings = Headings::Omit;
        json(kind, &[&table], out);
        Ok(())
    }

    /// An empty list of the kind, in the negotiated format.
    fn blueprint(&self) -> Result<Bytes, End> {
        let (kind, api_version) = match self.encoder.accept.transform {
            None => (self.encoder.served.list_kind.to_string(), self.api_version.clone()),
            Some(transform) => {
                ("PartialObjectMetadataList".to_owned(), transform.version.api_version().to_owned())
            }
        };
        let mut out = Vec::new();
        match self.encoder.accept.format {
            Format::Protobuf => {
                let mut meta = Vec::new();
                (1..=3).for_each(|number| wire::bytes_field(number, b"", &mut meta));
                let mut message = Vec::new();
                wire::bytes_field(1, &meta, &mut message);
                return Ok(wire::envelope(&api_version, &kind, &message));
            }
            Format::Cbor => {
                out.extend_from_slice(&cbor::PREFIX);
                wire::cbor_head(Major::Map, 4, &mut out);
                for (key, value) in [("kind", &kind), ("apiVersion", &api_version)] {
                    wire::cbor_text(key, &mut out);
                    wire::cbor_text(value, &mut out);
                }
                wire::cbor_text("metadata", &mut out);
                wire::cbor_head(Major::Map, 0, &mut out);
                wire::cbor_text("items", &mut out);
                out.push(0xf6);
            }
            _ => out.extend_from_slice(
                format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{{}},\"items\":null}}\n")
                    .as_bytes(),
            ),
        }
        Ok(out.into())
    }
}

/// An event with an encoded object.
fn wrap(kind: &str, object: &[u8], format: Format, out: &mut Vec<u8>) {
    match format {
        Format::Protobuf => protobuf_raw(kind, object.len(), out, |out| out.extend_from_slice(object)),
        Format::Cbor => cbor_event(kind, object, out),
        _ => json(kind, &[object.strip_suffix(b"\n").unwrap_or(object)], out),
    }
}

fn json(kind: &str, object: &[&[u8]], out: &mut Vec<u8>) {
    out.reserve(object.iter().map(|part| part.len()).sum::<usize>() + AROUND);
    before_json(kind, out);
    object.iter().for_each(|part| out.extend_from_slice(part));
    out.extend_from_slice(AFTER_STORED);
}

fn before_json(kind: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
}

/// An event with a message that has no envelope yet.
fn protobuf(kind: &str, api_version: &str, object_kind: &str, message: &[u8], out: &mut Vec<u8>) {
    let len = wire::envelope_len(api_version, object_kind, message.len());
    protobuf_raw(kind, len, out, |out| {
        wire::envelope_head(api_version, object_kind, message.len(), out);
        out.extend_from_slice(message);
        out.extend_from_slice(&wire::ENVELOPE_TAIL);
    });
}

/// A frame: its length in four bytes, and a message with the kind of the event and the bytes of the object.
fn protobuf_raw(kind: &str, object: usize, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let raw = wire::field_len(1, object);
    let len = wire::field_len(1, kind.len()) + wire::field_len(2, raw);
    out.reserve(len + 4);
    out.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
    wire::bytes_field(1, kind.as_bytes(), out);
    wire::field_head(2, raw, out);
    wire::field_head(1, object, out);
    write(out);
}

fn cbor_event(kind: &str, object: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&cbor::PREFIX);
    wire::cbor_head(Major::Map, 2, out);
    wire::cbor_text("type", out);
    wire::cbor_text(kind, out);
    wire::cbor_text("object", out);
    out.extend_from_slice(object);
}
