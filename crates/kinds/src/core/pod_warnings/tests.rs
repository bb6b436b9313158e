use crate::testing::{status_warnings, warnings};

fn pod(metadata: &str, spec: &str) -> Vec<String> {
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{{metadata}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]{}{spec}}}}}"#,
        if spec.is_empty() { "" } else { "," }
    );
    warnings(&text, None)
}

#[test]
fn names_and_annotations_that_do_nothing_are_warned_of() {
    let annotations = r#""name":"a.b","annotations":{"scheduler.alpha.kubernetes.io/critical-pod":"",
        "seccomp.security.alpha.kubernetes.io/pod":"unconfined","container.seccomp.security.alpha.kubernetes.io/c":"unconfined",
        "container.apparmor.security.beta.kubernetes.io/c":"unconfined"}"#;
    assert_eq!(
        pod(annotations, ""),
        [
            r#"metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the "appArmorProfile" field instead"#,
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
            r#"metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the "priorityClassName" field instead"#,
            r#"metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the "seccompProfile" field instead"#,
            r#"metadata.annotations[container.seccomp.security.alpha.kubernetes.io/c]: non-functional in v1.27+; use the "seccompProfile" field instead"#,
        ]
    );
}

#[test]
fn placement_by_deprecated_labels_or_without_a_selector_is_warned_of() {
    let found = pod(
        "",
        r#""nodeSelector":{"beta.kubernetes.io/os":"x"},"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[
            {"weight":1,"preference":{"matchExpressions":[{"key":"beta.kubernetes.io/arch","operator":"In","values":["-"]}]}}]},
            "podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"k"}]}},
        "topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"failure-domain.beta.kubernetes.io/zone","whenUnsatisfiable":"DoNotSchedule"}]"#,
    );
    let preferred = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0]";
    assert_eq!(
        found[0],
        r#"spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead"#
    );
    assert_eq!(
        found[1],
        format!(
            r#"{preferred}.key: beta.kubernetes.io/arch is deprecated since v1.14; use "kubernetes.io/arch" instead"#
        )
    );
    assert!(found[2].starts_with(&format!("{preferred}.values[0]: - is invalid, a valid label")));
    assert_eq!(
        found[3..],
        [
            r#"spec.topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#,
            "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null labelSelector results in matching no pod",
        ]
    );
}

#[test]
fn duplicates_and_odd_values_are_warned_of() {
    let found = pod(
        "",
        r#""hostAliases":[{"ip":"1.1.1.1"},{"ip":"1.1.1.1"},{"ip":"::FF"}],"imagePullSecrets":[{"name":"a"},{"name":"a"},{}],
        "dnsConfig":{"nameservers":["010.1.1.1"]},
        "initContainers":[{"name":"i","image":"i","env":[{"name":"A"},{"name":"A","value":"x$(A)"},{"name":"A","value":"$(A)"}],
            "resources":{"limits":{"memory":"1500m"}}}]"#,
    );
    assert_eq!(
        found,
        [
            r#"spec.hostAliases[1].ip: duplicate ip "1.1.1.1""#,
            r#"spec.imagePullSecrets[1].name: duplicate name "a""#,
            r#"spec.imagePullSecrets[2].name: invalid empty name """#,
            r#"spec.initContainers[0].resources.limits[memory]: fractional byte value "1500m" is invalid, must be an integer"#,
            r#"spec.initContainers[0].resources.requests[memory]: fractional byte value "1500m" is invalid, must be an integer"#,
            r#"spec.initContainers[0].env[2]: hides previous definition of "A", which may be dropped when using apply"#,
            r#"spec.dnsConfig.nameservers[0]: non-standard IP address "010.1.1.1" will be considered invalid in a future Kubernetes release: use "10.1.1.1""#,
            r#"spec.hostAliases[2].ip: IPv6 address "::FF" should be in RFC 5952 canonical format ("::ff")"#,
        ]
    );
}

#[test]
fn ports_that_get_in_each_others_way_are_warned_of() {
    let found = pod(
        "",
        r#""initContainers":[{"name":"i","image":"i","ports":[{"name":"p","containerPort":80,"hostPort":1},{"containerPort":80,"hostIP":"1.1.1.1"}]},
        {"name":"j","image":"i","ports":[{"name":"p","containerPort":80,"hostPort":1},{"containerPort":80,"hostPort":1,"hostIP":"1.1.1.1"}]}]"#,
    );
    let (i, j) = ("spec.initContainers[0].ports", "spec.initContainers[1].ports");
    assert_eq!(
        found,
        [
            format!(
                "{i}[1]: hostIP set without hostPort: {{Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:1.1.1.1}}"
            ),
            format!("{i}[1]: overlapping port definition with {i}[0]"),
            format!("{j}[0]: duplicate port definition with {i}[0]"),
            format!("{j}[0]: overlapping port definition with {i}[1]"),
            format!("{j}[1]: dangerously ambiguous port definition with {i}[0]"),
            format!("{j}[1]: overlapping port definition with {i}[1]"),
            format!("{j}[1]: dangerously ambiguous port definition with {j}[0]"),
            format!(
                r#"{j}[0]: duplicate port name "p" with {i}[0], services and probes that select ports by name will use {i}[0]"#
            ),
        ]
    );
}

#[test]
fn old_volumes_and_files_that_hide_each_other_are_warned_of() {
    let found = pod(
        "",
        r#""volumes":[{"name":"g","gitRepo":{"repository":"r"}},{"name":"s","storageos":{"volumeName":"v"}},
        {"name":"e","ephemeral":{"volumeClaimTemplate":{"spec":{"resources":{"requests":{"storage":"1500m"}}}}}},
        {"name":"c","configMap":{"name":"m","items":[{"key":"a","path":"p/"},{"key":"b","path":"pq"},{"key":"d","path":"p/q"}]}},
        {"name":"p","projected":{"sources":[{},{"secret":{"name":"s","items":[{"key":"a","path":"t"}]}},{"serviceAccountToken":{"path":"t"}}]}}]"#,
    );
    assert_eq!(
        found,
        [
            "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
            "spec.volumes[1].storageOS: deprecated in v1.22, non-functional in v1.25+",
            r#"spec.volumes[2].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer"#,
            r#"volume "c" (ConfigMap "m"): overlapping paths: "p/q" with "p""#,
            r#"volume "p" (Projected) has no sources provided"#,
            r#"volume "p" (Projected): overlapping paths: "t" (ServiceAccountToken) with "t" (Secret "s")"#,
        ]
    );
}

#[test]
fn many_overlaps_are_bounded() {
    let port = r#"{"containerPort":1}"#;
    let ports = [port; 5_000].join(",");
    let found = pod("", &format!(r#""initContainers":[{{"name":"i","image":"i","ports":[{ports}]}}]"#));
    assert_eq!(found.len(), super::MOST);
}

#[test]
fn changes_of_pods_are_warned_of_for_addresses_of_the_status_alone() {
    let text =
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a.b"},"status":{"podIPs":[{"ip":"::FF"}]}}"#;
    assert!(warnings(text, Some(text)).is_empty());
    assert_eq!(
        status_warnings(text),
        [r#"status.podIPs[0].ip: IPv6 address "::FF" should be in RFC 5952 canonical format ("::ff")"#]
    );
}
