use super::calculator::{self, PodMetric, PodMetrics, Target, Tolerances};
use super::history::{Allowed, Amount, Ask, Behavior, History, Policy, Rules, Select};
use super::pods::{self, Groups, Ready, Requests, TargetPod};
use super::*;
use crate::testing::Fixture;
use object::Value;
use object::time::Time;
use registry::Address;
use tokio::time::Instant;

mod limits;
mod loops;

const TOLERANCES: Tolerances = Tolerances { down: 0.1, up: 0.1 };
const NOW: i64 = 1_700_000_000;

/// A pod of a case: its phase, its readiness, the seconds since its start and since it became (un)ready, and
/// its metric in thousandths.
#[derive(Clone, Copy)]
struct Case {
    phase: &'static str,
    ready: Option<bool>,
    started: i64,
    since: i64,
    is_deleting: bool,
    metric: Option<i64>,
}

/// A pod that has run and been ready for long.
const fn ready(metric: i64) -> Case {
    Case {
        phase: "Running",
        ready: Some(true),
        started: 3600,
        since: 3500,
        is_deleting: false,
        metric: Some(metric),
    }
}

/// A pod that has just started and is not ready.
const fn unready(metric: i64) -> Case {
    Case { ready: Some(false), started: 30, since: 29, ..ready(metric) }
}

/// A pod without a metric.
const fn missing() -> Case {
    Case { metric: None, ..ready(0) }
}

/// The pods of a case, each with one container that requests a whole CPU; and their metrics.
fn pods_of(cases: &[Case]) -> (Vec<TargetPod>, PodMetrics) {
    let mut pods = Vec::new();
    let mut metrics = PodMetrics::new();
    for (at, case) in cases.iter().enumerate() {
        let name = Text::from(format!("p{at}"));
        let ready = case.ready.map(|ready| Ready {
            status: if ready { "True" } else { "False" }.into(),
            since: Time::from_unix(NOW - case.since),
        });
        pods.push(TargetPod {
            name: name.clone(),
            is_deleting: case.is_deleting,
            phase: case.phase.into(),
            started: Some(Time::from_unix(NOW - case.started)),
            ready,
            containers: vec![Requests { name: "c".into(), amounts: [("cpu".into(), 1000)].into() }],
        });
        if let Some(value) = case.metric {
            let window = Duration::from_secs(60);
            metrics.insert(name, PodMetric { at: Time::from_unix(NOW), window, value });
        }
    }
    (pods, metrics)
}

fn grouped(cases: &[Case], resource: Option<&str>) -> (Groups, PodMetrics, Vec<TargetPod>) {
    let (pods, metrics) = pods_of(cases);
    let groups = pods::group(&pods, &metrics, resource, &AutoscalerSettings::DEFAULT, Time::from_unix(NOW));
    (groups, metrics, pods)
}

/// The replicas by a share of the requested CPU, and the share that is used.
fn by_utilization(current: i64, percent: i64, cases: &[Case]) -> Result<(i64, i64), String> {
    let (groups, metrics, pods) = grouped(cases, Some("cpu"));
    let metrics = calculator::usable(metrics, &groups)?;
    let requests = pods::requests_of(&pods, None, "cpu")?;
    let target = Target::Utilization { percent, requests };
    let wanted = calculator::replicas(current, metrics, &groups, &target, TOLERANCES)?;
    Ok((wanted.replicas, wanted.usage.utilization.unwrap()))
}

/// The replicas by a metric that is no resource, and its average.
fn by_average(current: i64, target: i64, cases: &[Case]) -> Result<(i64, i64), String> {
    let (groups, metrics, _) = grouped(cases, None);
    let metrics = calculator::usable(metrics, &groups)?;
    let wanted = calculator::replicas(current, metrics, &groups, &Target::Average(target), TOLERANCES)?;
    Ok((wanted.replicas, wanted.usage.average))
}

/// A case: its name, the current replicas, the target, the pods; the wanted replicas and the usage.
type Row<'a> = (&'a str, i64, i64, &'a [Case], (i64, i64));

#[test]
fn replicas_follow_the_share_of_requests() {
    let pending = Case { phase: "Pending", ready: None, ..missing() };
    let failed = Case { phase: "Failed", ..ready(700) };
    let deleted = Case { is_deleting: true, ..ready(700) };
    // Current replicas, target, pods; the replicas and the share.
    let cases: &[Row] = &[
        ("more", 3, 30, &[ready(300), ready(500), ready(700)], (5, 50)),
        ("fewer", 5, 50, &[ready(100), ready(300), ready(500), ready(250), ready(250)], (3, 28)),
        ("within the tolerance", 3, 100, &[ready(1010), ready(1030), ready(1020)], (3, 102)),
        ("within the tolerance below", 3, 50, &[ready(450), ready(460), ready(470)], (3, 46)),
        ("unready pods count as idle", 3, 30, &[unready(300), ready(500), ready(700)], (4, 60)),
        ("unready pods hold a change", 3, 40, &[unready(400), ready(500), unready(600)], (3, 50)),
        ("fewer, whatever unready pods use", 3, 50, &[unready(900), ready(100), ready(100)], (1, 10)),
        ("pending pods count as idle", 3, 30, &[ready(500), ready(700), pending], (4, 60)),
        ("pods that failed do not count", 2, 30, &[ready(500), ready(700), failed], (4, 60)),
        ("pods that go do not count", 2, 30, &[ready(500), ready(700), deleted], (4, 60)),
        ("a missing pod on the way up is idle", 2, 100, &[ready(2000), missing()], (2, 200)),
        ("missing pods on the way up", 3, 50, &[ready(950), ready(950), missing()], (4, 95)),
        ("a missing pod on the way down is busy", 2, 50, &[ready(100), missing()], (2, 10)),
        ("missing pods on the way down", 4, 50, &[ready(100), ready(100), ready(100), missing()], (3, 10)),
        ("missing pods above the request", 3, 200, &[ready(400), ready(400), missing()], (2, 40)),
        ("as it should be", 2, 100, &[ready(1000), missing()], (2, 100)),
        ("both missing and unready", 3, 50, &[unready(100), ready(450), missing()], (3, 45)),
    ];
    for (name, current, percent, pods, expected) in cases {
        assert_eq!(by_utilization(*current, *percent, pods).as_ref(), Ok(expected), "{name}");
    }
}

