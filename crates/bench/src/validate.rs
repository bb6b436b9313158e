//! `bench validate`: what the kind does to a create of a pod of 5.4 kB: defaults, preparation, validation,
//! warnings. Times are CPU times of this process.

use crate::Outcome;
use crate::process::cpu_time;
use crate::report::{Row, Style};
use kinds::{Caller, Context, ResourceType, Rules};
use object::Value;
use schema::{Limits, json};
use std::hint::black_box;
use std::io;
use std::time::Duration;

/// The line of help.
pub(crate) const ABOUT: &str = "defaults, preparation, validation and warnings of a pod";

const POD: &str = include_str!("pod.json");
const WRITES: usize = 50_000;
const BATCH: usize = 50;

/// Runs and prints.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let style =
        if arguments.iter().any(|argument| argument == "--json") { Style::Json } else { Style::Table };
    let kind = kinds::all().find(|kind| kind.group.is_empty() && kind.resource == "pods");
    let version = kind.and_then(|kind| Some((kind, kind.versions.first()?)));
    let resource = version.and_then(|(kind, version)| ResourceType::builtin(kind, version));
    let resource = resource.ok_or("there is no such kind")?;
    let strategy = &resource.strategy;
    let context =
        Context { now: "2030-01-02T03:04:05Z", caller: Caller::default(), gates: kinds::Gates::DEFAULT };
    let rules = Rules::new(&resource, &resource.ty);

    let mut spent = Duration::ZERO;
    for _ in 0..WRITES / BATCH {
        let decode =
            || json::decode(&resource.ty, POD.as_bytes(), &Limits::REQUEST).map(|decoded| decoded.value);
        let mut pods = (0..BATCH).map(|_| decode()).collect::<Result<Vec<Value>, _>>()?;
        let start = cpu_time()?;
        for pod in &mut pods {
            schema::default(&resource.ty, pod);
            if let Some(pod) = pod.as_map_mut() {
                strategy.default(pod);
                strategy.prepare_create(black_box(pod), &context);
            }
        }
        spent += cpu_time()? - start;
    }
    let default = spent.as_secs_f64() * 1e6 / WRITES as f64;

    let mut pod = json::decode(&resource.ty, POD.as_bytes(), &Limits::REQUEST)?.value;
    schema::default(&resource.ty, &mut pod);
    let pod = pod.as_map_mut().ok_or("the pod is no map")?;
    strategy.default(pod);
    strategy.prepare_create(pod, &context);
    if let Some(error) = strategy.validate_create(pod, &rules).iter().next() {
        return Err(error.to_string().into());
    }
    let pod = &*pod;
    let validate = cost(|| strategy.validate_create(pod, &rules))?;
    let warnings = cost(|| strategy.warnings(pod, None))?;
    let update = cost(|| strategy.validate_update(pod, pod, &rules))?;
    Row::new("defaults and preparation").figure("cpu", default, "us").print(style)?;
    Row::new("validation of a create").figure("cpu", validate, "us").print(style)?;
    Row::new("warnings").figure("cpu", warnings, "us").print(style)?;
    Row::new("validation of an update").figure("cpu", update, "us").print(style)?;
    Ok(())
}

/// The CPU time of one call, in microseconds.
fn cost<T>(mut call: impl FnMut() -> T) -> io::Result<f64> {
    let start = cpu_time()?;
    for _ in 0..WRITES {
        black_box(call());
    }
    Ok((cpu_time()? - start).as_secs_f64() * 1e6 / WRITES as f64)
}
