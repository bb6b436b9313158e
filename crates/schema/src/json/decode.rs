//! JSON decoding, in one pass guided by the type.
//!
//! After a value of the wrong type decoding goes on, because a later syntax error, or a later value with an
//! invalid format (a quantity, a time), takes precedence over it.

use super::scan::Scanner;
use crate::decode::{
    Budget, DecodePath, Decoded, Error, Fault, Limits, SeenFields, Strict, StrictList, merge_repeats,
};
use crate::model::{Alternative, Shape, Type};
use crate::scalar;
use crate::stack::{Stack, put};
use object::{Key, List, Map, RawJson, Text, Value};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Reads an object of a type.
pub fn decode(ty: impl Into<crate::Ref<Type>>, input: &[u8], limits: &Limits) -> Result<Decoded, Error> {
    decode_shape(&Shape::Struct(ty.into()), input, limits)
}

/// Reads a part of an object: the fields of a type that [has only these](crate::Builder::part_of). Fields
/// that it does not have are skipped, and not reported.
pub fn decode_part(ty: impl Into<crate::Ref<Type>>, input: &[u8], limits: &Limits) -> Result<Value, Error> {
    Ok(decode_with(&Shape::Struct(ty.into()), input, limits, StrictList::quiet())?.value)
}

/// Reads a value of any shape.
pub fn decode_shape(shape: &Shape, input: &[u8], limits: &Limits) -> Result<Decoded, Error> {
    decode_with(shape, input, limits, StrictList::default())
}

fn decode_with(shape: &Shape, input: &[u8], limits: &Limits, strict: StrictList) -> Result<Decoded, Error> {
    if input.len() > limits.bytes {
        return Err(Error::TooLarge(limits.bytes));
    }
    let text = utf8(input);
    let mut decoder = Decoder {
        scanner: Scanner::new(&text),
        budget: Budget::new(limits),
        strict,
        wrong_type: None,
        refused: None,
        fields: Stack::default(),
        elements: Stack::default(),
    };
    let value =
        decoder.value(shape, &DecodePath::ROOT).and_then(|value| decoder.scanner.end().map(|()| value));
    let value = value.map_err(|fault| *fault)?;
    if let Some(error) = decoder.refused.or(decoder.wrong_type) {
        return Err(error);
    }
    let value = match (value, shape) {
        (Value::Null, Shape::Struct(_)) => Map::new().into(),
        (value, _) => value,
    };
    Decoded::new(shape, value, decoder.strict.into_vec(), limits)
}

/// One JSON value and nothing else, nested at most `depth` deep: its text without white space.
pub(crate) fn check(text: &str, depth: usize) -> Result<Cow<'_, str>, Fault> {
    let mut scanner = Scanner::new(text);
    scanner.peek_token();
    let skipped = scanner.skip(depth)?;
    scanner.end()?;
    Ok(if skipped.spaced { super::compact(skipped.text).into() } else { skipped.text.into() })
}

/// The input as text: each byte that is not UTF-8 becomes a replacement character.
pub(crate) fn utf8(input: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(input) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(input.len());
    for chunk in input.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

struct Decoder<'i> {
    scanner: Scanner<'i>,
    budget: Budget,
    strict: StrictList,
    /// The first value of a wrong type.
    wrong_type: Option<Error>,
    /// The first value with an invalid format.
    refused: Option<Error>,
    /// The fields of the open structs, innermost last.
    fields: Stack<(Key, Value)>,
    /// The elements of the open lists, innermost last.
    elements: Stack<Value>,
}

