//! The guarantees of [`crate::Store`], one test each. A test compares the revisions that the store has given
//! with each other, and never with numbers: they may have gaps, and changes may share one.

#![allow(missing_docs, reason = "the names of tests are sentences")]

mod commits;
mod following;
mod lifetime;
mod reading;

pub use commits::*;
pub use following::*;
pub use lifetime::*;
pub use reading::*;

use super::*;

fn open(factory: Factory<'_>) -> (Box<dyn Harness>, Arc<dyn Store>) {
    open_with(factory, Setup::default())
}

fn open_with(factory: Factory<'_>, setup: Setup) -> (Box<dyn Harness>, Arc<dyn Store>) {
    let harness = factory(setup);
    let store = harness.store();
    (harness, store)
}

fn tiny() -> Setup {
    Setup { window: Window::Tiny, ..Setup::default() }
}

/// Many writers at once, `each` puts by each, to keys of their own under `prefix`; the revisions, in order.
async fn write_many(store: &Arc<dyn Store>, prefix: &str, writers: usize, each: usize) -> Vec<Revision> {
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let (store, prefix) = (store.clone(), prefix.to_owned());
            tokio::spawn(async move {
                let mut revisions = Vec::new();
                for turn in 0..each {
                    let value = format!("{writer}-{turn}");
                    revisions.push(put(&store, &format!("{prefix}{writer}/{}", turn % 3), &value).await);
                }
                assert!(
                    revisions.is_sorted_by(|one, next| one < next),
                    "later commits have larger revisions"
                );
                revisions
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    all.sort();
    all
}

/// The events are exactly those of some commits, in order.
fn assert_events(events: &[Event], revisions: &[Revision]) {
    assert_eq!(events.iter().map(Event::revision).collect::<Vec<_>>(), revisions);
    for (one, next) in events.iter().zip(events.iter().skip(1)) {
        assert!(one.revision() < next.revision() || one.key != next.key, "a key changes once in a revision");
    }
}
