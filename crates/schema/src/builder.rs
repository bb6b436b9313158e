//! Types made at run time, in the same form as the built-in ones: for custom resources.

use crate::lookup::{Lookup, layout};
use crate::model::{
    Field, FieldOptions, GroupVersionKind, MessageField, Patch, Ref, Rule, Shape, Topology, Type, Union,
};
use crate::structural::Structural;
use object::{Key, Text, Value};
use std::sync::{Arc, LazyLock};

/// The metadata of custom objects: `ObjectMeta`, but an absent field is not written, not even as null.
static CUSTOM_METADATA: LazyLock<Option<Ref<Type>>> = LazyLock::new(|| {
    let ty = crate::builtin::by_name("meta.v1.ObjectMeta")?;
    let fields = ty.fields.iter().map(|field| Field { always: false, ..field.clone() });
    Some(Ref::Shared(Arc::new(Type {
        name: ty.name.clone(),
        openapi: ty.openapi.clone(),
        struct_name: ty.struct_name.clone(),
        kind: None,
        fields: Ref::Shared(fields.collect()),
        wire: ty.wire.clone(),
        atomic: ty.atomic,
        union: None,
        preserve_unknown_fields: ty.preserve_unknown_fields,
        custom: None,
        has_defaults: ty.has_defaults,
        has_rules: ty.has_rules,
        lookup: Lookup { slots: ty.lookup.slots.clone() },
        always: Ref::Shared(Arc::default()),
        names: ty.names,
    })))
});

/// Builds a type, field by field in JSON order.
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
    preserve_unknown_fields: bool,
    union: Option<Union>,
    custom: Option<Arc<Structural>>,
    fields: Vec<Field>,
}

/// A field of a part of a type ([`Builder::part_of`]), and the fields within it; without any, the whole
/// field.
#[derive(Clone, Copy, Debug)]
pub struct Part(pub &'static str, pub &'static [Part]);

/// Builds a field. By default an absent field is omitted, and an empty value differs from an absent one.
pub struct FieldBuilder {
    shape: Shape,
    number: u32,
    optional: bool,
    always: bool,
    options: FieldOptions,
}

impl FieldBuilder {
    /// A field of a shape.
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

    /// Sets the Protobuf field number.
    pub fn number(mut self, number: u32) -> Self {
        self.number = number;
        self
    }

    /// An empty value means the same as an absent field and is omitted.
    pub fn plain(mut self) -> Self {
        self.optional = false;
        self
    }

    /// Writes the field even when it is absent.
    pub fn always(mut self) -> Self {
        self.always = true;
        self
    }

    /// Sets the default.
    pub fn default(mut self, value: Value) -> Self {
        self.options.default = Some(value);
        self
    }

    /// Sets how server-side apply merges the field.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.options.topology = topology;
        self
    }

    /// Sets the enum values, for [`Rule::Listed`] and OpenAPI.
    pub fn values(mut self, values: impl IntoIterator<Item = Text>) -> Self {
        self.options.values = Ref::Shared(values.into_iter().collect());
        self
    }

    /// Adds a constraint.
    pub fn rule(mut self, rule: Rule) -> Self {
        let rules = self.options.rules.iter().cloned().chain([rule]);
        self.options.rules = Ref::Shared(rules.collect());
        self
    }
}

