//! Recorded cases: an expression, what it is compiled and evaluated with, and what the reference answered.
//!
//! A file has lines of JSON. The first has the tables that the cases name entries of: `schemas`, OpenAPI
//! documents, and `values`. Each other line is a case:
//!
//! | field | meaning |
//! |---|---|
//! | `e` | the expression |
//! | `v` | `stored`, or the minor release whose environment for new expressions is meant |
//! | `s` | the schema of `self` and `oldSelf`; with `!` before its name it is the root of a resource |
//! | `self`, `old` | the values of the two |
//! | `oo` | `oldSelf` is optional |
//! | `vars` | other variables: name `n`, type `t`, value `v` |
//! | `limit` | the limit of the cost at run time, if it is not the usual one |
//! | `ne` | not evaluated |
//! | `a` | the answer: `issues` (`parse`: of the parser), or `type`, the estimate (`min`, `max`), `progErr` or `runs`: each a `value` or `err`, and a `cost`. More than one run: the order of Go's maps showed |

use super::json;
use super::schema::Schema;
use cel::cost::{Sizes, UnknownSizes};
use cel::declared::{Declared, DeclaredSizes, DeclaredTypes};
use cel::{Env, EnvSet, Release, Type, Value};
use object::Value as Tree;
use object::shape::Shape;
use std::collections::HashMap;
use std::sync::Arc;

/// The limit of the cost of one evaluation.
pub const LIMIT: u64 = 1_000_000;

/// What the cases of a file name.
pub struct Tables {
    schemas: HashMap<String, Typed>,
    values: HashMap<String, Tree>,
    environments: std::cell::RefCell<HashMap<String, Env>>,
}

/// A schema with what is derived from it.
struct Typed {
    schema: Schema,
    declared: Option<Arc<Declared>>,
}

/// A case.
pub struct Case {
    /// The line.
    pub line: String,
    /// The line as a tree.
    pub json: Tree,
    /// The expression.
    pub expression: String,
}

impl Tables {
    /// The tables of the first line of a file.
    pub fn read(line: &str) -> Self {
        let head = json::read(line);
        let entries = |name: &str| {
            let map = head.get(name).and_then(Tree::as_map).cloned().unwrap_or_default();
            map.iter().map(|(key, value)| (key.to_string(), value.clone())).collect::<Vec<_>>()
        };
        let schemas = entries("schemas").into_iter().flat_map(|(name, json)| {
            [(name.clone(), false), (format!("!{name}"), true)].map(|(name, root)| {
                let schema = Schema::read(&json, root);
                let declared = schema.declared();
                (name, Typed { schema, declared })
            })
        });
        Self {
            schemas: schemas.collect(),
            values: entries("values").into_iter().collect(),
            environments: Default::default(),
        }
    }

    /// The schema of `self` in a case, if it has one.
    fn typed(&self, case: &Case) -> Option<&Typed> {
        let name = case.text("s")?;
        Some(self.schemas.get(name).unwrap_or_else(|| panic!("no schema {name}")))
    }

    /// The environment of a case.
    pub fn environment(&self, case: &Case) -> Env {
        let vars: Vec<_> = case.variables().map(|var| (var.name, var.ty)).collect();
        let key = format!("{:?} {:?} {} {vars:?}", case.text("v"), case.text("s"), case.flag("oo"));
        let mut environments = self.environments.borrow_mut();
        environments.entry(key).or_insert_with(|| self.new_environment(case)).clone()
    }

    fn new_environment(&self, case: &Case) -> Env {
        let base = match case.text("v") {
            Some("stored") | None => EnvSet::base(Release(32), true).stored,
            Some(release) => EnvSet::base(Release(release.parse().expect("a release")), true).new,
        };
        let mut builder = base.extend();
        if let Some(typed) = self.typed(case) {
            let types = DeclaredTypes::new("selfType", typed.declared.clone().expect("a type"));
            let root = types.root();
            let old = if case.flag("oo") { Type::optional(root.clone()) } else { root.clone() };
            builder = builder.variable("self", root).types(Arc::new(types));
            if case.text("v") != Some("23") {
                builder = builder.variable("oldSelf", old);
            }
        }
        for variable in case.variables() {
            builder = builder.variable(variable.name, simple_type(variable.ty));
        }
        builder.build()
    }

    /// The schema of `self` in a case, if it has one.
    pub fn shape(&self, case: &Case) -> Option<&dyn Shape> {
        self.typed(case).map(|typed| &typed.schema as &dyn Shape)
    }

    /// The value of `self` in a case.
    pub fn object(&self, case: &Case) -> Tree {
        case.text("self").map(|name| self.values[name].clone()).unwrap_or_default()
    }

