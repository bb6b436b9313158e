//! The record of node ports in a store that several servers share, those of the reference among them.
//!
//! It is one RangeAllocation, which is not served: a range, and a number with a bit for each port of it that
//! is taken. A server takes ports by writing the record, which fails if another has written it meanwhile; so
//! a port is given once.

use crate::PortRange;
use bytes::Bytes;
use object::{Key as Field, Map, Value};
use schema::view::View as _;
use schema::views::core::v1::RangeAllocation;
use schema::{Limits, Status, json, protobuf};
use std::collections::BTreeSet;
use std::sync::Arc;
use store::{Change, Error, Expect, InvalidKey, Key, Revision, Store};
use tokio::sync::{Mutex, MutexGuard};

/// The record of node ports.
pub struct PortRecord {
    /// With keys as they lie in it, and values as they are before they are encrypted.
    store: Arc<dyn Store>,
    key: Key,
    turn: Mutex<()>,
}

/// The content of the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// The ports that are taken.
    pub(crate) taken: BTreeSet<u16>,
    /// The revision of the record; `None` if there is no record.
    written: Option<Revision>,
}

impl Recorded {
    /// Whether there is a record that says exactly this.
    pub(crate) fn says(&self, taken: &BTreeSet<u16>) -> bool {
        self.written.is_some() && self.taken == *taken
    }
}

impl PortRecord {
    /// The resource that the record is of, for encryption.
    pub const RESOURCE: &str = "servicenodeportallocations";

    /// The record of the servers that keep objects under a prefix such as `/registry`.
    pub fn new(store: Arc<dyn Store>, prefix: &str) -> Result<Self, InvalidKey> {
        let key = Key::try_from(format!("/{}/ranges/servicenodeports", prefix.trim_matches('/')))?;
        Ok(Self { store, key, turn: Mutex::default() })
    }

    /// Waits until no other task of this process is about to write the record.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    pub(crate) async fn read(&self) -> Result<Recorded, Status> {
        let (store, key) = (self.store.clone(), self.key.clone());
        let found = tokio::task::spawn_blocking(move || store.get(&key)).await;
        let Some(entry) = found.unwrap_or(Err(Error::Closed)).map_err(status)? else {
            return Ok(Recorded::default());
        };
        let unreadable = |why: String| Status::internal_error(&format!("the record of node ports: {why}"));
        let taken = decode(&entry.value).map_err(unreadable)?;
        Ok(Recorded { taken, written: Some(entry.head.mod_revision) })
    }

    /// Replaces the ports that were read; false if another server has written the record meanwhile.
    pub(crate) async fn write(
        &self,
        range: PortRange,
        read: &Recorded,
        taken: &BTreeSet<u16>,
    ) -> Result<bool, Status> {
        let mut change = Change::put(self.key.clone(), encode(range, taken));
        change.expect = read.written.map_or(Expect::Absent, Expect::At);
        match self.store.commit(change).await {
            Ok(_) => Ok(true),
            Err(Error::Conflict(_)) => Ok(false),
            Err(error) => Err(status(error)),
        }
    }
}

fn status(error: Error) -> Status {
    registry::status(error.into())
}

/// The stored form of a record; ports outside of the range are left out.
fn encode(range: PortRange, taken: &BTreeSet<u16>) -> Bytes {
    let mut bits = Vec::new();
    for place in taken.iter().filter_map(|port| range.place(*port)) {
        let (byte, bit) = (usize::from(place / 8), place % 8);
        if bits.len() <= byte {
            bits.resize(byte + 1, 0);
        }
        if let Some(byte) = bits.get_mut(byte) {
            *byte |= 1 << bit;
        }
    }
    // A number, with its highest byte first.
    bits.reverse();
    let mut record = Map::new();
    for (field, text) in [("kind", "RangeAllocation"), ("apiVersion", "v1")] {
        record.insert(Field::known(field), Value::from(text));
    }
    record.insert(Field::known("metadata"), Value::Map(Map::new()));
    record.insert(Field::known("range"), Value::from(range.to_string().as_str()));
    record.insert(Field::known("data"), Value::Bytes(bits.into()));
    let mut out = Vec::new();
    protobuf::encode(RangeAllocation::schema(), &Value::Map(record), &mut out);
    out.into()
}

/// The ports that a stored record says are taken.
fn decode(stored: &[u8]) -> Result<BTreeSet<u16>, String> {
    let ty = RangeAllocation::schema();
    let record = match stored.starts_with(&protobuf::PREFIX) {
        true => protobuf::decode(ty, stored, &Limits::STORED).map_err(|error| error.to_string())?,
        false => json::decode(ty, stored, &Limits::STORED).map_err(|error| error.to_string())?.value,
    };
    let record = record.as_map().ok_or("it is no object")?;
    let range = PortRange::parse(RangeAllocation::of(record).range())?;
    let bits = record.get("data").and_then(Value::as_bytes).unwrap_or_default();
    let places = bits.iter().rev().zip((0..=u16::MAX).step_by(8)).flat_map(|(byte, first)| {
        (0..8).filter(move |bit| byte & (1 << bit) != 0).filter_map(move |bit| first.checked_add(bit))
    });
    Ok(places.filter_map(|place| range.at(place)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::memory::Memory;

    fn range(text: &str) -> PortRange {
        PortRange::parse(text).unwrap()
    }

    #[test]
    fn record_is_that_of_the_reference() {
        let stored = encode(range("30000-32767"), &[30000, 30001, 30009, 29999].into());
        let expected: &[u8] =
            b"k8s\0\n\x15\n\x02v1\x12\x0fRangeAllocation\x12#\n\x10\n\0\x12\0\x1a\0\x22\0*\x002\08\0B\0";
        assert_eq!(stored.get(..expected.len()), Some(expected), "{stored:?}");
        assert!(stored.ends_with(b"\x12\x0b30000-32767\x1a\x02\x02\x03\x1a\0\"\0"), "{stored:?}");
        assert_eq!(decode(&stored), Ok([30000, 30001, 30009].into()));
        let text =
            br#"{"kind":"RangeAllocation","apiVersion":"v1","metadata":{},"range":"100-200","data":"AgM="}"#;
        assert_eq!(decode(text), Ok([100, 101, 109].into()));
        let empty = encode(range("1-65535"), &BTreeSet::new());
        assert_eq!(decode(&empty), Ok(BTreeSet::new()));
        assert_eq!(decode(&encode(range("0-65535"), &[0, 65535].into())), Ok([0, 65535].into()));
        assert!(decode(b"k8s\0x").is_err() && decode(b"{}").is_err() && decode(b"").is_err());
    }

    #[tokio::test]
    async fn record_is_written_by_one_at_a_time() {
        let store: Arc<dyn Store> = Arc::new(Memory::default());
        let record = PortRecord::new(store.clone(), "/registry").unwrap();
        let range = range("30000-30010");
        let nothing = record.read().await.unwrap();
        assert_eq!(nothing, Recorded::default());
        assert!(record.write(range, &nothing, &[30001].into()).await.unwrap());
        assert!(!record.write(range, &nothing, &[30002].into()).await.unwrap());
        let read = record.read().await.unwrap();
        assert_eq!(read.taken, [30001].into());
        assert!(record.write(range, &read, &[30001, 30002].into()).await.unwrap());
        assert!(!record.write(range, &read, &[].into()).await.unwrap());
        assert!(store.get(&Key::try_from("/registry/ranges/servicenodeports").unwrap()).unwrap().is_some());
    }
}
