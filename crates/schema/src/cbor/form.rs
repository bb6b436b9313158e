//! Values that the reference decodes with decoders of their own: times, durations, quantities, `IntOrString`,
//! raw JSON, and the alternatives to a JSON schema.

use super::any::write_json;
use super::decode::Decoder;
use super::item::Major;
use crate::decode::{DecodePath, Error, Fault};
use crate::model::{Alternative, Raw, Ref, Shape, Type};
use crate::scalar;
use object::{RawJson, Value};

impl Decoder<'_> {
    /// Text that has a canonical form.
    pub(super) fn form(&mut self, shape: &Shape, path: &DecodePath<'_>) -> Result<Value, Fault> {
        self.skip_self_described();
        self.check_negative(shape, path)?;
        let text = match self.reader.major() {
            Major::Tag => return self.tagged(|decoder| decoder.form(shape, path)),
            Major::Bytes | Major::Text => self.text()?,
            Major::Primitive => return self.primitive_of(shape, path),
            found => return Err(self.mismatch_with(found, "string", path, "")),
        };
        let text = if matches!(shape, Shape::Quantity) { text.trim() } else { &text };
        match scalar::canonical(shape, text) {
            Ok(text) if scalar::is_no_time(&text) => Ok(Value::Null),
            Ok(text) => Ok(Value::String(text)),
            Err(message) => Err(Fault::new(Error::Value(message))),
        }
    }

    pub(super) fn int_or_string(&mut self, path: &DecodePath<'_>) -> Result<Value, Fault> {
        self.skip_self_described();
        self.check_negative(&Shape::IntOrString, path)?;
        match self.reader.major() {
            Major::Tag => self.tagged(|decoder| decoder.int_or_string(path)),
            Major::Bytes | Major::Text => self.text().map(Value::String),
            Major::Positive | Major::Negative => self.int(&Shape::IntOrString, path),
            Major::Primitive => self.primitive_of(&Shape::IntOrString, path),
            found => Err(self.mismatch_with(found, "int32", path, "")),
        }
    }

    /// Any item, as JSON text.
    pub(super) fn raw(&mut self, raw: Raw, path: &DecodePath<'_>) -> Result<Value, Fault> {
        if self.reader.peek() == 0xf6 {
            self.reader.skip();
            return Ok(Value::Null);
        }
        let label = match raw {
            Raw::Extension => {
                "failed to transcode RawExtension to JSON: failed to parse RawExtension bytes as CBOR: "
            }
            Raw::Fields => "failed to transcode FieldsV1 to JSON: metav1.FieldsV1 cbor invalid: ",
            Raw::Json => "",
        };
        let root = if raw == Raw::Json { None } else { self.root.take() };
        let value = self.whole(|decoder| match raw {
            Raw::Fields => decoder.value(&Shape::Map(Ref::Static(&Shape::Any)), &DecodePath::ROOT),
            _ => decoder.any(path),
        });
        self.root = root.or(self.root.take());
        match value.map_err(|fault| *fault) {
            Ok(Value::Null) => Ok(Value::Null),
            Ok(value) => {
                let mut json = Vec::new();
                write_json(&value, &mut json);
                Ok(RawJson::from_checked(crate::json::utf8(&json)).into())
            }
            Err(error) if raw == Raw::Json => Err(Fault::new(error)),
            Err(error) => {
                self.last.get_or_insert_with(|| Fault::new(Error::Value(format!("{label}{error}"))));
                Ok(Value::Null)
            }
        }
    }

    /// A JSON schema, or its alternative. As in JSON, its unknown fields are not reported.
    pub(super) fn schema_or(
        &mut self,
        alternative: Alternative,
        ty: &Ref<Type>,
        path: &DecodePath<'_>,
    ) -> Result<Value, Fault> {
        let schema = Shape::Struct(ty.clone());
        self.strict.quiet += 1;
        let value = match (self.reader.major(), self.reader.peek(), alternative) {
            (Major::Map, _, _) => self.value(&schema, path),
            (Major::Array, _, Alternative::Schemas) => self.list_of(&schema, path),
            (Major::Array, _, Alternative::Strings) => self.list_of(&Shape::String, path),
            (_, head @ (0xf4 | 0xf5), Alternative::Bool) => {
                self.reader.skip();
                Ok(Value::Bool(head == 0xf5))
            }
            (_, 0xf6, _) | (_, _, Alternative::Schemas | Alternative::Strings) => {
                self.reader.skip();
                Ok(Value::Null)
            }
            _ => Err(Fault::new(Error::Value("boolean or JSON schema expected".into()))),
        };
        self.strict.quiet -= 1;
        value
    }
}
