//! How much work a request is expected to be, by what is known of what it asks for.

use std::time::Duration;

use crate::work::{SeatSeconds, WorkEstimate};

/// The most seats of any request.
const MOST_SEATS: u32 = 10;
/// Objects that a list goes through, for each seat.
const OBJECTS_PER_SEAT: f64 = 100.0;
/// Bytes that a list goes through, for each seat: a hundred objects of the usual size have less.
const BYTES_PER_SEAT: f64 = 1_048_576.0;
/// Watches that get an event, for each seat.
const WATCHES_PER_SEAT: usize = 10;
/// For how long a watch takes its part of a seat.
const TIME_FOR_EVENT: Duration = Duration::from_millis(5);

/// The most seats of a request in a level, by the level's nominal limit and the hand of its flows: requests
/// that are wide keep a small level from doing anything else.
pub(crate) fn most_seats(nominal: u32, hand: Option<usize>) -> u32 {
    let Some(hand) = hand else { return MOST_SEATS };
    let by_limit = (f64::from(nominal) * 0.15).ceil();
    let by_hand = f64::from(nominal / u32::try_from(hand.max(1)).unwrap_or(1));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and the limit")]
    let most = by_limit.min(by_hand).max(1.0) as u32;
    most.min(MOST_SEATS)
}

/// What a list goes through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The objects under the path of the list.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// `limit`; zero without one.
    pub limit: u64,
    /// Whether a selector leaves some out.
    pub selects: bool,
    /// Whether the list is read from the cache as it is.
    pub from_cache: bool,
}

/// The estimate for a list, or for a watch that begins with all objects.
pub fn list(listed: Listed, most: u32) -> WorkEstimate {
    let limit = match listed.limit {
        0 => listed.objects,
        limit => limit.min(listed.objects),
    };
    let objects = if listed.from_cache {
        listed.objects
    } else if listed.selects {
        listed.objects + limit
    } else {
        2 * limit
    };
    #[allow(clippy::cast_precision_loss, reason = "an estimate")]
    let seats = {
        let share = if listed.objects == 0 { 0.0 } else { objects as f64 / listed.objects as f64 };
        let by_bytes = listed.bytes as f64 * share.min(1.0) / BYTES_PER_SEAT;
        (objects as f64 / OBJECTS_PER_SEAT).max(by_bytes).ceil().clamp(1.0, f64::from(most.max(1)))
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most `most`")]
    WorkEstimate::seats(seats as u32)
}

/// The estimate for a request of which nothing can be found out: it will be refused, or is as wide as any.
pub fn unknown(most: u32) -> WorkEstimate {
    WorkEstimate::seats(most.max(1))
}

/// The estimate for a write whose event some watches get.
pub fn write(watches: usize, most: u32) -> WorkEstimate {
    if watches < WATCHES_PER_SEAT {
        return WorkEstimate::LEAST;
    }
    let wide = u32::try_from(watches.div_ceil(WATCHES_PER_SEAT)).unwrap_or(u32::MAX);
    let work = SeatSeconds::of(f64::from(wide), TIME_FOR_EVENT);
    let final_seats = wide.min(most.max(1));
    let additional_latency = work.duration_for(f64::from(final_seats));
    WorkEstimate { initial_seats: 1, final_seats, additional_latency }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_takes_a_seat_for_a_hundred_objects() {
        let listed = Listed { objects: 450, from_cache: true, ..Listed::default() };
        assert_eq!(list(listed, 10), WorkEstimate::seats(5));
        assert_eq!(list(listed, 3), WorkEstimate::seats(3));
        assert_eq!(list(Listed { from_cache: false, limit: 100, ..listed }, 10), WorkEstimate::seats(2));
        let selected = Listed { from_cache: false, limit: 100, selects: true, ..listed };
        assert_eq!(list(selected, 10), WorkEstimate::seats(6));
        assert_eq!(list(Listed::default(), 10), WorkEstimate::LEAST);
    }

    #[test]
    fn large_objects_take_more_seats() {
        let listed = Listed { objects: 100, bytes: 4 << 20, from_cache: true, ..Listed::default() };
        assert_eq!(list(listed, 10), WorkEstimate::seats(4));
    }

    #[test]
    fn a_write_takes_seats_for_the_watches_that_get_it() {
        assert_eq!(write(9, 10), WorkEstimate::LEAST);
        let wide = write(1_000, 10);
        assert_eq!((wide.initial_seats, wide.final_seats), (1, 10));
        assert_eq!(wide.additional_latency, Duration::from_millis(50));
    }

    #[test]
    fn requests_of_a_small_level_are_narrow() {
        assert_eq!(most_seats(245, Some(6)), 10);
        assert_eq!(most_seats(20, Some(6)), 3);
        assert_eq!(most_seats(1, Some(6)), 1);
    }
}
