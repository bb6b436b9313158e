//! `bench crds`: a server with many custom resource definitions.
//!
//! Half of the fields of each definition have names of their own, so that no two are the same and nothing is
//! measured that a server can do for equal ones alone. Objects of a definition have the fields of the sample
//! pod, so that both are equally long and deep.

use crate::{
    Outcome,
    load::{
        self,
        access::Access,
        client::{Call, Connection, Endpoint},
        measure::{Clocks, Drive, Latencies, Measured, Processes},
        plan::Plan,
        scenario::{Check, Work},
        settings::{Protocol, Server, Size, positive},
        start::Started,
        target::Target,
    },
    report::{Row, Style},
};
use http::StatusCode;
use serde_json::{Map, Value, json};
use std::{
    io::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;

pub(crate) const ABOUT: &str = "a server with many custom resource definitions (--help)";

type Failure = Box<dyn std::error::Error + Send + Sync>;

const OPTIONS: &str = "\
usage: bench crds [options]

the server: --start COMMAND (keelson), as for bench load
the work:
  --definitions N            (2000)
  --bytes N                  of each (30000)
  --operations N             gets, and creates, of either kind (10000)
the figures:
  --json                     JSON lines instead of a table
";

/// How long a definition may take to be served.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two tries of a server that does not serve it yet.
const PAUSE: Duration = Duration::from_millis(1);
/// Before a server counts as having nothing to do.
const SETTLE: Duration = Duration::from_secs(5);
/// How often it is started with all definitions.
const STARTS: usize = 3;
const GROUP: &str = "bench.example.com";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

struct DefinitionsSettings {
    server: Server,
    definitions: usize,
    bytes: usize,
    operations: usize,
    style: Style,
}

impl DefinitionsSettings {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut settings = Self {
            server: Server::default(),
            definitions: 2000,
            bytes: 30_000,
            operations: 10_000,
            style: Style::Table,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().cloned().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--json" => settings.style = Style::Json,
                "--definitions" => settings.definitions = positive(argument, &value()?)?,
                "--bytes" => settings.bytes = positive(argument, &value()?)?,
                "--operations" => settings.operations = positive(argument, &value()?)?,
                other => {
                    if !settings.server.set(other.strip_prefix("--").unwrap_or_default(), value)? {
                        return Err(format!("there is no option {other:?}; see bench crds --help").into());
                    }
                }
            }
        }
        settings.server.start.get_or_insert_with(|| "keelson".into());
        settings.server.check("--server", "--")?;
        Ok(settings)
    }
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    if arguments.iter().any(|argument| ["help", "-h", "--help"].contains(&argument.as_str())) {
        return Ok(write!(std::io::stdout(), "{OPTIONS}")?);
    }
    let settings = DefinitionsSettings::parse(arguments)?;
    load::runtime()?.block_on(all(&settings))
}

async fn all(settings: &DefinitionsSettings) -> Outcome {
    let mut started = Started::new(&settings.server).await?;
    let size = Size { pods: settings.operations, fill: 0, connections: 16, watchers: 1, work: 1.0 };
    let plan = Plan::new("bench-crds", size)?;
    let sample: Value = serde_json::from_str(&plan.pod(0))?;
    tokio::select! {
        outcome = measure(settings, &mut started, &sample, size) => outcome,
        interrupted = load::interruption() => interrupted.and(Err("interrupted".into())),
    }
}

