//! Variants of an object, each broken at one place in one way, and what is said of them.

use std::io::Write as _;

use fastrand::Rng;
use serde_json::{Value, json};

use super::{Api, object};

/// How many objects are made for each version of a definition.
const OBJECTS: u64 = 4;
/// How many variants of each object are tried.
const VARIANTS: usize = 40;

/// What was tried.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Objects that were accepted.
    pub objects: usize,
    /// Objects that were not, because a rule is more than the generator can follow. They have no variants.
    pub passed_over: usize,
    /// Variants that were refused.
    pub variants: usize,
}

/// One way to break an object, and how the server has to say it.
struct Break {
    /// Where the changed value is.
    pointer: Vec<String>,
    value: Value,
    /// The field of the cause, as the API writes it.
    field: String,
    reason: &'static str,
    /// What the message of the cause has in it.
    message: String,
}

/// Tries objects and broken variants of them in all versions of all definitions, and checks each answer.
pub(crate) fn check(api: &mut Api) -> Tally {
    let path = std::env::var_os("KEELSON_TEST_TRANSCRIPT");
    let mut transcript = path.map(|path| std::fs::File::create(path).unwrap());
    let mut tally = Tally::default();
    for definition in api.definitions() {
        // Expressions can refuse what the rest of a schema accepts.
        if definition.to_string().contains("x-kubernetes-validations") {
            continue;
        }
        let webhook = definition["spec"]["conversion"]["strategy"] == "Webhook";
        for version in definition["spec"]["versions"].as_array().unwrap() {
            // A version that only a webhook makes of another is not written here, where there is no webhook.
            if version["served"] == true && (!webhook || version["storage"] == true) {
                for seed in 0..OBJECTS {
                    try_object(api, &definition, version, seed, &mut tally, transcript.as_mut());
                }
            }
        }
    }
    tally
}

fn try_object(
    api: &mut Api,
    definition: &Value,
    version: &Value,
    seed: u64,
    tally: &mut Tally,
    mut transcript: Option<&mut std::fs::File>,
) {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let namespace = if spec["scope"] == "Namespaced" { "namespaces/default/" } else { "" };
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    let path = format!(
        "/apis/{group}/{}/{namespace}{plural}?dryRun=All&fieldValidation=Strict",
        text(&version["name"])
    );
    let mut rng = Rng::with_seed(seed);
    let whole = object::generate(definition, version, &mut rng);
    let mut ask = |body: &Value| {
        let (status, answer) = api.call("POST", &path, body);
        if let Some(file) = transcript.as_mut() {
            let mut shown = answer.clone();
            if let Some(Value::Object(metadata)) = shown.get_mut("metadata") {
                for key in ["uid", "creationTimestamp", "managedFields"] {
                    metadata.remove(key);
                }
            }
            writeln!(file, "{path} {body}\n  {status} {shown}").unwrap();
        }
        (status, answer)
    };
    let (status, answer) = ask(&whole);
    if status != 201 {
        assert_eq!((status, answer["reason"].as_str()), (422, Some("Invalid")), "{path}: {answer}\n{whole}");
        tally.passed_over += 1;
        return;
    }
    tally.objects += 1;
    let mut breaks = Vec::new();
    collect(&version["schema"]["openAPIV3Schema"], &whole, &mut Vec::new(), "", &mut breaks);
    rng.shuffle(&mut breaks);
    for broken in breaks.into_iter().take(VARIANTS) {
        let mut variant = whole.clone();
        put(&mut variant, &broken.pointer, broken.value);
        let (status, answer) = ask(&variant);
        let about = || format!("{path}: {} {}\n{answer}\n{variant}", broken.field, broken.message);
        if broken.reason == "BadRequest" {
            assert_eq!((status, answer["reason"].as_str()), (400, Some("BadRequest")), "{}", about());
            assert!(answer["message"].as_str().unwrap().contains(&broken.message), "{}", about());
        } else {
            assert_eq!((status, answer["reason"].as_str()), (422, Some("Invalid")), "{}", about());
            let causes = answer["details"]["causes"].as_array().unwrap();
            let named = causes.iter().any(|cause| {
                cause["field"] == broken.field.as_str()
                    && cause["reason"] == broken.reason
                    && cause["message"].as_str().unwrap().contains(&broken.message)
            });
            assert!(named, "{}", about());
        }
        tally.variants += 1;
    }
}

fn put(object: &mut Value, pointer: &[String], value: Value) {
    let path: String =
        pointer.iter().map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1"))).collect();
    *object.pointer_mut(&path).unwrap() = value;
}

