//! Every list and map of every kind, enlarged, in every way of writing: the cost at twice the length is not four times the cost.
//!
//! The instances come from the schema. Most requests are dry runs, which do everything but commit. An answer in less than
//! [`FLOOR`] is not looked at further: at this length, a square takes longer.

use std::collections::HashSet;
use std::time::Duration;

use kinds::{Kind, Scope, Verb};
use schema::{Field, Format, Rule, Shape, Topology, Type, builtin};
use serde_json::{Map, Value, json};

use super::{Answer, Caller, start};

/// The most items of a list or map, and the most bytes of all of them.
const ITEMS: usize = 6_000;
const BYTES: usize = 700_000;
/// Answers that take less are fast enough: a square of [`ITEMS`] steps of a few nanoseconds does not.
const FLOOR: Duration = Duration::from_millis(120);
/// The most that a cost may grow by when the length doubles.
const RATIO: f64 = 3.2;

/// A list or map: the fields that lead to it, from the top of an object.
type Place = Vec<&'static Field>;

/// The types whose lists and maps are grown in one kind need not be in all others.
fn places(
    ty: &'static Type,
    path: &mut Place,
    above: &mut Vec<usize>,
    seen: &mut HashSet<usize>,
    out: &mut Vec<Place>,
) {
    let address = std::ptr::from_ref(ty).addr();
    if above.contains(&address) || !seen.insert(address) && path.len() > 1 {
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
    needed.map(|field| (field.name.to_string(), of_field(field, number))).collect()
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
    content: &'static str,
    body: Vec<u8>,
}

const DRY: &str = "dryRun=All&fieldManager=grower&fieldValidation=Ignore";

fn ways(case: &Case, place: &[&'static Field], count: usize, items: Items) -> Vec<Way> {
    let Some(field) = place.last() else { return Vec::new() };
    let value = grown(field, count, items);
    let whole = case.body("grown", place, value.clone()).to_string().into_bytes();
    let way =
        |name, method, path, content, body: &[u8]| Way { name, method, path, content, body: body.to_vec() };
    let mut operations = vec![json!({ "op": "add", "path": pointer(place), "value": value })];
    if matches!(field.shape, Shape::List(_)) {
        let append =
            |value: &Value| json!({ "op": "add", "path": format!("{}/-", pointer(place)), "value": value });
        operations.extend(value.as_array().into_iter().flatten().map(append));
    }
    let mut ways = vec![
        way(
            "create",
            "POST",
            "?",
            "application/json",
            &case.body("made", place, value.clone()).to_string().into_bytes(),
        ),
        way("update", "PUT", "/grown?", "application/json", &whole),
        way("merge patch", "PATCH", "/grown?", "application/merge-patch+json", &whole),
        way("strategic patch", "PATCH", "/grown?", "application/strategic-merge-patch+json", &whole),
        way("apply", "PATCH", "/grown?force=true&", "application/apply-patch+yaml", &whole),
    ];
    if operations.len() <= 10_000 {
        let body = Value::from(operations).to_string().into_bytes();
        ways.push(way("json patch", "PATCH", "/grown?", "application/json-patch+json", &body));
    }
    if case.has_status() {
        ways.push(way("status", "PUT", "/grown/status?", "application/json", &whole));
    }
    ways
}

fn send(caller: &mut Caller, case: &Case, way: &Way, parameters: &str) -> Answer {
    let path = format!("{}{}{parameters}", case.collection, way.path);
    caller.ask_as(way.method, &path, "application/json", way.content, &way.body)
}

#[test]
fn no_list_or_map_costs_the_square_of_its_length() {
    let server = start(&[]);
    let mut caller = Caller::new(&server);
    let mut seen = HashSet::new();
    let (mut sent, mut accepted, mut stored, mut squares) = (0, 0, 0, Vec::new());
    let mut slowest: Vec<(Duration, String)> = Vec::new();
    let (mut bases, mut refused) = (0, Vec::new());
    for case in Case::all() {
        let base = case.body("grown", &[], Value::Null).to_string();
        let made = caller.ask("POST", &case.collection, base.as_bytes());
        bases += 1;
        if made.status != 201 {
            refused.push(format!("{}: {}", case.collection, made.text()));
        }
        let mut all = Vec::new();
        places(case.ty, &mut Vec::new(), &mut Vec::new(), &mut seen, &mut all);
        for place in all {
            let field = place.last().unwrap();
            let count = most(field);
            for items in [Items::Distinct, Items::Equal] {
                let labels = r#"{"metadata":{"labels":{"grown":"yes"}}}"#;
                let mut steps: Vec<(Way, &str)> =
                    ways(&case, &place, count, items).into_iter().map(|way| (way, DRY)).collect();
                if items == Items::Distinct {
                    // The same on an object that is large already.
                    let way = |name, method, content, body: &[u8]| Way {
                        name,
                        method,
                        path: "/grown?",
                        content,
                        body: body.to_vec(),
                    };
                    let whole = case.body("grown", &place, grown(field, count, items)).to_string();
                    steps.push((way("stored update", "PUT", "application/json", whole.as_bytes()), ""));
                    for (name, content) in [
                        ("label by merge patch", "application/merge-patch+json"),
                        ("label by strategic patch", "application/strategic-merge-patch+json"),
                    ] {
                        steps.push((way(name, "PATCH", content, labels.as_bytes()), DRY));
                    }
                    steps.push((way("reset", "PUT", "application/json", base.as_bytes()), ""));
                }
                for (way, parameters) in steps {
                    let answer = send(&mut caller, &case, &way, parameters);
                    sent += 1;
                    accepted += usize::from(answer.status < 300);
                    stored += usize::from(answer.status < 300 && parameters.is_empty());
                    assert!(answer.status < 500 || way.name == "apply", "{} {}", way.name, answer.text());
                    let about = format!("{} {} {} x {count}", case.collection, pointer(&place), way.name);
                    if answer.took > FLOOR && way.name != "stored update" && way.name != "reset" {
                        let ratio = growth(&mut caller, &case, &place, &way, items, count);
                        if ratio > RATIO {
                            squares.push(format!(
                                "{about}: {:?}, {ratio:.1} times that of half the length",
                                answer.took
                            ));
                        }
                    }
                    slowest.push((answer.took, about));
                    slowest.sort();
                    slowest.reverse();
                    slowest.truncate(8);
                }
            }
        }
    }
    println!(
        "{bases} kinds ({} refused when empty), {sent} requests, {accepted} accepted, {stored} committed",
        refused.len()
    );
    slowest.iter().for_each(|(took, about)| println!("{took:>10.1?} {about}"));
    refused.iter().for_each(|why| println!("{}", why.get(..400.min(why.len())).unwrap_or(why)));
    assert!(squares.is_empty(), "{squares:#?}");
    assert!(accepted > sent / 2 && stored > 300, "{accepted} of {sent}, {stored}");
}

/// The cost at a length, divided by that at half of it: of each the least of three.
fn growth(
    caller: &mut Caller,
    case: &Case,
    place: &[&'static Field],
    way: &Way,
    items: Items,
    count: usize,
) -> f64 {
    let mut cost = |count: usize| {
        let all = ways(case, place, count, items);
        let same = all.iter().find(|other| other.name == way.name).unwrap_or(way);
        (0..3).map(|_| send(caller, case, same, DRY).took).min().unwrap().as_secs_f64()
    };
    let half = cost(count / 2);
    cost(count) / half
}
