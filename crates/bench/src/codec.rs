//! Decoding, encoding, patching and applying one pod of about 5.4 kB (containers, environment, probes,
//! volumes, managed fields), beside `serde_json::Value` on the same bytes in the same run.
//!
//! Each operation is timed in short rounds that take turns, so that what else the machine does hits all of
//! them alike; the figure is the median round.

mod managed;

use crate::Outcome;
use crate::report::{Row, Style};
use merge::{FieldValidation, Patch};
use object::Value;
use schema::{Limits, Ref, Type, builtin, json, protobuf};
use std::hint::black_box;
use std::time::Instant;

/// The line of help.
pub(crate) const ABOUT: &str = "decode, encode and patch a pod, beside serde_json [--only=PART OF A NAME]";

/// A pod as a controller made it and a kubelet reported on it.
const POD: &str = include_str!("pod.json");

const ROUNDS: usize = 101;
const REPEATS: u32 = 100;

struct Operation<'a> {
    name: &'static str,
    bytes: usize,
    run: Box<dyn Fn() + 'a>,
}

/// Runs and prints.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let style =
        if arguments.iter().any(|argument| argument == "--json") { Style::Json } else { Style::Table };
    let ty = builtin::by_kind("", "v1", "Pod").ok_or("pods are built in")?;
    let limits = Limits::default();
    let pod = json::decode(ty, POD.as_bytes(), &limits)?.value;
    let other: serde_json::Value = serde_json::from_str(POD)?;
    let bytes = to_protobuf(ty, &pod);
    let patch = |format, patch: &'static str| {
        let (ty, pod) = (Ref::Static(ty), &pod);
        operation(patch_name(format), POD.len(), move || {
            let validation = FieldValidation::Warn;
            black_box(merge::apply(format, &ty, pod, patch.as_bytes(), validation, &limits)).is_ok()
        })
    };
    let operations = [
        patch(
            Patch::Merge,
            r#"{"metadata":{"labels":{"patched":"yes"}},"spec":{"activeDeadlineSeconds":30}}"#,
        ),
        patch(Patch::Json, r#"[{"op":"add","path":"/metadata/labels/patched","value":"yes"}]"#),
        patch(Patch::Strategic, r#"{"spec":{"containers":[{"name":"web","image":"new"}]}}"#),
        operation("json decode", POD.len(), || black_box(json::decode(ty, POD.as_bytes(), &limits)).is_ok()),
        operation("serde_json from_slice", POD.len(), || {
            black_box(serde_json::from_slice::<serde_json::Value>(POD.as_bytes())).is_ok()
        }),
        operation("json encode", POD.len(), || black_box(to_json(ty, &pod)).len() > 1),
        operation("serde_json to_vec", POD.len(), || black_box(serde_json::to_vec(&other)).is_ok()),
        operation("protobuf decode", bytes.len(), || {
            black_box(protobuf::decode(ty, &bytes, &limits)).is_ok()
        }),
        operation("protobuf encode", bytes.len(), || black_box(to_protobuf(ty, &pod)).len() > 1),
    ];
    let only = arguments.iter().find_map(|argument| argument.strip_prefix("--only=")).unwrap_or_default();
    let managed = managed::operations(ty, &pod)?;
    let operations: Vec<_> =
        managed.into_iter().chain(operations).filter(|operation| operation.name.contains(only)).collect();
    let medians = measure(&operations);
    for (operation, micros) in operations.iter().zip(&medians) {
        Row::new(operation.name)
            .figure("bytes", operation.bytes as f64, "")
            .figure("time", *micros, "us")
            .figure("rate", operation.bytes as f64 / micros, "MB/s")
            .print(style)?;
    }
    if let [.., decode, serde_decode, encode, serde_encode, _, _] = medians.as_slice() {
        Row::new("faster than serde_json")
            .figure("decode", serde_decode / decode, "x")
            .figure("encode", serde_encode / encode, "x")
            .print(style)?;
    }
    Ok(())
}

fn operation<'a>(name: &'static str, bytes: usize, run: impl Fn() -> bool + 'a) -> Operation<'a> {
    Operation {
        name,
        bytes,
        run: Box::new(move || {
            black_box(run());
        }),
    }
}

fn patch_name(format: Patch) -> &'static str {
    match format {
        Patch::Merge => "merge patch",
        Patch::Json => "json patch",
        Patch::Strategic => "strategic merge patch",
    }
}

/// The median time of each operation in microseconds.
fn measure(operations: &[Operation<'_>]) -> Vec<f64> {
    let mut times = vec![Vec::with_capacity(ROUNDS); operations.len()];
    for _ in 0..ROUNDS {
        for (operation, times) in operations.iter().zip(&mut times) {
            let start = Instant::now();
            for _ in 0..REPEATS {
                (operation.run)();
            }
            times.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(REPEATS));
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or_default()
    };
    times.into_iter().map(median).collect()
}

fn to_json(ty: &Type, value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(8192);
    json::encode(ty, value, &mut out);
    out
}

fn to_protobuf(ty: &Type, value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(8192);
    protobuf::encode(ty, value, &mut out);
    out
}
