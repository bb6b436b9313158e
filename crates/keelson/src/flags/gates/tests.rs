use super::*;

fn at(minor: u64, value: &str) -> Result<Resolved, String> {
    resolve(&[value.to_owned()], EmulatedVersion { major: 1, minor })
}

fn resolved(value: &str) -> Resolved {
    at(33, value).unwrap()
}

fn error(value: &str) -> String {
    at(33, value).unwrap_err()
}

#[test]
fn gates_at_their_default_are_accepted_silently() {
    for gate in GATES.iter().filter(|gate| !gate.is_of_all()) {
        let spec = gate.at(EmulatedVersion::OWN);
        if matches!(spec.stage, Stage::Alpha | Stage::Beta) {
            let same = resolved(&format!("{}={}", gate.name, spec.default));
            assert_eq!((same.gates, same.warnings), (Gates::default(), Vec::new()), "{}", gate.name);
        }
    }
}

#[test]
fn unknown_gates_are_refused() {
    assert_eq!(error("NoSuchGate=true"), "unrecognized feature gate: NoSuchGate");
    assert_eq!(error("=true"), "unrecognized feature gate: ");
}

#[test]
fn locked_gates_keep_their_default() {
    assert_eq!(
        error("SidecarContainers=false"),
        "cannot set feature gate SidecarContainers to false, feature is locked to true"
    );
    assert_eq!(
        error("AllowServiceLBStatusOnNonLB=true,SidecarContainers=false"),
        "[cannot set feature gate AllowServiceLBStatusOnNonLB to true, feature is locked to false, \
         cannot set feature gate SidecarContainers to false, feature is locked to true]"
    );
}

#[test]
fn ga_and_deprecated_gates_are_accepted_with_a_warning() {
    assert_eq!(
        resolved("SidecarContainers=true").warnings,
        ["Setting GA feature gate SidecarContainers=true. It will be removed in a future release."]
    );
    assert_eq!(
        resolved("KMSv1=true").warnings,
        ["Setting deprecated feature gate KMSv1=true. It will be removed in a future release."]
    );
}

#[test]
fn malformed_values_are_refused() {
    assert_eq!(error("WatchList"), "missing bool value for WatchList");
    assert_eq!(
        error("WatchList=x"),
        r#"invalid value of WatchList=x, err: strconv.ParseBool: parsing "x": invalid syntax"#
    );
    assert_eq!(
        error("WatchList="),
        r#"invalid value of WatchList=, err: strconv.ParseBool: parsing "": invalid syntax"#
    );
}

#[test]
fn gates_may_name_their_component() {
    assert!(resolved("kube:WatchList=true").gates.watch_list);
    assert!(resolved(" WatchList = T ,").gates.watch_list);
    assert_eq!(error("wardle:WatchList=true"), "component not registered: wardle");
    assert_eq!(
        error("kube:WatchList=true,HPAScaleToZero=true"),
        "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
    );
}

#[test]
fn last_value_of_a_gate_counts_across_flags() {
    let both = ["WatchList=true,CBORServingAndStorage=true".to_owned(), "WatchList=false".to_owned()];
    let gates = resolve(&both, EmulatedVersion::OWN).unwrap().gates;
    assert_eq!((gates.watch_list, gates.cbor), (false, true));
}

#[test]
fn all_alpha_and_all_beta_change_the_gates_that_are_not_given() {
    let all = resolved("AllAlpha=true");
    assert_eq!((all.gates.cbor, all.gates.watch_list, all.gates.unsafe_delete), (true, false, true));
    assert_eq!(all.warnings.len(), 1);
    assert!(all.warnings.iter().all(|warning| warning.contains("APIServingWithRoutine, ")), "{all:?}");
    assert!(!resolved("CBORServingAndStorage=false,AllAlpha=true").gates.cbor);
    let none = resolved("AllBeta=false,WatchList=true").gates;
    assert_eq!((none.compression, none.watch_list), (false, true));
    assert!(resolved("AllBeta=true").gates.watch_list);
}

#[test]
fn changed_gates_without_effect_give_one_warning_each() {
    assert_eq!(
        resolved("HPAScaleToZero=true,PodLogsQuerySplitStreams=true,NodeSwap=true").warnings,
        [
            "the feature gate HPAScaleToZero is accepted but has no effect yet",
            "the feature gate PodLogsQuerySplitStreams is accepted but has no effect yet",
        ]
    );
}

