//! The reference: every version of every object, and what follows from it.

use crate::actors::{Asked, Delivery, End, Expect, Listed, Object, Read, Seen, Version, Wanted, Write};
use cache::{
    Error, Freshness, Mode,
    watch::{Bookmarks, EventType, Start},
};
use std::{collections::BTreeMap, ops::RangeInclusive};
use store::Revision;

#[derive(Debug)]
struct Step {
    revision: Revision,
    before: Option<Version>,
    after: Option<Version>,
}

#[derive(Debug, Default)]
pub(crate) struct Reference {
    /// The changes, in the order of revisions and keys.
    steps: Vec<Step>,
    /// The versions of each object.
    versions: BTreeMap<String, Vec<(Revision, Option<Version>)>>,
}

impl Reference {
    /// Makes the changes that were accepted, in the order of their revisions. Changes that share one are of
    /// different keys.
    pub(crate) fn replay(writes: &[Write]) -> Result<Self, String> {
        let mut accepted: Vec<_> = writes.iter().filter_map(|w| Some((w, w.answer.as_ref().ok()?))).collect();
        accepted.sort_by_key(|(write, answer)| (answer.revision, &write.asked.key));
        let mut reference = Self::default();
        for (Write { asked, .. }, answer) in accepted {
            let revision = answer.revision;
            let before = reference.at(&asked.key, revision).cloned();
            let same_key = reference.versions.get(&asked.key).and_then(|versions| versions.last());
            if revision == Revision::ZERO || same_key.is_some_and(|(own, _)| *own == revision) {
                return Err(format!("{} changed twice at revision {revision}", asked.key));
            }
            if !holds(asked, before.as_ref()) {
                return Err(format!("revision {revision}: {asked:?} should have been refused"));
            }
            let created = before.as_ref().map_or(revision, |before| before.created);
            let version = |object: &Object| Version {
                key: asked.key.clone(),
                created,
                revision,
                object: object.clone(),
            };
            let after = asked.put.as_ref().map(version);
            let expected =
                after.clone().or_else(|| before.as_ref().map(|before| tombstone(before, revision)));
            if answer.entry != expected {
                return Err(format!("revision {revision} was answered with {:?}", answer.entry));
            }
            reference.versions.entry(asked.key.clone()).or_default().push((revision, after.clone()));
            reference.steps.push(Step { revision, before, after });
        }
        Ok(reference)
    }

    fn newest(&self) -> Revision {
        self.steps.last().map_or(Revision::ZERO, |step| step.revision)
    }

    fn at(&self, key: &str, revision: Revision) -> Option<&Version> {
        let versions = self.versions.get(key)?;
        versions.iter().rfind(|(own, _)| *own <= revision)?.1.as_ref()
    }

    fn state(&self, wanted: &Wanted, revision: Revision) -> Vec<Version> {
        let all = self.versions.keys().filter_map(|key| self.at(key, revision));
        all.filter(|version| wanted.matches(version)).cloned().collect()
    }

    /// The events of a watcher in `(from, to]`, in the order of revisions and keys.
    fn events(&self, wanted: &Wanted, from: Revision, to: Revision) -> Vec<Delivery> {
        let steps = self.steps.iter().filter(|step| from < step.revision && step.revision <= to);
        let event = |step: &Step| {
            let (before, after) = (step.before.as_ref(), step.after.as_ref());
            let matching = |version: &&Version| wanted.matches(version);
            match (before.filter(matching), after.filter(matching)) {
                (None, None) => None,
                (None, Some(after)) => Some(Delivery::Event(EventType::Added, after.clone())),
                (Some(_), Some(after)) => Some(Delivery::Event(EventType::Modified, after.clone())),
                (Some(before), None) => {
                    Some(Delivery::Event(EventType::Deleted, tombstone(before, step.revision)))
                }
            }
        };
        steps.filter_map(event).collect()
    }

    pub(crate) fn judge_write(&self, write: &Write) -> Result<(), String> {
        let Err(refused) = &write.answer else { return Ok(()) };
        let asked = &write.asked;
        let between = || (write.from.0..=write.to.0).map(|revision| self.at(&asked.key, Revision(revision)));
        if !between().any(|current| !holds(asked, current)) {
            return Err(format!("{asked:?} should not have been refused"));
        }
        match between().any(|current| current == refused.found.as_ref()) {
            true => Ok(()),
            false => Err(format!("{asked:?} was refused with {:?}", refused.found)),
        }
    }

