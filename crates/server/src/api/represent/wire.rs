//! Writes the Protobuf and CBOR around objects: envelopes, lists, events.

use bytes::{BufMut, Bytes, BytesMut};
use schema::protobuf::PREFIX;

/// The length of a varint.
pub(crate) fn varint_len(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

/// Writes a varint.
pub(crate) fn varint(mut number: u64, out: &mut impl BufMut) {
    while number >= 0x80 {
        out.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    out.put_u8(number as u8);
}

/// Writes the tag and the length of a field of bytes.
pub(crate) fn field_head(number: u32, len: usize, out: &mut impl BufMut) {
    varint(u64::from(number << 3 | 2), out);
    varint(len as u64, out);
}

/// The length of a field of bytes.
pub(crate) fn field_len(number: u32, len: usize) -> usize {
    varint_len(u64::from(number << 3)) + varint_len(len as u64) + len
}

/// Writes a field of bytes.
pub(crate) fn bytes_field(number: u32, bytes: &[u8], out: &mut impl BufMut) {
    field_head(number, bytes.len(), out);
    out.put_slice(bytes);
}

/// The part of an envelope before the message.
pub(crate) fn envelope_head(api_version: &str, kind: &str, message: usize, out: &mut impl BufMut) {
    out.put_slice(&PREFIX);
    field_head(1, field_len(1, api_version.len()) + field_len(2, kind.len()), out);
    bytes_field(1, api_version.as_bytes(), out);
    bytes_field(2, kind.as_bytes(), out);
    field_head(2, message, out);
}

/// The part of an envelope after the message: no content encoding, no content type.
pub(crate) const ENVELOPE_TAIL: [u8; 4] = [0x1a, 0x00, 0x22, 0x00];

/// The length of a message in its envelope.
pub(crate) fn envelope_len(api_version: &str, kind: &str, message: usize) -> usize {
    let meta = field_len(1, api_version.len()) + field_len(2, kind.len());
    PREFIX.len() + field_len(1, meta) + field_len(2, message) + ENVELOPE_TAIL.len()
}

/// A message in its envelope.
pub(crate) fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(envelope_len(api_version, kind, message.len()));
    envelope_head(api_version, kind, message.len(), &mut out);
    out.put_slice(message);
    out.put_slice(&ENVELOPE_TAIL);
    out.freeze()
}

/// Kinds of CBOR items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Major {
    /// A byte string, which also holds text.
    Text = 0x40,
    /// An array.
    Array = 0x80,
    /// A map.
    Map = 0xa0,
}

/// Writes the head of a CBOR item.
pub(crate) fn cbor_head(major: Major, argument: u64, out: &mut impl BufMut) {
    let major = major as u8;
    match argument {
        0..24 => out.put_u8(major | argument as u8),
        24..0x100 => out.put_slice(&[major | 24, argument as u8]),
        0x100..0x1_0000 => {
            out.put_u8(major | 25);
            out.put_u16(argument as u16);
        }
        0x1_0000..0x1_0000_0000 => {
            out.put_u8(major | 26);
            out.put_u32(argument as u32);
        }
        _ => {
            out.put_u8(major | 27);
            out.put_u64(argument);
        }
    }
}

/// Writes text as CBOR.
pub(crate) fn cbor_text(text: &str, out: &mut impl BufMut) {
    cbor_head(Major::Text, text.len() as u64, out);
    out.put_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varint_length_matches_the_written_varint() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            varint(number, &mut out);
            assert_eq!(out.len(), varint_len(number), "{number}");
        }
    }

    #[test]
    fn envelope_equals_the_encoding_of_the_schema() {
        let ty = schema::builtin::by_kind("apps", "v1", "Deployment").unwrap();
        let (mut whole, mut message) = (Vec::new(), Vec::new());
        schema::protobuf::encode(ty, &object::Value::Null, &mut whole);
        schema::protobuf::encode_message(ty, &object::Value::Null, &mut message);
        assert_eq!(envelope("apps/v1", "Deployment", &message), whole);
        assert_eq!(envelope_len("apps/v1", "Deployment", message.len()), whole.len());
    }

    #[test]
    fn cbor_head_length_grows_with_its_argument() {
        for (argument, bytes) in
            [(5, &[0x85][..]), (24, &[0x98, 24]), (256, &[0x99, 1, 0]), (65_536, &[0x9a, 0, 1, 0, 0])]
        {
            let mut out = Vec::new();
            cbor_head(Major::Array, argument, &mut out);
            assert_eq!(out, bytes);
        }
    }
}