#[test]
fn replicas_follow_averages() {
    let cases: &[Row] = &[
        ("more", 3, 15_000, &[ready(20_000), ready(10_000), ready(30_000)], (4, 20_000)),
        ("fewer", 5, 20_000, &[ready(12_000); 5], (3, 12_000)),
        (
            "readiness does not matter",
            3,
            15_000,
            &[unready(20_000), ready(10_000), ready(30_000)],
            (4, 20_000),
        ),
        ("within the tolerance", 3, 20_000, &[ready(21_000); 3], (3, 21_000)),
        (
            "a missing pod on the way down is at the target",
            2,
            20_000,
            &[ready(10_000), missing()],
            (2, 10_000),
        ),
        ("a missing pod on the way up is idle", 2, 10_000, &[ready(30_000), missing()], (3, 30_000)),
    ];
    for (name, current, target, pods, expected) in cases {
        assert_eq!(by_average(*current, *target, pods).as_ref(), Ok(expected), "{name}");
    }
}

#[test]
fn what_is_not_known_is_said() {
    assert_eq!(
        by_utilization(1, 50, &[unready(100)]),
        Err("did not receive metrics for targeted pods (pods might be unready)".to_owned())
    );
    let (pods, _) = pods_of(&[ready(1)]);
    assert_eq!(
        pods::requests_of(&pods, None, "memory"),
        Err("missing request for memory in container c of Pod p0".to_owned())
    );
    assert_eq!(pods::requests_of(&pods, Some("other"), "memory"), Ok([("p0".into(), 0)].into()));
    let target = Target::Utilization { percent: 50, requests: [("other".into(), 1000)].into() };
    let (groups, metrics, _) = grouped(&[ready(1)], Some("cpu"));
    assert_eq!(
        calculator::replicas(1, metrics, &groups, &target, TOLERANCES),
        Err("no metrics returned matched known pods".to_owned())
    );
}

#[test]
fn the_cpu_of_a_pod_counts_once_it_was_ready_for_a_whole_window() {
    let case = |started, since, is_ready| {
        let pod = Case { started, since, ready: is_ready, ..ready(500) };
        grouped(&[pod], Some("cpu")).0.ready == 1
    };
    for (started, since, is_ready, expected) in [
        (3600, 3500, Some(true), true),
        // Within the five minutes after the start.
        (100, 70, Some(true), true),
        (100, 50, Some(true), false),
        (100, 70, Some(false), false),
        // Later: not ready, and ready before or never.
        (400, 100, Some(false), true),
        (400, 380, Some(false), false),
        (400, 100, None, false),
    ] {
        assert_eq!(case(started, since, is_ready), expected, "{started} {since} {is_ready:?}");
    }
    let unready = Case { ready: Some(false), started: 10, since: 10, ..ready(500) };
    assert_eq!(grouped(&[unready], Some("memory")).0.ready, 1);
    assert_eq!(grouped(&[unready], None).0.ready, 1);
}

#[test]
fn replicas_follow_values_that_are_not_of_pods() {
    let by_value = |current, usage, target, ready| {
        calculator::replicas_by_value(current, usage, target, TOLERANCES, || ready)
    };
    assert_eq!(by_value(3, 20_000, 15_000, Ok(3)), Ok(4));
    assert_eq!(by_value(3, 15_500, 15_000, Err("never asked".to_owned())), Ok(3));
    assert_eq!(by_value(3, 45_000, 15_000, Ok(1)), Ok(3));
    assert_eq!(by_value(0, 45_000, 15_000, Ok(0)), Ok(3));
    assert_eq!(by_value(0, 0, 15_000, Ok(0)), Ok(0));
    assert_eq!(by_value(2, 45_000, 15_000, Err("no".to_owned())), Err("no".to_owned()));
    let by_share = |current, usage, target| calculator::replicas_by_share(current, usage, target, TOLERANCES);
    assert_eq!(by_share(3, 20_000, 5_000), (4, 6_667));
    assert_eq!(by_share(3, 8_600, 3_000), (3, 2_867));
    assert_eq!(by_share(5, 8_600, 3_000), (3, 1_720));
}
