//! When each server is asked about what.

use std::collections::BTreeMap;
use std::time::Duration;

use object::Text;
use tokio::time::Instant;

/// What a server is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum About {
    /// Whether it answers.
    Availability,
    /// What it serves.
    Discovery,
    /// Its OpenAPI v2 document.
    OpenApiV2,
    /// Its OpenAPI v3 documents.
    OpenApiV3,
}

impl About {
    pub(crate) const ALL: [Self; 4] = [Self::Availability, Self::Discovery, Self::OpenApiV2, Self::OpenApiV3];

    /// How long after a success the question is asked again.
    fn interval(self) -> Duration {
        match self {
            Self::Availability => Duration::from_secs(30),
            Self::Discovery | Self::OpenApiV2 | Self::OpenApiV3 => Duration::from_secs(60),
        }
    }

    /// The pause after a number of failures in a row.
    fn pause(self, failures: u32) -> Duration {
        let (first, longest) = match self {
            Self::Availability => (Duration::from_millis(5), Duration::from_secs(30)),
            Self::Discovery => return self.interval(),
            Self::OpenApiV2 | Self::OpenApiV3 => (Duration::from_secs(60), Duration::from_secs(3600)),
        };
        let doubled = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        first.saturating_mul(doubled).min(longest)
    }
}

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Succeeded,
    Failed,
    /// There is nothing to ask for until the API service changes.
    Nothing,
}

/// A question to the server of an API service.
pub(crate) type Job = (About, Text);

/// A question that is asked now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) job: Job,
    /// An answer from after this time is new enough.
    pub(crate) since: Instant,
}

#[derive(Debug, Default)]
struct State {
    /// When it is asked; `None` until something changes.
    at: Option<Instant>,
    /// When something last changed that the answer may depend on.
    changed: Option<Instant>,
    is_running: bool,
    failures: u32,
}

/// All questions, and when they are asked.
#[derive(Debug, Default)]
pub(crate) struct Jobs(BTreeMap<Job, State>);

impl Jobs {
    /// Asks a question at a time, or earlier. One that is asked right now is asked again.
    pub(crate) fn add(&mut self, job: Job, at: Instant) {
        let state = self.0.entry(job).or_default();
        state.at = Some(state.at.map_or(at, |known| known.min(at)));
        state.changed = Some(at);
    }

    /// Asks a question at a time, or earlier, and forgets that it failed before.
    pub(crate) fn renew(&mut self, job: Job, at: Instant) {
        self.0.entry(job.clone()).or_default().failures = 0;
        self.add(job, at);
    }

    /// The questions that are due, at most `most`, which are asked from now on.
    pub(crate) fn take_due(&mut self, now: Instant, most: usize) -> Vec<Due> {
        let mut due = Vec::new();
        for (job, state) in &mut self.0 {
            if due.len() < most && !state.is_running && state.at.is_some_and(|at| at <= now) {
                let since = state.changed.take().or(state.at).unwrap_or(now);
                (state.is_running, state.at) = (true, None);
                due.push(Due { job: job.clone(), since });
            }
        }
        due
    }

    /// When the next question is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.values().filter(|state| !state.is_running).filter_map(|state| state.at).min()
    }

    /// Notes the end of a question, which says when it is asked next. One about an API service that is gone
    /// is forgotten.
    pub(crate) fn done(&mut self, job: &Job, outcome: Outcome, now: Instant) {
        let Some(state) = self.0.get_mut(job) else { return };
        state.is_running = false;
        let next = match outcome {
            Outcome::Succeeded => {
                state.failures = 0;
                Some(now + job.0.interval())
            }
            Outcome::Failed => {
                state.failures = state.failures.saturating_add(1);
                Some(now + job.0.pause(state.failures))
            }
            Outcome::Nothing => {
                state.failures = 0;
                None
            }
        };
        state.at = match (state.at, next) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }

    /// Forgets the questions about API services that are gone.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|(_, name), _| is_there(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        (About::Availability, "v1.g".into())
    }

    fn due(jobs: &mut Jobs, now: Instant) -> Vec<Job> {
        jobs.take_due(now, 9).into_iter().map(|due| due.job).collect()
    }

    #[test]
    fn question_is_asked_once_at_a_time_and_again_if_something_changed_meanwhile() {
        let (mut jobs, now) = (Jobs::default(), Instant::now());
        jobs.add(job(), now);
        jobs.add(job(), now + Duration::from_secs(9));
        assert_eq!(due(&mut jobs, now), [job()]);
        jobs.add(job(), now);
        assert!(due(&mut jobs, now).is_empty());
        assert_eq!(jobs.next(), None);
        jobs.done(&job(), Outcome::Succeeded, now);
        assert_eq!(due(&mut jobs, now), [job()]);
        jobs.done(&job(), Outcome::Succeeded, now);
        assert_eq!(jobs.next(), Some(now + Duration::from_secs(30)));
    }

    #[test]
    fn pauses_grow_with_failures_up_to_a_bound() {
        for (about, failures, milliseconds) in [
            (About::Availability, 1, 5),
            (About::Availability, 3, 20),
            (About::Availability, 99, 30_000),
            (About::Discovery, 3, 60_000),
            (About::OpenApiV2, 1, 60_000),
            (About::OpenApiV3, 4, 480_000),
            (About::OpenApiV3, 40, 3_600_000),
        ] {
            assert_eq!(about.pause(failures), Duration::from_millis(milliseconds), "{about:?} {failures}");
        }
        let (mut jobs, now) = (Jobs::default(), Instant::now());
        let job: Job = (About::OpenApiV2, "v1.g".into());
        jobs.add(job.clone(), now);
        for seconds in [60, 120] {
            jobs.renew((About::Discovery, "v1.g".into()), now);
            jobs.0.get_mut(&job).unwrap().at = Some(now);
            assert!(due(&mut jobs, now).contains(&job));
            jobs.done(&job, Outcome::Failed, now);
            assert_eq!(jobs.0[&job].at, Some(now + Duration::from_secs(seconds)));
        }
        jobs.renew(job.clone(), now);
        assert_eq!(jobs.0[&job].failures, 0);
    }

    #[test]
    fn gone_service_is_not_asked() {
        let (mut jobs, now) = (Jobs::default(), Instant::now());
        jobs.add(job(), now);
        assert_eq!(due(&mut jobs, now), [job()]);
        jobs.retain(|_| false);
        jobs.done(&job(), Outcome::Failed, now);
        assert_eq!(jobs.next(), None);
    }
}
