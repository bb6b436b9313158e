//! Values as JSON: as the reference has them in an apply configuration, and in an operation of a JSON patch.

use super::foreign::failed;
use super::refusal::{key_text, no_json, not_a_text};
use super::room::{DEEPEST, MOST_BYTES, NoRoom, Room};
use super::type_names;
use super::types::is_object;
use crate::Value;
use crate::library::duration_text;
use crate::value::{Entries, List, Map, Struct, base64};
use object::quote::Quoted;
use object::{Key, Text};

/// The largest whole number that JSON has exactly.
const EXACT: u64 = (1 << 53) - 1;

/// Converts the value of one expression, or its parts one after the other. What they take together is
/// bounded.
#[derive(Debug)]
pub struct Converter {
    room: Room,
    /// The room of the values whose types are checked.
    checked: Room,
}

impl Converter {
    /// Converts values that take no more than a request may have.
    pub fn new() -> Self {
        Self { room: Room::new(), checked: Room::new() }
    }

    /// The apply configuration that a value is, as plain JSON; what is no JSON is
    /// [`object::foreign::Foreign`].
    pub fn configuration(&mut self, value: &Value<'_>) -> Result<object::Value, String> {
        let Value::Struct(made) = value else {
            let found = value.type_of();
            let found = found.name();
            return Err(format!("unsupported return type from ApplyConfiguration expression: {found}"));
        };
        let mut conversion = Conversion { room: &mut self.room, purpose: Purpose::Configuration };
        conversion.object(made, 0).map_err(|fault| match fault {
            Fault::Key(_) => "invalid return type: *dynamic.ObjectVal".to_owned(),
            fault => fault.to_string(),
        })
    }

    /// A value as the JSON of an operation of a JSON patch.
    pub fn json(&mut self, value: &Value<'_>) -> Result<object::Value, String> {
        let holder = if matches!(value, Value::Struct(_)) { "*structpb.Struct" } else { "*structpb.Value" };
        let mut conversion = Conversion { room: &mut self.room, purpose: Purpose::Patch { holder } };
        conversion.json(value, 0).map_err(|fault| fault.to_string())
    }

    /// A text of an operation.
    pub fn text(&mut self, text: &str) -> Result<String, String> {
        match self.room.take(1 + text.len()) {
            Ok(()) => Ok(text.to_owned()),
            Err(NoRoom) => Err(Fault::TooLarge.to_string()),
        }
    }

    /// Checks that every object in a field `f` of an object of the type `T` has the type `T.f`, also within
    /// lists and maps. A value that is no object is not checked. The error is that of the reference, a line
    /// for each object.
    pub fn check_type_names(&mut self, value: &Value<'_>) -> Result<(), String> {
        type_names::check(value, &mut self.checked)
    }
}

impl Default for Converter {
    fn default() -> Self {
        Self::new()
    }
}

/// What a value is converted for.
#[derive(Clone, Copy)]
enum Purpose {
    /// For an apply configuration.
    Configuration,
    /// For an operation of a JSON patch, by this type of Go.
    Patch { holder: &'static str },
}

/// Why a value cannot be converted.
enum Fault {
    TooLarge,
    /// A key of a map of an object is no text; with the names of the fields that lead to the map.
    Key(String),
    /// The value is no JSON.
    NoJson(String),
}

type Converted = Result<object::Value, Fault>;

impl From<NoRoom> for Fault {
    fn from(_: NoRoom) -> Self {
        Self::TooLarge
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLarge => write!(f, "the value has more than {MOST_BYTES} bytes, or is nested too deep"),
            Self::Key(why) | Self::NoJson(why) => f.write_str(why),
        }
    }
}

struct Conversion<'r> {
    room: &'r mut Room,
    purpose: Purpose,
}

