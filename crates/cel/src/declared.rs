//! Types that a schema declares for the values of objects: what the checker knows of their fields, and what
//! estimates know of their sizes.
//!
//! The numbers are those of the reference: which sizes it takes where a schema gives no bound, and how many
//! bytes a value takes at least, of which follows how many of them a request can have. Estimated costs, and
//! so what a definition may have, depend on them.

mod named;
#[cfg(test)]
mod tests;

pub use named::{NamedObject, NamedTypes};

use crate::cost::{SizeEstimate, Sizes};
use crate::{Type, TypeProvider};
use std::sync::Arc;

/// The most bytes of a request.
pub const MAX_REQUEST_BYTES: i64 = 3 * 1024 * 1024;

/// The type that a schema declares for a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// What the value is.
    pub form: DeclaredForm,
    /// The most elements, characters or bytes that the value has.
    pub max_elements: i64,
    /// The least bytes of JSON that the value takes.
    pub min_serialized: i64,
}

/// A field of an object, as a schema has it.
#[derive(Clone, Debug)]
pub struct DeclaredField {
    /// Its name in JSON.
    pub name: Box<str>,
    /// Its name in expressions, if they can write it ([`crate::escape::escape`]).
    pub escaped: Option<Box<str>>,
    /// What its value is.
    pub declared: Arc<Declared>,
    /// Whether it has to be there.
    pub is_required: bool,
    /// Whether the schema has a default for it.
    pub has_default: bool,
}

/// What a declared value is.
#[derive(Clone, Debug, PartialEq)]
pub enum DeclaredForm {
    /// A value of a type without parts.
    Scalar(Type),
    /// A list of such elements.
    List(Arc<Declared>),
    /// A map from texts to such values.
    Map(Arc<Declared>),
    /// An object with such fields, by their escaped names, sorted.
    Object(Arc<[(Box<str>, Arc<Declared>)]>),
}

/// The types of a declared value, and of all objects within it, by names that begin with the given one:
/// `NAME.field.@idx.@elem`.
pub struct DeclaredTypes {
    name: Arc<str>,
    root: Arc<Declared>,
}

impl DeclaredTypes {
    /// The types of a value, whose own type has this name if it is an object.
    pub fn new(name: &str, root: Arc<Declared>) -> Self {
        Self { name: name.into(), root }
    }

    /// The type of the value itself.
    pub fn root(&self) -> Type {
        self.root.ty(&self.name)
    }
}

/// The sizes that a schema declares for a variable. The name of the variable is not looked at: there is one
/// schema, of `self` and `oldSelf`.
pub struct DeclaredSizes<'d>(pub &'d Declared);

/// The least bytes of JSON that values of some types take.
mod least {
    pub(super) const TEXT: i64 = 2;
    pub(super) const BOOLEAN: i64 = 4;
    pub(super) const NUMBER: i64 = 1;
    pub(super) const DURATION: i64 = 3;
    pub(super) const DATE: i64 = 12;
    pub(super) const DATE_TIME: i64 = 21;
    pub(super) const BRACES: i64 = 2;
}

/// The most bytes of a text of a duration or of a point in time.
const MOST_OF_TIME: i64 = 32;
/// The most bytes of a text whose length nothing bounds but the size of a request.
const MOST_OF_TEXT: i64 = MAX_REQUEST_BYTES - 2;

/// The sizes are those that the reference assumes, where a length that is given as negative counts as 0.
impl Declared {
    fn scalar(ty: Type, max_elements: i64, min_serialized: i64) -> Self {
        Self { form: DeclaredForm::Scalar(ty), max_elements, min_serialized }
    }

    /// A boolean.
    pub fn boolean() -> Self {
        Self::scalar(Type::Bool, 0, least::BOOLEAN)
    }

    /// A whole number.
    pub fn integer() -> Self {
        Self::scalar(Type::Int, 0, least::NUMBER)
    }

    /// A number.
    pub fn number() -> Self {
        Self::scalar(Type::Double, 0, least::NUMBER)
    }

    /// An integer or a string.
    pub fn int_or_string() -> Self {
        Self::scalar(Type::Dyn, MOST_OF_TEXT, 1)
    }

    /// A text of at most this many characters, or the longest of listed ones, in bytes.
    pub fn string(max_length: Option<i64>, longest_listed: Option<usize>) -> Self {
        let most = match (max_length, longest_listed) {
            // A character takes up to four bytes.
            (Some(most), _) => most.max(0).wrapping_mul(4),
            (None, Some(longest)) => i64::try_from(longest).unwrap_or(i64::MAX),
            (None, None) => MOST_OF_TEXT,
        };
        Self::scalar(Type::String, most, least::TEXT)
    }

    /// Bytes, as a text of at most this many characters.
    pub fn bytes(max_length: Option<i64>) -> Self {
        Self::scalar(Type::Bytes, max_length.map_or(MOST_OF_TEXT, |most| most.max(0)), least::TEXT)
    }

    /// A duration.
    pub fn duration() -> Self {
        Self::scalar(Type::Duration, MOST_OF_TIME, least::DURATION)
    }

    /// A date.
    pub fn date() -> Self {
        Self::scalar(Type::Timestamp, least::DATE, least::DATE)
    }

    /// A point in time.
    pub fn date_time() -> Self {
        Self::scalar(Type::Timestamp, MOST_OF_TIME, least::DATE_TIME)
    }

    /// A list of at most this many such elements; otherwise of as many as a request has room for.
    pub fn list(element: Arc<Declared>, max_items: Option<i64>) -> Self {
        let room = (MAX_REQUEST_BYTES - 2) / (element.min_serialized.saturating_add(1)).max(1);
        let max_elements = max_items.map_or(room, |most| most.max(0));
        Self { form: DeclaredForm::List(element), max_elements, min_serialized: least::BRACES }
    }

