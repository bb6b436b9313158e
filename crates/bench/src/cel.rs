//! `bench cel`: what expressions cost: compiling a rule, evaluating it, and all rules of a custom object of
//! about 5 kB. Times are CPU times of this process.

use crate::Outcome;
use crate::process::cpu_time;
use crate::report::{Row, Style};
use cel::{Budget, EnvSet, Release};
use expressions::declared::Declaration;
use expressions::{Change, OBJECT_BUDGET, RuleScope, Stage, Validator};
use object::field::Path;
use object::{Map, Value};
use schema::structural::{Expression, Structural};
use schema::view::View;
use schema::views::apiextensions::v1::JSONSchemaProps;
use schema::{Limits, Shape, json};
use std::hint::black_box;
use std::io;

/// The line of help.
pub(crate) const ABOUT: &str = "rules of custom resources: compiling, evaluating";

const TIMES: usize = 100_000;
const COMPILED: usize = 5_000;

/// The rules that are measured, as operators write them.
const RULES: [&str; 10] = [
    "self.replicas >= self.minReplicas && self.template.containers.all(c, c.image.startsWith('x'))",
    "self.minReplicas <= self.maxReplicas",
    "!has(self.suspend) || self.replicas == 0 || !self.suspend",
    "self.template.containers.exists(c, c.name == 'main')",
    "self.template.containers.map(c, c.name).all(n, n.matches('^[a-z0-9-]+$'))",
    "size(self.template.containers) <= 10",
    "self.mode in ['Auto', 'Manual', 'Off']",
    "has(self.labels) ? self.labels.all(k, size(k) < 64) : true",
    "self.mode == 'Off' || self.replicas > 0",
    "self.template.containers.all(c, c.env.all(e, e.name != ''))",
];

const PROPERTIES: &str = r#"{"replicas":{"type":"integer"},"minReplicas":{"type":"integer"},"maxReplicas":{"type":"integer"},
    "suspend":{"type":"boolean"},"mode":{"type":"string"},"labels":{"type":"object","additionalProperties":{"type":"string"}},
    "template":{"type":"object","properties":{"containers":{"type":"array","maxItems":20,"items":{"type":"object","properties":{
        "name":{"type":"string"},"image":{"type":"string"},
        "env":{"type":"array","maxItems":20,"items":{"type":"object","properties":{"name":{"type":"string"},"value":{"type":"string"}}}}}}}}}}"#;

/// Runs and prints.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let style =
        if arguments.iter().any(|argument| argument == "--json") { Style::Json } else { Style::Table };
    let source = format!(
        r#"{{"type":"object","properties":{{"spec":{{"type":"object","properties":{PROPERTIES},"x-kubernetes-validations":[{}]}}}}}}"#,
        RULES.map(|rule| format!(r#"{{"rule":"{rule}"}}"#)).join(",")
    );
    let decoded = json::decode(JSONSchemaProps::schema(), source.as_bytes(), &Limits::REQUEST)?.value;
    let schema = Structural::compile(JSONSchemaProps::of(decoded.as_map().ok_or("the schema is no map")?))?;
    let spec = schema.root().property("spec").ok_or("the schema has no spec")?;
    let scope = RuleScope::new(spec, Declaration::Value).ok_or("expressions cannot see the schema")?;
    let rules = spec.rules.as_ref().map(|rules| &*rules.expressions).unwrap_or_default();
    let typical: &Expression = rules.first().ok_or("there are no rules")?;

    let environment = cost(COMPILED, || RuleScope::new(spec, Declaration::Value))?;
    let compile = cost(COMPILED, || scope.compile(typical, Stage::Stored, Stage::Stored))?;
    let object = object();
    let mut text = Vec::new();
    json::encode_shape(&Shape::Any, &object, &mut text);

    let env = EnvSet::base(Release(33), true).stored;
    let env = env.extend().variable("self", cel::Type::Dyn).build();
    let rule = typical.rule.as_str();
    let checked = env.compile(rule).map_err(|issues| issues.to_string())?;
    let program = env.program(&checked)?;
    let spec = object.get("spec").ok_or("the object has no spec")?;
    let slots = [cel::Value::plain(spec)];
    let evaluate = cost(TIMES, || {
        let mut budget = Budget { limit: OBJECT_BUDGET, spent: 0, interrupted: None };
        program.evaluate(&slots, &mut budget).is_ok()
    })?;
    let validator = Validator::compile(schema.root(), Declaration::Resource).ok_or("there are no rules")?;
    let change = Change { new: &object, old: None, ratchets: false };
    let validate = || validator.validate(change, OBJECT_BUDGET, &Path::UNSET, &|work| work());
    if let Some(error) = validate().errors.iter().next() {
        return Err(error.to_string().into());
    }
    let all = cost(TIMES, validate)?;
    Row::new("types of a schema for its rules").figure("cpu", environment, "us").print(style)?;
    Row::new("compiling a rule").figure("cpu", compile, "us").print(style)?;
    Row::new("a rule on an object")
        .figure("cpu", evaluate, "us")
        .figure("object", text.len() as f64, "bytes")
        .print(style)?;
    Row::new("ten rules on an object").figure("cpu", all, "us").print(style)?;
    Ok(())
}

/// A custom object with five containers.
fn object() -> Value {
    let env = |number: usize| {
        Value::from(Map::from_iter([
            ("name", format!("VARIABLE_{number}")),
            ("value", format!("the value of variable {number}")),
        ]))
    };
    let container = |number: usize| {
        let name = if number == 0 { "main".to_owned() } else { format!("container-{number}") };
        Value::from(Map::from_iter([
            ("name", Value::from(name)),
            ("image", format!("x.example.com/team/image-{number}:v1.2.3").into()),
            ("env", (0..14).map(env).collect()),
        ]))
    };
    let template = Map::from_iter([("containers", (0..5).map(container).collect::<Value>())]);
    let labels = (0..8).map(|number| (format!("label-{number}"), format!("value-{number}")));
    let spec = Map::from_iter([
        ("replicas", Value::from(3_i64)),
        ("minReplicas", 1_i64.into()),
        ("maxReplicas", 9_i64.into()),
        ("mode", "Auto".into()),
        ("labels", Map::from_iter(labels).into()),
        ("template", template.into()),
    ]);
    Map::from_iter([("spec", Value::from(spec))]).into()
}

/// The CPU time of one call, in microseconds.
fn cost<T>(times: usize, mut call: impl FnMut() -> T) -> io::Result<f64> {
    let start = cpu_time()?;
    for _ in 0..times {
        black_box(call());
    }
    Ok((cpu_time()? - start).as_secs_f64() * 1e6 / times as f64)
}
