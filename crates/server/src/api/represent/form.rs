//! Indented JSON and YAML of objects: short ones as a whole, long ones written while they are sent.
//!
//! Indentation may make a text a thousand times as long as it was, so that a form is never written as a whole
//! if it is long: it takes the memory of its JSON and of one chunk, and is not kept in the cache. Its chunks
//! are made beside the event loop.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use http_body::Frame;
use schema::{Status, json, yaml};
use tasks::BoxFuture;

use super::ObjectEncoder;
use crate::api::compress::{self, Coding, Compressor, THRESHOLD};
use crate::body::StreamError;
use crate::large::{LargeWork, Permit};
use crate::unsent::Charge;
use crate::{Body, Response};

/// The approximate size of a chunk.
const CHUNK: usize = 64 * 1024;

/// The length up to which a form is written as a whole. Longer ones may be compressed.
const LONGEST_WHOLE: usize = THRESHOLD;

/// The end of JSON responses.
const LINE_FEED: &[u8] = b"\n";

/// JSON with the line feed at its end.
pub(crate) fn with_line_feed(json: &[u8]) -> Bytes {
    [json, LINE_FEED].concat().into()
}

/// An encoding of an object.
pub(crate) enum Form {
    /// The whole encoding.
    Whole(Bytes),
    /// A large object as it is stored, in the memory of the cache; a line feed follows.
    Stored(Bytes),
    /// The beginning, and what writes the rest.
    Long(Box<LongForm>),
}

/// A form that is written while it is sent.
pub(crate) struct LongForm {
    begun: Vec<u8>,
    writer: Writer,
}

enum Writer {
    Indented(json::Indenter<Bytes>),
    Yaml(yaml::Writer<String>),
}

impl Writer {
    fn write(&mut self, out: &mut Vec<u8>, enough: usize) -> Result<bool, Status> {
        match self {
            Self::Indented(indenter) => Ok(indenter.write(out, enough)),
            Self::Yaml(writer) => writer.write(out, enough).map_err(internal_error),
        }
    }
}

fn internal_error(error: schema::Error) -> Status {
    Status::internal_error(&error.to_string())
}

impl Form {
    /// JSON, indented.
    pub(crate) fn indented(json: Bytes) -> Result<Self, Status> {
        Self::begin(Writer::Indented(json::Indenter::new(json)), 0)
    }

    /// JSON, indented, as an item of a list.
    pub(crate) fn indented_item(json: Bytes) -> Result<Self, Status> {
        Self::begin(Writer::Indented(json::Indenter::nested(json, 2)), 0)
    }

    /// JSON as YAML.
    pub(crate) fn yaml(json: &[u8]) -> Result<Self, Status> {
        let json = String::from_utf8_lossy(json).into_owned();
        Self::begin(Writer::Yaml(yaml::Writer::new(json).map_err(internal_error)?), 0)
    }

    /// JSON as YAML, as an item of the list `key`.
    pub(crate) fn yaml_item(key: &str, json: &[u8]) -> Result<Self, Status> {
        let json = format!(r#"{{"{key}":[{}]}}"#, String::from_utf8_lossy(json));
        // The key, a colon, a line feed.
        Self::begin(Writer::Yaml(yaml::Writer::new(json).map_err(internal_error)?), key.len() + 2)
    }

    /// Writes the beginning, without the first bytes.
    fn begin(mut writer: Writer, left_out: usize) -> Result<Self, Status> {
        let mut begun = Vec::with_capacity(4096);
        let is_whole = writer.write(&mut begun, LONGEST_WHOLE + left_out)?;
        begun.drain(..left_out.min(begun.len()));
        Ok(match is_whole {
            true => Self::Whole(begun.into()),
            false => Self::Long(Box::new(LongForm { begun, writer })),
        })
    }

    /// The whole encoding in memory: for objects that the server itself has made.
    pub(crate) fn into_bytes(self) -> Result<Bytes, Status> {
        match self {
            Self::Whole(bytes) => Ok(bytes),
            Self::Stored(bytes) => Ok(with_line_feed(&bytes)),
            Self::Long(mut form) => {
                let mut out = Vec::new();
                while !form.write(&mut out, usize::MAX)? {}
                Ok(out.into())
            }
        }
    }

    /// The response with this form.
    pub(crate) fn into_response(
        self,
        code: StatusCode,
        media_type: &'static str,
        coding: Coding,
        encoder: &ObjectEncoder,
    ) -> Response {
        match self {
            Self::Whole(bytes) => compress::whole(code, media_type, bytes, coding),
            Self::Stored(bytes) if coding == Coding::Gzip => {
                compress::whole(code, media_type, with_line_feed(&bytes), coding)
            }
            Self::Stored(bytes) => {
                let parts = [bytes, Bytes::from_static(LINE_FEED)];
                compress::response(code, media_type, Body::Shared(Box::new(parts)), false)
            }
            Self::Long(form) => {
                let compressor = (coding == Coding::Gzip).then(Compressor::new);
                let is_compressed = compressor.is_some();
                let held = form.held() + compressor.as_ref().map_or(0, |_| Compressor::HELD);
                let (large, charge) = (encoder.large.clone(), encoder.payer.charge(held));
                let body = FormBody { form: Some(form), compressor, large, waiting: None, _charge: charge };
                compress::response(code, media_type, Body::Stream(Box::pin(body)), is_compressed)
            }
        }
    }
}

impl LongForm {
    /// About how many bytes it holds while it is written.
    fn held(&self) -> usize {
        let text = match &self.writer {
            Writer::Indented(_) => 0,
            Writer::Yaml(writer) => writer.held(),
        };
        text + self.begun.len() + 2 * CHUNK
    }

