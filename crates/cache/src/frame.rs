//! How an object lies in the store: its canonical JSON without the digits of `resourceVersion`, behind the
//! place where they belong.
//!
//! ```text
//! u32, little endian   the offset, in the text that follows, between the quotes of "resourceVersion":""; the highest bit says that
//!                      the object is to be written again even if it does not change
//! the text             {"kind":"Pod",...,"metadata":{"name":"a","uid":"u","resourceVersion":"",...},...}
//! ```
//!
//! The revision of a change is known only after the change is written; it is spliced in
//! at the stored offset, without parsing the object. No other module knows this form.
//!
//! A store with a layout of its own turns the text into something else: [`json`] takes it out of a frame,
//! [`of`] makes a frame of it.

use crate::record::{self, RevisionSlot};
use crate::spec::Spec;
use bytes::Bytes;
use std::sync::LazyLock;

/// A type without selectable fields: only the place of the revision is looked for.
static PLAIN: LazyLock<Option<Spec>> = LazyLock::new(|| Spec::cluster("any").ok());

/// Set in the header of an object that is to be written again.
const STALE: u32 = 1 << 31;

/// Says of an object that its store keeps it in a form that is out of date: the next write counts, even if it
/// changes nothing.
pub fn stale(framed: &[u8]) -> Bytes {
    let mut marked = framed.to_vec();
    if let Some(highest) = marked.get_mut(HEADER - 1) {
        *highest |= STALE.to_le_bytes()[HEADER - 1];
    }
    marked.into()
}

/// The JSON in a frame: an object whose `resourceVersion` is empty.
pub fn json(framed: &[u8]) -> Result<&[u8], &'static str> {
    let (_, text) = framed.split_first_chunk::<HEADER>().ok_or("it is shorter than its header")?;
    Ok(text)
}

/// The frame of an object's JSON, whose `metadata.resourceVersion` may hold anything or be absent.
pub fn of(json: &[u8]) -> Result<Bytes, String> {
    let text = str::from_utf8(json).map_err(|error| error.to_string())?;
    let spec = PLAIN.as_ref().ok_or("there is no type to scan by")?;
    let scanned = record::scan(spec, text).map_err(|broken| broken.to_string())?;
    encode(text, scanned.revision).ok_or_else(|| "it is too large".to_owned())
}

/// The bytes before the text.
const HEADER: usize = 4;

/// Canonical bytes, with the digits of the revision in place.
pub(crate) struct Unframed {
    pub(crate) json: Bytes,
    /// Where the digits start.
    pub(crate) at: usize,
    pub(crate) is_stale: bool,
}

/// The stored form of an object whose `resourceVersion` is, or belongs, at `place`.
pub(crate) fn encode(json: &str, place: RevisionSlot) -> Option<Bytes> {
    let RevisionSlot { start, end, before, after } = place;
    let (head, tail) = (json.get(..start)?, json.get(end..)?);
    let at = u32::try_from(start + before.len()).ok().filter(|at| at & STALE == 0)?;
    let mut framed = Vec::with_capacity(HEADER + head.len() + before.len() + after.len() + tail.len());
    framed.extend(at.to_le_bytes());
    for part in [head, before, after, tail] {
        framed.extend_from_slice(part.as_bytes());
    }
    Some(framed.into())
}

/// The stored form of canonical bytes, whose revision has `digits` digits at `at`.
pub(crate) fn without_revision(json: &[u8], at: u32, digits: usize) -> Bytes {
    let head = json.get(..at as usize).unwrap_or_default();
    let tail = json.get(at as usize + digits..).unwrap_or_default();
    let mut framed = Vec::with_capacity(HEADER + head.len() + tail.len());
    framed.extend(at.to_le_bytes());
    framed.extend_from_slice(head);
    framed.extend_from_slice(tail);
    framed.into()
}

