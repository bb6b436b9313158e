//! CBOR decoding, guided by the type.
//!
//! First the whole body is checked to be well-formed. Then decoding continues after a value of the wrong
//! type, as the reference does: the first such value is reported, unless its map has a duplicate key.

use super::any::{duplicate, invalid_text, unrecognized};
use super::item::{self, Major, Reader};
use crate::decode::{DecodePath, Decoded, Error, Fault, Limits, SeenFields, Strict, StrictList};
use crate::model::{Shape, Type};
use crate::scalar;
use object::{Key, Map, Text, Value};
use std::borrow::Cow;
use std::collections::HashSet;

/// The tag number of self-described CBOR.
const SELF_DESCRIBED: u64 = 55799;

/// Reads an object of a type.
pub fn decode(ty: impl Into<crate::Ref<Type>>, input: &[u8], limits: &Limits) -> Result<Decoded, Error> {
    decode_shape(&Shape::Struct(ty.into()), input, limits)
}

/// Reads a value of any shape.
pub fn decode_shape(shape: &Shape, input: &[u8], limits: &Limits) -> Result<Decoded, Error> {
    if input.len() > limits.bytes {
        return Err(Error::TooLarge(limits.bytes));
    }
    let end = item::check(input, limits).map_err(|fault| *fault)?;
    if end != input.len() {
        let extra = input.len() - end;
        return Err(Error::Syntax(format!("cbor: {extra} bytes of extraneous data starting at index {end}")));
    }
    let root = match shape {
        Shape::Struct(_) => Some(shape.go_name()),
        _ => None,
    };
    let mut decoder = Decoder {
        reader: Reader::new(input),
        root,
        strict: StrictList::default(),
        binary_form: None,
        last: None,
        passed: false,
    };
    let value = decoder.value(shape, &DecodePath::ROOT);
    let value = match value.and_then(|value| decoder.last.map_or(Ok(value), Err)).map_err(|fault| *fault)? {
        Value::Null if matches!(shape, Shape::Struct(_)) => Map::new().into(),
        value => value,
    };
    Decoded::new(shape, value, decoder.strict.into_vec(), limits)
}

/// How a byte string is converted to text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BinaryForm {
    Base64Url,
    Base64,
    Base16,
}

pub(super) struct Decoder<'i> {
    pub(super) reader: Reader<'i>,
    /// The Go type of the outermost struct.
    pub(super) root: Option<String>,
    pub(super) strict: StrictList,
    /// The conversion of byte strings that the innermost enclosing tag demands.
    binary_form: Option<BinaryForm>,
    /// An error that counts only without other errors: the reference converts some values to JSON after
    /// everything else is decoded.
    pub(super) last: Option<Fault>,
    /// Whether the item of the wrong type was read to its end and need not be skipped.
    passed: bool,
}

/// The key of a struct's entry.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Name<'i> {
    Text(Cow<'i, str>),
    /// A key that is no field name: a number, as digits, or bytes that are not UTF-8.
    Other(String),
}

impl Name<'_> {
    fn text(&self) -> &str {
        match self {
            Name::Text(text) => text,
            Name::Other(text) => text,
        }
    }
}

