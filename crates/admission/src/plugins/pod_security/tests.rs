use super::*;
use crate::Warnings;
use crate::testing::{Fixture, Write};

fn namespace(labels: &str) -> String {
    format!(r#"{{"kind":"Namespace","apiVersion":"v1","metadata":{{"name":"n","labels":{{{labels}}}}}}}"#)
}

fn label(mode: &str, value: &str) -> String {
    format!(r#""pod-security.kubernetes.io/{mode}":"{value}""#)
}

fn pod(metadata: &str, spec: &str) -> String {
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"a","namespace":"n"{metadata}}},"spec":{{{spec}}}}}"#
    )
}

const GOOD: &str = r#""securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},"containers":[{"name":"c","image":"i","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]"#;

async fn start(labels: &str, configuration: Option<&str>) -> (Fixture, PodSecurity) {
    let fixture = Fixture::new().await;
    fixture.put("namespaces", &namespace(labels)).await;
    let plugin = fixture.make(configuration).unwrap();
    (fixture, plugin)
}

#[tokio::test]
async fn series_of_exemptions_are_there_before_the_first() {
    let _started = start("", None).await;
    crate::register_families();
    let text = metrics::MAIN.expose(metrics::Format::Text);
    for resource in ["controller", "pod"] {
        let series = format!(
            "pod_security_exemptions_total{{request_operation=\"update\",resource=\"{resource}\",subresource=\"\"}} "
        );
        assert!(text.contains(&series), "{series}");
    }
}

