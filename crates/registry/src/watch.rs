//! WATCH of a collection, or of one object.

use crate::error::{revision, status, unknown_reason_500};
use crate::{DamagedObjects, ListOptions, Registry, Target, list};
use cache::Freshness;
use cache::watch::{Start, WatchOptions, Watcher};
use schema::Status;
use store::Revision;

impl Registry {
    /// Watches the selected objects, from the requested resource version.
    ///
    /// A watch with initial events is refused as a list is if an object of the initial state cannot be read:
    /// a client takes a missing object for deleted. A revision that is too old is an ERROR event after the
    /// start of the response, as in the reference.
    pub async fn watch(&self, target: &Target<'_>, options: &ListOptions) -> Result<Watch, Status> {
        target.check_verb(&["watch"])?;
        let filter = list::filter(target, options)?;
        let wanted = revision(&options.resource_version).map_err(unknown_reason_500)?;
        let start = match (options.send_initial_events, wanted) {
            (Some(true), Revision::ZERO) if options.resource_version.is_empty() => {
                Start::StreamingList(Freshness::MostRecent)
            }
            (Some(true), Revision::ZERO) => Start::StreamingList(Freshness::Any),
            (Some(true), wanted) => Start::StreamingList(Freshness::NotOlderThan(wanted)),
            (Some(false), Revision::ZERO) => Start::After(target.stored()?.resource.revision()),
            (None, Revision::ZERO) if options.resource_version.is_empty() => {
                Start::State(Freshness::MostRecent)
            }
            (None, Revision::ZERO) => Start::State(Freshness::Any),
            (_, wanted) => Start::After(wanted),
        };
        let mut request = WatchOptions::new(start).filter(filter);
        if options.bookmarks {
            request = request.with_bookmarks();
        }
        match target.stored()?.resource.watch(request).await {
            Ok(watcher) => Ok(Watch::Running(watcher)),
            Err(error @ cache::Error::TooOld { .. }) => Ok(Watch::Ended(status(error))),
            Err(error) => {
                if let cache::Error::Damaged(damaged) = &error {
                    DamagedObjects::of_cache(target.served, damaged).refuse(target.served)?;
                }
                Err(status(error))
            }
        }
    }
}

/// The result of a watch request.
#[allow(clippy::large_enum_variant, reason = "moved once, into the body of the response")]
pub enum Watch {
    /// The events.
    Running(Watcher),
    /// The watch has ended: the ERROR event that it sends.
    Ended(Status),
}