async fn measure(
    settings: &DefinitionsSettings,
    started: &mut Started,
    sample: &Value,
    size: Size,
) -> Outcome {
    let endpoint = Arc::new(Endpoint::new(&Access::of(&started.server)?, Protocol::Http1)?);
    let mut connection = endpoint.connect().await?;
    sleep(SETTLE).await;
    let before = memory(&started.processes())?;
    let clocks = Clocks::now(&started.processes())?;
    let (mut answered, mut served, mut bytes) = (Vec::new(), Vec::new(), 0);
    for number in 0..settings.definitions {
        let definition = definition(number, sample, settings.bytes);
        let asked = Instant::now();
        let made =
            connection.ask(&Call::post(DEFINITIONS.into(), definition.to_string())).await?.succeeded()?;
        answered.push(asked.elapsed());
        bytes += made.body.len();
        served.push(until_served(&mut connection, number, sample).await?);
    }
    let spent = clocks.stop(&started.processes())?;
    let [answered, served] = [answered, served].map(Latencies::new);
    let row = Row::new("define")
        .figure("definitions", settings.definitions as f64, "")
        .figure("answered p50", millis(answered.within(0.5)), "ms")
        .figure("p99", millis(answered.within(0.99)), "ms")
        .figure("then served p50", millis(served.within(0.5)), "ms")
        .figure("p99", millis(served.within(0.99)), "ms")
        .figure("max", millis(served.within(1.0)), "ms");
    with_cpu(row, &spent, settings.definitions).print(settings.style)?;
    sleep(SETTLE).await;
    let after = memory(&started.processes())?;
    let each = (after - before) / settings.definitions as f64;
    let stored = bytes as f64 / settings.definitions as f64;
    Row::new("idle")
        .figure("memory before", before / 1e6, "MB")
        .figure("with them", after / 1e6, "MB")
        .figure("each", each / 1e3, "kB")
        .figure("stored", stored / 1e3, "kB")
        .figure("beyond that", (each - stored) / 1e3, "kB")
        .print(settings.style)?;
    documents(settings, started, &mut connection, "openapi").await?;
    let one_more = definition(settings.definitions, sample, settings.bytes);
    connection.ask(&Call::post(DEFINITIONS.into(), one_more.to_string())).await?.succeeded()?;
    documents(settings, started, &mut connection, "openapi after one more").await?;
    compare(settings, started, size).await?;
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        starts.push(started.again().await?);
    }
    let starts = Latencies::new(starts);
    sleep(SETTLE).await;
    Row::new("start")
        .figure("ready p50", millis(starts.within(0.5)), "ms")
        .figure("max", millis(starts.within(1.0)), "ms")
        .figure("memory", memory(&started.processes())? / 1e6, "MB")
        .print(settings.style)?;
    Ok(())
}

/// Creates the first object of a definition, as soon as the server lets it: how long that took.
async fn until_served(
    connection: &mut Connection,
    number: usize,
    sample: &Value,
) -> Result<Duration, Failure> {
    let call = Call::post(collection(number, "default"), object(number, sample, "first").to_string());
    let begun = Instant::now();
    loop {
        let answer = connection.ask(&call).await?;
        match answer.status {
            StatusCode::NOT_FOUND if begun.elapsed() < PATIENCE => sleep(PAUSE).await,
            _ => {
                answer.succeeded()?;
                return Ok(begun.elapsed());
            }
        }
    }
}

/// Reads the descriptions of the API, each twice: the first may have to be made.
async fn documents(
    settings: &DefinitionsSettings,
    started: &Started,
    connection: &mut Connection,
    title: &str,
) -> Outcome {
    let of_group = format!("/openapi/v3/apis/{GROUP}/v1");
    for (which, path) in [("v3 index", "/openapi/v3"), ("v3 of the group", &of_group), ("v2", "/openapi/v2")]
    {
        let mut row = Row::new(title).label("document", which);
        for (time, cpu) in [("first", "cpu"), ("again", "cpu again")] {
            let clocks = Clocks::now(&started.processes())?;
            let answer = connection.ask(&Call::get(path.to_owned())).await?.succeeded()?;
            let spent = clocks.stop(&started.processes())?;
            row = row.figure(time, millis(spent.elapsed), "ms");
            if let Some(taken) = spent.cpu {
                row = row.figure(cpu, millis(taken), "ms");
            }
            if time == "first" {
                row = row.figure("body", answer.body.len() as f64 / 1e6, "MB");
            }
        }
        row.figure("memory", memory(&started.processes())? / 1e6, "MB").print(settings.style)?;
    }
    Ok(())
}

