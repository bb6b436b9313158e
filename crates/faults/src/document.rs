//! Reading JSON documents by hand, with the paths of all fields that are wrong: those of `/keelson/v1`.

use object::duration::Duration as GoDuration;
use object::field::{BadValue, Error, List, Path};
use object::{Map, Value};
use schema::{Limits, Shape, json};
use std::time::Duration;

/// An object of a document.
#[derive(Debug)]
pub struct Fields<'a> {
    map: &'a Map,
    path: &'a Path<'a>,
    known: Vec<&'static str>,
}

/// Reads a document, which is an object; otherwise why it is none.
pub fn parse(body: &[u8]) -> Result<Map, String> {
    let decoded =
        json::decode_shape(&Shape::Any, body, &Limits::REQUEST).map_err(|error| error.to_string())?;
    if let Some(strict) = decoded.strict.first() {
        return Err(format!("{strict}"));
    }
    match decoded.value {
        Value::Map(map) => Ok(map),
        other => Err(format!("an object is expected, not {}", other.kind())),
    }
}

/// A value, as messages show it.
fn shown(value: &Value) -> BadValue {
    match value {
        Value::Bool(value) => BadValue::Bool(*value),
        Value::Int(value) => BadValue::Int(*value),
        Value::Float(value) => BadValue::Float(*value),
        Value::String(text) => BadValue::String(text.to_string()),
        other => BadValue::String(other.kind().to_owned()),
    }
}

impl<'a> Fields<'a> {
    /// The fields of an object at a path.
    pub fn new(map: &'a Map, path: &'a Path<'a>) -> Self {
        Self { map, path, known: Vec::new() }
    }

    /// The fields of a value, if it is an object.
    pub fn of(value: &'a Value, path: &'a Path<'a>, errors: &mut List) -> Option<Self> {
        match value.as_map() {
            Some(map) => Some(Self::new(map, path)),
            None => {
                errors.push(Error::type_invalid(path, shown(value), "must be an object"));
                None
            }
        }
    }

    /// A field; none if it is absent or null.
    pub fn value(&mut self, name: &'static str) -> Option<&'a Value> {
        self.known.push(name);
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// A field of a type.
    fn typed<T>(
        &mut self,
        name: &'static str,
        what: &'static str,
        errors: &mut List,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.value(name)?;
        let read = read(value);
        if read.is_none() {
            errors.push(Error::type_invalid(&self.path.child(name), shown(value), what));
        }
        read
    }

    /// A text.
    pub fn text(&mut self, name: &'static str, errors: &mut List) -> Option<&'a str> {
        self.typed(name, "must be text", errors, Value::as_str)
    }

    /// A truth value.
    pub fn flag(&mut self, name: &'static str, errors: &mut List) -> Option<bool> {
        self.typed(name, "must be true or false", errors, Value::as_bool)
    }

    /// A number.
    pub fn number(&mut self, name: &'static str, errors: &mut List) -> Option<f64> {
        self.typed(name, "must be a number", errors, |value| match value {
            Value::Int(whole) => Some(*whole as f64),
            other => other.as_f64(),
        })
    }

    /// A whole number that is not negative, and at most `most`.
    pub fn whole(&mut self, name: &'static str, most: u64, errors: &mut List) -> Option<u64> {
        let number = self.typed(name, "must be a whole number", errors, Value::as_i64)?;
        let within = u64::try_from(number).ok().filter(|number| *number <= most);
        if within.is_none() {
            let why = format!("must be from 0 to {most}");
            errors.push(Error::invalid(&self.path.child(name), number, why));
        }
        within
    }

    /// A span of time, as Go writes it, which is not negative.
    pub fn duration(&mut self, name: &'static str, errors: &mut List) -> Option<Duration> {
        let text = self.text(name, errors)?;
        match object::duration::not_negative(text) {
            Ok(duration) => Some(duration),
            Err(why) => {
                errors.push(Error::invalid(&self.path.child(name), text, why));
                None
            }
        }
    }

    /// A span of time, as Go writes it.
    pub fn span(&mut self, name: &'static str, errors: &mut List) -> Option<GoDuration> {
        let text = self.text(name, errors)?;
        match text.parse() {
            Ok(span) => Some(span),
            Err(why) => {
                errors.push(Error::invalid(&self.path.child(name), text, why.to_string()));
                None
            }
        }
    }

    /// A list of texts; empty if it is absent.
    pub fn texts(&mut self, name: &'static str, errors: &mut List) -> Vec<String> {
        let list = self.typed(name, "must be a list", errors, Value::as_list).unwrap_or_default();
        let path = self.path.child(name);
        let mut texts = Vec::with_capacity(list.len());
        for (place, value) in list.iter().enumerate() {
            match value.as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => errors.push(Error::type_invalid(&path.index(place), shown(value), "must be text")),
            }
        }
        texts
    }

    /// A list of anything; empty if it is absent.
    pub fn list(&mut self, name: &'static str, errors: &mut List) -> &'a [Value] {
        self.typed(name, "must be a list", errors, Value::as_list).unwrap_or_default()
    }

    /// Where the object is.
    pub fn path(&self) -> &'a Path<'a> {
        self.path
    }

    /// Notes all fields that nobody has asked for.
    pub fn finish(self, errors: &mut List) {
        for key in self.map.keys().filter(|key| !self.known.contains(&key.as_str())) {
            errors.push(Error::forbidden(&self.path.child(key.as_str()), "unknown field"));
        }
    }
}