impl<'i> Decoder<'i> {
    /// Reads an item; after success and after an error the reader is behind the item.
    pub(super) fn whole<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        let (before, binary_form) = (self.reader, self.binary_form);
        self.passed = false;
        let result = read(self);
        if result.is_err() {
            if !self.passed {
                self.reader = before;
                self.reader.skip();
            }
            self.binary_form = binary_form;
        }
        self.passed = false;
        result
    }

    /// The result of an array or a map; records that it was read to its end.
    pub(super) fn ended(&mut self, value: impl Into<Value>, fault: Option<Fault>) -> Result<Value, Fault> {
        self.passed = true;
        fault.map_or_else(|| Ok(value.into()), Err)
    }

    /// Reads as a separate decoder does: without the enclosing tags.
    fn with_own_decoder<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        let binary_form = self.binary_form.take();
        let result = read(self);
        self.binary_form = binary_form;
        result
    }

    pub(super) fn skip_self_described(&mut self) {
        while self.reader.major() == Major::Tag {
            let mut ahead = self.reader;
            if ahead.head().argument != SELF_DESCRIBED {
                return;
            }
            self.reader = ahead;
        }
    }

    /// Checks that known tags enclose items of the right type.
    pub(super) fn check_tags(&self) -> Result<(), Fault> {
        let mut ahead = self.reader;
        while ahead.major() == Major::Tag {
            let number = ahead.head().argument;
            let (next, found) = (ahead.peek(), ahead.major());
            let wanted = match number {
                0 if found != Major::Text => "text string",
                1 if !matches!(found, Major::Positive | Major::Negative) && !matches!(next, 0xf9..=0xfb) => {
                    "integer or floating-point number"
                }
                _ => continue,
            };
            let found = found.name();
            return Err(Fault::new(Error::Value(format!(
                "cbor: tag number {number} must be followed by {wanted}, got {found}"
            ))));
        }
        Ok(())
    }

    /// Reads the content of a tag.
    pub(super) fn tagged<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        let binary_form = match self.reader.head().argument {
            21 => Some(BinaryForm::Base64Url),
            22 => Some(BinaryForm::Base64),
            23 => Some(BinaryForm::Base16),
            _ => self.binary_form,
        };
        let outer = std::mem::replace(&mut self.binary_form, binary_form);
        let result = read(self);
        self.binary_form = outer;
        result
    }

    /// A byte or text string as text. The reference does not check byte strings; here invalid UTF-8 in one
    /// becomes replacement characters, because JSON cannot carry it.
    pub(super) fn text(&mut self) -> Result<Text, Fault> {
        let is_text = self.reader.major() == Major::Text;
        let bytes = self.reader.string();
        match (is_text, self.binary_form) {
            (true, _) => std::str::from_utf8(&bytes).map(Text::from).map_err(|_| invalid_text()),
            (false, Some(binary_form)) => Ok(binary_form.text(&bytes).into()),
            (false, None) => Ok(crate::json::utf8(&bytes).into()),
        }
    }

    /// The error for an item of the wrong type. The reference names the outermost field.
    #[cold]
    pub(super) fn mismatch_with(
        &self,
        found: Major,
        wanted: &str,
        path: &DecodePath<'_>,
        why: &str,
    ) -> Fault {
        let path = path.path();
        let field = path.split(['.', '[']).next().unwrap_or_default();
        let into = match &self.root {
            Some(root) if !field.is_empty() => format!("struct field {root}.{field}"),
            _ => "value".into(),
        };
        let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
        let found = found.name();
        Fault::new(Error::Value(format!(
            "cbor: cannot unmarshal {found} into Go {into} of type {wanted}{why}"
        )))
    }

    #[cold]
    fn mismatch(&self, found: Major, shape: &Shape, path: &DecodePath<'_>) -> Fault {
        self.mismatch_with(found, &wanted(shape, path), path, "")
    }

    /// One value. For every shape but `Any`, [`Value::Null`] means absent.
    pub(super) fn value(&mut self, shape: &Shape, path: &DecodePath<'_>) -> Result<Value, Fault> {
        self.skip_self_described();
        self.check_tags()?;
        match shape {
            Shape::Any => return self.any(path),
            Shape::Raw(raw) => return self.with_own_decoder(|decoder| decoder.raw(*raw, path)),
            Shape::Time | Shape::MicroTime | Shape::Duration | Shape::Quantity => {
                return self.with_own_decoder(|decoder| decoder.form(shape, path));
            }
            Shape::IntOrString => return self.with_own_decoder(|decoder| decoder.int_or_string(path)),
            Shape::SchemaOr(alternative, ty) => {
                return self.with_own_decoder(|decoder| decoder.schema_or(*alternative, ty, path));
            }
            _ => {}
        }
        self.check_negative(shape, path)?;
        match (self.reader.major(), shape) {
            (Major::Tag, _) => self.tagged(|decoder| decoder.value(shape, path)),
            (Major::Primitive, _) => self.primitive_of(shape, path),
            (Major::Positive | Major::Negative, Shape::Int32 | Shape::Int64) => self.int(shape, path),
            (Major::Positive | Major::Negative, Shape::Float64) => Ok(Value::Float(self.integer_as_float())),
            (Major::Bytes | Major::Text, Shape::String) => self.text().map(Value::String),
            (Major::Bytes, Shape::Bytes) => self.bytes(),
            (Major::Array, Shape::Bytes) => self.byte_list(path),
            (Major::Array, Shape::List(shape)) => self.list_of(shape, path),
            (Major::Map, Shape::Map(shape)) => self.map_of(shape, path),
            (Major::Map, Shape::Struct(ty)) => self.fields_of(ty, path),
            (found @ Major::Array, Shape::Struct(_)) => {
                let why = "cannot decode CBOR array to struct without toarray option";
                Err(self.mismatch_with(found, &wanted(shape, path), path, why))
            }
            (found, _) => {
                if found == Major::Text {
                    self.text()?;
                }
                Err(self.mismatch(found, shape, path))
            }
        }
    }

    pub(super) fn primitive_of(&mut self, shape: &Shape, path: &DecodePath<'_>) -> Result<Value, Fault> {
        let head = self.reader.head();
        match (head.info, head.float(), shape) {
            (_, Some(number), Shape::Float64) => Ok(Value::Float(number)),
            (20 | 21, _, Shape::Bool) => Ok(Value::Bool(head.info == 21)),
            (22, _, _) => Ok(Value::Null),
            (0..=19 | 23 | 24, _, _) => Err(unrecognized(head.argument)),
            _ => Err(self.mismatch(Major::Primitive, shape, path)),
        }
    }

    /// A negative integer that does not fit into 64 bits is an error for every shape.
    pub(super) fn check_negative(&self, shape: &Shape, path: &DecodePath<'_>) -> Result<(), Fault> {
        let mut ahead = self.reader;
        if ahead.major() != Major::Negative {
            return Ok(());
        }
        ahead.integer().map(drop).map_err(|number| {
            let why = format!("{number} overflows Go's int64");
            self.mismatch_with(Major::Negative, &wanted(shape, path), path, &why)
        })
    }

    fn integer_as_float(&mut self) -> f64 {
        let mut ahead = self.reader;
        let argument = ahead.head().argument;
        self.reader.integer().map_or(argument as f64, |number| number as f64)
    }

    pub(super) fn int(&mut self, shape: &Shape, path: &DecodePath<'_>) -> Result<Value, Fault> {
        let found = self.reader.major();
        let number = match self.reader.integer() {
            Ok(number) if matches!(shape, Shape::Int64) || i32::try_from(number).is_ok() => {
                return Ok(Value::Int(number));
            }
            Ok(number) => number.to_string(),
            Err(number) => number,
        };
        let wanted = wanted(shape, path);
        Err(self.mismatch_with(found, &wanted, path, &format!("{number} overflows {wanted}")))
    }

    /// Binary data: raw bytes in a tag that says so, otherwise base64.
    fn bytes(&mut self) -> Result<Value, Fault> {
        let bytes = self.reader.string();
        if self.binary_form.is_some() {
            return Ok(Value::Bytes(bytes.into_owned().into()));
        }
        // Lossy conversion is safe: a replacement character is no base64 character either.
        let text: String = bytes.iter().copied().map(char::from).collect();
        scalar::base64(&text).map(|bytes| Value::Bytes(bytes.into())).map_err(|message| {
            Fault::new(Error::Value(format!("cbor: failed to decode base64 from byte string: {message}")))
        })
    }

    /// Binary data as a list of numbers.
    fn byte_list(&mut self, path: &DecodePath<'_>) -> Result<Value, Fault> {
        let mut elements = self.reader.elements();
        let (mut bytes, mut first) = (Vec::new(), None);
        while self.reader.more(&mut elements) {
            if first.is_some() {
                self.reader.skip();
                continue;
            }
            let found = self.reader.major();
            let path = path.index(bytes.len());
            match self.whole(|decoder| decoder.value(&Shape::Int64, &path)) {
                Ok(value) => {
                    let number = value.as_i64().unwrap_or(0);
                    let overflow = || format!("{number} overflows uint8");
                    let byte = u8::try_from(number);
                    let byte = byte.map_err(|_| self.mismatch_with(found, "uint8", &path, &overflow()));
                    byte.map_or_else(|fault| first = Some(fault), |byte| bytes.push(byte));
                }
                Err(fault) => first = Some(fault),
            }
        }
        self.ended(Value::Bytes(bytes.into()), first)
    }

    pub(super) fn list_of(&mut self, shape: &Shape, path: &DecodePath<'_>) -> Result<Value, Fault> {
        let mut elements = self.reader.elements();
        let (mut list, mut first) = (Vec::new(), None);
        while self.reader.more(&mut elements) {
            if first.is_some() {
                self.reader.skip();
                continue;
            }
            match self.whole(|decoder| decoder.value(shape, &path.index(list.len()))) {
                Ok(value) => list.push(if value.is_null() { shape.empty_element() } else { value }),
                Err(fault) => first = Some(fault),
            }
        }
        self.ended(list, first)
    }

    fn fields_of(&mut self, ty: &Type, path: &DecodePath<'_>) -> Result<Value, Fault> {
        let mut elements = self.reader.elements();
        let mut fields: Vec<(usize, Value)> = Vec::new();
        let mut others: Vec<(Key, Value)> = Vec::new();
        let (mut seen, mut unknown) = (SeenFields::default(), HashSet::new());
        let (mut first, mut repeated, mut entry) = (None, None, 0usize);
        while self.reader.more(&mut elements) {
            let at = entry;
            entry += 1;
            if repeated.is_some() {
                self.reader.skip();
                self.reader.skip();
                continue;
            }
            let name = match self.whole(|decoder| decoder.field_name(path)) {
                Ok(name) => name,
                Err(fault) => {
                    first.get_or_insert(fault);
                    self.reader.skip();
                    continue;
                }
            };
            let known = match &name {
                Name::Text(text) => ty.position(text).and_then(|at| Some((at, ty.fields.get(at)?))),
                Name::Other(_) => None,
            };
            let again = match known {
                Some((path, _)) => seen.again(path),
                None => !unknown.insert(name.clone()),
            };
            if again {
                repeated = Some(duplicate(name.text(), at));
            }
            if again || first.is_some() {
                self.reader.skip();
                continue;
            }
            let result = match (known, &name) {
                (Some((at, field)), _) => {
                    let value = self.whole(|decoder| decoder.value(&field.shape, &path.field(ty, field)));
                    value.map(|value| {
                        if !field.drops(&value) {
                            fields.push((at, value));
                        }
                    })
                }
                (None, Name::Text(text)) if ty.preserve_unknown_fields => {
                    let value = self.whole(|decoder| decoder.any(&path.key(text)));
                    value.map(|value| others.push((Key::from(&**text), value)))
                }
                (None, name) => {
                    self.strict.add(|| Strict::Unknown(path.path_to(name.text())));
                    self.reader.skip();
                    Ok(())
                }
            };
            first = result.err();
        }
        if !fields.is_sorted_by_key(|(at, _)| *at) {
            fields.sort_unstable_by_key(|(at, _)| *at);
        }
        let known =
            fields.into_iter().filter_map(|(at, value)| Some((ty.fields.get(at)?.name.clone(), value)));
        self.ended(Map::from_distinct(known.chain(others).collect::<Vec<_>>()), repeated.or(first))
    }

    /// The key of a struct's entry.
    fn field_name(&mut self, path: &DecodePath<'_>) -> Result<Name<'i>, Fault> {
        match self.reader.major() {
            found @ (Major::Bytes | Major::Text) => {
                let text = match self.reader.string() {
                    Cow::Borrowed(bytes) => std::str::from_utf8(bytes)
                        .map(Cow::Borrowed)
                        .map_err(|_| bytes.escape_ascii().to_string()),
                    Cow::Owned(bytes) => String::from_utf8(bytes)
                        .map(Cow::Owned)
                        .map_err(|error| error.as_bytes().escape_ascii().to_string()),
                };
                match text {
                    Ok(text) => Ok(Name::Text(text)),
                    Err(_) if found == Major::Text => Err(invalid_text()),
                    Err(bytes) => Ok(Name::Other(bytes)),
                }
            }
            found @ (Major::Positive | Major::Negative) => {
                let mut ahead = self.reader;
                match (self.reader.integer(), ahead.head().argument) {
                    (Ok(number), _) => Ok(Name::Other(number.to_string())),
                    (Err(text), _) if found == Major::Positive => Ok(Name::Other(text)),
                    (Err(_), argument) => {
                        let why = format!("-1-{argument} overflows Go's int64");
                        Err(self.mismatch_with(found, "int64", path, &why))
                    }
                }
            }
            found => {
                let name = found.name();
                let why = format!("map key is of type {name} and cannot be used to match struct field name");
                Err(self.mismatch_with(found, "string", path, &why))
            }
        }
    }
}

/// The Go type of a value.
#[cold]
pub(super) fn wanted(shape: &Shape, path: &DecodePath<'_>) -> String {
    match (shape, path.mismatch("", shape)) {
        (Shape::Time | Shape::MicroTime | Shape::Duration | Shape::Quantity, _) => "string".into(),
        (Shape::IntOrString, _) => "int32".into(),
        (_, Error::Type(mismatch)) => mismatch.wanted,
        _ => shape.go_name(),
    }
}
