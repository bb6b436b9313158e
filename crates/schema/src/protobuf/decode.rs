//! Protobuf decoding, guided by the type. Unknown field numbers are skipped.

use super::wire::{Reader, Tag, Wire, fault};
use super::{Envelope, PREFIX};
use crate::decode::{Budget, Error, Fault, Limits, merge_repeats};
use crate::model::{Alternative, Field, MessageField, Ref, Shape, Type};
use crate::scalar;
use crate::stack::{Stack, put};
use object::time::Time;
use object::{Key, List, Map, RawJson, Text, Value};
use std::borrow::Cow;

impl<'b> Envelope<'b> {
    /// Reads the envelope of a body.
    pub fn read(body: &'b [u8]) -> Result<Self, Error> {
        if body.is_empty() {
            return Err(Error::Syntax("empty data".into()));
        }
        let message = body.strip_prefix(&PREFIX).ok_or_else(|| {
            Error::Syntax(
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
                    .into(),
            )
        })?;
        if message.is_empty() {
            return Err(Error::Syntax("empty body".into()));
        }
        Self::read_message(message).map_err(|fault| *fault)
    }

    fn read_message(message: &'b [u8]) -> Result<Self, Fault> {
        let mut envelope = Self::default();
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            let tag = reader.tag()?;
            let mut bytes = |name| tag.expect(Wire::Bytes, name).and_then(|()| reader.bytes());
            match tag.number {
                1 => {
                    let mut meta = Reader::new(bytes("TypeMeta")?);
                    while !meta.is_empty() {
                        let tag = meta.tag()?;
                        match tag.number {
                            1 => envelope.api_version = header_text(tag, &mut meta, "APIVersion")?,
                            2 => envelope.kind = header_text(tag, &mut meta, "Kind")?,
                            _ => meta.skip(tag)?,
                        }
                    }
                }
                2 => envelope.raw = bytes("Raw")?,
                3 => envelope.content_encoding = header_text(tag, &mut reader, "ContentEncoding")?,
                4 => envelope.content_type = header_text(tag, &mut reader, "ContentType")?,
                _ => reader.skip(tag)?,
            }
        }
        Ok(envelope)
    }
}

fn header_text<'b>(tag: Tag, reader: &mut Reader<'b>, name: &str) -> Result<&'b str, Fault> {
    tag.expect(Wire::Bytes, name)?;
    std::str::from_utf8(reader.bytes()?)
        .map_err(|_| fault(format!("proto: field {name} contains invalid UTF-8")))
}

/// Reads an object with its envelope; sets `kind` and `apiVersion` of the tree from the envelope.
pub fn decode(ty: &Type, body: &[u8], limits: &Limits) -> Result<Value, Error> {
    if body.len() > limits.bytes {
        return Err(Error::TooLarge(limits.bytes));
    }
    let envelope = Envelope::read(body)?;
    let mut decoder = Decoder::new(limits);
    for (name, text) in [("kind", envelope.kind), ("apiVersion", envelope.api_version)] {
        if let Some(field) = ty.field(name).filter(|field| field.number == 0 && !text.is_empty()) {
            put(decoder.fields.field(&field.name), text.into());
        }
    }
    decoder.object(ty, envelope.raw)
}

/// Reads a message, without an envelope.
pub fn decode_message(ty: &Type, message: &[u8], limits: &Limits) -> Result<Value, Error> {
    if message.len() > limits.bytes {
        return Err(Error::TooLarge(limits.bytes));
    }
    Decoder::new(limits).object(ty, message)
}

struct Decoder {
    budget: Budget,
    /// The fields of the open messages, innermost last.
    fields: Stack<(Key, Value)>,
    /// The elements of the open lists, innermost last.
    elements: Stack<Value>,
}

/// Less than every field number.
const BEFORE_ALL: u32 = 0;
/// Greater than every field number.
const AFTER_ALL: u32 = u32::MAX;

impl Decoder {
    fn new(limits: &Limits) -> Self {
        Self { budget: Budget::new(limits), fields: Stack::default(), elements: Stack::default() }
    }

