//! The conformance suite of the language, from the specification: github.com/google/cel-spec, in the copy
//! that the Python package `cel-python` carries (`cargo xtask tools cel-spec`). `KEELSON_TOOL_CEL_SPEC` names
//! the file `basic.textproto` of another copy.
//!
//! The environment is that of stored expressions of the API server, but lists and maps of several types can
//! be written, and `cel.bind`: the suite uses them everywhere. What is left out is listed with its reason.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]
#![allow(clippy::print_stdout, clippy::indexing_slicing, reason = "this is test code")]

#[allow(unreachable_pub, reason = "it is shared with other tests")]
#[path = "common/show.rs"]
mod show;
#[allow(dead_code, unreachable_pub, reason = "it is shared with other tests")]
#[path = "common/textproto.rs"]
mod textproto;

use cel::value::{Bytes, Entries, List, Map, Str, Timestamp};
use cel::{Budget, Env, EnvSet, Function, Overload, Release, Run, Type, Value};
use show::show;
use std::collections::BTreeMap;
use std::sync::Arc;
use textproto::{Field, Message};

/// Files that are left out.
const FILES: &[(&str, &str)] = &[
    ("block_ext", "`cel.@block` is for optimizers of trees, which write no text"),
    ("encoders_ext", "the API server has no `base64` functions"),
    ("math_ext", "the API server has no `math` functions"),
    ("network_ext", "tests of a library that is written otherwise than that of the API server"),
    ("proto2", "the API server has no message types but those of JSON, times and wrappers"),
    ("proto2_ext", "the API server has no extensions of messages"),
    ("proto3", "the API server has no message types but those of JSON, times and wrappers"),
    ("enums", "the API server has no enums"),
];

/// Tests that are left out: file, section, name (or `*`), why.
const TESTS: &[(&str, &str, &str, &str)] = &[
    ("fields", "quoted_map_fields", "*", "the API server has no names in backquotes"),
    ("fields", "map_fields", "map_bad_key_type_or_true", FOLDED),
    ("fields", "map_fields", "map_bad_key_type_and_false", FOLDED),
    ("fields", "qualified_identifier_resolution", "map_value_repeat_key", REPEATED),
    ("fields", "qualified_identifier_resolution", "map_value_repeat_key_heterogeneous", REPEATED),
    ("optionals", "optionals", "map_null_entry_no_such_key", NOT_THERE),
    ("optionals", "optionals", "map_present_key_invalid_field", NOT_THERE),
    ("string_ext", "format", "scientific notation formatting clause", LOCALE),
    ("string_ext", "format", "scientific notation formatting clause in a string variable", LOCALE),
    ("string_ext", "format", "default precision for scientific notation", LOCALE),
    ("string_ext", "format", "dyntype support for scientific notation", LOCALE),
    ("string_ext", "format", "NaN support for scientific notation", LOCALE),
    ("string_ext", "format", "positive infinity support for scientific notation", LOCALE),
    ("string_ext", "format", "negative infinity support for scientific notation", LOCALE),
    ("string_ext", "format", "positive infinity support for fixed-point", LOCALE),
    ("string_ext", "format", "negative infinity support for fixed-point", LOCALE),
    ("string_ext", "format", "NaN support for decimal", DECIMAL),
    ("string_ext", "format", "positive infinity support for decimal", DECIMAL),
    ("string_ext", "format", "negative infinity support for decimal", DECIMAL),
    ("string_ext", "format", "list support for string", QUOTED),
    ("string_ext", "format", "map support for string", QUOTED),
    ("string_ext", "format", "map support (all key types)", QUOTED),
    ("string_ext", "format", "dyntype NaN/infinity support", QUOTED),
    ("string_ext", "format", "dyntype support for lists", QUOTED),
    ("string_ext", "format", "dyntype support for maps", QUOTED),
    ("string_ext", "value_errors", "indexof_out_of_range", PAST_THE_END),
    ("string_ext", "value_errors", "lastindexof_out_of_range", PAST_THE_END),
    (
        "timestamps",
        "duration_converters",
        "get_milliseconds",
        "the API server counts all milliseconds of a duration",
    ),
    ("type_deduction", "legacy_nullable_types", "null_assignable_to_abstract_parameter_candidate", NULLABLE),
];

