//! The index record of an object: the few values that readers select by, found in one pass over its JSON.
//!
//! A record copies nothing: it holds the places of its values in the object's bytes. Only a value that is
//! written with escapes is kept in a side text.

use crate::{
    scan::{Broken, Scalar, Scanner, Text, unescape},
    spec::{Paths, Spec},
};

/// A run of bytes in the object, or in the side text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    len: u32,
}

/// Set in the start of a span that lies in the side text.
const SIDE: u32 = 1 << 31;

/// The values that readers select by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// The uid, the selectable fields, the uids of owners, then keys and values of labels.
    spans: Box<[Span]>,
    side: Option<Box<str>>,
    /// The marks of all labels: most objects that do not match a selector are excluded without reading their
    /// text.
    signature: u64,
    fields: u16,
    owners: u16,
    deleting: bool,
}

/// The marks that a label leaves in a signature: two bits of it, as a rule.
pub(crate) fn label_marks(key: &[u8], value: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in key.iter().chain(b"=").chain(value) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    // The last bytes, in which values of one label differ, have not yet come to bear on the upper bits.
    hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (1 << (hash >> 58)) | (1 << ((hash >> 52) & 63))
}

/// The result of one pass over an object.
#[derive(Debug)]
pub(crate) struct Scanned<'a> {
    json: &'a str,
    name: Span,
    namespace: Span,
    pub(crate) revision: RevisionSlot,
    pub(crate) record: Record,
}

impl Scanned<'_> {
    /// The name that the object claims.
    pub(crate) fn name(&self) -> &[u8] {
        self.record.bytes(self.name, self.json.as_bytes())
    }

    /// The namespace that the object claims.
    pub(crate) fn namespace(&self) -> &[u8] {
        self.record.bytes(self.namespace, self.json.as_bytes())
    }
}

/// The place of a `resourceVersion`: to write one, the bytes from `start` to `end` are replaced by `before`,
/// the digits, and `after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RevisionSlot {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) before: &'static str,
    pub(crate) after: &'static str,
}

impl Record {
    pub(crate) fn uid<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        self.spans.first().map_or(&[], |span| self.bytes(*span, bytes))
    }

    /// The value of a declared field, if the object has it.
    pub(crate) fn field<'a>(&'a self, bytes: &'a [u8], field: usize) -> Option<&'a [u8]> {
        let span = self.spans.get(1..1 + usize::from(self.fields))?.get(field)?;
        (span.len > 0).then(|| self.bytes(*span, bytes))
    }

    /// For a field that the object does not have: the index in `Field::absent_within` of the longest part of
    /// the path that the object has.
    pub(crate) fn field_part(&self, field: usize) -> Option<usize> {
        let span = self.spans.get(1..1 + usize::from(self.fields))?.get(field)?;
        (span.len == 0 && span.start & SIDE != 0).then_some((span.start & !SIDE) as usize)
    }

    pub(crate) fn owners<'a>(&'a self, bytes: &'a [u8]) -> impl ExactSizeIterator<Item = &'a [u8]> {
        let from = 1 + usize::from(self.fields);
        let spans = self.spans.get(from..from + usize::from(self.owners)).unwrap_or_default();
        spans.iter().map(move |span| self.bytes(*span, bytes))
    }

    /// Keys and values of the labels.
    pub(crate) fn labels<'a>(&'a self, bytes: &'a [u8]) -> impl ExactSizeIterator<Item = [&'a [u8]; 2]> {
        let from = 1 + usize::from(self.fields) + usize::from(self.owners);
        let (pairs, _) = self.spans.get(from..).unwrap_or_default().as_chunks::<2>();
        pairs.iter().map(move |pair| pair.map(|span| self.bytes(span, bytes)))
    }

    /// Whether an object with this record may have a label with these marks.
    pub(crate) fn may_have(&self, marks: u64) -> bool {
        self.signature & marks == marks
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.deleting
    }

    /// The same record for bytes in which what lies after `at` has moved.
    pub(crate) fn moved(mut self, at: usize, by: isize) -> Self {
        for Span { start, .. } in &mut self.spans {
            if *start & SIDE == 0 && *start as usize > at {
                *start = (*start as usize).saturating_add_signed(by) as u32;
            }
        }
        self
    }

    /// The bytes it takes beyond its own size.
    pub(crate) fn size(&self) -> usize {
        size_of_val(&*self.spans) + self.side.as_ref().map_or(0, |side| side.len())
    }

    fn bytes<'a>(&'a self, span: Span, bytes: &'a [u8]) -> &'a [u8] {
        let start = (span.start & !SIDE) as usize;
        let source = match (&self.side, span.start & SIDE != 0) {
            (Some(side), true) => side.as_bytes(),
            (None, true) => return &[],
            (_, false) => bytes,
        };
        source.get(start..start + span.len as usize).unwrap_or_default()
    }
}