/// Creates and gets of pods, and of custom objects like them.
async fn compare(settings: &DefinitionsSettings, started: &Started, size: Size) -> Outcome {
    let mut target = Target::connect(&started.server, None, "bench-crds", size, Protocol::Http1).await?;
    target.processes = started.processes();
    target.need_namespace().await?;
    let plan = target.plan.clone();
    let namespace = plan.namespace.clone();
    let work = |call: Box<dyn Fn(usize) -> Call + Send + Sync>, check| Work {
        operations: settings.operations,
        connections: size.connections,
        prepare: Vec::new(),
        call,
        check,
    };
    let pods = plan.clone();
    let custom = custom_objects(&plan)?;
    let paths = namespace.clone();
    let creates = [
        ("create pod", work(Box::new(move |at| Call::post(pods.path("pods"), pods.pod(at))), None)),
        ("create custom", work(Box::new(move |at| Call::post(collection(0, &paths), custom(at))), None)),
    ];
    let pods = plan.clone();
    let paths = namespace.clone();
    let gets = [
        (
            "get pod",
            work(Box::new(move |at| Call::get(pods.pod_path(pods.scattered(at)))), Some(Check::Kind("Pod"))),
        ),
        (
            "get custom",
            work(
                Box::new(move |at| {
                    Call::get(format!("{}/{}", collection(0, &paths), name(plan.scattered(at))))
                }),
                Some(Check::Kind("Sample0")),
            ),
        ),
    ];
    for pair in [creates, gets] {
        let mut costs = Vec::new();
        for (name, work) in pair {
            let spent = Drive::prepare(&target.endpoint, work).await?.run(&target.processes).await?;
            let body = spent.bytes as f64 / settings.operations as f64;
            costs.extend(spent.cpu);
            let row = Row::new(name).figure("p50", millis(spent.latencies.within(0.5)), "ms");
            with_cpu(row, &spent, settings.operations).figure("body", body, "B").print(settings.style)?;
        }
        if let [pod, custom] = costs.as_slice() {
            let ratio = custom.as_secs_f64() / pod.as_secs_f64().max(f64::EPSILON);
            Row::new("custom by built in").figure("cpu", ratio, "times").print(settings.style)?;
        }
    }
    Ok(())
}

/// Custom objects with the fields of the plan's pods.
fn custom_objects(plan: &Plan) -> Result<impl Fn(usize) -> String + Send + Sync + use<>, Failure> {
    let pod: Value = serde_json::from_str(&plan.pod(0))?;
    let text = object(0, &pod, "@name@").to_string();
    Ok(move |at| text.replacen("@name@", &name(at), 1))
}

fn name(number: usize) -> String {
    format!("sample-{number:05}")
}

fn with_cpu(row: Row, spent: &Measured, operations: usize) -> Row {
    match spent.cpu {
        Some(cpu) => row.figure("cpu", cpu.as_secs_f64() * 1e6 / operations as f64, "us"),
        None => row,
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn memory(processes: &Processes) -> Result<f64, Failure> {
    Ok(processes.memory()?.unwrap_or_default() as f64)
}

fn plural(number: usize) -> String {
    format!("sample{number}s")
}

fn collection(number: usize, namespace: &str) -> String {
    format!("/apis/{GROUP}/v1/namespaces/{namespace}/{}", plural(number))
}

/// An object of a definition, with the fields of a pod.
fn object(number: usize, pod: &Value, name: &str) -> Value {
    let mut object = pod.clone();
    if let Some(object) = object.as_object_mut() {
        object.insert("apiVersion".into(), format!("{GROUP}/v1").into());
        object.insert("kind".into(), format!("Sample{number}").into());
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("name".into(), name.into());
        metadata.remove("ownerReferences");
    }
    object
}

/// A definition whose objects have the fields of a pod, and others that only it has, up to a number of bytes.
fn definition(number: usize, pod: &Value, bytes: usize) -> Value {
    let kind = format!("Sample{number}");
    let mut spec = schema(pod.get("spec").unwrap_or(&Value::Null));
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{GROUP}", plural(number))},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural(number), "singular": format!("sample{number}"), "kind": kind},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Node", "type": "string", "jsonPath": ".spec.nodeName"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {}}},
            }],
        },
    });
    let used = definition.to_string().len() + spec.to_string().len();
    if let Some(properties) = spec.get_mut("properties").and_then(Value::as_object_mut) {
        let mut left = bytes.saturating_sub(used);
        let mut at = 0;
        while left > 0 {
            let (name, property) = (format!("field{number}x{at}"), extra(number, at));
            left = left.saturating_sub(name.len() + property.to_string().len() + 4);
            properties.insert(name, property);
            at += 1;
        }
    }
    let properties = json!({
        "spec": spec,
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    });
    if let Some(place) = definition.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties") {
        *place = properties;
    }
    definition
}

