//! Every list and map of every kind, enlarged, in every way of writing: the cost at twice the length is not four times the cost.
//!
//! The instances come from the schema. Most requests are dry runs, which do everything but commit. A request that takes the
//! server less CPU time than [`FLOOR`] is not looked at further: at this length, a square takes longer.

use std::collections::HashSet;
use std::time::Duration;

use kinds::{Kind, Scope, Verb};
use schema::{Field, Format, Rule, Shape, Topology, Type, builtin};
use serde_json::{Map, Value, json};

use testkit::Server;

use super::{Answer, Caller, start};

/// The most items of a list or map, and the most bytes of all of them.
const ITEMS: usize = 5_000;
const BYTES: usize = 500_000;
/// Requests that cost less are fast enough: a square of [`ITEMS`] steps of a few nanoseconds does not.
const FLOOR: Duration = Duration::from_millis(100);
/// The most that a cost may grow by when the length doubles.
const RATIO: f64 = 3.2;

/// A list or map: the fields that lead to it, from the top of an object.
type Place = Vec<&'static Field>;

/// The lists and maps of a kind. Those of a type that several kinds have are grown in one of them.
fn places(
    ty: &'static Type,
    path: &mut Place,
    above: &mut Vec<usize>,
    seen: &mut HashSet<usize>,
    out: &mut Vec<Place>,
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
            places(inner, path, above, seen, out);
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

/// A value of a shape: the fields that have to be there, and those in `keys`. `number` makes it different from others.
fn sample(shape: &Shape, keys: &[&str], number: usize) -> Value {
    match shape {
        Shape::Bool => json!(true),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString => json!(number % 30_000 + 1),
        Shape::Float64 => json!(1.5),
        Shape::String | Shape::Any => json!(format!("x{number}")),
        Shape::Bytes => json!("eA=="),
        Shape::Time => json!("2024-01-01T00:00:00Z"),
        Shape::MicroTime => json!("2024-01-01T00:00:00.000000Z"),
        Shape::Duration => json!("1s"),
        Shape::Quantity => json!("1"),
        Shape::Raw(_) | Shape::SchemaOr(..) => json!({}),
        Shape::List(inner) => json!([sample(inner, &[], number)]),
        Shape::Map(inner) => json!({ format!("x{number}"): sample(inner, &[], number) }),
        Shape::Struct(ty) => Value::Object(fields(ty, keys, number)),
    }
}

fn fields(ty: &Type, keys: &[&str], number: usize) -> Map<String, Value> {
    let is_needed = |field: &&Field| {
        let rules = &field.options.rules;
        field.options.required || rules.contains(&Rule::Required) || keys.contains(&&*field.name)
    };
    let needed = ty.fields.iter().filter(is_needed).filter(|field| field.name != "kind" || field.number > 0);
    let mut fields: Map<String, Value> =
        needed.map(|field| (field.name.to_string(), of_field(field, number))).collect();
    // A struct that is always there has rules, too.
    for field in ty.fields.iter().filter(|field| !field.optional) {
        if let Shape::Struct(inner) = &field.shape
            && let inner = self::fields(inner, &[], number)
            && !inner.is_empty()
        {
            fields.entry(field.name.as_str()).or_insert(Value::Object(inner));
        }
    }
    fields
}

fn of_field(field: &Field, number: usize) -> Value {
    let options = &field.options;
    if let Some(value) = options.values.get(number % options.values.len().max(1)) {
        return json!(value.as_str());
    }
    if options.rules.contains(&Rule::Format(Format::Ip)) {
        return json!(format!("10.0.{}.{}", number / 250 % 250, number % 250 + 1));
    }
    match &*field.name {
        "apiVersion" => json!("v1"),
        "verbs" => json!(["get"]),
        "operator" => json!("Exists"),
        _ => sample(&field.shape, &[], number),
    }
}

/// How the items of an enlarged list differ from each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Items {
    Distinct,
    Equal,
}

/// The items of a list or map.
fn grown(field: &Field, count: usize, items: Items) -> Value {
    let options = &field.options;
    let mut keys: Vec<&str> = vec![];
    if let Topology::Keyed(names) = &options.topology {
        keys.extend(names.iter().map(|name| name.as_str()));
    }
    keys.extend(Some(options.patch.key.as_str()).filter(|key| !key.is_empty()));
    let number = |at: usize| if items == Items::Equal { 0 } else { at };
    match &field.shape {
        Shape::List(inner) => (0..count).map(|at| sample(inner, &keys, number(at))).collect(),
        Shape::Map(inner) => {
            let entries = (0..count).map(|at| (format!("x{at}"), sample(inner, &keys, number(at))));
            Value::Object(entries.collect())
        }
        _ => Value::Null,
    }
}

/// As many items as there may be at a place.
fn most(field: &Field) -> usize {
    let one = grown(field, 1, Items::Distinct).to_string().len() + 8;
    ITEMS.min(BYTES / one)
}