// The rest of the reasons: cel-go 0.23.2, which the API server has, answers so; the suite is younger.
const FOLDED: &str = "a key of a wrong type is found when the expression is planned";
const REPEATED: &str = "a key that is written twice has one of its values";
const NOT_THERE: &str = "a field of what has no fields is not there";
const LOCALE: &str = "numbers are written as in English texts: 1.5×10⁰³, ∞";
const DECIMAL: &str = "%d takes whole numbers only";
const QUOTED: &str = "texts within lists and maps are quoted";
const PAST_THE_END: &str = "a place past the end of a text is no fault";
const NULLABLE: &str = "null has a type of its own beside optional values";

const MESSAGES: &str = "a message type of the suite";
const CONTAINERS: &str = "names are written in full: the API server sets no container";
const UNCHECKED: &str = "nothing is evaluated that was not checked";

/// A test of the suite.
struct Test<'m> {
    file: String,
    section: String,
    name: String,
    message: &'m Message,
}

#[test]
fn the_suite_passes_but_for_what_is_listed() {
    let (mut passed, mut failed) = (0, vec![]);
    let mut left_out = BTreeMap::<&str, usize>::new();
    let mut used = vec![false; TESTS.len()];
    for (file, message) in files() {
        for section in message.messages("section") {
            for message in section.messages("test") {
                let (section, name) = (section.text("name"), message.text("name"));
                let test = Test { file: file.clone(), section, name, message };
                if let Some(reason) = test.left_out(&mut used) {
                    *left_out.entry(reason).or_default() += 1;
                    continue;
                }
                match test.run() {
                    Ok(()) => passed += 1,
                    Err(why) => failed.push(test.describe(&why)),
                }
            }
        }
    }
    println!("{passed} passed, {} failed; left out:", failed.len());
    for (reason, count) in left_out {
        println!("{count:>5} {reason}");
    }
    for (entry, _) in TESTS.iter().zip(used).filter(|(_, used)| !used) {
        failed.push(format!("{entry:?} is left out and not there"));
    }
    assert!(passed > 900, "the suite is lost: {passed} passed");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn files() -> Vec<(String, Message)> {
    let one = xtask::tools::path("cel-spec").unwrap();
    let entries = std::fs::read_dir(one.parent().unwrap()).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "textproto"));
    paths.sort();
    let read = |path: std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, Message::read(&std::fs::read_to_string(&path).unwrap()))
    };
    paths.into_iter().map(read).collect()
}

impl Test<'_> {
    fn describe(&self, why: &str) -> String {
        let Self { file, section, name, message } = self;
        format!("{file}/{section}/{name}: {}\n  {why}", message.text("expr"))
    }

    /// Why the test is left out, if it is.
    fn left_out(&self, used: &mut [bool]) -> Option<&'static str> {
        if let Some((_, reason)) = FILES.iter().find(|(file, _)| *file == self.file) {
            return Some(reason);
        }
        let listed = TESTS.iter().position(|(file, section, name, _)| {
            *file == self.file && *section == self.section && (*name == "*" || *name == self.name)
        });
        if let Some(place) = listed {
            used[place] = true;
            return Some(TESTS[place].3);
        }
        if self.message.mentions("TestAllTypes") || self.message.mentions("cel.expr.conformance") {
            return Some(MESSAGES);
        }
        if !self.message.text("container").is_empty() {
            return Some(CONTAINERS);
        }
        self.message.flag("disable_check").then_some(UNCHECKED)
    }

    fn run(&self) -> Result<(), String> {
        let env = self.environment();
        let expected =
            self.message.message("value").or_else(|| self.message.message("typed_result")?.message("result"));
        let deduced = self.message.message("typed_result").and_then(|result| result.message("deduced_type"));
        let fails = self.message.message("eval_error").is_some();
        let expected = match expected {
            Some(value) => Some(value_of(value).ok_or("the value is of no known type")?),
            None => None,
        };
        let checked = match env.compile(&self.message.text("expr")) {
            Ok(checked) => checked,
            Err(_) if fails => return Ok(()),
            Err(issues) => return Err(issues.to_string()),
        };
        if let Some(deduced) = deduced {
            same(&type_of(deduced).to_string(), &checked.result_type().to_string())?;
        }
        if self.message.flag("check_only") {
            return Ok(());
        }
        let program = match env.program(&checked) {
            Ok(program) => program,
            Err(_) if fails => return Ok(()),
            Err(why) => return Err(why),
        };
        let slots = self.slots(&env);
        let mut budget = Budget { limit: u64::MAX, spent: 0, interrupted: None };
        match program.evaluate(&slots, &mut budget) {
            Ok(value) if fails => Err(format!("a fault was expected, and there is {}", show(&value))),
            Ok(value) => same(&show(&expected.unwrap_or(Value::Bool(true))), &show(&value)),
            Err(_) if fails => Ok(()),
            Err(failure) => Err(failure.to_string()),
        }
    }

    fn environment(&self) -> Env {
        let base = EnvSet::base(Release(33), true).stored;
        let mut builder = base.extend().settings(|settings| {
            settings.homogeneous_literals = false;
            settings.checks_literals = false;
            settings.macros.bindings = true;
        });
        let declared: Vec<String> = self.message.messages("type_env").map(|decl| decl.text("name")).collect();
        for binding in self.message.messages("bindings") {
            if !declared.contains(&binding.text("key")) {
                builder = builder.variable(&binding.text("key"), Type::Dyn);
            }
        }
        for decl in self.message.messages("type_env") {
            let name = decl.text("name");
            if let Some(ident) = decl.message("ident") {
                builder = builder.variable(&name, type_of(ident.message("type").unwrap()));
            }
            let overloads =
                decl.message("function").into_iter().flat_map(|function| function.messages("overloads"));
            let overloads: Vec<Overload> = overloads
                .map(|overload| Overload {
                    id: overload.text("overload_id").leak(),
                    member: overload.flag("is_instance_function"),
                    params: overload.messages("params").map(type_of).collect(),
                    result: type_of(overload.message("result_type").unwrap()),
                    run: Run::Planned,
                })
                .collect();
            if !overloads.is_empty() {
                builder = builder.functions([Function { name: name.as_str().into(), overloads }]);
            }
        }
        builder.build()
    }

    fn slots(&self, env: &Env) -> Vec<Value<'static>> {
        let mut slots = vec![Value::Null; env.slots()];
        for binding in self.message.messages("bindings") {
            let (slot, _) = env.variable(&binding.text("key")).unwrap();
            let value = binding.message("value").unwrap().message("value").unwrap();
            slots[slot] = value_of(value).expect("a value");
        }
        slots
    }
}

