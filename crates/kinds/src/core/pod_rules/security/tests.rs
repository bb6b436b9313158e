use crate::testing::{create, create_unprivileged, update};

fn pod(spec: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","spec":{{"containers":[{{"name":"c","image":"i"}}],{spec}}}}}"#
    )
}

/// The errors of the security context of a container, without their path.
fn container(context: &str) -> Vec<String> {
    let pod = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","spec":{{"containers":[{{"name":"c","image":"i","securityContext":{{{context}}}}}]}}}}"#
    );
    create(&pod).iter().map(|error| error.replace("spec.containers[0].securityContext", "")).collect()
}

const RANGE: &str = "must be between 0 and 2147483647, inclusive";

#[test]
fn context_of_a_container_has_valid_values() {
    assert_eq!(
        container(r#""runAsUser":-1,"runAsGroup":2147483648,"procMount":"x""#),
        [
            format!(".runAsUser: Invalid value: -1: {RANGE}"),
            format!(".runAsGroup: Invalid value: 2147483648: {RANGE}"),
            r#".procMount: Unsupported value: "x": supported values: "Default", "Unmasked""#.into(),
        ]
    );
    assert_eq!(
        container(r#""procMount":"Unmasked""#),
        [r#".procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`"#]
    );
    let escalation =
        r#""allowPrivilegeEscalation":false,"capabilities":{"add":["CAP_SYS_ADMIN"]},"privileged":true"#;
    assert_eq!(
        container(escalation),
        [
            format!(
                ": Invalid value: {{{escalation}}}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            ),
            format!(
                ": Invalid value: {{{escalation}}}: cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            ),
        ]
    );
    assert!(container(&escalation.replace("false", "true")).is_empty());
}

#[test]
fn privileged_containers_are_allowed_or_not() {
    let pod = |context: &str, spec: &str| {
        let container =
            |name: &str| format!(r#"[{{"name":"{name}","image":"i","securityContext":{{{context}}}}}]"#);
        let (first, second) = (container("a"), container("b"));
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","spec":{{"initContainers":{first},"containers":{second}{spec}}}}}"#
        )
    };
    let privileged = pod(r#""privileged":true"#, "");
    assert!(create(&privileged).is_empty());
    assert_eq!(
        create_unprivileged(&privileged),
        [
            "spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy",
            "spec.initContainers[0].securityContext.privileged: Forbidden: disallowed by cluster policy",
        ]
    );
    assert!(create_unprivileged(&pod(r#""privileged":false"#, "")).is_empty());
    let process = pod(r#""windowsOptions":{"hostProcess":true}"#, r#","hostNetwork":true"#);
    assert!(create(&process).is_empty());
    assert_eq!(
        create_unprivileged(&process),
        ["spec: Forbidden: hostProcess containers are disallowed by cluster policy"]
    );
}

#[test]
fn profiles_have_a_type_and_a_name_if_they_are_local() {
    let types = r#""Localhost", "RuntimeDefault", "Unconfined""#;
    for (profile, seccomp, app_armor) in [
        (
            "",
            ".type: Required value: type is required when seccompProfile is set",
            ".type: Required value: type is required when appArmorProfile is set",
        ),
        (
            r#""type":"x""#,
            &format!(r#".type: Unsupported value: "x": supported values: {types}"#),
            &format!(r#".type: Unsupported value: "x": supported values: {types}"#),
        ),
        (
            r#""type":"Localhost""#,
            ".localhostProfile: Required value: must be set when seccomp type is Localhost",
            ".localhostProfile: Required value: must be set when AppArmor type is Localhost",
        ),
        (
            r#""type":"Unconfined","localhostProfile":"x""#,
            r#".localhostProfile: Invalid value: {"localhostProfile":"x","type":"Unconfined"}: can only be set when seccomp type is Localhost"#,
            r#".localhostProfile: Invalid value: "x": can only be set when AppArmor type is Localhost"#,
        ),
        (
            r#""type":"Localhost","localhostProfile":"../x ""#,
            r#".localhostProfile: Invalid value: "../x ": must not contain '..'"#,
            r#".localhostProfile: Invalid value: "../x ": must not be padded with whitespace"#,
        ),
    ] {
        let errors = container(&format!(r#""seccompProfile":{{{profile}}},"appArmorProfile":{{{profile}}}"#));
        assert_eq!(errors, [format!(".seccompProfile{seccomp}"), format!(".appArmorProfile{app_armor}")]);
    }
    let long = "x".repeat(4096);
    assert_eq!(
        container(&format!(r#""appArmorProfile":{{"type":"Localhost","localhostProfile":"{long}"}}"#)),
        [".appArmorProfile.localhostProfile: Too long: may not be more than 4095 bytes"]
    );
}

#[test]
fn context_of_a_pod_has_valid_values() {
    let context = r#""hostPID":true,"shareProcessNamespace":true,"securityContext":{"fsGroup":-1,"runAsUser":-1,"runAsGroup":-1,
        "supplementalGroups":[1,-1],"fsGroupChangePolicy":"x","supplementalGroupsPolicy":"y","seLinuxChangePolicy":"MountOption"}"#;
    let path = "spec.securityContext";
    assert_eq!(
        create(&pod(context)),
        [
            format!("{path}.fsGroup: Invalid value: -1: {RANGE}"),
            format!("{path}.runAsUser: Invalid value: -1: {RANGE}"),
            format!("{path}.runAsGroup: Invalid value: -1: {RANGE}"),
            format!("{path}.supplementalGroups[1]: Invalid value: -1: {RANGE}"),
            format!(
                "{path}.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled"
            ),
            format!(
                r#"{path}.fsGroupChangePolicy: Unsupported value: "x": supported values: "Always", "OnRootMismatch""#
            ),
            format!(
                r#"{path}.supplementalGroupsPolicy: Unsupported value: "y": supported values: "Merge", "Strict""#
            ),
            format!(
                r#"{path}.seLinuxChangePolicy: Unsupported value: "MountOption": supported values: "Recursive""#
            ),
        ]
    );
    let shared = r#""hostUsers":false,"hostNetwork":true,"hostPID":true,"hostIPC":true"#;
    let why = "Forbidden: when `pod.Spec.HostUsers` is false";
    assert_eq!(
        create(&pod(shared)),
        ["hostNetwork", "HostPID", "HostIPC"].map(|field| format!("spec.{field}: {why}"))
    );
}

#[test]
fn sysctls_are_of_namespaces_of_the_pod() {
    let sysctls = |fields: &str, names: &[&str]| {
        let sysctls: Vec<String> =
            names.iter().map(|name| format!(r#"{{"name":"{name}","value":"1"}}"#)).collect();
        pod(&format!(r#"{fields}"securityContext":{{"sysctls":[{}]}}"#, sysctls.join(",")))
    };
    let path = "spec.securityContext.sysctls";
    let names =
        ["", "a", "a", "A", "a..b", "net.x", "net/ipv4/x.y", "kernel.sem", "fs/mqueue/x", "kernel.shmx"];
    let form = r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
    let mut expected = vec![
        format!("{path}[0].name: Required value"),
        format!(r#"{path}[2].name: Duplicate value: "a""#),
        format!(r#"{path}[3].name: Invalid value: "A": {form}"#),
        format!(r#"{path}[4].name: Invalid value: "a..b": {form}"#),
    ];
    assert_eq!(create(&sysctls("", &names)), expected);
    let shared = |at: usize, name: &str, field: &str| {
        format!(r#"{path}[{at}].name: Invalid value: "{name}": may not be specified when '{field}' is true"#)
    };
    expected.push(shared(5, "net.x", "hostNetwork"));
    expected.push(shared(6, "net/ipv4/x.y", "hostNetwork"));
    assert_eq!(create(&sysctls(r#""hostNetwork":true,"#, &names)), expected);
    expected.truncate(4);
    expected.push(shared(7, "kernel.sem", "hostIPC"));
    expected.push(shared(8, "fs/mqueue/x", "hostIPC"));
    assert_eq!(create(&sysctls(r#""hostIPC":true,"#, &names)), expected);
    let kept = sysctls(r#""hostIPC":true,"#, &["kernel.sem"]);
    let errors = update(&kept, &kept);
    assert!(!errors.iter().any(|error| error.starts_with(path)), "{errors:?}");
}

#[test]
fn windows_users_have_a_name_and_perhaps_a_domain() {
    for (name, expected) in [
        ("user", &[][..]),
        (r"NT AUTHORITY\\NETWORK SERVICE", &[]),
        (r"a-b.c\\user", &[]),
        ("", &[" cannot be an empty string"]),
        (r"a\nb", &[" cannot contain control characters"]),
        (r"a\\b\\c", &[" cannot contain more than one backslash"]),
        (r"do*main\\user", &["'s Domain doesn't match the NetBios nor the DNS format"]),
        (r"\\", &["'s Domain doesn't match the NetBios nor the DNS format", "'s User cannot be empty"]),
        ("...", &["'s User cannot contain only periods or spaces"]),
        ("a/b", &[r#"'s User cannot contain the following characters: "/\:;|=,+*?<>@[]"#]),
    ] {
        let errors = container(&format!(r#""windowsOptions":{{"runAsUserName":"{name}"}}"#));
        let expected: Vec<String> = expected
            .iter()
            .map(|why| {
                format!(r#".windowsOptions.runAsUserName: Invalid value: "{name}": runAsUserName{why}"#)
            })
            .collect();
        assert_eq!(errors, expected);
    }
    for (domain, user, expected) in [
        (
            256,
            1,
            &[
                "'s Domain length must be under 256 characters",
                "'s Domain doesn't match the NetBios nor the DNS format",
            ][..],
        ),
        (1, 105, &["'s User length must not be longer than 104 characters"]),
    ] {
        let name = format!(r"{}\\{}", "x".repeat(domain), "y".repeat(user));
        let errors = container(&format!(r#""windowsOptions":{{"runAsUserName":"{name}"}}"#));
        let matches = |(error, why): (&String, &&str)| error.ends_with(why);
        assert!(errors.len() == expected.len() && errors.iter().zip(expected).all(matches), "{errors:?}");
    }
    let credentials = format!(r#""windowsOptions":{{"gmsaCredentialSpec":"{}"}}"#, "x".repeat(65537));
    assert!(
        container(&credentials)
            .iter()
            .all(|error| error.ends_with("gmsaCredentialSpec size must be under 64 KiB"))
    );
}

#[test]
fn host_processes_are_all_containers_of_a_pod_in_the_network_of_the_host() {
    let processes = r#""securityContext":{"windowsOptions":{"hostProcess":true}},"initContainers":[{"name":"a","image":"i",
        "securityContext":{"windowsOptions":{"hostProcess":false}}}]"#;
    assert_eq!(
        create(&pod(processes)),
        [
            "spec.initContainers[0].securityContext.windowsOptions.hostProcess: Invalid value: false: pod hostProcess value must be identical if both are specified, was true",
            r#"spec: Invalid value: "": If pod contains any hostProcess containers then all containers must be HostProcess containers"#,
            "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
        ]
    );
}

#[test]
fn fields_are_for_the_operating_system_of_the_pod() {
    assert_eq!(create(&pod(r#""os":{}"#)), ["spec.os.name: Required value: cannot be empty"]);
    assert_eq!(
        create(&pod(r#""os":{"name":"x"}"#)),
        [r#"spec.os: Unsupported value: "x": supported values: "linux", "windows""#]
    );
    let fields = r#""securityContext":{"windowsOptions":{},"fsGroup":1,"sysctls":[{"name":"a","value":"b"}]},"hostUsers":true,
        "initContainers":[{"name":"a","image":"i","securityContext":{"windowsOptions":{},"privileged":false,"runAsUser":1}}]"#;
    let os = |name: &str| create(&pod(&format!(r#"{fields},"os":{{"name":"{name}"}}"#)));
    let own = ["securityContext.windowsOptions", "initContainers[0].securityContext.windowsOptions"];
    let why = "Forbidden: windows options cannot be set for a linux pod";
    assert_eq!(os("linux"), own.map(|field| format!("spec.{field}: {why}")));
    let own = [
        "hostUsers",
        "securityContext.fsGroup",
        "securityContext.sysctls",
        "initContainers[0].securityContext.privileged",
        "initContainers[0].securityContext.runAsUser",
    ];
    assert_eq!(
        os("windows"),
        own.map(|field| format!("spec.{field}: Forbidden: cannot be set for a windows pod"))
    );
}
