//! Types whose newest changes cannot be decrypted without waiting for a KMS plugin. Such a type lags alone:
//! all others go on.
//!
//! 1. A type lags from the revision of the first change that cannot be decrypted. Its changes from there on
//!    are put off, in order, before they are announced; readers of the type see the complete state of the
//!    revision before (`Resource::announced`).
//! 2. The values are opened outside of the applier's lock. Then the changes are applied, in order, up to the
//!    first one that came since and has to be opened as well.
//! 3. A value that still cannot be decrypted then is applied as unavailable. So a type lags no longer than
//!    the time-out of its plugin, and one unreadable value does not delay the others of its type.
//! 4. The changes that are put off are bounded by bytes. Past the bound they are dropped, and the type is
//!    loaded again.

use crate::{
    Resource,
    open::{self, Opened},
};
use std::{collections::VecDeque, mem, sync::Arc};
use store::{Event, Revision, Unavailable};

/// The most bytes of changes that are put off for one type.
const MOST_BYTES: usize = 16 << 20;

/// A type that lags.
pub(crate) struct Lag {
    resource: Arc<Resource>,
    from: Revision,
    events: VecDeque<Event>,
    bytes: usize,
    /// Changes were dropped: the type has to be loaded again.
    is_incomplete: bool,
    /// The following task is opening values, or loading the type.
    is_opening: bool,
}

/// The next step of the following task for a type that lags.
pub(crate) enum Next {
    /// Open these values.
    Open(Vec<Arc<Unavailable>>),
    /// Load the type again.
    Load,
}

impl Lag {
    /// A type lags from a revision on.
    pub(crate) fn begin(resource: Arc<Resource>, from: Revision) -> Self {
        resource.set_complete_to(Some(Revision(from.0.saturating_sub(1))));
        Self { resource, from, events: VecDeque::new(), bytes: 0, is_incomplete: false, is_opening: false }
    }

    /// The revision from which on changes are put off.
    pub(crate) fn from(&self) -> Revision {
        self.from
    }

    pub(crate) fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    /// Puts a change off.
    pub(crate) fn push(&mut self, event: Event) {
        self.bytes += size(&event);
        self.events.push_back(event);
        if self.bytes > MOST_BYTES {
            self.is_incomplete = true;
            self.events.clear();
            self.bytes = 0;
        }
    }

    /// The next step, unless one is under way.
    pub(crate) fn next(&mut self) -> Option<Next> {
        if mem::replace(&mut self.is_opening, true) {
            return None;
        }
        if mem::take(&mut self.is_incomplete) {
            // The load covers the changes that were dropped, and those that are kept here.
            self.events.clear();
            self.bytes = 0;
            return Some(Next::Load);
        }
        Some(Next::Open(self.events.iter().filter_map(|event| open::unavailable(&event.value)).collect()))
    }

    /// Applies the changes whose values were opened, or are known to be unreadable. True if the type no
    /// longer lags.
    pub(crate) fn catch_up(&mut self, opened: &Opened) -> bool {
        self.is_opening = false;
        if self.is_incomplete {
            return false;
        }
        while let Some(revision) = self.events.front().map(Event::revision) {
            let same = self.events.iter().take_while(|event| event.revision() == revision);
            let is_known = |event: &Event| {
                open::unavailable(&event.value).is_none_or(|value| opened.get(&value).is_some())
            };
            if !same.clone().all(is_known) {
                break;
            }
            let number = same.count();
            let mut changes = Vec::with_capacity(number);
            for mut event in self.events.drain(..number) {
                self.bytes = self.bytes.saturating_sub(size(&event));
                if let Some(value) = open::unavailable(&event.value)
                    && let Some(read) = opened.get(&value)
                {
                    event.value = read.clone();
                }
                changes.extend(self.resource.to_apply(&event));
            }
            if self.resource.with_state(|view, _| revision > view.revision) {
                self.resource.apply(revision, changes);
            }
        }
        self.advance()
    }

    /// Notes that the load failed and has to be repeated.
    pub(crate) fn not_loaded(&mut self) {
        self.is_opening = false;
        self.is_incomplete = true;
    }

    /// Starts over after the type was loaded. True if the type no longer lags.
    pub(crate) fn loaded(&mut self) -> bool {
        self.is_opening = false;
        let loaded = self.resource.with_state(|view, _| view.revision);
        self.events.retain(|event| event.revision() > loaded);
        self.bytes = self.events.iter().map(size).sum();
        !self.is_incomplete && self.advance()
    }

    /// Sets the revision up to which the type is complete. True if the type no longer lags.
    fn advance(&mut self) -> bool {
        let complete = self.events.front().map(|event| Revision(event.revision().0.saturating_sub(1)));
        self.resource.set_complete_to(complete);
        complete.is_none()
    }
}

/// The memory that a change keeps from being freed.
fn size(event: &Event) -> usize {
    let value = match &event.value {
        Ok(value) => value.len(),
        Err(_) => open::unavailable(&event.value).map_or(0, |value| value.stored.len()),
    };
    value + event.key.as_bytes().len() + size_of::<Event>()
}
