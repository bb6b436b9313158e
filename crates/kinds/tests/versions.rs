//! Round trips of random instances of every kind between its versions.
//!
//! A tree that was converted is an instance of the type that it was converted to, and a second round trip
//! changes nothing. What the storage version holds is not changed by the first one either: it can be written
//! through every version.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

#[path = "../../schema/tests/generate/mod.rs"]
mod generate;

use generate::{Random, instance, seed};
use kinds::{Kind, LifeCycle, Release, Replacement, ResourceType, Version};
use object::{Map, Text, Value};
use schema::{Limits, Type, builtin, json};
use std::collections::HashMap;
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

/// What the reference declares: group version, kind, releases in which it is introduced, deprecated and
/// removed, and what replaces it. A hyphen is nothing.
const LIFE_CYCLES: &str = include_str!("reference/life_cycles.tsv");

/// All versions of all kinds, with their group version.
fn versions() -> impl Iterator<Item = (&'static Kind, &'static Version, Text)> {
    kinds::all().flat_map(|kind| {
        kind.versions.iter().map(move |version| (kind, version, kinds::api_version(kind.group, version.name)))
    })
}

#[test]
fn life_cycles_are_those_of_the_reference() {
    let known: HashMap<(&str, &str), Vec<&str>> = LIFE_CYCLES
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .map(|row| ((row[0], row[1]), row[2..].to_vec()))
        .collect();
    for (kind, version, api_version) in versions() {
        let LifeCycle { introduced, deprecated, removed, replacement } = version.life;
        let release =
            |release: Option<Release>| release.map_or("-".to_owned(), |release| release.to_string());
        let declared = [
            release(Some(introduced)),
            release(deprecated),
            release(removed),
            replacement
                .map_or("-".to_owned(), |Replacement { api_version, kind }| format!("{api_version} {kind}")),
        ];
        // The reference says nothing of some versions: then every release has them.
        let always = || vec!["1.0", "-", "-", "-"];
        let mut expected = known.get(&(&*api_version, kind.kind)).cloned().unwrap_or_else(always);
        if expected[0] == "-" {
            expected[0] = "1.0";
        }
        assert_eq!(declared.each_ref().map(String::as_str)[..], expected, "{api_version} {}", kind.kind);
    }
}

#[test]
fn deprecated_versions_are_warned_of_with_their_end() {
    let mut warnings: Vec<String> = versions()
        .filter_map(|(kind, version, _)| ResourceType::builtin(kind, version))
        .filter_map(|ty| {
            let removed = ty.removed_release.clone();
            ty.deprecation(None).map(|warning| format!("{warning} [{}]", removed.unwrap_or_default()))
        })
        .collect();
    warnings.sort_unstable();
    assert_eq!(
        warnings,
        [
            "admissionregistration.k8s.io/v1beta1 ValidatingAdmissionPolicy is deprecated in v1.31+, unavailable in v1.34+ [1.34]",
            "admissionregistration.k8s.io/v1beta1 ValidatingAdmissionPolicyBinding is deprecated in v1.31+, unavailable in v1.34+ [1.34]",
            "authentication.k8s.io/v1beta1 SelfSubjectReview is deprecated in v1.30+, unavailable in v1.33+ [1.33]",
            "flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema is deprecated in v1.29+, unavailable in v1.32+; use flowcontrol.apiserver.k8s.io/v1 FlowSchema [1.32]",
            "flowcontrol.apiserver.k8s.io/v1beta3 PriorityLevelConfiguration is deprecated in v1.29+, unavailable in v1.32+; use flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration [1.32]",
            "storage.k8s.io/v1alpha1 VolumeAttributesClass is deprecated in v1.32+, unavailable in v1.35+ [1.35]",
            "v1 ComponentStatus is deprecated in v1.19+ []",
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice []",
        ]
    );
}

#[test]
fn subresources_of_another_kind_are_not_deprecated() {
    let (kind, version, _) =
        versions().find(|(kind, version, _)| kind.resource == "deployments" && version.name == "v1").unwrap();
    let deprecated =
        ResourceType { deprecated: Some("x".into()), ..ResourceType::builtin(kind, version).unwrap() };
    let of = |name: &str| deprecated.deprecation(deprecated.subresource(name)).is_some();
    assert_eq!((of("status"), of("scale")), (true, false));
}

/// The reference stores a kind in its most preferred version that the oldest compatible release has, or else
/// in the version of the newest release. The oldest releases that can be asked for are 1.31 and 1.32.
#[test]
fn storage_versions_are_the_same_for_every_oldest_compatible_release() {
    /// What the reference stores in one version, whatever release reads it.
    const FIXED: [&str; 9] = [
        "clustertrustbundles",
        "leasecandidates",
        "ipaddresses",
        "servicecidrs",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "volumeattributesclasses",
        "devicetaintrules",
        "storageversions",
    ];
    for kind in kinds::all().filter(|kind| !FIXED.contains(&kind.resource)) {
        let Some(stored) = kind.storage_version() else { continue };
        for oldest in [31, 32] {
            // The version of the newest release is preferred.
            let others = kind.versions.iter().filter(|version| version.name != stored.name);
            let chosen = std::iter::once(stored).chain(others).find(|version| {
                version.life.introduced <= Release(oldest) && version.life.replacement.is_none()
            });
            assert_eq!(chosen.unwrap_or(stored).name, stored.name, "{} in 1.{oldest}", kind.resource);
        }
    }
}

#[test]
fn zero_shares_of_v1beta3_are_kept_by_an_annotation() {
    let (kind, version, _) = versions()
        .find(|(kind, version, _)| {
            kind.resource == "prioritylevelconfigurations" && version.name == "v1beta3"
        })
        .unwrap();
    let ty = builtin::by_kind(kind.group, "v1beta3", kind.kind).unwrap();
    let read = |text: &str| json::decode(ty, text.as_bytes(), &Limits::default()).unwrap().value;
    let shares =
        |object: &Value| object.get("spec")?.get("limited")?.get("nominalConcurrencyShares")?.as_i64();
    let conversion = version.conversion.unwrap();
    let annotations = r#""annotations":{"flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares":""},"#;
    for (annotations, expected) in [("", 30), (annotations, 0)] {
        let mut object = read(&format!(
            r#"{{"metadata":{{{annotations}"name":"a"}},"spec":{{"type":"Limited","limited":{{"nominalConcurrencyShares":0}}}}}}"#
        ));
        let before = object.get("metadata").cloned();
        (conversion.default)(object.as_map_mut().unwrap());
        (conversion.to_stored)(&mut object);
        assert_eq!(shares(&object), Some(expected));
        assert!(object.get("metadata").unwrap().get("annotations").is_none());
        (conversion.from_stored)(&mut object);
        // In this version zero is no value of its own.
        let shown = (expected > 0).then_some(expected);
        assert_eq!((object.get("metadata").cloned(), shares(&object)), (before, shown));
    }
}
