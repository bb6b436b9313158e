//! The table of costs: a row for each user, user agent and resource, with sums that decay.
//!
//! 1. There are at most [`MOST_ROWS`] rows. When one more is needed, those that cost least of late give way,
//!    an eighth of all at once, so that giving way costs little. Several of one user become one row of that
//!    user; what is alone goes into one row for all. Nothing of the sums is lost.
//! 2. A sum *of late* halves every [`HALF_LIFE`]. Sums are kept in the measure of a fixed time, by which
//!    later amounts count more: no row has to be touched while nothing is added to it.
//! 3. A row is found by a keyed hash of 64 bits: clients cannot choose names whose rows meet.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hash, Hasher};
use std::ops::AddAssign;
use std::time::{Duration, Instant};

/// The most rows.
pub(crate) const MOST_ROWS: usize = 1_000;

/// How many rows give way at once.
const GIVING_WAY: usize = MOST_ROWS / 8;

/// The time in which a sum of late halves.
pub(crate) const HALF_LIFE: Duration = Duration::from_secs(600);

/// After so many half-lives the sums are changed to the measure of another time, long before they overflow.
const MOST_HALF_LIVES: f64 = 64.0;

/// The most bytes of a name of a user in the table, and of a user agent.
const MOST_OF_USER: usize = 256;
const MOST_OF_AGENT: usize = 64;

/// The user agent and the resource of the row that has several rows of a user.
pub(crate) const SEVERAL: &str = "*";

/// What requests cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Nanoseconds on a worker.
    pub(crate) busy: u64,
    /// Requests.
    pub(crate) requests: u64,
    /// Bytes of bodies that were sent.
    pub(crate) sent_bytes: u64,
    /// Objects that were read by gets and lists.
    pub(crate) read_objects: u64,
    /// Events that were delivered to watches.
    pub(crate) delivered_events: u64,
    /// Responses with the status 429.
    pub(crate) refusals: u64,
}

/// How many sums there are in a row.
const SUMS: usize = 6;

impl Spent {
    fn each(self) -> [u64; SUMS] {
        let Self { busy, requests, sent_bytes, read_objects, delivered_events, refusals } = self;
        [busy, requests, sent_bytes, read_objects, delivered_events, refusals]
    }
}

/// Sums of what requests cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    /// Nanoseconds on a worker.
    pub(crate) busy: f64,
    /// Requests.
    pub(crate) requests: f64,
    /// Bytes of bodies that were sent.
    pub(crate) sent_bytes: f64,
    /// Objects that were read by gets and lists.
    pub(crate) read_objects: f64,
    /// Events that were delivered to watches.
    pub(crate) delivered_events: f64,
    /// Responses with the status 429.
    pub(crate) refusals: f64,
}

impl Sums {
    fn of([busy, requests, sent_bytes, read_objects, delivered_events, refusals]: [f64; SUMS]) -> Self {
        Self { busy, requests, sent_bytes, read_objects, delivered_events, refusals }
    }

    /// The names of the sums, where they are shown.
    pub(crate) const NAMES: [&str; SUMS] =
        ["cpuSeconds", "requests", "sentBytes", "readObjects", "deliveredEvents", "refusals"];

    /// The sums in the order of their names; time is in seconds.
    pub(crate) fn shown(self) -> [f64; SUMS] {
        let Self { busy, requests, sent_bytes, read_objects, delivered_events, refusals } = self;
        [busy / 1e9, requests, sent_bytes, read_objects, delivered_events, refusals]
    }
}

impl AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.busy += other.busy;
        self.requests += other.requests;
        self.sent_bytes += other.sent_bytes;
        self.read_objects += other.read_objects;
        self.delivered_events += other.delivered_events;
        self.refusals += other.refusals;
    }
}

/// The sums of a row: of late, in the measure of the table's time, and since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Weighed {
    late: [f64; SUMS],
    total: [f64; SUMS],
}

impl Weighed {
    #[allow(clippy::cast_precision_loss, reason = "sums that are looked at")]
    fn add(&mut self, spent: Spent, weight: f64) {
        for ((late, total), amount) in self.late.iter_mut().zip(&mut self.total).zip(spent.each()) {
            *late += amount as f64 * weight;
            *total += amount as f64;
        }
    }

    fn join(&mut self, other: &Self) {
        let sums = self.late.iter_mut().chain(&mut self.total);
        for (sum, more) in sums.zip(other.late.iter().chain(&other.total)) {
            *sum += more;
        }
    }

    /// What decides which rows stay: the time on workers.
    fn weight(&self) -> f64 {
        let [busy, ..] = self.late;
        busy
    }
}

/// Who asks for what: the names of a row, of any length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Who<'a> {
    user: &'a str,
    agent: &'a str,
    group: &'a str,
    resource: &'a str,
}

impl<'a> Who<'a> {
    /// The product of a user agent is what comes before its version. Group and resource are those of a kind
    /// that is served, or empty.
    pub(crate) fn new(user: &'a str, agent: &'a str, group: &'a str, resource: &'a str) -> Self {
        let product = agent.split(['/', ' ']).next().unwrap_or_default();
        Self { user: cut(user, MOST_OF_USER), agent: cut(product, MOST_OF_AGENT), group, resource }
    }

    fn several(user: &'a str) -> Self {
        Self { user, agent: SEVERAL, group: "", resource: SEVERAL }
    }

