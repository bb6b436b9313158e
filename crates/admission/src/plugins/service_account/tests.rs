//! Pods and their service accounts.

use super::*;
use crate::testing::{Fixture, Write};
use schema::Limits;

async fn with_account(more: &str) -> (Fixture, ServiceAccount) {
    let fixture = Fixture::new().await;
    put_account(&fixture, "default", more).await;
    let plugin = fixture.make(None).unwrap();
    (fixture, plugin)
}

async fn put_account(fixture: &Fixture, name: &str, more: &str) {
    let metadata = format!(r#""name":"{name}","namespace":"n""#);
    let json = match more.strip_prefix('@') {
        Some(rest) => format!(
            r#"{{"kind":"ServiceAccount","apiVersion":"v1","metadata":{{{metadata},"annotations":{{"{ENFORCE}":"true"}}}}{rest}}}"#
        ),
        None => {
            format!(r#"{{"kind":"ServiceAccount","apiVersion":"v1","metadata":{{{metadata}}}{more}}}"#)
        }
    };
    fixture.put("serviceaccounts", &json).await;
}

fn pod(metadata: &str, spec: &str) -> String {
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"p","namespace":"n"{metadata}}},"spec":{{{spec}}}}}"#
    )
}

async fn spec_of(plugin: &ServiceAccount, pod: &str) -> Value {
    let made = Write::create("pods", pod).mutate(plugin).await.unwrap().unwrap();
    made.get("spec").cloned().unwrap()
}

async fn why(plugin: &ServiceAccount, pod: &str) -> String {
    let refused = Write::create("pods", pod).mutate(plugin).await.err();
    refused.map(|status| status.message).unwrap_or_default()
}

fn update(new: &str) -> Write<'_> {
    Write { subresource: "ephemeralcontainers", ..Write::update("pods", new, new) }
}

fn json(text: &str) -> Value {
    schema::json::decode_shape(&schema::Shape::Any, text.as_bytes(), &Limits::STORED).unwrap().value
}

#[tokio::test]
async fn a_pod_gets_the_default_account_with_its_token_and_pull_secrets() {
    let (_fixture, plugin) =
        with_account(r#","imagePullSecrets":[{"name":"a"},{"name":"b"}],"secrets":[{"name":"x"}]"#).await;
    let elsewhere = r#"{"name":"e","volumeMounts":[{"name":"v","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}]}"#;
    let spec = spec_of(
        &plugin,
        &pod("", &format!(r#""initContainers":[{{"name":"i"}}],"containers":[{{"name":"c"}},{elsewhere}]"#)),
    )
    .await;
    let name = spec.get("volumes").and_then(Value::as_list).unwrap()[0].get("name").unwrap();
    let name = name.as_str().unwrap();
    assert!(name.starts_with("kube-api-access-") && name.len() == 21, "{name}");
    let mount = format!(
        r#""volumeMounts":[{{"name":"{name}","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}]"#
    );
    let expected = format!(
        r#"{{"initContainers":[{{"name":"i",{mount}}}],"containers":[{{"name":"c",{mount}}},{elsewhere}],
        "serviceAccountName":"default","serviceAccount":"default","imagePullSecrets":[{{"name":"a"}},{{"name":"b"}}],
        "volumes":[{{"name":"{name}","projected":{{"defaultMode":420,"sources":[
            {{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},
            {{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}},
            {{"downwardAPI":{{"items":[{{"path":"namespace","fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.namespace"}}}}]}}}}]}}}}]}}"#
    );
    assert_eq!(spec, json(&expected));
}