    /// Appends to `out` until that has `enough` bytes, or little more. Returns whether everything is written.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, enough: usize) -> Result<bool, Status> {
        if !self.begun.is_empty() {
            out.append(&mut std::mem::take(&mut self.begun));
        }
        self.writer.write(out, enough)
    }
}

/// The body of a response with a long form.
struct FormBody {
    /// `None` after the last chunk.
    form: Option<Box<LongForm>>,
    compressor: Option<Compressor>,
    large: LargeWork,
    /// The permit for the next chunk.
    waiting: Option<BoxFuture<'static, Permit>>,
    _charge: Charge,
}

impl FormBody {
    /// The next chunk, which may be empty if it is compressed; none at the end.
    fn next(&mut self) -> Result<Option<Bytes>, StreamError> {
        let Some(form) = &mut self.form else { return Ok(None) };
        let mut chunk = Vec::with_capacity(CHUNK + CHUNK / 4);
        if form.write(&mut chunk, CHUNK).map_err(|status| status.message)? {
            self.form = None;
        }
        let Some(compressor) = &mut self.compressor else { return Ok(Some(chunk.into())) };
        let compressed = compressor.push(&chunk)?;
        match self.compressor.take_if(|_| self.form.is_none()) {
            Some(compressor) => Ok(Some([compressed, compressor.finish()?].concat().into())),
            None => Ok(Some(compressed)),
        }
    }
}

impl http_body::Body for FormBody {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        let this = self.get_mut();
        if this.form.is_none() {
            return Poll::Ready(None);
        }
        let large = &this.large;
        let waiting = this.waiting.get_or_insert_with(|| {
            let large = large.clone();
            Box::pin(async move { large.permit(CHUNK).await })
        });
        let permit = ready!(waiting.as_mut().poll(cx));
        this.waiting = None;
        match permit.run(|_| this.next()) {
            Ok(Some(chunk)) if chunk.is_empty() => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Ok(chunk) => Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk)))),
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.form.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::testing::Fixture;
    use http_body_util::BodyExt as _;
    use std::io::Read as _;

    /// So many nested lists around so many zeros.
    fn nested(depth: usize, zeros: usize) -> Bytes {
        format!("{}{}{}", "[".repeat(depth), vec!["0"; zeros].join(","), "]".repeat(depth)).into()
    }

    #[tokio::test]
    async fn long_form_is_written_in_chunks() {
        let json = nested(400, 20_000);
        let mut wanted = Vec::new();
        json::indent(&json, &mut wanted);
        assert!(wanted.len() > 10 << 20);
        let encoder = Fixture::new().await.encoder("", "configmaps", "application/json");
        let form = Form::indented(json.clone()).unwrap();
        let response = form.into_response(StatusCode::OK, "application/json", Coding::Identity, &encoder);
        assert!(!response.headers().contains_key(http::header::CONTENT_LENGTH));
        let mut body = response.into_body();
        let mut all = Vec::new();
        while let Some(frame) = body.frame().await {
            let chunk = frame.unwrap().into_data().unwrap();
            assert!(chunk.len() <= LONGEST_WHOLE + CHUNK, "{} bytes", chunk.len());
            all.extend(chunk);
        }
        assert!(all == wanted);

        let form = Form::indented(json).unwrap();
        let response = form.into_response(StatusCode::OK, "application/json", Coding::Gzip, &encoder);
        let compressed = response.into_body().collect().await.unwrap().to_bytes();
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(&*compressed).read_to_end(&mut text).unwrap();
        assert!(text == wanted);
    }

    #[test]
    fn item_of_a_list_is_the_part_of_a_larger_text() {
        for json in [nested(3, 4), nested(200, 5_000)] {
            let around = format!(r#"{{"items":[{}]}}"#, std::str::from_utf8(&json).unwrap());
            let mut wanted = Vec::new();
            yaml::from_json(&around, &mut wanted).unwrap();
            let item = Form::yaml_item("items", &json).unwrap().into_bytes().unwrap();
            assert!([b"items:\n", &*item].concat() == wanted);
        }
    }

    #[test]
    fn short_form_is_whole() {
        assert!(matches!(Form::indented(nested(3, 100)).unwrap(), Form::Whole(_)));
        assert!(matches!(Form::yaml(&nested(3, 100)).unwrap(), Form::Whole(_)));
        assert!(matches!(Form::yaml(&nested(400, 10_000)).unwrap(), Form::Long(_)));
    }
}