/// The ways to break a value and what is in it.
fn collect(schema: &Value, value: &Value, pointer: &mut Vec<String>, field: &str, breaks: &mut Vec<Break>) {
    if !pointer.is_empty() {
        of_place(schema, value, pointer, field, breaks);
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let at_root =
                    pointer.is_empty() && matches!(key.as_str(), "apiVersion" | "kind" | "metadata");
                let property = schema["properties"].get(key).or_else(|| schema.get("additionalProperties"));
                if let Some(schema) = property.filter(|schema| schema.is_object() && !at_root) {
                    let field = if field.is_empty() { key.clone() } else { format!("{field}.{key}") };
                    pointer.push(key.clone());
                    collect(schema, value, pointer, &field, breaks);
                    pointer.pop();
                }
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                pointer.push(index.to_string());
                collect(&schema["items"], value, pointer, &format!("{field}[{index}]"), breaks);
                pointer.pop();
            }
        }
        _ => {}
    }
}

fn of_place(schema: &Value, value: &Value, pointer: &[String], field: &str, breaks: &mut Vec<Break>) {
    let mut add = |changed: Value, field: String, reason: &'static str, message: String| {
        breaks.push(Break { pointer: pointer.to_vec(), value: changed, field, reason, message });
    };
    let at = || field.to_owned();
    let number = |name: &str| schema[name].as_i64();
    let ty = schema["type"].as_str().unwrap_or_default();
    let wrong = match ty {
        "string" => Some((json!(5), "integer")),
        "integer" | "number" => Some((json!("five"), "string")),
        "boolean" => Some((json!("true"), "string")),
        "object" => Some((json!([]), "array")),
        "array" => Some((json!({}), "object")),
        _ => None,
    };
    if let Some((wrong, found)) = wrong {
        // A format takes the place of the type in the message for some values.
        let message = if schema.get("format").is_some() {
            format!("{field} in body must be of type ")
        } else {
            format!("{field} in body must be of type {ty}: \"{found}\"")
        };
        add(wrong, at(), "FieldValueTypeInvalid", message);
    }
    if schema["enum"].as_array().is_some_and(|values| values.iter().all(Value::is_string)) {
        let message = "Unsupported value: \"Bogus\": supported values: ".to_owned();
        add(json!("Bogus"), at(), "FieldValueNotSupported", message);
    }
    if let Some(pattern) = schema["pattern"].as_str().filter(|pattern| ty == "string" && is_narrow(pattern)) {
        let message = format!("{field} in body should match '{pattern}'");
        // A text of another length is refused for that.
        if number("minLength").is_none_or(|least| least <= 3)
            && number("maxLength").is_none_or(|most| most >= 3)
        {
            add(json!("\u{e9} \n"), at(), "FieldValueInvalid", message);
        }
    }
    if ty == "string"
        && let Some(most) = number("maxLength").filter(|most| *most < 10_000)
    {
        let long = "x".repeat(usize::try_from(most).unwrap() + 1);
        add(json!(long), at(), "FieldValueTooLong", format!("may not be more than {most} bytes"));
    }
    if ty == "string"
        && let Some(least) = number("minLength").filter(|least| *least > 0)
    {
        add(json!(""), at(), "FieldValueInvalid", format!("should be at least {least} chars long"));
    }
    if let Some(least) = number("minimum") {
        add(
            json!(least - 1),
            at(),
            "FieldValueInvalid",
            format!("should be greater than or equal to {least}"),
        );
    }
    if let Some(most) = number("maximum") {
        add(json!(most + 1), at(), "FieldValueInvalid", format!("should be less than or equal to {most}"));
    }
    if let (Some(most), Some(item)) = (number("maxItems").filter(|most| *most < 200), value.get(0)) {
        let many = vec![item.clone(); usize::try_from(most).unwrap() + 1];
        add(json!(many), at(), "FieldValueTooMany", format!("must have at most {most} items"));
    }
    if number("minItems").is_some_and(|least| least > 0) {
        add(json!([]), at(), "FieldValueInvalid", "should have at least".to_owned());
    }
    if let Value::Object(map) = value {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let mut without = map.clone();
            // What has a default is never missing.
            if without.remove(name).is_some() && schema["properties"][name].get("default").is_none() {
                add(
                    Value::Object(without),
                    format!("{field}.{name}"),
                    "FieldValueRequired",
                    "Required value".to_owned(),
                );
            }
        }
        let open = schema["x-kubernetes-preserve-unknown-fields"] == true
            || schema.get("additionalProperties").is_some();
        if !open && schema.get("properties").is_some() {
            let mut more = map.clone();
            more.insert("bogusField".to_owned(), json!(1));
            let message = format!("strict decoding error: unknown field \"{field}.bogusField\"");
            add(Value::Object(more), String::new(), "BadRequest", message);
        }
    }
}

/// Whether a pattern is one for the whole text that no letter beyond ASCII matches.
fn is_narrow(pattern: &str) -> bool {
    let wide = [".", "[^", "\\S", "\\D", "\\W", "\\p"];
    pattern.starts_with('^') && pattern.ends_with('$') && wide.iter().all(|part| !pattern.contains(part))
}