impl<'i> Decoder<'i> {
    /// One value. For every shape but `Any`, [`Value::Null`] means absent; a value of the wrong type is
    /// returned as null too.
    fn value(&mut self, shape: &Shape, path: &DecodePath<'_>) -> Result<Value, Fault> {
        self.budget.value()?;
        match (self.scanner.peek_token(), shape) {
            (Some(b'"'), Shape::String) => Ok(Value::String(Text::from(self.scanner.string()?))),
            (Some(b'{'), Shape::Struct(ty)) => {
                self.scanner.advance();
                self.fields_of(ty, path)
            }
            (Some(b'{'), Shape::Map(shape)) => {
                self.scanner.advance();
                self.map_of(shape, path)
            }
            (Some(b'['), Shape::List(shape)) => {
                self.scanner.advance();
                self.list_of(shape, path)
            }
            (_, Shape::Any) => self.any(path),
            (_, Shape::Raw(_)) => self.raw(),
            (Some(b'n'), _) => {
                self.scanner.word("null")?;
                Ok(Value::Null)
            }
            (Some(b't'), Shape::Bool | Shape::SchemaOr(Alternative::Bool, _)) => {
                self.scanner.word("true")?;
                Ok(Value::Bool(true))
            }
            (Some(b'f'), Shape::Bool | Shape::SchemaOr(Alternative::Bool, _)) => {
                self.scanner.word("false")?;
                Ok(Value::Bool(false))
            }
            (Some(b'-' | b'0'..=b'9'), Shape::Int32 | Shape::Int64 | Shape::IntOrString) => {
                self.int(shape, path)
            }
            (Some(b'-' | b'0'..=b'9'), Shape::Float64) => self.float(shape, path),
            (Some(b'"'), Shape::IntOrString) => Ok(Value::String(Text::from(self.scanner.string()?))),
            (Some(b'"'), Shape::Bytes) => self.bytes(),
            (Some(b'['), Shape::Bytes) => self.byte_list(path),
            (Some(b'"'), Shape::Time | Shape::MicroTime | Shape::Duration) => {
                let text = self.scanner.string()?;
                self.scalar(scalar::canonical(shape, &text))
            }
            (Some(_), Shape::Quantity) => self.quantity(),
            (Some(_), Shape::SchemaOr(alternative, ty)) => self.schema_or(*alternative, ty, path),
            _ => self.mismatch(shape, path),
        }
    }

    /// Skips a value of the wrong type, and records the first such error.
    #[cold]
    fn mismatch(&mut self, shape: &Shape, path: &DecodePath<'_>) -> Result<Value, Fault> {
        let found = match self.scanner.peek() {
            Some(b'{') => "object",
            Some(b'[') => "array",
            Some(b'"') => "string",
            Some(b't' | b'f') => "bool",
            _ => "number",
        };
        self.scanner.skip(self.budget.depth_left())?;
        // In the reference an error of a type's own decoder stops decoding, so it takes precedence over
        // earlier errors.
        if matches!(shape, Shape::Time | Shape::MicroTime | Shape::Duration | Shape::IntOrString) {
            self.refuse(|| path.mismatch_of(found, shape));
        } else {
            self.wrong_type.get_or_insert_with(|| path.mismatch(found, shape));
        }
        Ok(Value::Null)
    }

    fn refuse(&mut self, error: impl FnOnce() -> Error) {
        self.refused.get_or_insert_with(error);
    }

    fn scalar(&mut self, text: Result<Text, String>) -> Result<Value, Fault> {
        match text {
            Ok(text) if scalar::is_no_time(&text) => Ok(Value::Null),
            Ok(text) => Ok(Value::String(text)),
            Err(message) => {
                self.refuse(|| Error::Value(message));
                Ok(Value::Null)
            }
        }
    }

    fn int(&mut self, shape: &Shape, path: &DecodePath<'_>) -> Result<Value, Fault> {
        let text = self.scanner.number()?;
        match text.parse::<i64>() {
            Ok(number) if matches!(shape, Shape::Int64) || i32::try_from(number).is_ok() => {
                Ok(Value::Int(number))
            }
            _ if matches!(shape, Shape::IntOrString) => {
                self.refuse(|| path.mismatch_of(format!("number {text}"), shape));
                Ok(Value::Null)
            }
            _ => {
                self.wrong_type.get_or_insert_with(|| path.mismatch(format!("number {text}"), shape));
                Ok(Value::Null)
            }
        }
    }