    /// The whole struct: the fields that are on the stack already, and the fields of the message.
    fn object(mut self, ty: &Type, message: &[u8]) -> Result<Value, Error> {
        self.struct_fields(ty, message).map_err(|fault| *fault)?;
        Ok(self.take_fields(0).into())
    }

    fn message(&mut self, ty: &Type, message: &[u8]) -> Result<Map, Fault> {
        let base = self.struct_fields(ty, message)?;
        Ok(self.take_fields(base))
    }

    /// Reads the fields of a struct onto the stack; returns the index of the first.
    #[inline]
    fn struct_fields(&mut self, ty: &Type, message: &[u8]) -> Result<usize, Fault> {
        self.budget.value()?;
        self.budget.enter()?;
        let base = self.fields.len();
        let mut repeats = Vec::new();
        self.message_fields(ty, &ty.wire, message, BEFORE_ALL, &mut repeats)?;
        if !repeats.is_empty() {
            self.set_again(base, ty, repeats);
        }
        self.budget.leave();
        Ok(base)
    }

    #[inline]
    fn take_fields(&mut self, base: usize) -> Map {
        Map::from_distinct(self.fields.take(base))
    }

    /// Reads the fields of one message; those of inlined messages go to the same struct. `last` is the
    /// highest field number so far: a field with a number that is not above it may be repeated, and goes to
    /// `repeats` with its position.
    fn message_fields(
        &mut self,
        ty: &Type,
        message_fields: &[MessageField],
        message: &[u8],
        mut last: u32,
        repeats: &mut Vec<(usize, Value)>,
    ) -> Result<(), Fault> {
        let fields: &[Field] = &ty.fields;
        let mut reader = Reader::new(message);
        let mut next = 0;
        while !reader.is_empty() {
            let tag = reader.tag()?;
            let Some((index, message_field)) = find(message_fields, next, tag.number) else {
                reader.skip(tag)?;
                continue;
            };
            next = index + 1;
            let rises = tag.number > last;
            last = last.max(tag.number);
            let at = match message_field {
                MessageField::Field { index, .. } => usize::from(*index),
                MessageField::Inline { fields, .. } => {
                    tag.expect(Wire::Bytes, &ty.struct_name)?;
                    self.budget.enter()?;
                    let last = if rises { BEFORE_ALL } else { AFTER_ALL };
                    self.message_fields(ty, fields, reader.bytes()?, last, repeats)?;
                    self.budget.leave();
                    continue;
                }
            };
            let Some(field) = fields.get(at) else { continue };
            if !rises {
                repeats.push((at, self.field(field, tag, &mut reader)?));
                continue;
            }
            // Most fields are texts, and many are empty: the reference writes empty texts, and a tree omits
            // them. Each value is written straight to its slot, because a move costs more than the decoding.
            match (&field.shape, tag.wire) {
                (Shape::String, Wire::Bytes) => {
                    self.budget.value()?;
                    let bytes = reader.bytes()?;
                    if !bytes.is_empty() || field.optional {
                        self.fields.text_field(&field.name, |text| text.set_lossy(bytes));
                    }
                }
                (Shape::Struct(ty), Wire::Bytes) => {
                    let inner = self.struct_fields(ty, reader.bytes()?)?;
                    if self.fields.len() > inner || field.optional {
                        let map = self.take_fields(inner);
                        put(self.fields.field(&field.name), Value::Map(map));
                    }
                }
                (Shape::List(shape), _) if !field.boxed => {
                    let list = self.list(shape, field, tag, &mut reader)?;
                    if !list.is_empty() || field.optional {
                        put(self.fields.field(&field.name), Value::List(list));
                    }
                }
                (Shape::Bool, Wire::Varint) => {
                    self.budget.value()?;
                    let flag = reader.varint()? != 0;
                    if flag || field.optional {
                        put(self.fields.field(&field.name), Value::Bool(flag));
                    }
                }
                (Shape::Int32 | Shape::Int64, Wire::Varint) => {
                    self.budget.value()?;
                    let number = whole(&field.shape, reader.varint()?);
                    if number != 0 || field.optional {
                        put(self.fields.field(&field.name), Value::Int(number));
                    }
                }
                (Shape::Time, Wire::Bytes) => {
                    self.budget.value()?;
                    let message = reader.bytes()?;
                    let [seconds, _] = numbers::<2>(message)?;
                    let time = Time::from_unix(seconds);
                    if !message.is_empty() && !time.is_zero() {
                        self.fields.text_field(&field.name, |text| time.write(text));
                    }
                }
                _ => {
                    let value = self.field(field, tag, &mut reader)?;
                    if !field.drops(&value) {
                        put(self.fields.field(&field.name), value);
                    }
                }
            }
        }
        Ok(())
    }