/// Finds everything in one pass over the JSON of an object.
pub(crate) fn scan<'a>(spec: &Spec, json: &'a str) -> Result<Scanned<'a>, Broken> {
    if json.len() >= SIDE as usize {
        return Err(Broken { what: "an object that is too large", at: json.len() });
    }
    let mut pass = Pass {
        json,
        scanner: Scanner::new(json.as_bytes()),
        side: String::new(),
        fields: vec![Found::default(); spec.fields().len()],
        meta: Meta::default(),
    };
    pass.object(spec)?;
    pass.finish()
}

struct Pass<'a> {
    json: &'a str,
    scanner: Scanner<'a>,
    side: String,
    fields: Vec<Found>,
    meta: Meta,
}

/// The best value of a field so far.
#[derive(Clone, Copy, Default)]
struct Found {
    span: Span,
    rank: usize,
}

impl Found {
    /// Notes that the object has a part of the path.
    fn note_part(&mut self, at: usize) {
        if self.span.len == 0 {
            self.span.start = SIDE | at as u32;
        }
    }
}

#[derive(Default)]
struct Meta {
    name: Span,
    namespace: Span,
    uid: Span,
    owners: Vec<Span>,
    labels: Vec<Span>,
    deleting: bool,
    /// Where the metadata begins, behind its bracket.
    start: Option<usize>,
    /// Behind the last of the fields that come before `resourceVersion`.
    insert: Option<usize>,
    /// Whether `metadata` has any member.
    members: bool,
    revision: Option<RevisionSlot>,
}

impl<'a> Pass<'a> {
    fn object(&mut self, spec: &Spec) -> Result<(), Broken> {
        self.scanner.expect(b'{', "no object")?;
        let mut first = true;
        while let Some(key) = self.scanner.key(&mut first)? {
            match self.raw(key) {
                b"metadata" if self.meta.start.is_some() => {
                    return self.scanner.broken("metadata given twice");
                }
                b"metadata" => self.metadata()?,
                key => match spec.paths().child(key) {
                    Some(paths) => self.selectable(paths)?,
                    None => self.scanner.skip()?,
                },
            }
        }
        self.scanner.end()
    }

    /// Goes down the declared paths; as deep as they are, and no deeper.
    fn selectable(&mut self, paths: &Paths) -> Result<(), Broken> {
        let scalar = self.scanner.scalar()?;
        for part in paths.parts.iter().filter(|_| scalar.is_none_or(|scalar| !matches!(scalar, Scalar::Null)))
        {
            self.fields.get_mut(part.field).into_iter().for_each(|found| found.note_part(part.at));
        }
        if let Some(scalar) = scalar {
            let span = match scalar {
                Scalar::Text(text) | Scalar::Word(text) if !paths.full_paths.is_empty() => self.span(text)?,
                _ => return Ok(()),
            };
            for path in &paths.full_paths {
                if let Some(found) = self.fields.get_mut(path.field)
                    && span.len > 0
                    && (found.span.len == 0 || path.rank < found.rank)
                {
                    *found = Found { span, rank: path.rank };
                }
            }
            return Ok(());
        }
        if !paths.has_children() || self.scanner.peek() != Some(b'{') {
            return self.scanner.skip();
        }
        self.scanner.expect(b'{', "no object")?;
        let mut first = true;
        while let Some(key) = self.scanner.key(&mut first)? {
            match paths.child(self.raw(key)) {
                Some(child) => self.selectable(child)?,
                None => self.scanner.skip()?,
            }
        }
        Ok(())
    }

    fn metadata(&mut self) -> Result<(), Broken> {
        self.scanner.expect(b'{', "metadata that is no object")?;
        self.meta.start = Some(self.scanner.at());
        let mut first = true;
        while let Some(key) = self.scanner.key(&mut first)? {
            self.meta.members = true;
            let before_revision = match self.raw(key) {
                b"name" => self.text().map(|span| self.meta.name = span).map(|()| true)?,
                b"namespace" => self.text().map(|span| self.meta.namespace = span).map(|()| true)?,
                b"uid" => self.text().map(|span| self.meta.uid = span).map(|()| true)?,
                b"generateName" | b"selfLink" => self.scanner.skip().map(|()| true)?,
                b"resourceVersion" => self.revision().map(|()| false)?,
                b"labels" => self.labels().map(|()| false)?,
                b"ownerReferences" => self.owners().map(|()| false)?,
                b"deletionTimestamp" => {
                    self.meta.deleting = !matches!(self.scanner.scalar()?, Some(Scalar::Null));
                    false
                }
                _ => self.scanner.skip().map(|()| false)?,
            };
            if before_revision {
                self.meta.insert = Some(self.scanner.at());
            }
        }
        Ok(())
    }