/// What recurses is in small functions, and what does not in functions of its own, so that a level takes
/// little of the stack.
impl Conversion<'_> {
    /// An object: the reference's `ConvertToNative`.
    fn object(&mut self, made: &Struct<'_>, depth: usize) -> Converted {
        self.enter(depth)?;
        let mut entries = Vec::with_capacity(made.fields.len());
        for (name, value) in &made.fields {
            self.room.take(name.len())?;
            match self.field(value, depth) {
                Ok(value) => entries.push((Key::from(&**name), value)),
                Err(fault) => return Err(of_field(name, fault)),
            }
        }
        Ok(map(entries))
    }

    /// The value of a field: the elements of a list and the entries of a map are looked at.
    fn field(&mut self, value: &Value<'_>, depth: usize) -> Converted {
        match value {
            Value::Optional(Some(value)) if depth < DEEPEST => self.field(value, depth + 1),
            Value::List(List::Elements(elements)) => self.elements(elements, depth),
            Value::Map(Map::Entries(entries)) => self.entries(entries, depth),
            value => self.native(value, depth),
        }
    }

    fn elements(&mut self, elements: &[Value<'_>], depth: usize) -> Converted {
        let mut items = Vec::with_capacity(elements.len());
        for element in elements {
            items.push(self.native(element, depth)?);
        }
        Ok(items.into())
    }

    fn entries(&mut self, made: &Entries<'_>, depth: usize) -> Converted {
        let mut entries = Vec::with_capacity(made.len());
        for (key, value) in made.as_slice() {
            let key = self.key(key)?;
            entries.push((key, self.native(value, depth)?));
        }
        Ok(map(entries))
    }

    fn key(&mut self, key: &Value<'_>) -> Result<Key, Fault> {
        let text = text_of(key).ok_or_else(|| Fault::Key(not_a_text(key)))?;
        self.room.take(text.len())?;
        Ok(Key::from(text))
    }

    /// What a value is made of in Go: the reference's `Value()`.
    fn native(&mut self, value: &Value<'_>, depth: usize) -> Converted {
        self.enter(depth)?;
        match value {
            Value::Struct(made) if is_object(&made.name) => match self.object(made, depth + 1) {
                Err(Fault::Key(why)) => self.failed(why),
                converted => converted,
            },
            Value::Optional(Some(value)) => self.native(value, depth + 1),
            Value::List(list @ (List::Concat(_) | List::Merged(_))) => {
                let elements = elements_of(list)?;
                self.elements(&elements, depth + 1)
            }
            value => self.native_leaf(value),
        }
    }

    /// What an object is whose map has a key that is no text: an error in the place of its value.
    fn failed(&self, why: String) -> Converted {
        match self.purpose {
            Purpose::Configuration => Ok(failed(why).into()),
            Purpose::Patch { .. } => Err(invalid_type("*types.Err")),
        }
    }

    fn native_leaf(&mut self, value: &Value<'_>) -> Converted {
        Ok(match (value, self.purpose) {
            (Value::Bool(flag), _) => (*flag).into(),
            (Value::Int(number), Purpose::Configuration) => (*number).into(),
            (Value::Double(number), Purpose::Configuration) if number.is_finite() => {
                object::Value::Float(*number)
            }
            (Value::Int(number), Purpose::Patch { .. }) => self.number(*number as f64)?,
            (Value::Uint(number), Purpose::Patch { .. }) => self.number(*number as f64)?,
            (Value::Double(number), Purpose::Patch { .. }) => self.number(*number)?,
            (Value::Bytes(bytes), Purpose::Patch { .. }) => self.text(base64(bytes.as_slice()))?,
            (Value::String(text), _) => self.text(text.as_str())?,
            (Value::Type(ty), _) => self.text(ty.name())?,
            (Value::List(List::Tree(items, _)), _) => self.trees(items, Self::tree)?,
            (Value::Map(Map::Tree(tree, _)), _) => self.tree_map(tree, Self::tree)?,
            (Value::Preserved(tree), _) => self.tree(tree)?,
            (Value::Optional(None), _) => object::Value::Null,
            (value, Purpose::Configuration) => super::foreign::of(value).into(),
            (value, Purpose::Patch { .. }) => return Err(invalid_type(value.native_name())),
        })
    }

    /// A value as JSON: the reference's conversion to `structpb.Value`.
    fn json(&mut self, value: &Value<'_>, depth: usize) -> Converted {
        self.enter(depth)?;
        match value {
            Value::Struct(made) if is_object(&made.name) => self.object(made, depth),
            Value::Optional(Some(value)) => self.json(value, depth + 1),
            Value::List(list) if !matches!(list, List::Tree(..)) => self.json_elements(list, depth),
            Value::Map(Map::Entries(entries)) => self.json_entries(entries, depth),
            value => self.json_leaf(value),
        }
    }

    fn json_elements(&mut self, list: &List<'_>, depth: usize) -> Converted {
        let elements = elements_of(list)?;
        let mut items = Vec::with_capacity(elements.len());
        for element in &elements {
            items.push(self.json(element, depth + 1)?);
        }
        Ok(items.into())
    }

    fn json_entries(&mut self, made: &Entries<'_>, depth: usize) -> Converted {
        let mut entries = Vec::with_capacity(made.len());
        for (key, value) in made.as_slice() {
            let key = self.json_key(key)?;
            entries.push((key, self.json(value, depth + 1)?));
        }
        Ok(map(entries))
    }

    fn json_key(&mut self, key: &Value<'_>) -> Result<Key, Fault> {
        let text = key_text(key).map_err(Fault::NoJson)?;
        self.room.take(text.len())?;
        Ok(Key::from(text.as_str()))
    }

    fn json_leaf(&mut self, value: &Value<'_>) -> Converted {
        Ok(match value {
            Value::Null => object::Value::Null,
            Value::Int(number) => self.whole(*number)?,
            Value::Uint(number) => match i64::try_from(*number) {
                Ok(number) => self.whole(number)?,
                Err(_) => self.text(number.to_string())?,
            },
            Value::Duration(nanos) => self.text(duration_text(*nanos))?,
            Value::Timestamp(time) => self.text(time.to_string())?,
            Value::List(List::Tree(items, _)) => self.trees(items, Self::json_tree)?,
            Value::Map(Map::Tree(tree, _)) => self.tree_map(tree, Self::json_tree)?,
            Value::Bool(_) | Value::Double(_) | Value::String(_) | Value::Bytes(_) => {
                self.native_leaf(value)?
            }
            Value::Preserved(tree) => self.json_tree(tree)?,
            other => return Err(Fault::NoJson(no_json(other))),
        })
    }

    /// Takes room for a value.
    fn enter(&mut self, depth: usize) -> Result<(), Fault> {
        self.room.take(1)?;
        if depth > DEEPEST { Err(Fault::TooLarge) } else { Ok(()) }
    }

    /// A copy of a tree, with numbers as Go's JSON has them if it is for a patch.
    fn tree(&mut self, tree: &object::Value) -> Converted {
        let is_plain = self.room.take_tree(tree)?;
        Ok(match self.purpose {
            Purpose::Configuration if is_plain => tree.clone(),
            Purpose::Configuration => mapped(tree, &|_| None),
            Purpose::Patch { .. } => mapped(tree, &|number| Some(float(number as f64))),
        })
    }

    fn trees(
        &mut self,
        trees: &[object::Value],
        each: fn(&mut Self, &object::Value) -> Converted,
    ) -> Converted {
        Ok(trees.iter().map(|tree| each(self, tree)).collect::<Result<Vec<_>, _>>()?.into())
    }

    fn tree_map(
        &mut self,
        tree: &object::Map,
        each: fn(&mut Self, &object::Value) -> Converted,
    ) -> Converted {
        let entries = tree.iter().map(|(key, value)| Ok((key.clone(), each(self, value)?)));
        Ok(map(entries.collect::<Result<Vec<_>, Fault>>()?))
    }

    fn json_tree(&mut self, tree: &object::Value) -> Converted {
        self.room.take_tree(tree)?;
        Ok(mapped(tree, &|number| (number.unsigned_abs() > EXACT).then(|| number.to_string().into())))
    }

    fn text(&mut self, text: impl AsRef<str>) -> Converted {
        let text = text.as_ref();
        self.room.take(text.len())?;
        Ok(object::Value::String(Text::from(text)))
    }

    /// A whole number: a text if JSON has no exact number of it.
    fn whole(&mut self, number: i64) -> Converted {
        if number.unsigned_abs() > EXACT { self.text(number.to_string()) } else { Ok(number.into()) }
    }

    fn number(&self, number: f64) -> Converted {
        let Purpose::Patch { holder } = self.purpose else { return Ok(object::Value::Float(number)) };
        if number.is_finite() {
            return Ok(float(number));
        }
        Err(Fault::NoJson(format!(
            "json: error calling MarshalJSON for type {holder}: proto: google.protobuf.Value.number_value: invalid {} value",
            crate::value::double(number)
        )))
    }
}

