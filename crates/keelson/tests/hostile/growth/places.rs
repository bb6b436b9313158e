//! The lists and maps of all kinds, and objects in which one of them is as long as a test asks for.
//!
//! The instances come from the schema. They are written as text from templates, because bodies at their limit
//! have up to a hundred thousand items.

use std::collections::HashSet;
use std::fmt::Write as _;

use kinds::{Kind, Scope, Verb};
use schema::{Field, Format, Limits, Rule, Shape, Topology, Type, builtin};
use serde_json::{Map, Value, json};

/// Stands in a template for the number of an item.
const NUMBER: &str = "1234567890";
/// Stands in a template for an IP address.
const ADDRESS: &str = "ip1234567890";
/// Stands in a template for the items.
const ITEMS: &str = "%ITEMS%";
/// Stands in a template for the name of the object.
const NAME: &str = "%NAME%";

/// How the items of an enlarged list differ from each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Items {
    Distinct,
    Equal,
}

/// A text with places for the number of an item.
struct Template {
    pieces: Vec<(String, Slot)>,
    last: String,
}

/// How a number is written after a piece of a template.
#[derive(Clone, Copy)]
enum Slot {
    /// As it is, in names.
    Name,
    /// Up to 30,000, in numbers.
    Number,
    Address,
}

impl Template {
    fn new(text: &str) -> Self {
        let mut pieces: Vec<&str> = text.split(NUMBER).collect();
        let last = pieces.pop().unwrap().to_owned();
        let slot = |piece: &str| match piece.strip_suffix("ip") {
            Some(piece) => (piece.to_owned(), Slot::Address),
            None if piece.ends_with('x') => (piece.to_owned(), Slot::Name),
            None => (piece.to_owned(), Slot::Number),
        };
        Self { pieces: pieces.into_iter().map(slot).collect(), last }
    }

    fn write(&self, number: usize, out: &mut String) {
        let name = number.to_string();
        for (piece, slot) in &self.pieces {
            out.push_str(piece);
            match slot {
                Slot::Name => out.push_str(&name),
                Slot::Number => out.push_str(&(number % 30_000 + 1).to_string()),
                Slot::Address => {
                    write!(out, "10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255).unwrap();
                }
            }
        }
        out.push_str(&self.last);
    }

    /// The length of so many items, or a little more.
    fn len(&self, count: usize) -> usize {
        let digits: usize =
            (1..7).map(|power| count.saturating_sub(10_usize.pow(power))).sum::<usize>() + count;
        let slots = self.pieces.iter().map(|(piece, slot)| match slot {
            Slot::Name => piece.len() * count + digits,
            Slot::Number => (piece.len() + 5) * count,
            Slot::Address => (piece.len() + 14) * count,
        });
        slots.sum::<usize>() + (self.last.len() + 1) * count
    }

    fn repeated(&self, count: usize, items: Items, out: &mut String) {
        for at in 0..count {
            if at > 0 {
                out.push(',');
            }
            self.write(if items == Items::Equal { 0 } else { at }, out);
        }
    }
}

/// A body: texts, with as many of the same items between them as the test asks for.
pub(super) struct Body {
    texts: Vec<String>,
    items: Vec<Template>,
}

impl Body {
    /// Reads a text that has [`ITEMS`] where these items are.
    fn new(text: &str, items: &[&str]) -> Self {
        let texts = text.split(ITEMS).map(|text| {
            let mut filled = String::new();
            Template::new(text).write(0, &mut filled);
            filled
        });
        Self { texts: texts.collect(), items: items.iter().map(|item| Template::new(item)).collect() }
    }

    pub(super) fn text(&self, name: &str, count: usize, items: Items) -> String {
        let mut out = String::new();
        for (at, text) in self.texts.iter().enumerate() {
            out.push_str(&text.replace(NAME, name));
            if let Some(item) = self.items.get(at) {
                item.repeated(count, items, &mut out);
            }
        }
        out
    }

