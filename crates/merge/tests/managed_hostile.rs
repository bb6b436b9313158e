//! Managed fields of hostile objects: bounded time, no panic, nothing lost.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

use merge::managed::{Error, Force, Ownership, Typed, Versions, Writer};
use object::path_set::Set;
use object::{Map, Text, Value};
use schema::{Limits, Ref, Shape, Type, builtin, json};
use std::time::{Duration, Instant};

struct One(Ref<Type>, &'static str);

impl One {
    fn of(group: &str, version: &'static str, kind: &str) -> Self {
        let name = version.rsplit('/').next().unwrap();
        Self(Ref::Static(builtin::by_kind(group, name, kind).unwrap()), version)
    }

    fn apply(&self, live: Option<&Value>, config: &Value) -> Result<Value, Error> {
        let writer = Writer { name: "m", now: &Text::known("2024-01-01T00:00:00Z"), empty: &[] };
        self.ownership().apply(live, config, writer, Force::Yes)
    }

    fn update(&self, live: Option<&Value>, new: &mut Value) {
        let writer = Writer { name: "m", now: &Text::known("2024-01-01T00:00:00Z"), empty: &[] };
        self.ownership().update(live, new, writer);
    }

    fn ownership(&self) -> Ownership<'_> {
        Ownership { ty: &self.0, api_version: self.1, subresource: "", versions: self }
    }

    fn decode(&self, text: &str) -> Value {
        json::decode_shape(&Shape::Struct(self.0.clone()), text.as_bytes(), &Limits::default()).unwrap().value
    }
}

impl Versions for One {
    fn ty(&self, version: &str) -> Option<Ref<Type>> {
        (version == self.1).then(|| self.0.clone())
    }

    fn convert(&self, object: Value, _from: &str, to: &str) -> Option<Typed> {
        Some(Typed { ty: self.ty(to)?, value: object })
    }

    fn unowned(&self, _version: &str) -> Option<&Set> {
        None
    }
}

fn any(text: &str) -> Value {
    json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::default()).unwrap().value
}

#[test]
fn whole_floats_of_a_configuration_are_integers_and_fractions_are_refused() {
    let deployments = One::of("apps", "apps/v1", "Deployment");
    let config = |replicas: &str, created: &str| {
        any(&format!(
            r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"a","creationTimestamp":{created}}},"spec":{{"replicas":{replicas}}}}}"#
        ))
    };
    let made = deployments.apply(None, &config("3.0", "null")).unwrap();
    assert_eq!(made.get("spec").and_then(|spec| spec.get("replicas")), Some(&Value::Int(3)));
    let live = deployments
        .decode(r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"d"}}"#);
    for (replicas, created, why) in [
        ("1.5", "null", "cannot convert float64 to int32"),
        ("3", "5", "json: cannot unmarshal number into Go value of type string"),
    ] {
        let refused = deployments.apply(Some(&live), &config(replicas, created)).unwrap_err();
        let start = "failed to convert new object (/a; apps/v1, Kind=Deployment) to proper version: unable to convert unstructured object to apps/v1, Kind=Deployment";
        assert_eq!(refused.to_string(), format!("{start}: {why}"));
    }
}

fn within(seconds: u64, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    assert!(start.elapsed() < Duration::from_secs(seconds), "{:?}", start.elapsed());
}

#[test]
fn long_lists_are_applied_in_bounded_time() {
    let maps = One::of("", "v1", "ConfigMap");
    let names = |offset: usize, step: usize| {
        (0..20_000).map(|at| format!("\"n{}\"", offset + at * step)).collect::<Vec<_>>().join(",")
    };
    let config = |names: &str| {
        any(&format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a","finalizers":[{names}]}}}}"#
        ))
    };
    within(30, || {
        let made = maps.apply(None, &config(&names(0, 1))).unwrap();
        let merged = maps.apply(Some(&made), &config(&names(10_000, 1))).unwrap();
        let list = merged.get("metadata").and_then(|metadata| metadata.get("finalizers")).unwrap();
        assert_eq!(list.as_list().unwrap().len(), 20_000);
        let mut reversed = merged.clone();
        let metadata = reversed.as_map_mut().unwrap().get_mut("metadata").unwrap().as_map_mut().unwrap();
        metadata.get_mut("finalizers").unwrap().as_list_mut().unwrap().reverse();
        maps.update(Some(&merged), &mut reversed);
        let same = config(&["\"n\""; 20_000].join(","));
        assert!(matches!(maps.apply(Some(&merged), &same), Err(Error::Failed(_))));
    });
}