/// A fault of a field, with the name of the field if it is one of conversion.
fn of_field(name: &str, fault: Fault) -> Fault {
    match fault {
        Fault::Key(why) => Fault::Key(format!("fail to convert field {}: {why}", Quoted(name))),
        fault => fault,
    }
}

fn elements_of<'a>(list: &List<'a>) -> Result<Vec<Value<'a>>, Fault> {
    list.iter().collect::<Result<Vec<_>, _>>().map_err(|why| Fault::NoJson(why.to_string()))
}

fn invalid_type(name: &str) -> Fault {
    Fault::NoJson(format!("proto: invalid type: {name}"))
}

/// A floating point number as JSON has it: without a fraction it is a whole number.
fn float(number: f64) -> object::Value {
    crate::value::whole(number).map_or(object::Value::Float(number), object::Value::Int)
}

/// A map, with its keys in order.
fn map(mut entries: Vec<(Key, object::Value)>) -> object::Value {
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    object::Map::from_distinct(entries).into()
}

/// A copy of a tree as plain JSON, with some of its whole numbers changed.
fn mapped(tree: &object::Value, whole: &dyn Fn(i64) -> Option<object::Value>) -> object::Value {
    match tree {
        object::Value::Int(number) => whole(*number).unwrap_or_else(|| tree.clone()),
        object::Value::Bytes(bytes) => base64(bytes).into(),
        object::Value::Raw(_) => mapped(&opened(&Value::plain(tree)), whole),
        object::Value::List(items) => items.iter().map(|item| mapped(item, whole)).collect(),
        object::Value::Map(tree) => {
            let entries = tree.iter().map(|(key, value)| (key.clone(), mapped(value, whole)));
            map(entries.collect())
        }
        other => other.clone(),
    }
}

/// A tree of what was read from JSON text.
fn opened(value: &Value<'_>) -> object::Value {
    match value {
        Value::Bool(flag) => (*flag).into(),
        Value::Int(number) => (*number).into(),
        Value::Double(number) => object::Value::Float(*number),
        Value::String(text) => text.as_str().into(),
        Value::List(list) => list.iter().flatten().map(|element| opened(&element)).collect(),
        Value::Map(made) => {
            let entries = made
                .iter()
                .filter_map(|(key, value)| Some((Key::from(text_of(&key)?), opened(&value.ok()?))));
            map(entries.collect())
        }
        _ => object::Value::Null,
    }
}

/// The text that Go has of a key of a map.
pub(super) fn text_of<'v>(key: &'v Value<'_>) -> Option<&'v str> {
    match key {
        Value::String(text) => Some(text.as_str()),
        Value::Type(ty) => Some(ty.name()),
        _ => None,
    }
}