    /// The most items that a body can have: of at most so many bytes, and of as many values as the server
    /// reads.
    pub(super) fn most(&self, bytes: usize) -> usize {
        let values = |count: usize| {
            values(&serde_json::from_str(&self.text("grown", count, Items::Distinct)).unwrap())
        };
        let (few, many) = (values(1), values(2));
        let mut most = 1 + (Limits::REQUEST.values - few) / (many - few);
        let around: usize = self.texts.iter().map(String::len).sum();
        let len = |count: usize| around + self.items.iter().map(|item| item.len(count)).sum::<usize>();
        while len(most) > bytes {
            most -= (most / 1_000).max(1);
        }
        most
    }
}

/// The values in a tree, as the server counts them: the fields of a manager are one, which stays text.
fn values(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(values).sum::<usize>(),
        Value::Object(map) => {
            let counted = |(key, value): (&String, &Value)| if key == "fieldsV1" { 1 } else { values(value) };
            1 + map.iter().map(counted).sum::<usize>()
        }
        _ => 1,
    }
}

/// A list or map of a kind.
pub(super) struct Place {
    /// Where it is.
    pub(super) pointer: String,
    /// The object with it.
    pub(super) body: Body,
    /// The object as it is applied to the one that has it: without managed fields.
    pub(super) config: Body,
    /// Its items, for a JSON patch.
    item: Template,
    pub(super) is_list: bool,
    pub(super) is_in_status: bool,
    /// What decides how it is read, merged and written: places that are equal in this differ in their kind's
    /// own rules only.
    pub(super) form: String,
}

