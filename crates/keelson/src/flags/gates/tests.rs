use super::*;

fn resolved(value: &str) -> Resolved {
    resolve(&[value.to_owned()]).unwrap()
}

fn error(value: &str) -> String {
    resolve(&[value.to_owned()]).unwrap_err()
}

#[test]
fn gates_at_their_default_are_accepted_silently() {
    for gate in GATES.iter().filter(|gate| matches!(gate.stage, Stage::Alpha | Stage::Beta)) {
        let expected = Resolved { gates: Gates::default(), warnings: Vec::new() };
        if gate.name == "AllBeta" {
            continue; // Turns off what is on by default.
        }
        assert_eq!(resolved(&format!("{}={}", gate.name, gate.default)), expected, "{}", gate.name);
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
    let gates = resolve(&both).unwrap().gates;
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
    assert_eq!(
        error("AuthorizeWithSelectors=false"),
        "AuthorizeNodeWithSelectors feature requires AuthorizeWithSelectors feature to be enabled"
    );
    assert_eq!(resolved("AuthorizeWithSelectors=false,AuthorizeNodeWithSelectors=false").warnings.len(), 2);
}

#[test]
fn service_ranges_have_any_size_without_bitmap_allocators() {
    let any_size = |value: &str| resolved(value).gates.service_ranges_of_any_size;
    assert!(any_size("DisableAllocatorDualWrite=true"));
    assert!(!any_size("DisableAllocatorDualWrite=true,MultiCIDRServiceAllocator=false"));
}

#[test]
fn table_is_sorted_and_complete() {
    assert!(GATES.is_sorted_by(|one, next| one.name < next.name));
    // 136 of them are alpha or beta, and listed by the reference's help.
    let listed = GATES.iter().filter(|gate| matches!(gate.stage, Stage::Alpha | Stage::Beta)).count();
    assert_eq!((GATES.len(), listed), (190, 136));
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
    };
    assert_eq!(all.gates.objects, on);
    assert!(all.gates.admission.dynamic_resource_allocation && all.warnings.is_empty(), "{all:?}");
}
