use super::*;
use crate::{About, Queuing, Table};

fn level(name: &str, shares: u32, queuing: Queuing) -> LevelConfig {
    LevelConfig {
        name: name.into(),
        uid: format!("uid of {name}").into(),
        shares,
        lendable_percent: 0,
        borrowing_percent: None,
        queuing,
    }
}

fn schema(name: &str, level: &str, precedence: i64, user: &str) -> Schema {
    let all = || vec!["*".to_owned()];
    let resource = ResourceRule {
        verbs: all(),
        api_groups: all(),
        resources: all(),
        cluster_scope: true,
        namespaces: all(),
    };
    Schema {
        name: name.into(),
        uid: format!("uid of {name}").into(),
        level: level.into(),
        precedence,
        distinguisher: Distinguisher::User,
        rules: vec![Rule {
            subjects: vec![Subject::User(user.into())],
            resources: vec![resource],
            paths: vec![],
        }],
    }
}

fn request<'a>(user: &'a str, groups: &'a [String]) -> Digest<'a> {
    Digest {
        user,
        groups,
        is_resource_request: true,
        verb: "get",
        path: "/api/v1/pods",
        api_group: "",
        resource: "pods",
        subresource: "",
        namespace: "",
        name: "",
    }
}

const QUEUES: Queuing = Queuing::Queues { queues: 4, hand: 2, length: 1 };

fn latest() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

#[test]
fn there_are_always_the_mandatory_schemas() {
    let control: FlowControl<()> = FlowControl::new(600);
    let masters = ["system:masters".to_owned()];
    assert_eq!(control.classify(&request("a", &masters)).unwrap().schema(), "exempt");
    let others = ["system:authenticated".to_owned()];
    assert_eq!(control.classify(&request("a", &others)).unwrap().level(), "catch-all");
    // Whom no schema matches.
    assert_eq!(control.classify(&request("a", &[])).unwrap().schema(), "catch-all");
}

#[test]
fn the_schema_with_the_lowest_precedence_decides_and_dangling_ones_do_not() {
    let control: FlowControl<()> = FlowControl::new(600);
    control.configure(
        vec![level("one", 10, QUEUES), level("broken", 10, Queuing::Exempt)],
        vec![
            schema("late", "one", 200, "jane"),
            schema("early", "one", 100, "jane"),
            schema("dangling", "none", 50, "jane"),
            schema("of-a-broken-level", "broken", 50, "jane"),
        ],
    );
    let class = control.classify(&request("jane", &[])).unwrap();
    assert_eq!(
        (class.schema(), class.schema_uid(), class.level_uid()),
        ("early", "uid of early", "uid of one")
    );
}