/// The canonical bytes of a stored object that was written at `revision`.
pub(crate) fn decode(stored: &[u8], revision: u64) -> Result<Unframed, &'static str> {
    let (header, text) = stored.split_first_chunk::<HEADER>().ok_or("it is shorter than its header")?;
    let header = u32::from_le_bytes(*header);
    let (at, is_stale) = ((header & !STALE) as usize, header & STALE != 0);
    let quoted = at.checked_sub(1).and_then(|before| text.get(before..=at)) == Some(b"\"\"");
    let Some((head, tail)) = text.split_at_checked(at).filter(|_| quoted) else {
        return Err("the place of its resourceVersion is wrong");
    };
    Ok(Unframed { json: splice(head, revision, tail), at, is_stale })
}

/// Canonical bytes from the bytes before and after the digits of a revision.
pub(crate) fn splice(head: &[u8], revision: u64, tail: &[u8]) -> Bytes {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(revision).as_bytes();
    let mut json = Vec::with_capacity(head.len() + digits.len() + tail.len());
    for part in [head, digits, tail] {
        json.extend_from_slice(part);
    }
    json.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Spec, record::scan};

    fn round(json: &str, revision: u64) -> String {
        let spec = Spec::namespaced("pods").unwrap();
        let framed = encode(json, scan(&spec, json).unwrap().revision).unwrap();
        let unframed = decode(&framed, revision).unwrap();
        assert_eq!(&unframed.json[unframed.at..unframed.at + 2], &revision.to_string().as_bytes()[..2]);
        String::from_utf8(unframed.json.to_vec()).unwrap()
    }

    #[test]
    fn the_revision_goes_where_it_belongs() {
        for (given, stored) in [
            (r#"{"metadata":{}}"#, r#"{"metadata":{"resourceVersion":"42"}}"#),
            (r#"{"metadata":{"labels":{}}}"#, r#"{"metadata":{"resourceVersion":"42","labels":{}}}"#),
            (
                r#"{"metadata":{"name":"a","uid":"u","generation":1}}"#,
                r#"{"metadata":{"name":"a","uid":"u","resourceVersion":"42","generation":1}}"#,
            ),
            (
                r#"{"metadata":{"name":"a","creationTimestamp":null}}"#,
                r#"{"metadata":{"name":"a","resourceVersion":"42","creationTimestamp":null}}"#,
            ),
            (r#"{"metadata":{"resourceVersion":"7"}}"#, r#"{"metadata":{"resourceVersion":"42"}}"#),
            (r#"{"metadata":{"resourceVersion":""}}"#, r#"{"metadata":{"resourceVersion":"42"}}"#),
            (r#"{"metadata":{"resourceVersion":null}}"#, r#"{"metadata":{"resourceVersion":"42"}}"#),
            (r#"{"metadata":{"resourceVersion":[1]}}"#, r#"{"metadata":{"resourceVersion":"42"}}"#),
            (r#"{"metadata":{"resourceVersion":"a\"b"}}"#, r#"{"metadata":{"resourceVersion":"42"}}"#),
        ] {
            assert_eq!(round(given, 42), stored);
        }
    }

    #[test]
    fn a_frame_holds_no_digits() {
        let spec = Spec::cluster("nodes").unwrap();
        let json = r#"{"metadata":{"name":"a","resourceVersion":"123456"}}"#;
        let framed = encode(json, scan(&spec, json).unwrap().revision).unwrap();
        assert_eq!(&framed[4..], br#"{"metadata":{"name":"a","resourceVersion":""}}"#);
    }

    #[test]
    fn a_stale_frame_says_so_and_is_read_as_before() {
        let framed = of(br#"{"metadata":{"name":"a"}}"#).unwrap();
        let (fresh, old) = (decode(&framed, 42).unwrap(), decode(&stale(&framed), 42).unwrap());
        assert_eq!((fresh.is_stale, old.is_stale), (false, true));
        assert_eq!((fresh.json, fresh.at), (old.json, old.at));
        assert_eq!(json(&stale(&framed)), json(&framed));
    }

    #[test]
    fn damaged_frames_are_refused() {
        for stored in [
            &b""[..],
            b"\0\0\0",
            b"\0\0\0\0",
            b"\0\0\0\0{}",
            b"\x05\0\0\0{}",
            b"\x01\0\0\0{}",
            b"\xff\xff\xff\xff{}",
        ] {
            assert!(decode(stored, 1).is_err(), "{stored:?}");
        }
    }
}
