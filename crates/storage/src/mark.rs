//! The mark of an etcd that a migration or a restore is filling: a key beside the objects, written first and
//! removed last.

use bytes::Bytes;
use store::{InvalidKey, Key, Revision, Store};

/// What an etcd is being filled from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// In words, the same for each attempt.
    pub from: String,
    /// The newest revision there.
    pub revision: Revision,
}

const FROM: &str = "from: ";
const REVISION: &str = "revision: ";

impl Mark {
    /// Its key under a prefix such as `/registry`; no object has such a key.
    pub fn key(prefix: &str) -> Result<Key, InvalidKey> {
        Key::try_from(format!("/{}/keelson.dev/migration", prefix.trim_matches('/')))
    }

    /// The mark of a store with keys and values as they lie in it. Blocking.
    pub fn read(store: &dyn Store, key: &Key) -> Result<Option<Self>, store::Error> {
        Ok(store.get(key)?.map(|entry| Self::parse(&entry.value)))
    }

    /// The value of the key.
    pub fn value(&self) -> Bytes {
        let Self { from, revision } = self;
        format!("an unfinished migration to this etcd\n{FROM}{from}\n{REVISION}{revision}\n").into()
    }

    fn parse(value: &[u8]) -> Self {
        let text = String::from_utf8_lossy(value);
        let line = |name| text.lines().find_map(|line| line.strip_prefix(name));
        let from = line(FROM).unwrap_or("what its mark does not say").to_owned();
        let revision = line(REVISION).and_then(|number| number.parse().ok()).unwrap_or_default();
        Self { from, revision: Revision(revision) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::{Layout, MediaType};
    use store::Codec as _;

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let mark = Mark { from: "the data directory /a b".into(), revision: Revision(7) };
        assert_eq!(Mark::parse(&mark.value()), mark);
        let broken = Mark::parse(b"\xff");
        assert_eq!((broken.from.as_str(), broken.revision), ("what its mark does not say", Revision::ZERO));
    }

    #[test]
    fn a_mark_is_no_object() {
        let key = Mark::key("registry/").unwrap();
        assert_eq!(key.as_bytes(), b"/registry/keelson.dev/migration");
        assert_eq!(Layout::new("/registry", MediaType::Json).decode_key(&key), None);
    }
}
