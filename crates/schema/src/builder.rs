//! Types made at run time, in the same form as the built-in ones: custom kinds are made of these.

use crate::lookup::{Lookup, layout};
use crate::model::{
    Field, FieldOptions, GroupVersionKind, MessageField, Patch, Ref, Rule, Shape, Topology, Type, Union,
};
use object::{Key, Text, Value};
use std::sync::Arc;

/// Puts a type together, field by field in JSON order.
///
/// ```
/// use schema::{Builder, Limits, Shape, FieldBuilder, json};
/// let point = Builder::new("example.v1.Point").field("x", FieldBuilder::new(Shape::Int64)).field("y", FieldBuilder::new(Shape::Int64)).build();
/// let decoded = json::decode_shape(&Shape::Struct(point.clone()), br#"{"y":2,"x":1,"z":3}"#, &Limits::default()).unwrap();
/// let mut out = Vec::new();
/// json::encode(&point, &decoded.value, &mut out);
/// assert_eq!(out, br#"{"x":1,"y":2}"#);
/// assert_eq!(decoded.strict[0].to_string(), r#"unknown field "z""#);
/// ```
pub struct Builder {
    name: Text,
    openapi: Text,
    kind: Option<GroupVersionKind>,
    atomic: bool,
    open: bool,
    union: Option<Union>,
    fields: Vec<Field>,
}

/// What stands at a field of a type that is being made. A new one is left out when it is absent, and is
/// different from an empty one.
pub struct FieldBuilder {
    shape: Shape,
    number: u32,
    optional: bool,
    always: bool,
    options: FieldOptions,
}

impl FieldBuilder {
    /// A value of a shape.
    pub fn new(shape: Shape) -> Self {
        let options = FieldOptions {
            go: shape.go_name().into(),
            required: false,
            values: Ref::Static(&[]),
            default: None,
            topology: Topology::Natural,
            patch: Patch::default(),
            rules: Ref::Static(&[]),
        };
        Self { shape, number: 0, optional: true, always: false, options }
    }

    /// Carried in Protobuf under this number.
    pub fn number(mut self, number: u32) -> Self {
        self.number = number;
        self
    }

    /// An empty value is the same as none, and is left out.
    pub fn plain(mut self) -> Self {
        self.optional = false;
        self
    }

    /// Written even when it is absent.
    pub fn always(mut self) -> Self {
        self.always = true;
        self
    }

    /// What an absent one becomes.
    pub fn default(mut self, value: Value) -> Self {
        self.options.default = Some(value);
        self
    }

    /// How server-side apply merges it.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.options.topology = topology;
        self
    }

    /// The values that it may have, for [`Rule::Listed`] and OpenAPI.
    pub fn values(mut self, values: impl IntoIterator<Item = Text>) -> Self {
        self.options.values = Ref::Shared(values.into_iter().collect());
        self
    }

    /// One more constraint.
    pub fn rule(mut self, rule: Rule) -> Self {
        let rules = self.options.rules.iter().cloned().chain([rule]);
        self.options.rules = Ref::Shared(rules.collect());
        self
    }
}

impl Builder {
    /// A type without fields.
    pub fn new(name: impl Into<Text>) -> Self {
        let name = name.into();
        Self {
            openapi: name.clone(),
            name,
            kind: None,
            atomic: false,
            open: false,
            union: None,
            fields: Vec::new(),
        }
    }

    /// The name in OpenAPI, where it is another.
    pub fn openapi(mut self, name: impl Into<Text>) -> Self {
        self.openapi = name.into();
        self
    }

    /// An object of its own.
    pub fn kind(mut self, kind: GroupVersionKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// The fields that every object has: `kind`, `apiVersion` and `metadata`.
    pub fn object(mut self) -> Self {
        let fields = crate::builtin::by_name("meta.v1.PartialObjectMetadata").map(|ty| &*ty.fields);
        self.fields.extend(fields.unwrap_or_default().iter().cloned());
        self
    }

    /// The fields of a list of objects of a type: `kind`, `apiVersion`, `metadata` and `items`.
    pub fn list_of(mut self, ty: &Ref<Type>) -> Self {
        let fields = crate::builtin::by_name("meta.v1.PartialObjectMetadataList").map(|ty| &*ty.fields);
        self.fields.extend(fields.unwrap_or_default().iter().cloned().map(|mut field| {
            if field.name == "items" {
                field.shape = Shape::List(Ref::Shared(Arc::new(Shape::Struct(ty.clone()))));
            }
            field
        }));
        self
    }

    /// Merged as one value by server-side apply.
    pub fn atomic(mut self) -> Self {
        self.atomic = true;
        self
    }

    /// Keys that are no field are kept.
    pub fn open(mut self) -> Self {
        self.open = true;
        self
    }

    /// Fields that exclude each other.
    pub fn union(mut self, union: Union) -> Self {
        self.union = Some(union);
        self
    }

    /// One more field; a second one of the same name takes the place of the first.
    pub fn field(mut self, name: &str, slot: FieldBuilder) -> Self {
        self.fields.retain(|field| field.name != name);
        let mut quoted = vec![b','];
        crate::json::write_string(name, &mut quoted);
        quoted.push(b':');
        self.fields.push(Field {
            name: Key::from(name),
            quoted_length: quoted.len(),
            quoted: Ref::Shared(String::from_utf8_lossy(&quoted).into()),
            number: slot.number,
            optional: slot.optional,
            boxed: false,
            always: slot.always,
            shape: slot.shape,
            options: Ref::Shared(Arc::new(slot.options)),
        });
        self
    }

    /// The type. Fields beyond the first 65,535 are left out: no schema that fits a request has as many.
    pub fn build(self) -> Ref<Type> {
        let mut fields = self.fields;
        fields.truncate(usize::from(u16::MAX) - 1);
        let places = |keep: fn(&Field) -> bool| {
            let fields = fields.iter().enumerate();
            fields.filter(move |(_, field)| keep(field)).map(|(at, _)| at as u16)
        };
        let mut wire: Vec<MessageField> = fields
            .iter()
            .zip(0..)
            .filter(|(field, _)| field.number != 0)
            .map(|(field, index)| MessageField::Field { number: field.number, index })
            .collect();
        wire.sort_by_key(MessageField::number);
        let struct_name = self.name.rsplit('.').next().unwrap_or_default().into();
        Ref::Shared(Arc::new(Type {
            struct_name,
            name: self.name,
            openapi: self.openapi,
            kind: self.kind,
            wire: Ref::Shared(wire.into()),
            atomic: self.atomic,
            open: self.open,
            has_defaults: fields
                .iter()
                .any(|field| field.options.default.is_some() || leads_to(&field.shape, |ty| ty.has_defaults)),
            has_rules: self.union.as_ref().is_some_and(|union| union.checked)
                || fields.iter().any(|field| {
                    !field.options.rules.is_empty() || leads_to(&field.shape, |ty| ty.has_rules)
                }),
            union: self.union,
            lookup: Lookup { slots: Ref::Shared(layout(fields.iter().map(|field| &*field.name)).into()) },
            always: Ref::Shared(places(|field| field.always).collect()),
            names: &[],
            fields: Ref::Shared(fields.into()),
        }))
    }
}

fn leads_to(shape: &Shape, holds: fn(&Type) -> bool) -> bool {
    match shape {
        Shape::Struct(ty) => holds(ty),
        Shape::List(inner) | Shape::Map(inner) => leads_to(inner, holds),
        _ => false,
    }
}