    pub(crate) fn judge_read(&self, read: &Read) -> Result<(), String> {
        let about = || {
            format!("{:?} {:?} limit {} in {}..={}", read.mode, read.wanted, read.limit, read.from, read.to)
        };
        let Listed { revision, items, next, remaining } = match &read.answer {
            Ok(listed) => listed,
            Err(Error::Expired { requested }) if *requested < read.compacted => return Ok(()),
            Err(Error::ContinueExpired { .. }) => {
                let Mode::Continue { revision: Some(revision), .. } = read.mode else {
                    return Err(format!("{} cannot expire", about()));
                };
                return if revision < read.compacted { Ok(()) } else { Err(format!("{} expired", about())) };
            }
            Err(error) => return Err(format!("{}: {error}", about())),
        };
        let (least, most) = match read.mode {
            Mode::Current(Freshness::MostRecent) | Mode::Continue { revision: None, .. } => {
                (read.from, read.to)
            }
            Mode::Current(Freshness::Any) => (Revision::ZERO, read.to),
            Mode::Current(Freshness::NotOlderThan(least)) => (least, read.to),
            Mode::Exact(exact) | Mode::Continue { revision: Some(exact), .. } => (exact, exact),
        };
        if *revision < least || *revision > most {
            return Err(format!("{} answered revision {revision}", about()));
        }
        let start = match &read.mode {
            Mode::Continue { start, .. } => start.as_str(),
            _ => "",
        };
        let prefix = if read.wanted.nodes { "nodes/" } else { "pods/" };
        let within = |version: &Version| version.key[prefix.len()..].to_owned();
        let mut expected = self.state(&read.wanted, *revision);
        expected.retain(|version| *within(version) >= *start);
        let limit = match read.mode {
            Mode::Current(Freshness::Any) => 0,
            _ => read.limit,
        };
        let left = expected.len().saturating_sub(limit);
        if limit > 0 {
            expected.truncate(limit);
        }
        if *items != expected {
            return Err(format!("{} at {revision} answered {items:?}, not {expected:?}", about()));
        }
        let more = limit > 0 && left > 0;
        let delivered = items.last().map(|last| format!("{}\0", within(last)));
        let right = match next {
            // With selectors there may turn out to be no more.
            Some(_) => {
                *next == delivered && limit > 0 && items.len() == limit && (more || read.wanted.selects())
            }
            None => !more,
        };
        if !right {
            return Err(format!("{} goes on at {next:?} after {delivered:?}", about()));
        }
        if *remaining != (more && !read.wanted.selects()).then_some(left) {
            return Err(format!("{} has {remaining:?} left, not {left}", about()));
        }
        Ok(())
    }

    pub(crate) fn judge_watch(&self, seen: &Seen) -> Result<(), String> {
        let delivered = in_order(seen);
        let about = || format!("{:?} {:?} from {}", seen.start, seen.wanted, seen.from);
        if let Some(revision) = cut_revision(seen) {
            return Err(format!("{}: two batches have events of revision {revision}", about()));
        }
        if let End::TooOld(revision) = seen.end
            && revision >= seen.compacted
        {
            return Err(format!("{} ended as too old at {revision}", about()));
        }
        let end = match (seen.end, seen.batches.iter().rev().find_map(|(revision, _)| *revision)) {
            (End::TooOld(revision), _) => revision,
            (_, Some(revision)) => revision,
            (_, None) => return self.judge_initial_part(seen, &delivered),
        };
        let problem = match seen.start {
            Start::After(revision) => self.judge_events(seen, revision, end, &delivered),
            Start::State(_) | Start::StreamingList(_) => {
                let least = least(seen);
                let starts = (least.0..=end.0).map(Revision);
                let attempts: Vec<_> =
                    starts.map(|start| self.judge_from_state(seen, start, end, &delivered)).collect();
                match attempts.iter().any(Result::is_ok) {
                    true => Ok(()),
                    false => Err(format!("no start explains it, nearest: {:?}", attempts.last())),
                }
            }
        };
        problem.map_err(|problem| format!("{}: {problem}", about()))
    }

    /// The revisions of the states that a watcher may have started with.
    fn starts(&self, seen: &Seen) -> RangeInclusive<u64> {
        let marked =
            seen.batches.iter().flat_map(|(_, delivered)| delivered).find_map(|delivered| match delivered {
                Delivery::InitialEnd(revision) => Some(revision.0),
                _ => None,
            });
        let least = least(seen).0;
        marked.map_or(least..=self.newest().0.max(least), |revision| revision..=revision)
    }

    /// A watcher that was stopped during its initial events has delivered the beginning of some state.
    fn judge_initial_part(&self, seen: &Seen, delivered: &[&Delivery]) -> Result<(), String> {
        let possible = self.starts(seen).map(|start| self.initial(seen, Revision(start)));
        match possible.into_iter().any(|initial| initial.iter().zip(delivered).all(|(a, b)| a == *b)) {
            true => Ok(()),
            false => Err(format!("the initial events {delivered:?} are those of no state")),
        }
    }

    fn initial(&self, seen: &Seen, start: Revision) -> Vec<Delivery> {
        let added = self
            .state(&seen.wanted, start)
            .into_iter()
            .map(|version| Delivery::Event(EventType::Added, version));
        let is_marked =
            matches!(seen.start, Start::StreamingList(_)) && seen.bookmarks == Bookmarks::Periodic;
        let end = is_marked.then_some(Delivery::InitialEnd(start));
        added.chain(end).collect()
    }

