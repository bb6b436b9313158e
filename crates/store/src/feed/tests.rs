use super::*;
use crate::{Head, Kind, Tag};

fn event(revision: u64, group_goes_on: bool) -> Event {
    let head =
        Head { create_revision: Revision(revision), mod_revision: Revision(revision), tag: Tag::default() };
    let key =
        Key::try_from(format!("{}/{revision}", if revision.is_multiple_of(2) { "even" } else { "odd" }));
    let value = Ok(Bytes::from(vec![0; 100]));
    Event { key: key.unwrap(), kind: Kind::Put, head, value, previous: None, group_goes_on }
}

fn revisions(batch: &Batch) -> Vec<u64> {
    batch.events.iter().map(|event| event.revision().0).collect()
}

#[test]
fn the_window_forgets_the_oldest_events_past_its_bound() {
    let one = event(1, false).size();
    let feed = Feed::new(Revision::ZERO, 3 * one);
    for revision in 1..=10 {
        feed.publish(vec![event(revision, false)]);
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
fn a_batch_never_ends_inside_a_group() {
    let feed = Feed::new(Revision::ZERO, usize::MAX);
    let group = 2 * BATCH_EVENTS as u64;
    feed.publish((1..=group).map(|r| event(r, r < group)).collect());
    feed.publish(vec![event(group + 1, false)]);
    let batch = feed.window().read(Revision::ZERO, Revision(group + 1), b"").unwrap();
    assert_eq!(batch.revision, Revision(group));
    assert_eq!(batch.events.len() as u64, group);
}

#[test]
fn a_filtered_batch_carries_progress_past_the_events_it_leaves_out() {
    let feed = Feed::new(Revision::ZERO, usize::MAX);
    feed.publish((1..=7).map(|r| event(r, false)).collect());
    let batch = feed.window().read(Revision::ZERO, Revision(7), b"even/").unwrap();
    assert_eq!(revisions(&batch), [2, 4, 6]);
    assert_eq!(batch.revision, Revision(7));
}

#[test]
fn values_are_found_by_revision_while_the_window_holds_them() {
    let feed = Feed::new(Revision(5), usize::MAX);
    feed.publish(vec![event(6, false), event(7, false)]);
    assert!(feed.value(Revision(5)).is_none());
    assert!(feed.value(Revision(6)).is_some());
    feed.trim(Revision(6));
    assert!(feed.value(Revision(6)).is_none());
    assert!(feed.value(Revision(7)).is_some());
    assert!(feed.value(Revision(8)).is_none());
}