    fn key(self) -> Key {
        let resource = match self.group {
            "" => self.resource.into(),
            group => format!("{group}/{}", self.resource).into(),
        };
        Key { user: self.user.into(), agent: self.agent.into(), resource }
    }
}

/// The beginning of a text.
fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}

/// The names of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    /// The name of the user that the request is made as.
    pub(crate) user: Box<str>,
    /// The product in its user agent.
    pub(crate) agent: Box<str>,
    /// Group and resource, or the resource of the core group; empty for other paths.
    pub(crate) resource: Box<str>,
}

/// A row as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) late: Sums,
    pub(crate) total: Sums,
}

impl Row {
    /// A row without costs.
    pub(crate) fn none(key: Key) -> Self {
        Self { key, late: Sums::default(), total: Sums::default() }
    }
}

/// The whole table as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    /// The rows, the one that costs most of late first.
    pub(crate) rows: Vec<Row>,
    /// What is in no row any more.
    pub(crate) others: Row,
    /// All together.
    pub(crate) all: Row,
}

/// The hash of a number that is a hash.
#[derive(Clone, Copy, Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    rows: HashMap<u64, (Key, Weighed), BuildHasherDefault<Hashed>>,
    hasher: RandomState,
    others: Weighed,
    all: Weighed,
    /// The time at which an amount weighs one.
    epoch: Instant,
}

impl Table {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            rows: HashMap::default(),
            hasher: RandomState::new(),
            others: Weighed::default(),
            all: Weighed::default(),
            epoch: now,
        }
    }

    /// Adds what a request cost.
    pub(crate) fn add(&mut self, who: Who<'_>, spent: Spent, now: Instant) {
        let hash = self.hasher.hash_one(who);
        let weight = self.weight(now);
        self.all.add(spent, weight);
        if let Some((_, sums)) = self.rows.get_mut(&hash) {
            sums.add(spent, weight);
            return;
        }
        if self.rows.len() >= MOST_ROWS {
            self.make_room();
        }
        let mut sums = Weighed::default();
        sums.add(spent, weight);
        self.rows.insert(hash, (who.key(), sums));
    }

    /// How much an amount of this time weighs.
    fn weight(&mut self, now: Instant) -> f64 {
        let halvings = now.saturating_duration_since(self.epoch).div_duration_f64(HALF_LIFE);
        if halvings < MOST_HALF_LIVES {
            return halvings.exp2();
        }
        let factor = (-halvings).exp2();
        let rows = self.rows.values_mut().map(|(_, sums)| sums);
        for sums in rows.chain([&mut self.others, &mut self.all]) {
            sums.late.iter_mut().for_each(|sum| *sum *= factor);
        }
        self.epoch = now;
        1.0
    }

    /// The rows that cost least of late give way.
    fn make_room(&mut self) {
        let mut by_cost: Vec<(f64, u64)> =
            self.rows.iter().map(|(hash, (_, sums))| (sums.weight(), *hash)).collect();
        let place = GIVING_WAY.min(by_cost.len());
        if place < by_cost.len() {
            by_cost.select_nth_unstable_by(place, |a, b| a.0.total_cmp(&b.0));
        }
        by_cost.truncate(place);
        let mut leaving: Vec<(Key, Weighed)> =
            by_cost.iter().filter_map(|(_, hash)| self.rows.remove(hash)).collect();
        leaving.sort_by(|(a, _), (b, _)| a.cmp(b));
        for of_user in leaving.chunk_by(|(a, _), (b, _)| a.user == b.user) {
            let Some((key, _)) = of_user.first() else { continue };
            let several = Who::several(&key.user);
            let hash = self.hasher.hash_one(several);
            let sums = match self.rows.get_mut(&hash) {
                Some((_, sums)) => sums,
                None if of_user.len() > 1 => {
                    let row = self.rows.entry(hash).or_insert_with(|| (several.key(), Weighed::default()));
                    &mut row.1
                }
                None => &mut self.others,
            };
            of_user.iter().for_each(|(_, leaving)| sums.join(leaving));
        }
    }

    /// The rows that cost most of late, at most as many as `most` says.
    pub(crate) fn top(&mut self, most: usize, now: Instant) -> Vec<Row> {
        let factor = self.weight(now).recip();
        let mut rows: Vec<&(Key, Weighed)> = self.rows.values().collect();
        let by_cost = |a: &&(Key, Weighed), b: &&(Key, Weighed)| {
            b.1.weight().total_cmp(&a.1.weight()).then_with(|| a.0.cmp(&b.0))
        };
        if most < rows.len() {
            rows.select_nth_unstable_by(most, by_cost);
            rows.truncate(most);
        }
        rows.sort_by(by_cost);
        rows.into_iter().map(|(key, sums)| shown(key.clone(), sums, factor)).collect()
    }

    /// The whole table.
    pub(crate) fn shown(&mut self, now: Instant) -> Shown {
        let rows = self.top(MOST_ROWS, now);
        let factor = self.weight(now).recip();
        let [others, all] = [&self.others, &self.all].map(|sums| shown(Key::default(), sums, factor));
        Shown { rows, others, all }
    }
}

fn shown(key: Key, sums: &Weighed, factor: f64) -> Row {
    Row { key, late: Sums::of(sums.late.map(|sum| sum * factor)), total: Sums::of(sums.total) }
}

#[cfg(test)]
mod tests;