#[test]
fn node_selectors_depend_on_selectors() {
    let conflict = |value: &str| resolved(value).conflict;
    assert_eq!(
        conflict("AuthorizeWithSelectors=false"),
        Some("AuthorizeNodeWithSelectors feature requires AuthorizeWithSelectors feature to be enabled")
    );
    assert_eq!(conflict("AuthorizeWithSelectors=false,AuthorizeNodeWithSelectors=false"), None);
}

#[test]
fn service_ranges_have_any_size_without_bitmap_allocators() {
    let any_size = |value: &str| resolved(value).gates.service_ranges_of_any_size;
    assert!(any_size("DisableAllocatorDualWrite=true"));
    assert!(!any_size("DisableAllocatorDualWrite=true,MultiCIDRServiceAllocator=false"));
}

#[test]
fn table_is_sorted_and_its_stages_too() {
    assert!(GATES.is_sorted_by(|one, next| one.name < next.name));
    for gate in GATES {
        assert!(gate.specs.is_sorted_by(|one, next| one.since < next.since), "{}", gate.name);
    }
}

/// The gates of the running reference: name, and for 1.31, 1.32 and 1.33 its stage and whether it is on. A
/// release that does not have the gate has a hyphen.
const REFERENCE: &str = include_str!("reference.tsv");

#[test]
fn every_release_has_the_gates_of_the_reference() {
    let releases = [31, 32, 33].map(|minor| at(minor, "").unwrap().states);
    for (column, states) in (1..).zip(&releases) {
        let expected: Vec<String> = REFERENCE
            .lines()
            .map(|line| line.split('\t').collect::<Vec<_>>())
            .filter(|row| row[column] != "-")
            .map(|row| format!("{} {}", row[0], row[column]))
            .collect();
        let shown = |state: &GateState| format!("{} {}={}", state.name, state.stage, state.enabled);
        assert_eq!(states.iter().map(shown).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn stages_defaults_and_locks_are_those_of_the_release() {
    // Alpha, beta, beta that is off, locked.
    assert_eq!([31, 32, 33].map(|minor| at(minor, "").unwrap().gates.watch_list), [false, true, false]);
    let all = |minor| at(minor, "AllAlpha=true").unwrap().gates.watch_list;
    assert_eq!([31, 32].map(all), [true, true]);
    assert!(!at(32, "AllBeta=false").unwrap().gates.watch_list);
    let sidecars = |minor| at(minor, "SidecarContainers=false");
    assert!(sidecars(32).is_ok());
    assert_eq!(
        sidecars(33).unwrap_err(),
        "cannot set feature gate SidecarContainers to false, feature is locked to true"
    );
    let traffic = |minor| at(minor, "PreferSameTrafficDistribution=true");
    assert_eq!(
        traffic(32).unwrap_err(),
        "cannot set feature gate PreferSameTrafficDistribution to true, feature is PreAlpha at emulated version 1.32"
    );
    assert!(traffic(33).unwrap().gates.objects.prefer_same_traffic_distribution);
    let deprecated =
        "Setting deprecated feature gate SeparateCacheWatchRPC=true. It will be removed in a future release.";
    let warns =
        |minor| at(minor, "SeparateCacheWatchRPC=true").unwrap().warnings.iter().any(|one| one == deprecated);
    assert_eq!([32, 33].map(warns), [false, true]);
}

#[test]
fn gates_that_only_the_release_changes_give_one_warning() {
    let warnings = at(32, "").unwrap().warnings;
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("feature gates without an effect yet are changed: "), "{warnings:?}");
    assert!(warnings[0].contains(" PodLifecycleSleepActionAllowZero,"), "{warnings:?}");
    assert_eq!(resolved("").warnings, Vec::<String>::new());
}

#[test]
fn gates_of_kinds_have_an_effect_and_no_warning() {
    let all = resolved(
        "PreferSameTrafficDistribution=true,DynamicResourceAllocation=true,CoordinatedLeaderElection=true",
    );
    let on = kinds::Gates {
        prefer_same_traffic_distribution: true,
        dynamic_resource_allocation: true,
        coordinated_leader_election: true,
        ..kinds::Gates::DEFAULT
    };
    assert_eq!(all.gates.objects, on);
    assert!(all.gates.admission.dynamic_resource_allocation && all.warnings.is_empty(), "{all:?}");
}