    /// A map with at most this many such values; otherwise with as many as a request has room for.
    pub fn map(value: Arc<Declared>, max_properties: Option<i64>) -> Self {
        let room = (MAX_REQUEST_BYTES - 2) / (value.min_serialized.saturating_add(6)).max(1);
        let max_elements = max_properties.map_or(room, |most| most.max(0));
        Self { form: DeclaredForm::Map(value), max_elements, min_serialized: least::BRACES }
    }

    /// An object. Its least size is that of its required fields without defaults.
    pub fn object(fields: Vec<DeclaredField>) -> Self {
        let mut min_serialized = least::BRACES;
        let mut named = Vec::with_capacity(fields.len());
        for field in fields {
            if field.is_required && !field.has_default {
                let name = i64::try_from(field.name.len()).unwrap_or(i64::MAX);
                let of_field = name.saturating_add(field.declared.min_serialized).saturating_add(4);
                min_serialized = min_serialized.saturating_add(of_field);
            }
            named.extend(field.escaped.map(|escaped| (escaped, field.declared)));
        }
        named.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self { form: DeclaredForm::Object(named.into()), max_elements: 0, min_serialized }
    }

    /// The declaration of the elements of a list, or of the values of a map.
    pub fn element(&self) -> Option<&Arc<Declared>> {
        match &self.form {
            DeclaredForm::List(element) | DeclaredForm::Map(element) => Some(element),
            DeclaredForm::Scalar(_) | DeclaredForm::Object(_) => None,
        }
    }

    /// The declaration of a field of an object.
    pub fn field(&self, name: &str) -> Option<&Arc<Declared>> {
        let DeclaredForm::Object(fields) = &self.form else { return None };
        let place = fields.binary_search_by(|(there, _)| (**there).cmp(name)).ok()?;
        fields.get(place).map(|(_, declared)| declared)
    }

    /// The type of the value, if objects at this place have this name.
    fn ty(&self, name: &str) -> Type {
        match &self.form {
            DeclaredForm::Scalar(ty) => ty.clone(),
            DeclaredForm::List(element) => Type::list(element.ty(&format!("{name}.@idx"))),
            DeclaredForm::Map(value) => Type::map(Type::String, value.ty(&format!("{name}.@elem"))),
            DeclaredForm::Object(_) => Type::object(name),
        }
    }
}

impl DeclaredTypes {
    /// The declaration that a name leads to.
    fn declared(&self, name: &str) -> Option<&Declared> {
        let mut at: &Declared = &self.root;
        let rest = name.strip_prefix(&*self.name)?;
        if rest.is_empty() {
            return Some(at);
        }
        for part in rest.strip_prefix('.')?.split('.') {
            at = match (part, &at.form) {
                ("@idx", DeclaredForm::List(element)) | ("@elem", DeclaredForm::Map(element)) => element,
                (field, _) => at.field(field)?,
            };
        }
        Some(at)
    }
}

impl TypeProvider for DeclaredTypes {
    fn find(&self, name: &str) -> Option<Type> {
        // Lists and maps are types by the name of their place within an object.
        let is_root = name == &*self.name;
        match self.declared(name) {
            Some(declared @ Declared { form: DeclaredForm::Object(_), .. }) => Some(declared.ty(name)),
            Some(declared @ Declared { form: DeclaredForm::List(_) | DeclaredForm::Map(_), .. })
                if !is_root =>
            {
                Some(declared.ty(name))
            }
            _ => scalar(name),
        }
    }

    fn field(&self, name: &str, field: &str) -> Option<Type> {
        let Some(declared) = self.declared(name) else { return any_field(name) };
        if let Some(found) = declared.field(field) {
            return Some(found.ty(&format!("{name}.{field}")));
        }
        let escaped = format!("__{field}__");
        let found = declared.field(&escaped).filter(|_| crate::escape::is_reserved(field))?;
        Some(found.ty(&format!("{name}.{escaped}")))
    }

    fn has_fields(&self, name: &str) -> bool {
        self.find(name).is_some()
    }
}

/// The types that the reference knows by these names wherever a schema declares types. Those that are no
/// names of the language, such as `duration`, can be written, but evaluation does not know them.
fn scalar(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "duration" => Type::Duration,
        "int" => Type::Int,
        "list" => Type::list(Type::Any),
        "map" => Type::map(Type::Any, Type::Any),
        "null_type" => Type::Null,
        "string" => Type::String,
        "timestamp" => Type::Timestamp,
        "uint" => Type::Uint,
        _ => return None,
    })
}

/// The type of every field of a type that the reference knows wherever types are declared.
fn any_field(name: &str) -> Option<Type> {
    (name == "map").then_some(Type::Any)
}

impl Sizes for DeclaredSizes<'_> {
    fn size(&self, path: &[&str]) -> Option<SizeEstimate> {
        let (_, path) = path.split_first()?;
        let mut at = self.0;
        let mut rest = path.iter();
        while let Some(name) = rest.next() {
            at = match (*name, &at.form) {
                ("@items" | "@values", DeclaredForm::List(element) | DeclaredForm::Map(element)) => element,
                // Keys are texts of which nothing is declared: their size counts as 0.
                ("@keys", DeclaredForm::Map(_)) => {
                    return rest.next().is_none().then_some(SizeEstimate { min: 0, max: 0 });
                }
                (name, _) => at.field(name)?,
            };
        }
        // A bound that was too large for the multiplication by four is the large number that the reference
        // has.
        Some(SizeEstimate { min: 0, max: at.max_elements as u64 })
    }
}