    fn float(&mut self, shape: &Shape, path: &DecodePath<'_>) -> Result<Value, Fault> {
        let text = self.scanner.number()?;
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::Float(number)),
            _ => {
                self.wrong_type.get_or_insert_with(|| path.mismatch(format!("number {text}"), shape));
                Ok(Value::Null)
            }
        }
    }

    fn bytes(&mut self) -> Result<Value, Fault> {
        let text = self.scanner.string()?;
        match scalar::base64(&text) {
            Ok(bytes) => Ok(Value::Bytes(bytes.into())),
            Err(message) => {
                self.wrong_type.get_or_insert(Error::Value(message));
                Ok(Value::Null)
            }
        }
    }

    /// Binary data as a list of numbers, which the reference accepts too.
    fn byte_list(&mut self, path: &DecodePath<'_>) -> Result<Value, Fault> {
        self.scanner.advance();
        let list = self.list_of(&Shape::Int32, path)?;
        let numbers = list.as_list().unwrap_or_default().iter().map(|number| number.as_i64().unwrap_or(0));
        let mut bytes = Vec::with_capacity(numbers.len());
        for (at, number) in numbers.enumerate() {
            bytes.push(u8::try_from(number).unwrap_or_else(|_| {
                let error = || path.index(at).mismatch(format!("number {number}"), &Shape::Int32);
                self.wrong_type.get_or_insert_with(error);
                0
            }));
        }
        Ok(Value::Bytes(bytes.into()))
    }

    /// A quantity: a string or a number; escapes are not unescaped.
    fn quantity(&mut self) -> Result<Value, Fault> {
        let text = self.scanner.skip(self.budget.depth_left())?.text;
        let bare = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        self.scalar(scalar::canonical(&Shape::Quantity, bare.trim()))
    }

    fn raw(&mut self) -> Result<Value, Fault> {
        let skipped = self.scanner.skip(self.budget.depth_left())?;
        Ok(match skipped.text {
            "null" => Value::Null,
            text if skipped.spaced => RawJson::from_checked(super::compact(text)).into(),
            text => RawJson::from_checked(text).into(),
        })
    }

    /// A JSON schema, or its alternative. The reference decodes these with a decoder that does not report
    /// unknown fields.
    fn schema_or(
        &mut self,
        alternative: Alternative,
        ty: &crate::Ref<Type>,
        path: &DecodePath<'_>,
    ) -> Result<Value, Fault> {
        self.strict.quiet += 1;
        let path = &path.own_decoder();
        let value = match (self.scanner.peek_token(), alternative) {
            (Some(b'{'), _) => self.value(&Shape::Struct(ty.clone()), path)?,
            (Some(b'['), Alternative::Schemas) => {
                let schemas = Shape::List(crate::Ref::Shared(Shape::Struct(ty.clone()).into()));
                self.value(&schemas, path)?
            }
            (Some(b'['), Alternative::Strings) => {
                self.value(&Shape::List(crate::Ref::Static(&Shape::String)), path)?
            }
            (_, Alternative::Bool) => {
                self.scanner.skip(self.budget.depth_left())?;
                self.refuse(|| Error::Value("boolean or JSON schema expected".into()));
                Value::Null
            }
            _ => {
                self.scanner.skip(self.budget.depth_left())?;
                Value::Null
            }
        };
        self.strict.quiet -= 1;
        Ok(value)
    }

    /// The fields of a struct, after its opening brace.
    fn fields_of(&mut self, ty: &Type, path: &DecodePath<'_>) -> Result<Value, Fault> {
        self.budget.enter()?;
        let base = self.fields.len();
        let mut seen = SeenFields::default();
        let mut others = Vec::new();
        let mut repeats = Vec::new();
        let mut keys = Keys::default();
        let mut first = true;
        while let Some(name) = self.scanner.key(first)? {
            first = false;
            match ty.position(&name).and_then(|at| ty.fields.get(at).map(|field| (at, field))) {
                Some((at, field)) => {
                    let again = seen.again(at);
                    if again {
                        self.strict.add(|| Strict::Duplicate(path.path_to(&name)));
                    }
                    let value = self.value(&field.shape, &path.field(ty, field))?;
                    if again {
                        repeats.push((at, value));
                    } else if !field.drops(&value) {
                        put(self.fields.field(&field.name), value);
                    }
                }
                None if ty.preserve_unknown_fields => {
                    self.note_key(&mut keys, &others, &name, path);
                    let value = self.any(&path.key(&name))?;
                    others.push((Key::from(Text::from(name)), value));
                }
                None => {
                    self.strict.add(|| Strict::Unknown(path.path_to(&name)));
                    self.scanner.peek_token();
                    self.scanner.skip(self.budget.depth_left())?;
                }
            }
            if !self.scanner.more_entries()? {
                break;
            }
        }
        self.budget.leave();
        if !repeats.is_empty() {
            self.set_again(base, ty, repeats);
        }
        keys.distinct(others).into_iter().for_each(|other| put(self.fields.push_default(), other));
        Ok(Map::from_distinct(self.fields.take(base)).into())
    }

    /// Duplicate fields, by position: the reference decodes the later values into the earlier one.
    #[cold]
    fn set_again(&mut self, base: usize, ty: &Type, mut repeats: Vec<(usize, Value)>) {
        repeats.sort_by_key(|(at, _)| *at);
        for group in repeats.chunk_by(|a, b| a.0 == b.0) {
            let Some(field) = group.first().and_then(|(at, _)| ty.fields.get(*at)) else { continue };
            let mut values: Vec<Value> = self.fields.remove(base, &field.name).into_iter().collect();
            for (_, value) in group {
                match value {
                    Value::Null if !field.optional && field.shape.keeps_on_null() => {}
                    Value::Null => values.clear(),
                    value => values.push(value.clone()),
                }
            }
            let value = merge_repeats(values);
            if !value.is_null() && !field.drops(&value) {
                put(self.fields.field(&field.name), value);
            }
        }
    }

    /// The entries of a map, after its opening brace.
    fn map_of(&mut self, shape: &Shape, path: &DecodePath<'_>) -> Result<Value, Fault> {
        self.budget.enter()?;
        let mut entries: Vec<(Key, Value)> = Vec::new();
        let mut keys = Keys::default();
        let mut first = true;
        while let Some(name) = self.scanner.key(first)? {
            first = false;
            self.note_key(&mut keys, &entries, &name, path);
            let value = self.value(shape, &path.key(&name))?;
            let value = if value.is_null() { shape.empty_element() } else { value };
            entries.push((Key::from(Text::from(name)), value));
            if !self.scanner.more_entries()? {
                break;
            }
        }
        self.budget.leave();
        Ok(Map::from_distinct(keys.distinct(entries)).into())
    }

    /// Records the key of an entry before its value is read: a duplicate is reported before the fields inside
    /// it.
    #[inline]
    fn note_key(&mut self, keys: &mut Keys, entries: &[(Key, Value)], key: &str, path: &DecodePath<'_>) {
        if keys.repeats(entries, key) {
            self.strict.add(|| Strict::Duplicate(path.path_to(key)));
        }
    }

    /// The elements of a list, after its opening bracket.
    fn list_of(&mut self, shape: &Shape, path: &DecodePath<'_>) -> Result<Value, Fault> {
        self.budget.enter()?;
        let base = self.elements.len();
        if self.scanner.peek_token() == Some(b']') {
            self.scanner.advance();
        } else {
            loop {
                let at = self.elements.len() - base;
                let value = self.value(shape, &path.index(at))?;
                let value = if value.is_null() { shape.empty_element() } else { value };
                put(self.elements.push_default(), value);
                if !self.scanner.more_elements()? {
                    break;
                }
            }
        }
        self.budget.leave();
        Ok(List::of(self.elements.take(base)).into())
    }

    /// Any value, as a tree.
    fn any(&mut self, path: &DecodePath<'_>) -> Result<Value, Fault> {
        match self.scanner.peek_token() {
            Some(b'{') => {
                self.scanner.advance();
                self.map_of(&Shape::Any, path)
            }
            Some(b'[') => {
                self.scanner.advance();
                self.list_of(&Shape::Any, path)
            }
            Some(b'"') => Ok(Value::String(Text::from(self.scanner.string()?))),
            Some(b't') => self.scanner.word("true").map(|()| Value::Bool(true)),
            Some(b'f') => self.scanner.word("false").map(|()| Value::Bool(false)),
            Some(b'n') => self.scanner.word("null").map(|()| Value::Null),
            Some(b'-' | b'0'..=b'9') => self.any_number(path),
            _ => Err(self.scanner.unexpected("looking for beginning of value")),
        }
    }

    /// A number: an integer if it has no fraction and fits into 64 bits.
    fn any_number(&mut self, path: &DecodePath<'_>) -> Result<Value, Fault> {
        let text = self.scanner.number()?;
        if let Ok(number) = text.parse::<i64>() {
            return Ok(Value::Int(number));
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::Float(number)),
            _ => {
                let error = || path.mismatch_of(format!("number {text}"), &Shape::Float64);
                self.wrong_type.get_or_insert_with(error);
                Ok(Value::Null)
            }
        }
    }
}