    /// Fields that may be repeated, by position: lists and maps grow, structs are merged, other values are
    /// replaced.
    #[cold]
    fn set_again(&mut self, base: usize, ty: &Type, mut repeats: Vec<(usize, Value)>) {
        repeats.sort_by_key(|(at, _)| *at);
        for group in repeats.chunk_by(|a, b| a.0 == b.0) {
            let Some(field) = group.first().and_then(|(at, _)| ty.fields.get(*at)) else { continue };
            let earlier = self.fields.remove(base, &field.name);
            let values = earlier.into_iter().chain(group.iter().map(|(_, value)| value.clone()));
            let value = match &field.shape {
                Shape::List(_) => {
                    let items = values.flat_map(|list| list.as_list().unwrap_or_default().to_vec());
                    items.collect()
                }
                _ => merge_repeats(values.collect()),
            };
            if !field.drops(&value) {
                put(self.fields.field(&field.name), value);
            }
        }
    }

    fn field(&mut self, field: &Field, tag: Tag, reader: &mut Reader<'_>) -> Result<Value, Fault> {
        match &field.shape {
            Shape::List(shape) if !field.boxed => self.list(shape, field, tag, reader).map(Value::List),
            Shape::Map(shape) => self.map(shape, field, tag, reader),
            shape => self.one(shape, &field.name, tag, reader),
        }
    }

    /// Consecutive elements of a list.
    fn list(
        &mut self,
        shape: &Shape,
        field: &Field,
        tag: Tag,
        reader: &mut Reader<'_>,
    ) -> Result<List, Fault> {
        let base = self.elements.len();
        if tag.wire == Wire::Bytes && matches!(shape, Shape::Int32 | Shape::Int64 | Shape::Bool) {
            let mut packed = Reader::new(reader.bytes()?);
            let tag = Tag { wire: Wire::Varint, ..tag };
            while !packed.is_empty() {
                let value = self.one(shape, &field.name, tag, &mut packed)?;
                put(self.elements.push_default(), value);
            }
        } else {
            loop {
                if let (Shape::Struct(ty), Wire::Bytes) = (shape, tag.wire) {
                    let map = self.message(ty, reader.bytes()?)?;
                    put(self.elements.push_default(), Value::Map(map));
                } else {
                    let value = self.one(shape, &field.name, tag, reader)?;
                    put(self.elements.push_default(), value);
                }
                if !reader.tag_if(|next| next == tag) {
                    break;
                }
            }
        }
        Ok(List::of(self.elements.take(base)))
    }

    /// Consecutive entries of a map.
    fn map(
        &mut self,
        shape: &Shape,
        field: &Field,
        tag: Tag,
        reader: &mut Reader<'_>,
    ) -> Result<Value, Fault> {
        let base = self.fields.len();
        loop {
            tag.expect(Wire::Bytes, &field.name)?;
            self.budget.value()?;
            let (mut key, mut value) = (Key::known(""), None);
            let mut entry = Reader::new(reader.bytes()?);
            while !entry.is_empty() {
                let tag = entry.tag()?;
                match tag.number {
                    1 => {
                        tag.expect(Wire::Bytes, &field.name)?;
                        key = Key::from(Text::from_lossy(entry.bytes()?));
                    }
                    2 => value = Some(self.one(shape, &field.name, tag, &mut entry)?),
                    _ => entry.skip(tag)?,
                }
            }
            put(self.fields.push_default(), (key, value.unwrap_or_else(|| shape.empty_element())));
            if !reader.tag_if(|next| next.number == tag.number) {
                break;
            }
        }
        if self.fields.own(base).is_sorted_by(|a, b| a.0 < b.0) {
            return Ok(self.take_fields(base).into());
        }
        let mut entries: Vec<_> = self.fields.take(base).collect();
        // A later entry replaces an earlier one with the same key: a stable sort keeps their order.
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries.reverse();
        entries.dedup_by(|later, kept| later.0 == kept.0);
        entries.reverse();
        Ok(Map::from_distinct(entries).into())
    }

