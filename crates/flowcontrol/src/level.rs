//! Levels: how many seats requests of one kind share, and how they wait for them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::demand::Demand;
use crate::families::{self, LevelLimits, LevelTimings, VirtualTime, show_limits};
use crate::queues::{QueueSet, Queuing};
use crate::retry_after::Refused;
use crate::rules::Schema;
use crate::standing::LastLook;

/// The configuration of a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelConfig {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Arc<str>,
    /// Its part of all seats, in proportion to that of the others.
    pub shares: u32,
    /// How much of its seats others may have, in percent.
    pub lendable_percent: u32,
    /// How much it may have of the seats of others, in percent of its own; `None` for as much as there is.
    pub borrowing_percent: Option<u32>,
    /// How its requests wait.
    pub queuing: Queuing,
}

impl LevelConfig {
    /// The name of the level whose requests never wait.
    pub const EXEMPT: &str = "exempt";
    /// The name of the level of all that no schema sends elsewhere.
    pub const CATCH_ALL: &str = "catch-all";

    /// Whether the level can be used as it is configured: a broken one is passed over.
    pub(crate) fn is_valid(&self) -> bool {
        let is_exempt = self.queuing == Queuing::Exempt;
        is_exempt == (&*self.name == Self::EXEMPT) && self.queuing.is_possible()
    }

    /// The levels that there are whatever is configured.
    pub(crate) fn mandatory() -> [Self; 2] {
        let level = |name: &str, shares, queuing| Self {
            name: name.into(),
            uid: Arc::from(""),
            shares,
            lendable_percent: 0,
            borrowing_percent: None,
            queuing,
        };
        [level(Self::EXEMPT, 0, Queuing::Exempt), level(Self::CATCH_ALL, 5, Queuing::Reject)]
    }

    /// How many queues a flow may use, and so how wide its requests may be.
    pub(crate) fn hand(&self) -> Option<usize> {
        match self.queuing {
            Queuing::Queues { hand, .. } => Some(hand),
            Queuing::Exempt | Queuing::Reject => None,
        }
    }

    /// How many requests can wait.
    fn most_waiting(&self) -> usize {
        match self.queuing {
            Queuing::Queues { queues, length, .. } => queues * length.max(1),
            Queuing::Exempt | Queuing::Reject => 1,
        }
    }
}

/// A request in the queues of a level.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) schema: Arc<Schema>,
    pub(crate) about: T,
}

/// A level, as long as it is configured or something is in its queues.
#[derive(Debug)]
pub(crate) struct Level<T> {
    pub(crate) name: Arc<str>,
    queues: Mutex<QueueSet<Entry<T>>>,
    pub(crate) timings: LevelTimings,
    virtual_time: VirtualTime,
    pub(crate) refused: Refused,
    pub(crate) last_look: LastLook,
}

impl<T> Level<T> {
    pub(crate) fn new(name: Arc<str>, queuing: Queuing, limit: u32, now: Instant) -> Self {
        Self {
            virtual_time: VirtualTime::new(&name),
            name,
            queues: Mutex::new(QueueSet::new(queuing, limit, now)),
            timings: LevelTimings::new(now),
            refused: Refused::default(),
            last_look: LastLook::default(),
        }
    }

    /// The queues. What was changed in them is noted by [`Level::change`].
    pub(crate) fn queues(&self) -> MutexGuard<'_, QueueSet<Entry<T>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the queues, and notes what is in them then.
    pub(crate) fn change<R>(&self, now: Instant, change: impl FnOnce(&mut QueueSet<Entry<T>>) -> R) -> R {
        let mut queues = self.queues();
        let outcome = change(&mut queues);
        self.timings.note(&queues.totals, now);
        self.virtual_time.note(queues.progress(), queues.take_dispatch());
        if let Some(entry) = queues.take_without_room() {
            families::without_room(&self.name, &entry.schema.name);
        }
        outcome
    }
}

/// A level with its share of the seats.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    pub(crate) level: Arc<Level<T>>,
    pub(crate) config: LevelConfig,
    pub(crate) limits: LevelLimits,
    pub(crate) demand: Demand,
    /// It is not configured any more, and goes when nothing is in its queues.
    pub(crate) is_leaving: bool,
}

impl<T> Shared<T> {
    /// Gives the level its nominal share of all seats.
    pub(crate) fn set_nominal(&mut self, all_seats: u32, all_shares: f64, is_new: bool) {
        let share = if all_shares > 0.0 { f64::from(self.config.shares) / all_shares } else { 0.0 };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of all seats")]
        let nominal = (f64::from(all_seats) * share).ceil() as u32;
        let lendable = percent(nominal, self.config.lendable_percent);
        let borrowing = self.config.borrowing_percent.map_or(all_seats, |part| percent(nominal, part));
        self.limits.nominal = nominal;
        self.limits.lower = nominal.saturating_sub(lendable);
        self.limits.upper = nominal.saturating_add(borrowing);
        if is_new {
            self.limits.current = nominal - lendable / 2;
        }
    }

    /// Puts the limit to use.
    pub(crate) fn set_current(&mut self, current: u32, all_seats: u32, now: Instant) {
        self.limits.current = current;
        let whole = if current > 0 { current } else { (all_seats / 10).max(1) };
        self.level.timings.set_limits(whole, self.config.most_waiting(), now);
        let queuing = self.config.queuing;
        self.level.change(now, |queues| queues.configure(queuing, current, now));
        show_limits(&self.level.name, self.limits);
    }
}

/// A part of a number, rounded.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of the number")]
fn percent(of: u32, part: u32) -> u32 {
    (f64::from(of) * f64::from(part) / 100.0).round() as u32
}