/// The type of an object of any kind: `kind`, `apiVersion` and `metadata` have types, everything else is kept
/// as it is.
pub fn unstructured() -> &'static Ref<Type> {
    static TYPE: LazyLock<Ref<Type>> =
        LazyLock::new(|| Builder::new("Unstructured").object().preserve_unknown_fields().build());
    &TYPE
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
            preserve_unknown_fields: false,
            union: None,
            custom: None,
            fields: Vec::new(),
        }
    }

    /// A type with some of the fields of another. Typed views of the other type read its objects; the other
    /// fields read as absent.
    ///
    /// ```
    /// use schema::{Builder, Limits, Part, json, view::View, views::core::v1};
    /// let part = Builder::part_of(v1::Pod::schema(), &[Part("spec", &[Part("containers", &[Part("image", &[])])])]).build();
    /// let input = br#"{"kind":"Pod","spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}"#;
    /// let pod = json::decode_part(part, input, &Limits::STORED).unwrap();
    /// let spec = v1::Pod::of(pod.as_map().unwrap()).spec();
    /// assert_eq!(spec.containers().get(0).unwrap().image(), "i");
    /// assert_eq!(spec.node_name(), "");
    /// ```
    pub fn part_of(ty: &Type, parts: &[Part]) -> Self {
        let mut builder = Self::new(ty.name.clone());
        for Part(name, within) in parts {
            let field = ty.position(name).and_then(|at| ty.fields.get(at));
            let field = field.map(|field| Field { shape: part_of(&field.shape, within), ..field.clone() });
            builder.fields.extend(field);
        }
        builder
    }

    /// Sets the name in OpenAPI, if it differs.
    pub fn openapi(mut self, name: impl Into<Text>) -> Self {
        self.openapi = name.into();
        self
    }

    /// Sets the group, version and kind.
    pub fn kind(mut self, kind: GroupVersionKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Adds the fields that every object has: `kind`, `apiVersion` and `metadata`.
    pub fn object(mut self) -> Self {
        let fields = crate::builtin::by_name("meta.v1.PartialObjectMetadata").map(|ty| &*ty.fields);
        self.fields.extend(fields.unwrap_or_default().iter().cloned());
        self
    }

    /// Adds the fields of a list of objects of a type: `kind`, `apiVersion`, `metadata` and `items`.
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

    /// Makes server-side apply merge an object of the type as one value.
    pub fn atomic(mut self) -> Self {
        self.atomic = true;
        self
    }

    /// Preserves unknown fields.
    pub fn preserve_unknown_fields(mut self) -> Self {
        self.preserve_unknown_fields = true;
        self
    }

    /// Makes this the type of a custom kind: all fields but `kind`, `apiVersion` and `metadata` are in a
    /// structural schema. The decoder keeps these fields whatever their types; the schema prunes them.
    pub fn custom(mut self, schema: Arc<Structural>) -> Self {
        self.custom = Some(schema);
        if let Some(metadata) = &*CUSTOM_METADATA
            && let Some(field) = self.fields.iter_mut().find(|field| field.name == "metadata")
        {
            field.shape = Shape::Struct(metadata.clone());
        }
        self.preserve_unknown_fields()
    }

    /// Sets the fields that exclude each other.
    pub fn union(mut self, union: Union) -> Self {
        self.union = Some(union);
        self
    }

    /// Adds a field; it replaces an earlier one of the same name.
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

    /// The type. Fields after the first 65,535 are dropped: no schema that fits into a request has as many.
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
            preserve_unknown_fields: self.preserve_unknown_fields,
            has_defaults: self.custom.as_ref().is_some_and(|custom| custom.root().has_defaults)
                || fields.iter().any(|field| {
                    field.options.default.is_some() || leads_to(&field.shape, |ty| ty.has_defaults)
                }),
            custom: self.custom,
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

fn part_of(shape: &Shape, parts: &[Part]) -> Shape {
    match shape {
        Shape::Struct(ty) if !parts.is_empty() => Shape::Struct(Builder::part_of(ty, parts).build()),
        Shape::List(inner) => Shape::List(Ref::Shared(Arc::new(part_of(inner, parts)))),
        Shape::Map(inner) => Shape::Map(Ref::Shared(Arc::new(part_of(inner, parts)))),
        other => other.clone(),
    }
}

fn leads_to(shape: &Shape, holds: fn(&Type) -> bool) -> bool {
    match shape {
        Shape::Struct(ty) => holds(ty),
        Shape::List(inner) | Shape::Map(inner) => leads_to(inner, holds),
        _ => false,
    }
}