#[tokio::test]
async fn requests_wait_for_seats_and_are_refused_when_queues_are_full() {
    let control: FlowControl<u32> = FlowControl::new(1);
    control.configure(vec![level("one", 1_000, QUEUES)], vec![schema("one", "one", 100, "jane")]);
    let class = control.classify(&request("jane", &[])).unwrap();
    let first = control.enter(&class, 1, WorkEstimate::LEAST, latest(), false).await.unwrap();
    let (control, class) = (Arc::new(control), Arc::new(class));
    let enter = |number| {
        let (control, class) = (control.clone(), class.clone());
        tokio::spawn(async move { control.enter(&class, number, WorkEstimate::LEAST, latest(), false).await })
    };
    let waiting = [enter(2), enter(3)];
    while control.levels().iter().map(|(_, level, _)| level.queues().totals.waiting).sum::<usize>() < 2 {
        tokio::task::yield_now().await;
    }
    let refused = control.enter(&class, 4, WorkEstimate::LEAST, latest(), false).await.unwrap_err();
    assert_eq!(refused, Refusal::QueueFull);
    let dump = control.dump(Table::Requests { details: true }, |number| About {
        user: format!("user-{number}"),
        ..About::default()
    });
    assert!(dump.contains("user-1") && dump.contains("user-2") && dump.contains("user-3"), "{dump}");
    drop(first);
    for waiting in waiting {
        drop(waiting.await.unwrap().unwrap());
    }
    assert!(control.levels().iter().all(|(_, level, _)| level.queues().is_idle()));
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_is_refused_and_who_leaves_is_forgotten() {
    let control: FlowControl<()> = FlowControl::new(1);
    control.configure(vec![level("one", 1_000, QUEUES)], vec![schema("one", "one", 100, "jane")]);
    let class = control.classify(&request("jane", &[])).unwrap();
    let first = control.enter(&class, (), WorkEstimate::LEAST, latest(), false).await.unwrap();
    let soon = Instant::now() + Duration::from_millis(20);
    let second = control.enter(&class, (), WorkEstimate::LEAST, soon, false).await;
    assert_eq!(second.unwrap_err(), Refusal::TimedOut);
    {
        let third = control.enter(&class, (), WorkEstimate::LEAST, latest(), false);
        let mut third = std::pin::pin!(third);
        assert!(futures_poll(third.as_mut()).is_none());
    }
    drop(first);
    assert!(control.levels().iter().all(|(_, level, _)| level.queues().is_idle()));
}

/// The result of a future that is ready.
fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn seats_for_what_follows_from_a_write_are_free_later() {
    let control: FlowControl<()> = FlowControl::new(10);
    control.configure(vec![level("one", 1_000, QUEUES)], vec![schema("one", "one", 100, "jane")]);
    let class = control.classify(&request("jane", &[])).unwrap();
    let latency = Duration::from_millis(30);
    let write = WorkEstimate { initial_seats: 1, final_seats: 5, additional_latency: latency };
    drop(control.enter(&class, (), write, latest(), false).await.unwrap());
    let in_use =
        || control.levels().iter().map(|(_, level, _)| level.queues().totals.seats_in_use).sum::<u32>();
    assert_eq!(in_use(), 5);
    tokio::time::timeout(Duration::from_secs(5), async {
        while in_use() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_busy_level_borrows_what_others_do_not_use() {
    let control: FlowControl<()> = FlowControl::new(100);
    let queues = Queuing::Queues { queues: 1, hand: 1, length: 500 };
    control.configure(
        ["busy", "quiet"]
            .map(|name| LevelConfig { lendable_percent: 50, ..level(name, 50, queues) })
            .to_vec(),
        vec![schema("busy", "busy", 100, "jane")],
    );
    let limit = |name: &str| {
        control.levels().into_iter().find(|(config, ..)| &*config.name == name).unwrap().1.queues().limit()
    };
    let before = limit("busy");
    let class = control.classify(&request("jane", &[])).unwrap();
    let mut seats = Vec::new();
    for _ in 0..before {
        seats.push(control.enter(&class, (), WorkEstimate::LEAST, latest(), false).await.unwrap());
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    control.adjust();
    assert!(limit("busy") > before, "{} {before}", limit("busy"));
    assert!(limit("quiet") < before);
    // At least what it does not lend.
    assert!(limit("quiet") >= 24);
}

#[tokio::test]
async fn a_level_that_is_removed_stays_until_it_is_empty() {
    let control: FlowControl<()> = FlowControl::new(100);
    control.configure(vec![level("one", 50, QUEUES)], vec![schema("one", "one", 100, "jane")]);
    let class = control.classify(&request("jane", &[])).unwrap();
    let seats = control.enter(&class, (), WorkEstimate::LEAST, latest(), false).await.unwrap();
    control.configure(Vec::new(), Vec::new());
    assert_eq!(control.classify(&request("jane", &[])).unwrap().level(), "catch-all");
    assert!(control.dump(Table::Levels, |()| About::default()).contains("one,"));
    drop(seats);
    control.adjust();
    assert!(!control.dump(Table::Levels, |()| About::default()).contains("one,"));
}

#[tokio::test]
async fn who_holds_the_seats_is_told_and_refusals_look_seldom() {
    let control: FlowControl<&str> = FlowControl::new(10);
    control.configure(
        vec![level("one", 1_000, Queuing::Reject)],
        vec![schema("jane", "one", 100, "jane"), schema("joe", "one", 100, "joe")],
    );
    let [jane, joe] = ["jane", "joe"].map(|user| control.classify(&request(user, &[])).unwrap());
    let mut seats = Vec::new();
    for (class, about, width) in [(&jane, "jane", 1), (&joe, "joe", 3), (&jane, "jane", 1)] {
        let entered = control.enter(class, about, WorkEstimate::seats(width), latest(), false);
        seats.push(entered.await.unwrap());
    }
    let flow = |about: &&str, by: Distinguisher| match by {
        Distinguisher::User => (*about).to_owned(),
        other => panic!("{other:?}"),
    };
    let begin = Instant::now();
    let first = jane.standing(begin, flow);
    let standing = &first.standing;
    assert!(first.is_new);
    assert_eq!((&*standing.level, standing.seats, standing.taken), ("one", Some(10), 5));
    let holder = |name: &str, seats, requests| crate::Holder {
        schema: name.into(),
        flow: name.into(),
        seats,
        requests,
    };
    assert_eq!(standing.holders, [holder("joe", 3, 1), holder("jane", 2, 2)]);
    assert_eq!((standing.seats_of("jane", "jane"), standing.seats_of("jane", "joe")), (2, 0));
    seats.clear();
    // In a flood of refusals the level is not looked at again.
    let again = joe.standing(begin + Duration::from_millis(200), flow);
    assert!(!again.is_new && Arc::ptr_eq(&again.standing, standing));
    let later = joe.standing(begin + Duration::from_millis(300), flow);
    assert!(later.is_new && later.standing.holders.is_empty());
    let all = control.standings(flow);
    let levels: Vec<_> = all.iter().map(|standing| (&*standing.level, standing.seats.is_some())).collect();
    assert_eq!(levels, [("catch-all", true), ("exempt", false), ("one", true)]);
}

#[tokio::test]
async fn turns_without_room_and_virtual_time_are_shown() {
    crate::register_families();
    let control: FlowControl<()> = FlowControl::new(2);
    control.configure(vec![level("one", 1_000, QUEUES)], vec![schema("one", "one", 100, "jane")]);
    let class = control.classify(&request("jane", &[])).unwrap();
    let first = control.enter(&class, (), WorkEstimate::LEAST, latest(), false).await.unwrap();
    let wide = control.enter(&class, (), WorkEstimate::seats(2), latest(), false);
    let mut wide = std::pin::pin!(wide);
    assert!(futures_poll(wide.as_mut()).is_none());
    drop(first);
    drop(wide.await.unwrap());
    let text = metrics::MAIN.expose(metrics::Format::Text);
    for sample in [
        "request_dispatch_no_accommodation_total{flow_schema=\"one\",priority_level=\"one\"} 1",
        "current_r{priority_level=\"one\"} ",
        "dispatch_r{priority_level=\"one\"} ",
        "latest_s{priority_level=\"one\"} ",
        "next_s_bounds{bound=\"max\",priority_level=\"one\"} ",
        "next_discounted_s_bounds{bound=\"min\",priority_level=\"one\"} ",
    ] {
        assert!(text.contains(&format!("\napiserver_flowcontrol_{sample}")), "{sample} in {text}");
    }
    assert!(!text.contains("epoch_advance_total{"), "virtual time does not end");
}
