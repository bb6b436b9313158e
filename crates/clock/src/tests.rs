use super::*;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// Tests of one process share its clock: each of these runs alone.
async fn alone() -> tokio::sync::MutexGuard<'static, ()> {
    static ONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let guard = ONE.lock().await;
    change(Change { place: Some(Place::System), rate: Some(1.0) }).unwrap();
    guard
}

fn step(time: Duration) {
    change(Change { place: Some(Place::Forward(time)), rate: None }).unwrap();
}

fn ahead() -> Duration {
    now().duration_since(system()).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn step_moves_the_time_of_day_and_what_waits() {
    let _one = alone().await;
    let begin = Instant::now();
    step(HOUR);
    assert!(ahead().abs_diff(HOUR) < Duration::from_secs(5));
    assert_eq!(begin.elapsed(), HOUR);
    assert_eq!(read().offset, 3_600_000_000_000);
}

#[tokio::test(start_paused = true)]
async fn wait_ends_when_the_clock_is_moved_past_its_end() {
    let _one = alone().await;
    let real = tokio::time::Instant::now();
    let waiting = tokio::spawn(sleep(HOUR));
    tokio::time::sleep(Duration::from_secs(1)).await;
    step(HOUR / 2);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished(), "half of it is left");
    step(HOUR / 2);
    waiting.await.unwrap();
    assert_eq!(real.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn rate_shortens_waits_that_have_begun() {
    let _one = alone().await;
    let real = tokio::time::Instant::now();
    let waiting = tokio::spawn(sleep(HOUR));
    tokio::task::yield_now().await;
    change(Change { place: None, rate: Some(3600.0) }).unwrap();
    waiting.await.unwrap();
    assert!(
        real.elapsed().abs_diff(Duration::from_secs(1)) < Duration::from_millis(10),
        "{:?}",
        real.elapsed()
    );
    let reading = change(Change { place: None, rate: Some(1.0) }).unwrap();
    assert!(reading.offset > 3_500_000_000_000, "what was gained is kept: {}", reading.offset);
}

#[tokio::test(start_paused = true)]
async fn clock_that_is_set_back_takes_nothing_from_what_waits() {
    let _one = alone().await;
    let waiting = tokio::spawn(sleep(HOUR));
    tokio::time::sleep(HOUR / 2).await;
    let before = Instant::now();
    change(Change { place: Some(Place::Back(2 * HOUR)), rate: None }).unwrap();
    assert!(system().duration_since(now()).unwrap() > HOUR);
    assert_eq!(Instant::now(), before);
    tokio::time::sleep(HOUR / 2 + Duration::from_millis(2)).await;
    assert!(waiting.is_finished());
    let reading = change(Change { place: Some(Place::System), rate: None }).unwrap();
    assert_eq!((reading.offset, reading.rate), (0, 1.0));
}

#[tokio::test(start_paused = true)]
async fn timeout_is_that_of_the_clock() {
    let _one = alone().await;
    assert_eq!(timeout_at(Instant::now() + HOUR, async { 7 }).await, Some(7));
    let until = Instant::now() + HOUR;
    step(HOUR);
    assert_eq!(timeout_at(until, std::future::pending::<()>()).await, None);
}

#[tokio::test(start_paused = true)]
async fn who_follows_the_clock_has_some_real_time_after_a_step() {
    let _one = alone().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(is_settling(), None);
    step(HOUR);
    assert_eq!(is_settling(), Some(Duration::from_secs(1)));
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(is_settling(), Some(Duration::from_millis(400)));
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(is_settling(), None);
}

#[tokio::test]
async fn clock_stays_within_its_bounds() {
    let _one = alone().await;
    let before = read().offset;
    for rate in [0.0, 0.5, -1.0, f64::NAN, f64::INFINITY, FASTEST * 2.0] {
        assert_eq!(change(Change { place: None, rate: Some(rate) }), Err(Refused::Rate), "{rate}");
    }
    for place in
        [Place::Back(1_000_000 * HOUR), Place::Forward(100_000_000 * HOUR), Place::Forward(Duration::MAX)]
    {
        assert_eq!(change(Change { place: Some(place), rate: None }), Err(Refused::Range), "{place:?}");
    }
    let early = std::time::SystemTime::UNIX_EPOCH - HOUR;
    assert_eq!(change(Change { place: Some(Place::At(early)), rate: None }), Err(Refused::Range));
    assert_eq!(read().offset, before, "what is refused changes nothing");
    let moon = std::time::SystemTime::UNIX_EPOCH + 24 * HOUR;
    let reading = change(Change { place: Some(Place::At(moon)), rate: None }).unwrap();
    assert!(reading.now.duration_since(moon).unwrap() < HOUR);
}
