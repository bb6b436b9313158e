//! What a source holds, object by object, so that a target can be compared with it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::ControlFlow;

use layout::{Layout, Sealed};
use object::Value;
use schema::{Limits, Shape, json};
use store::{Codec, Corrupt, DecodeError, Entry, Key, Patience, Revision, Unavailable, Unreadable};

use super::source::Source;
use super::{Error, Progress};

/// A number that is the same for equal objects, in whatever order their fields are, and without their
/// `resourceVersion`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digest(u64);

/// What a source holds at its revision.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) revision: Revision,
    pub(super) objects: HashMap<Key, Digest>,
    /// What the source says that it cannot read.
    pub(super) missing: Vec<Unreadable>,
    /// What cannot be decrypted, or is not an object.
    pub(super) unreadable: Vec<Unreadable>,
}

/// The first objects of a target that are not as they are in the source, and how many there are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    pub(super) count: usize,
    pub(super) named: BTreeSet<String>,
}

/// So many differences are named.
const MOST_NAMED: usize = 20;

impl Digest {
    /// Of an object in its frame.
    pub(super) fn of(framed: &[u8]) -> Result<Self, String> {
        let text = cache::frame::json(framed)?;
        let object = json::decode_shape(&Shape::Any, text, &Limits::STORED);
        object.map(|object| Self(digest(&object.value))).map_err(|error| error.to_string())
    }
}

