//! Round trips of random instances of every kind between its versions.
//!
//! A tree that was converted is an instance of the type that it was converted to, and a second round trip
//! changes nothing. What the storage version holds is not changed by the first one either: it can be written
//! through every version.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

#[path = "../../schema/tests/generate/mod.rs"]
mod generate;

use generate::{Random, instance, seed};
use kinds::{Kind, Version};
use object::{Map, Value};
use schema::{Limits, Type, builtin, json};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Instances of each version in a run.
const EACH: u64 = 40;

/// A version of a kind, beside the storage version of its objects.
struct Pair {
    kind: &'static Kind,
    version: &'static Version,
    ty: &'static Type,
    /// The kind that stores the objects.
    owner: &'static Kind,
    stored: &'static Type,
}

impl Pair {
    fn all() -> Vec<Self> {
        let pairs = kinds::all().flat_map(|kind| kind.versions.iter().map(move |version| (kind, version)));
        let pairs = pairs.filter_map(|(kind, version)| {
            let owner = kinds::all().find(|owner| {
                kind.storage_owner()
                    .is_some_and(|wanted| (wanted.group, wanted.resource) == (owner.group, owner.resource))
            })?;
            let stored = owner.storage_version()?.name;
            Some(Self {
                kind,
                version,
                ty: builtin::by_kind(kind.group, version.name, kind.kind).unwrap(),
                owner,
                stored: builtin::by_kind(owner.group, stored, owner.kind).unwrap(),
            })
        });
        pairs.collect()
    }

    /// Sets the defaults of the version.
    fn default(&self, object: &mut Value) {
        schema::default(self.ty, object);
        let map = object.as_map_mut().unwrap();
        match self.version.conversion {
            Some(conversion) => (conversion.default)(map),
            None => self.kind.strategy.default(map),
        }
    }

    /// Converts to the storage version.
    fn store(&self, object: &mut Value) {
        if let Some(conversion) = self.version.conversion {
            (conversion.to_stored)(object);
        }
        set_type(object, self.stored);
    }

    /// Converts from the storage version.
    fn read(&self, object: &mut Value) {
        if let Some(conversion) = self.version.conversion {
            (conversion.from_stored)(object);
        }
        set_type(object, self.ty);
    }

    /// Calls `check` with random numbers for each instance; a failure names the seed.
    fn each(&self, check: impl Fn(&mut Random)) {
        let seed = seed();
        for round in 0..EACH {
            let check = AssertUnwindSafe(|| check(&mut Random::new(seed.wrapping_add(round))));
            let checked = catch_unwind(check);
            if let Err(panic) = checked {
                eprintln!("KEELSON_SEED={seed} replays this: {} {}", self.kind.kind, self.version.name);
                resume_unwind(panic);
            }
        }
    }
}

/// A random object of a type, with a name.
fn named(ty: &'static Type, random: &mut Random) -> Value {
    let mut object = instance(ty, random);
    let map = object.as_map_mut().unwrap();
    let metadata = map.get_or_insert_with("metadata", || Map::new().into());
    metadata.as_map_mut().unwrap().insert("name", "a");
    object
}

fn set_type(object: &mut Value, ty: &Type) {
    let kind = ty.kind.as_ref().unwrap();
    let map = object.as_map_mut().unwrap();
    map.insert("kind", kind.kind.clone());
    map.insert("apiVersion", kind.api_version());
}

/// Checks that a tree is an instance of a type: its JSON has no unknown fields, and reads as the same tree.
fn check_is_instance(ty: &'static Type, value: &Value) {
    let mut text = Vec::new();
    json::encode(ty, value, &mut text);
    let text = String::from_utf8(text).unwrap();
    let read = json::decode(ty, text.as_bytes(), &Limits::default());
    let read = read.unwrap_or_else(|error| panic!("{}: {error}: {text}", ty.name));
    assert_eq!(read.strict, [], "{text}");
    assert_eq!(&read.value, value, "{text}");
}