/// The keys of an open map.
#[derive(Default)]
struct Keys {
    /// All keys, kept only after the first key that is out of order.
    seen: Option<HashSet<Text>>,
    repeated: bool,
}

impl Keys {
    /// Whether a key occurred before.
    #[inline]
    fn repeats(&mut self, entries: &[(Key, Value)], key: &str) -> bool {
        if self.seen.is_none() && entries.last().is_none_or(|(last, _)| last.as_str() < key) {
            return false;
        }
        self.look_up(entries, key)
    }

    fn look_up(&mut self, entries: &[(Key, Value)], key: &str) -> bool {
        let all = || entries.iter().map(|(key, _)| Text::from(key.as_str())).collect();
        let repeats = !self.seen.get_or_insert_with(all).insert(Text::from(key));
        self.repeated |= repeats;
        repeats
    }

    /// The entries without duplicates: a later value replaces an earlier one.
    fn distinct(&self, entries: Vec<(Key, Value)>) -> Vec<(Key, Value)> {
        if !self.repeated {
            return entries;
        }
        let mut places: HashMap<Key, usize> = HashMap::with_capacity(entries.len());
        let mut kept: Vec<(Key, Value)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            match places.get(key.as_str()).and_then(|at| kept.get_mut(*at)) {
                Some(earlier) => earlier.1 = value,
                None => {
                    places.insert(key.clone(), kept.len());
                    kept.push((key, value));
                }
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strict(text: &str) -> Vec<String> {
        let ty = crate::builtin::by_kind("", "v1", "ConfigMap").unwrap();
        let decoded = decode(ty, text.as_bytes(), &Limits::default()).unwrap();
        decoded.strict.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn duplicate_field_is_reported_before_unknown_fields_inside_it() {
        let text = r#"{"metadata":{},"metadata":{"labels":{"b":"1","a":"2","b":"3"},"labels":{"x":"","x":""},"q":1}}"#;
        let expected = [
            r#"duplicate field "metadata""#,
            r#"duplicate field "metadata.labels.b""#,
            r#"duplicate field "metadata.labels""#,
            r#"duplicate field "metadata.labels.x""#,
            r#"unknown field "metadata.q""#,
        ];
        assert_eq!(strict(text), expected);
    }

    #[test]
    fn field_path_of_an_empty_key_ends_in_a_dot() {
        let text = r#"{"":1,"metadata":{"":2}}"#;
        assert_eq!(strict(text), [r#"unknown field """#, r#"unknown field "metadata.""#]);
    }
}