    fn judge_from_state(
        &self,
        seen: &Seen,
        start: Revision,
        end: Revision,
        delivered: &[&Delivery],
    ) -> Result<(), String> {
        let initial = self.initial(seen, start);
        match delivered.split_at_checked(initial.len()) {
            Some((first, rest)) if first.iter().copied().eq(&initial) => {
                self.judge_events(seen, start, end, rest)
            }
            _ => Err(format!("the initial events are not {initial:?}")),
        }
    }

    /// The events between two revisions, all of them, and bookmarks that are true.
    fn judge_events(
        &self,
        seen: &Seen,
        start: Revision,
        end: Revision,
        delivered: &[&Delivery],
    ) -> Result<(), String> {
        let events: Vec<Delivery> = delivered
            .iter()
            .filter(|delivered| matches!(delivered, Delivery::Event(..)))
            .map(|delivered| (*delivered).clone())
            .collect();
        let expected = self.events(&seen.wanted, start, end.max(start));
        if events != expected {
            return Err(format!("between {start} and {end} it delivered {events:?}, not {expected:?}"));
        }
        let mut last = start;
        for delivered in delivered {
            match delivered {
                Delivery::Event(_, version) if version.revision >= last => last = version.revision,
                Delivery::Bookmark(revision) if *revision >= last => last = *revision,
                delivered => return Err(format!("{delivered:?} came after {last}")),
            }
        }
        Ok(())
    }

    /// The events that a running watcher has not delivered yet.
    pub(crate) fn is_late(&self, seen: &Seen) -> Option<String> {
        if seen.end != End::Running {
            return None;
        }
        let mut delivered = in_order(seen);
        delivered.retain(|delivered| !matches!(delivered, Delivery::Bookmark(_)));
        let all = |start: Revision| {
            let mut due = match seen.start {
                Start::After(_) => Vec::new(),
                _ => self.initial(seen, start),
            };
            due.extend(self.events(&seen.wanted, start, self.newest()));
            due
        };
        let starts = match seen.start {
            Start::After(revision) => revision.0..=revision.0,
            _ => self.starts(seen),
        };
        let done = starts.into_iter().any(|start| delivered.iter().copied().eq(&all(Revision(start))));
        (!done).then(|| format!("all: {:?} from {} delivered {delivered:?}", seen.start, seen.from))
    }
}

/// What a watcher has delivered, with the events of a revision in the order of keys. The initial events are
/// in that order.
fn in_order(seen: &Seen) -> Vec<&Delivery> {
    let mut delivered: Vec<&Delivery> = seen.batches.iter().flat_map(|(_, delivered)| delivered).collect();
    let revision = |delivered: &Delivery| match delivered {
        Delivery::Event(_, version) => Some(version.revision),
        Delivery::Bookmark(_) | Delivery::InitialEnd(_) => None,
    };
    for same in delivered.chunk_by_mut(|one, next| revision(one).is_some() && revision(one) == revision(next))
    {
        same.sort_by_key(|delivered| match delivered {
            Delivery::Event(_, version) => Some(&version.key),
            Delivery::Bookmark(_) | Delivery::InitialEnd(_) => None,
        });
    }
    delivered
}

/// A revision whose events were not delivered together. Initial events have the revisions of their objects.
fn cut_revision(seen: &Seen) -> Option<Revision> {
    if !matches!(seen.start, Start::After(_)) {
        return None;
    }
    let revisions = |delivered: &[Delivery]| -> Vec<Revision> {
        let event = |delivered: &Delivery| match delivered {
            Delivery::Event(_, version) => Some(version.revision),
            _ => None,
        };
        delivered.iter().filter_map(event).collect()
    };
    let batches =
        seen.batches.iter().map(|(_, delivered)| revisions(delivered)).filter(|batch| !batch.is_empty());
    let batches: Vec<Vec<Revision>> = batches.collect();
    let mut pairs = batches.iter().zip(batches.iter().skip(1));
    pairs.find_map(|(one, next)| next.first().copied().filter(|first| one.last() == Some(first)))
}

/// The oldest state that a watcher could have started with.
fn least(seen: &Seen) -> Revision {
    match seen.start {
        Start::State(Freshness::MostRecent) | Start::StreamingList(Freshness::MostRecent) => seen.from,
        Start::State(Freshness::NotOlderThan(least))
        | Start::StreamingList(Freshness::NotOlderThan(least)) => least,
        _ => Revision::ZERO,
    }
}

fn tombstone(version: &Version, revision: Revision) -> Version {
    Version { revision, ..version.clone() }
}

fn holds(asked: &Asked, current: Option<&Version>) -> bool {
    match asked.expect {
        Expect::Any => current.is_some() || asked.put.is_some(),
        Expect::Absent => current.is_none(),
        Expect::At(revision) => current.is_some_and(|current| current.revision == revision),
    }
}
