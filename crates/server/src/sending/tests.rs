use super::*;

fn sending(deadline: Instant, stream: Option<Stream>) -> Sending {
    Sending {
        waiting: Stamp::unset(Instant::now()),
        deadline,
        pins: None,
        may_pause: false,
        stream,
        is_aborted: AtomicBool::new(false),
    }
}

#[tokio::test(start_paused = true)]
async fn response_is_overdue_at_its_deadline() {
    let limits = Limits::default();
    let sending = sending(Instant::now() + Duration::from_secs(7), None);
    assert_eq!(sending.overdue(Instant::now(), &limits), None);
    tokio::time::advance(Duration::from_secs(7)).await;
    assert_eq!(sending.overdue(Instant::now(), &limits), Some(Overdue::Late));
}

#[tokio::test(start_paused = true)]
async fn only_data_that_waits_makes_a_response_stalled() {
    let limits = Limits::default();
    let sending = sending(Instant::now() + limits.stalled * 10, Some(Stream::default()));
    tokio::time::advance(limits.stalled * 2).await;
    assert_eq!(sending.overdue(Instant::now(), &limits), None, "it has no data");
    sending.waiting.set();
    tokio::time::advance(limits.stalled - Duration::from_millis(1)).await;
    assert_eq!(sending.overdue(Instant::now(), &limits), None);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(sending.overdue(Instant::now(), &limits), Some(Overdue::Stalled));
    sending.waiting.unset_again();
    assert_eq!(sending.overdue(Instant::now(), &limits), None, "its peer took the data");
}

#[tokio::test(start_paused = true)]
async fn response_whose_client_may_pause_is_not_stalled() {
    let limits = Limits::default();
    let deadline = SendBy::never().0;
    let sending = Sending { may_pause: true, ..sending(deadline, Some(Stream::default())) };
    sending.waiting.set();
    tokio::time::advance(limits.stalled * 1000).await;
    assert_eq!(sending.overdue(Instant::now(), &limits), None);
}

#[tokio::test(start_paused = true)]
async fn stamp_is_unset_or_a_time() {
    let stamp = Stamp::unset(Instant::now());
    assert_eq!(stamp.get(), None);
    tokio::time::advance(Duration::from_secs(3)).await;
    stamp.set_if_unset();
    tokio::time::advance(Duration::from_secs(2)).await;
    stamp.set_if_unset();
    assert_eq!(stamp.elapsed(Instant::now()), Some(Duration::from_secs(2)));
    stamp.unset_again();
    assert_eq!(stamp.elapsed(Instant::now()), None);
}
