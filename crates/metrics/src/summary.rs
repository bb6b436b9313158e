//! Summaries: quantiles of what was observed lately.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::cell::add;
use crate::family::{Cell, Kind, Labels};
use crate::text::Writer;

/// What a summary shows.
#[derive(Clone, Copy, Debug)]
pub struct SummaryConfig {
    /// Which quantiles.
    pub quantiles: &'static [f64],
    /// How old the values are that the quantiles are of.
    pub max_age: Duration,
}

/// In how many parts values become too old.
const AGES: usize = 5;
/// How many ranges a factor of two has: each range is at most 3.2 % wide.
const STEPS: usize = 32;
/// The exponents of two that ranges begin and end at: about a microsecond and a quarter of an hour.
const EXPONENTS: std::ops::Range<i32> = -20..10;
const RANGES: usize = (EXPONENTS.end - EXPONENTS.start) as usize * STEPS;

/// Quantiles of the values of late, and the sum and number of all values. A quantile is right to 3.2 %.
#[derive(Debug)]
pub struct Summary {
    config: SummaryConfig,
    begun: Instant,
    ages: [Age; AGES],
    sum: AtomicU64,
    count: AtomicU64,
}

/// The values of one part of the time.
#[derive(Debug)]
struct Age {
    /// The number of the part, plus one; zero without one.
    part: AtomicU64,
    counts: Box<[AtomicU64]>,
}

impl Summary {
    /// Counts a time, in seconds.
    pub fn observe_time(&self, time: Duration) {
        self.observe_at(Instant::now(), time.as_secs_f64());
    }

    fn observe_at(&self, now: Instant, value: f64) {
        add(&self.sum, value);
        self.count.fetch_add(1, Relaxed);
        let part = self.part(now);
        let Some(age) = usize::try_from(part).ok().and_then(|part| self.ages.get(part % AGES)) else {
            return;
        };
        if age.part.swap(part, Relaxed) != part {
            age.counts.iter().for_each(|count| count.store(0, Relaxed));
        }
        if let Some(count) = age.counts.get(range(value)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// The number of the part of the time, plus one.
    fn part(&self, now: Instant) -> u64 {
        let length = (self.config.max_age.as_secs() / AGES as u64).max(1);
        now.saturating_duration_since(self.begun).as_secs() / length + 1
    }

    /// The values of the quantiles; `NaN` without values.
    fn quantiles_at(&self, now: Instant) -> Vec<f64> {
        let part = self.part(now);
        let mut counts = vec![0; RANGES];
        for age in &self.ages {
            let known = age.part.load(Relaxed);
            if known > 0 && known + AGES as u64 > part {
                counts.iter_mut().zip(&age.counts).for_each(|(sum, count)| *sum += count.load(Relaxed));
            }
        }
        let all: u64 = counts.iter().sum();
        let value_of = |quantile: &f64| {
            #[allow(clippy::cast_precision_loss, reason = "a rank within 3 % of the values")]
            let rank = (quantile * all as f64).ceil().max(1.0);
            let mut below = 0;
            let range = counts.iter().position(|count| {
                below += count;
                #[allow(clippy::cast_precision_loss, reason = "a rank within 3 % of the values")]
                let is_there = below as f64 >= rank;
                is_there
            });
            range.map_or(f64::NAN, middle)
        };
        self.config.quantiles.iter().map(value_of).collect()
    }
}

/// The range of a value.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the ranges by its bounds")]
fn range(value: f64) -> usize {
    let exponent = (value.max(f64::MIN_POSITIVE).log2() - f64::from(EXPONENTS.start)) * STEPS as f64;
    exponent.clamp(0.0, (RANGES - 1) as f64) as usize
}

/// The middle of a range.
#[allow(clippy::cast_precision_loss, reason = "a small number")]
fn middle(range: usize) -> f64 {
    ((range as f64 + 0.5) / STEPS as f64 + f64::from(EXPONENTS.start)).exp2()
}

impl Cell for Summary {
    const KIND: Kind = Kind::Summary;
    type Config = SummaryConfig;

    fn new(config: SummaryConfig) -> Self {
        let age = || Age {
            part: AtomicU64::default(),
            counts: (0..RANGES).map(|_| AtomicU64::default()).collect(),
        };
        Self {
            config,
            begun: Instant::now(),
            ages: std::array::from_fn(|_| age()),
            sum: AtomicU64::default(),
            count: AtomicU64::default(),
        }
    }

    fn write(&self, labels: Labels<'_>, out: &mut Writer<'_>) {
        let (sum, count) = (f64::from_bits(self.sum.load(Relaxed)), self.count.load(Relaxed));
        out.summary(labels, self.config.quantiles, &self.quantiles_at(Instant::now()), sum, count);
    }

    fn zero(&self) {
        self.sum.store(0, Relaxed);
        self.count.store(0, Relaxed);
        self.ages.iter().for_each(|age| age.part.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_values_of_late() {
        let config = SummaryConfig { quantiles: &[0.5, 0.9, 0.99], max_age: Duration::from_secs(5 * 3600) };
        let summary = Summary::new(config);
        let begin = summary.begun;
        assert!(summary.quantiles_at(begin).iter().all(|value| value.is_nan()));
        (1..=1000).for_each(|number| summary.observe_at(begin, f64::from(number) / 1000.0));
        for (value, expected) in summary.quantiles_at(begin).iter().zip([0.5, 0.9, 0.99]) {
            assert!((value / expected - 1.0).abs() < 0.032, "{value} for {expected}");
        }
        let later = begin + Duration::from_secs(3 * 3600);
        (0..1000).for_each(|_| summary.observe_at(later, 4.0));
        let median = summary.quantiles_at(begin + Duration::from_secs(6 * 3600))[0];
        assert!((median / 4.0 - 1.0).abs() < 0.032, "{median}");
        assert_eq!(summary.count.load(Relaxed), 2000);
    }

    #[test]
    fn values_out_of_all_ranges_count_in_the_nearest() {
        assert_eq!([range(0.0), range(-1.0), range(1e9)], [0, 0, RANGES - 1]);
    }
}
