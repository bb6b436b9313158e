use super::*;
use crate::{ChangeKind, Head};

fn event(revision: u64) -> Event {
    named(&format!("{}/{revision}", if revision.is_multiple_of(2) { "even" } else { "odd" }), revision)
}

fn named(key: &str, revision: u64) -> Event {
    let head = Head { create_revision: Revision(revision), mod_revision: Revision(revision) };
    let value = Ok(Bytes::from(vec![0; 100]));
    Event { key: Key::try_from(key).unwrap(), kind: ChangeKind::Put, head, value, previous: None }
}

fn publish(feed: &Feed, events: Vec<Event>) {
    let newest = events.last().unwrap().revision();
    feed.publish(events, newest);
}

fn revisions(batch: &Batch) -> Vec<u64> {
    batch.events.iter().map(|event| event.revision().0).collect()
}

#[test]
fn the_window_forgets_the_oldest_events_past_its_bound() {
    let feed = Feed::new(Revision::ZERO, 3 * event(1).size());
    for revision in 1..=10 {
        publish(&feed, vec![event(revision)]);
    }
    let window = feed.window();
    assert!(window.read(Revision(5), Revision(10), b"").is_none());
    let start = window.start;
    assert!(start >= Revision(6));
    let batch = window.read(start, Revision(10), b"").unwrap();
    assert_eq!(revisions(&batch), (start.0 + 1..=10).collect::<Vec<_>>());
    assert_eq!(batch.revision, Revision(10));
}

#[test]
fn a_batch_never_ends_inside_a_revision() {
    let feed = Feed::new(Revision::ZERO, usize::MAX);
    let many = 2 * BATCH_EVENTS;
    publish(&feed, (0..many).map(|n| named(&format!("k/{n}"), 3)).collect());
    publish(&feed, vec![event(9)]);
    let batch = feed.window().read(Revision::ZERO, Revision(9), b"").unwrap();
    assert_eq!((batch.revision, batch.events.len()), (Revision(3), many));
    let batch = feed.window().read(Revision(3), Revision(9), b"").unwrap();
    assert_eq!((batch.revision, batch.events.len()), (Revision(9), 1));
}

#[test]
fn the_window_is_read_from_any_revision_also_one_in_a_gap() {
    let feed = Feed::new(Revision(2), usize::MAX);
    publish(&feed, vec![named("a", 4), named("b", 4), named("c", 7)]);
    feed.publish(Vec::new(), Revision(9));
    let read = |from, until| {
        let batch = feed.window().read(Revision(from), Revision(until), b"")?;
        Some((revisions(&batch), batch.revision.0))
    };
    assert_eq!(read(1, 9), None);
    assert_eq!([2, 3].map(|from| read(from, 9)), [Some((vec![4, 4, 7], 9)), Some((vec![4, 4, 7], 9))]);
    assert_eq!((read(4, 6), read(5, 9)), (Some((vec![], 6)), Some((vec![7], 9))));
    assert_eq!((read(8, 9), feed.revision()), (Some((vec![], 9)), Revision(9)));
    feed.trim(Revision(5));
    assert_eq!((read(4, 9), read(5, 9)), (None, Some((vec![7], 9))));
}

#[test]
fn a_filtered_batch_carries_progress_past_the_events_it_leaves_out() {
    let feed = Feed::new(Revision::ZERO, usize::MAX);
    publish(&feed, (1..=7).map(event).collect());
    let batch = feed.window().read(Revision::ZERO, Revision(7), b"even/").unwrap();
    assert_eq!(revisions(&batch), [2, 4, 6]);
    assert_eq!(batch.revision, Revision(7));
}

#[test]
fn values_are_found_by_key_and_revision_while_the_window_holds_them() {
    let feed = Feed::new(Revision(5), usize::MAX);
    publish(&feed, vec![named("a", 6), named("b", 6), named("a", 7)]);
    let has = |key: &str, revision| feed.value(&Key::try_from(key).unwrap(), Revision(revision)).is_some();
    assert_eq!([has("a", 5), has("a", 6), has("b", 6), has("a", 7)], [false, true, true, true]);
    assert_eq!([has("b", 7), has("a", 8)], [false, false]);
    feed.trim(Revision(6));
    assert_eq!([has("a", 6), has("b", 6), has("a", 7)], [false, false, true]);
}

/// A follower's history, which is not asked for.
struct NoHistory;

impl History for NoHistory {
    fn read(&self, after: Revision, _: Revision, _: Bytes) -> BoxFuture<'static, Result<Batch, Error>> {
        Box::pin(async move { Err(Error::Compacted { requested: after, compacted: after.next() }) })
    }

    fn values(&self, _: Vec<(Key, Revision)>) -> BoxFuture<'static, Result<Vec<Value>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

#[tokio::test]
async fn followers_end_when_the_feed_starts_again() {
    let feed = Arc::new(Feed::new(Revision::ZERO, usize::MAX));
    publish(&feed, vec![event(1), event(2), event(3)]);
    let follow = |from| feed.follow(Follow::after(Revision(from)), Arc::new(NoHistory));
    let (mut behind, mut ahead) = (follow(0), follow(3));
    let changed = feed.changed(Revision(3));
    feed.restart(Revision(2));
    changed.await.unwrap();
    assert_eq!(feed.revision(), Revision(2));
    assert!(matches!(behind.next().await, Err(Error::Compacted { .. })));
    assert!(matches!(ahead.try_next(), Some(Err(Error::Compacted { .. }))));
    let mut anew = follow(2);
    publish(&feed, vec![event(3)]);
    assert_eq!(revisions(&anew.next().await.unwrap()), [3]);
}
