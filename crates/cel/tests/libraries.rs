//! What the reference's own libraries answer, one expression per line of `reference/libraries.txt`: the value
//! or the error, and what the evaluation costs. The expressions are stored ones, with the variable
//! `authorizer` of a user `me`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

use cel::kubernetes::{COST_OF_AN_OBJECT, EnvSet, Release};
use cel::library::authz::{Authorizer, Check, Decision, Target, authorizer, authorizer_type};
use cel::value::{List, Map};
use cel::{Budget, Env, Failure, Type, Value};
use object::field_selector::Operator;
use object::float;
use object::quote::quote;
use serde_json::json;
use std::sync::Arc;

/// Allows `get`, fails for `fail`, and gives what it was asked for as the reason.
#[derive(Debug)]
struct Echo;

impl Authorizer for Echo {
    fn authorize(&self, check: &Check<'_>) -> Result<Decision, Failure> {
        let user = match check.service_account {
            None => "user=me groups=[us]".to_owned(),
            Some(account) => format!(
                "user=system:serviceaccount:{0}:{1} groups=[system:serviceaccounts system:serviceaccounts:{0}]",
                account.namespace, account.name
            ),
        };
        let verb = check.verb;
        let target = match &check.target {
            Target::Path(path) => format!(
                "resource=false group= version= res= sub= ns= name= path={path} verb={verb} fs=[] fe=<nil> ls=[] \
                 le=<nil>"
            ),
            Target::Resource { group, resource, subresource, namespace, name, fields, labels } => {
                let error = |error: Option<String>| error.unwrap_or_else(|| "<nil>".to_owned());
                let fe = error(fields.as_ref().and_then(|read| Some(read.as_ref().err()?.to_string())));
                let le = error(labels.as_ref().and_then(|read| Some(read.as_ref().err()?.to_string())));
                let of_fields = fields.as_ref().and_then(|read| read.as_ref().ok()?.requirements());
                let of_labels = labels.as_ref().and_then(|read| read.as_ref().ok()?.requirements());
                let sign = |operator| if operator == Operator::Equals { "=" } else { "!=" };
                let of_fields = of_fields.unwrap_or_default().iter();
                let fs: Vec<String> = of_fields
                    .map(|one| format!("{}{}{}", one.field, sign(one.operator), one.value))
                    .collect();
                let ls: Vec<String> = of_labels.unwrap_or_default().iter().map(ToString::to_string).collect();
                format!(
                    "resource=true group={group} version=* res={resource} sub={subresource} ns={namespace} \
                     name={name} path= verb={verb} fs=[{}] fe={fe} ls=[{}] le={le}",
                    fs.join(" "),
                    ls.join(" ")
                )
            }
        };
        let error = (verb == "fail").then(|| "it failed".to_owned());
        Ok(Decision { allowed: verb == "get", reason: format!("{user} {target}"), error })
    }
}

fn show(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => format!("{number}u"),
        Value::Double(number) if number.is_finite() => {
            let number = float::scientific(*number);
            let sign = if number.exponent < 0 { '-' } else { '+' };
            format!("double({}e{sign}{:02})", number.mantissa, number.exponent.unsigned_abs())
        }
        Value::Double(number) => format!("double({})", Value::Double(*number)),
        Value::String(text) => quote(text.as_str()),
        Value::Bytes(bytes) => {
            let digits: String = bytes.as_slice().iter().map(|byte| format!("{byte:02x}")).collect();
            format!("hex({digits})")
        }
        Value::Duration(nanos) => format!("duration({nanos})"),
        Value::Timestamp(time) => format!("timestamp({})", time.seconds),
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(value)) => format!("some({})", show(value)),
        Value::Type(ty) => format!("type({})", ty.name()),
        Value::List(list) => format!("[{}]", elements(list).join(", ")),
        Value::Map(map) => format!("{{{}}}", entries(map).join(", ")),
        Value::Opaque(value) => {
            let shown = format!("{value:?}");
            match shown.split_once('(') {
                Some(("quantity" | "url" | "ip" | "cidr" | "semver", _)) => shown,
                _ => format!("other({})", value.type_of().name()),
            }
        }
        other => format!("other({})", other.type_of().name()),
    }
}

fn elements(list: &List<'_>) -> Vec<String> {
    list.iter().map(|element| show(&element.expect("an element"))).collect()
}

fn entries(map: &Map<'_>) -> Vec<String> {
    let shown = map.iter().map(|(key, value)| format!("{}: {}", show(&key), show(&value.expect("a value"))));
    let mut entries: Vec<_> = shown.collect();
    entries.sort();
    entries
}

/// The answer to an expression, in the form of the lines.
fn answer(env: &Env, expression: &str) -> serde_json::Value {
    let checked = match env.compile(expression) {
        Ok(checked) => checked,
        Err(issues) => return json!({"e": expression, "compile": issues.to_string()}),
    };
    let program = match env.program(&checked) {
        Ok(program) => program,
        Err(why) => return json!({"e": expression, "program": why}),
    };
    let slots = [authorizer(Arc::new(Echo)), Value::Int(1)];
    let mut budget = Budget { limit: COST_OF_AN_OBJECT, spent: 0, interrupted: None };
    match program.evaluate(&slots, &mut budget) {
        Ok(value) => json!({"e": expression, "v": show(&value), "cost": budget.spent}),
        Err(failure) => json!({"e": expression, "error": failure.to_string(), "cost": budget.spent}),
    }
}

#[test]
fn libraries_answer_as_the_reference() {
    let set = EnvSet::base(Release(32), true)
        .with_patches()
        .extend(|builder| builder.variable("authorizer", authorizer_type()).variable("any", Type::Dyn));
    let lines = match std::env::var("CEL_LIBRARIES") {
        Ok(path) => std::fs::read_to_string(path).expect("the lines"),
        Err(_) => include_str!("reference/libraries.txt").to_owned(),
    };
    let (mut cases, mut wrong) = (0, vec![]);
    for line in lines.lines() {
        cases += 1;
        let line: serde_json::Value = serde_json::from_str(line).expect("a line");
        let expression = line["e"].as_str().expect("an expression");
        let found = answer(&set.stored, expression);
        if found != line {
            wrong.push(format!("  expected {line}\n  found    {found}"));
        }
    }
    let shown = wrong.len().min(std::env::var("CEL_SHOW").map_or(20, |most| most.parse().unwrap()));
    assert!(wrong.is_empty(), "{} of {cases} differ:\n{}", wrong.len(), wrong[..shown].join("\n"));
    assert!(cases > 5_000, "{cases}");
}