fn same(expected: &str, found: &str) -> Result<(), String> {
    if expected == found { Ok(()) } else { Err(format!("expected {expected}, found {found}")) }
}

/// The value of a `cel.expr.Value`; `None` for a message that is not of JSON, a time or a wrapper.
fn value_of(message: &Message) -> Option<Value<'static>> {
    let (name, field) = message.0.first()?;
    Some(match (name.as_str(), field) {
        ("null_value", _) => Value::Null,
        ("bool_value", Field::Word(word)) => Value::Bool(word == "true"),
        ("int64_value", Field::Word(word)) => Value::Int(whole(word)),
        ("uint64_value", Field::Word(word)) => Value::Uint(unsigned(word)),
        ("double_value", Field::Word(word)) => Value::Double(double(word)),
        ("string_value", Field::Text(text)) => string(text),
        ("bytes_value", Field::Text(text)) => Value::Bytes(Bytes::Shared(text.as_slice().into())),
        ("type_value", Field::Text(text)) => Value::Type(type_named(&String::from_utf8_lossy(text))),
        ("list_value", Field::Message(list)) => list_of(list)?,
        ("map_value", Field::Message(map)) => {
            let mut entries = Entries::default();
            for entry in map.messages("entries") {
                entries.insert(value_of(entry.message("key")?)?, value_of(entry.message("value")?)?);
            }
            Value::Map(Map::of(entries))
        }
        ("object_value", Field::Message(object)) => well_known(object)?,
        _ => return None,
    })
}

fn list_of(list: &Message) -> Option<Value<'static>> {
    Some(Value::List(List::of(list.messages("values").map(value_of).collect::<Option<_>>()?)))
}

fn string(text: &[u8]) -> Value<'static> {
    Value::String(Str::Shared(String::from_utf8_lossy(text).into()))
}

fn whole(word: &str) -> i64 {
    match word.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).unwrap(),
        None => word.parse().unwrap(),
    }
}

fn unsigned(word: &str) -> u64 {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => word.parse().unwrap(),
    }
}

fn double(word: &str) -> f64 {
    word.trim_end_matches('f')
        .parse()
        .or_else(|_| word.parse())
        .unwrap_or_else(|_| panic!("not a number: {word}"))
}