    /// One value, after its tag.
    fn one(&mut self, shape: &Shape, name: &str, tag: Tag, reader: &mut Reader<'_>) -> Result<Value, Fault> {
        match shape {
            Shape::Struct(ty) => {
                tag.expect(Wire::Bytes, name)?;
                return self.message(ty, reader.bytes()?).map(Value::Map);
            }
            Shape::Bool | Shape::Int32 | Shape::Int64 => {
                self.budget.value()?;
                tag.expect(Wire::Varint, name)?;
                let bits = reader.varint()?;
                let is_flag = matches!(shape, Shape::Bool);
                return Ok(if is_flag { Value::Bool(bits != 0) } else { Value::Int(whole(shape, bits)) });
            }
            Shape::Float64 => {
                self.budget.value()?;
                tag.expect(Wire::Fixed64, name)?;
                let number = f64::from_bits(reader.fixed64()?);
                if !number.is_finite() {
                    return Err(Fault::new(Error::Value(format!("json: unsupported value: {number}"))));
                }
                return Ok(Value::Float(number));
            }
            _ => {}
        }
        self.budget.value()?;
        tag.expect(Wire::Bytes, name)?;
        let bytes = reader.bytes()?;
        match shape {
            Shape::String => Ok(Value::String(Text::from_lossy(bytes))),
            Shape::Bytes => Ok(Value::Bytes(bytes.into())),
            Shape::Time | Shape::MicroTime => time(shape, bytes),
            Shape::Duration => {
                let nanoseconds = numbers::<1>(bytes)?[0];
                Ok(Value::String(scalar::duration(nanoseconds)))
            }
            Shape::Quantity => {
                let amount = first_bytes(bytes)?.map_or(Cow::Borrowed("0"), String::from_utf8_lossy);
                let amount = scalar::canonical(shape, &amount);
                amount.map(Value::String).map_err(|message| Fault::new(Error::Value(message)))
            }
            Shape::IntOrString => self.int_or_string(bytes),
            Shape::Raw(_) => self.raw(first_bytes(bytes)?.unwrap_or_default()),
            Shape::SchemaOr(alternative, ty) => self.schema_or(*alternative, ty, bytes),
            Shape::List(inner) => {
                let base = self.elements.len();
                let mut reader = Reader::new(bytes);
                while !reader.is_empty() {
                    let tag = reader.tag()?;
                    if tag.number == 1 {
                        let value = self.one(inner, name, tag, &mut reader)?;
                        put(self.elements.push_default(), value);
                    } else {
                        reader.skip(tag)?;
                    }
                }
                Ok(List::of(self.elements.take(base)).into())
            }
            _ => Ok(Value::Null),
        }
    }

