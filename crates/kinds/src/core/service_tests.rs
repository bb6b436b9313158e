use crate::Gates;
use crate::testing::{create, created_with, status, status_warnings, update, warnings};

fn service(spec: &str) -> String {
    with_metadata("", spec)
}

fn with_metadata(metadata: &str, spec: &str) -> String {
    format!(r#"{{"apiVersion":"v1","kind":"Service","metadata":{{{metadata}}},"spec":{{{spec}}}}}"#)
}

/// A case: the fields of a spec, and the errors that they have on a create.
fn refused(cases: &[(&str, &[&str])]) {
    for (spec, expected) in cases {
        assert_eq!(create(&service(spec)), *expected, "{spec}");
    }
}

const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
     with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

#[test]
fn ports_have_numbers_names_and_protocols_and_differ() {
    let long = "a".repeat(64);
    let range = "must be between 1 and 65535, inclusive";
    refused(&[
        (r#""ports":[]"#, &["spec.ports: Required value"]),
        (
            r#""ports":[{}]"#,
            &[
                &format!("spec.ports[0].port: Invalid value: 0: {range}"),
                &format!("spec.ports[0].targetPort: Invalid value: 0: {range}"),
            ],
        ),
        (
            &format!(
                r#""ports":[{{"port":-1,"name":"{long}","protocol":"HTTP","targetPort":"b"}},{{"port":80}}]"#
            ),
            &[
                &format!(
                    r#"spec.ports[0].name: Invalid value: "{long}": must be no more than 63 characters"#
                ),
                &format!("spec.ports[0].port: Invalid value: -1: {range}"),
                r#"spec.ports[0].protocol: Unsupported value: "HTTP": supported values: "SCTP", "TCP", "UDP""#,
                "spec.ports[1].name: Required value",
            ],
        ),
        (
            r#""ports":[{"port":80,"name":"a"},{"port":81,"name":"a","targetPort":"Bad_","appProtocol":"x y"}]"#,
            &[
                r#"spec.ports[1].name: Duplicate value: "a""#,
                r#"spec.ports[1].targetPort: Invalid value: "Bad_": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"#,
                &format!(r#"spec.ports[1].appProtocol: Invalid value: "x y": {NAME_PART}"#),
            ],
        ),
        (
            r#""ports":[{"port":80,"name":"a","nodePort":30000},{"port":80,"name":"b","nodePort":30000}]"#,
            &[
                "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
                "spec.ports[1].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
                "spec.ports[1].nodePort: Duplicate value: 30000",
                r#"spec.ports[1]: Duplicate value: core.ServicePort{Name:"", Protocol:"TCP", AppProtocol:(*string)(nil), Port:80, TargetPort:intstr.IntOrString{Type:0, IntVal:0, StrVal:""}, NodePort:0}"#,
            ],
        ),
        (r#""ports":[{"port":80,"name":"x"},{"port":80,"name":"y","protocol":"UDP"}]"#, &[]),
        (r#""clusterIP":"None""#, &[]),
    ]);
}

#[test]
fn each_type_has_fields_of_its_own() {
    const PORT: &str = r#""ports":[{"port":80}]"#;
    let with = |fields: &str| format!("{PORT},{fields}");
    let balancers = "Forbidden: may only be used when `type` is 'LoadBalancer'";
    let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
        start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
        '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    refused(&[
        (
            &with(r#""type":"Foo""#),
            &[
                r#"spec.type: Unsupported value: "Foo": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort""#,
            ],
        ),
        (
            &with(
                r#""type":"ExternalName","clusterIP":"1.2.3.4","ipFamilies":["IPv4"],"ipFamilyPolicy":"X""#,
            ),
            &[
                "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
                "spec.ipFamilies: Forbidden: may not be set for ExternalName services",
                "spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services",
                "spec.externalName: Required value",
            ],
        ),
        (
            &with(r#""type":"ExternalName","externalName":"B_.""#),
            &[&format!(r#"spec.externalName: Invalid value: "B_": {subdomain}"#)],
        ),
        (
            &with(r#""type":"LoadBalancer","clusterIP":"None""#),
            &[
                r#"spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for LoadBalancer services"#,
            ],
        ),
        (
            &with(r#""type":"NodePort","clusterIP":"None","externalTrafficPolicy":"Some""#),
            &[
                r#"spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for NodePort services"#,
                r#"spec.externalTrafficPolicy: Unsupported value: "Some": supported values: "Cluster", "Local""#,
            ],
        ),
        (
            &with(
                r#""loadBalancerClass":"x","allocateLoadBalancerNodePorts":true,"loadBalancerSourceRanges":["10.0.0.0/8"],
                   "healthCheckNodePort":30000,"externalTrafficPolicy":"Local","internalTrafficPolicy":"Global",
                   "trafficDistribution":"PreferSameNode""#,
            ),
            &[
                &format!("spec.LoadBalancerSourceRanges: {balancers}"),
                &format!("spec.allocateLoadBalancerNodePorts: {balancers}"),
                &format!("spec.loadBalancerClass: {balancers}"),
                r#"spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services"#,
                "spec.healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
                r#"spec.internalTrafficPolicy: Unsupported value: "Global": supported values: "Cluster", "Local""#,
                r#"spec.trafficDistribution: Unsupported value: "PreferSameNode": supported values: "PreferClose""#,
            ],
        ),
        (
            &with(
                r#""type":"LoadBalancer","loadBalancerClass":"a b","externalTrafficPolicy":"Local",
                   "loadBalancerSourceRanges":[" 10.0.0.0/8 ","x"]"#,
            ),
            &[
                r#"spec.LoadBalancerSourceRanges[1]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"#,
                &format!(r#"spec.loadBalancerClass: Invalid value: "a b": {NAME_PART}"#),
                "spec.healthCheckNodePort: Required value",
            ],
        ),
    ]);
}

#[test]
fn annotations_agree_with_the_fields() {
    const RANGES: &str = "metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]";
    let annotated = |annotation: &str, spec: &str| {
        create(&with_metadata(
            &format!(r#""annotations":{{{annotation}}}"#),
            &format!(r#""ports":[{{"port":80}}],{spec}"#),
        ))
    };
    assert_eq!(
        annotated(
            r#""service.kubernetes.io/topology-aware-hints":"a","service.kubernetes.io/topology-mode":"b""#,
            r#""type":"ClusterIP""#
        ),
        [
            r#"metadata.annotations[service.kubernetes.io/topology-mode]: Invalid value: "b": must match annotations[service.kubernetes.io/topology-aware-hints] when both are specified"#
        ]
    );
    let ranges = r#""service.beta.kubernetes.io/load-balancer-source-ranges":"10.0.0.0/8, zz""#;
    let invalid = format!(
        r#"{RANGES}: Invalid value: "zz": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"#
    );
    assert_eq!(annotated(ranges, r#""type":"LoadBalancer""#), [invalid.as_str()]);
    let forbidden = format!("{RANGES}: Forbidden: may only be used when `type` is 'LoadBalancer'");
    assert_eq!(annotated(ranges, r#""type":"ClusterIP""#), [forbidden, invalid]);
    let metadata = format!(r#""annotations":{{{ranges}}}"#);
    let old = with_metadata(&metadata, r#""type":"LoadBalancer","ports":[{"port":80}]"#);
    assert!(update(&old, &old).is_empty(), "what was there stays");
}

#[test]
fn session_affinity_lasts_at_most_a_day() {
    let with = |affinity: &str| {
        create(&service(&format!(r#""ports":[{{"port":80}}],"sessionAffinity":{affinity}"#)))
    };
    assert_eq!(
        with(r#""Cookie""#),
        [r#"spec.sessionAffinity: Unsupported value: "Cookie": supported values: "ClientIP", "None""#]
    );
    for seconds in [0, 86401] {
        assert_eq!(
            with(&format!(
                r#""ClientIP","sessionAffinityConfig":{{"clientIP":{{"timeoutSeconds":{seconds}}}}}"#
            )),
            [format!(
                "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: {seconds}: must be greater than 0 and less than 86400"
            )]
        );
    }
    assert!(with(r#""ClientIP","sessionAffinityConfig":{}"#).is_empty());
    assert!(with(r#""None","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":5}}"#).is_empty());
}

#[test]
fn addresses_are_one_of_each_family() {
    let valid = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    const PORT: &str = r#""ports":[{"port":80}]"#;
    let with = |fields: &str| format!("{PORT},{fields}");
    refused(&[
        (
            &with(r#""clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1","10.0.0.2"]"#),
            &[
                r#"spec.clusterIPs: Invalid value: []string{"10.0.0.1", "10.0.0.2"}: may specify no more than one IP for each IP family"#,
            ],
        ),
        (
            &with(r#""clusterIP":"10.0.0.1","clusterIPs":["10.0.0.2"]"#),
            &[r#"spec.clusterIPs: Invalid value: []string{"10.0.0.2"}: first value must match `clusterIP`"#],
        ),
        (
            &with(r#""clusterIPs":["10.0.0.2"]"#),
            &[
                r#"spec.clusterIPs: Invalid value: []string{"10.0.0.2"}: must be empty when `clusterIP` is not specified"#,
            ],
        ),
        (
            &with(
                r#""clusterIP":"None","clusterIPs":["None","x","::1"],"ipFamilies":["IPv5","IPv5"],"ipFamilyPolicy":"Triple""#,
            ),
            &[
                r#"spec.ipFamilies[0]: Unsupported value: "IPv5": supported values: "IPv4", "IPv6""#,
                r#"spec.ipFamilies[1]: Unsupported value: "IPv5": supported values: "IPv4", "IPv6""#,
                r#"spec.ipFamilies[1]: Duplicate value: "IPv5""#,
                r#"spec.ipFamilyPolicy: Unsupported value: "Triple": supported values: "PreferDualStack", "RequireDualStack", "SingleStack""#,
                r#"spec.clusterIPs: Invalid value: []string{"None", "x", "::1"}: 'None' must be the first and only value"#,
                &format!(r#"spec.clusterIPs[1]: Invalid value: "x": {valid}"#),
                r#"spec.clusterIPs: Invalid value: []string{"None", "x", "::1"}: may only hold up to 2 values"#,
            ],
        ),
        (
            &with(
                r#""clusterIP":"10.0.0.7","clusterIPs":["10.0.0.7","2001:db8::1"],"ipFamilies":["IPv6","IPv4"]"#,
            ),
            &[
                r#"spec.clusterIPs[0]: Invalid value: "10.0.0.7": expected an IPv6 value as indicated by `ipFamilies[0]`"#,
                r#"spec.clusterIPs[1]: Invalid value: "2001:db8::1": expected an IPv4 value as indicated by `ipFamilies[1]`"#,
            ],
        ),
        (
            &with(r#""externalIPs":["x","127.0.0.1","0.0.0.0"]"#),
            &[
                &format!(r#"spec.externalIPs[0]: Invalid value: "x": {valid}"#),
                r#"spec.externalIPs[1]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)"#,
                r#"spec.externalIPs[2]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)"#,
            ],
        ),
        (&with(r#""clusterIP":"10.0.0.050","externalIPs":["198.051.100.001"]"#), &[]),
    ]);
}

#[test]
fn an_update_keeps_the_first_address_and_family() {
    let of = |ips: &str, families: &str, policy: &str| {
        let first = ips.split(',').next().unwrap();
        service(&format!(
            r#""ports":[{{"port":80}}],"clusterIP":{first},"clusterIPs":[{ips}],"ipFamilies":[{families}],"ipFamilyPolicy":"{policy}""#
        ))
    };
    let (v4, v6) = (r#""10.0.0.1""#, r#""2001:db8::1""#);
    let both = format!("{v4},{v6}");
    let (four, six) = (r#""IPv4""#, r#""IPv6""#);
    let dual = of(&both, &format!("{four},{six}"), "RequireDualStack");
    let single = of(v4, four, "SingleStack");
    assert!(update(&dual, &single).is_empty() && update(&single, &dual).is_empty());
    assert_eq!(
        update(&of(v4, four, "RequireDualStack"), &dual),
        [
            r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": must be set to 'SingleStack' when releasing the secondary clusterIP"#,
            r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": must be set to 'SingleStack' when releasing the secondary ipFamily"#,
        ]
    );
    assert_eq!(
        update(&of(v6, six, "SingleStack"), &single),
        [
            r#"spec.clusterIPs[0]: Invalid value: []string{"2001:db8::1"}: may not change once set"#,
            r#"spec.ipFamilies[0]: Invalid value: []core.IPFamily{"IPv6"}: may not change once set"#,
        ]
    );
    assert_eq!(
        update(&of(v6, six, "SingleStack"), &dual),
        [
            r#"spec.clusterIPs[0]: Invalid value: []string{"2001:db8::1"}: may not change once set"#,
            r#"spec.ipFamilies[0]: Invalid value: []string{"2001:db8::1"}: may not change once set"#,
        ]
    );
    assert_eq!(
        update(&of(r#""None""#, four, "SingleStack"), &single),
        [r#"spec.clusterIPs[0]: Invalid value: []string{"None"}: may not change once set"#]
    );
    let odd =
        service(r#""ports":[{"port":80}],"clusterIP":"odd","clusterIPs":["odd"],"externalIPs":["odd"]"#);
    assert_eq!(
        update(&odd, &odd),
        [r#"spec.externalIPs[0]: Invalid value: "odd": must be a valid IP address"#],
        "an address from before the rules stays, but not as an endpoint"
    );
}

#[test]
fn a_load_balancer_keeps_its_class_and_its_health_check() {
    let balancer =
        |fields: &str| service(&format!(r#""type":"LoadBalancer","ports":[{{"port":80}}],{fields}"#));
    let local = |port: u16, class: &str| {
        balancer(&format!(
            r#""externalTrafficPolicy":"Local","healthCheckNodePort":{port},"loadBalancerClass":{class}"#
        ))
    };
    assert_eq!(
        update(&local(30001, "null"), &local(30000, r#""a""#)),
        [
            r#"spec.loadBalancerClass: Invalid value: "null": may not change once set"#,
            "spec.healthCheckNodePort: Forbidden: field is immutable",
        ]
    );
    assert_eq!(
        update(&local(30000, r#""b c""#), &local(30000, r#""a""#)),
        [
            r#"spec.loadBalancerClass: Invalid value: "b c": may not change once set"#,
            &format!(r#"spec.loadBalancerClass: Invalid value: "b c": {NAME_PART}"#),
            &format!(r#"spec.loadBalancerClass: Invalid value: "b c": {NAME_PART}"#),
        ]
    );
}

#[test]
fn status_of_a_load_balancer_is_for_load_balancers() {
    let with = |spec: &str, ingress: &str| {
        let status = format!(r#"{{"loadBalancer":{{"ingress":[{ingress}]}}}}"#);
        format!(r#"{{"apiVersion":"v1","kind":"Service","spec":{{{spec}}},"status":{status}}}"#)
    };
    let spec = r#""type":"LoadBalancer""#;
    let plain = with("", "");
    assert_eq!(
        status(&with("", r#"{"ip":"x"}"#), &plain),
        ["status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"]
    );
    let ingress = r#"{"hostname":"1.2.3.4","ipMode":"VIP"},{"ip":"1.1.1.1","ipMode":"Odd"},{"ip":"x"}"#;
    assert_eq!(
        status(&with(spec, ingress), &with(spec, "")),
        [
            "status.loadBalancer.ingress[0].ipMode: Forbidden: may not be specified when `ip` is not set",
            r#"status.loadBalancer.ingress[0].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address"#,
            r#"status.loadBalancer.ingress[1].ipMode: Unsupported value: "Odd": supported values: "Proxy", "VIP""#,
            r#"status.loadBalancer.ingress[2].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
        ]
    );
    assert!(status(&with(spec, r#"{"ip":"x"}"#), &with(spec, r#"{"ip":"x"}"#)).is_empty());
    assert_eq!(
        status_warnings(&with(spec, r#"{"hostname":"a"},{"ip":"::01"}"#)),
        [
            r#"status.loadBalancer.ingress[1]: IPv6 address "::01" should be in RFC 5952 canonical format ("::1")"#
        ]
    );
}

#[test]
fn fields_that_are_ignored_and_odd_addresses_give_warnings() {
    let metadata = r#""annotations":{"service.kubernetes.io/topology-aware-hints":"Auto"}"#;
    let spec = r#""type":"LoadBalancer","clusterIP":"010.0.0.1","externalIPs":["::0"],"loadBalancerIP":"001.2.3.4",
        "loadBalancerSourceRanges":["10.0.0.1/8"],"externalName":"x""#;
    let future = "will be considered invalid in a future Kubernetes release";
    assert_eq!(
        warnings(&with_metadata(metadata, spec), None),
        [
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead",
            &format!(r#"spec.clusterIPs[0]: non-standard IP address "010.0.0.1" {future}: use "10.0.0.1""#),
            r#"spec.externalIPs[0]: IPv6 address "::0" should be in RFC 5952 canonical format ("::")"#,
            &format!(r#"spec.loadBalancerIP: non-standard IP address "001.2.3.4" {future}: use "1.2.3.4""#),
            r#"spec.loadBalancerSourceRanges[0]: CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)"#,
            r#"spec.externalName is ignored when spec.type is not "ExternalName""#,
        ]
    );
    assert_eq!(
        warnings(&service(r#""type":"ExternalName","externalName":"x","externalIPs":["1.2.3.4"]"#), None),
        [r#"spec.externalIPs is ignored when spec.type is "ExternalName""#]
    );
}

#[test]
fn traffic_prefers_a_zone_or_a_node_only_with_the_gate() {
    let on = Gates { prefer_same_traffic_distribution: true, ..Gates::DEFAULT };
    for word in ["PreferSameZone", "PreferSameNode"] {
        let service = service(&format!(r#""ports":[{{"port":80}}],"trafficDistribution":"{word}""#));
        let refused = format!(
            r#"spec.trafficDistribution: Unsupported value: "{word}": supported values: "PreferClose""#
        );
        assert_eq!(create(&service), [refused]);
        assert!(created_with(on, &service).is_ok(), "{word}");
    }
    let other = service(r#""ports":[{"port":80}],"trafficDistribution":"x""#);
    assert_eq!(
        created_with(on, &other).unwrap_err(),
        [
            r#"spec.trafficDistribution: Unsupported value: "x": supported values: "PreferClose", "PreferSameZone", "PreferSameNode""#
        ]
    );
}
