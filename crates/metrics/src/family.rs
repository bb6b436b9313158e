//! Families: what is counted, under one name, for sets of label values.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, LazyLock, OnceLock, PoisonError, RwLock};

use xxhash_rust::xxh3::Xxh3Default;

use crate::cell::{Counter, Gauge, Histogram};
use crate::summary::{Summary, SummaryConfig};
use crate::text::Writer;

/// The most cells of a family.
pub const MOST_CELLS: usize = 50_000;

/// The label values of the cell that counts what would be one cell too many.
pub const OVERFLOW: &str = "overflow";

/// The label value that stands for all that are not allowed.
pub const UNEXPECTED: &str = "unexpected";

/// How long a family stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stability {
    /// Nothing is said: families of the process, and of this project.
    Unstated,
    /// It may change in any release.
    Alpha,
    /// It changes with an announcement.
    Beta,
    /// It does not change.
    Stable,
}

impl Stability {
    /// The word for it in the help text; empty if nothing is said.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unstated => "",
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Stable => "STABLE",
        }
    }
}

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// Values by ranges.
    Histogram,
    /// Values by quantiles.
    Summary,
}

impl Kind {
    /// The word for it in the formats.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// What is said of a family.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// The name.
    pub name: &'static str,
    /// What is counted, as one sentence.
    pub help: &'static str,
    /// The type.
    pub kind: Kind,
    /// How long it stays as it is.
    pub stability: Stability,
    /// The release since which it is deprecated, as in `1.27.0`.
    pub deprecated: Option<&'static str>,
    /// Whether its help text calls it experimental, as those over time in the reference do.
    pub is_experimental: bool,
}

/// A family, whatever it counts.
pub trait Family: Sync {
    /// What is said of it.
    fn description(&self) -> Description;

    /// The names of its labels.
    fn labels(&self) -> &[&'static str];

    /// Writes all its samples.
    fn write(&self, out: &mut Writer<'_>);

    /// Allows these values of labels, and no others. Only the first call for a family counts.
    fn allow(&self, allowed: Allowed);

    /// Begins anew: removes all cells. A cell that is in use stays, and counts from zero; a gauge in use
    /// stays as it is.
    fn clear(&self);
}

/// The allowed values of some labels of a family, by the position of the label; `None` allows all.
pub type Allowed = Box<[Option<Vec<String>>]>;

/// The values of the labels of a cell.
type LabelValues<const N: usize> = [Box<str>; N];

/// A hasher for numbers that are hashes already.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {}

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// The cells of one hash; mostly there is one.
type Bucket<const N: usize, C> = Vec<(LabelValues<N>, Arc<C>)>;

/// The cells of a family.
struct Cells<const N: usize, C> {
    by_hash: HashMap<u64, Bucket<N, C>, BuildHasherDefault<Same>>,
    len: usize,
}

impl<const N: usize, C> Default for Cells<N, C> {
    fn default() -> Self {
        Self { by_hash: HashMap::default(), len: 0 }
    }
}

impl<const N: usize, C> Cells<N, C> {
    fn find(&self, hash: u64, values: &[&str; N]) -> Option<&Arc<C>> {
        let is_it =
            |known: &LabelValues<N>| known.iter().zip(values).all(|(known, value)| **known == **value);
        self.by_hash.get(&hash)?.iter().find(|(known, _)| is_it(known)).map(|(_, cell)| cell)
    }
}

fn hash(values: &[&str]) -> u64 {
    let mut hasher = Xxh3Default::new();
    for value in values {
        hasher.update(value.as_bytes());
        hasher.update(&[0xff]);
    }
    hasher.digest()
}

/// The cells of a family, made when they are first asked for.
struct Table<const N: usize, C> {
    cells: LazyLock<RwLock<Cells<N, C>>>,
    allowed: OnceLock<Allowed>,
}

impl<const N: usize, C> Table<N, C> {
    const fn new() -> Self {
        Self { cells: LazyLock::new(RwLock::default), allowed: OnceLock::new() }
    }

    fn with(&self, mut values: [&str; N], new: impl FnOnce([&str; N]) -> C) -> Arc<C> {
        if let Some(allowed) = self.allowed.get() {
            for (value, allowed) in values.iter_mut().zip(allowed.iter()) {
                if allowed.as_ref().is_some_and(|allowed| !allowed.iter().any(|known| known == value)) {
                    *value = UNEXPECTED;
                    crate::meta::count_unexpected();
                }
            }
        }
        let mut key = hash(&values);
        if let Some(cell) = self.cells.read().unwrap_or_else(PoisonError::into_inner).find(key, &values) {
            return Arc::clone(cell);
        }
        let mut cells = self.cells.write().unwrap_or_else(PoisonError::into_inner);
        let is_full = N > 0 && cells.len >= MOST_CELLS;
        if is_full {
            values = [OVERFLOW; N];
            key = hash(&values);
        }
        if let Some(cell) = cells.find(key, &values) {
            return Arc::clone(cell);
        }
        let cell = Arc::new(new(values));
        // The cell of all others is not counted.
        cells.len += usize::from(!is_full);
        cells.by_hash.entry(key).or_default().push((values.map(Box::from), Arc::clone(&cell)));
        cell
    }

    fn remove(&self, values: [&str; N]) {
        let mut cells = self.cells.write().unwrap_or_else(PoisonError::into_inner);
        let key = hash(&values);
        let is_it =
            |known: &LabelValues<N>| known.iter().zip(&values).all(|(known, value)| **known == **value);
        if let Some(bucket) = cells.by_hash.get_mut(&key) {
            let before = bucket.len();
            bucket.retain(|(known, _)| !is_it(known));
            let removed = before - bucket.len();
            cells.len -= removed;
        }
    }

    fn clear(&self, zero: impl Fn(&C)) {
        let mut cells = self.cells.write().unwrap_or_else(PoisonError::into_inner);
        for bucket in cells.by_hash.values_mut() {
            bucket.retain(|(_, cell)| Arc::strong_count(cell) > 1);
            bucket.iter().for_each(|(_, cell)| zero(cell));
        }
        cells.by_hash.retain(|_, bucket| !bucket.is_empty());
        cells.len = cells.by_hash.values().map(Vec::len).sum();
    }

    /// All cells, in the order of their label values, by the names of the labels.
    fn sorted(&self, names: &[&str; N]) -> Vec<(LabelValues<N>, Arc<C>)> {
        let cells = self.cells.read().unwrap_or_else(PoisonError::into_inner);
        let all = cells.by_hash.values().flatten();
        let mut all: Vec<_> = all.map(|(values, cell)| (values.clone(), Arc::clone(cell))).collect();
        drop(cells);
        let mut order: [usize; N] = std::array::from_fn(|index| index);
        order.sort_unstable_by_key(|index| names.get(*index));
        let by_name = |values: &LabelValues<N>, other: &LabelValues<N>| {
            let differing = order.iter().find(|index| values.get(**index) != other.get(**index));
            differing.map_or(std::cmp::Ordering::Equal, |index| values.get(*index).cmp(&other.get(*index)))
        };
        all.sort_by(|(left, _), (right, _)| by_name(left, right));
        all
    }
}

/// What is counted for one set of label values.
pub trait Cell: Send + Sync + 'static {
    /// The type of its families.
    const KIND: Kind;
    /// What a new cell is made with.
    type Config: Copy + Send + Sync;

    /// A new cell.
    fn new(config: Self::Config) -> Self;

    /// Writes its samples.
    fn write(&self, labels: Labels<'_>, out: &mut Writer<'_>);

    /// Begins anew, if it counts.
    fn zero(&self);
}

/// The labels of a cell.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// Their names.
    pub names: &'a [&'static str],
    /// Their values.
    pub values: &'a [Box<str>],
}

