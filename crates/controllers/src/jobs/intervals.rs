//! Sets of the indexes of an Indexed job, as the status of a job has them: `1,3-5,7`.

use std::fmt;

/// An interval of indexes, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    first: i64,
    last: i64,
}

/// A set of indexes, as intervals in increasing order with gaps between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Intervals(Vec<Interval>);

impl Intervals {
    /// Reads a text. What cannot be read is passed over, and so are indexes from `completions` on.
    pub(super) fn parse(text: &str, completions: i64) -> Self {
        let mut intervals = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) else { continue };
            if first >= completions {
                break;
            }
            intervals.push(Interval { first, last: last.min(completions - 1) });
        }
        intervals
    }

    /// Adds an interval that does not begin before the last one.
    fn push(&mut self, next: Interval) {
        match self.0.last_mut() {
            Some(last) if next.first <= last.last.saturating_add(1) => last.last = last.last.max(next.last),
            _ => self.0.push(next),
        }
    }

    /// This set and another one.
    #[must_use]
    pub(super) fn merge(&self, other: &Self) -> Self {
        let mut all: Vec<Interval> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_by_key(|interval| interval.first);
        let mut merged = Self::default();
        all.into_iter().for_each(|interval| merged.push(interval));
        merged
    }

    /// How many indexes there are.
    pub(super) fn total(&self) -> i64 {
        self.0.iter().map(|interval| interval.last - interval.first + 1).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, index: i64) -> bool {
        let place = self.0.partition_point(|interval| interval.last < index);
        self.0.get(place).is_some_and(|interval| interval.first <= index)
    }

    /// How many indexes are in both sets.
    pub(super) fn common(&self, other: &Self) -> i64 {
        let (mut own, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut count = 0;
        while let (Some(one), Some(two)) = (own.peek(), others.peek()) {
            count += (one.last.min(two.last) - one.first.max(two.first) + 1).max(0);
            match one.last <= two.last {
                true => drop(own.next()),
                false => drop(others.next()),
            }
        }
        count
    }

    /// The first `count` indexes below `completions` that are not in the set.
    pub(super) fn first_missing(&self, count: usize, completions: i64) -> Vec<i64> {
        let mut missing = Vec::new();
        let mut next = 0;
        for end in self.0.iter().map(Some).chain([None]) {
            let until = end.map_or(completions, |interval| interval.first.min(completions));
            while next < until && missing.len() < count {
                missing.push(next);
                next += 1;
            }
            next = end.map_or(next, |interval| next.max(interval.last + 1));
        }
        missing
    }
}

impl FromIterator<i64> for Intervals {
    fn from_iter<I: IntoIterator<Item = i64>>(indexes: I) -> Self {
        let mut all: Vec<i64> = indexes.into_iter().collect();
        all.sort_unstable();
        let mut intervals = Self::default();
        all.into_iter().for_each(|index| intervals.push(Interval { first: index, last: index }));
        intervals
    }
}

impl fmt::Display for Intervals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, Interval { first, last }) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> Intervals {
        Intervals::parse(text, 100)
    }

    #[test]
    fn indexes_are_read_written_and_counted() {
        for (text, written, total) in [
            ("", "", 0),
            ("1", "1", 1),
            ("0,1", "0,1", 2),
            ("0-2,4,5,7", "0-2,4,5,7", 6),
            ("1,2,3", "1-3", 3),
            ("x,2", "2", 1),
        ] {
            let set = set(text);
            assert_eq!((set.to_string().as_str(), set.total()), (written, total), "{text}");
        }
        assert_eq!(Intervals::parse("1-5,8", 4).to_string(), "1-3");
        assert_eq!(Intervals::parse("1,8", 4).to_string(), "1");
    }

    #[test]
    fn sets_are_merged_and_compared() {
        assert_eq!(set("1-3,7").merge(&set("4,6,9")).to_string(), "1-4,6,7,9");
        assert_eq!(set("0-9").merge(&set("2-3")).to_string(), "0-9");
        assert_eq!(set("0-4,8-9").common(&set("3-8")), 3);
        assert_eq!(set("").common(&set("3-8")), 0);
        let indexes: Intervals = [5, 1, 2, 2].into_iter().collect();
        assert_eq!(indexes.to_string(), "1,2,5");
        assert!(indexes.has(2) && !indexes.has(3) && !indexes.has(6));
    }

    #[test]
    fn first_missing_indexes_are_found() {
        assert_eq!(set("").first_missing(2, 5), [0, 1]);
        assert_eq!(set("0-1,3").first_missing(9, 6), [2, 4, 5]);
        assert_eq!(set("1-50").first_missing(3, 6), [0]);
        assert_eq!(set("0-5").first_missing(3, 6), [0i64; 0]);
    }
}
