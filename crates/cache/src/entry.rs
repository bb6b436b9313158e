//! The committed state of one object: canonical bytes and index record, shared by all readers.

use crate::families::DECODE_ERRORS;
use crate::{
    frame::{self, Unframed},
    record::{self, Record, Scanned},
    spec::Spec,
};
use bytes::Bytes;
use object::label::Labels;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
use store::{Corrupt, Head, Key, Revision};

/// Whether an entry is a committed state, or the last state of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// A committed state.
    Live,
    /// The last state of a deleted object, with the revision of the delete.
    Tombstone,
}

/// Whether decoding the bytes of an object and encoding the result gives the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The same bytes.
    AsIs,
    /// Other bytes: a field with a default was added to the schema, or a field was removed from it, after the
    /// object was written. The object is encoded anew for clients.
    Reencoded,
}

/// The committed state of one object. There is no decoded tree: only bytes, and the positions of the values
/// that readers select by.
pub struct Entry {
    spec: Arc<Spec>,
    key: Box<str>,
    create_revision: Revision,
    mod_revision: Revision,
    bytes: Bytes,
    /// Where in the bytes the digits of the revision start.
    revision_at: u32,
    namespace_len: u16,
    form: Form,
    is_stale: bool,
    /// What is known of the bytes: see [`Fit`].
    fit: AtomicU32,
    record: Record,
}

impl Entry {
    /// Reads a stored value. Anything wrong with it is reported with the key.
    pub(crate) fn read(spec: &Arc<Spec>, key: &Key, head: &Head, stored: &[u8]) -> Result<Self, Corrupt> {
        let corrupt = |reason: String| {
            DECODE_ERRORS.with([spec.prefix()]).inc();
            Corrupt { key: key.clone(), revision: head.mod_revision, reason }
        };
        let within = within(spec, key).ok_or_else(|| corrupt("its key is not one of its type".into()))?;
        let Unframed { json, at, is_stale } =
            frame::decode(stored, head.mod_revision.0).map_err(|reason| corrupt(reason.into()))?;
        let text = str::from_utf8(&json).map_err(|_| corrupt("it is not UTF-8".into()))?;
        let scanned = record::scan(spec, text).map_err(|broken| corrupt(broken.to_string()))?;
        let revision = scanned.revision;
        if revision.start != at || !revision.before.is_empty() {
            return Err(corrupt("the place of its resourceVersion is wrong".into()));
        }
        if !is_named(spec, within, &scanned) {
            return Err(corrupt(format!("its bytes are those of {}", claimed(spec, &scanned))));
        }
        let record = scanned.record;
        Self::new(spec, within, head, Unframed { json, at, is_stale }, record)
            .ok_or_else(|| corrupt("its key is too long".into()))
    }

    /// `None` if something is too long.
    fn new(spec: &Arc<Spec>, within: &str, head: &Head, unframed: Unframed, record: Record) -> Option<Self> {
        Some(Self {
            spec: spec.clone(),
            namespace_len: spec.namespace_len(within).unwrap_or(0).try_into().ok()?,
            key: within.into(),
            create_revision: head.create_revision,
            mod_revision: head.mod_revision,
            revision_at: unframed.at.try_into().ok()?,
            form: Form::Live,
            is_stale: unframed.is_stale,
            fit: AtomicU32::new(0),
            record,
            bytes: unframed.json,
        })
    }

    /// This state with the revision of the change that ended it.
    pub(crate) fn tombstone(&self, revision: Revision) -> Self {
        let at = self.revision_at as usize;
        let old_len = self.mod_revision.0.checked_ilog10().unwrap_or(0) as usize + 1;
        let head = self.bytes.get(..at).unwrap_or_default();
        let tail = self.bytes.get(at + old_len..).unwrap_or_default();
        let bytes = frame::splice(head, revision.0, tail);
        let record = self.record.clone().moved(at, bytes.len() as isize - self.bytes.len() as isize);
        Self {
            spec: self.spec.clone(),
            key: self.key.clone(),
            mod_revision: revision,
            bytes,
            form: Form::Tombstone,
            fit: AtomicU32::new(self.fit.load(Ordering::Relaxed)),
            record,
            ..*self
        }
    }

    /// The stored value that the entry is read from.
    pub(crate) fn framed(&self) -> Bytes {
        let digits = self.mod_revision.0.checked_ilog10().unwrap_or(0) as usize + 1;
        frame::without_revision(&self.bytes, self.revision_at, digits)
    }

