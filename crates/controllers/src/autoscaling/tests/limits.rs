//! Limits by the spec, the speed and the past.

use super::*;

const WINDOW: Duration = Duration::from_secs(300);

fn rules(select: Select, policies: &[(Amount, u64)], window: u64) -> Rules {
    let policies = policies
        .iter()
        .map(|(amount, period)| Policy { amount: *amount, period: Duration::from_secs(*period) });
    Rules { window: Duration::from_secs(window), select, policies: policies.collect() }
}

/// The behavior that a spec gets by default.
fn usual() -> Behavior {
    Behavior {
        up: rules(Select::Max, &[(Amount::Pods(4), 15), (Amount::Percent(100), 15)], 0),
        down: rules(Select::Max, &[(Amount::Percent(100), 15)], 300),
    }
}

fn allow(history: &mut History, behavior: Option<&Behavior>, current: i64, desired: i64) -> Allowed {
    let ask = Ask { current, desired, least: 1, most: 100 };
    history.allow(ask, behavior, WINDOW, Instant::now())
}

fn shown(allowed: Allowed) -> (i64, &'static str, &'static str) {
    (allowed.replicas, allowed.able.reason, allowed.limited.reason)
}

#[tokio::test(start_paused = true)]
async fn without_a_behavior_growth_is_limited_and_shrinking_waits() {
    let mut history = History::default();
    history.begin(3, Instant::now());
    assert_eq!(shown(allow(&mut history, None, 3, 4)), (4, "ReadyForNewScale", "DesiredWithinRange"));
    let fast = allow(&mut history, None, 3, 50);
    assert_eq!((shown(fast), fast.is_limited), ((6, "ReadyForNewScale", "ScaleUpLimit"), true));
    let held = allow(&mut history, None, 6, 2);
    assert_eq!(shown(held), (12, "ScaleDownStabilized", "ScaleUpLimit"), "50 was recommended just now");
    tokio::time::advance(WINDOW + Duration::from_secs(1)).await;
    assert_eq!(shown(allow(&mut history, None, 6, 2)), (2, "ReadyForNewScale", "DesiredWithinRange"));
    let ask = Ask { current: 3, desired: 9, least: 1, most: 5 };
    let most = History::default().allow(ask, None, WINDOW, Instant::now());
    assert_eq!(shown(most), (5, "ReadyForNewScale", "TooManyReplicas"));
    let ask = Ask { current: 3, desired: 1, least: 2, most: 5 };
    let least = History::default().allow(ask, None, WINDOW, Instant::now());
    assert_eq!((shown(least), least.is_limited), ((2, "ReadyForNewScale", "TooFewReplicas"), true));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_starts_does_not_scale_down_at_once() {
    let mut history = History::default();
    history.begin(8, Instant::now());
    assert_eq!(shown(allow(&mut history, Some(&usual()), 8, 1)).1, "ScaleDownStabilized");
    history.begin(1, Instant::now());
    assert_eq!(allow(&mut history, Some(&usual()), 8, 1).replicas, 8);
    tokio::time::advance(WINDOW).await;
    assert_eq!(allow(&mut history, Some(&usual()), 8, 1).replicas, 1);
}

#[tokio::test(start_paused = true)]
async fn policies_count_what_was_changed_within_their_period() {
    let behavior = usual();
    let mut history = History::default();
    // Four pods or twice as many, whichever is more.
    for (current, expected) in [(1, 5), (3, 7), (10, 20)] {
        assert_eq!(allow(&mut history.clone(), Some(&behavior), current, 90).replicas, expected);
    }
    history.scaled(&behavior, 10, 20, Instant::now());
    let limited = allow(&mut history, Some(&behavior), 20, 90);
    assert_eq!((limited.replicas, limited.limited.reason), (20, "ScaleUpLimit"));
    tokio::time::advance(Duration::from_secs(16)).await;
    assert_eq!(allow(&mut history, Some(&behavior), 20, 90).replicas, 40);
    // What was removed within the period is added again beside that.
    history.scaled(&behavior, 20, 15, Instant::now());
    assert_eq!(allow(&mut history, Some(&behavior), 15, 90).replicas, 40);
}

#[tokio::test(start_paused = true)]
async fn the_smallest_change_or_none_can_be_chosen() {
    let policies = &[(Amount::Pods(4), 60), (Amount::Percent(50), 60)];
    for (select, up, down) in [(Select::Max, 15, 5), (Select::Min, 14, 6), (Select::Disabled, 10, 10)] {
        let behavior = Behavior { up: rules(select, policies, 0), down: rules(select, policies, 0) };
        let more = allow(&mut History::default(), Some(&behavior), 10, 90);
        assert_eq!((more.replicas, more.limited.reason), (up, "ScaleUpLimit"), "{select:?}");
        let fewer = allow(&mut History::default(), Some(&behavior), 10, 1);
        assert_eq!((fewer.replicas, fewer.limited.reason), (down, "ScaleDownLimit"), "{select:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn growth_waits_too_if_the_behavior_says_so() {
    let mut behavior = usual();
    behavior.up.window = Duration::from_secs(60);
    let mut history = History::default();
    history.begin(3, Instant::now());
    assert_eq!(
        shown(allow(&mut history, Some(&behavior), 3, 5)),
        (3, "ScaleUpStabilized", "DesiredWithinRange")
    );
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(allow(&mut history, Some(&behavior), 3, 6).replicas, 6);
}
