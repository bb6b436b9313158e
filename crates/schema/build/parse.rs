//! Parses the type files and resolves the names in them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;

pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) openapi: String,
    pub(crate) types: Vec<Type>,
}

pub(crate) struct Type {
    pub(crate) name: String,
    pub(crate) is_kind: bool,
    pub(crate) atomic: bool,
    pub(crate) union: Option<(String, Vec<(String, String)>)>,
    pub(crate) lines: Vec<Line>,
}

pub(crate) enum Line {
    TypeMeta,
    Inline { number: u32, of: String },
    Field(Field),
}

#[derive(Clone)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) number: u32,
    pub(crate) shape: Shape,
    pub(crate) options: Vec<(String, String)>,
}

#[derive(Clone)]
pub(crate) enum Shape {
    /// A word of the notation, as its Rust expression.
    Word(&'static str),
    /// `SchemaOr` with the alternative.
    SchemaOr(&'static str),
    Struct(String),
    List(Box<Shape>),
    Map(Box<Shape>),
}

/// How the fields of a flattened type nest in Protobuf.
pub(crate) enum MessageField {
    Field(usize),
    Inline(u32, Vec<MessageField>),
}

impl Field {
    pub(crate) fn has(&self, option: &str) -> bool {
        self.options.iter().any(|(name, _)| name == option)
    }

    pub(crate) fn option(&self, option: &str) -> Option<&str> {
        self.options.iter().find(|(name, _)| name == option).map(|(_, value)| value.as_str())
    }
}

pub(crate) fn package(path: &Path) -> Package {
    let text = fs::read_to_string(path).unwrap();
    let fail = |number: usize, what: &str| -> ! { panic!("{}:{}: {what}", path.display(), number + 1) };
    let mut package = None;
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words.as_slice(), line.starts_with(' ')) {
            ([], _) => {}
            ([first, ..], _) if first.starts_with('#') => {}
            (["package", name, rest @ ..], false) => {
                let value = |key: &str| {
                    rest.iter()
                        .find_map(|word| word.strip_prefix(key))
                        .unwrap_or_else(|| fail(number, key))
                        .to_string()
                };
                package = Some(Package {
                    name: name.to_string(),
                    group: value("group="),
                    openapi: value("openapi="),
                    types: vec![],
                });
            }
            (["type", name, rest @ ..], false) => {
                let package = package.as_mut().unwrap_or_else(|| fail(number, "a package line comes first"));
                let mut new = Type {
                    name: name.to_string(),
                    is_kind: false,
                    atomic: false,
                    union: None,
                    lines: vec![],
                };
                for word in rest {
                    match word.split_once('=') {
                        None if *word == "kind" => new.is_kind = true,
                        Some(("map", "atomic")) => new.atomic = true,
                        Some(("union", text)) => new.union = Some(union(text)),
                        _ => fail(number, &format!("unknown type option {word}")),
                    }
                }
                package.types.push(new);
            }
            (words, true) => {
                let package = package.as_mut().unwrap_or_else(|| fail(number, "a package line comes first"));
                let name = package.name.clone();
                let current =
                    package.types.last_mut().unwrap_or_else(|| fail(number, "a field outside of a type"));
                current.lines.push(match words {
                    ["typemeta"] => Line::TypeMeta,
                    [at, "=", of, "inline"] => {
                        Line::Inline { number: at.parse().unwrap(), of: full(&name, of) }
                    }
                    [at, field, shape_text, options @ ..] => Line::Field(Field {
                        name: field.to_string(),
                        number: if *at == "-" { 0 } else { at.parse().unwrap() },
                        shape: shape(&name, shape_text),
                        options: options.iter().map(|word| option(word)).collect(),
                    }),
                    _ => fail(number, "not a field"),
                });
            }
            _ => fail(number, "neither a package, a type nor a field"),
        }
    }
    package.unwrap_or_else(|| fail(0, "no package line"))
}

fn option(word: &str) -> (String, String) {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    const KNOWN: [&str; 21] = [
        "req",
        "omit",
        "ptr",
        "list",
        "map",
        "patch",
        "default",
        "enum",
        "go",
        "must",
        "listed",
        "min",
        "max",
        "between",
        "maxlen",
        "maxitems",
        "minitems",
        "is",
        "immutable",
        "unique",
        "wire",
    ];
    assert!(KNOWN.contains(&name), "unknown option {word}");
    (name.to_string(), value.to_string())
}

fn union(text: &str) -> (String, Vec<(String, String)>) {
    let (discriminator, members) = text.strip_suffix(')').unwrap().split_once('(').unwrap();
    let members = members.split(',').map(|member| member.split_once(':').unwrap());
    (
        discriminator.to_string(),
        members.map(|(value, field)| (value.to_string(), field.to_string())).collect(),
    )
}