    /// The resource type of the object.
    pub fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }

    /// The key of the object within its type: `<namespace>/<name>`, or the name alone.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The namespace of the object; empty if the type has none.
    pub fn namespace(&self) -> &str {
        self.key.get(..usize::from(self.namespace_len)).unwrap_or_default()
    }

    /// The name of the object.
    pub fn name(&self) -> &str {
        match self.namespace_len {
            0 => &self.key,
            len => self.key.get(usize::from(len) + 1..).unwrap_or_default(),
        }
    }

    /// The uid of the object.
    pub fn uid(&self) -> &str {
        text(self.record.uid(&self.bytes))
    }

    /// The revision that created the object.
    pub fn create_revision(&self) -> Revision {
        self.create_revision
    }

    /// The revision of the last change of the object: its `resourceVersion`.
    pub fn mod_revision(&self) -> Revision {
        self.mod_revision
    }

    /// Whether the stored form is out of date, such as encrypted with an old key: the next write is committed
    /// even if it changes nothing.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Whether it is known that the bytes decode as the type of the object, beyond being JSON with valid
    /// metadata.
    pub fn is_known_to_decode(&self) -> bool {
        self.fit.load(Ordering::Relaxed) != 0
    }

    /// What is known of the bytes under the schema with this number; `None` if [`Entry::note_fit`] was last
    /// called for another schema.
    pub fn fit(&self, schema: u32) -> Option<Fit> {
        match self.fit.load(Ordering::Relaxed) {
            known if known >> 1 != schema || known == 0 => None,
            known if known & 1 == 1 => Some(Fit::AsIs),
            _ => Some(Fit::Reencoded),
        }
    }

    /// Notes that the bytes were decoded, or encoded, with the schema of this number, which is not zero.
    pub fn note_fit(&self, schema: u32, fit: Fit) {
        self.fit.store(schema << 1 | u32::from(fit == Fit::AsIs), Ordering::Relaxed);
    }

    /// Whether this is a committed state, or the last state of a deleted object.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The canonical bytes: JSON in the storage version, with `resourceVersion` in place.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The labels of the object, in its order.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.record.labels(&self.bytes).map(|[key, value]| (text(key), text(value)))
    }

    /// The value of a selectable field, or of `metadata.name` and `metadata.namespace`; `None` if the type
    /// declares no such field.
    pub fn field(&self, name: &str) -> Option<&str> {
        match name {
            "metadata.name" => Some(self.name()),
            "metadata.namespace" => Some(self.namespace()),
            _ => self.spec.position(name).map(|at| text(self.field_at(at))),
        }
    }

    /// The bytes of a field's value, by the index of the field in the spec.
    pub(crate) fn field_at(&self, at: usize) -> &[u8] {
        let absent = || {
            let part = self.record.field_part(at);
            self.spec.fields().get(at).map_or("", |field| field.absent_value(part)).as_bytes()
        };
        self.record.field(&self.bytes, at).unwrap_or_else(absent)
    }

    /// False if the object certainly has no label with these marks.
    pub(crate) fn may_have(&self, marks: u64) -> bool {
        self.record.may_have(marks)
    }

    /// The uids of the owners of the object.
    pub fn owners(&self) -> impl ExactSizeIterator<Item = &str> {
        self.record.owners(&self.bytes).map(text)
    }

    /// Whether the object has a `deletionTimestamp`.
    pub fn is_deleting(&self) -> bool {
        self.record.is_deleting()
    }

    /// About how many bytes of memory the entry takes.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.key.len() + self.bytes.len() + self.record.size()
    }
}

impl Labels for Entry {
    fn label(&self, key: &str) -> Option<&str> {
        let found = self.record.labels(&self.bytes).find(|[own, _]| *own == key.as_bytes());
        found.map(|[_, value]| text(value))
    }

    fn all_labels(&self, each: &mut dyn FnMut(&str, &str) -> bool) -> bool {
        self.labels().all(|(key, value)| each(key, value))
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.spec.prefix(), self.key, self.mod_revision)
    }
}

/// Bytes of an entry as text: they were checked to be UTF-8 when the entry was read.
fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap_or_default()
}

/// The part of a store's key behind the prefix of the type.
pub(crate) fn within<'a>(spec: &Spec, key: &'a Key) -> Option<&'a str> {
    let key = str::from_utf8(key.as_bytes()).ok()?;
    let within = key.strip_prefix(spec.prefix())?.strip_prefix('/')?;
    spec.namespace_len(within).map(|_| within)
}

