//! Pods and claims under limit ranges.

use super::*;
use crate::testing::{Fixture, Write};
use object::Value;

async fn with_range(limits: &str) -> (Fixture, LimitRanger) {
    let fixture = Fixture::new().await;
    put_range(&fixture, "l", limits).await;
    let plugin = fixture.make(None).unwrap();
    (fixture, plugin)
}

async fn put_range(fixture: &Fixture, name: &str, limits: &str) {
    let json = format!(
        r#"{{"kind":"LimitRange","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"n"}},"spec":{{"limits":[{limits}]}}}}"#
    );
    fixture.put("limitranges", &json).await;
}

fn pod(spec: &str) -> String {
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"p","namespace":"n"}},"spec":{{{spec}}}}}"#
    )
}

fn container(name: &str, resources: &str) -> String {
    format!(r#"{{"name":"{name}","resources":{{{resources}}}}}"#)
}

fn claim(requests: &str) -> String {
    format!(
        r#"{{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{{"name":"c","namespace":"n"}},"spec":{{"resources":{{"requests":{{{requests}}}}}}}}}"#
    )
}

async fn why(plugin: &LimitRanger, pod: &str) -> String {
    let refused = Write::create("pods", pod).validate(plugin).await.err();
    refused.map(|status| status.message).unwrap_or_default()
}

fn at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| match step.parse::<usize>() {
        Ok(at) => value.as_list()?.get(at),
        Err(_) => value.get(step),
    })
}