/// A field that only one definition has, as long as those of real ones are.
fn extra(number: usize, at: usize) -> Value {
    let words =
        "What an operator does with this setting, when it takes effect, and what happens without it. ";
    let property =
        |name: &str| json!({"type": "string", "description": format!("{name} of {number}. {words}")});
    json!({
        "type": "object",
        "description": format!("Setting {at} of definition {number}. {words}{words}"),
        "properties": {
            format!("name{at}"): property("The name"),
            format!("mode{at}"): {"type": "string", "enum": ["Always", "Never"], "default": "Always"},
            format!("limit{number}"): {"type": "integer", "format": "int32", "minimum": 0, "maximum": at + 10},
        },
        "required": [format!("name{at}")],
    })
}

/// The schema of which a value is an example.
fn schema(example: &Value) -> Value {
    match example {
        Value::Object(fields) => {
            let properties: Map<String, Value> =
                fields.iter().map(|(name, value)| (name.clone(), schema(value))).collect();
            json!({"type": "object", "properties": properties})
        }
        Value::Array(items) => {
            // Items of a list can have different fields.
            let merged = items.iter().map(schema).reduce(merge).unwrap_or_else(|| json!({"type": "string"}));
            json!({"type": "array", "items": merged})
        }
        Value::String(_) | Value::Null => json!({"type": "string"}),
        Value::Bool(_) => json!({"type": "boolean"}),
        Value::Number(_) => json!({"type": "integer"}),
    }
}

fn merge(mut one: Value, other: Value) -> Value {
    let fields = other.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(properties) = one.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, value) in fields {
            let merged = match properties.remove(&name) {
                Some(known) => merge(known, value),
                None => value,
            };
            properties.insert(name, merged);
        }
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Value {
        let size = Size { pods: 10, fill: 0, connections: 1, watchers: 1, work: 1.0 };
        serde_json::from_str(&Plan::new("n", size).unwrap().pod(0)).unwrap()
    }

    #[test]
    fn definitions_have_the_bytes_that_were_asked_for_and_differ() {
        let (one, other) = (definition(1, &sample(), 30_000), definition(2, &sample(), 30_000));
        let bytes = one.to_string().len();
        assert!((29_000..33_000).contains(&bytes), "{bytes}");
        let fields = |definition: &Value| {
            let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
            definition.pointer(path).and_then(Value::as_object).unwrap().clone()
        };
        let (one, other) = (fields(&one), fields(&other));
        let shared = one.keys().filter(|name| other.contains_key(*name)).count();
        assert!(shared * 2 < one.len() + shared, "{shared} of {}", one.len());
    }

    #[test]
    fn objects_have_only_fields_of_their_definition() {
        let sample = sample();
        let schema = definition(0, &sample, 30_000);
        let known =
            schema.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties").unwrap();
        let object = object(0, &sample, "a");
        let fields = object.get("spec").and_then(Value::as_object).unwrap();
        assert!(!fields.is_empty() && fields.keys().all(|name| known.get(name).is_some()));
        assert_eq!(object.pointer("/metadata/name").and_then(Value::as_str), Some("a"));
    }
}
