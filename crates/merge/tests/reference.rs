//! Patches against facts recorded from the reference implementation: what it made of each.
//!
//! `reference/patches.tsv` has one case per line, its columns split by tabs; `\t`, `\n`, `\r`, `\0` and `\\`
//! are escapes. Lines `@n` come first and hold objects. A case is: the patch; the number of its object;
//! format (`j`, `m`, `s`) and field validation (`i`, `w`, `s`); the class of the outcome; the object that
//! came of it, or the error; for class `invalid` the value that the error shows; the strict errors, split by
//! `|`. Objects and values are written as `start,end,middle`: so many bytes from the start and from the end
//! of the object that was patched, and what is between.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

use merge::{Error, FieldValidation, Patch};
use schema::{Limits, Ref, Shape, Type, builtin, json};

struct Object {
    ty: Ref<Type>,
    text: String,
    value: object::Value,
}

#[test]
fn patches_give_the_objects_and_errors_of_the_reference() {
    let mut objects = vec![];
    let (mut seen, mut wrong) = (0, vec![]);
    for line in include_str!("reference/patches.tsv").lines() {
        let columns: Vec<String> = line.split('\t').map(unescape).collect();
        if columns[0].starts_with('@') {
            objects.push(Object::read(&columns[1]));
            continue;
        }
        let [patch, number, mode, class, text, value, strict] = &columns[..] else {
            panic!("seven columns: {line}")
        };
        let object: &Object = &objects[number.parse::<usize>().expect("a number")];
        let expected = match class.as_str() {
            "ok" => format!("ok {} {strict}", object.expand(text)),
            "invalid" => format!("invalid {} {text}", object.expand(value)),
            // The reference stops with a panic, this does not.
            "panic" => "unprocessable".into(),
            class => format!("{class} {text}"),
        };
        let found = object.patch(mode, patch);
        let same = if class == "panic" { found.starts_with(&expected) } else { found == expected };
        if !same {
            wrong.push(format!(
                "{mode} {patch}\n  to       {}\n  expected {expected}\n  found    {found}",
                object.text
            ));
        }
        seen += 1;
    }
    assert!(seen > 3000, "the facts are lost");
    let shown = wrong.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {seen} differ:\n{shown}", wrong.len());
}

impl Object {
    fn read(text: &str) -> Self {
        let meta = json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::default()).expect("JSON").value;
        let word = |name: &str| meta.get(name).and_then(object::Value::as_str).expect("a name").to_string();
        let api_version = word("apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let ty = Ref::Static(builtin::by_kind(group, version, &word("kind")).expect("a built-in kind"));
        let value = json::decode_shape(&Shape::Struct(ty.clone()), text.as_bytes(), &Limits::default());
        Self { ty, text: text.into(), value: value.expect("an object").value }
    }

    fn expand(&self, text: &str) -> String {
        let mut parts = text.splitn(3, ',');
        let mut part = || parts.next().expect("three parts");
        let (start, end): (usize, usize) = (part().parse().unwrap(), part().parse().unwrap());
        format!("{}{}{}", &self.text[..start], part(), &self.text[self.text.len() - end..])
    }

    fn patch(&self, mode: &str, patch: &str) -> String {
        let format = match &mode[..1] {
            "j" => Patch::Json,
            "m" => Patch::Merge,
            _ => Patch::Strategic,
        };
        let validation = match &mode[1..] {
            "i" => FieldValidation::Ignore,
            "w" => FieldValidation::Warn,
            _ => FieldValidation::Strict,
        };
        let outcome =
            merge::apply(format, &self.ty, &self.value, patch.as_bytes(), validation, &Limits::default());
        match outcome {
            Ok(patched) => {
                let mut out = Vec::new();
                json::encode(&patched.ty, &patched.value, &mut out);
                format!("ok {} {}", String::from_utf8(out).expect("text"), patched.strict.join("|"))
            }
            Err(Error::Invalid { value, detail }) => format!("invalid {value} {detail}"),
            Err(error) => {
                let class = match &error {
                    Error::BadRequest(_) => "bad",
                    Error::Unprocessable(_) => "unprocessable",
                    Error::TooLarge(_) => "large",
                    _ => "internal",
                };
                format!("{class} {error}")
            }
        }
    }
}

fn unescape(column: &str) -> String {
    let mut out = String::with_capacity(column.len());
    let mut characters = column.chars();
    while let Some(character) = characters.next() {
        out.push(match character {
            '\\' => match characters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('0') => '\0',
                Some('\\') => '\\',
                other => unreachable!("no such escape: {other:?}"),
            },
            character => character,
        });
    }
    out
}
