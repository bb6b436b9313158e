//! Random valid instances of any type, from its schema alone, as unique trees (see `model.rs`).

#![allow(dead_code, reason = "each test file uses its part")]

use object::time::{MicroTime, Time};
use object::{Key, Map, RawJson, Value};
use schema::{Alternative, Field, Raw, Shape, Type, builtin};

/// A small seeded source of random numbers (splitmix64): the same seed gives the same objects everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }
}

/// An instance of `ty`; deeper levels have fewer fields, so that the recursion ends.
pub(crate) fn instance(ty: &Type, random: &mut Random) -> Value {
    let mut map = fields(ty, 0, random);
    if let Some(kind) = &ty.kind {
        map.insert_at(0, Key::known("kind"), kind.kind.clone().into());
        map.insert_at(1, Key::known("apiVersion"), kind.api_version().into());
    }
    map.into()
}

/// An instance with every field that OpenAPI requires, also in structs that are always written.
pub(crate) fn complete_instance(ty: &Type, random: &mut Random) -> Value {
    let mut value = instance(ty, random);
    complete(
        &Shape::Struct(schema::Ref::Static(builtin::by_name(&ty.name).expect("built in"))),
        &mut value,
        random,
    );
    value
}

fn complete(shape: &Shape, value: &mut Value, random: &mut Random) {
    match shape {
        Shape::Struct(ty) | Shape::SchemaOr(_, ty) if value.as_map().is_some() => {
            let Some(map) = value.as_map_mut() else { return };
            for field in ty.fields.iter() {
                if let Some(value) = map.get_mut(&field.name) {
                    complete(&field.shape, value, random);
                    continue;
                }
                let mut missing = match &field.shape {
                    Shape::Struct(_) if !field.optional => Map::new().into(),
                    _ if field.options.required => match field_value(field, 8, random) {
                        Some(value) => value,
                        None => continue,
                    },
                    _ => continue,
                };
                complete(&field.shape, &mut missing, random);
                if !field.drops(&missing) {
                    map.insert(field.name.clone(), missing);
                }
            }
        }
        Shape::List(inner) => {
            value.as_list_mut().into_iter().flatten().for_each(|value| complete(inner, value, random));
        }
        Shape::Map(inner) => {
            let entries = value.as_map_mut().into_iter().flat_map(Map::iter_mut);
            entries.for_each(|(_, value)| complete(inner, value, random));
        }
        _ => {}
    }
}

fn fields(ty: &Type, depth: usize, random: &mut Random) -> Map {
    let mut entries = vec![];
    for field in ty.fields.iter() {
        let type_meta = matches!(&*field.name, "kind" | "apiVersion") && field.number == 0;
        let wanted = if field.options.required { depth < 9 } else { random.one_in(2 + depth) && depth < 7 };
        if type_meta || !wanted {
            continue;
        }
        if let Some(value) = field_value(field, depth, random) {
            entries.push((field.name.clone(), value));
        }
    }
    Map::from_distinct(entries)
}

/// A value that differs from an absent field.
fn field_value(field: &Field, depth: usize, random: &mut Random) -> Option<Value> {
    (0..4).map(|_| value(&field.shape, depth, random)).find(|value| !field.drops(value))
}

const TEXTS: [&str; 14] = [
    "a",
    "web-1",
    "",
    "yes",
    "0x1f",
    "1e3",
    "null",
    "~",
    " padded ",
    "line\nbreak",
    "tab\tquote\"back\\slash",
    "<markup> & more",
    "päivää 🦀 \u{2028}",
    "a text that is longer than what stands inline",
];

pub(crate) fn value(shape: &Shape, depth: usize, random: &mut Random) -> Value {
    match shape {
        Shape::Bool => (!random.one_in(4)).into(),
        Shape::Int32 => {
            Value::Int(*random.pick(&[&1, &-1, &80, &65535, &i32::MAX.into(), &i32::MIN.into(), &0]))
        }
        Shape::Int64 => Value::Int(*random.pick(&[&1, &-7, &3600, &i64::MAX, &i64::MIN, &0, &(1 << 40)])),
        Shape::Float64 => {
            Value::Float(*random.pick(&[&1.0, &0.5, &-2.25, &1e300, &1e-9, &123_456_789.125, &1e21]))
        }
        Shape::String => random.pick(&TEXTS).into(),
        Shape::Bytes => {
            let length = random.below(12);
            Value::Bytes((0..length).map(|_| random.next() as u8).collect())
        }
        Shape::Time => Time::from_unix((random.next() % 4_000_000_000) as i64).to_string().into(),
        Shape::MicroTime => {
            let micros = random.below(1_000_000) as i32;
            MicroTime::from_unix((random.next() % 4_000_000_000) as i64, micros * 1000).to_string().into()
        }
        Shape::Duration => random.pick(&["1s", "5m0s", "1.5s", "-1h0m0s"]).into(),
        Shape::Quantity => random.pick(&["1", "100m", "128Mi", "1e3", "1500m", "-5", "0", "1Ei"]).into(),
        Shape::IntOrString => match random.below(3) {
            0 => Value::Int(random.below(70_000) as i64),
            1 => "25%".into(),
            _ => random.pick(&TEXTS).into(),
        },
        Shape::Raw(Raw::Fields) => raw(random.pick(&[
            "{}",
            r#"{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}"#,
            r#"{"f:a":{"k:{\"b\":1}":{}}}"#,
        ])),
        Shape::Raw(_) => raw(random.pick(&[
            "{}",
            r#"{"a":[1,-2.5,"x",true,null],"b":{"c":"d"}}"#,
            "[]",
            "7",
            "\"text\"",
            "false",
        ])),
        Shape::Any => random.pick(&["cell", "12", ""]).into(),
        Shape::Struct(ty) => fields(ty, depth + 1, random).into(),
        Shape::List(inner) => {
            let length = 1 + random.below(3);
            (0..length).map(|_| value(inner, depth + 1, random)).collect()
        }
        Shape::Map(inner) => {
            let length = 1 + random.below(3);
            let mut keys: Vec<_> =
                (0..length).map(|_| format!("{}{}", random.pick(&TEXTS), random.below(9))).collect();
            keys.sort();
            keys.dedup();
            keys.into_iter().map(|key| (key, value(inner, depth + 1, random))).collect::<Map>().into()
        }
        Shape::SchemaOr(alternative, ty) => match (alternative, random.below(2)) {
            (Alternative::Bool, 0) => random.one_in(2).into(),
            (Alternative::Schemas, 0) => Value::from_iter([Value::from(fields(ty, depth + 3, random))]),
            (Alternative::Strings, 0) => Value::from_iter(["a", "b"]),
            _ => fields(ty, depth + 3, random).into(),
        },
    }
}

fn raw(text: &str) -> Value {
    RawJson::from_checked(text).into()
}

/// The seed of a run: `KEELSON_SEED` replays a failure.
pub(crate) fn seed() -> u64 {
    match std::env::var("KEELSON_SEED") {
        Ok(text) => text.parse().expect("KEELSON_SEED is a number"),
        Err(_) => std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_nanos() as u64),
    }
}