    fn revision(&mut self) -> Result<(), Broken> {
        self.scanner.peek();
        let start = self.scanner.at();
        let place = match self.scanner.scalar()? {
            Some(Scalar::Text(text)) => {
                RevisionSlot { start: text.start, end: text.end, before: "", after: "" }
            }
            Some(_) => RevisionSlot { start, end: self.scanner.at(), before: "\"", after: "\"" },
            None => {
                self.scanner.skip()?;
                RevisionSlot { start, end: self.scanner.at(), before: "\"", after: "\"" }
            }
        };
        self.meta.revision = Some(place);
        Ok(())
    }

    fn labels(&mut self) -> Result<(), Broken> {
        if self.scanner.peek() != Some(b'{') {
            return self.scanner.skip();
        }
        self.scanner.expect(b'{', "no object")?;
        let mut first = true;
        while let Some(key) = self.scanner.key(&mut first)? {
            let pair = [self.span(key)?, self.text()?];
            self.meta.labels.extend(pair);
        }
        Ok(())
    }

    fn owners(&mut self) -> Result<(), Broken> {
        if self.scanner.peek() != Some(b'[') {
            return self.scanner.skip();
        }
        self.scanner.expect(b'[', "no list")?;
        let mut first_item = true;
        while self.scanner.item(&mut first_item)? {
            self.scanner.expect(b'{', "an owner that is no object")?;
            let mut first = true;
            while let Some(key) = self.scanner.key(&mut first)? {
                match self.raw(key) {
                    b"uid" => {
                        let uid = self.text()?;
                        self.meta.owners.push(uid);
                    }
                    _ => self.scanner.skip()?,
                }
            }
        }
        Ok(())
    }

    /// A value that should be a string; anything else counts as empty.
    fn text(&mut self) -> Result<Span, Broken> {
        match self.scanner.scalar()? {
            Some(Scalar::Text(text)) => self.span(text),
            Some(_) => Ok(Span::default()),
            None => self.scanner.skip().map(|()| Span::default()),
        }
    }

    fn span(&mut self, text: Text) -> Result<Span, Broken> {
        if !text.escaped {
            return Ok(Span { start: text.start as u32, len: (text.end - text.start) as u32 });
        }
        let inside = self.json.get(text.start..text.end).and_then(unescape);
        let inside = inside.ok_or(Broken { what: "a wrong escape in a string", at: text.start })?;
        let start = self.side.len() as u32 | SIDE;
        self.side.push_str(&inside);
        Ok(Span { start, len: inside.len() as u32 })
    }

    fn raw(&self, text: Text) -> &'_ [u8] {
        self.json.as_bytes().get(text.start..text.end).unwrap_or_default()
    }

    fn finish(self) -> Result<Scanned<'a>, Broken> {
        let Meta { name, namespace, uid, owners, labels, deleting, start, insert, members, revision } =
            self.meta;
        let Some(start) = start else { return self.scanner.broken("no metadata") };
        let absent = match (insert, members) {
            (Some(at), _) => {
                RevisionSlot { start: at, end: at, before: ",\"resourceVersion\":\"", after: "\"" }
            }
            (None, true) => {
                RevisionSlot { start, end: start, before: "\"resourceVersion\":\"", after: "\"," }
            }
            (None, false) => {
                RevisionSlot { start, end: start, before: "\"resourceVersion\":\"", after: "\"" }
            }
        };
        let mut spans = Vec::with_capacity(1 + self.fields.len() + owners.len() + labels.len());
        spans.push(uid);
        spans.extend(self.fields.iter().map(|found| found.span));
        spans.extend(&owners);
        spans.extend(&labels);
        let many = Broken { what: "too many owners", at: start };
        let mut record = Record {
            spans: spans.into(),
            signature: 0,
            side: (!self.side.is_empty()).then(|| self.side.into()),
            fields: u16::try_from(self.fields.len()).map_err(|_| many)?,
            owners: u16::try_from(owners.len()).map_err(|_| many)?,
            deleting,
        };
        let labels = record.labels(self.json.as_bytes());
        record.signature = labels.fold(0, |marks, [key, value]| marks | label_marks(key, value));
        Ok(Scanned { json: self.json, name, namespace, revision: revision.unwrap_or(absent), record })
    }
}

#[cfg(test)]
mod tests;