#[tokio::test]
async fn containers_get_what_they_lack_and_the_annotation_says_it() {
    let (_fixture, plugin) = with_range(
        r#"{"type":"Container","default":{"cpu":"500m","memory":"256Mi"},"defaultRequest":{"cpu":"100m","memory":"256Mi"}},{"type":"Pod","default":{"cpu":"1"}}"#,
    )
    .await;
    let full = r#""limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}"#;
    let containers = format!(
        r#""containers":[{},{}],"initContainers":[{}]"#,
        container("c", r#""requests":{"cpu":"200m"}"#),
        container("d", full),
        container("i", "")
    );
    let made = Write::create("pods", &pod(&containers)).mutate(&plugin).await.unwrap().unwrap();
    let text = |path: &[&str]| at(&made, path).and_then(Value::as_str).unwrap_or_default().to_owned();
    assert_eq!(
        text(&["metadata", "annotations", "kubernetes.io/limit-ranger"]),
        "LimitRanger plugin set: memory request for container c; cpu, memory limit for container c; cpu, memory request for init container i; cpu, memory limit for init container i"
    );
    assert_eq!(text(&["spec", "containers", "0", "resources", "requests", "cpu"]), "200m");
    assert_eq!(text(&["spec", "containers", "0", "resources", "limits", "cpu"]), "500m");
    assert_eq!(text(&["spec", "containers", "1", "resources", "limits", "cpu"]), "1");
    assert_eq!(text(&["spec", "initContainers", "0", "resources", "limits", "memory"]), "256Mi");
}

#[tokio::test]
async fn updates_of_pods_are_left_alone_and_resizes_are_not() {
    let (_fixture, plugin) =
        with_range(r#"{"type":"Container","default":{"cpu":"1"},"max":{"cpu":"1"}}"#).await;
    let old = pod(&format!(r#""containers":[{}]"#, container("c", "")));
    let new = pod(&format!(r#""containers":[{}]"#, container("c", r#""limits":{"cpu":"2"}"#)));
    let update = Write::update("pods", &old, &new);
    assert!(update.validate(&plugin).await.is_ok());
    let unchanged = update.mutate(&plugin).await.unwrap().unwrap();
    assert!(at(&unchanged, &["metadata", "annotations"]).is_none());
    let resize = Write { subresource: "resize", ..update };
    let refused = resize.validate(&plugin).await.err().unwrap();
    assert_eq!(
        refused.message,
        r#"pods "p" is forbidden: maximum cpu usage per Container is 1, but limit is 2"#
    );
    let going = old.replace(r#""name":"p""#, r#""name":"p","deletionTimestamp":"2026-01-01T00:00:00Z""#);
    let resize = Write { subresource: "resize", ..Write::update("pods", &going, &new) };
    assert!(resize.validate(&plugin).await.is_ok());
}

#[tokio::test]
async fn bounds_of_containers_are_checked_in_the_order_of_the_reference() {
    let (fixture, plugin) = with_range(
        r#"{"type":"Container","min":{"cpu":"100m"},"max":{"memory":"1Gi"},"maxLimitRequestRatio":{"cpu":"2"}}"#,
    )
    .await;
    let one = |resources: &str| pod(&format!(r#""containers":[{}]"#, container("c", resources)));
    assert_eq!(
        why(&plugin, &one("")).await,
        r#"pods "p" is forbidden: [minimum cpu usage per Container is 100m.  No request is specified, maximum memory usage per Container is 1Gi.  No limit is specified, cpu max limit to request ratio per Container is 2, but no request is specified or request is 0]"#
    );
    let ratio = one(r#""requests":{"cpu":"100m","memory":"1Mi"},"limits":{"cpu":"250m","memory":"1Gi"}"#);
    assert_eq!(
        why(&plugin, &ratio).await,
        r#"pods "p" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000"#
    );
    let low = one(r#""requests":{"cpu":"50m","memory":"2Gi"},"limits":{"cpu":"100m","memory":"1Gi"}"#);
    assert_eq!(
        why(&plugin, &low).await,
        r#"pods "p" is forbidden: [minimum cpu usage per Container is 100m, but request is 50m, maximum memory usage per Container is 1Gi, but request is 2Gi]"#
    );
    put_range(&fixture, "l", r#"{"type":"Container","min":{"cpu":"100m"}}"#).await;
    let limit = one(r#""requests":{"cpu":"100m"},"limits":{"cpu":"50m"}"#);
    assert_eq!(
        why(&plugin, &limit).await,
        r#"pods "p" is forbidden: minimum cpu usage per Container is 100m, but limit is 50m"#
    );
}

#[tokio::test]
async fn amounts_too_large_for_thousandths_are_compared_in_whole_units() {
    let (_fixture, plugin) = with_range(r#"{"type":"Container","max":{"memory":"8Ei"}}"#).await;
    let large = pod(&format!(r#""containers":[{}]"#, container("c", r#""limits":{"memory":"7Ei"}"#)));
    assert_eq!(why(&plugin, &large).await, "");
}

#[tokio::test]
async fn requests_of_a_pod_are_the_sum_of_what_runs_at_the_same_time() {
    let (_fixture, plugin) = with_range(
        r#"{"type":"Pod","min":{"memory":"100"},"max":{"cpu":"5"},"maxLimitRequestRatio":{"cpu":"1"}}"#,
    )
    .await;
    let cpu = |amount: &str, more: &str| {
        format!(
            r#"{{"name":"c","resources":{{"requests":{{"cpu":"{amount}","memory":"100"}},"limits":{{"cpu":"{amount}"}}}}{more}}}"#
        )
    };
    let always = r#","restartPolicy":"Always""#;
    let spec = |containers: &[String], init: &[String]| {
        pod(&format!(r#""containers":[{}],"initContainers":[{}]"#, containers.join(","), init.join(",")))
    };
    let two = [cpu("1", ""), cpu("1", "")];
    assert_eq!(why(&plugin, &spec(&two, &[cpu("5", "")])).await, "");
    assert_eq!(
        why(&plugin, &spec(&two, &[cpu("3", always), cpu("3", "")])).await,
        r#"pods "p" is forbidden: maximum cpu usage per Pod is 5, but limit is 6"#
    );
    assert_eq!(
        why(&plugin, &spec(&two, &[cpu("4", always)])).await,
        r#"pods "p" is forbidden: maximum cpu usage per Pod is 5, but limit is 6"#
    );
    assert_eq!(why(&plugin, &spec(&two, &[cpu("5", ""), cpu("3", always)])).await, "");
}

#[tokio::test]
async fn resources_of_the_pod_itself_count_behind_their_gate() {
    let (mut fixture, plugin) = with_range(r#"{"type":"Pod","max":{"cpu":"1"}}"#).await;
    let whole = pod(&format!(
        r#""containers":[{}],"resources":{{"limits":{{"cpu":"2"}}}}"#,
        container("c", r#""limits":{"cpu":"1"}"#)
    ));
    assert_eq!(why(&plugin, &whole).await, "");
    fixture.settings.gates.pod_level_resources = true;
    let plugin = fixture.make(None).unwrap();
    assert_eq!(
        why(&plugin, &whole).await,
        r#"pods "p" is forbidden: maximum cpu usage per Pod is 1, but limit is 2"#
    );
}

#[tokio::test]
async fn claims_are_bound_by_their_requests() {
    let (_fixture, plugin) =
        with_range(r#"{"type":"PersistentVolumeClaim","min":{"storage":"1Gi"},"max":{"storage":"2Gi"}}"#)
            .await;
    for (requests, expected) in [
        (r#""storage":"1Gi""#, ""),
        (
            r#""storage":"1Mi""#,
            r#"persistentvolumeclaims "c" is forbidden: minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"#,
        ),
        (
            r#""storage":"3Gi""#,
            r#"persistentvolumeclaims "c" is forbidden: maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"#,
        ),
        (
            "",
            r#"persistentvolumeclaims "c" is forbidden: [minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified, maximum storage usage per PersistentVolumeClaim is 2Gi.  No request is specified]"#,
        ),
    ] {
        let refused = Write::create("persistentvolumeclaims", &claim(requests)).validate(&plugin).await.err();
        assert_eq!(refused.map(|status| status.message).unwrap_or_default(), expected);
    }
}
