//! The reference: every version of every object, and what follows from it.

use crate::actors::{Asked, Delivery, End, Expect, Listed, Object, Read, Seen, Version, Wanted, Write};
use cache::{
    Error, Freshness, Mode,
    watch::{Bookmarks, Kind, Start},
};
use std::collections::BTreeMap;
use store::Revision;

#[derive(Debug)]
struct Step {
    before: Option<Version>,
    after: Option<Version>,
}

#[derive(Debug, Default)]
pub(crate) struct Reference {
    /// The change of each revision, from the first.
    steps: Vec<Step>,
    /// The versions of each object.
    versions: BTreeMap<String, Vec<(Revision, Option<Version>)>>,
}

impl Reference {
    /// Makes the changes that were accepted, in the order of their revisions.
    pub(crate) fn replay(writes: &[Write]) -> Result<Self, String> {
        let mut accepted: Vec<_> = writes.iter().filter_map(|w| Some((w, w.answer.as_ref().ok()?))).collect();
        accepted.sort_by_key(|(_, answers)| answers.first().map(|answer| answer.revision));
        let mut reference = Self::default();
        for (write, answers) in accepted {
            let base = reference.newest();
            for (asked, answer) in write.asked.iter().zip(answers) {
                let revision = reference.newest().next();
                let before = reference.at(&asked.key, base).cloned();
                if answer.revision != revision {
                    return Err(format!("revision {revision} was answered as {}", answer.revision));
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
                let told =
                    after.clone().or_else(|| before.as_ref().map(|before| tombstone(before, revision)));
                if answer.entry != told {
                    return Err(format!("revision {revision} was answered with {:?}", answer.entry));
                }
                reference.versions.entry(asked.key.clone()).or_default().push((revision, after.clone()));
                reference.steps.push(Step { before, after });
            }
        }
        Ok(reference)
    }

    fn newest(&self) -> Revision {
        Revision(self.steps.len() as u64)
    }

    fn at(&self, key: &str, revision: Revision) -> Option<&Version> {
        let versions = self.versions.get(key)?;
        versions.iter().rfind(|(own, _)| *own <= revision)?.1.as_ref()
    }

    fn state(&self, wanted: &Wanted, revision: Revision) -> Vec<Version> {
        let all = self.versions.keys().filter_map(|key| self.at(key, revision));
        all.filter(|version| wanted.matches(version)).cloned().collect()
    }

    /// The events that a watcher is due in `(from, to]`.
    fn events(&self, wanted: &Wanted, from: Revision, to: Revision) -> Vec<Delivery> {
        let steps = self.steps.iter().zip(1..).filter(|(_, revision)| (from.0 + 1..=to.0).contains(revision));
        let event = |(step, revision): (&Step, u64)| {
            let (before, after) = (step.before.as_ref(), step.after.as_ref());
            let matching = |version: &&Version| wanted.matches(version);
            match (before.filter(matching), after.filter(matching)) {
                (None, None) => None,
                (None, Some(after)) => Some(Delivery::Event(Kind::Added, after.clone())),
                (Some(_), Some(after)) => Some(Delivery::Event(Kind::Modified, after.clone())),
                (Some(before), None) => {
                    Some(Delivery::Event(Kind::Deleted, tombstone(before, Revision(revision))))
                }
            }
        };
        steps.filter_map(event).collect()
    }

    pub(crate) fn judge_write(&self, write: &Write) -> Result<(), String> {
        let Err(refused) = &write.answer else { return Ok(()) };
        let asked = write.asked.get(refused.index).ok_or("a conflict names no change")?;
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
        let told = items.last().map(|last| format!("{}\0", within(last)));
        let right = match next {
            // With selectors there may turn out to be no more.
            Some(_) => *next == told && limit > 0 && items.len() == limit && (more || read.wanted.selects()),
            None => !more,
        };
        if !right {
            return Err(format!("{} goes on at {next:?} after {told:?}", about()));
        }
        if *remaining != (more && !read.wanted.selects()).then_some(left) {
            return Err(format!("{} has {remaining:?} left, not {left}", about()));
        }
        Ok(())
    }

    pub(crate) fn judge_watch(&self, seen: &Seen) -> Result<(), String> {
        let told: Vec<&Delivery> = seen.batches.iter().flat_map(|(_, told)| told).collect();
        let about = || format!("{:?} {:?} from {}", seen.start, seen.wanted, seen.from);
        if let End::TooOld(revision) = seen.end
            && revision >= seen.compacted
        {
            return Err(format!("{} ended as too old at {revision}", about()));
        }
        let end = match (seen.end, seen.batches.iter().rev().find_map(|(revision, _)| *revision)) {
            (End::TooOld(revision), _) => revision,
            (_, Some(revision)) => revision,
            (_, None) => return self.judge_initial_part(seen, &told),
        };
        let problem = match seen.start {
            Start::After(revision) => self.judge_events(seen, revision, end, &told),
            Start::State(_) | Start::StreamingList(_) => {
                let least = least(seen);
                let starts = (least.0..=end.0).map(Revision);
                let attempts: Vec<_> =
                    starts.map(|start| self.judge_from_state(seen, start, end, &told)).collect();
                match attempts.iter().any(Result::is_ok) {
                    true => Ok(()),
                    false => Err(format!("no start explains it, nearest: {:?}", attempts.last())),
                }
            }
        };
        problem.map_err(|problem| format!("{}: {problem}", about()))
    }

    /// A watcher that was stopped during its initial events has delivered the beginning of some state.
    fn judge_initial_part(&self, seen: &Seen, told: &[&Delivery]) -> Result<(), String> {
        let possible = (least(seen).0..=self.newest().0).map(|start| self.initial(seen, Revision(start)));
        match possible.into_iter().any(|initial| initial.iter().zip(told).all(|(a, b)| a == *b)) {
            true => Ok(()),
            false => Err(format!("the initial events {told:?} are those of no state")),
        }
    }

    fn initial(&self, seen: &Seen, start: Revision) -> Vec<Delivery> {
        let added =
            self.state(&seen.wanted, start).into_iter().map(|version| Delivery::Event(Kind::Added, version));
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
        told: &[&Delivery],
    ) -> Result<(), String> {
        let initial = self.initial(seen, start);
        match told.split_at_checked(initial.len()) {
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
        told: &[&Delivery],
    ) -> Result<(), String> {
        let events: Vec<Delivery> = told
            .iter()
            .filter(|told| matches!(told, Delivery::Event(..)))
            .map(|told| (*told).clone())
            .collect();
        let expected = self.events(&seen.wanted, start, end.max(start));
        if events != expected {
            return Err(format!("between {start} and {end} it was told {events:?}, not {expected:?}"));
        }
        let mut last = start;
        for told in told {
            match told {
                Delivery::Event(_, version) if version.revision > last => last = version.revision,
                Delivery::Bookmark(revision) if *revision >= last => last = *revision,
                told => return Err(format!("{told:?} came after {last}")),
            }
        }
        Ok(())
    }

    /// The events that a running watcher has not delivered yet.
    pub(crate) fn is_late(&self, seen: &Seen) -> Option<String> {
        if seen.end != End::Running {
            return None;
        }
        let told = seen.batches.iter().flat_map(|(_, told)| told);
        let told: Vec<&Delivery> = told.filter(|told| !matches!(told, Delivery::Bookmark(_))).collect();
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
            _ => least(seen).0..=self.newest().0,
        };
        let done = starts.into_iter().any(|start| told.iter().copied().eq(&all(Revision(start))));
        (!done).then(|| format!("all: {:?} from {} was told {told:?}", seen.start, seen.from))
    }
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
    let revision = match asked.expect {
        Expect::Any => current.is_some() || asked.put.is_some(),
        Expect::Absent => current.is_none(),
        Expect::At(revision) => current.is_some_and(|current| current.revision == revision),
    };
    revision && asked.right_uid
}