/// The parts of a map are added up, so that their order does not matter. The depth is bounded by the decoder.
fn digest(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    std::mem::discriminant(value).hash(&mut hasher);
    match value {
        Value::Null => {}
        Value::Bool(one) => one.hash(&mut hasher),
        Value::Int(number) => number.hash(&mut hasher),
        Value::Float(number) => number.to_bits().hash(&mut hasher),
        Value::String(text) => text.hash(&mut hasher),
        Value::Bytes(bytes) => bytes.hash(&mut hasher),
        Value::Raw(text) => text.hash(&mut hasher),
        Value::List(list) => {
            list.len().hash(&mut hasher);
            list.iter().for_each(|item| digest(item).hash(&mut hasher));
        }
        Value::Map(map) => {
            let part = |(name, value): (&object::Key, &Value)| {
                let mut hasher = DefaultHasher::new();
                (name, digest(value)).hash(&mut hasher);
                hasher.finish()
            };
            map.len().hash(&mut hasher);
            map.iter().map(part).fold(0, u64::wrapping_add).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// The value of an entry of a source, in its frame.
pub(super) fn unsealed(seal: Option<&Sealed>, entry: Entry) -> Result<Entry, Unreadable> {
    let Entry { key, head, value } = entry;
    let opened = match seal {
        Some(seal) => seal.decode_value(&key, value.clone(), Patience::Wait),
        None => Ok(value.clone()),
    };
    match opened {
        Ok(value) => Ok(Entry { key, head, value }),
        Err(DecodeError::Damaged(reason)) => Err(Corrupt { key, revision: head.mod_revision, reason }.into()),
        Err(DecodeError::Unavailable(reason)) => Err(Unavailable { key, head, reason, stored: value }.into()),
    }
}

impl Contents {
    /// Reads everything that a source holds. If it is for an etcd, each object has to fit its layout.
    /// Blocking.
    pub(super) fn read(
        source: &mut Source,
        seal: Option<&Sealed>,
        layout: Option<&Layout>,
    ) -> Result<Self, Error> {
        let mut contents = Self::default();
        let mut progress = Progress::new("reading", None);
        let report = source.visit(&mut |entry| {
            progress.step(entry.as_ref().map_or(0, |entry| entry.value.len()));
            match entry.map(|entry| unsealed(seal, entry).and_then(|entry| checked(layout, entry))) {
                Ok(Ok((key, digest))) => drop(contents.objects.insert(key, digest)),
                Ok(Err(corrupt)) => contents.unreadable.push(corrupt),
                Err(corrupt) => contents.missing.push(corrupt),
            }
            Ok(())
        })?;
        progress.end();
        contents.revision = report.revision;
        Ok(contents)
    }

    /// Refuses what is damaged, by name.
    pub(super) fn check_sound(&self) -> Result<(), Error> {
        match self.missing.is_empty() && self.unreadable.is_empty() {
            true => Ok(()),
            false => Err(Error::Damaged { names: self.damaged() }),
        }
    }

    /// Refuses what cannot be decrypted, by name: with the right key it can be read.
    pub(super) fn check_decrypted(&self) -> Result<(), Error> {
        let all = self.missing.iter().chain(&self.unreadable);
        let names: String = all
            .filter(|unreadable| matches!(unreadable, Unreadable::Unavailable(_)))
            .map(|unreadable| format!("  {unreadable}\n"))
            .collect();
        match names.is_empty() {
            true => Ok(()),
            false => Err(Error::Damaged { names }),
        }
    }

    /// The names of everything that is damaged, one in a line.
    pub(super) fn damaged(&self) -> String {
        let damaged = self.missing.iter().chain(&self.unreadable);
        damaged.map(|corrupt| format!("  {corrupt}\n")).collect()
    }
}

fn checked(layout: Option<&Layout>, entry: Entry) -> Result<(Key, Digest), Unreadable> {
    let Entry { key, head, value } = entry;
    let digest = Digest::of(&value).and_then(|digest| match layout {
        Some(layout) => layout.encode_value(&key, value).map(|_| digest),
        None => Ok(digest),
    });
    match digest {
        Ok(digest) => Ok((key, digest)),
        Err(reason) => Err(Corrupt { key, revision: head.mod_revision, reason }.into()),
    }
}

/// Compares what a target holds with what it should.
pub(super) struct Comparison<'a> {
    contents: &'a Contents,
    seen: usize,
    progress: Progress,
    differences: Differences,
    /// What is there, with other contents.
    pub(super) changed: HashMap<Key, Digest>,
    unseen: HashSet<&'a Key>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(contents: &'a Contents) -> Self {
        Self {
            contents,
            seen: 0,
            progress: Progress::new("verifying", Some(contents.objects.len() as u64)),
            differences: Differences::default(),
            changed: HashMap::new(),
            unseen: contents.objects.keys().collect(),
        }
    }

    /// One entry of the target, with its value in its frame.
    pub(super) fn add(&mut self, entry: Result<Entry, Unreadable>) -> ControlFlow<()> {
        self.progress.step(entry.as_ref().map_or(0, |entry| entry.value.len()));
        self.seen += 1;
        match entry {
            Ok(entry) => {
                self.unseen.remove(&entry.key);
                match (self.contents.objects.get(&entry.key), Digest::of(&entry.value)) {
                    (None, _) => self.differences.add(format!("{} should not be there", entry.key)),
                    (Some(wanted), Ok(found)) if found == *wanted => {}
                    (Some(_), Ok(found)) => drop(self.changed.insert(entry.key, found)),
                    (Some(_), Err(reason)) => self.differences.add(format!("{}: {reason}", entry.key)),
                }
            }
            Err(unreadable) => {
                self.unseen.remove(unreadable.key());
                self.differences.add(unreadable.to_string());
            }
        }
        ControlFlow::Continue(())
    }

    /// Everything that differs. An object that is not there is no difference if `may_miss` says so.
    pub(super) fn finish(mut self, may_miss: impl Fn(&Key) -> bool) -> Result<u64, Differences> {
        self.progress.end();
        for key in self.changed.keys() {
            self.differences.add(format!("{key} differs"));
        }
        for key in self.unseen {
            if !may_miss(key) {
                self.differences.add(format!("{key} is missing"));
            }
        }
        match self.differences.count {
            0 => Ok(self.seen as u64),
            _ => Err(self.differences),
        }
    }
}

impl Differences {
    fn add(&mut self, what: String) {
        self.count += 1;
        if self.named.len() < MOST_NAMED {
            self.named.insert(what);
        }
    }

    pub(super) fn text(&self) -> String {
        self.named.iter().map(|what| format!("  {what}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Head;

    fn framed(text: &str) -> bytes::Bytes {
        cache::frame::of(text.as_bytes()).unwrap()
    }

    fn entry(key: &str, text: &str) -> Entry {
        let head = Head { create_revision: Revision(1), mod_revision: Revision(1) };
        Entry { key: Key::try_from(key).unwrap(), head, value: framed(text) }
    }

    #[test]
    fn a_digest_is_of_the_object_and_not_of_its_order() {
        let of = |text: &str| Digest::of(&framed(text)).unwrap();
        let one = of(r#"{"metadata":{"name":"a","resourceVersion":"1"},"data":{"a":"1","b":[1,2]}}"#);
        assert_eq!(one, of(r#"{"data":{"b":[1,2],"a":"1"},"metadata":{"resourceVersion":"9","name":"a"}}"#));
        for other in [
            r#"{"metadata":{"name":"a"},"data":{"a":"1","b":[2,1]}}"#,
            r#"{"metadata":{"name":"a"},"data":{"a":"1","b":[1]}}"#,
            r#"{"metadata":{"name":"a"},"data":{"a":1,"b":[1,2]}}"#,
            r#"{"metadata":{"name":"a"},"data":{"b":"1","a":[1,2]}}"#,
        ] {
            assert_ne!(one, of(other), "{other}");
        }
        assert!(Digest::of(b"k8s:enc:").is_err());
        let frame = framed(r#"{"metadata":{}}"#);
        assert_eq!(Digest::of(&cache::frame::stale(&frame)), Digest::of(&frame));
    }

    #[test]
    fn a_comparison_names_what_differs() {
        let text = r#"{"metadata":{"name":"a"}}"#;
        let mut contents = Contents::default();
        for name in ["configmaps/a", "configmaps/b", "configmaps/c", "events/d"] {
            let entry = entry(name, text);
            contents.objects.insert(entry.key, Digest::of(&entry.value).unwrap());
        }
        let compare = |entries: Vec<Entry>| {
            let mut comparison = Comparison::new(&contents);
            entries.into_iter().for_each(|entry| assert!(comparison.add(Ok(entry)).is_continue()));
            comparison.finish(|key| key.as_bytes().starts_with(b"events/"))
        };
        let (a, b, c) =
            (entry("configmaps/a", text), entry("configmaps/b", text), entry("configmaps/c", text));
        assert_eq!(compare(vec![a.clone(), b, c]), Ok(3));
        let wrong = entry("configmaps/b", r#"{"metadata":{"name":"b"}}"#);
        let differences = compare(vec![a, wrong, entry("pods/x", text)]).unwrap_err();
        assert_eq!(differences.count, 3);
        assert_eq!(
            differences.text(),
            "  configmaps/b differs\n  configmaps/c is missing\n  pods/x should not be there\n"
        );
    }
}