impl Cell for Counter {
    const KIND: Kind = Kind::Counter;
    type Config = ();

    fn new((): ()) -> Self {
        Self::default()
    }

    fn write(&self, labels: Labels<'_>, out: &mut Writer<'_>) {
        #[allow(clippy::cast_precision_loss, reason = "samples are floats")]
        out.sample(labels, self.value() as f64);
    }

    fn zero(&self) {
        self.zero();
    }
}

impl Cell for Gauge {
    const KIND: Kind = Kind::Gauge;
    type Config = ();

    fn new((): ()) -> Self {
        Self::default()
    }

    fn write(&self, labels: Labels<'_>, out: &mut Writer<'_>) {
        out.sample(labels, self.value());
    }

    /// It shows what there is.
    fn zero(&self) {}
}

impl Cell for Histogram {
    const KIND: Kind = Kind::Histogram;
    type Config = &'static [f64];

    fn new(bounds: Self::Config) -> Self {
        Self::of(bounds)
    }

    fn write(&self, labels: Labels<'_>, out: &mut Writer<'_>) {
        out.histogram(labels, self.bounds(), &self.counts(), self.sum());
    }

    fn zero(&self) {
        self.zero();
    }
}

/// A family of cells, one for each set of values of its labels.
pub struct Labelled<C: Cell, const N: usize> {
    description: Description,
    labels: [&'static str; N],
    config: C::Config,
    table: Table<N, C>,
}

/// A family of counters.
pub type CounterVec<const N: usize> = Labelled<Counter, N>;
/// A family of gauges.
pub type GaugeVec<const N: usize> = Labelled<Gauge, N>;
/// A family of histograms.
pub type HistogramVec<const N: usize> = Labelled<Histogram, N>;
/// A family of summaries.
pub type SummaryVec<const N: usize> = Labelled<Summary, N>;

impl<const N: usize> CounterVec<N> {
    /// A family of counters: its name, what it counts, how long it stays so, its labels.
    pub const fn new(
        name: &'static str,
        help: &'static str,
        stability: Stability,
        labels: [&'static str; N],
    ) -> Self {
        Self::with_config(name, help, stability, labels, ())
    }
}

impl<const N: usize> GaugeVec<N> {
    /// A family of gauges: its name, what it shows, how long it stays so, its labels.
    pub const fn new(
        name: &'static str,
        help: &'static str,
        stability: Stability,
        labels: [&'static str; N],
    ) -> Self {
        Self::with_config(name, help, stability, labels, ())
    }
}

impl<const N: usize> HistogramVec<N> {
    /// A family of histograms: its name, what it counts, how long it stays so, its labels, and the upper
    /// bounds of its ranges in ascending order.
    pub const fn new(
        name: &'static str,
        help: &'static str,
        stability: Stability,
        labels: [&'static str; N],
        bounds: &'static [f64],
    ) -> Self {
        Self::with_config(name, help, stability, labels, bounds)
    }
}

impl<const N: usize> SummaryVec<N> {
    /// A family of summaries: its name, what it counts, how long it stays so, its labels, and what it shows.
    pub const fn new(
        name: &'static str,
        help: &'static str,
        stability: Stability,
        labels: [&'static str; N],
        config: SummaryConfig,
    ) -> Self {
        Self::with_config(name, help, stability, labels, config)
    }
}

impl<C: Cell, const N: usize> Labelled<C, N> {
    const fn with_config(
        name: &'static str,
        help: &'static str,
        stability: Stability,
        labels: [&'static str; N],
        config: C::Config,
    ) -> Self {
        let kind = C::KIND;
        let description =
            Description { name, help, kind, stability, deprecated: None, is_experimental: false };
        Self { description, labels, config, table: Table::new() }
    }

    /// The family, deprecated since a release, as in `1.27.0`.
    #[must_use]
    pub const fn deprecated_since(self, release: &'static str) -> Self
    where
        C::Config: Copy,
    {
        let mut family = self;
        family.description.deprecated = Some(release);
        family
    }

    /// The cell for these values of the labels.
    pub fn with(&self, values: [&str; N]) -> Arc<C> {
        self.table.with(values, |_| C::new(self.config))
    }

    /// Removes the cell for these values of the labels.
    pub fn remove(&self, values: [&str; N]) {
        self.table.remove(values);
    }
}

impl<C: Cell, const N: usize> Family for Labelled<C, N> {
    fn description(&self) -> Description {
        self.description
    }

    fn labels(&self) -> &[&'static str] {
        &self.labels
    }

    fn write(&self, out: &mut Writer<'_>) {
        if N == 0 {
            self.with([""; N]);
        }
        for (values, cell) in self.table.sorted(&self.labels) {
            cell.write(Labels { names: &self.labels, values: &values }, out);
        }
    }

    fn allow(&self, allowed: Allowed) {
        // The first one counts.
        let _ = self.table.allowed.set(allowed);
    }

    fn clear(&self) {
        self.table.clear(C::zero);
    }
}

/// The cells of several families that count the same work, found by label values at once.
pub struct Bundles<const N: usize, B> {
    table: Table<N, B>,
    new: fn([&str; N]) -> B,
}

impl<const N: usize, B> Bundles<N, B> {
    /// Those that `new` makes for the values of labels.
    pub const fn new(new: fn([&str; N]) -> B) -> Self {
        Self { table: Table::new(), new }
    }

    /// The cells for these values of labels.
    pub fn with(&self, values: [&str; N]) -> Arc<B> {
        self.table.with(values, self.new)
    }

    /// Forgets all, when their families begin anew (`Registry::at_reset`).
    pub fn forget(&self) {
        *self.table.cells.write().unwrap_or_else(PoisonError::into_inner) = Cells::default();
    }
}

impl<const N: usize, B> fmt::Debug for Bundles<N, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundles").finish_non_exhaustive()
    }
}

impl<C: Cell, const N: usize> fmt::Debug for Labelled<C, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Labelled").field("name", &self.description.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_that_are_not_allowed_count_together() {
        static FAMILY: CounterVec<2> = CounterVec::new("f", "", Stability::Alpha, ["a", "b"]);
        FAMILY.allow(Box::new([Some(vec!["x".into(), "y".into()]), None]));
        for values in [["x", "1"], ["z", "1"], ["w", "1"], ["y", "2"]] {
            FAMILY.with(values).inc();
        }
        assert_eq!(FAMILY.with(["x", "1"]).value(), 1);
        assert_eq!(FAMILY.with([UNEXPECTED, "1"]).value(), 2);
    }

    #[test]
    fn cells_past_the_bound_are_one() {
        static FAMILY: CounterVec<1> = CounterVec::new("f", "", Stability::Alpha, ["a"]);
        for number in 0..MOST_CELLS + 10 {
            FAMILY.with([&number.to_string()]).inc();
        }
        assert_eq!(FAMILY.with([OVERFLOW]).value(), 10);
        FAMILY.remove(["7"]);
        FAMILY.with(["one more"]).inc();
        assert_eq!(FAMILY.with(["one more"]).value(), 1);
    }
}
