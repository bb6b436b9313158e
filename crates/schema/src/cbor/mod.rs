//! CBOR in the profile of the reference: only values that JSON has.
//!
//! Text and keys are written as byte strings, and read from text strings too; binary data is a byte string
//! with the tag for base64. Maps are written in the order of their encoded keys, numbers in their shortest
//! form, and every item begins with the tag of self-described CBOR. Values that JSON does not have
//! (not-a-number, other simple values, numbers beyond 64 bits, duplicate keys) are refused.
//!
//! The errors are those of the reference. It also refuses arrays and maps of more than 1,024 entries, which
//! real objects have: here [`Limits`] alone bounds them.

mod any;
mod decode;
mod encode;
mod form;
mod item;
#[cfg(test)]
mod tests;

pub use decode::{decode, decode_shape};
pub use encode::{encode, encode_shape};

use crate::decode::{Error, Limits};

/// The head of the tag of self-described CBOR; every encoded item begins with it.
pub const PREFIX: [u8; 3] = [0xd9, 0xd9, 0xf7];

/// The items of a CBOR sequence (RFC 8742), one after the other; after an error there are no more.
///
/// ```
/// use schema::{Limits, cbor::Sequence};
/// let items: Result<Vec<_>, _> = Sequence::new(&[0x01, 0x82, 0x02, 0x03, 0xf6], Limits::default()).collect();
/// assert_eq!(items.unwrap(), [&[0x01][..], &[0x82, 0x02, 0x03], &[0xf6]]);
/// ```
pub struct Sequence<'b> {
    rest: &'b [u8],
    limits: Limits,
}

impl<'b> Sequence<'b> {
    /// The items in `bytes`, each within `limits`.
    pub fn new(bytes: &'b [u8], limits: Limits) -> Self {
        Self { rest: bytes, limits }
    }
}

impl<'b> Iterator for Sequence<'b> {
    type Item = Result<&'b [u8], Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let rest = std::mem::take(&mut self.rest);
        Some(match item::check(rest, &self.limits) {
            Ok(end) => {
                let (item, rest) = rest.split_at_checked(end).unwrap_or((rest, &[]));
                self.rest = rest;
                Ok(item)
            }
            Err(fault) => Err(*fault),
        })
    }
}