/// The key that an object claims by its names.
pub(crate) fn claimed(spec: &Spec, scanned: &Scanned<'_>) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes);
    spec.key(&text(scanned.namespace()), &text(scanned.name()))
}

/// Whether the names of an object are those of a key within its type.
pub(crate) fn is_named(spec: &Spec, key: &str, scanned: &Scanned<'_>) -> bool {
    let namespace_len = spec.namespace_len(key).unwrap_or(0);
    let (namespace, name) = match namespace_len {
        0 => ("", key),
        len => (key.get(..len).unwrap_or_default(), key.get(len + 1..).unwrap_or_default()),
    };
    scanned.name() == name.as_bytes() && (namespace_len == 0 || scanned.namespace() == namespace.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Field;

    fn spec() -> Arc<Spec> {
        let spec = Spec::namespaced("pods").unwrap().field(Field::new("spec.nodeName").indexed());
        Arc::new(spec.field(Field::new("spec.hostNetwork").absent("false")))
    }

    fn read(key: &str, json: &str, revision: u64) -> Result<Entry, Corrupt> {
        let head = Head { create_revision: Revision(3), mod_revision: Revision(revision) };
        let place = record::scan(&spec(), json).unwrap().revision;
        Entry::read(&spec(), &Key::try_from(key).unwrap(), &head, &frame::encode(json, place).unwrap())
    }

    const POD: &str = r#"{"kind":"Pod","metadata":{"name":"a","namespace":"default","uid":"u-1","labels":{"app":"web"}},"spec":{"nodeName":"n1"}}"#;

    #[test]
    fn an_entry_has_names_labels_and_selectable_fields() {
        let entry = read("pods/default/a", POD, 9).unwrap();
        assert_eq!((entry.namespace(), entry.name(), entry.uid()), ("default", "a", "u-1"));
        assert_eq!(entry.labels().collect::<Vec<_>>(), [("app", "web")]);
        assert_eq!((entry.label("app"), entry.label("tier")), (Some("web"), None));
        assert_eq!(entry.field("spec.nodeName"), Some("n1"));
        assert_eq!(entry.field("spec.hostNetwork"), Some("false"));
        assert_eq!(entry.field("metadata.namespace"), Some("default"));
        assert_eq!(entry.field("spec.other"), None);
        assert_eq!((entry.create_revision(), entry.mod_revision()), (Revision(3), Revision(9)));
        assert!(
            str::from_utf8(entry.bytes()).unwrap().contains(r#""uid":"u-1","resourceVersion":"9","labels""#)
        );
    }

    #[test]
    fn a_tombstone_differs_in_its_resource_version_alone() {
        let entry = read("pods/default/a", POD, 9).unwrap();
        for revision in [10, 123_456] {
            let tombstone = entry.tombstone(Revision(revision));
            let expected =
                str::from_utf8(entry.bytes()).unwrap().replace("\"9\"", &format!("\"{revision}\""));
            assert_eq!(tombstone.bytes(), expected.as_bytes());
            assert_eq!((tombstone.uid(), tombstone.label("app")), ("u-1", Some("web")));
            assert_eq!(tombstone.field("spec.nodeName"), Some("n1"));
            assert_eq!((tombstone.form(), tombstone.mod_revision()), (Form::Tombstone, Revision(revision)));
            let again = tombstone.tombstone(Revision(1));
            assert_eq!(again.bytes(), expected.replace(&format!("\"{revision}\""), "\"1\"").as_bytes());
            assert_eq!(again.field("spec.nodeName"), Some("n1"));
        }
    }

    #[test]
    fn an_entry_that_is_read_from_its_own_frame_is_the_same() {
        for revision in [9, 123_456] {
            let entry = read("pods/default/a", POD, revision).unwrap();
            let key = Key::try_from("pods/default/a").unwrap();
            let head = Head { create_revision: Revision(3), mod_revision: Revision(revision) };
            let again = Entry::read(&spec(), &key, &head, &entry.framed()).unwrap();
            assert_eq!((again.bytes(), again.uid()), (entry.bytes(), "u-1"));
        }
    }

    #[test]
    fn bytes_of_another_object_are_corrupt() {
        let corrupt = read("pods/default/b", POD, 9).unwrap_err();
        assert_eq!(
            corrupt.to_string(),
            "the stored object pods/default/b (revision 9) is corrupt: its bytes are those of default/a"
        );
        assert!(read("pods/a", POD, 9).is_err());
    }
}
