//! Protobuf: the messages of the reference, and the envelope that carries an object over the wire.
//!
//! An object's bytes are a prefix of four bytes, then a message that names the kind and holds the object's
//! own message ([`Envelope`]). Encoding gives the same bytes as the reference: fields by ascending number,
//! map entries by key, and a field that is neither optional nor a list or map even if it is empty.

mod decode;
mod encode;
mod wire;

pub use decode::{decode, decode_message};
pub use encode::{encode, encode_message};

/// The prefix of every Protobuf body.
pub const PREFIX: [u8; 4] = *b"k8s\0";

/// The outer message, borrowed from a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'b> {
    /// `v1`, `apps/v1`.
    pub api_version: &'b str,
    /// `Pod`.
    pub kind: &'b str,
    /// The object's own message.
    pub raw: &'b [u8],
    /// The encoding of `raw`; empty for none.
    pub content_encoding: &'b str,
    /// The media type of `raw`; empty for Protobuf.
    pub content_type: &'b str,
}