/// What a level says of a pod.
async fn found(level: &str, version: &str, pod: &str) -> Option<String> {
    let labels = format!("{},{}", label("enforce", level), label("enforce-version", version));
    let (_fixture, plugin) = start(&labels, None).await;
    let refused = Write::create("pods", pod).validate(&plugin).await.err()?;
    let start = format!(r#"pods "a" is forbidden: violates PodSecurity "{level}:{version}": "#);
    assert_eq!((refused.code, refused.message.starts_with(&start)), (403, true), "{}", refused.message);
    Some(refused.message[start.len()..].to_owned())
}

#[tokio::test]
async fn baseline_names_every_violation_with_its_detail() {
    let bad = pod(
        r#","annotations":{"container.apparmor.security.beta.kubernetes.io/c":"unconfined"}"#,
        r#""hostNetwork":true,"hostPID":true,"hostIPC":true,"volumes":[{"name":"v","hostPath":{"path":"/"}}],
           "securityContext":{"seLinuxOptions":{"type":"x","user":"u","role":"r"},"sysctls":[{"name":"b","value":"1"},{"name":"kernel.shm_rmid_forced","value":"1"}],"windowsOptions":{"hostProcess":true},"seccompProfile":{"type":"Unconfined"}},
           "initContainers":[{"name":"i","securityContext":{"privileged":true,"procMount":"Unmasked"}}],
           "containers":[{"name":"c","ports":[{"containerPort":1,"hostPort":80},{"containerPort":2,"hostPort":8}],"securityContext":{"capabilities":{"add":["SYS_TIME","CHOWN"]},"appArmorProfile":{"type":"Unconfined"}}}],
           "ephemeralContainers":[{"name":"e","securityContext":{"privileged":true}}]"#,
    );
    assert_eq!(
        found("baseline", "latest", &bad).await.unwrap(),
        concat!(
            r#"forbidden AppArmor profiles (container "c" and annotation must not set AppArmor profile type to "Unconfined", "container.apparmor.security.beta.kubernetes.io/c="unconfined""), "#,
            r#"non-default capabilities (container "c" must not include "SYS_TIME" in securityContext.capabilities.add), "#,
            "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true), ",
            r#"hostPath volumes (volume "v"), "#,
            r#"hostPort (container "c" uses hostPorts 8, 80), "#,
            r#"privileged (containers "i", "e" must not set securityContext.privileged=true), "#,
            r#"procMount (container "i" must not set securityContext.procMount to "Unmasked"), "#,
            r#"seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "x"; user may not be set; role may not be set), "#,
            r#"seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined"), "#,
            "forbidden sysctls (b), ",
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        )
    );
    assert_eq!(found("baseline", "latest", &pod("", r#""containers":[{"name":"c"}]"#)).await, None);
}

#[tokio::test]
async fn restricted_asks_for_more_and_replaces_some_checks() {
    let bad = pod(
        "",
        r#""volumes":[{"name":"v","hostPath":{"path":"/"}},{"name":"w","nfs":{}},{"name":"x","emptyDir":{}}],"securityContext":{"runAsUser":0},"containers":[{"name":"c","securityContext":{"capabilities":{"add":["CHOWN","NET_BIND_SERVICE"]}}}]"#,
    );
    assert_eq!(
        found("restricted", "latest", &bad).await.unwrap(),
        concat!(
            r#"allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), "#,
            r#"unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]; container "c" must not include "CHOWN" in securityContext.capabilities.add), "#,
            r#"restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs"), "#,
            r#"runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), "#,
            "runAsUser=0 (pod must not set runAsUser=0), ",
            r#"seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#,
        )
    );
    assert_eq!(found("restricted", "latest", &pod("", GOOD)).await, None);
}

#[tokio::test]
async fn versions_have_the_checks_of_their_time() {
    let annotated = pod(
        r#","annotations":{"seccomp.security.alpha.kubernetes.io/pod":"unconfined"}"#,
        r#""containers":[{"name":"c"}]"#,
    );
    let wanted =
        r#"seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")"#;
    assert_eq!(found("baseline", "v1.18", &annotated).await.as_deref(), Some(wanted));
    assert_eq!(found("baseline", "v1.19", &annotated).await, None);
    let sysctl = |name: &str| {
        pod(
            "",
            &format!(
                r#""securityContext":{{"sysctls":[{{"name":"{name}","value":"1"}}]}},"containers":[{{"name":"c"}}]"#
            ),
        )
    };
    for (name, from) in [
        ("net.ipv4.ip_local_reserved_ports", 27),
        ("net.ipv4.tcp_fin_timeout", 29),
        ("net.ipv4.tcp_wmem", 32),
    ] {
        assert!(found("baseline", &format!("v1.{}", from - 1), &sysctl(name)).await.is_some(), "{name}");
        assert_eq!(found("baseline", &format!("v1.{from}"), &sysctl(name)).await, None, "{name}");
        assert_eq!(found("baseline", "v1.99", &sysctl(name)).await, None, "{name}");
    }
    let windows = pod(
        "",
        r#""os":{"name":"windows"},"securityContext":{"runAsNonRoot":true},"containers":[{"name":"c"}]"#,
    );
    assert_eq!(found("restricted", "v1.25", &windows).await, None);
    let before = found("restricted", "v1.24", &windows).await.unwrap();
    assert!(before.starts_with("allowPrivilegeEscalation") && before.contains("seccompProfile"), "{before}");
    let old = found("restricted", "v1.7", &windows).await;
    assert_eq!(old, None);
    let engine = pod(
        "",
        r#""securityContext":{"seLinuxOptions":{"type":"container_engine_t"}},"containers":[{"name":"c"}]"#,
    );
    assert!(found("baseline", "v1.30", &engine).await.is_some());
    assert_eq!(found("baseline", "v1.31", &engine).await, None);
}

#[tokio::test]
async fn workloads_and_laxer_modes_only_warn() {
    let (_fixture, plugin) = start(&label("enforce", "baseline"), None).await;
    let template = r#"{"spec":{"hostPID":true,"containers":[{"name":"c","image":"i"}]}}"#;
    let jobs = [
        (
            "apps",
            "deployments",
            format!(r#"{{"metadata":{{"name":"a","namespace":"n"}},"spec":{{"template":{template}}}}}"#),
        ),
        (
            "batch",
            "cronjobs",
            format!(
                r#"{{"metadata":{{"name":"a","namespace":"n"}},"spec":{{"jobTemplate":{{"spec":{{"template":{template}}}}}}}}}"#
            ),
        ),
        (
            "",
            "podtemplates",
            format!(r#"{{"metadata":{{"name":"a","namespace":"n"}},"template":{template}}}"#),
        ),
    ];
    for (group, resource, object) in &jobs {
        let write = Write { group, ..Write::create(resource, object) };
        assert!(write.validate(&plugin).await.is_ok(), "{resource}");
        let wanted = r#"would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)"#;
        assert_eq!(write.warnings.take(), [wanted], "{resource}");
        let status =
            Write { subresource: "status", old: Some(object), operation: Operation::Update, ..write };
        assert!(status.validate(&plugin).await.is_ok() && status.warnings.take().is_empty());
    }
    let (_fixture, plugin) = start(&label("warn", "restricted"), None).await;
    let plain = pod("", r#""containers":[{"name":"c"}]"#);
    let write = Write::create("pods", &plain);
    assert!(write.validate(&plugin).await.is_ok());
    assert!(write.warnings.take()[0].starts_with(r#"would violate PodSecurity "restricted:latest": allow"#));
}

#[tokio::test]
async fn updates_count_if_images_or_containers_change() {
    let (_fixture, plugin) = start(&label("enforce", "baseline"), None).await;
    let old = pod("", r#""hostPID":true,"containers":[{"name":"c","image":"i"}]"#);
    let relabelled =
        pod(r#","labels":{"a":"b"}"#, r#""hostPID":true,"containers":[{"name":"c","image":"i"}]"#);
    assert!(Write::update("pods", &old, &relabelled).validate(&plugin).await.is_ok());
    let image = old.replace(r#""image":"i""#, r#""image":"j""#);
    assert!(Write::update("pods", &old, &image).validate(&plugin).await.is_err());
    let ephemeral = pod(
        "",
        r#""hostPID":true,"containers":[{"name":"c","image":"i"}],"ephemeralContainers":[{"name":"e","image":"i"}]"#,
    );
    let write = Write { subresource: "ephemeralcontainers", ..Write::update("pods", &old, &ephemeral) };
    assert!(write.validate(&plugin).await.is_err());
    let status = Write { subresource: "status", ..Write::update("pods", &old, &image) };
    assert!(status.validate(&plugin).await.is_ok());
}

#[tokio::test]
async fn exemptions_and_defaults_come_from_the_configuration() {
    let configuration = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\ndefaults: {enforce: baseline}\nexemptions: {usernames: [root], namespaces: [m], runtimeClasses: [vm]}\n";
    let (_fixture, plugin) = start("", Some(configuration)).await;
    let bad = pod("", r#""hostPID":true,"containers":[{"name":"c"}]"#);
    assert!(Write::create("pods", &bad).validate(&plugin).await.is_err());
    let user = auth::User { name: "root".into(), ..auth::User::default() };
    assert!(Write { user, ..Write::create("pods", &bad) }.validate(&plugin).await.is_ok());
    let class = pod("", r#""runtimeClassName":"vm","hostPID":true,"containers":[{"name":"c"}]"#);
    assert!(Write::create("pods", &class).validate(&plugin).await.is_ok());
    let exempt = bad.replace(r#""namespace":"n""#, r#""namespace":"m""#);
    assert!(Write::create("pods", &exempt).validate(&plugin).await.is_ok());
    let labelled = namespace(&label("enforce", "restricted")).replace(r#""name":"n""#, r#""name":"m""#);
    let write = Write::create("namespaces", &labelled);
    assert!(write.validate(&plugin).await.is_ok());
    let wanted = r#"namespace "m" is exempt from Pod Security, and the policy (enforce=restricted:latest, warn=restricted:latest) will be ignored"#;
    let warned = write.warnings.take();
    assert!(
        warned.len() == 1 && (warned[0] == wanted || warned[0].contains("enforce=restricted:latest")),
        "{warned:?}"
    );
    let nowhere = bad.replace(r#""namespace":"n""#, r#""namespace":"x""#);
    assert_eq!(Write::create("pods", &nowhere).validate(&plugin).await.err().unwrap().code, 500);
}

#[tokio::test]
async fn namespace_that_enforces_more_names_its_violations() {
    let (fixture, plugin) = start("", None).await;
    let owner =
        r#","ownerReferences":[{"apiVersion":"v1","kind":"X","name":"x","uid":"u","controller":true}]"#;
    for (name, owner) in [("b", owner), ("c", owner), ("a", ""), ("z", "")] {
        let spec = if name == "z" {
            r#""containers":[{"name":"c"}]"#
        } else {
            r#""hostPID":true,"containers":[{"name":"c"}]"#
        };
        let text = pod(owner, spec).replace(r#""name":"a""#, &format!(r#""name":"{name}""#));
        fixture.put("pods", &text).await;
    }
    let (old, new) = (namespace(""), namespace(&label("enforce", "baseline")));
    let write = Write::update("namespaces", &old, &new);
    assert!(write.validate(&plugin).await.is_ok());
    assert_eq!(
        write.warnings.take(),
        [
            r#"existing pods in namespace "n" violate the new PodSecurity enforce level "baseline:latest""#,
            "a (and 2 other pods): host namespaces",
        ]
    );
    let laxer = Write { warnings: Warnings::default(), ..Write::update("namespaces", &new, &old) };
    assert!(laxer.validate(&plugin).await.is_ok() && laxer.warnings.take().is_empty());
    let wrong = namespace(&label("enforce", "x"));
    let refused = Write::create("namespaces", &wrong).validate(&plugin).await.err().unwrap();
    assert_eq!(refused.code, 422);
    assert!(Write::update("namespaces", &wrong, &wrong).validate(&plugin).await.is_ok());
    assert!(Write::update("namespaces", &old, &wrong).validate(&plugin).await.is_err());
}
