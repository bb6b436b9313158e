//! Tags, variable-length numbers and lengths: reading forwards, writing backwards.

use crate::decode::{Error, Fault};

/// The wire type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    GroupStart = 3,
    GroupEnd = 4,
    Fixed32 = 5,
}

impl Wire {
    #[inline]
    fn of(bits: u8) -> Option<Self> {
        const ALL: [Wire; 6] =
            [Wire::Varint, Wire::Fixed64, Wire::Bytes, Wire::GroupStart, Wire::GroupEnd, Wire::Fixed32];
        ALL.get(usize::from(bits)).copied()
    }
}

/// The tag of a field: its number and wire type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) number: u32,
    pub(super) wire: Wire,
}

impl Tag {
    /// An error if the field has another wire type.
    #[inline]
    pub(super) fn expect(self, wire: Wire, name: &str) -> Result<(), Fault> {
        if self.wire == wire {
            return Ok(());
        }
        Err(self.wrong_wire(name))
    }

    #[cold]
    fn wrong_wire(self, name: &str) -> Fault {
        fault(format!("proto: wrong wireType = {} for field {name}", self.wire as u8))
    }
}

#[cold]
pub(super) fn fault(message: impl Into<String>) -> Fault {
    Fault::new(Error::Syntax(message.into()))
}

#[cold]
fn end() -> Fault {
    fault("unexpected EOF")
}

/// Bytes that have not been read yet.
#[derive(Clone, Copy)]
pub(super) struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Fault> {
        if let Some((&byte, rest)) = self.0.split_first()
            && byte < 0x80
        {
            self.0 = rest;
            return Ok(byte.into());
        }
        let mut value = 0u64;
        for (at, &byte) in self.0.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                self.0 = self.0.get(at + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(if self.0.len() < 10 { end() } else { fault("proto: integer overflow") })
    }

    /// The next tag.
    #[inline(always)]
    pub(super) fn tag(&mut self) -> Result<Tag, Fault> {
        if let Some((&key, rest)) = self.0.split_first()
            && let 8..0x80 = key
            && let Some(wire) = Wire::of(key & 7)
        {
            self.0 = rest;
            return Ok(Tag { number: u32::from(key >> 3), wire });
        }
        if let Some((&[low, high @ 1..0x80], rest)) = self.0.split_first_chunk::<2>()
            && low >= 0x80
            && let Some(wire) = Wire::of(low & 7)
        {
            self.0 = rest;
            return Ok(Tag { number: u32::from(low & 0x7f) >> 3 | u32::from(high) << 4, wire });
        }
        self.long_tag()
    }

    /// Consumes the next tag if `wanted` accepts it.
    #[inline]
    pub(super) fn tag_if(&mut self, wanted: impl Fn(Tag) -> bool) -> bool {
        let rest = self.0;
        let found = !self.is_empty() && self.tag().is_ok_and(wanted);
        if !found {
            self.0 = rest;
        }
        found
    }

    #[cold]
    fn long_tag(&mut self) -> Result<Tag, Fault> {
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).unwrap_or(0);
        if number == 0 || number > 0x1fff_ffff {
            return Err(fault(format!("proto: illegal tag {} (wire type {})", (key >> 3) as i32, key & 7)));
        }
        let wire =
            Wire::of(key as u8 & 7).ok_or_else(|| fault(format!("proto: illegal wireType {}", key & 7)))?;
        Ok(Tag { number, wire })
    }

    /// A length-prefixed byte string.
    #[inline]
    pub(super) fn bytes(&mut self) -> Result<&'b [u8], Fault> {
        let length = self.varint()?;
        let length = usize::try_from(length).ok().filter(|length| *length <= isize::MAX as usize);
        let length = length.ok_or_else(|| fault("proto: negative length found during unmarshaling"))?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(end)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, Fault> {
        let (bytes, rest) = self.0.split_first_chunk::<8>().ok_or_else(end)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// Skips the value of an unknown field, also a group.
    pub(super) fn skip(&mut self, tag: Tag) -> Result<(), Fault> {
        let mut open = 0u32;
        let mut wire = tag.wire;
        loop {
            match wire {
                Wire::Varint => {
                    self.varint()?;
                }
                Wire::Fixed64 => {
                    self.fixed64()?;
                }
                Wire::Fixed32 => {
                    let (_, rest) = self.0.split_first_chunk::<4>().ok_or_else(end)?;
                    self.0 = rest;
                }
                Wire::Bytes => {
                    self.bytes()?;
                }
                Wire::GroupStart => open += 1,
                Wire::GroupEnd => {
                    open = open.checked_sub(1).ok_or_else(|| fault("proto: unexpected end of group"))?;
                }
            }
            if open == 0 {
                return Ok(());
            }
            wire = self.tag()?.wire;
        }
    }
}

/// A buffer that is filled from the end to the front, so that the length of a message is known when it is
/// written.
pub(super) struct Writer {
    buffer: Vec<u8>,
    /// The start of the written bytes.
    start: usize,
}

impl Writer {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { buffer: vec![0; capacity], start: capacity }
    }

    /// The written bytes.
    pub(super) fn written(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// The number of written bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        if self.start == 0 {
            self.grow(1);
        }
        self.start -= 1;
        if let Some(slot) = self.buffer.get_mut(self.start) {
            *slot = byte;
        }
    }

    #[inline]
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        if self.start < bytes.len() {
            self.grow(bytes.len());
        }
        let end = self.start;
        self.start -= bytes.len();
        if let Some(room) = self.buffer.get_mut(self.start..end) {
            room.copy_from_slice(bytes);
        }
    }

    #[cold]
    fn grow(&mut self, needed: usize) {
        let more = needed.max(self.buffer.len()).max(256);
        let mut larger = Vec::with_capacity(self.buffer.len() + more);
        larger.resize(self.start + more, 0);
        larger.extend_from_slice(self.written());
        self.start += more;
        self.buffer = larger;
    }

    #[inline]
    pub(super) fn varint(&mut self, value: u64) {
        if value < 0x80 {
            return self.byte(value as u8);
        }
        let mut bytes = [0u8; 10];
        let mut rest = value;
        let mut length = 0;
        for slot in &mut bytes {
            length += 1;
            *slot = (rest & 0x7f) as u8 | 0x80;
            rest >>= 7;
            if rest == 0 {
                *slot &= 0x7f;
                break;
            }
        }
        self.bytes(bytes.get(..length).unwrap_or_default());
    }

    #[inline]
    pub(super) fn tag(&mut self, number: u32, wire: Wire) {
        self.varint(u64::from(number) << 3 | wire as u64);
    }

    /// Writes length and tag of the message that was written since the writer held `before` bytes.
    #[inline]
    pub(super) fn close(&mut self, number: u32, before: usize) {
        self.varint((self.len() - before) as u64);
        self.tag(number, Wire::Bytes);
    }

    /// Writes a field of bytes.
    #[inline]
    pub(super) fn bytes_field(&mut self, number: u32, bytes: &[u8]) {
        self.bytes(bytes);
        self.varint(bytes.len() as u64);
        self.tag(number, Wire::Bytes);
    }

    /// Writes a varint field.
    #[inline]
    pub(super) fn varint_field(&mut self, number: u32, value: u64) {
        self.varint(value);
        self.tag(number, Wire::Varint);
    }
}