fn full(package: &str, name: &str) -> String {
    if name.contains('.') { name.to_string() } else { format!("{package}.{name}") }
}

fn shape(package: &str, text: &str) -> Shape {
    if let Some(element) = text.strip_prefix("[]") {
        return Shape::List(Box::new(shape(package, element)));
    }
    if let Some(value) = text.strip_prefix("{}") {
        return Shape::Map(Box::new(shape(package, value)));
    }
    Shape::Word(match text {
        "bool" => "Bool",
        "int32" => "Int32",
        "int64" => "Int64",
        "float64" => "Float64",
        "string" => "String",
        "bytes" => "Bytes",
        "time" => "Time",
        "microtime" => "MicroTime",
        "duration" => "Duration",
        "quantity" => "Quantity",
        "intorstring" => "IntOrString",
        "rawextension" => "Raw(Raw::Extension)",
        "json" => "Raw(Raw::Json)",
        "fieldsv1" => "Raw(Raw::Fields)",
        "any" => "Any",
        "schemaorbool" => return Shape::SchemaOr("Bool"),
        "schemaorarray" => return Shape::SchemaOr("Schemas"),
        "schemaorstrings" => return Shape::SchemaOr("Strings"),
        name => return Shape::Struct(full(package, name)),
    })
}

/// All packages, every name resolved.
pub(crate) struct Schema {
    pub(crate) packages: Vec<Package>,
    /// By full name: the index of the package and of the type in it.
    pub(crate) types: BTreeMap<String, (usize, usize)>,
}

impl Schema {
    pub(crate) fn resolve(packages: Vec<Package>) -> Self {
        let mut types = BTreeMap::new();
        for (p, package) in packages.iter().enumerate() {
            for (t, ty) in package.types.iter().enumerate() {
                let name = format!("{}.{}", package.name, ty.name);
                assert!(types.insert(name.clone(), (p, t)).is_none(), "{name} stands twice");
            }
        }
        Self { packages, types }
    }

    pub(crate) fn ty(&self, name: &str) -> &Type {
        let (p, t) = self.types.get(name).unwrap_or_else(|| panic!("no type {name}"));
        &self.packages[*p].types[*t]
    }

    pub(crate) fn package_of(&self, name: &str) -> &Package {
        &self.packages[self.types.get(name).unwrap_or_else(|| panic!("no type {name}")).0]
    }

    /// The fields of a type in JSON order, inlined ones in place, and how they nest in Protobuf.
    pub(crate) fn flatten(&self, name: &str) -> (Vec<Field>, Vec<MessageField>) {
        let mut fields = vec![];
        let message_fields = self.collect(name, &mut fields);
        let mut seen = HashSet::new();
        for field in &fields {
            assert!(seen.insert(&field.name), "{name}.{} stands twice", field.name);
        }
        (fields, message_fields)
    }

    fn collect(&self, name: &str, fields: &mut Vec<Field>) -> Vec<MessageField> {
        let mut message_fields = vec![];
        for line in &self.ty(name).lines {
            match line {
                Line::TypeMeta => {
                    for name in ["kind", "apiVersion"] {
                        fields.push(Field {
                            name: name.into(),
                            number: 0,
                            shape: Shape::Word("String"),
                            options: vec![("omit".into(), String::new())],
                        });
                    }
                }
                Line::Inline { number, of } => {
                    let inner = self.collect(of, fields);
                    message_fields.push((*number, MessageField::Inline(*number, inner)));
                }
                Line::Field(field) => {
                    if field.number != 0 {
                        message_fields.push((field.number, MessageField::Field(fields.len())));
                    }
                    fields.push(field.clone());
                }
            }
        }
        message_fields.sort_by_key(|(number, _)| *number);
        message_fields.into_iter().map(|(_, field)| field).collect()
    }

    /// The types with a field for which `holds`, in themselves or in types that they refer to.
    pub(crate) fn reaching(&self, holds: impl Fn(&Field) -> bool) -> HashMap<&str, bool> {
        let mut found: HashMap<&str, bool> = HashMap::new();
        let flat: Vec<(&str, Vec<Field>)> =
            self.types.keys().map(|name| (name.as_str(), self.flatten(name).0)).collect();
        loop {
            let mut changed = false;
            for (name, fields) in &flat {
                let now = fields.iter().any(|field| {
                    holds(field)
                        || target(&field.shape).is_some_and(|t| found.get(t).copied().unwrap_or(false))
                });
                if now && found.insert(name, true) != Some(true) {
                    changed = true;
                }
            }
            if !changed {
                return found;
            }
        }
    }
}

/// The type that a shape refers to.
fn target(shape: &Shape) -> Option<&str> {
    match shape {
        Shape::Struct(name) => Some(name),
        Shape::List(inner) | Shape::Map(inner) => target(inner),
        Shape::Word(_) | Shape::SchemaOr(_) => None,
    }
}
