use super::*;
use crate::testing::map;
use v1::Pod;

const PLACE: Place = Place { host: Ipv4Addr::new(172, 16, 0, 1), pod: Ipv4Addr::new(10, 128, 0, 1) };

fn pod(metadata: &str, spec: &str) -> Map {
    map(
        Pod::schema(),
        &format!(
            r#"{{"metadata":{{"name":"p","namespace":"ns","uid":"u"{metadata}}},"spec":{{"nodeName":"n",{spec}}},
            "status":{{"phase":"Pending","qosClass":"BestEffort","conditions":[
            {{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}}]}}}}"#
        ),
    )
}

const ONE: &str = r#""restartPolicy":"Always","containers":[{"name":"c","image":"nginx:1"}]"#;

fn condition_texts(pod: &Map) -> Vec<String> {
    let conditions = Pod::of(pod).status().conditions();
    conditions.iter().map(|it| format!("{} {} {}", it.r#type(), it.status(), it.reason())).collect()
}

#[test]
fn a_pod_runs_as_a_kubelet_would_write_it() {
    let mut pod = pod("", ONE);
    assert_eq!(advance(&mut pod, PLACE), Next::Write);
    let status = Pod::of(&pod).status();
    assert_eq!((status.phase(), status.host_ip(), status.pod_ip()), ("Running", "172.16.0.1", "10.128.0.1"));
    assert_eq!(status.pod_ips().get(0).unwrap().ip(), "10.128.0.1");
    assert_eq!(status.qos_class(), "BestEffort");
    assert!(status.start_time().is_some());
    let expected = [
        "PodScheduled True ",
        "PodReadyToStartContainers True ",
        "Initialized True ",
        "Ready True ",
        "ContainersReady True ",
    ];
    assert_eq!(condition_texts(&pod), expected);
    let since = status.conditions().get(0).unwrap().last_transition_time();
    assert_eq!(since, Some("2026-01-01T00:00:00Z"), "a condition that stays keeps its time");
    let container = status.container_statuses().get(0).unwrap();
    assert!(container.ready() && container.started() == Some(true));
    assert!(container.container_id().starts_with("keelson://"));
    assert!(container.image_id().starts_with("nginx@sha256:"), "{}", container.image_id());
    assert!(container.state().running().is_some_and(|running| running.started_at().is_some()));
    assert_eq!(advance(&mut pod, PLACE), Next::Nothing);
}

#[test]
fn a_pod_with_a_delay_is_created_first() {
    let spec = format!(r#"{ONE},"initContainers":[{{"name":"i","image":"b"}}]"#);
    let mut pod = pod(r#","annotations":{"pod-ready.stage.kwok.x-k8s.io/delay":"1h"}"#, &spec);
    assert_eq!(advance(&mut pod, PLACE), Next::Write);
    let status = Pod::of(&pod).status();
    assert_eq!(status.phase(), "Pending");
    let waiting = status.container_statuses().get(0).unwrap().state().waiting().unwrap();
    assert_eq!(waiting.reason(), "PodInitializing");
    assert!(condition_texts(&pod).contains(&"Ready False ContainersNotReady".to_owned()));
    assert!(matches!(advance(&mut pod, PLACE), Next::After(left) if left > Duration::from_secs(3_000)));
}

#[test]
fn init_containers_end_and_sidecars_run() {
    let init =
        r#""initContainers":[{"name":"i","image":"b"},{"name":"s","image":"b","restartPolicy":"Always"}]"#;
    let mut pod = pod("", &format!("{ONE},{init}"));
    advance(&mut pod, PLACE);
    let statuses = Pod::of(&pod).status().init_container_statuses();
    let (first, sidecar) = (statuses.get(0).unwrap(), statuses.get(1).unwrap());
    assert_eq!(first.state().terminated().unwrap().reason(), "Completed");
    assert!(first.ready() && first.started() == Some(false));
    assert!(sidecar.state().running().is_some() && sidecar.started() == Some(true));
}

#[test]
fn readiness_gates_that_others_set_are_heeded() {
    let mut pod = pod("", &format!(r#"{ONE},"readinessGates":[{{"conditionType":"example.com/lb"}}]"#));
    advance(&mut pod, PLACE);
    assert!(condition_texts(&pod).contains(&"Ready True ".to_owned()), "{:?}", condition_texts(&pod));
    let mut conditions = Conditions::of(Pod::of(&pod));
    conditions.set("example.com/lb", "False", "Draining", "");
    pod.get_mut("status").and_then(Value::as_map_mut).unwrap().insert("conditions", conditions.into_value());
    assert_eq!(advance(&mut pod, PLACE), Next::Write);
    assert!(condition_texts(&pod).contains(&"Ready False ReadinessGatesNotReady".to_owned()));
    assert_eq!(advance(&mut pod, PLACE), Next::Nothing);
}

#[test]
fn pods_of_jobs_end_and_others_run_on() {
    const JOB: &str = r#","ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"j","uid":"x","controller":true}]"#;
    let spec = ONE.replace("Always", "Never");
    let end = |metadata: &str, spec: &str| {
        let mut pod = pod(metadata, spec);
        advance(&mut pod, PLACE);
        let next = advance(&mut pod, PLACE);
        (next, Pod::of(&pod).status().phase().to_owned(), pod)
    };
    let (next, phase, done) = end(JOB, &spec);
    assert_eq!((next, phase.as_str()), (Next::Write, "Succeeded"));
    assert!(condition_texts(&done).contains(&"Ready False PodCompleted".to_owned()));
    let ended = Pod::of(&done).status().container_statuses().get(0).unwrap().state().terminated();
    assert_eq!(ended.map(|ended| (ended.exit_code(), ended.reason())), Some((0, "Completed")));
    let (next, phase, _) = end("", &spec);
    assert_eq!((next, phase.as_str()), (Next::Nothing, "Running"));
    let failing = format!(r#"{JOB},"annotations":{{"keelson.io/exit-code":"3"}}"#);
    let (next, phase, _) = end(&failing, &spec);
    assert_eq!((next, phase.as_str()), (Next::Write, "Failed"));
    let (next, phase, again) = end(&failing, &ONE.replace("Always", "OnFailure"));
    assert_eq!((next, phase.as_str()), (Next::Write, "Running"));
    let container = Pod::of(&again).status().container_statuses().get(0).unwrap();
    assert_eq!(container.restart_count(), 1);
    assert_eq!(container.last_state().terminated().unwrap().exit_code(), 3);
    let late = format!(r#"{JOB},"annotations":{{"pod-complete.stage.kwok.x-k8s.io/delay":"1h"}}"#);
    assert!(matches!(end(&late, &spec).0, Next::After(_)));
}

#[test]
fn deleted_pods_go_and_say_how_they_ended_if_something_keeps_them() {
    let deleted = r#","deletionTimestamp":"2026-01-01T00:00:30Z","deletionGracePeriodSeconds":30"#;
    let mut plain = pod(deleted, ONE);
    assert_eq!(advance(&mut plain, PLACE), Next::Remove);
    let mut kept = pod(&format!(r#"{deleted},"finalizers":["example.com/f"]"#), ONE);
    assert_eq!(advance(&mut kept, PLACE), Next::Write);
    assert_eq!(Pod::of(&kept).status().phase(), "Failed");
    assert_eq!(advance(&mut kept, PLACE), Next::Remove);
    let soon = Time::from_unix(Time::now().unix() + 30).text();
    let slow = format!(
        r#","deletionTimestamp":"{soon}","deletionGracePeriodSeconds":30,"annotations":{{"pod-delete.stage.kwok.x-k8s.io/delay":"20s"}}"#
    );
    let mut slow = pod(&slow, ONE);
    assert!(matches!(advance(&mut slow, PLACE), Next::After(left) if left <= Duration::from_secs(20)));
}

#[test]
fn resized_containers_are_reported() {
    let with = |cpu: &str| {
        format!(
            r#""restartPolicy":"Always","containers":[{{"name":"c","image":"i","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]"#
        )
    };
    let mut old = pod("", &with("1"));
    advance(&mut old, PLACE);
    assert_eq!(advance(&mut old, PLACE), Next::Nothing);
    let spec = pod("", &with("2")).get("spec").unwrap().clone();
    old.insert("spec", spec);
    assert_eq!(advance(&mut old, PLACE), Next::Write);
    let container = Pod::of(&old).status().container_statuses().get(0).unwrap();
    assert_eq!(container.allocated_resources().get("cpu"), Some("2"));
}