#[test]
fn written_versions_are_stable_after_one_round_trip() {
    for pair in Pair::all() {
        pair.each(|random| {
            let mut object = named(pair.ty, random);
            pair.default(&mut object);
            pair.store(&mut object);
            check_is_instance(pair.stored, &object);
            pair.read(&mut object);
            check_is_instance(pair.ty, &object);
            let once = object.clone();
            pair.store(&mut object);
            pair.read(&mut object);
            assert_eq!(object, once);
        });
    }
}

#[test]
fn stored_objects_survive_the_way_through_every_version() {
    for pair in Pair::all() {
        pair.each(|random| {
            let mut object = named(pair.stored, random);
            schema::default(pair.stored, &mut object);
            if pair.owner.kind == "HorizontalPodAutoscaler" {
                keep_what_v1_has(&mut object, random);
            }
            pair.owner.strategy.default(object.as_map_mut().unwrap());
            let before = object.clone();
            pair.read(&mut object);
            check_is_instance(pair.ty, &object);
            pair.store(&mut object);
            assert_eq!(object, before);
        });
    }
}

/// Replaces the metrics of an autoscaler by valid ones. `autoscaling/v1` has their targets without a type,
/// and the one for CPU utilization last; of a status it has amounts that are not absent.
fn keep_what_v1_has(object: &mut Value, random: &mut Random) {
    let object = object.as_map_mut().unwrap();
    let target = |ty: &str| {
        let amount = match ty {
            "Utilization" => ("averageUtilization", Value::from(50i64)),
            "Value" => ("value", Value::from("100m")),
            _ => ("averageValue", Value::from("2")),
        };
        Value::from(Map::from_iter([("type", Value::from(ty)), (amount.0, amount.1)]))
    };
    let metric = |ty: &'static str, field: &'static str, source: Vec<(&'static str, Value)>| {
        Value::from(Map::from_iter([("type", Value::from(ty)), (field, Map::from_iter(source).into())]))
    };
    let requests = || Value::from(Map::from_iter([("name", "requests")]));
    let described = || Value::from(Map::from_iter([("kind", "Service"), ("name", "web")]));
    let mut metrics = vec![
        metric("Pods", "pods", vec![("metric", requests()), ("target", target("AverageValue"))]),
        metric("External", "external", vec![("metric", requests()), ("target", target("Value"))]),
        metric(
            "Object",
            "object",
            vec![("describedObject", described()), ("target", target("Value")), ("metric", requests())],
        ),
        metric("Resource", "resource", vec![("name", "memory".into()), ("target", target("AverageValue"))]),
        metric(
            "ContainerResource",
            "containerResource",
            vec![("name", "cpu".into()), ("target", target("Utilization")), ("container", "c".into())],
        ),
        metric("Resource", "resource", vec![("name", "cpu".into()), ("target", target("Utilization"))]),
    ];
    metrics.retain(|_| random.one_in(2));
    let spec = object.get_or_insert_with("spec", || Map::new().into()).as_map_mut().unwrap();
    match metrics.is_empty() {
        true => drop(spec.remove("metrics")),
        false => drop(spec.insert("metrics", metrics)),
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_map_mut) {
        status.remove("currentMetrics");
        if status.is_empty() {
            object.remove("status");
        }
    }
}

#[test]
fn versions_that_are_about_to_go_are_warned_of() {
    let deprecated: Vec<&str> = kinds::all()
        .flat_map(|kind| kind.versions.iter().filter_map(|version| version.deprecated))
        .filter(|why| why.contains("unavailable"))
        .collect();
    let mut sorted = deprecated.clone();
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        [
            "admissionregistration.k8s.io/v1beta1 ValidatingAdmissionPolicy is deprecated in v1.31+, unavailable in v1.34+",
            "admissionregistration.k8s.io/v1beta1 ValidatingAdmissionPolicyBinding is deprecated in v1.31+, unavailable in v1.34+",
            "storage.k8s.io/v1alpha1 VolumeAttributesClass is deprecated in v1.32+, unavailable in v1.35+",
        ]
    );
}