impl Place {
    fn of(case: &Case, path: &[&'static Field]) -> Self {
        let field = path.last().unwrap();
        let options = &field.options;
        let mut keys: Vec<&str> = vec![];
        if let Topology::Keyed(names) = &options.topology {
            keys.extend(names.iter().map(|name| name.as_str()));
        }
        keys.extend(Some(options.patch.key.as_str()).filter(|key| !key.is_empty()));
        let (inner, is_list) = match &field.shape {
            Shape::List(inner) => (inner, true),
            Shape::Map(inner) => (inner, false),
            _ => unreachable!("{} is neither a list nor a map", field.name),
        };
        let sample = match &*field.name {
            "finalizers" => json!(format!("example.com/x{NUMBER}")),
            _ => sample(inner, &keys),
        };
        let item = if is_list { sample.to_string() } else { format!(r#""x{NUMBER}":{sample}"#) };
        let hole = if is_list { json!([ITEMS]) } else { json!({ ITEMS: 0 }) };
        let text = case.body(path, hole).to_string();
        let text = text.replace(&format!(r#""{ITEMS}":0"#), ITEMS).replace(&format!(r#""{ITEMS}""#), ITEMS);
        let topology = match &options.topology {
            Topology::Natural => "natural",
            Topology::Granular => "granular",
            Topology::Atomic => "atomic",
            Topology::Set => "set",
            Topology::Keyed(_) => "keyed",
        };
        let item_shape = if sample.is_object() { "struct" } else { "scalar" };
        let patch = &options.patch;
        let shape = if is_list { "list" } else { "map" };
        let merge = if patch.merge { "merged" } else { "replaced" };
        let form = format!("{shape}, {item_shape}, {topology}, {merge} by patches");
        Self {
            pointer: pointer(path),
            body: Body::new(&text, &[&item]),
            config: Body::new(&text, &[&item]),
            item: Template::new(&item),
            is_list,
            is_in_status: path.first().is_some_and(|field| field.name == "status"),
            form,
        }
    }

    /// Managed fields of a config map: of many managers, of one with many fields, of twenty with the same
    /// ones.
    pub(super) fn managed() -> [Self; 3] {
        let head = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%NAME%""#;
        let entry = |manager: &str, fields: &str| {
            format!(
                r#"{{"manager":"{manager}","operation":"Update","apiVersion":"v1","time":"2024-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{{"f:data":{{{fields}}}}}}}"#
            )
        };
        let owned = format!(r#""f:x{NUMBER}":{{}}"#);
        let data = |value: &str| format!(r#""x{NUMBER}":"{value}""#);
        let of = |what: &str, entries: &str, items: &[&str]| {
            let item = entry(&format!("x{NUMBER}"), &owned);
            Self {
                pointer: "/metadata/managedFields".into(),
                body: Body::new(
                    &format!(r#"{head},"managedFields":[{entries}]}},"data":{{{ITEMS}}}}}"#),
                    items,
                ),
                config: Body::new(&format!(r#"{head}}},"data":{{{ITEMS}}}}}"#), &[&data("changed")]),
                item: Template::new(&item),
                is_list: true,
                is_in_status: false,
                form: format!("managed fields of {what}"),
            }
        };
        let twenty: Vec<String> = (0..20).map(|at| entry(&format!("manager-{at}"), ITEMS)).collect();
        let mut items = vec![owned.as_str(); 20];
        let data = data("v");
        items.push(&data);
        [
            of("many managers", ITEMS, &[&entry(&format!("x{NUMBER}"), &owned), &data]),
            of("one manager", &entry("one", ITEMS), &[&owned, &data]),
            of("twenty managers", &twenty.join(","), &items),
        ]
    }

    /// A JSON patch that adds the list or map with half of the items, and then one item after the other.
    pub(super) fn operations(&self, count: usize, bytes: usize) -> String {
        let (mut one, mut items) = (String::new(), String::new());
        self.item.write(count, &mut one);
        let half = (count / 2).min(bytes / 2 / (one.len() + 1));
        self.item.repeated(half, Items::Distinct, &mut items);
        let (open, close) = if self.is_list { ('[', ']') } else { ('{', '}') };
        let mut out = format!(r#"[{{"op":"add","path":"{}","value":{open}{items}{close}}}"#, self.pointer);
        for at in (half..count).take(if self.is_list { 9_999 } else { 0 }) {
            let before = out.len();
            write!(out, r#",{{"op":"add","path":"{}/-","value":"#, self.pointer).unwrap();
            self.item.write(at, &mut out);
            out.push('}');
            if out.len() + 1 > bytes {
                out.truncate(before);
                break;
            }
        }
        out + "]"
    }
}

/// A kind in one of its versions.
pub(super) struct Case {
    kind: &'static Kind,
    ty: &'static Type,
    pub(super) collection: String,
}

impl Case {
    /// All kinds, with their lists and maps. Those of a type that several kinds have are grown in one of
    /// them.
    pub(super) fn all() -> Vec<(Self, Vec<Place>)> {
        let mut seen = HashSet::new();
        let kinds = kinds::all()
            .filter(|kind| kind.verbs.contains(&Verb::Create) && kind.verbs.contains(&Verb::Patch));
        let cases = kinds.filter_map(|kind| {
            let version = kind.versions.iter().find(|version| version.by_default)?;
            let ty = builtin::by_kind(kind.group, version.name, kind.kind)?;
            let root =
                if kind.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group) };
            let space = if kind.scope == Scope::Namespaced { "/namespaces/default" } else { "" };
            let collection = format!("{root}/{}{space}/{}", version.name, kind.resource);
            Some(Self { kind, ty, collection })
        });
        let with_places = cases.map(|case| {
            let mut paths = Vec::new();
            self::paths(case.ty, &mut Vec::new(), &mut Vec::new(), &mut seen, &mut paths);
            let mut places: Vec<Place> = paths.iter().map(|path| Place::of(&case, path)).collect();
            if case.kind.kind == "ConfigMap" {
                places.extend(Place::managed());
            }
            (case, places)
        });
        with_places.collect()
    }

    /// An object with a value at a place.
    fn body(&self, path: &[&'static Field], value: Value) -> Value {
        let mut body = object(self.ty, path, value);
        let api = self.ty.kind.as_ref().unwrap();
        body.insert("apiVersion".into(), json!(api.api_version().as_str()));
        body.insert("kind".into(), json!(api.kind.as_str()));
        let metadata = body.entry("metadata").or_insert_with(|| json!({}));
        metadata["name"] = json!(NAME);
        Value::Object(body)
    }

    /// An object in which everything is small, and which has no managed fields.
    pub(super) fn empty(&self, name: &str) -> String {
        let mut body = self.body(&[], Value::Null);
        body["metadata"]["managedFields"] = json!([{}]);
        Body::new(&body.to_string(), &[]).text(name, 0, Items::Distinct)
    }

    /// An object with a label and nothing else, to be applied.
    pub(super) fn label(&self, name: &str) -> String {
        let api = self.ty.kind.as_ref().unwrap();
        let metadata = json!({ "name": name, "labels": { "grown": "yes" } });
        let (api_version, kind) = (api.api_version(), api.kind.as_str());
        json!({ "apiVersion": api_version.as_str(), "kind": kind, "metadata": metadata }).to_string()
    }

    pub(super) fn has_status(&self) -> bool {
        self.kind.subresources.iter().any(|subresource| subresource.name == "status")
    }
}

/// The fields that lead to each list and map of a type, but for managed fields.
fn paths(
    ty: &'static Type,
    path: &mut Vec<&'static Field>,
    above: &mut Vec<usize>,
    seen: &mut HashSet<usize>,
    out: &mut Vec<Vec<&'static Field>>,
) {
    let address = std::ptr::from_ref(ty).addr();
    if above.contains(&address) || !seen.insert(address) {
        return;
    }
    above.push(address);
    for field in ty.fields.iter().filter(|field| field.name != "managedFields") {
        path.push(field);
        if matches!(field.shape, Shape::List(_) | Shape::Map(_)) {
            out.push(path.clone());
        }
        if let Some(inner) = struct_below(&field.shape) {
            paths(inner, path, above, seen, out);
        }
        path.pop();
    }
    above.pop();
}

fn struct_below(shape: &'static Shape) -> Option<&'static Type> {
    match shape {
        Shape::Struct(ty) => builtin::by_name(&ty.name),
        Shape::List(inner) | Shape::Map(inner) => match &**inner {
            Shape::Struct(ty) => builtin::by_name(&ty.name),
            _ => None,
        },
        _ => None,
    }
}

/// A template of a shape: the fields that have to be there, and those in `keys`.
fn sample(shape: &Shape, keys: &[&str]) -> Value {
    match shape {
        Shape::Bool => json!(true),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString => json!(NUMBER.parse::<u64>().unwrap()),
        Shape::Float64 => json!(1.5),
        Shape::String | Shape::Any => json!(format!("x{NUMBER}")),
        Shape::Bytes => json!("eA=="),
        Shape::Time => json!("2024-01-01T00:00:00Z"),
        Shape::MicroTime => json!("2024-01-01T00:00:00.000000Z"),
        Shape::Duration => json!("1s"),
        Shape::Quantity => json!("1"),
        Shape::Raw(_) | Shape::SchemaOr(..) => json!({}),
        Shape::List(inner) => json!([sample(inner, &[])]),
        Shape::Map(inner) => json!({ format!("x{NUMBER}"): sample(inner, &[]) }),
        Shape::Struct(ty) => Value::Object(fields(ty, keys)),
    }
}

fn fields(ty: &Type, keys: &[&str]) -> Map<String, Value> {
    let is_needed = |field: &&Field| {
        let rules = &field.options.rules;
        field.options.required || rules.contains(&Rule::Required) || keys.contains(&&*field.name)
    };
    let needed = ty.fields.iter().filter(is_needed).filter(|field| field.name != "kind" || field.number > 0);
    let mut fields: Map<String, Value> =
        needed.map(|field| (field.name.to_string(), of_field(field))).collect();
    // A struct that is always there has rules, too.
    for field in ty.fields.iter().filter(|field| !field.optional) {
        if let Shape::Struct(inner) = &field.shape
            && let inner = self::fields(inner, &[])
            && !inner.is_empty()
        {
            fields.entry(field.name.as_str()).or_insert(Value::Object(inner));
        }
    }
    fields
}

fn of_field(field: &Field) -> Value {
    let options = &field.options;
    if let Some(value) = options.values.first() {
        return json!(value.as_str());
    }
    if options.rules.contains(&Rule::Format(Format::Ip)) {
        return json!(ADDRESS);
    }
    match &*field.name {
        "apiVersion" => json!("v1"),
        "verbs" => json!(["get"]),
        "operator" => json!("Exists"),
        _ => sample(&field.shape, &[]),
    }
}

/// An object with a value at a place. In between, each list and map has one item.
fn object(ty: &Type, path: &[&'static Field], value: Value) -> Map<String, Value> {
    let mut map = fields(ty, &[]);
    if let Some((field, rest)) = path.split_first() {
        let below = match (rest, &field.shape) {
            ([], _) => value,
            (_, Shape::Struct(ty)) => Value::Object(object(ty, rest, value)),
            (_, Shape::List(inner)) => match &**inner {
                Shape::Struct(ty) => json!([object(ty, rest, value)]),
                _ => value,
            },
            (_, Shape::Map(inner)) => match &**inner {
                Shape::Struct(ty) => json!({ "x0": object(ty, rest, value) }),
                _ => value,
            },
            _ => value,
        };
        map.insert(field.name.to_string(), below);
    }
    map
}

fn pointer(path: &[&'static Field]) -> String {
    let mut pointer = String::new();
    for (at, field) in path.iter().enumerate() {
        pointer += &format!("/{}", field.name);
        if at + 1 < path.len() {
            pointer += match field.shape {
                Shape::List(_) => "/0",
                Shape::Map(_) => "/x0",
                _ => "",
            };
        }
    }
    pointer
}