/// The value of a message of JSON, of a time or of a wrapper.
fn well_known(object: &Message) -> Option<Value<'static>> {
    let (name, field) = object.0.first()?;
    let Field::Message(message) = field else { return None };
    let number = |field: &str| match message.field(field) {
        Some(Field::Word(word)) => whole(word),
        _ => 0,
    };
    let word = match message.field("value") {
        Some(Field::Word(word)) => word.clone(),
        _ => "0".to_owned(),
    };
    let text = match message.field("value") {
        Some(Field::Text(text)) => text.clone(),
        _ => vec![],
    };
    Some(match name.strip_prefix("type.googleapis.com/google.protobuf.")? {
        "Duration" => Value::Duration(number("seconds") * 1_000_000_000 + number("nanos")),
        "Timestamp" => Value::Timestamp(Timestamp::new(number("seconds"), number("nanos") as u32)),
        "BoolValue" => Value::Bool(word == "true"),
        "Int32Value" | "Int64Value" => Value::Int(whole(&word)),
        "UInt32Value" | "UInt64Value" => Value::Uint(unsigned(&word)),
        "DoubleValue" => Value::Double(double(&word)),
        "FloatValue" => Value::Double(f64::from(double(&word) as f32)),
        "StringValue" => string(&text),
        "BytesValue" => Value::Bytes(Bytes::Shared(text.as_slice().into())),
        "Value" => json_value(message)?,
        "ListValue" => {
            Value::List(List::of(message.messages("values").map(json_value).collect::<Option<_>>()?))
        }
        "Struct" => json_struct(message)?,
        "Any" => well_known(message)?,
        _ => return None,
    })
}

fn json_value(message: &Message) -> Option<Value<'static>> {
    let Some((name, field)) = message.0.first() else { return Some(Value::Null) };
    Some(match (name.as_str(), field) {
        ("null_value", _) => Value::Null,
        ("number_value", Field::Word(word)) => Value::Double(double(word)),
        ("bool_value", Field::Word(word)) => Value::Bool(word == "true"),
        ("string_value", Field::Text(text)) => string(text),
        ("struct_value", Field::Message(message)) => json_struct(message)?,
        ("list_value", Field::Message(list)) => {
            Value::List(List::of(list.messages("values").map(json_value).collect::<Option<_>>()?))
        }
        _ => return None,
    })
}

fn json_struct(message: &Message) -> Option<Value<'static>> {
    let mut entries = Entries::default();
    for field in message.messages("fields") {
        entries.insert(string(field.text("key").as_bytes()), json_value(field.message("value")?)?);
    }
    Some(Value::Map(Map::of(entries)))
}

/// The type of a `cel.expr.Type`.
fn type_of(message: &Message) -> Type {
    let (name, field) = message.0.first().expect("a type");
    let word = |field: &Field| match field {
        Field::Word(word) => word.clone(),
        Field::Text(text) => String::from_utf8_lossy(text).into_owned(),
        Field::Message(_) => String::new(),
    };
    match (name.as_str(), field) {
        ("primitive", field) => primitive(&word(field)),
        ("wrapper", field) => Type::Wrapper(Arc::new(primitive(&word(field)))),
        ("null", _) => Type::Null,
        ("dyn", _) => Type::Dyn,
        ("well_known", field) => match word(field).as_str() {
            "DURATION" => Type::Duration,
            "TIMESTAMP" => Type::Timestamp,
            _ => Type::Any,
        },
        ("list_type", Field::Message(list)) => {
            Type::list(list.message("elem_type").map_or(Type::Dyn, type_of))
        }
        ("map_type", Field::Message(map)) => {
            let part = |name| map.message(name).map_or(Type::Dyn, type_of);
            Type::map(part("key_type"), part("value_type"))
        }
        ("message_type", field) => named_message(&word(field)),
        ("type_param", field) => Type::param(&word(field)),
        ("type", Field::Message(of)) => Type::Type((!of.0.is_empty()).then(|| Arc::new(type_of(of)))),
        ("abstract_type", Field::Message(ty)) => {
            Type::opaque(&ty.text("name"), ty.messages("parameter_types").map(type_of).collect())
        }
        other => panic!("no type: {other:?}"),
    }
}

fn primitive(word: &str) -> Type {
    match word {
        "BOOL" => Type::Bool,
        "INT64" => Type::Int,
        "UINT64" => Type::Uint,
        "DOUBLE" => Type::Double,
        "STRING" => Type::String,
        "BYTES" => Type::Bytes,
        other => panic!("no type: {other}"),
    }
}

fn named_message(name: &str) -> Type {
    match name {
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Any" => Type::Any,
        name => Type::object(name),
    }
}

/// The type that has this name at run time.
fn type_named(name: &str) -> Type {
    match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "type" => Type::Type(None),
        "optional_type" => Type::optional(Type::Dyn),
        name => named_message(name),
    }
}