#[tokio::test]
async fn a_pod_decides_about_its_token_before_its_account() {
    let (_fixture, plugin) = with_account(r#","automountServiceAccountToken":false"#).await;
    let containers = r#""containers":[{"name":"c"}]"#;
    assert!(spec_of(&plugin, &pod("", containers)).await.get("volumes").is_none());
    let automount = format!(r#"{containers},"automountServiceAccountToken":true"#);
    assert!(spec_of(&plugin, &pod("", &automount)).await.get("volumes").is_some());
}

#[tokio::test]
async fn a_volume_for_the_token_is_not_added_twice() {
    let (_fixture, plugin) = with_account("").await;
    let spec = r#""containers":[{"name":"c"}],"volumes":[{"name":"kube-api-access-x","emptyDir":{}}],"imagePullSecrets":[{"name":"mine"}]"#;
    let made = spec_of(&plugin, &pod("", spec)).await;
    assert_eq!(made.get("volumes").and_then(Value::as_list).unwrap().len(), 1);
    let container = &made.get("containers").and_then(Value::as_list).unwrap()[0];
    let mount = &container.get("volumeMounts").and_then(Value::as_list).unwrap()[0];
    assert_eq!(mount.get("name").and_then(Value::as_str), Some("kube-api-access-x"));
    assert_eq!(made.get("imagePullSecrets"), Some(&json(r#"[{"name":"mine"}]"#)));
}

#[tokio::test]
async fn the_older_field_names_the_account_too() {
    let (fixture, plugin) = with_account("").await;
    put_account(&fixture, "builder", "").await;
    let made = spec_of(&plugin, &pod("", r#""containers":[],"serviceAccount":"builder""#)).await;
    assert_eq!(made.get("serviceAccountName").and_then(Value::as_str), Some("builder"));
    assert_eq!(
        why(&plugin, &pod("", r#""serviceAccountName":"nobody","serviceAccount":"builder""#)).await,
        r#"pods "p" is forbidden: error looking up service account n/nobody: serviceaccount "nobody" not found"#
    );
}

#[tokio::test(start_paused = true)]
async fn a_default_account_that_is_made_late_is_waited_for() {
    let fixture = Fixture::new().await;
    let plugin: ServiceAccount = fixture.make(None).unwrap();
    let new = pod("", r#""containers":[]"#);
    assert_eq!(
        why(&plugin, &new).await,
        r#"pods "p" is forbidden: error looking up service account n/default: serviceaccount "default" not found"#
    );
    let create = Write::create("pods", &new);
    let late = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        put_account(&fixture, "default", "").await;
    };
    let (made, ()) = tokio::join!(create.mutate(&plugin), late);
    assert!(made.is_ok());
}

#[tokio::test]
async fn a_mirror_pod_stays_as_it_is_and_refers_to_nothing() {
    let (_fixture, plugin) = with_account("").await;
    let mirror = r#","annotations":{"kubernetes.io/config.mirror":"x"}"#;
    let spec = r#""containers":[{"name":"c"}]"#;
    assert_eq!(spec_of(&plugin, &pod(mirror, spec)).await, json(&format!("{{{spec}}}")));
    for (spec, expected) in [
        (r#""serviceAccount":"a""#, "reference service accounts"),
        (r#""imagePullSecrets":[{"name":"a"}]"#, "reference secrets"),
        (
            r#""ephemeralContainers":[{"name":"e","envFrom":[{"secretRef":{"name":"a"}}]}]"#,
            "reference secrets",
        ),
        (
            r#""volumes":[{"name":"v","csi":{"driver":"d","nodePublishSecretRef":{"name":"a"}}}]"#,
            "reference secrets",
        ),
        (
            r#""volumes":[{"name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}]"#,
            "use ServiceAccountToken volume projections",
        ),
    ] {
        let expected = format!(r#"pods "p" is forbidden: a mirror pod may not {expected}"#);
        assert_eq!(why(&plugin, &pod(mirror, spec)).await, expected);
    }
}

#[tokio::test]
async fn pods_of_an_account_that_enforces_it_use_only_its_secrets() {
    let (_fixture, plugin) =
        with_account(r#"@,"secrets":[{"name":"s"}],"imagePullSecrets":[{"name":"q"}]"#).await;
    let env = |name: &str| {
        format!(
            r#"[{{"name":"c","env":[{{"name":"E","valueFrom":{{"secretKeyRef":{{"name":"{name}","key":"k"}}}}}}]}}]"#
        )
    };
    let env_from =
        |name: &str| format!(r#"[{{"name":"c","envFrom":[{{"secretRef":{{"name":"{name}"}}}}]}}]"#);
    let not = "is not allowed because service account default does not reference that";
    for (spec, expected) in [
        (format!(r#""containers":{}"#, env("s")), String::new()),
        (format!(r#""containers":{}"#, env_from("s")), String::new()),
        (
            r#""volumes":[{"name":"v","secret":{"secretName":"t"}}]"#.into(),
            format!(r#"volume with secret.secretName="t" {not} secret"#),
        ),
        (
            format!(r#""initContainers":{}"#, env("t")),
            format!(r#"init container c with envVar E referencing secret.secretName="t" {not} secret"#),
        ),
        (
            format!(r#""initContainers":{}"#, env_from("t")),
            format!(r#"init container c with envFrom referencing secret.secretName="t" {not} secret"#),
        ),
        (
            format!(r#""containers":{}"#, env("t")),
            format!(r#"container c with envVar E referencing secret.secretName="t" {not} secret"#),
        ),
        (
            r#""imagePullSecrets":[{"name":"q"},{"name":"r"}]"#.into(),
            format!(r#"imagePullSecrets[1].name="r" {not} imagePullSecret"#),
        ),
    ] {
        let expected = match expected.as_str() {
            "" => String::new(),
            why => format!(r#"pods "p" is forbidden: {why}"#),
        };
        assert_eq!(why(&plugin, &pod("", &spec)).await, expected);
    }
    let with = |name: &str| {
        let spec = format!(r#""serviceAccountName":"default","ephemeralContainers":{}"#, env_from(name));
        pod("", &spec)
    };
    assert!(update(&with("s")).validate(&plugin).await.is_ok());
    let refused = update(&with("t")).validate(&plugin).await.err().unwrap();
    assert_eq!((refused.code, refused.reason.as_str()), (500, ""));
    assert!(refused.message.starts_with("ephemeral container c with envFrom"), "{}", refused.message);
    let without = pod("", r#""ephemeralContainers":[]"#);
    let refused = update(&without).validate(&plugin).await.err().unwrap();
    assert_eq!(refused.message, r#"pods "p" is forbidden: no service account specified for pod n/p"#);
}
