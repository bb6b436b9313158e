use crate::WrittenPart;
use crate::testing::{create, part, status, update};

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
    an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// A pod with one container, and with these fields of its metadata and of its spec.
fn pod(metadata: &str, spec: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{{metadata}}},
            "spec":{{"containers":[{{"name":"c","image":"i"}}]{}{spec}}}}}"#,
        if spec.is_empty() { "" } else { "," }
    )
}

fn errors(spec: &str) -> Vec<String> {
    create(&pod("", spec))
}

fn annotated(annotations: &str, spec: &str) -> Vec<String> {
    create(&pod(&format!(r#""annotations":{{{annotations}}}"#), spec))
}

#[test]
fn fields_of_a_pod_spec_have_their_formats_and_ranges() {
    let found = errors(
        r#""restartPolicy":"x","dnsPolicy":"y","nodeName":"n","hostname":"A","subdomain":"b.c","activeDeadlineSeconds":0,
        "priorityClassName":"p","runtimeClassName":"r","preemptionPolicy":"z","readinessGates":[{"conditionType":"a b"}],
        "schedulingGates":[{"name":"a"},{"name":"a"}],"ephemeralContainers":[{"name":"e","image":"i"}],"overhead":{"cpu":"-1"}"#,
    );
    let expected = [
        r#"spec.restartPolicy: Unsupported value: "x": supported values: "Always", "OnFailure", "Never""#,
        r#"spec.dnsPolicy: Unsupported value: "y": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None""#,
        &format!(r#"spec.readinessGates[0].conditionType: Invalid value: "a b": {NAME_PART}"#),
        r#"spec.schedulingGates[1]: Duplicate value: "a""#,
        "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
        &format!(r#"spec.hostname: Invalid value: "A": {LABEL}"#),
        r#"spec.subdomain: Invalid value: "b.c": must not contain dots"#,
        r#"spec.preemptionPolicy: Unsupported value: "z": supported values: "PreemptLowerPriority", "Never""#,
        r#"spec.overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0"#,
        "spec.ephemeralContainers: Forbidden: cannot be set on create",
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
    ];
    assert_eq!(found, expected);
    assert!(errors(r#""terminationGracePeriodSeconds":-5,"imagePullSecrets":[{}]"#).is_empty());
}

#[test]
fn name_resolution_is_bounded_and_has_valid_names() {
    assert_eq!(
        errors(r#""dnsPolicy":"None""#),
        ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"]
    );
    assert_eq!(
        errors(r#""dnsPolicy":"None","dnsConfig":{}"#),
        [
            "spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None"
        ]
    );
    let found = errors(
        r#""dnsConfig":{"nameservers":["1.1.1.1","::1","010.1.1.1","x"],"searches":[".","_tcp.a.","a..b"],"options":[{}]},
        "hostAliases":[{"ip":"1.2","hostnames":["a","_"]}]"#,
    );
    let address = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    assert_eq!(
        found[..2],
        [
            r#"spec.dnsConfig.nameservers: Invalid value: []string{"1.1.1.1", "::1", "010.1.1.1", "x"}: must not have more than 3 nameservers"#
                .to_owned(),
            format!(r#"spec.dnsConfig.nameservers[3]: Invalid value: "x": {address}"#),
        ]
    );
    assert!(
        found[2].starts_with(
            r#"spec.dnsConfig.searches[2]: Invalid value: "a..b": a lowercase RFC 1123 subdomain"#
        )
    );
    assert_eq!(
        found[3..5],
        [
            "spec.dnsConfig.options[0]: Required value: must not be empty".to_owned(),
            format!(r#"spec.hostAliases[0].ip: Invalid value: "1.2": {address}"#),
        ]
    );
    assert!(found[5].starts_with(r#"spec.hostAliases[0].hostnames[1]: Invalid value: "_": "#));
    let searches =
        format!(r#""dnsConfig":{{"searches":["{}"]}}"#, ["a".repeat(60).as_str(); 34].join(r#"",""#));
    let found = errors(&searches);
    assert!(found[0].ends_with("must not have more than 32 search paths"));
    assert!(
        found[1].ends_with("must not have more than 2048 characters (including spaces) in the search list")
    );
}

#[test]
fn tolerations_name_an_operator_and_an_effect_that_fit() {
    let found = errors(
        r#""tolerations":[{"operator":"Equal"},{"key":"a","operator":"Exists","value":"v","tolerationSeconds":1},
        {"key":"a","operator":"In","effect":"x"},{"key":"/","value":"-"}]"#,
    );
    assert_eq!(
        found[..6],
        [
            r#"spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys""#,
            r#"spec.tolerations[1].effect: Invalid value: "": effect must be 'NoExecute' when `tolerationSeconds` is set"#,
            r#"spec.tolerations[1].operator: Invalid value: "v": value must be empty when `operator` is 'Exists'"#,
            r#"spec.tolerations[2].operator: Unsupported value: "In": supported values: "Equal", "Exists""#,
            r#"spec.tolerations[2].effect: Unsupported value: "x": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
            r#"spec.tolerations[3].key: Invalid value: "/": prefix part must be non-empty"#,
        ]
    );
    assert!(found[8].starts_with(r#"spec.tolerations[3].operator: Invalid value: "-": a valid label"#));
    assert_eq!(found.len(), 9);
}

#[test]
fn affinity_has_valid_terms_and_weights() {
    let found = errors(
        r#""affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
            {"matchExpressions":[{"key":"a","operator":"Gt"},{"key":"a","operator":"Near"}],"matchFields":[{"key":"b","operator":"Exists"}]}]},
            "preferredDuringSchedulingIgnoredDuringExecution":[{"weight":101,"preference":{"matchExpressions":[{"key":"a","operator":"In","values":["-"]}]}}]},
        "podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"k","matchLabelKeys":["a"]},
            {"topologyKey":"k","labelSelector":{},"matchLabelKeys":["a"],"mismatchLabelKeys":["a"],"namespaces":["A"]}]},
        "podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":0,"podAffinityTerm":{"labelSelector":{}}}]}}"#,
    );
    let required =
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]";
    let pods = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution";
    let against = "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]";
    let expected = [
        format!("{required}.matchExpressions[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"),
        format!(r#"{required}.matchExpressions[1].operator: Invalid value: "Near": not a valid selector operator"#),
        format!(r#"{required}.matchFields[0].operator: Invalid value: "Exists": not a valid selector operator"#),
        format!(r#"{required}.matchFields[0].key: Invalid value: "b": not a valid field selector key"#),
        "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: must be in the range 1-100".to_owned(),
        format!("{pods}[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"),
        format!(r#"{pods}[1].namespace: Invalid value: "A": {LABEL}"#),
        format!(r#"{pods}[1].matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and mismatchLabelKeys"#),
        format!("{against}.weight: Invalid value: 0: must be in the range 1-100"),
        format!("{against}.podAffinityTerm.topologyKey: Required value: can not be empty"),
        format!(r#"{against}.podAffinityTerm.topologyKey: Invalid value: "": name part must be non-empty"#),
        format!(r#"{against}.podAffinityTerm.topologyKey: Invalid value: "": {NAME_PART}"#),
    ];
    assert_eq!(found, expected);
    let labelled = r#""affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"k",
        "labelSelector":{"matchLabels":{"a":"b"}},"matchLabelKeys":["a"]}]}}"#;
    assert_eq!(
        create(&pod(r#""labels":{"a":"c"}"#, labelled)),
        [format!(r#"{pods}[0][0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector"#)]
    );
}

#[test]
fn spread_constraints_are_positive_distinct_and_about_other_labels() {
    let found = errors(
        r#""topologySpreadConstraints":[{"topologyKey":"k","whenUnsatisfiable":"x","minDomains":0,"nodeAffinityPolicy":"y"},
        {"maxSkew":1,"topologyKey":"k","whenUnsatisfiable":"x","labelSelector":{"matchLabels":{"a":""}},"matchLabelKeys":["a"]},
        {"maxSkew":1,"whenUnsatisfiable":"DoNotSchedule","matchLabelKeys":["a"]}]"#,
    );
    let path = |at: usize, rest: &str| format!("spec.topologySpreadConstraints[{at}].{rest}");
    let expected = [
        path(0, "maxSkew: Invalid value: 0: must be greater than zero"),
        path(
            0,
            r#"whenUnsatisfiable: Unsupported value: "x": supported values: "DoNotSchedule", "ScheduleAnyway""#,
        ),
        path(0, r#"{topologyKey, whenUnsatisfiable}: Duplicate value: "{k, x}""#),
        path(0, "minDomains: Invalid value: 0: must be greater than zero"),
        path(
            0,
            "minDomains: Invalid value: 0: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not x",
        ),
        path(0, r#"nodeAffinityPolicy: Unsupported value: "y": supported values: "Honor", "Ignore""#),
        path(
            1,
            r#"whenUnsatisfiable: Unsupported value: "x": supported values: "DoNotSchedule", "ScheduleAnyway""#,
        ),
        path(1, r#"matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector"#),
        path(2, "topologyKey: Required value: can not be empty"),
        path(2, "matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn annotations_that_the_server_reads_are_valid_and_agree_with_fields() {
    let app_armor = "container.apparmor.security.beta.kubernetes.io";
    let cases = [
        (
            r#""kubernetes.io/config.mirror":"m""#.to_owned(),
            "",
            r#"metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "m": must set spec.nodeName if mirror pod annotation is set"#.to_owned(),
        ),
        (
            r#""controller.kubernetes.io/pod-deletion-cost":"01""#.to_owned(),
            "",
            r#"metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "01": must be a 32bit integer"#.to_owned(),
        ),
        (
            r#""scheduler.alpha.kubernetes.io/tolerations":"[{\"operator\":\"x\",\"key\":\"a\"}]""#.to_owned(),
            "",
            r#"metadata.annotations.scheduler.alpha.kubernetes.io/tolerations[0].operator: Unsupported value: "x": supported values: "Equal", "Exists""#.to_owned(),
        ),
        (
            r#""scheduler.alpha.kubernetes.io/tolerations":"{""#.to_owned(),
            "",
            r#"metadata.annotations: Invalid value: "scheduler.alpha.kubernetes.io/tolerations": unexpected end of JSON input"#.to_owned(),
        ),
        (
            r#""seccomp.security.alpha.kubernetes.io/pod":"localhost/../x""#.to_owned(),
            "",
            r#"metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "../x": must not contain '..'"#.to_owned(),
        ),
        (
            r#""container.seccomp.security.alpha.kubernetes.io/c":"bad""#.to_owned(),
            "",
            r#"metadata.annotations.container.seccomp.security.alpha.kubernetes.io/c: Invalid value: "bad": must be a valid seccomp profile"#.to_owned(),
        ),
        (
            r#""seccomp.security.alpha.kubernetes.io/pod":"localhost/a""#.to_owned(),
            r#""securityContext":{"seccompProfile":{"type":"Localhost","localhostProfile":"b"}}"#,
            "spec.securityContext.seccompProfile.localhostProfile: Forbidden: seccomp profile in annotation and field must match".to_owned(),
        ),
        (
            format!(r#""{app_armor}/d":"unconfined""#),
            "",
            format!(r#"metadata.annotations[{app_armor}/d]: Invalid value: "d": container not found"#),
        ),
        (
            format!(r#""{app_armor}/c":"x""#),
            "",
            format!(r#"metadata.annotations[{app_armor}/c]: Invalid value: "x": invalid AppArmor profile name: "x""#),
        ),
        (
            format!(r#""{app_armor}/i":"runtime/default""#),
            r#""initContainers":[{"name":"i","image":"i","securityContext":{"appArmorProfile":{"type":"Unconfined"}}}]"#,
            "spec.initContainers[0].securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation and field must match".to_owned(),
        ),
    ];
    for (annotations, spec, error) in cases {
        assert_eq!(annotated(&annotations, spec), [error]);
    }
    assert!(annotated(r#""controller.kubernetes.io/pod-deletion-cost":"-0""#, "").is_empty());
}

#[test]
fn tokens_need_a_service_account() {
    let volumes =
        r#""volumes":[{"name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}]"#;
    assert_eq!(
        errors(volumes),
        [
            "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set"
        ]
    );
    assert!(errors(&format!(r#"{volumes},"serviceAccountName":"a""#)).is_empty());
}

#[test]
fn what_the_old_pod_has_stays_valid() {
    let cost = pod(r#""annotations":{"controller.kubernetes.io/pod-deletion-cost":"x"}"#, "");
    assert_eq!(create(&cost).len(), 1);
    assert!(update(&cost, &cost).is_empty());
    let expression = r#"{"key":"a","operator":"In","values":["-"]}"#;
    for spec in [
        format!(
            r#""topologySpreadConstraints":[{{"maxSkew":1,"topologyKey":"k","whenUnsatisfiable":"DoNotSchedule",
            "labelSelector":{{"matchExpressions":[{expression}]}}}}]"#
        ),
        format!(
            r#""affinity":{{"podAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":[{{"topologyKey":"k",
            "labelSelector":{{"matchExpressions":[{expression}]}}}}]}}}}"#
        ),
        format!(
            r#""affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[
            {{"matchExpressions":[{expression}]}}]}}}}}}"#
        ),
        r#""hostNetwork":true,"securityContext":{"sysctls":[{"name":"net.a","value":"1"}]}"#.to_owned(),
        r#""securityContext":{"seLinuxChangePolicy":"MountOption"}"#.to_owned(),
    ] {
        let pod = pod("", &spec);
        assert_eq!(create(&pod).len(), 1, "{spec}");
        assert_eq!(update(&pod, &pod), [""; 0], "{spec}");
    }
}

const MUTABLE: &str = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
    tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n";

#[test]
fn few_fields_of_a_pod_change() {
    let old = r#""activeDeadlineSeconds":10,"tolerations":[{"key":"a","operator":"Exists"}]"#;
    let change = |new: &str| update(&pod("", new), &pod("", old));
    assert!(change(r#""activeDeadlineSeconds":9,"tolerations":[{"key":"b","operator":"Exists"},{"key":"a","operator":"Exists","effect":"","tolerationSeconds":null}]"#).is_empty());
    assert_eq!(
        change(&format!(r#"{old},"hostname":"h","priority":1"#)),
        [format!("{MUTABLE}spec.hostname, spec.priority")]
    );
    assert_eq!(
        change(&format!(r#"{old},"initContainers":[{{"name":"i","image":"i"}}]"#)),
        ["spec.initContainers: Forbidden: pod updates may not add or remove containers"]
    );
    let tolerations = r#""tolerations":[{"key":"a","operator":"Exists"}]"#;
    assert_eq!(
        change(&format!(r#""activeDeadlineSeconds":11,{tolerations}"#)),
        ["spec.activeDeadlineSeconds: Invalid value: 11: must be less than or equal to previous value"]
    );
    assert_eq!(
        change(tolerations),
        [
            r#"spec.activeDeadlineSeconds: Invalid value: "null": must not update from a positive integer to nil value"#
        ]
    );
    assert_eq!(
        change(r#""activeDeadlineSeconds":10"#),
        ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"]
    );
    let container = |fields: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"Pod","spec":{{"containers":[{{"name":"c",{fields}}}]}}}}"#)
    };
    let memory =
        |amount: &str| container(&format!(r#""image":"i","resources":{{"limits":{{"memory":"{amount}"}}}}"#));
    assert!(update(&memory("1024Mi"), &memory("1073741824")).is_empty());
    assert_eq!(
        update(
            &container(r#""image":"j","command":["x"],"imagePullPolicy":"Always""#),
            &container(r#""image":"i""#)
        ),
        [format!("{MUTABLE}spec.containers[0].command")]
    );
    let grace = |seconds: &str| {
        let text = pod("", &format!(r#""terminationGracePeriodSeconds":{seconds}"#));
        update(&text, &pod("", r#""terminationGracePeriodSeconds":30"#))
    };
    assert_eq!(grace("1"), [format!("{MUTABLE}spec.terminationGracePeriodSeconds")]);
}

#[test]
fn annotations_of_a_kubelet_and_of_profiles_are_fixed() {
    let old = pod(r#""annotations":{"kubernetes.io/config.mirror":"a"}"#, r#""nodeName":"n""#);
    let new = pod(
        r#""annotations":{"kubernetes.io/config.mirror":"b","container.apparmor.security.beta.kubernetes.io/c":"unconfined"}"#,
        r#""nodeName":"n""#,
    );
    assert_eq!(
        update(&new, &old),
        [
            "metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not remove or update mirror pod annotation",
            "metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: Forbidden: may not add AppArmor annotations",
        ]
    );
}

#[test]
fn gated_pod_may_become_harder_to_place() {
    let gated = |gates: &str, selector: &str, expressions: &str| {
        pod(
            "",
            &format!(
                r#""schedulingGates":[{gates}],"nodeSelector":{{{selector}}},"affinity":{{"nodeAffinity":{{
                "requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[{{"matchExpressions":[{expressions}]}}]}}}}}}"#
            ),
        )
    };
    let (gate, key) = (r#"{"name":"x.io/a"}"#, r#"{"key":"k","operator":"Exists"}"#);
    let old = gated(gate, r#""a":"b""#, key);
    let narrower = gated("", r#""a":"b","c":"d""#, &format!(r#"{key},{{"key":"l","operator":"Exists"}}"#));
    assert!(update(&narrower, &old).is_empty());
    assert_eq!(
        update(
            &gated(r#"{"name":"x.io/b"}"#, r#""a":"c""#, r#"{"key":"z","operator":"In","values":["v"]}"#),
            &old
        ),
        [
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'x.io/b'",
            r#"spec.nodeSelector: Invalid value: map[string]string{"a":"c"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)"#,
            r#"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]: Invalid value: core.NodeSelectorTerm{MatchExpressions:[]core.NodeSelectorRequirement{core.NodeSelectorRequirement{Key:"z", Operator:"In", Values:[]string{"v"}}}, MatchFields:[]core.NodeSelectorRequirement(nil)}: only additions are allowed (no mutations or deletions)"#,
        ]
    );
    assert_eq!(
        update(&pod("", &format!(r#""schedulingGates":[{gate}],"nodeSelector":{{"a":"b"}}"#)), &old),
        [
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Invalid value: []core.NodeSelectorTerm(nil): no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        ]
    );
    assert_eq!(
        update(&narrower, &gated("", r#""a":"b""#, key)),
        [format!("{MUTABLE}spec.nodeSelector, spec.affinity")]
    );
}

#[test]
fn status_has_valid_addresses_and_containers_that_stay_ended() {
    let with = |status: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","spec":{{"restartPolicy":"OnFailure","containers":[{{"name":"c","image":"i"}}]}},"status":{{{status}}}}}"#
        )
    };
    let ended = |code: u8| {
        with(&format!(
            r#""qosClass":"BestEffort","containerStatuses":[{{"name":"c","state":{{"terminated":{{"exitCode":{code}}}}}}}]"#
        ))
    };
    let new = with(
        r#""qosClass":"Burstable","conditions":[{"type":"Ready"},{"type":"a b"}],"nominatedNodeName":"B","podIPs":[{"ip":"x"},{"ip":"1.1.1.1"}],
        "hostIP":"1.1.1.1","hostIPs":[{"ip":"2.2.2.2"},{"ip":"3.3.3.3"}],
        "containerStatuses":[{"name":"c","state":{"running":{}},"user":{"linux":{"uid":-1,"gid":0}}}]"#,
    );
    let found = status(&new, &ended(0));
    let each = "may specify no more than one IP for each IP family";
    let expected = [
        format!(r#"status.conditions[1].Type: Invalid value: "a b": {NAME_PART}"#),
        found[1].clone(),
        r#"status.qosClass: Invalid value: "Burstable": field is immutable"#.to_owned(),
        "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state".to_owned(),
        r#"status.podIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#.to_owned(),
        "status.podIPs: Internal error: failed to check for dual stack with error:invalid IP[0]: x".to_owned(),
        format!(r#"status.podIPs: Invalid value: []core.PodIP{{core.PodIP{{IP:"x"}}, core.PodIP{{IP:"1.1.1.1"}}}}: {each}"#),
        r#"status.hostIPs[0].ip: Invalid value: "2.2.2.2": must be equal to `hostIP`"#.to_owned(),
        format!(r#"status.hostIPs: Invalid value: []core.HostIP{{core.HostIP{{IP:"2.2.2.2"}}, core.HostIP{{IP:"3.3.3.3"}}}}: {each}"#),
        "status.containerStatuses[0].user.linux.uid: Invalid value: -1: must be between 0 and 2147483647, inclusive".to_owned(),
    ];
    assert_eq!(found, expected);
    assert!(found[1].starts_with(r#"status.nominatedNodeName: Invalid value: "B": "#));
    let running = with(r#""containerStatuses":[{"name":"c","state":{"running":{}}}]"#);
    assert!(status(&running, &ended(1)).is_empty(), "a container that failed may be restarted");
}

#[test]
fn ephemeral_containers_are_added_and_stay() {
    let with = |containers: &str| pod("", &format!(r#""ephemeralContainers":[{containers}]"#));
    let old = with(r#"{"name":"e","image":"i"}"#);
    let change = |containers: &str| part(WrittenPart::EphemeralContainers, &with(containers), &old);
    assert!(change(r#"{"name":"f","image":"i"},{"name":"e","image":"i"}"#).is_empty());
    assert_eq!(
        change(""),
        ["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be removed\n"]
    );
    assert_eq!(
        change(r#"{"name":"e","image":"j"}"#),
        [
            "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be changed\nimage"
        ]
    );
    let mirror = pod(r#""annotations":{"kubernetes.io/config.mirror":"a"}"#, "");
    assert_eq!(
        part(WrittenPart::EphemeralContainers, &mirror, &mirror),
        ["[]: Forbidden: static pods do not support ephemeral containers"]
    );
}

#[test]
fn resize_changes_cpu_and_memory_alone() {
    let with = |limits: &str, policy: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","spec":{{"containers":[{{"name":"c","image":"i","resources":{{"limits":{{{limits}}},"requests":{{"cpu":"1"}}}},
                "resizePolicy":[{policy}]}}]}}}}"#
        )
    };
    let resize = |new: &str, old: &str| part(WrittenPart::Resize, new, old);
    let old = with(r#""cpu":"2","memory":"1Gi""#, "");
    let path = "spec.containers[0].resources";
    assert!(resize(&with(r#""cpu":"3","memory":"2Gi""#, ""), &old).is_empty());
    assert_eq!(
        resize(&with(r#""memory":"512Mi""#, ""), &old),
        [
            format!("{path}.limits: Forbidden: resource limits cannot be removed"),
            format!(
                "{path}.limits[memory]: Forbidden: memory limits cannot be decreased unless resizePolicy is RestartContainer"
            ),
        ]
    );
    let policy = r#"{"resourceName":"memory","restartPolicy":"RestartContainer"}"#;
    let restarted = with(r#""cpu":"2","memory":"1Gi""#, policy);
    assert!(resize(&with(r#""cpu":"2","memory":"512Mi""#, policy), &restarted).is_empty());
    assert_eq!(
        resize(&with(r#""cpu":"2","memory":"1Gi","ephemeral-storage":"1Gi""#, ""), &old),
        ["spec: Forbidden: only cpu and memory resources are mutable"]
    );
    assert_eq!(
        resize(&with(r#""cpu":"2","memory":"1Gi""#, "").replace(r#""name":"c""#, r#""name":"d""#), &old),
        ["spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"]
    );
    assert_eq!(
        resize(&old, &pod("", "")),
        [
            r#"spec: Invalid value: "": Pod QOS Class may not change as a result of resizing"#.to_owned(),
            format!(
                "{path}.limits[memory]: Forbidden: memory limits cannot be added unless resizePolicy is RestartContainer"
            ),
        ]
    );
    let windows = pod("", r#""os":{"name":"windows"}"#);
    assert_eq!(resize(&windows, &windows), ["[]: Forbidden: windows pods cannot be resized"]);
    let init = |amount: &str| {
        pod(
            "",
            &format!(
                r#""initContainers":[{{"name":"i","image":"i","resources":{{"requests":{{"cpu":"{amount}"}}}}}}]"#
            ),
        )
    };
    assert_eq!(
        resize(&init("2"), &init("1")),
        ["spec: Forbidden: resources for non-sidecar init containers are immutable"]
    );
}