/// An object with a value at a place. In between, each list and map has one item.
fn object(ty: &Type, place: &[&'static Field], value: Value) -> Map<String, Value> {
    let mut map = fields(ty, &[], 0);
    if let Some((field, rest)) = place.split_first() {
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

fn pointer(place: &[&'static Field]) -> String {
    let mut pointer = String::new();
    for (at, field) in place.iter().enumerate() {
        pointer += &format!("/{}", field.name);
        if at + 1 < place.len() {
            pointer += match field.shape {
                Shape::List(_) => "/0",
                Shape::Map(_) => "/x0",
                _ => "",
            };
        }
    }
    pointer
}

/// A kind in one of its versions.
struct Case {
    kind: &'static Kind,
    ty: &'static Type,
    collection: String,
}

impl Case {
    fn all() -> Vec<Self> {
        let kinds = kinds::all()
            .filter(|kind| kind.verbs.contains(&Verb::Create) && kind.verbs.contains(&Verb::Patch));
        kinds
            .filter_map(|kind| {
                let version = kind.versions.iter().find(|version| version.by_default)?;
                let ty = builtin::by_kind(kind.group, version.name, kind.kind)?;
                let root =
                    if kind.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group) };
                let space = if kind.scope == Scope::Namespaced { "/namespaces/default" } else { "" };
                let collection = format!("{root}/{}{space}/{}", version.name, kind.resource);
                Some(Self { kind, ty, collection })
            })
            .collect()
    }

    /// An object with a value at a place, as JSON.
    fn body(&self, name: &str, place: &[&'static Field], value: Value) -> Value {
        let mut body = object(self.ty, place, value);
        let api = self.ty.kind.as_ref().unwrap();
        body.insert("apiVersion".into(), json!(api.api_version().as_str()));
        body.insert("kind".into(), json!(api.kind.as_str()));
        let metadata = body.entry("metadata").or_insert_with(|| json!({}));
        metadata["name"] = json!(name);
        Value::Object(body)
    }

    fn has_status(&self) -> bool {
        self.kind.subresources.iter().any(|subresource| subresource.name == "status")
    }
}

/// One way of writing, with a value of some length.
struct Way {
    name: &'static str,
    method: &'static str,
    /// After the collection of the kind.
    path: &'static str,
    /// The type of the body, or of the answer where there is none.
    content: &'static str,
    body: Vec<u8>,
    object: Object,
}

/// The object that a request is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Object {
    /// It is small, and stays so: the request is a dry run.
    Small,
    /// It is enlarged, or small again.
    Changes,
    /// It is large, and stays so.
    Large,
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

/// The ways in which the value at a place is written, and others that find it large.
fn ways(case: &Case, place: &[&'static Field], count: usize, items: Items) -> Vec<Way> {
    let Some(field) = place.last() else { return Vec::new() };
    let value = grown(field, count, items);
    let whole = case.body("grown", place, value.clone()).to_string().into_bytes();
    let way = |name, method, path, content, body: &[u8], object| Way {
        name,
        method,
        path,
        content,
        body: body.to_vec(),
        object,
    };
    let made = case.body("made", place, value.clone()).to_string().into_bytes();
    let mut ways = vec![
        way("create", "POST", "?", JSON, &made, Object::Small),
        way("strategic patch", "PATCH", "/grown?", STRATEGIC, &whole, Object::Small),
        way("apply", "PATCH", "/grown?force=true&", "application/apply-patch+yaml", &whole, Object::Small),
    ];
    if items == Items::Equal {
        return ways;
    }
    let mut operations = vec![json!({ "op": "add", "path": pointer(place), "value": value })];
    if matches!(field.shape, Shape::List(_)) {
        let end = format!("{}/-", pointer(place));
        let append = |value: &Value| json!({ "op": "add", "path": end, "value": value });
        operations.extend(value.as_array().into_iter().flatten().map(append));
    }
    let operations = Value::from(operations).to_string().into_bytes();
    let label = br#"{"metadata":{"labels":{"grown":"yes"}}}"#;
    let empty = case.body("grown", &[], Value::Null).to_string().into_bytes();
    ways.extend([
        way("update", "PUT", "/grown?", JSON, &whole, Object::Small),
        way("merge patch", "PATCH", "/grown?", MERGE, &whole, Object::Small),
        way("json patch", "PATCH", "/grown?", "application/json-patch+json", &operations, Object::Small),
    ]);
    if case.has_status() {
        ways.push(way("status", "PUT", "/grown/status?", JSON, &whole, Object::Small));
    }
    ways.extend([
        way(GROW, "PUT", "/grown?", JSON, &whole, Object::Changes),
        way("label by merge patch", "PATCH", "/grown?", MERGE, label, Object::Large),
        way("label by strategic patch", "PATCH", "/grown?", STRATEGIC, label, Object::Large),
        way("delete", "DELETE", "/grown?", JSON, b"", Object::Large),
        way("read as table", "GET", "/grown?", TABLE, b"", Object::Large),
        way("read as YAML", "GET", "/grown?", "application/yaml", b"", Object::Large),
        way("read as Protobuf", "GET", "/grown?", "application/vnd.kubernetes.protobuf", b"", Object::Large),
        way(SHRINK, "PUT", "/grown?", JSON, &empty, Object::Changes),
    ]);
    ways
}

/// The names of the ways that make the stored object large, and small again.
const GROW: &str = "grow";
const SHRINK: &str = "shrink";

struct Sweep<'s> {
    server: &'s Server,
    caller: Caller,
    squares: Vec<String>,
    slowest: Vec<(Duration, String)>,
    sent: usize,
    accepted: usize,
    committed: usize,
}

impl Sweep<'_> {
    /// Sends a request; its answer, and the CPU time that the server took for it.
    fn send(&mut self, case: &Case, way: &Way) -> (Answer, Duration) {
        let dry = if way.object == Object::Changes { "" } else { "dryRun=All&" };
        let path = format!("{}{}{dry}fieldManager=grower&fieldValidation=Ignore", case.collection, way.path);
        let before = cpu_nanoseconds(self.server);
        let accept = if way.method == "GET" { way.content } else { JSON };
        let answer = self.caller.ask_as(way.method, &path, accept, way.content, &way.body);
        (answer, cpu_nanoseconds(self.server).saturating_sub(before))
    }

    fn place(&mut self, case: &Case, place: &[&'static Field]) {
        let count = place.last().map_or(0, |field| most(field));
        for items in [Items::Distinct, Items::Equal] {
            for way in ways(case, place, count, items) {
                let (answer, cost) = self.send(case, &way);
                assert!(answer.status < 500 || way.name == "apply", "{} {}", way.name, answer.text());
                let is_accepted = answer.status < 300;
                self.sent += 1;
                self.accepted += usize::from(is_accepted);
                self.committed += usize::from(is_accepted && way.object == Object::Changes);
                let about = format!("{} {} {} x {count}", case.collection, pointer(place), way.name);
                if cost > FLOOR {
                    let half = self.least(case, place, way.name, items, count / 2);
                    let whole = self.least(case, place, way.name, items, count);
                    let ratio = whole.as_secs_f64() / half.as_secs_f64();
                    println!("{about}: {whole:.1?}, {half:.1?} at half the length");
                    if whole > FLOOR && ratio > RATIO {
                        self.squares
                            .push(format!("{about}: {whole:?}, {ratio:.1} times that of half the length"));
                    }
                }
                self.slowest.push((cost, about));
                self.slowest.sort_by(|a, b| b.cmp(a));
                self.slowest.truncate(8);
            }
        }
    }

    /// The least cost of five requests at a length.
    fn least(
        &mut self,
        case: &Case,
        place: &[&'static Field],
        name: &str,
        items: Items,
        count: usize,
    ) -> Duration {
        let ways = ways(case, place, count, items);
        let named = |name: &str| ways.iter().find(|way| way.name == name);
        let Some(way) = named(name) else { return Duration::ZERO };
        let mut costs = Vec::new();
        for _ in 0..5 {
            if way.object == Object::Large {
                // A new state, of which no encoding is kept.
                [SHRINK, GROW].into_iter().filter_map(named).for_each(|way| drop(self.send(case, way)));
            }
            costs.push(self.send(case, way).1);
        }
        costs.into_iter().min().unwrap_or_default()
    }
}

/// The CPU time of all threads of a server.
fn cpu_nanoseconds(server: &Server) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.process().unwrap().id())).unwrap();
    let of = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(tasks.filter_map(Result::ok).filter_map(of).sum())
}

#[test]
fn no_list_or_map_costs_the_square_of_its_length() {
    let server = start(&[]);
    let caller = Caller::new(&server);
    let (squares, slowest) = (Vec::new(), Vec::new());
    let mut sweep = Sweep { server: &server, caller, squares, slowest, sent: 0, accepted: 0, committed: 0 };
    let (mut seen, mut places) = (HashSet::new(), 0);
    for case in Case::all() {
        let empty = case.body("grown", &[], Value::Null).to_string();
        let made = sweep.caller.ask("POST", &case.collection, empty.as_bytes());
        if made.status != 201 {
            println!("{} cannot be made empty: {}", case.collection, made.json()["message"]);
        }
        let mut all = Vec::new();
        self::places(case.ty, &mut Vec::new(), &mut Vec::new(), &mut seen, &mut all);
        places += all.len();
        all.iter().for_each(|place| sweep.place(&case, place));
    }
    let Sweep { squares, slowest, sent, accepted, committed, .. } = sweep;
    println!(
        "{places} lists and maps, {sent} requests, {accepted} accepted, {committed} committed; the most CPU time:"
    );
    slowest.iter().for_each(|(cost, about)| println!("{cost:>10.1?} {about}"));
    assert!(squares.is_empty(), "{squares:#?}");
    assert!(accepted > sent / 2 && committed > 100, "{accepted} of {sent} were accepted");
}