#[test]
fn large_maps_with_many_owners_are_applied_in_bounded_time() {
    let maps = One::of("", "v1", "ConfigMap");
    let data = (0..20_000).map(|at| format!("\"k{at}\":\"v\"")).collect::<Vec<_>>().join(",");
    let text = |data: &str, entries: &str| {
        format!(r#"{{"metadata":{{"name":"a","uid":"u","managedFields":[{entries}]}},"data":{{{data}}}}}"#)
    };
    let entry = |at: usize| {
        format!(
            r#"{{"manager":"m{at}","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{{"f:data":{{"f:k{at}":{{}}}}}}}}"#
        )
    };
    let entries = (0..5_000).map(entry).collect::<Vec<_>>().join(",");
    within(30, || {
        let live = maps.decode(&text(&data, &entry(0)));
        let mut new = maps.decode(&text(&data.replace(":\"v\"", ":\"w\""), &entries));
        maps.update(Some(&live), &mut new);
        let left = new.get("metadata").and_then(|metadata| metadata.get("managedFields")).unwrap();
        let [only] = left.as_list().unwrap() else { panic!("all of it was taken: {left:?}") };
        assert_eq!(only.get("manager").and_then(Value::as_str), Some("m"));
    });
}

#[test]
fn deep_objects_are_applied_and_updated() {
    let revisions = One::of("apps", "apps/v1", "ControllerRevision");
    let nested = format!("{}1{}", "{\"a\":".repeat(500), "}".repeat(500));
    let text = format!(
        r#"{{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{{"name":"a"}},"revision":1,"data":{nested}}}"#
    );
    let made = revisions.apply(None, &any(&text)).unwrap();
    let mut changed = revisions.decode(&text.replace(":1}", ":2}"));
    revisions.update(Some(&made), &mut changed);
    assert!(changed.get("metadata").and_then(|metadata| metadata.get("managedFields")).is_some());
}

#[test]
fn numbers_without_a_total_order_can_be_keys() {
    let pods = One::of("", "v1", "Pod");
    let ports: Vec<_> = (0..300_i64)
        .flat_map(|at| {
            let number = 9_007_199_254_740_900 + at;
            [format!("{{\"containerPort\":{number}}}"), format!("{{\"containerPort\":{number}.5}}")]
        })
        .collect();
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a"}},"spec":{{"containers":[{{"name":"c","ports":[{}]}}]}}}}"#,
        ports.join(",")
    );
    assert!(matches!(pods.apply(None, &any(&text)), Err(Error::Failed(_))));
}

#[test]
fn garbled_configurations_are_applied_or_refused() {
    let pods = One::of("", "v1", "Pod");
    let text = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"a":"b"},"finalizers":["x","y"],"ownerReferences":[{"uid":"u","name":"n"}]},"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80,"protocol":"TCP"}],"env":[{"name":"A","value":"1"}],"resources":{"limits":{"cpu":"1"}}}],"volumes":[{"name":"v","emptyDir":{}}],"tolerations":[{"key":"k"}]}}"#;
    let live = pods.apply(None, &any(text)).unwrap();
    let parts = ["null", "[]", "{}", "\"\"", "1", "[null]", "[{}]", "{\"\":null}", "true", "[[1]]", "1e400"];
    let (mut applied, mut refused) = (0, 0);
    for (at, _) in text.match_indices(':') {
        for part in parts {
            let Some(end) = value_end(text, at + 1) else { continue };
            let mutilated = format!("{}{part}{}", &text[..=at], &text[end..]);
            let decoded = json::decode_shape(&Shape::Any, mutilated.as_bytes(), &Limits::default());
            let Ok(config) = decoded else { continue };
            match pods.apply(Some(&live), &config.value) {
                Ok(object) => {
                    assert!(
                        object.get("metadata").and_then(Value::as_map).is_some_and(|m: &Map| !m.is_empty())
                    );
                    applied += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(applied > 50 && refused > 50, "{applied} {refused}");
}

/// Where the value that begins at `start` ends.
fn value_end(text: &str, start: usize) -> Option<usize> {
    let (mut depth, mut quoted) = (0, false);
    for (at, byte) in text.bytes().enumerate().skip(start) {
        match byte {
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted && depth == 0 => return Some(at),
            b'}' | b']' if !quoted => depth -= 1,
            b',' if !quoted && depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

#[test]
fn many_managers_are_put_together_in_bounded_time() {
    let maps = One::of("", "v1", "ConfigMap");
    let entry = |at: usize| {
        format!(
            r#"{{"manager":"m{at}","operation":"Update","apiVersion":"v1","time":"2024-01-01T00:00:00Z",
                "fieldsType":"FieldsV1","fieldsV1":{{"f:data":{{"f:k{at}":{{}}}}}}}}"#
        )
    };
    let entries: Vec<String> = (0..15_000).map(entry).collect();
    let data: Vec<String> = (0..15_000).map(|at| format!(r#""k{at}":"""#)).collect();
    let text = format!(
        r#"{{"metadata":{{"managedFields":[{}]}},"data":{{{}}}}}"#,
        entries.join(","),
        data.join(",")
    );
    within(60, || {
        let mut made = maps.decode(&text);
        maps.update(None, &mut made);
        let config = any(r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"k1":"1"}}"#);
        let applied = maps.apply(Some(&made), &config).unwrap();
        let entries = applied.get("metadata").unwrap().get("managedFields").unwrap().as_list().unwrap();
        assert!(entries.len() <= 11, "{}", entries.len());
    });
}