    /// JSON text in a message: its syntax is checked, because it is copied into JSON responses.
    fn raw(&self, bytes: &[u8]) -> Result<Value, Fault> {
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| fault("invalid UTF-8 in raw JSON"))?;
        let compact = crate::json::check(text, self.budget.depth_left())?;
        Ok(if compact == "null" { Value::Null } else { RawJson::from_checked(compact).into() })
    }

    fn int_or_string(&self, message: &[u8]) -> Result<Value, Fault> {
        let (mut is_text, mut number, mut string) = (false, 0, Cow::Borrowed(""));
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            let tag = reader.tag()?;
            match tag.number {
                1 => {
                    tag.expect(Wire::Varint, "Type")?;
                    is_text = reader.varint()? != 0;
                }
                2 => {
                    tag.expect(Wire::Varint, "IntVal")?;
                    number = reader.varint()? as i32;
                }
                3 => {
                    tag.expect(Wire::Bytes, "StrVal")?;
                    string = String::from_utf8_lossy(reader.bytes()?);
                }
                _ => reader.skip(tag)?,
            }
        }
        Ok(if is_text { Value::String(Text::from(string)) } else { Value::Int(number.into()) })
    }

    fn schema_or(
        &mut self,
        alternative: Alternative,
        ty: &Ref<Type>,
        message: &[u8],
    ) -> Result<Value, Fault> {
        let base = self.elements.len();
        let (mut schema, mut allows, mut listed) = (None, false, false);
        let mut reader = Reader::new(message);
        self.budget.enter()?;
        while !reader.is_empty() {
            let tag = reader.tag()?;
            match (alternative, tag.number) {
                (Alternative::Bool, 1) => {
                    tag.expect(Wire::Varint, "Allows")?;
                    allows = reader.varint()? != 0;
                }
                (Alternative::Bool, 2) | (Alternative::Schemas | Alternative::Strings, 1) => {
                    tag.expect(Wire::Bytes, "Schema")?;
                    schema = Some(Value::Map(self.message(ty, reader.bytes()?)?));
                }
                (Alternative::Schemas, 2) => {
                    tag.expect(Wire::Bytes, "JSONSchemas")?;
                    let map = self.message(ty, reader.bytes()?)?;
                    put(self.elements.push_default(), Value::Map(map));
                    listed = true;
                }
                (Alternative::Strings, 2) => {
                    let value = self.one(&Shape::String, "Property", tag, &mut reader)?;
                    put(self.elements.push_default(), value);
                    listed = true;
                }
                _ => reader.skip(tag)?,
            }
        }
        self.budget.leave();
        let list = List::of(self.elements.take(base));
        Ok(match (schema, alternative) {
            _ if listed => list.into(),
            (Some(schema), _) => schema,
            (None, Alternative::Bool) => Value::Bool(allows),
            (None, _) => Value::Null,
        })
    }
}

/// The message field with this number and its index: mostly the next one, or the one at the index `number -
/// 1`.
#[inline]
fn find(message_fields: &[MessageField], next: usize, number: u32) -> Option<(usize, &MessageField)> {
    for near in [next, (number as usize).wrapping_sub(1)] {
        if let Some(message_field) = message_fields.get(near)
            && message_field.number() == number
        {
            return Some((near, message_field));
        }
    }
    let index = message_fields.binary_search_by_key(&number, MessageField::number).ok()?;
    message_fields.get(index).map(|message_field| (index, message_field))
}

/// The integer of a varint.
#[inline]
fn whole(shape: &Shape, bits: u64) -> i64 {
    if matches!(shape, Shape::Int32) { (bits as i32).into() } else { bits as i64 }
}

/// The fields 1 to N of a message of numbers.
fn numbers<const N: usize>(message: &[u8]) -> Result<[i64; N], Fault> {
    let mut found = [0; N];
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        let tag = reader.tag()?;
        match found.get_mut(tag.number as usize - 1) {
            Some(slot) => {
                tag.expect(Wire::Varint, "Seconds")?;
                *slot = reader.varint()? as i64;
            }
            None => reader.skip(tag)?,
        }
    }
    Ok(found)
}

/// Field 1 of a message that holds bytes.
fn first_bytes(message: &[u8]) -> Result<Option<&[u8]>, Fault> {
    let mut found = None;
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        let tag = reader.tag()?;
        if tag.number == 1 {
            tag.expect(Wire::Bytes, "Raw")?;
            found = Some(reader.bytes()?);
        } else {
            reader.skip(tag)?;
        }
    }
    Ok(found)
}

fn time(shape: &Shape, message: &[u8]) -> Result<Value, Fault> {
    if message.is_empty() {
        return Ok(Value::Null);
    }
    let [seconds, nanos] = numbers::<2>(message)?;
    let text = scalar::time(shape, scalar::Unix { seconds, nanos: nanos as i32 });
    Ok(if scalar::is_no_time(&text) { Value::Null } else { Value::String(text) })
}