    /// The sizes that estimates of a case use.
    pub fn sizes(&self, case: &Case) -> Box<dyn Sizes + '_> {
        match self.typed(case).and_then(|typed| typed.declared.as_deref()) {
            Some(declared) => Box::new(DeclaredSizes(declared)),
            None => Box::new(UnknownSizes),
        }
    }

    /// The values of the variables of a case, by slot; the text of a fault if one of them cannot be read.
    pub fn slots<'t>(&'t self, case: &Case, env: &Env) -> Result<Vec<Value<'t>>, String> {
        let mut slots = vec![Value::Null; env.slots()];
        let mut set = |name: &str, value| {
            if let Some((slot, _)) = env.variable(name) {
                slots[slot] = value;
            }
        };
        if let Some(typed) = self.typed(case) {
            let read = |name: &str| -> Result<Option<Value<'t>>, String> {
                let Some(tree) = case.text(name).map(|name| &self.values[name]) else { return Ok(None) };
                Value::of(tree, Some(&typed.schema)).map(Some).map_err(|failure| failure.to_string())
            };
            set("self", read("self")?.unwrap_or(Value::Null));
            let old = read("old")?;
            let old =
                if case.flag("oo") { Value::Optional(old.map(Arc::new)) } else { old.unwrap_or(Value::Null) };
            set("oldSelf", old);
        }
        for variable in case.variables() {
            set(variable.name, simple_value(variable.ty, &self.values[variable.value]));
        }
        Ok(slots)
    }
}

/// A variable of a case.
struct Variable<'c> {
    name: &'c str,
    ty: &'c str,
    value: &'c str,
}

impl Case {
    /// The case of a line.
    pub fn read(line: &str) -> Self {
        let json = json::read(line);
        let expression = json.get("e").and_then(Tree::as_str).expect("an expression").to_owned();
        Self { line: line.to_owned(), json, expression }
    }

    /// A field that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.json.get(name).and_then(Tree::as_str)
    }

    /// A field that is true or false.
    pub fn flag(&self, name: &str) -> bool {
        self.json.get(name).and_then(Tree::as_bool).unwrap_or_default()
    }

    /// A field of the answer.
    pub fn answer(&self, name: &str) -> Option<&Tree> {
        self.json.get("a").expect("an answer").get(name)
    }

    /// A text of the answer; empty if there is none.
    pub fn answer_text(&self, name: &str) -> &str {
        self.answer(name).and_then(Tree::as_str).unwrap_or_default()
    }

    /// The limit of the cost at run time.
    pub fn limit(&self) -> u64 {
        self.json.get("limit").and_then(Tree::as_i64).map_or(LIMIT, |limit| limit as u64)
    }

    fn variables(&self) -> impl Iterator<Item = Variable<'_>> {
        let list = self.json.get("vars").and_then(Tree::as_list).unwrap_or_default();
        list.iter().map(|variable| {
            let text = |name| variable.get(name).and_then(Tree::as_str).expect("a text");
            Variable { name: text("n"), ty: text("t"), value: text("v") }
        })
    }
}

fn simple_type(name: &str) -> Type {
    match name {
        "dyn" => Type::Dyn,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "bool" => Type::Bool,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "list(dyn)" => Type::list(Type::Dyn),
        "list(int)" => Type::list(Type::Int),
        "list(string)" => Type::list(Type::String),
        "map(string, dyn)" => Type::map(Type::String, Type::Dyn),
        "map(string, int)" => Type::map(Type::String, Type::Int),
        "wrapper(int)" => Type::Wrapper(Arc::new(Type::Int)),
        "optional_type(int)" => Type::optional(Type::Int),
        "authorizer" => Type::object("kubernetes.authorization.Authorizer"),
        _ => panic!("no type {name}"),
    }
}

/// A value of a table as a variable of such a type has it.
fn simple_value<'t>(ty: &str, tree: &'t Tree) -> Value<'t> {
    match (ty, tree) {
        ("uint", Tree::Int(number)) => Value::Uint(*number as u64),
        ("double", Tree::Int(number)) => Value::Double(*number as f64),
        ("bytes", Tree::String(text)) => Value::Bytes(cel::value::Bytes::Borrowed(text.as_str().as_bytes())),
        ("duration", Tree::String(_)) => Value::Duration(5_400_000_000_000),
        ("timestamp", Tree::String(_)) => {
            Value::Timestamp(cel::value::Timestamp { seconds: 1_582_979_696, nanos: 500_000_000, offset: 0 })
        }
        ("optional_type(int)", tree) => {
            Value::Optional(tree.as_i64().map(|number| Arc::new(Value::Int(number))))
        }
        _ => Value::plain(tree),
    }
}
